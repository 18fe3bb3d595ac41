//! What must always hold for conferences. Each step of the master, and each write that reaches the replica, is checked for
//! the conferences that it changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use allot_core::account::Book;
use allot_core::conf::conference::{Cause, Conference};
use allot_core::conf::unit::{Unit, host_of};
use allot_core::conf::{Event, Realm, UnitEvent};
use allot_core::shared::Bytes;
use allot_core::shared::machine::MachineEvent as _;

use super::clock;
use allotd::roles::media_unit::simulated;

/// The event of a write of details.
const DETAILS_EVENT: &str = "set";

/// What a write changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Touched {
    /// Conferences, each with the name of the event.
    conferences: Vec<(Bytes, &'static str)>,
    /// Whether conferences may have changed that no event names.
    pub(super) all: bool,
    /// Whether a unit may take more than before this step.
    units: bool,
    /// What happened to units and schedulers, for people.
    notes: Vec<String>,
}

impl Touched {
    /// Adds what an event changes.
    pub(super) fn add(&mut self, event: &Event) {
        if let Some(e164) = event.e164() {
            self.conferences.push((e164.into(), event.name()));
            return;
        }
        self.units |= !matches!(event, Event::Unit { event: UnitEvent::Failed, .. });
        let note = match event {
            Event::Joined { cmu, .. } => format!("{} joins", name(cmu)),
            Event::Unit { cmu, event: UnitEvent::Down } => format!("{} is down", name(cmu)),
            Event::Restarted { gone } => format!("a scheduler begins; {} units are down", gone.len()),
            Event::Claimed { leader, term } => format!("{} claims term {term}", name(leader)),
            _ => return,
        };
        self.notes.push(note);
        self.all |= !matches!(event, Event::Claimed { .. });
    }

    fn of<'a>(&self, realm: &'a Realm) -> Vec<&'a Conference> {
        if self.all {
            return live(realm).collect();
        }
        self.conferences.iter().filter_map(|(e164, _)| realm.conference_called(e164)).collect()
    }
}

/// What a run knows about its conferences, and what was wrong with them. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Observer(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// By their names. Each step looks for the conferences that it has changed.
    conferences: HashMap<Vec<u8>, Record>,
    /// Whether conferences or units have changed since the indexes of the realm were checked.
    is_unchecked: bool,
    violations: Vec<String>,
    /// The history of the run: time, conference if it is about one, and what happened.
    history: Vec<(u64, Option<Bytes>, String)>,
}

/// What a run knows about a conference.
#[derive(Default)]
struct Record {
    /// Its epoch; `None` if it does not live.
    epoch: Option<u64>,
    /// Which unit got it at which epoch, on the present master or one before.
    owners: BTreeMap<u64, Vec<u8>>,
    /// Whether operators have released it, or people ended it. If not, it must live.
    released: bool,
    /// Whether a replica has had it open. It must outlive a failover.
    confirmed: bool,
    /// Whether a replica has had its end. It must not live again.
    ended: bool,
    /// Its planned end and its size, since a manager last changed one of them; `None` if this may be lost.
    kept: Option<Kept>,
}

/// The planned end and the size of a conference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    end: Option<i64>,
    size: u32,
    /// Whether a replica has had them.
    confirmed: bool,
}

impl Kept {
    fn is_of(self, conference: &Conference) -> bool {
        (self.end, self.size) == (conference.end, conference.size)
    }
}

