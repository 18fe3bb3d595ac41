//! Applies events of units to the unit and to all its conferences: join, replacement, renewed lease, down, restart of
//! the scheduler. One event may cover thousands of conferences. Units are visited by name and conferences by epoch,
//! so that every server writes the same messages in the same order.

use crate::conf::model::conference::{AssignmentEnd, Cause, State};
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::{MAX_REPLACED, Name, Unit, UnitState, host_of};
use crate::invariant;
use crate::shared::Millis;
use std::collections::BTreeSet;

impl Realm {
    /// Renews the lease of a unit; a suspect or unreachable unit is up again.
    pub(super) fn renew(&mut self, number: u32, at: Millis) {
        let Some(unit) = self.units.get_mut(number) else {
            invariant!("a unit whose lease is renewed is there");
            return;
        };
        unit.renewed = at;
        let back = matches!(unit.state, UnitState::Suspect | UnitState::Unreachable);
        if back {
            unit.state = UnitState::Up;
            let (cmu, word) = (unit.cmu.clone(), unit.word());
            self.relink_unit(number);
            self.publish_unit("up", &cmu, word);
        } else {
            Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
        }
    }

    pub(super) fn join(&mut self, at: Millis, cmu: &Name, capacity: u32, zone: Option<Name>, lease: Millis) {
        let zone = zone.map(|zone| self.zone_name(&zone));
        if let Some(number) = self.find_unit(cmu) {
            self.placement_index.remove(number);
            let Some(unit) = self.units.get_mut(number) else {
                invariant!("the names of units are of units that are there");
                return;
            };
            (unit.capacity, unit.zone, unit.lease, unit.renewed) = (capacity, zone, lease, at);
            let was = unit.state;
            if was == UnitState::Down {
                // Nothing is placed on the unit before it has reported its list.
                (unit.reported, unit.joined) = (false, at);
            }
            unit.state = UnitState::Up;
            let word = unit.word();
            self.relink_unit(number);
            if was != UnitState::Up {
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
            capacity,
            used: 0,
            state: UnitState::Up,
            draining: false,
            // If the record of the host's last unit was deleted, its conferences may still run there.
            reported: host != Some(None),
            lease,
            renewed: at,
            joined: at,
            down_since: 0,
            load: None,
            owned: BTreeSet::new(),
            targets: BTreeSet::new(),
        });
        self.publish_unit("joined", cmu, "up");
    }

    /// Removes a unit that another incarnation on its host replaces.
    fn replace(&mut self, at: Millis, number: u32) {
        let cmu = self.name_of(number);
        self.lose_unit(at, &cmu, Cause::Replaced);
        self.placement_index.remove(number);
        self.unit_due.remove(number);
        let idle = self.units.remove(number).is_some_and(|unit| unit.is_idle());
        invariant!(idle, "a unit that is replaced has lost its conferences");
        self.unit_names.remove(&cmu);
        match self.hosts.get_mut(host_of(&cmu)) {
            Some(host) => {
                if host.replaced.len() >= MAX_REPLACED {
                    host.replaced.pop_front();
                }
                host.replaced.push_back(cmu.clone());
                host.current = None;
            }
            None => invariant!("a unit has a host"),
        }
        self.end_stream(&cmu);
        self.publish_unit("replaced", &cmu, "replaced");
    }

    /// A unit is lost: its conferences follow the table of transitions, and moves to the unit are cancelled.
    pub(super) fn lose_unit(&mut self, at: Millis, cmu: &Name, cause: Cause) {
        let Some(number) = self.admitted_unit(cmu) else { return };
        // First, so that the placement index is not updated for every conference.
        self.placement_index.remove(number);
        let Some(unit) = self.units.get_mut(number) else {
            invariant!("the names of units are of units that are there");
            return;
        };
        let first = unit.state != UnitState::Down;
        unit.state = UnitState::Down;
        unit.load = None;
        if first {
            unit.down_since = at;
        }
        let (owned, targets) = (unit.owned.clone(), unit.targets.clone());
        if first && cause != Cause::Replaced {
            self.publish_unit("down", cmu, "down");
        }
        for (_, id) in targets {
            self.cancel_move(id, cause, false);
        }
        for (_, id) in owned {
            self.lose(at, id, cause);
        }
        self.relink_unit(number);
    }

    pub(super) fn lose(&mut self, at: Millis, id: u32, cause: Cause) {
        let Some(conference) = self.indexed(id) else { return };
        let ending = conference.ending.is_some();
        match effective(conference, transition(Trigger::Lost, Some(conference.state))) {
            // The target of the move takes over.
            _ if conference.moving.is_some() && !ending => {
                let (Some(moving), Some(owner), epoch) =
                    (conference.moving, conference.owner, conference.epoch)
                else {
                    invariant!("a conference that moves has an owner");
                    return;
                };
                let entry = self.assignment(moving.to, moving.epoch, moving.epoch, at);
                self.change(id, |conference| conference.goes_on(at, moving, entry, cause));
                self.publish_of("lost", id, owner, epoch, Some(cause));
                self.publish("granted", id, Some(Cause::Recovery));
            }
            Transition::Pending => {
                self.change(id, |conference| conference.loses(at, cause));
                self.publish("lost", id, Some(cause));
            }
            Transition::Ended => {
                // If the unit comes back, it finds the RELEASE in its stream.
                self.release_if(cause != Cause::Replaced, id);
                self.change(id, |conference| conference.close(at, AssignmentEnd::Lost));
                let cause = if ending {
                    self.indexed(id).map_or(cause, |conference| conference.cause)
                } else {
                    cause
                };
                self.end(at, id, cause);
            }
            _ => invariant!("a conference that loses its unit waits for recovery or ends"),
        }
    }

    pub(super) fn restart(&mut self, at: Millis, gone: &[Name]) {
        for cmu in gone {
            self.lose_unit(at, cmu, Cause::Restart);
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
                        self.release_if(true, id);
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
