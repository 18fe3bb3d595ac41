//! The indexes over conferences and units: room, licences, states, pending conferences, deadlines. Every change of a
//! record goes through these functions, which update the indexes.

use super::conference::{Conference, Epoch, State};
use super::messages::hang_up;
use super::settings::Settings;
use super::state::{Lost, Realm};
use super::unit::{MAX_FORGOTTEN, Name, Unit, host_of};
use crate::invariant;
use crate::shared::Bytes;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Expected;
use std::collections::BTreeSet;

/// The room that an assignment of a conference takes on a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::conf) struct Room {
    unit: u32,
    epoch: Epoch,
    size: u64,
}

/// The entries of a conference in the indexes, without those of recovery and deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::conf) struct Links {
    state: (State, Epoch),
    owner: Option<Room>,
    target: Option<Room>,
    licences: u64,
}

impl Links {
    fn of(conference: &Conference) -> Self {
        let (size, moving) = (u64::from(conference.size), conference.moving.as_ref());
        Self {
            state: (conference.state, conference.origin_epoch),
            owner: conference.owner.map(|unit| Room { unit, epoch: conference.epoch, size }),
            target: moving.map(|moving| Room { unit: moving.to, epoch: moving.epoch, size }),
            licences: if conference.takes_licences() { conference.licences.into() } else { 0 },
        }
    }
}

impl Realm {
    /// The entries of a conference in the indexes.
    pub(in crate::conf) fn links(&self, id: u32) -> Option<Links> {
        self.conferences.get(id).map(Links::of)
    }

    /// Updates the indexes from the entries `before` to the entries `after`; `None` for a conference that is in no
    /// index. Unchanged entries are not touched. O(log conferences).
    pub(in crate::conf) fn relink(&mut self, id: u32, before: Option<Links>, after: Option<Links>) {
        let state = |links: Option<Links>| links.map(|links| links.state);
        if state(before) != state(after) {
            if let Some((state, epoch)) = state(before) {
                let was_there = self.by_state.of_mut(state).remove(&epoch) == Some(id);
                invariant!(was_there, "a conference is found by its state");
            }
            if let Some((state, epoch)) = state(after) {
                let is_new = self.by_state.of_mut(state).insert(epoch, id).is_none();
                invariant!(is_new, "no two conferences were created at one epoch");
            }
        }
        let rooms = |of: fn(Links) -> Option<Room>| [before.and_then(of), after.and_then(of)];
        self.move_room(id, rooms(|links| links.owner), |unit| &mut unit.owned);
        self.move_room(id, rooms(|links| links.target), |unit| &mut unit.targets);
        let open = |links: Option<Links>| {
            links.filter(|links| links.state.0 == State::Open).and_then(|links| Some(links.owner?.unit))
        };
        if open(before) != open(after) {
            for (unit, opens) in [(open(before), false), (open(after), true)] {
                let Some(unit) = unit.and_then(|unit| self.units.get_mut(unit)) else { continue };
                let count = if opens { unit.open.checked_add(1) } else { unit.open.checked_sub(1) };
                unit.open = count.expected("a unit counts its open conferences").unwrap_or(0);
            }
        }
        let licences = |links: Option<Links>| links.map_or(0, |links| links.licences);
        let others = self.licences.checked_sub(licences(before));
        let others = others.expected("the licences in use are those of all conferences").unwrap_or(0);
        self.licences = others + licences(after);
    }

    /// Returns the first room to its unit, and takes the second; updates the units' lists of conferences and the
    /// placement index.
    fn move_room(
        &mut self,
        id: u32,
        rooms: [Option<Room>; 2],
        list_of: fn(&mut Unit) -> &mut BTreeSet<(Epoch, u32)>,
    ) {
        let [before, after] = rooms;
        if before == after {
            return;
        }
        for (room, takes) in [(before, false), (after, true)] {
            let Some(room) = room else { continue };
            let unit = self.units.get_mut(room.unit);
            let Some(unit) = unit.expected("a conference takes room of a unit that exists") else { continue };
            let used =
                if takes { unit.used.checked_add(room.size) } else { unit.used.checked_sub(room.size) };
            unit.used = used.expected("the room in use on a unit is that of its conferences").unwrap_or(0);
            let (list, entry) = (list_of(unit), (room.epoch, id));
            let changed = if takes { list.insert(entry) } else { list.remove(&entry) };
            invariant!(changed, "a unit lists each of its conferences once");
            self.placement_index.update(room.unit, unit);
        }
    }

    /// Adds a conference, if it is pending, to the indexes of recovery, or removes it. Every change of a conference
    /// removes it before and adds it after. O(log conferences).
    pub(in crate::conf) fn link_pending(&mut self, id: u32, on: bool) {
        let conference = self.conferences.get(id).expected("a conference that changes is there");
        let Some(conference) = conference.filter(|one| one.state == State::Pending) else { return };
        if on {
            self.queues.join(conference, id);
        } else {
            self.queues.leave(conference, id);
        }
        // A conference that was never open was not lost by a unit.
        let Some(lost) = conference.last_lost() else { return };
        if on {
            let is_new = self.lost.entry(lost.cmu.clone()).or_default().insert((lost.epoch, id));
            invariant!(is_new, "a conference is lost once");
        } else {
            let all = self.lost.get_mut(&lost.cmu);
            let was_there = all.is_some_and(|all| all.remove(&(lost.epoch, id)));
            invariant!(was_there, "a pending conference is among those that its unit lost");
            if self.lost.get(&lost.cmu).is_some_and(BTreeSet::is_empty) {
                self.lost.remove(&lost.cmu);
            }
        }
        // The unit may be unknown: its record was deleted, or it was replaced.
        let Some(&number) = self.unit_names.get(&lost.cmu) else { return };
        if let Some(unit) = self.units.get(number).expected("the names of units are of units that exist") {
            Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
        }
    }