impl Observer {
    fn with<T>(&self, act: impl FnOnce(&mut Known) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The epochs of the conferences that live.
    pub(super) fn epochs(&self) -> BTreeMap<Vec<u8>, u64> {
        self.with(|known| {
            let live = known.conferences.iter();
            live.filter_map(|(e164, record)| Some((e164.clone(), record.epoch?))).collect()
        })
    }

    /// From now on this conference may end.
    pub(super) fn may_end(&self, e164: &[u8]) {
        self.with(|known| known.update(e164, |record| record.released = true));
    }

    /// A manager has created this conference, or changed its end or its size.
    pub(super) fn keeps(&self, conference: &Conference) {
        let (end, size) = (conference.end, conference.size);
        let kept = Some(Kept { end, size, confirmed: false });
        self.with(|known| known.update(&conference.e164, |record| record.kept = kept));
    }

    /// A manager changes the end or the size of this conference: until `keeps` is called, both may be others.
    pub(super) fn may_change(&self, e164: &[u8]) -> Option<Kept> {
        self.with(|known| {
            let mut kept = None;
            known.update(e164, |record| kept = record.kept.take());
            kept
        })
    }

    /// The manager was refused.
    pub(super) fn has_not_changed(&self, e164: &[u8], kept: Option<Kept>) {
        self.with(|known| known.update(e164, |record| record.kept = kept));
    }

    /// Something is wrong.
    pub(super) fn violated(&self, what: String) {
        self.note(format!("wrong: {}", what.lines().next().unwrap_or_default()));
        self.with(|known| known.violations.push(what));
    }

    /// Adds a line to the history of the run.
    pub(super) fn note(&self, what: String) {
        self.with(|known| known.note(None, what));
    }

    /// What was wrong, and the history of all units and of the conferences with which something was wrong.
    pub(super) fn report(&self) -> String {
        self.with(|known| {
            let wrong = known.violations.join("\n");
            let shown = |e164: &Option<Bytes>| e164.as_ref().is_none_or(|e164| wrong.contains(&name(e164)));
            let lines = known.history.iter().filter(|(_, e164, _)| shown(e164));
            let lines = lines.map(|(ms, _, what)| format!("{:>9.3} s: {what}\n", *ms as f64 / 1000.0));
            lines.collect::<String>() + &wrong
        })
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.with(|known| known.violations.clone())
    }

    /// The master has taken a step.
    pub(super) fn changed(&self, realm: &Realm, touched: &Touched) {
        let wrong = self.with(|known| {
            known.is_unchecked |= touched.all || !touched.conferences.is_empty();
            known.note_changes(realm, touched);
            let mut wrong = known.check(realm, touched);
            wrong.extend(Known::opened_too_early(realm, touched));
            wrong.extend(Known::placed_wrongly(realm, touched));
            wrong
        });
        wrong.into_iter().for_each(|what| self.violated(what));
    }

    /// The master has changed the book: records, shares and sums of use must agree.
    pub(super) fn book_changed(&self, book: &Book) {
        if let Err(contradiction) = book.check() {
            self.violated(contradiction.0);
        }
    }

    /// Checks the indexes of the realm against each other, if it has changed since the last call.
    pub(super) fn check_indexes(&self, realm: &Realm) {
        if self.with(|known| std::mem::take(&mut known.is_unchecked))
            && let Err(contradiction) = realm.check()
        {
            self.violated(contradiction.0);
        }
    }

    /// A write has reached the replica: a failover does not lose it.
    pub(super) fn replicated(&self, realm: &Realm, touched: &Touched) {
        self.with(|known| {
            for conference in touched.of(realm) {
                // A conference that its first unit does not open in time ends.
                known.update(&conference.e164, |record| {
                    record.ended |= !conference.is_live();
                    let is_kept = conference.opened.is_some() || conference.start.is_some();
                    record.confirmed |= conference.is_live() && is_kept;
                    if let Some(kept) = &mut record.kept {
                        kept.confirmed |= kept.is_of(conference);
                    }
                });
            }
        });
    }

    /// The master lost data: what replicas confirmed no longer counts.
    pub(super) fn lost_data(&self) {
        self.with(|known| {
            for record in known.conferences.values_mut() {
                (record.epoch, record.confirmed, record.ended, record.kept) = (None, false, false, None);
            }
        });
    }

    /// Another server is the master.
    pub(super) fn failed_over(&self, realm: &Realm) {
        self.with(|known| {
            for record in known.conferences.values_mut() {
                record.epoch = None;
                record.kept = record.kept.filter(|kept| kept.confirmed);
            }
        });
        self.changed(realm, &Touched { all: true, ..Touched::default() });
        let lost = self.with(|known| {
            let is_lost = |e164: &[u8], record: &Record| {
                record.confirmed && !record.released && realm.conference_called(e164).is_none()
            };
            known.names(is_lost).iter().map(|e164| name(e164)).collect::<Vec<String>>()
        });
        lost.into_iter().for_each(|e164| self.violated(format!("{e164} is gone")));
    }
}

impl Known {
    fn note(&mut self, e164: Option<Bytes>, what: String) {
        self.history.push((clock::elapsed_ms(), e164, what));
    }

