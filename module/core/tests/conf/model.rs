//! A small realm with everything that can be out of step with it: one number that conferences use one after the
//! other, two hosts with two incarnations of their unit each, copies of conferences on them, and commands and words
//! under way. The realm is the real one: every step goes through its `decide`, `decide_due` and `apply`.
//!
//! What is under way is kept as sets that only grow: a command or a word may be handled at once, late, twice, out of
//! order, or never. A unit may report at any time what was so at any earlier time. Time stands still: deadlines are
//! tried one by one, in any order, since who is late is what matters, and not by how much.
//!
//! So the number of states is finite, and `check` visits all of them. What can make no difference any more is left
//! out of a state (`settle`, `essence`): words that can find nothing but 'stale', since epochs are given out once and
//! an assignment that ended stays ended. People may end any copy at any time. A unit that is told RELEASE ends its copy
//! as well, and says that it did so because of that.

mod reduction;

use super::rig::created;
use allot_core::conf::conference::{Cause, State};
use allot_core::conf::event::Events;
use allot_core::conf::request::{
    AssignmentNotice, Claim, ClientRequest, Create, End, Report, Request, SchedulerRequest, UnitRequest,
    WishesRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::unit::{Name, UnitState};
use allot_core::conf::{ConferenceEvent, Event, Realm, UnitEvent, decide, decide_due};
use allot_core::shared::Bytes;
use std::rc::Rc;

/// Who runs what: host a, then host b, two incarnations each.
pub(crate) const UNITS: [&str; 4] = ["a:1:1", "a:1:2", "b:1:1", "b:1:2"];
const E164: &[u8] = b"7";
const NOW: i64 = 1;

/// The epoch before the first: the clock that gives them out is far behind, so they count one by one.
pub(crate) const BASE: u64 = 1_000_000;

/// An epoch as the model counts it.
pub(crate) fn small(epoch: u64) -> u8 {
    u8::try_from(epoch - BASE).expect("an epoch of the model")
}

/// Durations, told apart so that each deadline can be tried by itself.
const CREATE: i64 = 10;
const RELEASE: i64 = 20;
const WAIT: i64 = 40;
const WINDOW: i64 = 80;
const TOMBSTONE: i64 = 160;
const LEASE: i64 = 320;
const END: i64 = 640;

/// A set of epochs.
type Epochs = u8;

/// The true state of a unit, which may differ from its record in the realm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Local {
    /// Its copy of the conference, by the epoch that it knows; 0 without one.
    pub(crate) copy: u8,
    /// The highest epoch whose CREATE or EPOCH it handled.
    highest: u8,
    /// Whether it ever was told to create the conference.
    involved: bool,
    /// Epochs of its copies so far: at any of them a write may still be under way.
    pub(crate) had: Epochs,
    // Commands to it.
    create: Epochs,
    epoch: Epochs,
    release: Epochs,
    /// Whether people ended its last copy.
    people: bool,
    // Its words.
    acks: Epochs,
    nacks: Epochs,
    /// The program of the copy of that epoch failed for good.
    fails: Epochs,
    /// People ended the copy of that epoch.
    ends: Epochs,
    /// It gave up the copy of that epoch, as RELEASE told it.
    given_up: Epochs,
    /// Reports that have the conference, by epoch.
    has: Epochs,
    /// Reports that lack it, by the highest epoch handled.
    lacks: Epochs,
}

/// The realm and what is around it.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Steps that do not change it share it.
    pub(crate) realm: Rc<Realm>,
    pub(crate) locals: [Local; 4],
    /// The highest epoch of a write that was accepted.
    pub(crate) accepted: u8,
    /// Conferences that ended, by the epoch of their creation.
    pub(crate) ended: Epochs,
    /// What was wrong with the step that led here.
    pub(crate) wrong: Option<String>,
}

/// What may happen, and how much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The highest epoch.
    pub(crate) epochs: u8,
    /// Incarnations of each host's unit.
    pub(crate) incarnations: usize,
    /// Whether conferences move.
    pub(crate) moves: bool,
    /// Whether leases run out, units are forgotten, and end times come.
    pub(crate) leases: bool,
    /// Schedulers, one after the other; each but the last is deposed and does not know it. The first leads from the
    /// beginning.
    pub(crate) schedulers: u64,
}

