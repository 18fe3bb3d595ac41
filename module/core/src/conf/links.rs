//! The indexes over conferences and units: room and licences, states, what waits, deadlines. Whatever changes a
//! record goes through here, so that they follow it by themselves.

use super::conference::{Conference, Epoch, State};
use super::state::{Lost, Realm, Settings};
use super::unit::{Host, MAX_FORGOTTEN, Unit, host_of};
use crate::invariant;
use crate::shared::Bytes;
use crate::shared::deadlines::Deadlines;
use std::collections::{BTreeMap, VecDeque};

/// Numbers of conferences by the epoch of their creation, for each state.
#[derive(Clone, Debug, Default)]
pub(super) struct ByState([BTreeMap<Epoch, u32>; 5]);

impl ByState {
    /// Conferences in that state.
    pub(super) fn of(&self, state: State) -> &BTreeMap<Epoch, u32> {
        let [waiting, creating, open, pending, ended] = &self.0;
        match state {
            State::Waiting => waiting,
            State::Creating => creating,
            State::Open => open,
            State::Pending => pending,
            State::Ended => ended,
        }
    }

    /// Conferences in that state, to be changed.
    pub(super) fn of_mut(&mut self, state: State) -> &mut BTreeMap<Epoch, u32> {
        let [waiting, creating, open, pending, ended] = &mut self.0;
        match state {
            State::Waiting => waiting,
            State::Creating => creating,
            State::Open => open,
            State::Pending => pending,
            State::Ended => ended,
        }
    }
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
            if let Some((state, epoch)) = state(before) {
                let was_there = self.by_state.of_mut(state).remove(&epoch) == Some(id);
                invariant!(was_there, "a conference is found by its state");
            }
            if let Some((state, epoch)) = state(after) {
                let is_new = self.by_state.of_mut(state).insert(epoch, id).is_none();
                invariant!(is_new, "no two conferences were created at one epoch");
            }
        }
        let owner = |links: Option<Links>| links.and_then(|links| links.owner);
        if owner(before) != owner(after) {
            self.take_room(owner(before), |unit, room| {
                unit.give_back_room(room.size);
                unit.owned.remove(&(room.epoch, id))
            });
            self.take_room(owner(after), |unit, room| {
                unit.used += room.size;
                unit.owned.insert((room.epoch, id))
            });
        }
        let target = |links: Option<Links>| links.and_then(|links| links.target);
        if target(before) != target(after) {
            self.take_room(target(before), |unit, room| {
                unit.give_back_room(room.size);
                unit.targets.remove(&(room.epoch, id))
            });
            self.take_room(target(after), |unit, room| {
                unit.used += room.size;
                unit.targets.insert((room.epoch, id))
            });
        }
        let licences = |links: Option<Links>| links.map_or(0, |links| links.licences);
        let others = self.licences.checked_sub(licences(before));
        invariant!(others.is_some(), "the licences in use are those of all conferences");
        self.licences = others.unwrap_or(0) + licences(after);
    }

    /// Takes room on a unit, or gives it back, and keeps the unit's place on the board. `change` says whether the
    /// unit's list of conferences changed.
    fn take_room(&mut self, room: Option<Room>, change: impl FnOnce(&mut Unit, Room) -> bool) {
        let Some(room) = room else { return };
        let Some(unit) = self.units.get_mut(room.unit) else {
            invariant!("a conference takes room of a unit that is there");
            return;
        };
        let changed = change(unit, room);
        invariant!(changed, "a unit has its conferences, each once");
        self.board.update(room.unit, unit);
    }

    /// Puts a conference, if it waits for recovery, into what is known of those, or takes it out: every change takes it
    /// out before and puts it back after. O(log conferences).
    pub(super) fn link_pending(&mut self, id: u32, on: bool) {
        let Some(one) = self.conferences.get(id) else {
            invariant!("a conference that changes is there");
            return;
        };
        if one.state != State::Pending {
            return;
        }
        if on {
            self.queues.join(one, id);
        } else {
            self.queues.leave(one, id);
        }
        // A conference that was never open was lost by nobody.
        let Some(lost) = one.last_lost() else { return };
        if on {
            let is_new = self.lost.entry(lost.cmu.clone()).or_default().insert((lost.epoch, id));
            invariant!(is_new, "a conference is lost once");
        } else {
            let all = self.lost.get_mut(&lost.cmu);
            invariant!(all.is_some(), "a pending conference is among those that its unit lost");
            if let Some(all) = all {
                let was_there = all.remove(&(lost.epoch, id));
                invariant!(was_there, "a pending conference is among those that its unit lost");
                if all.is_empty() {
                    self.lost.remove(&lost.cmu);
                }
            }
        }
        // The unit need not be known: it may have been forgotten, or replaced.
        let Some(&number) = self.unit_names.get(&lost.cmu) else { return };
        let Some(unit) = self.units.get(number) else {
            invariant!("the names of units are of units that are there");
            return;
        };
        Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
    }

    /// Brings a conference's deadline up to date.
    pub(super) fn watch(&mut self, id: u32) {
        match self.indexed(id).and_then(|one| one.next_due(&self.settings)) {
            Some(due) => self.conference_due.set(id, due),
            None => self.conference_due.remove(id),
        }
    }

    /// Brings a unit's place on the board and its deadline up to date.
    pub(super) fn relink_unit(&mut self, number: u32) {
        let Some(unit) = self.units.get(number) else {
            invariant!("a unit that changes is there");
            return;
        };
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
            let is_new = self.requests.insert(request, id).is_none();
            invariant!(is_new, "a request asks for one conference");
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
        let Some(one) = self.conferences.remove(id) else {
            invariant!("a conference that is forgotten was there");
            return;
        };
        self.names.remove(&one.e164, id);
        if let Some(request) = one.asked_for() {
            let was_there = self.requests.remove(request) == Some(id);
            invariant!(was_there, "a conference on a called number is found by its request");
        }
    }

    /// Enters a unit as its host's current one.
    pub(super) fn enter_unit(&mut self, unit: Unit) -> u32 {
        let (cmu, host): (_, Box<[u8]>) = (unit.cmu.clone(), host_of(&unit.cmu).into());
        let number = self.units.insert(unit);
        let is_new = self.unit_names.insert(cmu, number).is_none();
        invariant!(is_new, "a unit's name is that of no other");
        self.forgotten.retain(|forgotten| *forgotten != host);
        let host =
            self.hosts.entry(host).or_insert_with(|| Host { current: None, replaced: VecDeque::new() });
        invariant!(host.current.is_none(), "a host runs one unit: the one before was replaced");
        host.current = Some(number);
        self.relink_unit(number);
        number
    }

    /// Forgets a unit, which is idle. Its host is remembered for longer: which of its identities were replaced, and that
    /// the next one has to report first.
    pub(super) fn remove_unit(&mut self, number: u32) {
        self.board.remove(number);
        self.unit_due.remove(number);
        let Some(unit) = self.units.remove(number) else {
            invariant!("a unit that is forgotten was there");
            return;
        };
        invariant!(unit.is_idle(), "a unit that is forgotten has no conferences");
        self.unit_names.remove(&unit.cmu);
        let name = host_of(&unit.cmu);
        let Some(host) = self.hosts.get_mut(name).filter(|host| host.current == Some(number)) else {
            invariant!("a unit is its host's current one");
            return;
        };
        host.current = None;
        self.forgotten.push_back(name.into());
        if self.forgotten.len() > MAX_FORGOTTEN
            && let Some(oldest) = self.forgotten.pop_front()
        {
            let oldest = self.hosts.remove(&oldest);
            let was_idle = oldest.is_some_and(|host| host.current.is_none());
            invariant!(was_idle, "a host whose unit was forgotten runs none");
        }
    }
}
