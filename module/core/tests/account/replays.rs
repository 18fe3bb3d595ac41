//! Replays of a month of work: rebalancing leaves no work without an account, and never costs more than an assignment
//! that stays as it is.

use std::collections::BTreeMap;
use std::fmt;

use super::rig::{HOUR, name, tariff};
use super::sessions::Sessions;
use allot_core::account::rebalance::Shift;
use allot_core::account::request::{InstanceRequest, ManagerRequest, ModuleSettings, Request};
use allot_core::account::tariff::{Amount, Tariff};
use allot_core::account::{Book, Event, Reply, Settings, decide, decide_due};

/// Modules, with two instances each.
const MODULES: usize = 6;
const ACCOUNTS: usize = 120;
/// Instructions of one pick.
const PART: u64 = 5;
const BEGIN: i64 = 1000;

/// How instances use their accounts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    /// With `ACCOUNT.PICK` and `ACCOUNT.USE`.
    Commands,
    /// Plain ZooKeeper clients, which use their accounts in turn and report their use.
    Reporting,
    /// Plain ZooKeeper clients that report nothing.
    Silent,
}

/// A month of work.
struct Trace {
    name: &'static str,
    /// Instructions in an hour, by module, place and hour of the month.
    demand: fn(usize, usize, u64) -> u64,
    client: Client,
    /// Whether a server is replaced by one of another name in the middle of the month.
    replaced: bool,
}

/// Each department works from nine to five in its own time zone.
fn office_hours(module: usize, _: usize, hour: u64) -> u64 {
    let local = (hour + 8 * (module as u64 % 3)) % 24;
    if (9..17).contains(&local) { 4 + 3 * (module as u64 % 2) } else { 0 }
}

/// As `office_hours`, on five days of the week. Each department has its own two days off.
fn office_days(module: usize, place: usize, hour: u64) -> u64 {
    let day = (hour / 24 + 2 * module as u64) % 7;
    if day < 5 { 3 * office_hours(module, place, hour) / 2 } else { 0 }
}

/// One module works at night only, and little; the others by day.
fn night_shift(module: usize, place: usize, hour: u64) -> u64 {
    match (module, hour % 24) {
        (0, 0..6) => 1,
        (1.., 8..20) => 2 + module as u64 + place as u64,
        _ => 0,
    }
}

/// One module that did nothing works a lot from this day on.
fn campaign(module: usize, place: usize, hour: u64, day: u64) -> u64 {
    match module {
        0 if hour < day * 24 => 0,
        0 => 12 + place as u64,
        _ => 2,
    }
}

const fn trace(name: &'static str, demand: fn(usize, usize, u64) -> u64) -> Trace {
    Trace { name, demand, client: Client::Commands, replaced: false }
}

const TRACES: [Trace; 8] = [
    trace("office hours in three time zones", office_hours),
    trace("office hours with days off", office_days),
    trace("quiet night shift", night_shift),
    trace("campaign from day 10", |module, place, hour| campaign(module, place, hour, 10)),
    trace("campaign from day 22", |module, place, hour| campaign(module, place, hour, 22)),
    Trace { replaced: true, ..trace("server replaced", night_shift) },
    Trace { client: Client::Reporting, ..trace("ZooKeeper clients, reported use", night_shift) },
    Trace { client: Client::Silent, ..trace("ZooKeeper clients, unreported use", night_shift) },
];

/// What a month came to.
#[derive(Default)]
struct Outcome {
    cost: Amount,
    /// Instructions for which the instance had no account.
    without_account: u64,
    moves: Vec<Shift>,
    /// After the beginning of the month.
    sessions: Sessions,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cost, moves, sessions) = (self.cost, self.moves.len(), self.sessions);
        write!(f, "{cost} with {moves} moves, {sessions:?}, {} without an account", self.without_account)
    }
}

struct Replay {
    book: Book,
    now: i64,
    /// Instructions of each account, counted here as well.
    sent: BTreeMap<Vec<u8>, u64>,
    /// Instructions of each assignment.
    reports: BTreeMap<(String, u64), u64>,
    sessions: Sessions,
}

