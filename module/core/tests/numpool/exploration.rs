//! Leases are explored: every order of events of a small pool, to a depth. Two numbers, two switches, three calls, and a
//! replica that begins to lag at any step and becomes the master at any later one. A call that is live is never without
//! its number, and no other live call has that number. A conference has a number of the pool as well. In one world each
//! call has a deadline, and is renewed; in the other the heartbeats of a switch keep its calls, also over an outage that is
//! longer than their deadlines.
//!
//! A switch lets a call begin when the grant is safe: a replica has it (`WAIT`), or the call was asked for again with the
//! same `LEASE` after the failover. Requests are delayed, lost or doubled: an earlier hangup, and an earlier list of a
//! switch, may arrive at any time.

use super::explore::{Limits, World, explore};
use super::spec::{any, n};
use allot_core::numpool::request::{Call, OfSwitch, Request};
use allot_core::numpool::{Number, Pool, Reply, Settings, decide, decide_due};
use allot_core::shared::codec::{Reader, Writer};
use allot_core::shared::machine::Machine;
use std::fmt::{self, Display, Formatter};

const NUMBERS: [&str; 2] = ["1", "2"];
const CALLS: [&str; 3] = ["c1", "c2", "c3"];
const SWITCHES: [&[u8]; 2] = [b"s1", b"s2"];
/// The switch that carries each call.
const SWITCH_OF: [usize; 3] = [0, 0, 1];
const TTL: i64 = 1000;
/// The token of the conference.
const CONFERENCE: &str = "conference";

/// The true state of a call. The pool may know another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Wanted,
    /// The switch asked for a number, and heard nothing.
    Asked,
    /// The switch knows the number, and waits until a replica has the grant.
    Granted(u8),
    Live(u8),
    /// The switch hung up: the hangup of this number is under way.
    Over(u8),
    /// The switch lost the call, and says nothing.
    Gone,
}

/// A list of a switch that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct List {
    switch: usize,
    /// When the list was made; 0 for none.
    before: i64,
    /// The calls in it, as bits.
    calls: u8,
}

#[derive(Clone, Debug)]
struct Small {
    pool: Pool,
    replica: Option<Pool>,
    calls: [State; 3],
    list: List,
    now: i64,
    takeovers: u8,
    /// Whether heartbeats keep calls, which then have no deadlines.
    beats: bool,
    /// The number of the conference, by the realm on the master and on the replica. A realm is lost with its pool.
    conference: Option<u8>,
    conference_of_replica: Option<u8>,
    wrong: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The call is asked for, perhaps again, and the reply is read.
    Ask(usize),
    /// The same, and the reply is lost.
    AskInVain(usize),
    Begin(usize),
    HangUp(usize),
    Arrives(usize),
    Lose(usize),
    MakeList(usize),
    ListArrives,
    /// All live calls are renewed, and the deadlines of all others pass.
    Expire,
    /// A heartbeat arrives, perhaps late or once more.
    Beat(usize),
    /// Switches with live calls send heartbeats, and the deadlines of all others pass.
    Silence,
    Confer,
    EndConference,
    Unregister(usize),
    Register(usize),
    Lag,
    TakeOver,
}

impl Display for Step {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ask(call) => write!(out, "{} is asked for", CALLS[call]),
            Self::AskInVain(call) => write!(out, "{} is asked for, and the reply is lost", CALLS[call]),
            Self::Begin(call) => write!(out, "a replica has the grant of {}, which begins", CALLS[call]),
            Self::HangUp(call) => write!(out, "{} ends, and its hangup is under way", CALLS[call]),
            Self::Arrives(call) => write!(out, "the hangup of {} arrives", CALLS[call]),
            Self::Lose(call) => write!(out, "the switch loses {}", CALLS[call]),
            Self::MakeList(switch) => write!(out, "switch s{} makes a list of its calls", switch + 1),
            Self::ListArrives => write!(out, "the list arrives: NUMPOOL.RECONCILE"),
            Self::Expire => write!(out, "live calls are renewed, and other leases expire"),
            Self::Beat(switch) => write!(out, "a heartbeat of switch s{} arrives", switch + 1),
            Self::Silence => write!(out, "switches with live calls send heartbeats, and others fall silent"),
            Self::Confer => write!(out, "a conference is created on a number"),
            Self::EndConference => write!(out, "the conference ends"),
            Self::Unregister(switch) => write!(out, "switch s{} unregisters its numbers", switch + 1),
            Self::Register(switch) => write!(out, "switch s{} registers all numbers", switch + 1),
            Self::Lag => write!(out, "the replica begins to lag"),
            Self::TakeOver => write!(out, "the replica takes over"),
        }
    }
}

