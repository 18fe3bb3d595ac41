//! Events of one unit, and what joins, replacements, losses and restarts do to a unit and to all its conferences. One
//! event may cover thousands of conferences. Units are visited by name and conferences by epoch, so that every server
//! writes the same messages in the same order.

use super::counters::Counter;
use crate::conf::model::conference::{Cause, State};
use crate::conf::model::epoch::{Epoch, is_plausible};
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::{Conflict, Load, MAX_REPLACED, Name, RAMP_STEPS, Unit, UnitState, host_of};
use crate::shared::codec::{Damaged, ensure};
use crate::shared::field::Any;
use crate::shared::invariant::Expected;
use crate::shared::{Bytes, Millis};
use crate::{events, invariant};

events! {
    /// A change of a unit that has joined.
    pub enum UnitEvent counted by Counter {
        /// The lease begins again.
        Beat {
            /// Load of the unit, if the heartbeat has one.
            load: Option<Any<i64>>,
        } = 1, notice c"allot.cmu.beat";
        /// The load that the unit reported is a lease old, and no longer counts.
        LoadExpired = 2, notice c"allot.cmu.load-expired";
        /// The lease passed 60 % of its length, or expired.
        Lapsed {
            /// The new state: suspect or unreachable.
            to: UnitState,
        } = 3, notice c"allot.cmu.lapsed", count (Counter::UnitLapsed, 1);
        /// The unit reported its list; the results follow as separate events. Later epochs are greater than `highest`,
        /// if `highest` is plausible.
        Reported {
            /// The highest epoch that the unit had handled.
            highest: Epoch,
        } = 4, notice c"allot.cmu.reported";
        /// The unit is about to end: nothing new is placed on it.
        Leaving = 5, notice c"allot.cmu.leaving";
        /// The unit is down: its conferences are lost.
        Down = 6, notice c"allot.cmu.down", count (Counter::UnitDown, 1);
        /// The record of the unit, which is down, is deleted, with its stream.
        Forgotten = 7, notice c"allot.cmu.forgotten";
        /// RELEASE is sent to the unit, which does not own the conference any more.
        Disowned {
            /// E.164 number of the conference, which need not be on record.
            e164: Bytes,
            /// The epoch that the unit reported.
            epoch: Epoch,
        } = 8, notice c"allot.conf.disowned", count (Counter::Disowned, 1);
        /// A creation failed on the unit: the unit refused it, or did not answer in time.
        Failed = 9, notice c"allot.cmu.failed", count (Counter::UnitFailed, 1);
        /// The back-off of the unit is over: the unit gets one conference as a trial.
        BackoffEnded = 10, notice c"allot.cmu.trial";
        /// Further tenths of the capacity of a new unit count: all whose time has passed.
        Ramped = 11, notice c"allot.cmu.ramped";
        /// Another unit of the host wanted to join from another machine, and was refused.
        Conflict {
            /// The other machine.
            machine: Name,
        } = 12, notice c"allot.cmu.conflict", count (Counter::UnitConflict, 1);
        /// No other unit has been refused for a while.
        ConflictOver = 13, notice c"allot.cmu.conflict-over";
    }
}

impl Unit {
    pub(super) fn admits(&self, event: &UnitEvent) -> Result<(), Damaged> {
        let is = |states: &[UnitState]| ensure(states.contains(&self.state), "a unit is in another state");
        match event {
            UnitEvent::Beat { .. } | UnitEvent::Reported { .. } | UnitEvent::Down | UnitEvent::Failed => {
                is(&[UnitState::Up, UnitState::Suspect, UnitState::Unreachable])
            }
            UnitEvent::LoadExpired => ensure(self.load.is_some(), "the load of a unit expires that has none"),
            UnitEvent::Lapsed { to: UnitState::Suspect } => is(&[UnitState::Up]),
            UnitEvent::Lapsed { to: UnitState::Unreachable } | UnitEvent::Conflict { .. } => {
                is(&[UnitState::Up, UnitState::Suspect])
            }
            UnitEvent::Lapsed { to: UnitState::Up | UnitState::Down } => {
                Err(Damaged("a lease lapses to another state than suspect or unreachable"))
            }
            UnitEvent::Leaving => ensure(!self.leaving, "a unit is about to end already"),
            UnitEvent::Forgotten => {
                is(&[UnitState::Down])?;
                ensure(self.is_idle(), "a unit that has conferences is forgotten")
            }
            UnitEvent::Disowned { .. } => Ok(()),
            UnitEvent::ConflictOver => {
                ensure(self.conflict.is_some(), "a conflict ends of a unit that has none")
            }
            UnitEvent::Ramped => {
                is(&[UnitState::Up, UnitState::Suspect])?;
                ensure(self.held_back > 0, "a unit gets a further share that has all of it")
            }
            UnitEvent::BackoffEnded => {
                is(&[UnitState::Up, UnitState::Suspect])?;
                ensure(self.backoff_until.is_some(), "a back-off ends of a unit that has none")
            }
        }
    }
}