impl Replay {
    fn ask<'a>(&mut self, request: impl Into<Request<'a>>) -> Reply {
        let decision = decide(&self.book, self.now, &request.into()).unwrap();
        decision.events.iter().for_each(|event| self.apply(event));
        self.settle();
        decision.reply
    }

    fn apply(&mut self, event: &Event) {
        self.sessions.apply(&mut self.book, self.now, event);
    }

    fn settle(&mut self) {
        loop {
            let due = decide_due(&self.book, self.now, usize::MAX);
            if due.is_empty() {
                return;
            }
            due.iter().for_each(|event| self.apply(event));
        }
    }

    fn begin(hours: u64) -> Self {
        let turns = vec![BEGIN + hours as i64 * HOUR];
        let book = Book::open(Settings { turns, ..Settings::default() }, BEGIN);
        let (sent, reports) = (BTreeMap::new(), BTreeMap::new());
        let mut replay = Self { book, now: BEGIN, sent, reports, sessions: Sessions::default() };
        for module in 0..MODULES {
            let (name, instances) = (format!("m{module}"), 2);
            let (module, department) = (name.as_bytes(), &b"d"[..]);
            let settings = ModuleSettings { module, department, instances, ..ModuleSettings::default() };
            replay.ask(ManagerRequest::Module(settings));
            for instance in [&b"a"[..], b"b"] {
                replay.ask(ManagerRequest::Attach { module, instance });
            }
        }
        let names: Vec<String> = (0..ACCOUNTS).map(name).collect();
        let accounts = names.iter().map(String::as_bytes).collect();
        replay.ask(ManagerRequest::add(None, tariff(), accounts));
        replay.sessions = Sessions::default();
        replay
    }

    /// The account with which an instance sends its next instructions, and the epoch of its assignment.
    fn choose(&mut self, module: &[u8], instance: &[u8], client: Client) -> Option<(String, u64)> {
        if client == Client::Commands {
            self.ask(InstanceRequest::Pick { module, instance, count: 1 });
        }
        let id = self.book.find_instance(self.book.find_module(module)?, instance)?;
        let instance = self.book.instance(id)?;
        let chosen = if client == Client::Commands {
            self.book.pick(instance, 1).first().copied()
        } else {
            let own = instance.accounts.iter().filter_map(|&id| self.book.account(id));
            own.min_by_key(|account| self.sent.get(&*account.name).copied().unwrap_or(0))
        };
        chosen.map(|account| (String::from_utf8_lossy(&account.name).into_owned(), account.epoch))
    }

    /// Sends instructions; returns how many found no account.
    fn send(&mut self, module: &[u8], instance: &[u8], mut wanted: u64, client: Client) -> u64 {
        while wanted > 0 {
            let Some((account, epoch)) = self.choose(module, instance, client) else { break };
            let part = wanted.min(PART);
            let total = self.reports.entry((account.clone(), epoch)).or_default();
            *total += part;
            let (total, name, count) = (*total, account.as_bytes(), part as i64);
            match client {
                Client::Commands => drop(self.ask(InstanceRequest::Use { account: name, epoch, count })),
                Client::Reporting => drop(self.ask(InstanceRequest::Report { account: name, epoch, total })),
                Client::Silent => {}
            }
            *self.sent.entry(account.into_bytes()).or_default() += part;
            wanted -= part;
        }
        wanted
    }
}

/// The cost of so many instructions, one by one.
fn recounted(tariff: &Tariff, sent: u64) -> i128 {
    let price = |number: u64| {
        let step = tariff.steps.iter().find(|step| number <= step.upto).or(tariff.steps.last());
        if number <= tariff.quota { 0 } else { step.map_or(0, |step| step.price.0) }
    };
    (1..=sent).map(price).sum()
}

fn month(trace: &Trace, hours: u64, rebalanced: bool) -> Outcome {
    let mut replay = Replay::begin(hours);
    let mut outcome = Outcome::default();
    let mut names = [["a", "b"]; MODULES];
    for hour in 0..hours {
        replay.now = BEGIN + hour as i64 * HOUR;
        replay.settle();
        if trace.replaced && hour == hours / 2 {
            replay.ask(ManagerRequest::Detach { module: b"m1", instance: b"a", grace: 0 });
            replay.ask(ManagerRequest::Attach { module: b"m1", instance: b"c" });
            names[1][0] = "c";
        }
        for (module, instances) in names.iter().enumerate() {
            for (place, instance) in instances.iter().enumerate() {
                let wanted = (trace.demand)(module, place, hour);
                let name = format!("m{module}");
                outcome.without_account +=
                    replay.send(name.as_bytes(), instance.as_bytes(), wanted, trace.client);
            }
        }
        if rebalanced {
            let reply = replay.ask(ManagerRequest::Rebalance { dry_run: false, max_moves: 100 });
            let Reply::Moves(moves) = reply else { panic!("{reply:?}") };
            outcome.moves.extend(moves);
        }
    }
    outcome.sessions = replay.sessions;
    outcome.cost = Amount(replay.sent.values().map(|&sent| recounted(&tariff(), sent)).sum());
    if trace.client != Client::Silent {
        let costs = replay.book.usage_by_department(0);
        let counted: i128 = costs.values().map(|usage| usage.cost.0).sum();
        assert_eq!(outcome.cost.0, counted, "{}: an independent recount", trace.name);
    }
    outcome
}

#[test]
fn rebalancing_never_costs_more_than_a_static_assignment() {
    for trace in &TRACES {
        let [fixed, rebalanced] = [false, true].map(|rebalanced| month(trace, 30 * 24, rebalanced));
        println!("{}: static {fixed}, rebalanced {rebalanced}", trace.name);
        assert_eq!((fixed.without_account, rebalanced.without_account), (0, 0), "{}", trace.name);
        assert!(rebalanced.cost <= fixed.cost, "{}: {rebalanced} against {fixed}", trace.name);
        // Nothing undoes a move, and no move has others follow.
        let expected = fixed.sessions.with_moves(&rebalanced.moves);
        assert_eq!(rebalanced.sessions, expected, "{}: {rebalanced} against {fixed}", trace.name);
    }
}
