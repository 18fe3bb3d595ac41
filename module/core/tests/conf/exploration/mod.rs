//! What a failover loses is explored, not sampled: every order of events of a small world, to a depth. `world` has what
//! can happen, `unit` the side of the units, `rest` what must be so. The depth is what a few seconds allow; with
//! `ALLOT_SOAK`, what ten minutes allow.
//!
//! What has to stay: what people ended stays ended; no two units have copies of one assignment, and one copy is left when
//! all has arrived; epochs only grow; a plan that is offered is accepted; room agrees with the conferences.

mod bytes;
mod rest;
mod unit;
mod world;

use self::rest::word_of;
use self::unit::{End, Epoch, Unit, Word};
use self::world::{Budget, NUMBERS, Small, UNITS};
use crate::explore::{Limits, World, explore};
use allot_core::conf::request::{ClientRequest, Request, SchedulerRequest};
use std::fmt::{self, Display, Formatter};

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Create(usize),
    Schedule(usize),
    Release(usize),
    Move(usize),
    Down(usize),
    Recover,
    /// A successor is elected, and claims the realm.
    Succeed,
    Restart,
    /// The scheduler claims the realm again after a failover.
    Claim,
    /// A deadline of a conference has passed: the first, or the second.
    Due(usize, usize),
    Lag,
    TakeOver,
    Session(usize),
    /// The same; the `CONF.ENDED` before the report are lost.
    ReportOnly(usize),
    Read(usize),
    Open(usize, usize),
    /// A unit gives back a copy: it refuses it, or its program fails.
    GiveBack(usize, usize),
    PeopleEnd(usize, usize),
    /// A unit makes a report that is delayed.
    MakeReport(usize),
    LateReport(usize),
    Arrives(usize, (Word, usize, Epoch)),
    /// The same, and the session breaks before the reply.
    ReplyLost(usize, (Word, usize, Epoch)),
    EndArrives(usize, End),
}

impl Display for Step {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let word = |word: &Word| match word {
            Word::Ack => "CONF.ACK",
            Word::Nack => "CONF.NACK",
            Word::Failed => "CONF.FAILED",
            Word::GivenUp => "CONF.ENDED RELEASED",
        };
        match self {
            Self::Create(e164) => write!(out, "the manager creates {}", NUMBERS[*e164]),
            Self::Schedule(e164) => write!(out, "the manager schedules {}", NUMBERS[*e164]),
            Self::Release(e164) => write!(out, "the manager ends {}", NUMBERS[*e164]),
            Self::Move(e164) => write!(out, "the scheduler moves {}", NUMBERS[*e164]),
            Self::Down(unit) => write!(out, "the scheduler declares {} down", UNITS[*unit]),
            Self::Recover => write!(out, "the scheduler recovers what waits"),
            Self::Succeed => write!(out, "a successor of the scheduler claims the realm"),
            Self::Restart => write!(out, "the scheduler sends CONF.RESTART"),
            Self::Claim => write!(out, "the scheduler claims the new master's realm"),
            Self::Due(e164, place) => write!(out, "deadline {place} of {} passes", NUMBERS[*e164]),
            Self::Lag => write!(out, "the replica begins to lag"),
            Self::TakeOver => write!(out, "the replica takes over"),
            Self::Session(unit) => write!(out, "{} opens a session: ends, join, report", UNITS[*unit]),
            Self::ReportOnly(unit) => write!(out, "{} opens a session: join, report", UNITS[*unit]),
            Self::Read(unit) => write!(out, "{} handles its next message", UNITS[*unit]),
            Self::Open(unit, e164) => write!(out, "{} has {} open", UNITS[*unit], NUMBERS[*e164]),
            Self::GiveBack(unit, e164) => write!(out, "{} cannot run {}", UNITS[*unit], NUMBERS[*e164]),
            Self::PeopleEnd(unit, e164) => write!(out, "people end {} on {}", NUMBERS[*e164], UNITS[*unit]),
            Self::MakeReport(unit) => write!(out, "{} makes a report, which is delayed", UNITS[*unit]),
            Self::LateReport(unit) => write!(out, "the delayed report of {} arrives", UNITS[*unit]),
            Self::Arrives(unit, (kind, e164, epoch)) => {
                write!(out, "{} {} {} {epoch} arrives", word(kind), NUMBERS[*e164], UNITS[*unit])
            }
            Self::ReplyLost(unit, (kind, e164, epoch)) => {
                let (e164, unit) = (NUMBERS[*e164], UNITS[*unit]);
                write!(out, "{} {e164} {unit} {epoch} arrives, and its reply is lost", word(kind))
            }
            Self::EndArrives(unit, End { e164, epoch, .. }) => {
                write!(out, "CONF.ENDED {} {} {epoch} arrives", NUMBERS[*e164], UNITS[*unit])
            }
        }
    }
}

