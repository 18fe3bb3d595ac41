//! Replays a month of use, with and without rebalancing, against the code that decides in
//! the Redis module. The simulation runs in this process, because it must set the time and the clock of Redis cannot
//! be set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io, slice};

use allot_core::account::decide::USUAL_MOVES;
use allot_core::account::place::Share;
use allot_core::account::quality::least_cost;
use allot_core::account::request::{InstanceRequest, ManagerRequest, ModuleSettings, Request};
use allot_core::account::tariff::{Amount, Tariff};
use allot_core::account::{Book, Event, InstanceEvent, Reply, Settings, decide, decide_due};
use anyhow::{Context as _, Error, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;

use super::file::{self, Contents, Limits};
use crate::table::Table;
use allot_runtime::settings::Span;

/// Most picks of an account for one line of the trace.
const PICKS: u64 = 10_000;
/// Instructions per pick; more, if a line would otherwise need too many picks.
const PART: u64 = 20;
/// The start of the simulated month, in milliseconds: any time except 0.
const BEGIN: i64 = 1000;
/// The number of the first line of a trace, after the heading.
const FIRST_LINE: usize = 2;

/// The options of a simulation.
#[derive(Debug, Args)]
pub struct Options {
    /// Use, as a table (CSV) with the columns time (seconds since the month began, rising), module, instance, count;
    /// - is standard input.
    trace: PathBuf,
    /// The accounts, as `allot book export` prints them; - is standard input.
    #[arg(long, value_name = "FILE")]
    accounts: PathBuf,
    /// Interval of rebalancing.
    #[arg(long, default_value = "1h")]
    pub rebalance: Span,
    /// Shortest time between two moves of an account.
    #[arg(long, default_value = "30m")]
    dwell: Span,
    /// Most moves of an account in a day.
    #[arg(long, default_value_t = 2)]
    max_moves: u32,
    /// Length of the month.
    #[arg(long, default_value = "30d")]
    month: Span,
    /// Write the assignments of the rebalanced month to this file, as a table (CSV).
    #[arg(long, value_name = "FILE")]
    assignments: Option<PathBuf>,
}

/// A line of a trace.
#[derive(Debug)]
struct Used {
    time: i64,
    module: String,
    instance: String,
    count: u64,
}

/// The result of a simulated month.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    pub cost: Amount,
    pub moves: usize,
    /// Instructions for which no account was available.
    pub refused: u64,
    /// The assignments of the rebalanced month, if they are to be written.
    assignments: Option<Vec<Assignment>>,
}

/// An account is assigned to an instance: a line of the table of assignments.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// Seconds since the month began.
    time: i64,
    /// The number of the line of the trace that follows. The heading is line 1.
    line: usize,
    account: String,
    module: String,
    instance: String,
}

/// What a month costs, with and without rebalancing.
#[derive(Debug)]
pub struct Comparison {
    /// How many instructions were sent.
    pub instructions: u64,
    /// How many accounts there are.
    pub accounts: usize,
    /// The month without rebalancing.
    pub fixed: Outcomes,
    /// The month with rebalancing.
    pub rebalanced: Outcomes,
    /// The least cost of so many instructions on these accounts.
    pub least: Amount,
}

/// Runs a simulation, and writes the table of assignments if the options name one.
pub fn run(options: &Options) -> Result<Comparison> {
    let path = &options.accounts;
    if path == Path::new("-") && *path == options.trace {
        bail!("the trace and the accounts are not both read from standard input");
    }
    let contents = file::read(open(path)?).with_context(|| path.display().to_string())?;
    if let Some(problem) = contents.problems.first.first() {
        bail!("{}: {problem}; `allot book diff` shows all", path.display());
    }
    let trace = read(&options.trace, &options.month)?;
    let instructions = trace.iter().try_fold(0u64, |sum, used| sum.checked_add(used.count));
    let instructions =
        instructions.with_context(|| format!("{}: its counts are too large", options.trace.display()))?;
    let month = |every| replay(&contents, &trace, options, every);
    let (fixed, rebalanced) = (month(None)?, month(Some(options.rebalance.0.as_millis() as i64))?);
    if let (Some(path), Some(assignments)) = (&options.assignments, &rebalanced.assignments) {
        write(path, assignments).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let tariffs: Vec<Tariff> = contents.accounts.values().map(|line| line.tariff.priced()).collect();
    let least = least_cost(tariffs.iter(), instructions);
    Ok(Comparison { instructions, accounts: tariffs.len(), fixed, rebalanced, least })
}

/// Opens a file, or standard input for `-`.
fn open(path: &Path) -> Result<Box<dyn io::Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(file))
}