    /// Changes what is known about a conference. Its name is copied only once: this is done for each write.
    fn update(&mut self, e164: &[u8], change: impl FnOnce(&mut Record)) {
        match self.conferences.get_mut(e164) {
            Some(record) => change(record),
            None => change(self.conferences.entry(e164.to_vec()).or_default()),
        }
    }

    /// The names of the conferences of which this is true, in their order.
    fn names(&self, is_one: impl Fn(&[u8], &Record) -> bool) -> Vec<&[u8]> {
        let all = self.conferences.iter().map(|(e164, record)| (e164.as_slice(), record));
        let mut names: Vec<&[u8]> =
            all.filter(|(e164, record)| is_one(e164, record)).map(|(e164, _)| e164).collect();
        names.sort_unstable();
        names
    }

    /// Conferences that this step calls open although nobody could join them.
    fn opened_too_early(realm: &Realm, touched: &Touched) -> Vec<String> {
        let opened = touched.conferences.iter().filter(|(_, event)| matches!(*event, "opened" | "moved"));
        let is_early = |conference: &&Conference| {
            let owner = conference.owner.and_then(|unit| realm.unit(unit));
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            owner.is_some_and(|owner| !simulated::was_ready(&text(&conference.e164), &text(&owner.cmu)))
        };
        let opened = opened.filter_map(|(e164, _)| realm.conference_called(e164)).filter(is_early);
        opened.map(|conference| format!("{}, and nobody can join", describe(conference))).collect()
    }

    /// Conferences that this step starts before their time, puts on a unit without room or on a drained host, or ends
    /// although another unit could try to create them.
    fn placed_wrongly(realm: &Realm, touched: &Touched) -> Vec<String> {
        let mut wrong = Vec::new();
        for (e164, event) in &touched.conferences {
            let Some(conference) = realm.conference_called(e164) else { continue };
            let target = conference.moving.as_ref().map(|moving| moving.to);
            let units = conference.owner.into_iter().chain(target).filter_map(|unit| realm.unit(unit));
            match *event {
                "started" | "delayed" if conference.start.is_none_or(|start| start > realm.now(0)) => {
                    wrong.push(format!("{}, before its start", describe(conference)));
                }
                "created" | "granted" | "started" | "retried" | "moving" | "resized" => {
                    let new = target.or(conference.owner).and_then(|unit| realm.unit(unit));
                    let is_new = *event != "resized";
                    if new.is_some_and(|unit| is_new && is_drained(realm, unit)) {
                        wrong.push(format!("{}, and its host is drained", describe(conference)));
                    }
                    let is_full = |unit: &&Unit| unit.used > u64::from(unit.capacity);
                    wrong.extend(units.filter(is_full).map(|unit| {
                        format!("{}, and {} has no room for it", describe(conference), name(&unit.cmu))
                    }));
                }
                "ended" if !touched.units && is_left_untried(realm, conference) => {
                    wrong.push(format!("{}, and other units did not try it", describe(conference)));
                }
                _ => {}
            }
        }
        wrong
    }

    fn note_changes(&mut self, realm: &Realm, touched: &Touched) {
        touched.notes.iter().for_each(|note| self.note(None, note.clone()));
        for (e164, event) in touched.conferences.iter().filter(|(_, event)| *event != DETAILS_EVENT) {
            let conference = realm.conference_called(e164);
            let owner = conference.and_then(|conference| realm.unit(conference.owner?));
            let owner = owner.map_or("nobody".to_owned(), |owner| name(&owner.cmu));
            let (state, epoch) =
                conference.map_or(("unknown", 0), |conference| (conference.state.word(), conference.epoch));
            let what = format!("{} {event}: {state}, {owner} has it at {epoch}", name(e164));
            self.note(Some(e164.clone()), what);
        }
    }