/// Takes one from what is left; whether there was any.
fn takes(left: &mut u8) -> bool {
    let had = *left > 0;
    *left = left.saturating_sub(1);
    had
}

impl Small {
    fn steps_of(&self, unit: usize, steps: &mut Vec<Step>) {
        let Unit { copies, ends, words, late, has_session, .. } = &self.units[unit];
        for (e164, copy) in copies.iter().enumerate() {
            let Some(copy) = copy else { continue };
            if copy.open {
                steps.push(Step::PeopleEnd(unit, e164));
            } else {
                steps.push(Step::Open(unit, e164));
            }
            if if copy.open { self.budget.failures } else { self.budget.refusals } > 0 {
                steps.push(Step::GiveBack(unit, e164));
            }
        }
        steps.push(Step::Session(unit));
        if !ends.is_empty() {
            steps.push(Step::ReportOnly(unit));
        }
        if !has_session {
            return;
        }
        if !self.redis.streams[unit].is_empty() {
            steps.push(Step::Read(unit));
        }
        steps.extend(words.iter().map(|&word| Step::Arrives(unit, word)));
        let acks = words.iter().filter(|word| word.0 == Word::Ack);
        steps.extend(acks.map(|&word| Step::ReplyLost(unit, word)));
        steps.extend(ends.iter().map(|&end| Step::EndArrives(unit, end)));
        if late.is_some() {
            steps.push(Step::LateReport(unit));
        } else if self.budget.delays > 0 {
            steps.push(Step::MakeReport(unit));
        }
    }

    /// Takes a step. Whether it may have changed anything.
    fn take(&mut self, step: Step) -> bool {
        let budget = &mut self.budget;
        match step {
            Step::Create(e164) => {
                if self.truths[e164].created > 0 {
                    takes(&mut budget.repeats);
                }
                self.create(e164, false)
            }
            Step::Schedule(e164) => takes(&mut budget.schedules) && self.create(e164, true),
            Step::Release(e164) => {
                self.truths[e164].released = true;
                let request = ClientRequest::Release { e164: NUMBERS[e164].as_bytes() };
                takes(&mut budget.releases)
                    && self.ask(&Request::Client(request)).is_some_and(|(_, changed)| changed)
            }
            Step::Move(e164) => {
                let request = SchedulerRequest::Move { e164: NUMBERS[e164].as_bytes(), to: None };
                takes(&mut budget.moves) && self.schedule(request)
            }
            Step::Down(unit) => {
                let request = SchedulerRequest::Down { cmu: UNITS[unit].as_bytes() };
                takes(&mut budget.downs) && self.schedule(request)
            }
            Step::Recover => self.schedule(SchedulerRequest::Recover { count: 100 }),
            Step::Succeed => {
                self.term += 1;
                takes(&mut budget.successors) && self.claim()
            }
            Step::Restart => self.schedule(SchedulerRequest::Restart { live: Vec::new() }),
            Step::Claim => self.claim(),
            Step::Due(e164, place) => {
                let event = self.due(e164).swap_remove(place);
                self.apply(&[event]);
                takes(&mut self.budget.timeouts)
            }
            Step::Lag => {
                self.replica = Some(self.redis.clone());
                takes(&mut budget.takeovers)
            }
            Step::TakeOver => {
                self.take_over();
                true
            }
            Step::Session(unit) | Step::ReportOnly(unit) => {
                self.session(unit, matches!(step, Step::Session(_)));
                true
            }
            Step::Read(unit) => self.read(unit),
            Step::Open(unit, e164) => {
                self.open(unit, e164);
                true
            }
            Step::GiveBack(unit, e164) => {
                let open = self.units[unit].copies[e164].as_ref().is_some_and(|copy| copy.open);
                self.gives_back(unit, e164, word_of(open));
                takes(if open { &mut self.budget.failures } else { &mut self.budget.refusals })
            }
            Step::PeopleEnd(unit, e164) => {
                self.people_end(unit, e164);
                true
            }
            Step::MakeReport(unit) => {
                self.units[unit].late = Some(self.units[unit].report());
                takes(&mut budget.delays)
            }
            Step::LateReport(unit) => {
                self.units[unit].late.take().is_some_and(|late| self.reports(unit, &late))
            }
            Step::Arrives(unit, word) => self.arrives(unit, word, false),
            Step::ReplyLost(unit, word) => self.arrives(unit, word, true),
            Step::EndArrives(unit, end) => self.end_arrives(unit, end),
        }
    }
}

