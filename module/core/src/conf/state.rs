//! A realm: its settings, its units and conferences, and the indexes over them.

use super::board::Board;
use super::conference::{Assignment, Conference, Epoch, State};
use super::queues::Queues;
use super::rows::Cell;
use super::unit::{Host, MAX_FORGOTTEN, Name, Standing, Unit, host_of};
use crate::shared::deadlines::Deadlines;
use crate::shared::names::NameIndex;
use crate::shared::outbox::Outbox;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Whether an older copy that is heard again takes its conference back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The copy that was created earliest goes on.
    #[default]
    Earliest = 0,
    /// Whoever owns the conference keeps it.
    Keep = 1,
}

impl Policy {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Keep => "keep",
        }
    }
}

/// What the operator sets for a realm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Licences in all; 0 is no limit.
    pub licences: u64,
    /// How long a conference waits after all units failed it.
    pub retry: Millis,
    /// How long a conference may wait for recovery.
    pub window: Millis,
    /// Which copy goes on.
    pub policy: Policy,
    /// How long a unit may take to create a conference.
    pub create_timeout: Millis,
    /// How long a unit may take to end a conference.
    pub release_timeout: Millis,
    /// How long a unit may take to report a conference that is asked for.
    pub wait_timeout: Millis,
    /// How long the record of an ended conference, or of a down unit, stays.
    pub tombstone: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            licences: 0,
            retry: 300_000,
            window: 1_800_000,
            policy: Policy::Earliest,
            create_timeout: 10_000,
            release_timeout: 5_000,
            wait_timeout: 30_000,
            tombstone: 600_000,
        }
    }
}

/// The last epoch that follows from a clock: 2112, in microseconds. However far ahead a clock, or a snapshot's time, is,
/// as many epochs follow as anybody can grant.
const LAST_OF_CLOCK: Epoch = 1 << 52;

/// How far ahead of the clock an epoch may be that a unit says it has handled, in microseconds: a day, more than clocks
/// differ. Whatever is farther nobody gave out, and must not use up what is left.
const BELIEVED: Epoch = 24 * 3600 * 1_000_000;

/// The last epoch that is believed of a snapshot: far from the greatest that has an encoding.
pub(super) const LAST_EPOCH: Epoch = (1 << 53) - (1 << 40);

/// The first epoch that may be given out at a time.
fn epoch_of(now: Millis) -> Epoch {
    (now.max(0) as u64).saturating_mul(1000).min(LAST_OF_CLOCK)
}

/// Room of a unit that a conference takes, by an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    unit: u32,
    epoch: Epoch,
    size: u64,
}

/// Where a conference stands in the indexes, those of recovery and deadlines aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Links {
    state: (State, Epoch),
    owner: Option<Room>,
    target: Option<Room>,
    licences: u64,
}

impl Links {
    fn of(one: &Conference) -> Self {
        let size = u64::from(one.size);
        Self {
            state: (one.state, one.origin_epoch),
            owner: one.owner.map(|unit| Room { unit, epoch: one.epoch, size }),
            target: one.moving.map(|moving| Room { unit: moving.to, epoch: moving.epoch, size }),
            licences: if one.is_live() { one.licences.into() } else { 0 },
        }
    }
}

/// Conferences that units lost, by unit.
pub(super) type Lost = BTreeMap<Name, BTreeSet<(Epoch, u32)>>;

/// A realm.
#[derive(Clone, Debug)]
pub struct Realm {
    pub(super) settings: Settings,
    /// The last time applied.
    pub(super) applied: Millis,
    pub(super) term: u64,
    pub(super) leader: Option<Bytes>,
    pub(super) last_epoch: Epoch,
    /// Licences in use.
    pub(super) licences: u64,
    pub(super) units: Table<Unit>,
    pub(super) unit_names: BTreeMap<Name, u32>,
    pub(super) hosts: BTreeMap<Box<[u8]>, Host>,
    /// Hosts whose unit was forgotten, which was longest ago first.
    pub(super) forgotten: VecDeque<Box<[u8]>>,
    pub(super) conferences: Table<Conference>,
    pub(super) names: NameIndex,
    /// Conferences whose numbers were called for them, by the request that asked for each: who repeats it knows no
    /// number.
    pub(super) requests: BTreeMap<Bytes, u32>,
    pub(super) board: Board,
    pub(super) queues: Queues,
    /// Numbers of conferences by the epoch of their creation, for each state.
    pub(super) by_state: [BTreeMap<Epoch, u32>; 5],
    /// Pending conferences by the unit that was the last to have them open, and the epoch at which it lost them. The
    /// unit need not be known: it may come back.
    pub(super) lost: Lost,
    pub(super) conference_due: Deadlines,
    pub(super) unit_due: Deadlines,
    pub(super) outbox: Outbox,
}