impl Realm {
    pub(super) fn apply_to_unit(&mut self, at: Millis, number: u32, cmu: &Name, event: &UnitEvent) {
        match event {
            UnitEvent::Beat { load } => {
                if let Some(value) = *load {
                    let is_other = |unit: &Unit| unit.load.is_none_or(|load| load.value != value);
                    let may_free_room = self.indexed_unit(number).is_some_and(is_other);
                    self.change_unit(number, |unit| unit.load = Some(Load { value, at }));
                    if may_free_room {
                        self.waiters.open();
                    }
                }
                self.hear(number, at);
            }
            UnitEvent::LoadExpired => self.change_unit(number, |unit| unit.load = None),
            UnitEvent::Lapsed { to } => {
                self.change_unit(number, |unit| {
                    unit.state = *to;
                    // The load was reported with a heartbeat, so it is at least as old as the lease.
                    unit.load = unit.load.filter(|_| *to == UnitState::Suspect);
                    unit.conflict = unit.conflict.take().filter(|_| *to == UnitState::Suspect);
                });
                self.publish_unit(to.word(), cmu, to.word());
            }
            UnitEvent::Reported { highest } => {
                let is_plausible = is_plausible(*highest, self.applied);
                self.raise_last_epoch(self.last_with(*highest, self.applied));
                self.change_unit(number, |unit| unit.reported = is_plausible);
                if let Some(host) = self.hosts.get_mut(host_of(cmu)).filter(|_| is_plausible) {
                    host.sent.add_all_up_to(*highest);
                }
                self.hear(number, at);
            }
            UnitEvent::Leaving => {
                self.change_unit(number, |unit| unit.leaving = true);
                let word = self.indexed_unit(number).map_or("", Unit::word);
                self.publish_unit("leaving", cmu, word);
            }
            UnitEvent::Down => self.lose_unit(at, number, Cause::Down),
            UnitEvent::Forgotten => {
                self.end_stream(cmu);
                self.remove_unit(number);
                self.publish_unit("forgotten", cmu, "");
            }
            UnitEvent::Disowned { e164, epoch } => {
                let one = self.conference_called(e164).filter(|one| *epoch >= one.origin_epoch);
                let over = one.is_some_and(|one| !one.is_live() || one.ending.is_some());
                self.tell_release(cmu, e164, *epoch, over);
                // The realm may have no record of the conference.
                if let Some(conference) = self.find(e164).and_then(|id| self.conferences.get_mut(id)) {
                    // No index depends on `disowned`.
                    conference.disown(cmu, *epoch);
                }
            }
            UnitEvent::Failed => {
                let settings = self.settings;
                self.change_unit(number, |unit| {
                    unit.failures = unit.failures.saturating_add(1);
                    let until = unit.backoff(&settings).map(|length| at.saturating_add(length));
                    unit.backoff_until = until.or(unit.backoff_until);
                });
                let backs_off = |unit: &&Unit| unit.backoff_until.is_some();
                if let Some(word) = self.indexed_unit(number).filter(backs_off).map(Unit::word) {
                    self.publish_unit("backoff", cmu, word);
                }
            }
            UnitEvent::BackoffEnded => {
                self.change_unit(number, |unit| unit.backoff_until = None);
                let word = self.indexed_unit(number).map_or("", Unit::word);
                self.publish_unit("trial", cmu, word);
            }
            UnitEvent::Ramped => {
                let settings = self.settings;
                // All tenths whose time has passed: several at once in a short ramp, or after a pause of the server.
                self.change_unit(number, |unit| {
                    unit.held_back = unit.held_back.saturating_sub(1);
                    while unit.ramp_due(&settings).is_some_and(|due| due <= at) {
                        unit.held_back = unit.held_back.saturating_sub(1);
                    }
                });
            }
            UnitEvent::Conflict { machine } => {
                let is_known =
                    |unit: &Unit| unit.conflict.as_ref().is_some_and(|conflict| conflict.machine == *machine);
                let is_new = !self.indexed_unit(number).is_some_and(is_known);
                let conflict = Conflict { machine: machine.clone(), at };
                self.change_unit(number, |unit| unit.conflict = Some(conflict));
                if is_new {
                    let word = self.indexed_unit(number).map_or("", Unit::word);
                    self.publish_conflict(cmu, word, machine);
                }
            }
            UnitEvent::ConflictOver => {
                self.change_unit(number, |unit| unit.conflict = None);
                let word = self.indexed_unit(number).map_or("", Unit::word);
                self.publish_unit("conflict-over", cmu, word);
            }
        }
    }