impl World for Small {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let (mut steps, budget) = (Vec::new(), &self.budget);
        for e164 in 0..2 {
            let is_created = self.truths[e164].created > 0;
            if !is_created || budget.repeats > 0 && self.era > 0 && self.record(e164).is_none() {
                steps.push(Step::Create(e164));
            }
            if !is_created && budget.schedules > 0 {
                steps.push(Step::Schedule(e164));
            }
            if budget.releases > 0 && self.live(e164).is_some() {
                steps.push(Step::Release(e164));
            }
            if budget.moves > 0 && self.is_open(e164) {
                steps.push(Step::Move(e164));
            }
            if budget.timeouts > 0 {
                steps.extend((0..self.due(e164).len()).map(|place| Step::Due(e164, place)));
            }
        }
        if budget.downs > 0 {
            steps.extend([Step::Down(0), Step::Down(1)]);
        }
        if self.redis.realm.pending() > 0 {
            steps.push(Step::Recover);
        }
        if budget.successors > 0 {
            steps.push(Step::Succeed);
        }
        if self.term > 1 {
            steps.push(Step::Restart);
        }
        if self.redis.realm.leader().0 < self.term.into() {
            steps.push(Step::Claim);
        }
        if self.replica.is_some() {
            steps.push(Step::TakeOver);
        } else if budget.takeovers > 0 {
            steps.push(Step::Lag);
        }
        (0..2).for_each(|unit| self.steps_of(unit, &mut steps));
        steps
    }

    fn after(&self, step: &Step) -> Option<Self> {
        let mut next = self.clone();
        let changed = next.take(*step);
        next.writes();
        (changed || next.wrong.is_some()).then_some(next)
    }

    fn fault(&self) -> Option<String> {
        self.contradiction()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn decode(bytes: &[u8]) -> Self {
        Self::read_from(bytes)
    }
}

/// Explores from an empty realm, and from realms with a conference; there must be so many states at least.
fn explores(depth: usize, least: usize, budget: Budget) {
    let beginnings = vec![
        ("an empty realm", Small::new(budget)),
        ("7 is creating on a", Small::with_a_conference(budget, false)),
        ("7 is open on a", Small::with_a_conference(budget, true)),
    ];
    let explored = explore(Limits::to(depth), beginnings);
    explored.found_nothing_in(least);
}

#[test]
fn failover_that_loses_the_last_commands_undoes_no_end() {
    explores(8, 30_000, Budget { takeovers: 1, moves: 1, refusals: 1, ..Budget::default() });
}

#[test]
fn failover_amid_units_that_are_declared_down_undoes_no_end() {
    explores(6, 20_000, Budget { takeovers: 1, downs: 1, delays: 1, ..Budget::default() });
}

#[test]
fn failover_amid_schedulers_timeouts_and_failures_undoes_no_end() {
    let budget =
        Budget { takeovers: 1, failures: 1, timeouts: 1, successors: 1, releases: 1, ..Budget::default() };
    explores(5, 5000, budget);
}

#[test]
fn second_failover_undoes_no_end() {
    explores(6, 20_000, Budget { takeovers: 2, moves: 1, downs: 1, repeats: 1, ..Budget::default() });
}

#[test]
fn failover_loses_no_scheduled_conference_and_undoes_no_end_of_one() {
    let budget = Budget { schedules: 1, timeouts: 2, refusals: 1, downs: 1, ..Budget::default() };
    let beginnings = vec![
        ("an empty realm", Small::new(Budget { takeovers: 1, ..budget })),
        ("7 has started, and the replica does not know it", Small::with_a_start(budget)),
    ];
    explore(Limits::to(6), beginnings).found_nothing_in(20_000);
}
