//! A small world around a realm that a failover takes back: two units, two conferences, a scheduler and its successor, and
//! a replica. Each step on the realm goes through the real `decide`, `decide_due`, `admits` and `apply`.
//!
//! The replica has all commands up to the step at which it begins to lag; it may become the master at any later step. So
//! a failover loses the end of the master's history, of any length. A server has the streams of its units as well. Time
//! stands still within the life of a master, and goes on at a failover, as the clock that epochs come from does;
//! deadlines are tried one by one, in any order.

use super::unit::{End, Epoch, Report, Told, Unit, Word};
use crate::rig::wish;
use allot_core::conf::conference::{Cause, Conference, State};
use allot_core::conf::request::End as EndOf;
use allot_core::conf::request::{
    AssignmentNotice, Claim, ClientRequest, CopyParams, Create, Report as UnitReport, Request,
    SchedulerRequest, UnitRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::{ConferenceEvent, Event, Realm, Reply, decide, decide_due};
use std::rc::Rc;

pub(crate) const UNITS: [&str; 2] = ["a:1:1", "b:1:1"];
pub(crate) const NUMBERS: [&str; 2] = ["7", "8"];

/// Durations, told apart so that each deadline can be tried by itself.
const CREATE: i64 = 1000;
const RELEASE: i64 = 2000;
const WAIT: i64 = 4000;
const START: i64 = 8000;

/// The time from one failover to the next: no deadline passes by it.
pub(crate) const ERA: i64 = 10;

/// How much of each disturbance may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Failovers to a replica that lags.
    pub(crate) takeovers: u8,
    pub(crate) moves: u8,
    /// Units that are declared down, rightly or not.
    pub(crate) downs: u8,
    /// Creations that units refuse.
    pub(crate) refusals: u8,
    /// Programs that fail for good.
    pub(crate) failures: u8,
    /// Conferences that their manager ends.
    pub(crate) releases: u8,
    /// Reports that arrive late, or twice.
    pub(crate) delays: u8,
    pub(crate) timeouts: u8,
    /// Successors of the scheduler, each of which takes over by `CONF.TERM` and `CONF.RESTART`.
    pub(crate) successors: u8,
    /// Creations that their manager repeats because a failover lost them.
    pub(crate) repeats: u8,
    /// Conferences that are scheduled. The time of their start comes by a timeout.
    pub(crate) schedules: u8,
}

/// A server: what a failover takes back.
#[derive(Clone, Debug)]
pub(crate) struct Redis {
    pub(crate) realm: Rc<Realm>,
    /// What each unit has not read yet.
    pub(crate) streams: [Vec<Told>; 2],
    /// Copies that each unit was told to end, and those of moves that were cancelled: people end them in vain.
    pub(crate) disowned: [Vec<(usize, Epoch)>; 2],
    /// Whether people ended the conference, as the realm says.
    pub(crate) over: [bool; 2],
    /// The latest epoch at which a lost copy came back.
    pub(crate) adopted: [Epoch; 2],
}

/// The true state of a conference. The realm may know another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    /// The epoch of its creation by a manager.
    pub(crate) created: Epoch,
    /// The latest epoch of a CREATE whose copy was open.
    pub(crate) opened: Epoch,
    /// The latest epoch of a CREATE whose copy ended on its unit, because people ended it or it was over.
    pub(crate) ended: Epoch,
    /// The latest epoch at which this master let a unit write.
    pub(crate) wrote: Epoch,
    pub(crate) released: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Small {
    pub(crate) redis: Redis,
    /// The replica, once it lags.
    pub(crate) replica: Option<Redis>,
    pub(crate) units: [Unit; 2],
    pub(crate) truths: [Truth; 2],
    /// Failovers so far.
    pub(crate) era: u8,
    /// The term of the scheduler that was elected last.
    pub(crate) term: u8,
    /// The latest epoch that any master gave out.
    pub(crate) given: Epoch,
    pub(crate) budget: Budget,
    /// What was wrong with the step that led here.
    pub(crate) wrong: Option<String>,
}

pub(crate) fn join(unit: usize) -> Request<'static> {
    let cmu = UNITS[unit].as_bytes();
    Request::Unit(UnitRequest::Join {
        cmu,
        capacity: 2,
        zone: None,
        tags: &[],
        lease: 3_600_000_000,
        machine: None,
    })
}

fn claim(term: u8) -> Request<'static> {
    let leader: &[u8] = if term == 1 { b"scheduler" } else { b"successor" };
    Request::Claim(Claim { term: term.into(), leader, force: false })
}

