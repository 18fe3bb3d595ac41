//! The indexes over conferences and units: room and licences, states, what waits, deadlines. Whatever changes a
//! record goes through here, so that they follow it by themselves.

use super::conference::{Conference, Epoch, State};
use super::state::{Lost, Realm, Settings};
use super::unit::{Host, MAX_FORGOTTEN, Unit, host_of};
use crate::shared::Bytes;
use crate::shared::deadlines::Deadlines;
use std::collections::VecDeque;

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

impl Realm {
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
}
