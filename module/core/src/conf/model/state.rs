//! A realm: settings, units and conferences. `indexes` maintains the indexes over them.

use super::conference::{Conference, State, Wishes};
use super::epoch::{Epoch, epoch_of, is_plausible};
use super::placement_index::PlacementIndex;
use super::queues::{ByState, Queues};
use super::reservations::Reservations;
pub use super::settings::{Placement, Policy, Settings};
use super::unit::{Host, Name, Unit, host_of};
use crate::conf::model::waiters::Waiters;
use crate::shared::counter::Counter;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Expected;
use crate::shared::names::NameIndex;
use crate::shared::outbox::Outbox;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Conferences that units lost, by unit: the epoch of the lost assignment, and the id of the conference.
pub(in crate::conf) type Lost = BTreeMap<Name, BTreeSet<(Epoch, u32)>>;

/// A realm.
#[derive(Clone, Debug, Default)]
pub struct Realm {
    pub(in crate::conf) settings: Settings,
    /// The last time applied.
    pub(in crate::conf) applied: Millis,
    pub(in crate::conf) term: u64,
    pub(in crate::conf) leader: Option<Bytes>,
    pub(in crate::conf) last_epoch: Epoch,
    /// Copies up to this epoch are never adopted as lost: an operator dropped the realm then, or the epochs of their
    /// hosts are forgotten. 0 at first.
    pub(in crate::conf) adopts_after: Epoch,
    /// Conferences that have ended since the realm was opened. Numbers their call records, so that readers notice gaps.
    pub(in crate::conf) ends: u64,
    /// Licences in use.
    pub(in crate::conf) licences: u64,
    pub(in crate::conf) units: Table<Unit>,
    pub(in crate::conf) unit_names: BTreeMap<Name, u32>,
    pub(in crate::conf) hosts: BTreeMap<Vec<u8>, Host>,
    /// Hosts whose last unit was removed, the oldest removal first.
    pub(in crate::conf) forgotten: VecDeque<Vec<u8>>,
    /// Hosts that operators drain, and since when. A host need not have a unit.
    pub(in crate::conf) drained: BTreeMap<Vec<u8>, Millis>,
    pub(in crate::conf) conferences: Table<Conference>,
    pub(in crate::conf) names: NameIndex,
    /// Conferences on called numbers, by the id of the request: the sender of a repeated request does not know the
    /// number.
    pub(in crate::conf) requests: BTreeMap<Bytes, u32>,
    pub(in crate::conf) placement_index: PlacementIndex,
    pub(in crate::conf) queues: Queues,
    pub(in crate::conf) by_state: ByState,
    /// Pending conferences by the unit that last had them open, and the epoch at which it lost them. The unit may be
    /// unknown: it may come back.
    pub(in crate::conf) lost: Lost,
    pub(in crate::conf) reservations: Reservations,
    pub(in crate::conf) conference_due: Deadlines,
    pub(in crate::conf) unit_due: Deadlines,
    pub(in crate::conf) outbox: Outbox,
    /// Creations that wait for room, on this server.
    pub(in crate::conf) waiters: Waiters,
}

impl Realm {
    /// A realm without units and conferences, opened at that time.
    pub fn open(settings: Settings, at: Millis) -> Self {
        let placement_index = PlacementIndex::by(settings);
        Self { settings, applied: at, placement_index, ..Self::default() }
    }

    /// The settings of the realm.
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

    /// Messages that wait to be written to streams.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The time of this realm: the greater of the clock and the last time applied.
    pub fn now(&self, clock: Millis) -> Millis {
        clock.max(self.applied)
    }

    /// The counter of epochs, which only grows. If it is at its limit, the realm refuses every change.
    pub(in crate::conf) fn epochs(&self) -> Counter {
        Counter::new("last epoch", self.last_epoch)
    }

    /// The earliest deadline of all conferences, units and creations that wait. While there may be room for one of the
    /// latter, this is now.
    pub fn next_due(&self) -> Option<Millis> {
        if !self.epochs().has_room() {
            return None;
        }
        if self.waiters.is_pending {
            return Some(self.applied);
        }
        let due = match (self.conference_due.earliest(), self.unit_due.earliest()) {
            (Some(conference), Some(unit)) => Some(conference.min(unit)),
            (conference, unit) => conference.or(unit),
        };
        match self.waiters.next_fall() {
            Some(fall) => Some(due.map_or(fall, |due| due.min(fall))),
            None => due,
        }
    }

    /// The epoch of the next assignment: `max(last + 1, now)`, *now* in microseconds, so that epochs still increase
    /// after a failover to a replica that does not know the last ones. In milliseconds, a burst of grants would run
    /// ahead of the clock, and a new master could give some epochs out again.
    pub(in crate::conf) fn next_epoch(&self, now: Millis) -> Epoch {
        (self.last_epoch + 1).max(epoch_of(now))
    }