impl Small {
    fn new(takeovers: u8, beats: bool) -> Self {
        let pool = Pool::new(Settings::default(), 0);
        let calls = [State::Wanted; 3];
        let (replica, list, wrong) = (None, List::default(), None);
        let (conference, conference_of_replica) = (None, None);
        let mut world = Self {
            pool,
            replica,
            calls,
            list,
            now: 1,
            takeovers,
            beats,
            conference,
            conference_of_replica,
            wrong,
        };
        world.ask(&Request::Add(&NUMBERS.map(n)));
        world.register(0);
        world
    }

    /// The reply, and whether anything changed; `None` for a refusal.
    fn ask(&mut self, request: &Request<'_>) -> Option<(Reply, bool)> {
        let decision = decide(&self.pool, self.now, request).ok()?;
        for event in &decision.events {
            if let Err(damaged) = self.pool.admits(event) {
                self.wrong.get_or_insert(format!("{event:?} is not admitted: {damaged}"));
                return None;
            }
            self.pool.apply(self.now, event);
        }
        Some((decision.reply, !decision.events.is_empty()))
    }

    fn register(&mut self, switch: usize) -> bool {
        let (numbers, switch) = (NUMBERS.map(n), Some(SWITCHES[switch]));
        let request = Request::Reg { missing: false, numbers: &numbers, ttl: None, switch };
        self.ask(&request).is_some_and(|(_, changed)| changed)
    }

    /// The number that the pool gives to a call, or gave to it before.
    fn call(&mut self, call: usize) -> Option<(u8, bool)> {
        // Grants and lists are told apart by their times.
        self.now += 1;
        if self.beats {
            self.beat(SWITCH_OF[call]);
        }
        let (ttl, switch) = ((!self.beats).then_some(TTL), Some(SWITCHES[SWITCH_OF[call]]));
        self.number_for(Call { ttl, switch, ..any(CALLS[call]) })
    }

    /// The number that the pool gives, and whether that changed anything.
    fn number_for(&mut self, call: Call<'_>) -> Option<(u8, bool)> {
        let Some((Reply::Lease(record), changed)) = self.ask(&Request::Call(call)) else { return None };
        let number = NUMBERS.iter().position(|number| n(number) == record.number)?;
        Some((number as u8, changed))
    }

    /// A switch sends a heartbeat. Whether the pool takes it.
    fn beat(&mut self, switch: usize) -> bool {
        self.ask(&Request::Beat { switch: SWITCHES[switch], ttl: 2 * TTL }).is_some()
    }

    fn silence(&mut self) -> bool {
        let carries = |switch: usize| self.lives().any(|(call, _)| SWITCH_OF[call] == switch);
        let alive: Vec<usize> = (0..2).filter(|&switch| carries(switch)).collect();
        self.now += TTL / 2;
        for switch in alive {
            if !self.beat(switch) {
                let text = format!("switch s{} is alive, and its heartbeat is refused", switch + 1);
                self.wrong.get_or_insert(text);
            }
        }
        self.now += TTL;
        self.carry_out_deadlines()
    }

    /// Whether any had passed.
    fn carry_out_deadlines(&mut self) -> bool {
        let events = decide_due(&self.pool, self.now, usize::MAX);
        events.iter().for_each(|event| self.pool.apply(self.now, event));
        !events.is_empty()
    }

    fn confer(&mut self) -> bool {
        let number = self.number_for(Call { endless: true, holder: Some(b"realm"), ..any(CONFERENCE) });
        self.conference = number.map(|(number, _)| number);
        self.conference.is_some()
    }

    /// A server takes the pool over after a time that is longer than any deadline, if heartbeats keep calls.
    fn take_over(&mut self) {
        if self.beats {
            self.now += 3 * TTL;
            for event in Machine::take_over(&self.pool) {
                self.pool.apply(self.now, &event);
            }
            self.carry_out_deadlines();
        }
    }

    fn lives(&self) -> impl Iterator<Item = (usize, u8)> {
        let live = |(call, state): (usize, &State)| match *state {
            State::Live(number) => Some((call, number)),
            _ => None,
        };
        self.calls.iter().enumerate().filter_map(live)
    }

    fn number(number: u8) -> Number {
        n(NUMBERS[usize::from(number)])
    }

    fn arrives(&mut self, call: usize, number: u8) -> bool {
        let (number, lease) = (Self::number(number), Some(CALLS[call].as_bytes()));
        let request = Request::HangUp { number, lease, cooldown: None, cause: None };
        self.ask(&request).is_some_and(|(_, changed)| changed)
    }