pub(crate) fn bits(set: Epochs) -> impl Iterator<Item = u8> {
    (1..8).filter(move |bit| set >> bit & 1 == 1)
}

impl World {
    pub(crate) fn new(policy: allot_core::conf::state::Policy) -> Self {
        let settings = Settings {
            licences: 1,
            retry: 1,
            create_timeout: CREATE,
            release_timeout: RELEASE,
            wait_timeout: WAIT,
            window: WINDOW,
            tombstone: TOMBSTONE,
            policy,
            // A unit in back-off would only make fewer things happen.
            failures: 100,
            ..Settings::default()
        };
        let mut world = Self {
            realm: Rc::new(Realm::open(settings, NOW)),
            locals: [Local::default(); 4],
            accepted: 0,
            ended: 0,
            wrong: None,
        };
        world.start_epochs();
        world = world.ask(&claim(1)).expect("a scheduler claims the realm");
        for unit in [0, 2] {
            world = world.ask(&join(unit)).expect("a unit joins");
        }
        world
    }

    /// A conference of another number was there before, and is gone.
    fn start_epochs(&mut self) {
        let cmu = Name::from(&b"z:1:1"[..]);
        let e164: Bytes = b"1"[..].into();
        let created = created("1", "z:1:1", BASE);
        let conference = |event| Event::Conference { e164: e164.clone(), event };
        let unit = |event| Event::Unit { cmu: cmu.clone(), event };
        for event in [
            Event::Joined {
                cmu: cmu.clone(),
                capacity: 1,
                zone: None,
                tags: vec![],
                lease: LEASE,
                machine: None,
            },
            Event::Created(Box::new(created)),
            conference(ConferenceEvent::Ended { cause: Cause::Unit, release: false }),
            conference(ConferenceEvent::Removed),
            unit(UnitEvent::Down),
            unit(UnitEvent::Forgotten),
        ] {
            self.realm.admits(&event).unwrap();
            self.change(&event);
        }
        let sent =
            self.realm.outbox().lanes().map(|(stream, lane)| (stream.to_vec(), lane.len() as u32)).collect();
        self.change(&Event::Flushed { sent, last_id: (0, 0) });
        assert_eq!(self.realm.last_epoch(), BASE);
    }

    fn change(&mut self, event: &Event) {
        Rc::make_mut(&mut self.realm).apply(NOW, event);
    }

    pub(crate) fn conference(&self) -> Option<&allot_core::conf::conference::Conference> {
        self.realm.conference_called(E164)
    }

    /// Whether the realm takes a write of details by that unit at that epoch.
    pub(crate) fn takes(&self, unit: usize, epoch: u8) -> bool {
        self.realm.may_write(E164, UNITS[unit].as_bytes(), BASE + u64::from(epoch)).is_ok()
    }

    /// Whether it would, if it only asked who the owner is.
    pub(crate) fn is_owner(&self, unit: usize) -> bool {
        let one = self.conference().filter(|one| one.is_live());
        let owner = one.and_then(|one| one.owner).and_then(|owner| self.realm.unit(owner));
        owner.is_some_and(|owner| *owner.cmu == *UNITS[unit].as_bytes())
    }

    fn ask(&self, request: &Request<'_>) -> Option<Self> {
        let decision = decide(&self.realm, NOW, request).ok()?;
        (!decision.events.is_empty()).then(|| self.after(&decision.events))
    }

    fn after(&self, events: &[Event]) -> Self {
        let mut world = self.clone();
        for event in events {
            if let Err(damaged) = world.realm.admits(event) {
                panic!("{event:?} is not admitted: {damaged} in {self:?}");
            }
            world.check_end(event);
            world.change(event);
        }
        world.deliver();
        world.settle();
        world
    }