    /// The greater of the last epoch given out and `handled`, an epoch that a unit has handled. `handled` is ignored if
    /// it is implausible. A master that died before replication may have given this epoch out, and the unit ignores
    /// CREATE and EPOCH messages up to it.
    pub(in crate::conf) fn last_with(&self, handled: Epoch, now: Millis) -> Epoch {
        if is_plausible(handled, now) { self.last_epoch.max(handled) } else { self.last_epoch }
    }

    /// The number of a conference, live or ended. O(1).
    pub fn find(&self, e164: &[u8]) -> Option<u32> {
        self.names.find(e164, |id| self.indexed(id).is_some_and(|conference| *conference.e164 == *e164))
    }

    /// The conference of an id that comes from an index. `None` is a broken invariant, reported at the caller's line.
    #[track_caller]
    pub(in crate::conf) fn indexed(&self, id: u32) -> Option<&Conference> {
        self.conferences.get(id).expected("an index has only conferences that exist")
    }

    /// The unit of a number that comes from an index or a conference. `None` is a broken invariant, reported at the
    /// caller's line.
    #[track_caller]
    pub(in crate::conf) fn indexed_unit(&self, number: u32) -> Option<&Unit> {
        self.units.get(number).expected("indexes and conferences have only units that exist")
    }

    /// A conference by its number in the table.
    pub fn conference(&self, id: u32) -> Option<&Conference> {
        self.conferences.get(id)
    }

    /// A conference, live or ended, by its E.164 number. O(1).
    pub fn conference_called(&self, e164: &[u8]) -> Option<&Conference> {
        self.find(e164).and_then(|id| self.indexed(id))
    }

    /// The conference on a called number, live or ended, by the id of its request. O(log conferences).
    pub fn asked_for(&self, request: &[u8]) -> Option<&Conference> {
        self.requests.get(request).and_then(|&id| self.indexed(id))
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
        self.find_unit(cmu).and_then(|unit| self.indexed_unit(unit))
    }

    /// Whether a unit was replaced by a later unit of its host.
    pub fn is_replaced(&self, cmu: &[u8]) -> bool {
        let host = self.hosts.get(host_of(cmu));
        host.is_some_and(|host| host.replaced.iter().any(|replaced| **replaced == *cmu))
    }

    /// Number of conferences in that state.
    pub fn count(&self, state: State) -> usize {
        self.by_state.of(state).len()
    }

    /// The shared name of a unit.
    pub(in crate::conf) fn name_of(&self, unit: u32) -> Name {
        self.indexed_unit(unit).map(|unit| unit.cmu.clone()).unwrap_or_default()
    }

    /// The name of a zone, shared with its units.
    pub(in crate::conf) fn zone_name(&self, zone: &[u8]) -> Name {
        self.placement_index.zone(zone).unwrap_or_else(|| Name::from(zone))
    }

    /// Wishes whose zone has a name shared with its units.
    pub(in crate::conf) fn shared_wishes(&self, wishes: &Wishes) -> Wishes {
        Wishes { zone: wishes.zone.as_ref().map(|zone| self.zone_name(zone)), ..wishes.clone() }
    }

    /// Hosts that operators drain, in the order of their names.
    pub fn drained(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.drained.keys().map(Vec::as_slice)
    }

    /// The unit that runs on a host.
    pub fn unit_of_host(&self, host: &[u8]) -> Option<u32> {
        self.hosts.get(host).and_then(|host| host.current)
    }

    /// Units in the order of their names.
    pub fn units(&self) -> impl Iterator<Item = &Unit> {
        self.unit_names.values().filter_map(|&number| self.indexed_unit(number))
    }

    /// How many conferences wait for recovery.
    pub fn pending(&self) -> usize {
        self.queues.len()
    }

    /// Approximate number of bytes allocated by the whole value.
    pub fn allocated(&self) -> usize {
        let conferences: usize = self.conferences.iter().map(|(_, conference)| conference.allocated()).sum();
        let unit = |unit: &Unit| unit.cmu.len() + 32 + (unit.owned.len() + unit.targets.len()) * 24;
        size_of::<Self>()
            + self.conferences.allocated()
            + conferences
            + self.names.allocated()
            + self.conferences.len() * 20
            + self.units.allocated()
            + self.units.iter().map(|(_, known)| unit(known)).sum::<usize>()
            + self.placement_index.allocated()
            + self.queues.len() * 64
            + self.conference_due.allocated()
            + self.unit_due.allocated()
            + self.outbox.allocated()
    }

    /// Approximate number of allocations. Redis frees a value with many allocations in a background thread.
    pub fn free_effort(&self) -> usize {
        1 + self.units.len() * 4 + self.conferences.len() * 3 + self.outbox.len()
    }
}