    /// What is wrong with the conferences that a step of the master has changed.
    fn check(&mut self, realm: &Realm, touched: &Touched) -> Vec<String> {
        let mut wrong = Vec::new();
        for conference in touched.of(realm) {
            let e164 = &*conference.e164;
            if let Err(damaged) = realm.check_conference(conference) {
                wrong.push(format!("{}: {}", describe(conference), damaged.0));
            }
            self.update(e164, |record| {
                for assignment in &conference.history {
                    let owner = record.owners.entry(assignment.epoch);
                    if *owner.or_insert_with(|| assignment.cmu.to_vec()) != *assignment.cmu {
                        wrong.push(format!("{} has two owners at one epoch", describe(conference)));
                    }
                }
                record.epoch = conference.is_live().then_some(conference.epoch);
                if conference.is_live() && record.ended {
                    wrong.push(format!("{} lives again", describe(conference)));
                }
                let is_over = !conference.is_live() || conference.ending.is_some();
                if is_over && conference.cause == Cause::EndTime {
                    // Even if this is lost with its master, it may have reached the unit.
                    record.released = true;
                    if conference.end.is_none_or(|end| end > realm.now(0)) {
                        wrong.push(format!("{}, before its end", describe(conference)));
                    }
                }
                if conference.is_live() && record.kept.is_some_and(|kept| !kept.is_of(conference)) {
                    wrong.push(format!("{}, and has another end or size", describe(conference)));
                }
                if !conference.is_live() && record.confirmed && !record.released {
                    wrong.push(format!("{}, and nobody ended it", describe(conference)));
                }
            });
        }
        if touched.all {
            // An event about units may end conferences.
            let has_ended = |e164: &[u8], record: &Record| {
                let lives = realm.conference_called(e164).is_some_and(Conference::is_live);
                record.epoch.is_some() && !lives
            };
            let ends = self.names(has_ended).into_iter();
            let conferences: Vec<_> = ends.map(|e164| (e164.into(), "ended")).collect();
            if !conferences.is_empty() {
                wrong.extend(self.check(realm, &Touched { conferences, ..Touched::default() }));
            }
        }
        wrong
    }
}

/// Whether an operator drains the host of a unit.
fn is_drained(realm: &Realm, unit: &Unit) -> bool {
    realm.drained().any(|host| host == host_of(&unit.cmu))
}

/// Whether a conference has ended that was never open, and a unit that has much room could have created it.
fn is_left_untried(realm: &Realm, conference: &Conference) -> bool {
    let (settings, history) = (realm.settings(), &conference.history);
    let is_tried = |unit: &Unit| history.iter().any(|assignment| assignment.cmu == unit.cmu);
    let could = |unit: &Unit| {
        let has_room = 2 * (unit.used + u64::from(conference.size)) <= u64::from(unit.capacity);
        has_room && unit.takes() && !unit.is_on_trial(settings) && !is_tried(unit)
    };
    let failed = matches!(conference.cause, Cause::Refused | Cause::Timeout) && conference.opened.is_none();
    failed && (history.len() as i64) < settings.tries && realm.units().any(could)
}

/// The conferences that have not ended.
pub(super) fn live(realm: &Realm) -> impl Iterator<Item = &Conference> {
    realm.list(None, None, 0, usize::MAX - 1).0.into_iter()
}

fn name(e164: &[u8]) -> String {
    e164.escape_ascii().to_string()
}

/// A conference and its assignments, for people.
pub(super) fn describe(conference: &Conference) -> String {
    let (state, cause) = (conference.state.word(), conference.cause.word());
    let history = conference.history.iter().map(|assignment| {
        let end = assignment.ended.map_or("has it", |ending| ending.how.word());
        format!("\n    {} {} {end}", assignment.epoch, assignment.cmu.escape_ascii())
    });
    format!("{} is {state} (cause {cause}){}", name(&conference.e164), history.collect::<String>())
}