    /// A conference ends because people, its manager or time end it, or because it was never open. Neither a unit that
    /// lost its copy or gave it up ends it, nor the end of a copy that has been released.
    fn check_end(&mut self, event: &Event) {
        let released = |cmu: &[u8], epoch: u64| {
            let unit = UNITS.iter().position(|name| name.as_bytes() == cmu);
            unit.is_some_and(|unit| self.locals[unit].release >> small(epoch) & 1 == 1)
        };
        let Event::Conference { event, .. } = event else { return };
        match event {
            ConferenceEvent::Ended { cause: cause @ (Cause::Missing | Cause::Released), .. } => {
                self.wrong.get_or_insert(format!("a conference that nobody ended ends as {}", cause.word()));
            }
            ConferenceEvent::Adopted { cmu, old, .. } if released(cmu, *old) => {
                self.wrong.get_or_insert("a copy is adopted whose unit was told RELEASE".into());
            }
            _ => {}
        }
    }

    /// Takes commands out of the outbox; they are under way from now on.
    fn deliver(&mut self) {
        let mut sent = Vec::new();
        for (stream, lane) in self.realm.outbox().lanes() {
            sent.push((stream.to_vec(), lane.len() as u32));
            let Some(cmu) = stream.strip_prefix(b"cmd:") else { continue };
            let unit = UNITS.iter().position(|name| name.as_bytes() == cmu).expect("one of the units");
            for message in lane {
                let field = |name: &str| {
                    String::from_utf8_lossy(message.get(name.as_bytes()).unwrap_or_default()).into_owned()
                };
                let bit = 1u8 << small(field("epoch").parse::<u64>().unwrap_or(0).max(BASE));
                let local = &mut self.locals[unit];
                match &field("event")[..] {
                    "CREATE" => (local.create, local.involved) = (local.create | bit, true),
                    "EPOCH" => local.epoch |= bit,
                    "RELEASE" => local.release |= bit,
                    _ => {}
                }
            }
        }
        self.change(&Event::Flushed { sent, last_id: (0, 0) });
    }

    /// Everything that can happen next. A unit follows its protocol (docs/conferences.md, Units).
    pub(crate) fn next(&self, bounds: Bounds, tell: impl FnMut(Self)) {
        let mut found = Found { tell, tried: Vec::new(), epochs: bounds.epochs };
        let full = small(self.realm.last_epoch()) >= bounds.epochs;
        for (unit, cmu) in UNITS.iter().map(|cmu| cmu.as_bytes()).enumerate() {
            self.unit_acts(unit, &mut found);
            self.words_arrive(unit, &mut found);
            // A unit that never had anything to do with the conference goes on as it is: nothing tells it from
            // one that went and came back.
            if self.locals[unit & !1].involved && unit % 2 < bounds.incarnations {
                found.ask(self, &join(unit));
            }
            if self.locals[unit].involved {
                found.ask(self, &Request::Scheduler { term: None, request: SchedulerRequest::Down { cmu } });
            }
        }
        found.ask(self, &Request::Client(ClientRequest::Release { e164: E164 }));
        if !full {
            for request in [&b"1"[..], b"2"] {
                found.ask(self, &Request::Client(ClientRequest::Create(create(request))));
            }
            self.recovers(bounds, &mut found);
        }
        self.restarts(bounds, &mut found);
        self.time_passes(bounds, &mut found);
    }

    fn recovers(&self, bounds: Bounds, found: &mut Found<impl FnMut(Self)>) {
        // Schedulers with an older term, and one that never claimed a term (0), send the request too. The realm accepts
        // it only from the leader.
        let leader = self.realm.leader().0;
        for term in 0..=leader {
            let request =
                Request::Scheduler { term: Some(term), request: SchedulerRequest::Recover { count: 1 } };
            // By now every retry time has come.
            let later = decide(&self.realm, NOW + 1, &request);
            if let Ok(decision) = later
                && !decision.events.is_empty()
            {
                assert_eq!(term, leader, "the realm accepts a request of a deposed scheduler");
                found.decided(self, decision.events);
            }
            if bounds.moves {
                found.ask(
                    self,
                    &Request::Scheduler {
                        term: Some(term),
                        request: SchedulerRequest::Move { e164: E164, to: None },
                    },
                );
            }
        }
    }