    /// Gives a unit on trial no further conference until the result of this one is known. If the conference ends without
    /// a result, another trial follows when the time for an answer has passed.
    pub(super) fn begin_trial(&mut self, at: Millis, number: u32) {
        let settings = self.settings;
        if self.indexed_unit(number).is_some_and(|unit| unit.is_on_trial(&settings)) {
            let until = at.saturating_add(settings.create_timeout);
            self.change_unit(number, |unit| unit.backoff_until = Some(until));
        }
    }

    /// Notes that a unit has created a conference: earlier failures no longer count.
    pub(super) fn end_trial(&mut self, number: u32) {
        let Some(unit) = self.indexed_unit(number).filter(|unit| unit.failures > 0) else { return };
        let (cmu, was_on_trial) = (unit.cmu.clone(), unit.is_on_trial(&self.settings));
        self.change_unit(number, |unit| (unit.failures, unit.backoff_until) = (0, None));
        if was_on_trial {
            let word = self.indexed_unit(number).map_or("", Unit::word);
            self.publish_unit("restored", &cmu, word);
        }
    }

    pub(super) fn drain(&mut self, at: Millis, host: &[u8], on: bool) {
        if on {
            self.drained.insert(host.to_vec(), at);
        } else {
            self.drained.remove(host);
        }
        let event = if on { "draining" } else { "undrained" };
        let Some(number) = self.unit_of_host(host) else { return self.publish_unit(event, host, "") };
        self.change_unit(number, |unit| unit.drained = on);
        let Some(unit) = self.indexed_unit(number) else { return };
        let (cmu, word) = (unit.cmu.clone(), unit.word());
        self.publish_unit(event, &cmu, word);
    }

    /// Notes a sign of life of a unit, which renews its lease.
    fn hear(&mut self, number: u32, at: Millis) {
        if let Some(unit) = self.units.get_mut(number).expected("a unit that is heard of is there") {
            // No index depends on `heard`.
            unit.heard = at;
        }
        self.renew(number, at);
    }

    /// Renews the lease of a unit; a suspect or unreachable unit is up again.
    pub(super) fn renew(&mut self, number: u32, at: Millis) {
        let Some(unit) = self.indexed_unit(number) else { return };
        let back = matches!(unit.state, UnitState::Suspect | UnitState::Unreachable);
        let cmu = unit.cmu.clone();
        self.change_unit(number, |unit| {
            unit.renewed = at;
            if back {
                unit.state = UnitState::Up;
            }
        });
        if back {
            self.waiters.open();
            let word = self.indexed_unit(number).map_or("", Unit::word);
            self.publish_unit("up", &cmu, word);
        }
    }