impl Realm {
    /// A realm without units and conferences, opened at that time.
    pub fn open(settings: Settings, at: Millis) -> Self {
        Self {
            settings,
            applied: at,
            term: 0,
            leader: None,
            last_epoch: 0,
            licences: 0,
            units: Table::default(),
            unit_names: BTreeMap::new(),
            hosts: BTreeMap::new(),
            forgotten: VecDeque::new(),
            conferences: Table::default(),
            names: NameIndex::default(),
            requests: BTreeMap::new(),
            board: Board::default(),
            queues: Queues::default(),
            by_state: Default::default(),
            lost: Lost::new(),
            conference_due: Deadlines::default(),
            unit_due: Deadlines::default(),
            outbox: Outbox::default(),
        }
    }

    /// What the operator set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The term of the scheduler that claimed the realm, and its name.
    pub fn leader(&self) -> (u64, Option<&[u8]>) {
        (self.term, self.leader.as_deref())
    }

    /// The latest epoch given out.
    pub fn last_epoch(&self) -> Epoch {
        self.last_epoch
    }

    /// Licences in use.
    pub fn licences_used(&self) -> u64 {
        self.licences
    }

    /// Messages owed to streams.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// *Now* of this realm: the greater of the clock and the last time applied.
    pub fn now(&self, clock: Millis) -> Millis {
        clock.max(self.applied)
    }