fn read(path: &Path, month: &Span) -> Result<Vec<Used>> {
    lines(open(path)?, month).with_context(|| path.display().to_string())
}

/// A line beyond the month is refused, since its use would count for the next month, whose cost is not computed.
fn lines(trace: impl io::Read, month: &Span) -> Result<Vec<Used>> {
    let mut table = Table::open(trace, &["time", "module", "instance", "count"], 4, false)?;
    let mut all: Vec<Used> = Vec::new();
    while let Some(line) = table.advance() {
        let line = line.map_err(Error::msg)?;
        let number = |column: usize| table.get(column).parse::<i64>().ok().filter(|number| *number >= 0);
        let (Some(time), Some(count)) = (number(0), number(3)) else {
            bail!("line {line}: time and count are numbers from 0 on");
        };
        if all.last().is_some_and(|last| last.time > time) {
            bail!("line {line}: time must rise");
        }
        if u128::from(time.unsigned_abs()) * 1000 >= month.0.as_millis() {
            bail!("line {line}: {time} seconds are beyond the month of {month}; see --month");
        }
        let (module, instance) = (table.get(1).to_owned(), table.get(2).to_owned());
        all.push(Used { time, module, instance, count: count.unsigned_abs() });
    }
    Ok(all)
}

fn write(path: &Path, assignments: &[Assignment]) -> Result<()> {
    let mut writer = csv::Writer::from_path(path)?;
    assignments.iter().try_for_each(|assignment| writer.serialize(assignment))?;
    Ok(writer.flush()?)
}

fn share(word: &str) -> Result<Share> {
    Share::parse(word.as_bytes()).with_context(|| format!("share '{word}' must be places or present"))
}

/// A book with a simulated clock.
struct Desk {
    book: Book,
    now: i64,
    /// The number of the line of the trace that is next or being processed.
    line: usize,
    /// `None` if they are not to be written.
    assignments: Option<Vec<Assignment>>,
}

impl Desk {
    fn ask<'a>(&mut self, request: impl Into<Request<'a>>) -> Result<Reply> {
        let request = request.into();
        let decision = decide(&self.book, self.now, &request)
            .map_err(|refusal| anyhow!("the book refuses {request:?}: {refusal:?}"))?;
        decision.events.iter().for_each(|event| self.apply(event));
        Ok(decision.reply)
    }

    fn apply(&mut self, event: &Event) {
        self.book.apply(self.now, event);
        let Some(assignments) = &mut self.assignments else { return };
        // Nobody logs in, so each account is assigned at once.
        let Event::Instance { module, instance, event } = event else { return };
        let accounts = match event {
            InstanceEvent::Assigned { accounts } => accounts.as_slice(),
            InstanceEvent::Shifted { account } => slice::from_ref(account),
            _ => return,
        };
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        assignments.extend(accounts.iter().map(|account| Assignment {
            time: (self.now - BEGIN) / 1000,
            line: self.line,
            account: text(account),
            module: text(module),
            instance: text(instance),
        }));
    }

    /// Runs the book's periodic work up to the current time.
    fn run_periodic_work(&mut self) {
        loop {
            let due = decide_due(&self.book, self.now, usize::MAX);
            if due.is_empty() {
                return;
            }
            due.iter().for_each(|event| self.apply(event));
        }
    }

    /// Spends instructions on the accounts that `ACCOUNT.PICK` gives the instance. Returns the number of instructions
    /// for which no account was available.
    fn send(&mut self, used: &Used) -> Result<u64> {
        let (module, instance) = (used.module.as_bytes(), used.instance.as_bytes());
        let part = PART.max(used.count / PICKS);
        let mut wanted = used.count;
        while wanted > 0 {
            // An instance that has no account gets one.
            self.ask(InstanceRequest::Pick { module, instance, count: 1 })?;
            let id =
                self.book.find_module(module).and_then(|module| self.book.find_instance(module, instance));
            let picked = id.and_then(|id| self.book.instance(id)).map(|instance| self.book.pick(instance, 1));
            let picked = picked.unwrap_or_default();
            let Some(best) = picked.first() else { return Ok(wanted) };
            let (account, epoch, part) = (best.name.clone(), best.epoch, wanted.min(part));
            self.ask(InstanceRequest::Use { account: &account, epoch, count: part as i64 })?;
            wanted -= part;
        }
        Ok(0)
    }
}