    /// Updates the deadline of a conference.
    pub(in crate::conf) fn watch(&mut self, id: u32) {
        match self.indexed(id).and_then(|conference| conference.next_due(&self.settings)) {
            Some(due) => self.conference_due.set(id, due),
            None => self.conference_due.remove(id),
        }
    }

    /// Changes a unit, and updates the placement index and its deadline. O(log units).
    pub(in crate::conf) fn change_unit(&mut self, number: u32, change: impl FnOnce(&mut Unit)) {
        if let Some(unit) = self.units.get_mut(number).expected("a unit that changes is there") {
            change(unit);
            self.relink_unit(number);
        }
    }

    /// Updates a unit in the placement index, and its deadline. O(log units).
    pub(in crate::conf) fn relink_unit(&mut self, number: u32) {
        if let Some(unit) = self.units.get_mut(number).expected("a unit that changes is there") {
            let counts = unit.counts();
            let counted = std::mem::replace(&mut unit.counted, counts);
            if counted != unit.counted {
                let more = i64::from(unit.counted) - i64::from(counted);
                self.reservations.count_capacity(unit, more);
            }
            self.placement_index.update(number, unit);
            Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
        }
    }

    pub(in crate::conf) fn watch_unit(
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

    /// Changes a conference and updates all indexes. If the conference ends, its call in the pool of numbers is hung
    /// up.
    pub(in crate::conf) fn change(&mut self, id: u32, change: impl FnOnce(&mut Conference)) {
        let (before, reserved) = (self.links(id), self.reserved(id));
        self.link_pending(id, false);
        let conference = self.conferences.get_mut(id);
        let Some(conference) = conference.expected("a conference that changes is there") else { return };
        let was_live = conference.is_live();
        change(conference);
        if was_live
            && !conference.is_live()
            && let Some(from) = &conference.called_from
        {
            self.outbox.push_always(hang_up(from, &conference.e164));
        }
        self.relink(id, before, self.links(id));
        self.reserve(reserved, self.reserved(id));
        self.link_pending(id, true);
        self.watch(id);
    }

    /// Adds a conference to the table and to all indexes; returns its id.
    pub(in crate::conf) fn enter(&mut self, conference: Conference) -> u32 {
        let e164 = conference.e164.clone();
        let request = conference.asked_for().map(Bytes::from_slice);
        let id = self.conferences.insert(conference);
        if let Some(request) = request {
            let is_new = self.requests.insert(request, id).is_none();
            invariant!(is_new, "a request asks for one conference");
        }
        self.names.insert(&e164, id);
        self.relink(id, None, self.links(id));
        self.reserve(None, self.reserved(id));
        self.link_pending(id, true);
        self.watch(id);
        id
    }

    /// Removes a conference from the table and from all indexes.
    pub(in crate::conf) fn remove(&mut self, id: u32) {
        self.link_pending(id, false);
        self.relink(id, self.links(id), None);
        self.conference_due.remove(id);
        let conference = self.conferences.remove(id);
        let Some(conference) = conference.expected("a conference that is removed was there") else { return };
        self.names.remove(&conference.e164, id);
        if let Some(request) = conference.asked_for() {
            let was_there = self.requests.remove(request) == Some(id);
            invariant!(was_there, "a conference on a called number is found by its request");
        }
    }

    /// Adds a unit to the table and to all indexes, as the current unit of its host; returns its number.
    pub(in crate::conf) fn enter_unit(&mut self, unit: Unit) -> u32 {
        let (cmu, host) = (unit.cmu.clone(), host_of(&unit.cmu).to_vec());
        let unit = Unit { drained: self.drained.contains_key(&host), ..unit };
        let number = self.units.insert(unit);
        let is_new = self.unit_names.insert(cmu, number).is_none();
        invariant!(is_new, "a unit's name is that of no other");
        self.forgotten.retain(|forgotten| *forgotten != host);
        let host = self.hosts.entry(host).or_default();
        invariant!(host.current.is_none(), "a host runs one unit: the one before was replaced");
        host.current = Some(number);
        self.relink_unit(number);
        number
    }

    /// Takes an idle unit out of the table and of all indexes; returns its name. Its host runs none from now on.
    pub(in crate::conf) fn take_unit(&mut self, number: u32) -> Option<Name> {
        self.placement_index.remove(number);
        self.unit_due.remove(number);
        let unit = self.units.remove(number).expected("a unit that is removed was there")?;
        invariant!(unit.is_idle(), "a unit that is removed has no conferences");
        self.unit_names.remove(&unit.cmu);
        let current = self.hosts.get_mut(host_of(&unit.cmu)).and_then(|host| host.current.take());
        invariant!(current == Some(number), "a unit is its host's current one");
        Some(unit.cmu)
    }

    /// Removes an idle unit. The host is kept for longer, with its replaced identities: the next unit of the host
    /// must report first.
    pub(in crate::conf) fn remove_unit(&mut self, number: u32) {
        let Some(cmu) = self.take_unit(number) else { return };
        self.forgotten.push_back(host_of(&cmu).to_vec());
        if self.forgotten.len() > MAX_FORGOTTEN
            && let Some(oldest) = self.forgotten.pop_front()
        {
            let oldest = self.hosts.remove(&oldest);
            let Some(oldest) = oldest.expected("a host whose unit was forgotten is remembered") else {
                return;
            };
            invariant!(oldest.current.is_none(), "a host whose unit was forgotten runs none");
            self.adopts_after = self.adopts_after.max(oldest.sent.last().min(self.last_epoch));
        }
    }
}