    fn restarts(&self, bounds: Bounds, found: &mut Found<impl FnMut(Self)>) {
        let leader = self.realm.leader().0;
        if leader < bounds.schedulers {
            found.ask(self, &claim(leader + 1));
        }
        // It finds every unit, or only those of one host; leases of the others decide.
        for live in [&UNITS[..], &UNITS[..2], &UNITS[2..]] {
            let live = live.iter().map(|unit| unit.as_bytes()).collect();
            found.ask(
                self,
                &Request::Scheduler { term: Some(leader), request: SchedulerRequest::Restart { live } },
            );
        }
    }

    /// One thing that is due, of any kind, as if its time had come before that of any other.
    fn time_passes(&self, bounds: Bounds, found: &mut Found<impl FnMut(Self)>) {
        for now in [CREATE, RELEASE, WAIT, WINDOW, TOMBSTONE, LEASE, END] {
            if now >= LEASE && !bounds.leases {
                continue;
            }
            for event in decide_due(&self.realm, NOW + now, usize::MAX) {
                // Who is silent for longer than its lease is not merely suspect.
                let is_tried = match &event {
                    Event::Unit { event: UnitEvent::Lapsed { to: UnitState::Suspect }, .. } => false,
                    Event::Unit { cmu, event: UnitEvent::Lapsed { .. } } => self.is_involved(cmu),
                    Event::Unit { event: UnitEvent::Forgotten, .. } => bounds.leases,
                    _ => true,
                };
                if is_tried {
                    found.decided(self, Events::from_buf([event]));
                }
            }
        }
    }

    fn is_involved(&self, cmu: &[u8]) -> bool {
        let unit = UNITS.iter().position(|name| name.as_bytes() == cmu);
        unit.is_some_and(|unit| self.locals[unit].involved)
    }

    fn with(&self, unit: usize, change: impl FnOnce(&mut Local)) -> Self {
        let mut world = self.clone();
        change(&mut world.locals[unit]);
        world.settle();
        world
    }

    /// What a unit does: it handles a command, people end its conference, it makes a report.
    fn unit_acts(&self, unit: usize, found: &mut Found<impl FnMut(Self)>) {
        let local = self.locals[unit];
        let news = |set: Epochs| bits(set).filter(move |&epoch| epoch > local.highest);
        for epoch in news(local.create) {
            found.state(self.with(unit, |local| {
                (local.copy, local.highest, local.people) = (epoch, epoch, false);
                local.had |= 1 << epoch;
                local.acks |= 1 << epoch;
            }));
            found.state(self.with(unit, |local| {
                // It has no room, or its media fails; an older copy would be ended as well.
                (local.copy, local.highest, local.people) = (0, epoch, false);
                local.nacks |= 1 << epoch;
            }));
        }
        for epoch in news(local.epoch) {
            found.state(self.with(unit, |local| {
                local.highest = epoch;
                if local.copy == 0 && local.people {
                    local.ends |= 1 << epoch;
                } else if local.copy == 0 {
                    local.given_up |= 1 << epoch;
                } else {
                    local.copy = epoch;
                    local.had |= 1 << epoch;
                }
            }));
        }
        if local.copy != 0 {
            found.state(self.with(unit, |local| {
                local.ends |= 1 << local.copy;
                (local.copy, local.people) = (0, true);
            }));
        }
        if local.copy != 0 {
            found.state(self.with(unit, |local| {
                local.fails |= 1 << local.copy;
                (local.copy, local.people) = (0, false);
            }));
        }
        if local.copy != 0 && local.release >> local.copy & 1 == 1 {
            found.state(self.with(unit, |local| {
                local.given_up |= 1 << local.copy;
                (local.copy, local.people) = (0, false);
            }));
        }
    }