fn notice(unit: usize, e164: usize, epoch: Epoch) -> AssignmentNotice<'static> {
    let (e164, cmu) = (NUMBERS[e164].as_bytes(), UNITS[unit].as_bytes());
    AssignmentNotice { e164, cmu, epoch: epoch.into() }
}

fn unit_of(cmu: &[u8]) -> usize {
    UNITS.iter().position(|name| name.as_bytes() == cmu).expect("one of the units")
}

fn number_of(e164: &[u8]) -> usize {
    NUMBERS.iter().position(|number| number.as_bytes() == e164).expect("one of the numbers")
}

fn small(epoch: u64) -> Epoch {
    Epoch::try_from(epoch).expect("an epoch of a small world")
}

impl Small {
    /// Two units have joined and reported, and a scheduler leads.
    pub(crate) fn new(budget: Budget) -> Self {
        let settings = Settings {
            licences: 2,
            retry: 1,
            create_timeout: CREATE,
            release_timeout: RELEASE,
            wait_timeout: WAIT,
            // A unit in back-off would only make fewer things happen.
            failures: 100,
            ..Settings::default()
        };
        let redis = Redis {
            realm: Rc::new(Realm::open(settings, 1)),
            streams: Default::default(),
            disowned: Default::default(),
            over: [false; 2],
            adopted: [0; 2],
        };
        let mut world = Self {
            redis,
            replica: None,
            units: Default::default(),
            truths: Default::default(),
            era: 0,
            term: 1,
            given: 0,
            budget,
            wrong: None,
        };
        world.ask(&claim(1));
        for unit in 0..2 {
            world.session(unit, true);
        }
        world
    }

    /// The same after a conference was created on unit a and, with `open`, opened there.
    pub(crate) fn with_a_conference(budget: Budget, open: bool) -> Self {
        let mut world = Self::new(budget);
        world.create(0, false);
        world.read(0);
        if open {
            world.open(0, 0);
            world.arrives(0, (Word::Ack, 0, world.given), false);
        }
        world
    }

    /// The start of a scheduled conference has come, and the replica does not know it.
    pub(crate) fn with_a_start(budget: Budget) -> Self {
        let mut world = Self::new(budget);
        world.create(0, true);
        world.replica = Some(world.redis.clone());
        world.apply(&world.due(0));
        world
    }