    pub(super) fn join(
        &mut self,
        at: Millis,
        cmu: &Name,
        (capacity, lease): (u32, Millis),
        (zone, machine): (Option<&Name>, Option<&Name>),
        tags: &[Name],
    ) {
        let zone = zone.map(|zone| self.zone_name(zone));
        let held_back = if self.settings.ramp > 0 { RAMP_STEPS - 1 } else { 0 };
        if let Some(number) = self.find_unit(cmu) {
            let Some(unit) = self.indexed_unit(number) else { return };
            let was = unit.state;
            let is_elsewhere = (&unit.zone, &unit.tags[..]) != (&zone, tags);
            self.change_unit(number, |unit| {
                (unit.capacity, unit.zone, unit.tags, unit.lease) = (capacity, zone, tags.to_vec(), lease);
                unit.machine = machine.cloned();
                (unit.renewed, unit.heard) = (at, at);
                unit.state = UnitState::Up;
                if was == UnitState::Down {
                    // Nothing is placed on the unit before it has reported its list.
                    (unit.reported, unit.joined, unit.held_back) = (false, at, held_back);
                }
            });
            if is_elsewhere && !self.reservations.is_empty() {
                self.measure_reservations();
            }
            if was != UnitState::Up {
                let word = self.indexed_unit(number).map_or("", Unit::word);
                self.publish_unit(if was == UnitState::Down { "joined" } else { "up" }, cmu, word);
            }
            return;
        }
        let host = self.hosts.get(host_of(cmu)).map(|host| host.current);
        if let Some(Some(before)) = host {
            self.replace(at, before);
        }
        self.enter_unit(Unit {
            cmu: cmu.clone(),
            zone,
            tags: tags.to_vec(),
            machine: machine.cloned(),
            capacity,
            // If the record of the host's last unit was deleted, its conferences may still run there.
            reported: host != Some(None),
            lease,
            renewed: at,
            heard: at,
            joined: at,
            held_back,
            ..Unit::default()
        });
        self.publish_unit("joined", cmu, "up");
    }

    /// Removes a unit that another incarnation on its host replaces.
    fn replace(&mut self, at: Millis, number: u32) {
        self.lose_unit(at, number, Cause::Replaced);
        let Some(cmu) = self.take_unit(number) else { return };
        if let Some(host) = self.hosts.get_mut(host_of(&cmu)).expected("a unit has a host") {
            if host.replaced.len() >= MAX_REPLACED {
                host.replaced.pop_front();
            }
            host.replaced.push_back(cmu.clone());
        }
        self.end_stream(&cmu);
        self.publish_unit("replaced", &cmu, "replaced");
    }

    /// A unit is lost: its conferences follow the table of transitions, and moves to the unit are cancelled.
    fn lose_unit(&mut self, at: Millis, number: u32, cause: Cause) {
        // First, so that the placement index is not updated for every conference.
        self.placement_index.remove(number);
        let Some(unit) = self.units.get_mut(number).expected("a unit that is lost was there") else { return };
        let first = unit.state != UnitState::Down;
        (unit.state, unit.load, unit.conflict) = (UnitState::Down, None, None);
        if first {
            unit.down_since = at;
        }
        let (cmu, owned, targets) = (unit.cmu.clone(), unit.owned.clone(), unit.targets.clone());
        if first && cause != Cause::Replaced {
            self.publish_unit("down", &cmu, "down");
        }
        for (_, id) in targets {
            self.cancel_move(id, cause, false);
        }
        for (_, id) in owned {
            self.lose(at, id, cause);
        }
        self.relink_unit(number);
    }

    pub(super) fn restart(&mut self, at: Millis, gone: &[Name]) {
        for cmu in gone {
            if let Some((number, _)) = self.named_unit(cmu) {
                self.lose_unit(at, number, Cause::Restart);
            }
        }
        let all: Vec<u32> = self.unit_names.values().copied().collect();
        for number in all {
            let Some(unit) = self.indexed_unit(number) else { continue };
            let (cmu, owned) = (unit.cmu.clone(), unit.owned.clone());
            let mut asked = false;
            for (_, id) in owned {
                let Some(conference) = self.indexed(id) else { continue };
                match effective(conference, transition(Trigger::RestartAlive, Some(conference.state))) {
                    Transition::Waiting => {
                        self.change(id, |conference| {
                            (conference.state, conference.since, conference.cause) =
                                (State::Waiting, at, Cause::Restart);
                        });
                        asked = true;
                        self.publish("waiting", id, Some(Cause::Restart));
                    }
                    Transition::Ended => {
                        let cause = conference.cause;
                        self.release(id, true);
                        self.end(at, id, cause);
                    }
                    // While no scheduler was there, the unit may have been cut off from Redis as well.
                    Transition::Stays if conference.state == State::Creating => {
                        self.change(id, |conference| conference.since = at);
                    }
                    Transition::Stays => {}
                    _ => {
                        invariant!("a conference of a unit that is alive stays, waits for a report, or ends");
                    }
                }
            }
            if asked {
                self.tell_report(&cmu, false);
            }
        }
    }
}