    fn list_arrives(&mut self) -> bool {
        let List { switch, before, calls } = self.list;
        let leases = (0..3).filter(|call| calls >> call & 1 == 1).map(|call| CALLS[call].as_bytes());
        let leases: Vec<&[u8]> = leases.collect();
        let (switch, before) = (Some(SWITCHES[switch]), Some(before));
        let request = Request::OfSwitch(OfSwitch::Reconcile { switch, before, leases: &leases });
        self.ask(&request).is_some_and(|(_, changed)| changed)
    }

    fn expire(&mut self) -> bool {
        let lives: Vec<(usize, u8)> = self.lives().collect();
        self.now += TTL / 2;
        for (call, number) in lives {
            let (number, lease) = (Self::number(number), CALLS[call].as_bytes());
            if self.ask(&Request::Renew { number, lease, ttl: 2 * TTL }).is_none() {
                self.wrong.get_or_insert(format!("{} is live and is not renewed", CALLS[call]));
            }
        }
        self.now += TTL;
        self.carry_out_deadlines()
    }

    /// Takes a step. Whether it may have changed anything.
    fn take(&mut self, step: Step) -> bool {
        match step {
            Step::Ask(call) => {
                let Some((number, changed)) = self.call(call) else { return false };
                let known = self.calls[call];
                // Without a lag a replica has the grant at once.
                let granted =
                    if self.replica.is_none() { State::Live(number) } else { State::Granted(number) };
                self.calls[call] = granted;
                changed || known != granted
            }
            Step::AskInVain(call) => {
                if self.calls[call] == State::Wanted {
                    self.calls[call] = State::Asked;
                }
                self.call(call).is_some_and(|(_, changed)| changed)
            }
            Step::Begin(call) => {
                // The replica heard of the grant before it began to lag.
                let token = CALLS[call].as_bytes();
                let State::Granted(number) = self.calls[call] else { return false };
                let is_safe = self.replica.as_ref().is_none_or(|replica| replica.has_lease(token, self.now));
                self.calls[call] = State::Live(number);
                is_safe
            }
            Step::HangUp(call) => {
                let (State::Live(number) | State::Granted(number)) = self.calls[call] else { return false };
                self.calls[call] = State::Over(number);
                true
            }
            Step::Arrives(call) => {
                let State::Over(number) = self.calls[call] else { return false };
                self.arrives(call, number)
            }
            Step::Lose(call) => {
                self.calls[call] = State::Gone;
                true
            }
            Step::MakeList(switch) => {
                self.now += 1;
                let named = |call: usize| {
                    let is_own = SWITCH_OF[call] == switch;
                    // A call that was asked for may have a number already.
                    is_own && matches!(self.calls[call], State::Asked | State::Live(_) | State::Granted(_))
                };
                let calls = (0..3).filter(|&call| named(call)).fold(0, |set, call| set | 1 << call);
                self.list = List { switch, before: self.now, calls };
                true
            }
            Step::ListArrives => self.list_arrives(),
            Step::Expire => self.expire(),
            Step::Beat(switch) => self.beat(switch),
            Step::Silence => self.silence(),
            Step::Confer => self.confer(),
            Step::EndConference => {
                let Some(number) = self.conference.take() else { return false };
                let (number, lease) = (Self::number(number), Some(CONFERENCE.as_bytes()));
                let request = Request::HangUp { number, lease, cooldown: None, cause: None };
                self.ask(&request).is_some_and(|(_, changed)| changed)
            }
            Step::Unregister(switch) => self
                .ask(&Request::OfSwitch(OfSwitch::Unreg(SWITCHES[switch])))
                .is_some_and(|(_, changed)| changed),
            Step::Register(switch) => self.register(switch),
            Step::Lag => {
                self.takeovers -= 1;
                self.replica = Some(self.pool.clone());
                self.conference_of_replica = self.conference;
                true
            }
            Step::TakeOver => {
                self.pool = self.replica.take().expect("a replica");
                self.conference = self.conference_of_replica.take();
                self.take_over();
                // Requests to the last master are lost. Grants that were not confirmed are asked for again.
                self.list = List::default();
                for state in &mut self.calls {
                    if let State::Granted(_) = state {
                        *state = State::Asked;
                    }
                }
                true
            }
        }
    }
}