    /// The time of the master, in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        1 + ERA * i64::from(self.era)
    }

    pub(crate) fn record(&self, e164: usize) -> Option<&Conference> {
        self.redis.realm.conference_called(NUMBERS[e164].as_bytes())
    }

    pub(crate) fn live(&self, e164: usize) -> Option<&Conference> {
        self.record(e164).filter(|record| record.is_live())
    }

    /// Whether a record says that the conference is open.
    pub(crate) fn is_open(&self, e164: usize) -> bool {
        self.live(e164).is_some_and(|record| record.state == State::Open)
    }

    pub(crate) fn is_wrong(&mut self, wrong: impl FnOnce() -> String) {
        self.wrong.get_or_insert_with(wrong);
    }

    /// The reply, and whether anything changed; `None` for a refusal.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Option<(Reply, bool)> {
        self.ask_at(self.now(), request)
    }

    fn ask_at(&mut self, now: i64, request: &Request<'_>) -> Option<(Reply, bool)> {
        let decision = decide(&self.redis.realm, now, request).ok()?;
        self.apply(&decision.events);
        Some((decision.reply, !decision.events.is_empty()))
    }

    pub(crate) fn apply(&mut self, events: &[Event]) {
        for event in events {
            if let Err(damaged) = self.redis.realm.admits(event) {
                self.is_wrong(|| format!("{event:?} is not admitted: {damaged}"));
                return;
            }
            self.note(event);
            let moves = [0, 1].map(|e164| self.moving(e164));
            let now = self.now();
            Rc::make_mut(&mut self.redis.realm).apply(now, event);
            for (e164, target) in moves.into_iter().enumerate() {
                let is_cancelled =
                    |epoch| self.record(e164).is_none_or(|record| record.epoch != u64::from(epoch));
                if let Some((unit, epoch)) = target.filter(|_| self.moving(e164).is_none())
                    && is_cancelled(epoch)
                {
                    self.redis.disowns(unit, e164, epoch);
                }
            }
        }
        self.deliver();
        for (e164, number) in NUMBERS.iter().enumerate() {
            if self.redis.over[e164] && self.live(e164).is_some() {
                self.is_wrong(|| format!("people ended {number}, and it lives again"));
            }
        }
    }

    /// Notes what an event says about the conferences, before it is applied.
    fn note(&mut self, event: &Event) {
        let Event::Conference { e164, event } = event else {
            if let Event::Created(created) | Event::Scheduled(created) = event {
                self.gives(created.epoch);
                let e164 = number_of(&created.e164);
                self.redis.over[e164] = false;
                self.truths[e164].created = self.given;
            }
            return;
        };
        let e164 = number_of(e164);
        match event {
            ConferenceEvent::Granted { epoch, .. }
            | ConferenceEvent::Started { epoch, .. }
            | ConferenceEvent::Retried { epoch, .. }
            | ConferenceEvent::Moving { epoch, .. }
            | ConferenceEvent::CopyFound { epoch, .. } => self.gives(*epoch),
            ConferenceEvent::Adopted { epoch, .. } => {
                self.gives(*epoch);
                self.redis.adopted[e164] = self.given;
            }
            ConferenceEvent::Ended { cause: Cause::Unit, .. } => {
                self.redis.over[e164] = true;
                if self.truths[e164].ended == 0 {
                    self.is_wrong(|| format!("nobody ended {}, and it ended by people", NUMBERS[e164]));
                }
            }
            ConferenceEvent::Ended { cause: cause @ (Cause::Missing | Cause::Released), .. } => {
                self.is_wrong(|| format!("nobody ended {}, and it ended as {}", NUMBERS[e164], cause.word()));
            }
            _ => {}
        }
    }

    /// The target and the epoch of a move of this conference.
    fn moving(&self, e164: usize) -> Option<(usize, Epoch)> {
        let moving = self.record(e164)?.moving.as_ref()?;
        Some((unit_of(&moving.cmu), small(moving.epoch)))
    }

    fn gives(&mut self, epoch: u64) {
        let (epoch, given) = (small(epoch), self.given);
        if epoch <= given {
            self.is_wrong(|| format!("epoch {epoch} is given out after {given}"));
        }
        self.given = given.max(epoch);
    }

    /// Moves commands from the outbox into the streams.
    fn deliver(&mut self) {
        let mut sent = Vec::new();
        for (stream, lane) in self.redis.realm.outbox().lanes() {
            sent.push((stream.to_vec(), lane.len() as u32));
        }
        if sent.is_empty() {
            return;
        }
        let realm = self.redis.realm.clone();
        for (stream, lane) in realm.outbox().lanes() {
            let Some(unit) = stream.strip_prefix(b"cmd:").map(unit_of) else { continue };
            for message in lane {
                let field = |name: &str| message.get(name.as_bytes()).unwrap_or_default();
                let number = |name: &str| {
                    let text = std::str::from_utf8(field(name)).expect("a number is text");
                    text.parse().expect("a number")
                };
                let epoch = number("epoch");
                let e164 = || number_of(field("e164"));
                let told = match field("event") {
                    b"CREATE" => Told::Create { e164: e164(), epoch },
                    b"EPOCH" => Told::Epoch { e164: e164(), epoch, old: number("old") },
                    b"RELEASE" => {
                        self.redis.disowns(unit, e164(), epoch);
                        Told::Release { e164: e164(), epoch, over: field("over") == b"1" }
                    }
                    b"REPORT" => Told::List,
                    other => panic!("{}", other.escape_ascii()),
                };
                // A message that is repeated before it is read says no more.
                if !self.redis.streams[unit].contains(&told) {
                    self.redis.streams[unit].push(told);
                }
            }
        }
        drop(realm);
        let now = self.now();
        Rc::make_mut(&mut self.redis.realm).apply(now, &Event::Flushed { sent, last_id: (0, 0) });
        for unit in 0..2 {
            self.forget(unit);
        }
    }

    /// Forgets commands at the head of a stream that the unit will ignore in each state that it can reach before
    /// it reads them.
    pub(crate) fn forget(&mut self, unit: usize) {
        while let Some(told) = self.redis.streams[unit].first() {
            let local = &self.units[unit];
            let is_void = match *told {
                Told::Create { epoch, .. } => epoch <= local.highest,
                Told::Release { e164, epoch, .. } => {
                    local.copies[e164].as_ref().is_none_or(|copy| !copy.epochs.contains(&epoch))
                }
                Told::Epoch { .. } | Told::List => false,
            };
            if !is_void {
                break;
            }
            self.redis.streams[unit].remove(0);
        }
    }

    // What clients, schedulers and units do.

    pub(crate) fn create(&mut self, e164: usize, is_scheduled: bool) -> bool {
        let number = NUMBERS[e164];
        let time = is_scheduled.then_some((START, 1_000_000 * START));
        let (start, end) = time.unzip();
        let create = Create { request: Some(number.as_bytes()), start, end, ..wish(number) };
        self.ask(&Request::Client(ClientRequest::Create(create))).is_some_and(|(_, changed)| changed)
    }

    /// A request of the scheduler that the realm takes for its leader, which may be one that was deposed.
    pub(crate) fn schedule(&mut self, request: SchedulerRequest<'_>) -> bool {
        let term = Some(self.redis.realm.leader().0);
        self.ask(&Request::Scheduler { term, request }).is_some_and(|(_, changed)| changed)
    }

    /// The leader recovers all conferences that may be recovered at that time.
    pub(crate) fn recover_at(&mut self, now: i64) -> Option<(Reply, bool)> {
        let term = Some(self.redis.realm.leader().0);
        let request = SchedulerRequest::Recover { count: 100 };
        self.ask_at(now, &Request::Scheduler { term, request })
    }

    /// The scheduler that was elected last claims the realm.
    pub(crate) fn claim(&mut self) -> bool {
        self.ask(&claim(self.term)).is_some_and(|(_, changed)| changed)
    }

    /// The events of deadlines of a conference: as if the time of this one had come before that of any other.
    pub(crate) fn due(&self, e164: usize) -> Vec<Event> {
        let mut found: Vec<Event> = Vec::new();
        for length in [CREATE, RELEASE, WAIT, START] {
            for event in decide_due(&self.redis.realm, self.now() + length, usize::MAX) {
                let event = self.of_now(event);
                let is_own = event.e164() == Some(NUMBERS[e164].as_bytes());
                if is_own && !found.contains(&event) {
                    found.push(event);
                }
            }
        }
        found
    }

    /// An event of a deadline as if its time had come now.
    fn of_now(&self, mut event: Event) -> Event {
        if let Event::Conference { event, .. } = &mut event {
            match event {
                ConferenceEvent::Retried { epoch, .. } | ConferenceEvent::Started { epoch, .. } => {
                    *epoch = (self.redis.realm.last_epoch() + 1).max(self.now() as u64 * 1000);
                }
                ConferenceEvent::Failed { next_retry, .. } => *next_retry = self.now() + 1,
                _ => {}
            }
        }
        event
    }

    /// A unit handles the next message of its stream. Whether there was one.
    pub(crate) fn read(&mut self, unit: usize) -> bool {
        if self.redis.streams[unit].is_empty() {
            return false;
        }
        let told = self.redis.streams[unit].remove(0);
        if told == Told::List {
            self.reports(unit, &self.units[unit].report());
        }
        if let Some((e164, created)) = self.units[unit].handle(told) {
            let truth = &mut self.truths[e164];
            truth.ended = truth.ended.max(created);
        }
        self.forget(unit);
        true
    }

    /// The program of a copy is ready.
    pub(crate) fn open(&mut self, unit: usize, e164: usize) {
        let local = &mut self.units[unit];
        let Some(copy) = &mut local.copies[e164] else { return };
        copy.open = true;
        let (epoch, created) = (copy.epoch(), copy.created());
        // Without a session the next report names the copy.
        if local.has_session {
            local.says(Word::Ack, e164, epoch);
        }
        self.truths[e164].opened = self.truths[e164].opened.max(created);
    }

    pub(crate) fn people_end(&mut self, unit: usize, e164: usize) {
        if let Some(created) = self.units[unit].end(e164) {
            self.truths[e164].ended = self.truths[e164].ended.max(created);
        }
        self.forget(unit);
    }

    /// A copy is gone, and the unit says so.
    pub(crate) fn gives_back(&mut self, unit: usize, e164: usize, word: Word) {
        if let Some(copy) = self.units[unit].copies[e164].take() {
            self.units[unit].says(word, e164, copy.epoch());
        }
        self.forget(unit);
    }

    /// A word of a unit arrives. With `lost` the session breaks before the reply is read. Whether anything changed.
    pub(crate) fn arrives(
        &mut self,
        unit: usize,
        (word, e164, epoch): (Word, usize, Epoch),
        lost: bool,
    ) -> bool {
        let notice = notice(unit, e164, epoch);
        let request = match word {
            Word::Ack => UnitRequest::Ack(notice),
            Word::Nack => UnitRequest::Nack(notice, None),
            Word::Failed => UnitRequest::Failed(notice, None),
            Word::GivenUp => UnitRequest::Ended(notice, EndOf::Released),
        };
        let Some((reply, changed)) = self.ask(&Request::Unit(request)) else { return false };
        let is_released = reply == Reply::Released;
        if lost && !is_released {
            return false;
        }
        if lost {
            self.units[unit].has_session = false;
        } else if is_released {
            self.units[unit].handle(Told::Release { e164, epoch, over: false });
            self.forget(unit);
        }
        changed || is_released
    }

    /// The end of a copy arrives.
    pub(crate) fn end_arrives(&mut self, unit: usize, end: End) -> bool {
        let request = UnitRequest::Ended(notice(unit, end.e164, end.epoch), EndOf::People);
        self.ask(&Request::Unit(request)).is_some_and(|(_, changed)| changed)
    }

    /// A list of a unit arrives. Whether it was taken.
    pub(crate) fn reports(&mut self, unit: usize, report: &Report) -> bool {
        let rows = |rows: &[(usize, Epoch)]| -> Vec<(&'static [u8], u64)> {
            rows.iter().map(|&(e164, epoch)| (NUMBERS[e164].as_bytes(), epoch.into())).collect()
        };
        let params = report.open.iter().map(|&(e164, _)| {
            let number = NUMBERS[e164].as_bytes();
            // No end changes here, so the unit knows the end of the record.
            let end = self.redis.realm.conference_called(number).and_then(|one| one.end);
            CopyParams { e164: number, end, size: 1, priority: 0, request: Some(number) }
        });
        let report = UnitReport {
            cmu: UNITS[unit].as_bytes(),
            highest: report.highest.into(),
            ended: rows(&report.ended),
            starting: rows(&report.starting),
            params: params.collect(),
            list: rows(&report.open),
        };
        self.ask(&Request::Unit(UnitRequest::Report(report))).is_some()
    }

    /// A unit opens a session: it repeats what has ended, joins, and reports. Without `repeats` only the report says
    /// what has ended.
    pub(crate) fn session(&mut self, unit: usize, repeats: bool) {
        self.units[unit].has_session = true;
        for end in self.units[unit].ends.clone() {
            if repeats {
                self.end_arrives(unit, end);
            }
        }
        self.ask(&join(unit));
        self.reports(unit, &self.units[unit].report());
        self.ends_count(unit);
    }

    /// Checks that the conferences that a unit has told to have ended are over, unless a later copy was open.
    fn ends_count(&mut self, unit: usize) {
        for end in self.units[unit].ends.clone() {
            let truth = self.truths[end.e164];
            let own =
                self.units[unit].ends.iter().filter(|own| (own.e164, own.created) == (end.e164, end.created));
            let in_vain =
                own.map(|own| (own.e164, own.epoch)).any(|one| self.redis.disowned[unit].contains(&one));
            let latest = truth.opened.max(self.redis.adopted[end.e164]).max(truth.created);
            if end.created >= latest && !in_vain && self.live(end.e164).is_some() {
                let (number, cmu) = (NUMBERS[end.e164], UNITS[unit]);
                self.is_wrong(|| format!("{number} ended on unit {cmu}, which said so, and it lives"));
            }
        }
    }

    /// The replica becomes the master; all sessions break.
    pub(crate) fn take_over(&mut self) {
        if let Some(replica) = self.replica.take() {
            self.redis = replica;
            self.era += 1;
            self.units.iter_mut().for_each(Unit::loses_its_session);
            self.truths.iter_mut().for_each(|truth| truth.wrote = 0);
            (0..2).for_each(|unit| self.forget(unit));
        }
    }

    /// Notes which epochs may write; what is wrong with that.
    pub(crate) fn writes(&mut self) {
        for (e164, number) in NUMBERS.into_iter().enumerate() {
            let owned = |record: &&Conference| record.owner.is_some();
            let Some(epoch) = self.live(e164).filter(owned).map(|record| small(record.epoch)) else {
                continue;
            };
            let before = self.truths[e164].wrote;
            if epoch < before {
                self.is_wrong(|| format!("epoch {epoch} of {number} may write after {before}"));
            }
            self.truths[e164].wrote = epoch.max(before);
        }
    }
}

impl Redis {
    fn disowns(&mut self, unit: usize, e164: usize, epoch: Epoch) {
        if let Err(place) = self.disowned[unit].binary_search(&(e164, epoch)) {
            self.disowned[unit].insert(place, (e164, epoch));
        }
    }
}