    /// The time at which something is due that nobody asks for.
    pub fn next_due(&self) -> Option<Millis> {
        match (self.conference_due.earliest(), self.unit_due.earliest()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The epoch of the next assignment: `max(last + 1, now)`, *now* in microseconds, so that they still grow after a
    /// failover to a replica that had not heard of the last ones. In milliseconds a burst of grants would run ahead of
    /// the clock, and a new master could give some of them out again.
    pub(super) fn next_epoch(&self, now: Millis) -> Epoch {
        (self.last_epoch + 1).max(epoch_of(now))
    }

    /// The latest epoch given out, now that a unit has handled that one. It may be of a master that was lost before a
    /// replica heard of it, whose clock was ahead: the unit takes no command at an epoch up to there.
    pub(super) fn last_with(&self, handled: Epoch, now: Millis) -> Epoch {
        let believed = handled <= epoch_of(now) + BELIEVED;
        if believed { self.last_epoch.max(handled) } else { self.last_epoch }
    }

    /// The number of a conference, live or ended. O(1).
    pub fn find(&self, e164: &[u8]) -> Option<u32> {
        self.names.find(e164, |id| self.conferences.get(id).is_some_and(|one| *one.e164 == *e164))
    }

    /// A conference by its number in the table.
    pub fn conference(&self, id: u32) -> Option<&Conference> {
        self.conferences.get(id)
    }

    /// A conference, live or ended, by its E.164 number. O(1).
    pub fn conference_called(&self, e164: &[u8]) -> Option<&Conference> {
        self.find(e164).and_then(|id| self.conferences.get(id))
    }

    /// The conference on a called number that was asked for by that request, live or ended. O(log conferences).
    pub fn asked_for(&self, request: &[u8]) -> Option<&Conference> {
        self.requests.get(request).and_then(|&id| self.conferences.get(id))
    }

    /// The number of a unit. O(log units).
    pub fn find_unit(&self, cmu: &[u8]) -> Option<u32> {
        self.unit_names.get(cmu).copied()
    }

    /// A unit by its number in the table.
    pub fn unit(&self, unit: u32) -> Option<&Unit> {
        self.units.get(unit)
    }

    /// A unit by its identity. O(log units).
    pub fn unit_called(&self, cmu: &[u8]) -> Option<&Unit> {
        self.find_unit(cmu).and_then(|unit| self.units.get(unit))
    }

    /// Whether an identity was replaced by a later one of its host.
    pub fn is_replaced(&self, cmu: &[u8]) -> bool {
        let host = self.hosts.get(host_of(cmu));
        host.is_some_and(|host| host.replaced.iter().any(|replaced| **replaced == *cmu))
    }

    /// Room that a unit has for new conferences, as placement sees it; `None` for one that takes none. O(log units).
    pub fn room(&self, cmu: &[u8]) -> Option<u64> {
        self.find_unit(cmu).filter(|&unit| self.board.takes(unit)).map(|unit| self.board.room(unit))
    }

    /// How many conferences stand in that state.
    pub fn count(&self, state: State) -> usize {
        self.by_state.get(state as usize).map_or(0, BTreeMap::len)
    }

    /// A cell of the table under the two rules that stand above it.
    pub(super) fn outcome(conference: &Conference, cell: Cell) -> Cell {
        match cell {
            Cell::Pending if !conference.recoverable => Cell::Ended,
            Cell::Pending | Cell::Waiting | Cell::Adopt if conference.ending.is_some() => Cell::Ended,
            cell => cell,
        }
    }

    /// Where a conference stands in the indexes.
    pub(super) fn links(&self, id: u32) -> Option<Links> {
        self.conferences.get(id).map(Links::of)
    }

    /// Brings the indexes from where a conference stood to where it stands now; `None` where it is in none. What has
    /// not changed is not touched. O(log conferences).
    pub(super) fn relink(&mut self, id: u32, before: Option<Links>, after: Option<Links>) {
        let state = |links: Option<Links>| links.map(|links| links.state);
        if state(before) != state(after) {
            if let Some((state, epoch)) = state(before)
                && let Some(index) = self.by_state.get_mut(state as usize)
            {
                index.remove(&epoch);
            }
            if let Some((state, epoch)) = state(after)
                && let Some(index) = self.by_state.get_mut(state as usize)
            {
                index.insert(epoch, id);
            }
        }
        let owner = |links: Option<Links>| links.and_then(|links| links.owner);
        if owner(before) != owner(after) {
            self.take_room(owner(before), |unit, room| {
                unit.owned.remove(&(room.epoch, id));
                unit.used -= room.size;
            });
            self.take_room(owner(after), |unit, room| {
                unit.owned.insert((room.epoch, id));
                unit.used += room.size;
            });
        }
        let target = |links: Option<Links>| links.and_then(|links| links.target);
        if target(before) != target(after) {
            self.take_room(target(before), |unit, room| {
                unit.targets.remove(&(room.epoch, id));
                unit.used -= room.size;
            });
            self.take_room(target(after), |unit, room| {
                unit.targets.insert((room.epoch, id));
                unit.used += room.size;
            });
        }
        let licences = |links: Option<Links>| links.map_or(0, |links| links.licences);
        self.licences = self.licences - licences(before) + licences(after);
    }

    /// Takes room on a unit, or gives it back, and keeps the unit's place on the board.
    fn take_room(&mut self, room: Option<Room>, change: impl FnOnce(&mut Unit, Room)) {
        if let Some(room) = room
            && let Some(unit) = self.units.get_mut(room.unit)
        {
            change(unit, room);
            self.board.update(room.unit, unit);
        }
    }

    /// Puts a conference that waits for recovery into what is known of those, or takes it out: whoever changes one
    /// takes it out before and puts it back after. O(log conferences).
    pub(super) fn link_pending(&mut self, id: u32, on: bool) {
        let Some(one) = self.conferences.get(id).filter(|one| one.state == State::Pending) else { return };
        self.queues.link(one, id, on);
        let Some(lost) = one.last_lost() else { return };
        if on {
            self.lost.entry(lost.cmu.clone()).or_default().insert((lost.epoch, id));
        } else if let Some(all) = self.lost.get_mut(&lost.cmu) {
            all.remove(&(lost.epoch, id));
            if all.is_empty() {
                self.lost.remove(&lost.cmu);
            }
        }
        if let Some(&number) = self.unit_names.get(&lost.cmu)
            && let Some(unit) = self.units.get(number)
        {
            Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
        }
    }

    /// Brings a conference's deadline up to date.
    pub(super) fn watch(&mut self, id: u32) {
        match self.conferences.get(id).and_then(|one| one.next_due(&self.settings)) {
            Some(due) => self.conference_due.set(id, due),
            None => self.conference_due.remove(id),
        }
    }

    /// Brings a unit's place on the board and its deadline up to date.
    pub(super) fn relink_unit(&mut self, number: u32) {
        let Some(unit) = self.units.get(number) else { return };
        self.board.update(number, unit);
        Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
    }

    pub(super) fn watch_unit(
        deadlines: &mut Deadlines,
        settings: &Settings,
        lost: &Lost,
        number: u32,
        unit: &Unit,
    ) {
        match unit.next_due(settings, lost.contains_key(&unit.cmu)) {
            Some(due) => deadlines.set(number, due),
            None => deadlines.remove(number),
        }
    }

    /// Enters a conference.
    pub(super) fn enter(&mut self, conference: Conference) -> u32 {
        let e164 = conference.e164.clone();
        let request = conference.asked_for().map(Bytes::from_slice);
        let id = self.conferences.insert(conference);
        if let Some(request) = request {
            self.requests.insert(request, id);
        }
        self.names.insert(&e164, id);
        self.relink(id, None, self.links(id));
        self.link_pending(id, true);
        self.watch(id);
        id
    }

    /// Forgets a conference.
    pub(super) fn remove(&mut self, id: u32) {
        self.link_pending(id, false);
        self.relink(id, self.links(id), None);
        self.conference_due.remove(id);
        if let Some(one) = self.conferences.remove(id) {
            self.names.remove(&one.e164, id);
            if let Some(request) = one.asked_for() {
                self.requests.remove(request);
            }
        }
    }

    /// Enters a unit as its host's current one.
    pub(super) fn enter_unit(&mut self, unit: Unit) -> u32 {
        let (cmu, host): (_, Box<[u8]>) = (unit.cmu.clone(), host_of(&unit.cmu).into());
        let number = self.units.insert(unit);
        self.unit_names.insert(cmu, number);
        self.forgotten.retain(|forgotten| *forgotten != host);
        let host =
            self.hosts.entry(host).or_insert_with(|| Host { current: None, replaced: VecDeque::new() });
        host.current = Some(number);
        self.relink_unit(number);
        number
    }

    /// Forgets a unit, which is idle. If it was its host's current one, the host is remembered for longer: which of its
    /// identities were replaced, and that the next one has to report first.
    pub(super) fn remove_unit(&mut self, number: u32) {
        self.board.remove(number);
        self.unit_due.remove(number);
        let Some(unit) = self.units.remove(number) else { return };
        self.unit_names.remove(&unit.cmu);
        let name = host_of(&unit.cmu);
        let Some(host) = self.hosts.get_mut(name).filter(|host| host.current == Some(number)) else { return };
        host.current = None;
        self.forgotten.push_back(name.into());
        if self.forgotten.len() > MAX_FORGOTTEN
            && let Some(oldest) = self.forgotten.pop_front()
        {
            self.hosts.remove(&oldest);
        }
    }

    /// The name that all records of this unit or zone share.
    pub(super) fn name_of(&self, unit: u32) -> Name {
        self.units.get(unit).map_or_else(|| Name::from(&b""[..]), |unit| unit.cmu.clone())
    }

    /// A zone's name, shared with the units that are in it.
    pub(super) fn zone_name(&self, zone: &[u8]) -> Name {
        self.board.zone(zone).unwrap_or_else(|| Name::from(zone))
    }

    /// A new assignment of a conference to a unit.
    pub(super) fn assignment(&self, unit: u32, epoch: Epoch, copy_epoch: Epoch, at: Millis) -> Assignment {
        Assignment { epoch, copy_epoch, cmu: self.name_of(unit), from: at, opened: None, ended: None }
    }

    /// Units in the order of their names.
    pub fn units(&self) -> impl Iterator<Item = &Unit> {
        self.unit_names.values().filter_map(|&number| self.units.get(number))
    }

    /// How many units there are, and how many conferences they may take.
    pub fn unit_counts(&self) -> (usize, usize) {
        (self.units.len(), self.units().filter(|unit| unit.standing != Standing::Down).count())
    }

    /// Pending conferences that a unit was the last to have open.
    pub fn lost_by(&self, cmu: &[u8]) -> impl Iterator<Item = &Conference> {
        self.lost.get(cmu).into_iter().flatten().filter_map(|&(_, id)| self.conferences.get(id))
    }

    /// How many conferences wait for recovery.
    pub fn pending(&self) -> usize {
        self.queues.len()
    }

    /// Bytes allocated by the whole value, about.
    pub fn allocated(&self) -> usize {
        let conferences: usize = self.conferences.iter().map(|(_, one)| one.allocated()).sum();
        let unit = |unit: &Unit| unit.cmu.len() + 32 + (unit.owned.len() + unit.targets.len()) * 24;
        size_of::<Self>()
            + self.conferences.allocated()
            + conferences
            + self.names.allocated()
            + self.by_state.iter().map(|index| index.len() * 20).sum::<usize>()
            + self.units.allocated()
            + self.units.iter().map(|(_, one)| unit(one)).sum::<usize>()
            + self.board.allocated()
            + self.queues.len() * 64
            + self.conference_due.allocated()
            + self.unit_due.allocated()
            + self.outbox.allocated()
    }

    /// A rough number of allocations, which tells whether freeing is worth a background thread.
    pub fn free_effort(&self) -> usize {
        1 + self.units.len() * 4 + self.conferences.len() * 3 + self.outbox.len()
    }
}