impl World for Small {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (call, state) in self.calls.iter().enumerate() {
            match state {
                State::Wanted | State::Asked => {
                    steps.extend([Step::Ask(call), Step::AskInVain(call), Step::Lose(call)]);
                }
                State::Granted(_) => {
                    let more = [Step::Begin(call), Step::HangUp(call), Step::Lose(call), Step::Ask(call)];
                    steps.extend(more);
                }
                State::Live(_) => steps.extend([Step::HangUp(call), Step::Lose(call), Step::AskInVain(call)]),
                State::Over(_) => steps.push(Step::Arrives(call)),
                State::Gone => {}
            }
        }
        for switch in 0..2 {
            steps.extend([Step::MakeList(switch), Step::Unregister(switch), Step::Register(switch)]);
        }
        if self.beats {
            steps.extend([Step::Beat(0), Step::Beat(1)]);
        }
        if self.replica.is_none() {
            // A replica lags for less than a lease.
            steps.push(if self.beats { Step::Silence } else { Step::Expire });
        }
        steps.push(if self.conference.is_some() { Step::EndConference } else { Step::Confer });
        if self.list.before > 0 {
            steps.push(Step::ListArrives);
        }
        if self.replica.is_some() {
            steps.push(Step::TakeOver);
        } else if self.takeovers > 0 {
            steps.push(Step::Lag);
        }
        steps
    }

    fn after(&self, step: &Step) -> Option<Self> {
        let mut next = self.clone();
        next.take(*step).then_some(next)
    }

    fn fault(&self) -> Option<String> {
        if let Some(wrong) = &self.wrong {
            return Some(wrong.clone());
        }
        if let Err(contradiction) = self.pool.check() {
            return Some(contradiction.to_string());
        }
        if let Some(number) = self.conference {
            let record = self.pool.number_record(Self::number(number), self.now);
            if record.and_then(|record| record.lease).as_deref() != Some(CONFERENCE.as_bytes()) {
                return Some(format!("the conference has lost its number {}", NUMBERS[usize::from(number)]));
            }
        }
        for (call, number) in self.lives() {
            let other = self.lives().find(|&(other, same)| other != call && same == number);
            if let Some((other, _)) = other {
                return Some(format!("{} and {} both have number {number}", CALLS[call], CALLS[other]));
            }
            let mut same = self.clone();
            same.replica = None;
            if same.call(call) != Some((number, false)) {
                return Some(format!("{} is live, and the pool does not know it", CALLS[call]));
            }
        }
        None
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer { bytes: std::mem::take(out) };
        for state in self.calls {
            let (kind, number) = match state {
                State::Wanted => (0, 0),
                State::Asked => (1, 0),
                State::Granted(number) => (2, number),
                State::Live(number) => (3, number),
                State::Over(number) => (4, number),
                State::Gone => (5, 0),
            };
            writer.unsigned(kind);
            writer.unsigned(number.into());
        }
        let List { switch, before, calls } = self.list;
        writer.unsigned(switch as u64);
        writer.signed(before);
        writer.unsigned(calls.into());
        writer.signed(self.now);
        writer.unsigned(self.takeovers.into());
        writer.unsigned(self.beats.into());
        for conference in [self.conference, self.conference_of_replica] {
            writer.unsigned(conference.map_or(0, |number| 1 + u64::from(number)));
        }
        writer.string(&self.pool.encode());
        writer.optional(self.replica.as_ref().map(Pool::encode).as_deref());
        *out = writer.bytes;
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut reader = Reader::new(bytes);
        let calls = [(); 3].map(|()| {
            let (kind, number) = (reader.unsigned().unwrap(), reader.unsigned().unwrap() as u8);
            match kind {
                0 => State::Wanted,
                1 => State::Asked,
                2 => State::Granted(number),
                3 => State::Live(number),
                4 => State::Over(number),
                _ => State::Gone,
            }
        });
        let switch = reader.unsigned().unwrap() as usize;
        let (before, calls_of_list) = (reader.signed().unwrap(), reader.unsigned().unwrap() as u8);
        let list = List { switch, before, calls: calls_of_list };
        let (now, takeovers) = (reader.signed().unwrap(), reader.unsigned().unwrap() as u8);
        let beats = reader.unsigned().unwrap() == 1;
        let [conference, conference_of_replica] =
            [(); 2].map(|()| reader.unsigned().unwrap().checked_sub(1).map(|number| number as u8));
        let pool = |bytes: &[u8]| Pool::decode(bytes).expect("what was encoded is decoded");
        let own = pool(reader.string().unwrap());
        let replica = (reader.byte().unwrap() == 1).then(|| pool(reader.string().unwrap()));
        Self {
            pool: own,
            replica,
            calls,
            list,
            now,
            takeovers,
            beats,
            conference,
            conference_of_replica,
            wrong: None,
        }
    }
}

#[test]
fn live_call_keeps_its_number_after_any_loss_of_a_failover() {
    let begin = vec![
        ("a pool of two free numbers", Small::new(1, false)),
        ("the same, and heartbeats keep calls", Small::new(1, true)),
    ];
    let explored = explore(Limits::to(5), begin);
    explored.found_nothing_in(10_000);
}