fn replay(contents: &Contents, trace: &[Used], options: &Options, every: Option<i64>) -> Result<Outcomes> {
    let settings = Settings {
        dwell: options.dwell.0.as_millis() as i64,
        max_moves: options.max_moves,
        turns: vec![BEGIN + options.month.0.as_millis() as i64],
        ..Settings::default()
    };
    let book = Book::open(settings, BEGIN);
    let assignments = options.assignments.as_ref().and(every).map(|_| Vec::new());
    let mut desk = Desk { book, now: BEGIN, line: FIRST_LINE, assignments };
    let mut instances: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for used in trace {
        instances.entry(&used.module).or_default().insert(&used.instance);
    }
    for (module, line) in &contents.modules {
        let places = instances.get(module.as_str()).map_or(1, BTreeSet::len);
        let settings = &line.settings;
        desk.ask(ManagerRequest::Module(ModuleSettings {
            module: module.as_bytes(),
            department: line.department.as_bytes(),
            instances: places as i64,
            weight: settings.number("weight"),
            reserve: settings.number("reserve"),
            min: settings.number("min"),
            share: settings.share().map(share).transpose()?,
            lend: settings.number("lend"),
            cap: settings.number("cap"),
            need: settings.number("need"),
        }))?;
    }
    for (module, all) in &instances {
        for instance in all {
            let (module, instance) = (module.as_bytes(), instance.as_bytes());
            desk.ask(ManagerRequest::Attach { module, instance })
                .with_context(|| "the trace has a module that the accounts do not have")?;
        }
    }
    for (account, line) in &contents.accounts {
        let (module, accounts) = (Some(line.module.as_bytes()), vec![account.as_bytes()]);
        desk.ask(ManagerRequest::add(module, line.tariff.priced(), accounts.clone()))?;
        if line.limits != Limits::default() {
            let [cap, turn] = [line.limits.cap, line.limits.turn].map(|limit| limit.map(u64::cast_signed));
            desk.ask(ManagerRequest::Limit { cap, turn, accounts })?;
        }
    }
    desk.run_periodic_work();
    let mut outcome = Outcomes::default();
    let mut next = every.map(|every| BEGIN + every);
    for (line, used) in (FIRST_LINE..).zip(trace) {
        desk.line = line;
        let at = BEGIN.saturating_add(used.time.saturating_mul(1000));
        while let (Some(due), Some(every)) = (next, every)
            && due <= at
        {
            desk.now = due;
            desk.run_periodic_work();
            if let Reply::Moves(moves) =
                desk.ask(ManagerRequest::Rebalance { dry_run: false, max_moves: USUAL_MOVES })?
            {
                outcome.moves += moves.len();
            }
            next = Some(due + every);
        }
        desk.now = desk.now.max(at);
        desk.run_periodic_work();
        outcome.refused += desk.send(used)?;
    }
    let month = desk.book.usage_by_department(0);
    outcome.cost = Amount(month.values().map(|usage| usage.cost.0).sum());
    outcome.assignments = desk.assignments;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn arguments() -> Options {
        Options {
            trace: PathBuf::new(),
            accounts: PathBuf::new(),
            rebalance: Span::ms(3_600_000),
            dwell: Span::ms(60_000),
            max_moves: 2,
            month: Span::ms(30 * 24 * 3_600_000),
            assignments: None,
        }
    }

    #[test]
    fn trace_beyond_the_month_is_refused_with_its_line() {
        let with = |time: i64| {
            let text = format!("time,module,instance,count\n0,m,a,1\n{time},m,a,1\n");
            lines(text.as_bytes(), &Span::ms(30 * 24 * 3_600_000)).map(|trace| trace.len())
        };
        assert_eq!(with(30 * 24 * 3600 - 1).unwrap(), 2);
        for time in [30 * 24 * 3600, i64::MAX] {
            let why = with(time).unwrap_err().to_string();
            assert!(why.contains("line 3") && why.contains("--month"), "{why}");
        }
    }

    #[test]
    fn rebalancing_lowers_the_cost_of_an_uneven_month() {
        let mut accounts = "department,module,account,quota,tiers\n".to_owned();
        for number in 0..20 {
            let _ = writeln!(accounts, "d,m,p{number},100,1000:0.5");
        }
        let contents = file::read(accounts.as_bytes()).unwrap();
        // One of two instances does all the work, which exceeds its half of the accounts.
        let used = |time: i64, instance: &str, count| Used {
            time,
            module: "m".into(),
            instance: instance.into(),
            count,
        };
        let trace: Vec<Used> =
            (0..600).flat_map(|hour| [used(hour * 3600, "busy", 3), used(hour * 3600, "idle", 0)]).collect();
        let arguments = arguments();
        let fixed = replay(&contents, &trace, &arguments, None).unwrap();
        let evened = replay(&contents, &trace, &arguments, Some(3_600_000)).unwrap();
        assert_eq!((fixed.cost.to_string().as_str(), fixed.moves, fixed.refused), ("400", 0, 0));
        assert_eq!(evened.refused, 0);
        assert!(evened.cost.0 * 10 <= fixed.cost.0 && evened.moves > 0, "{evened:?}");
        let tariffs: Vec<Tariff> = contents.accounts.values().map(|line| line.tariff.priced()).collect();
        assert_eq!(least_cost(tariffs.iter(), 1800), Amount(0));
    }

    /// The cost of a month as docs/accounts.md describes it, computed without the code of the book: by module, the
    /// number of instructions of each account of each instance.
    fn recounted(
        quota: u64,
        steps: &[(u64, u64)],
        accounts: usize,
        instances: &[&str],
        trace: &[Used],
    ) -> u64 {
        let mut shares: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (place, instance) in instances.iter().enumerate() {
            let share = accounts / instances.len() + usize::from(place < accounts % instances.len());
            shares.insert(instance, vec![0; share]);
        }
        let end = |used: u64| {
            let ends = std::iter::once((quota, 0)).chain(steps.iter().copied());
            let mut open = ends.filter(|&(upto, _)| used < upto);
            open.next().unwrap_or((u64::MAX, steps.last().unwrap().1))
        };
        for line in trace {
            let share = shares.get_mut(line.instance.as_str()).unwrap();
            let (mut left, size) = (line.count, 20.max(line.count / 10_000));
            while left > 0 {
                let part = left.min(size);
                let cheapest = |used: &&mut u64| {
                    let (upto, price) = end(**used);
                    (price, std::cmp::Reverse(upto - **used))
                };
                *share.iter_mut().min_by_key(cheapest).unwrap() += part;
                left -= part;
            }
        }
        let price = |number: u64| if number <= quota { 0 } else { end(number - 1).1 };
        shares.values().flatten().map(|&used| (1..=used).map(price).sum::<u64>()).sum()
    }

    #[test]
    fn cost_of_a_month_is_that_of_an_independent_recount() {
        let mut accounts = "department,module,account,quota,tiers\n".to_owned();
        for number in 0..14 {
            let _ = writeln!(accounts, "d,m,p{number},90,130:1 400:3");
        }
        let contents = file::read(accounts.as_bytes()).unwrap();
        let instances = ["a", "b", "c", "d"];
        let used = |hour: usize| Used {
            time: hour as i64 * 3600,
            module: "m".into(),
            instance: instances[hour * hour % 7 % 4].into(),
            count: (hour * 31 % 57) as u64 + if hour == 77 { 250_000 } else { 0 },
        };
        let trace: Vec<Used> = (0..100).map(used).collect();
        let mut places: Vec<&str> = trace.iter().map(|used| used.instance.as_str()).collect();
        places.sort_unstable();
        places.dedup();
        let arguments = arguments();
        let fixed = replay(&contents, &trace, &arguments, None).unwrap();
        let expected = recounted(90, &[(130, 1), (400, 3)], 14, &places, &trace);
        assert!(places.len() > 2 && expected > 750_000, "{places:?} {expected}");
        assert_eq!(fixed.cost.to_string(), expected.to_string());
    }

    #[test]
    fn an_instance_without_an_account_gets_one_when_it_picks() {
        let accounts = "department,module,account,quota,tiers\nd,m,p1,100,\nd,m,p2,100,\n";
        let contents = file::read(accounts.as_bytes()).unwrap();
        let used = |time: i64, instance: &str| Used {
            time,
            module: "m".into(),
            instance: instance.into(),
            count: 1,
        };
        // Three instances share two accounts. None gives its last.
        let trace: Vec<Used> = ["a", "b", "c"].into_iter().map(|instance| used(0, instance)).collect();
        let month = |contents: &Contents| replay(contents, &trace, &arguments(), None).unwrap().refused;
        assert_eq!(month(&contents), 1);
        let reserve = format!(
            "department,module,account,quota,reserve\n{}",
            "d,m,p1,100,3\nd,m,p2,100,3\nd,m,p3,100,3\n"
        );
        assert_eq!(month(&file::read(reserve.as_bytes()).unwrap()), 0, "from the reserve");
    }
}