    /// What a unit once said reaches the realm.
    fn words_arrive(&self, unit: usize, found: &mut Found<impl FnMut(Self)>) {
        let local = self.locals[unit];
        let cmu = UNITS[unit].as_bytes();
        let word = |epoch: u8| AssignmentNotice { e164: E164, cmu, epoch: BASE + u64::from(epoch) };
        let row = |epoch: u8| (E164, BASE + u64::from(epoch));
        for epoch in bits(local.acks) {
            found.ask(self, &Request::Unit(UnitRequest::Ack(word(epoch))));
        }
        for epoch in bits(local.nacks) {
            found.ask(self, &Request::Unit(UnitRequest::Nack(word(epoch), None)));
        }
        for epoch in bits(local.fails) {
            found.ask(self, &Request::Unit(UnitRequest::Failed(word(epoch), None)));
        }
        for epoch in bits(local.ends) {
            found.ask(self, &Request::Unit(UnitRequest::Ended(word(epoch), End::People)));
        }
        for epoch in bits(local.given_up) {
            found.ask(self, &Request::Unit(UnitRequest::Ended(word(epoch), End::Released)));
        }
        // A unit names all that people ended; that it names nothing is what a unit does that was started again.
        let ended: Vec<(&[u8], u64)> = bits(local.ends).map(row).collect();
        for copy in bits(local.has) {
            let highest = BASE + u64::from(copy);
            let report = Report {
                cmu,
                highest,
                ended: vec![],
                starting: vec![],
                params: vec![],
                list: vec![row(copy)],
            };
            found.ask(self, &Request::Unit(UnitRequest::Report(report)));
        }
        for highest in (0..8u8).filter(|bit| local.lacks >> bit & 1 == 1) {
            let highest = BASE + u64::from(highest);
            for ended in [vec![], ended.clone()] {
                found.ask(
                    self,
                    &Request::Unit(UnitRequest::Report(Report {
                        cmu,
                        highest,
                        ended,
                        starting: vec![],
                        params: vec![],
                        list: vec![],
                    })),
                );
            }
        }
    }

    /// Whether some unit has it or none, the conference can be brought to its end and be forgotten: its manager
    /// releases it, and time passes.
    pub(crate) fn can_end(&self) -> bool {
        let mut realm = Realm::clone(&self.realm);
        let mut now = NOW;
        if let Ok(decision) = decide(&realm, now, &Request::Client(ClientRequest::Release { e164: E164 })) {
            decision.events.iter().for_each(|event| realm.apply(now, event));
        }
        for _ in 0..4 {
            now += 1000;
            for event in decide_due(&realm, now, usize::MAX) {
                realm.apply(now, &event);
            }
        }
        realm.conference_called(E164).is_none() && realm.licences_used() == 0
    }

    /// Whether time alone ends the present state, unless that is open, which may last.
    pub(crate) fn time_goes_on(&self) -> bool {
        let Some(one) = self.conference() else { return true };
        if one.state == State::Open && one.moving.is_none() && one.ending.is_none() {
            return true;
        }
        let events = decide_due(&self.realm, NOW + 1000, usize::MAX);
        events.iter().any(|event| event.e164().is_some())
    }
}

/// Who is told of the states that can come next. Different requests can have the same effect, as can the same request
/// at different times: their state is told once.
struct Found<F> {
    tell: F,
    tried: Vec<Events>,
    /// The highest epoch. A step that assigns a higher one is not followed; an adoption may be such a step.
    epochs: u8,
}

impl<F: FnMut(World)> Found<F> {
    fn state(&mut self, world: World) {
        (self.tell)(world);
    }

    fn decided(&mut self, from: &World, events: Events) {
        if !events.is_empty() && !self.tried.contains(&events) {
            let world = from.after(&events);
            if world.wrong.is_some() || small(world.realm.last_epoch()) <= self.epochs {
                (self.tell)(world);
            }
            self.tried.push(events);
        }
    }

    fn ask(&mut self, from: &World, request: &Request<'_>) {
        if let Ok(decision) = decide(&from.realm, NOW, request) {
            self.decided(from, decision.events);
        }
    }
}

fn join(unit: usize) -> Request<'static> {
    Request::Unit(UnitRequest::Join {
        cmu: UNITS[unit].as_bytes(),
        capacity: 1,
        zone: None,
        tags: &[],
        lease: LEASE,
        machine: None,
    })
}

/// The scheduler with that term takes over.
fn claim(term: u64) -> Request<'static> {
    Request::Claim(Claim { term, leader: b"scheduler", force: false })
}

fn create(request: &[u8]) -> Create<'_> {
    Create {
        e164: E164,
        start: None,
        end: Some(NOW + END),
        size: 1,
        licences: 1,
        priority: 0,
        wishes: WishesRequest::default(),
        recoverable: true,
        waits: false,
        request: Some(request),
        called_from: None,
    }
}
