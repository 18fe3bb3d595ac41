//! Deadlines of conferences and units, computed from their records.

use super::conference::{Conference, Moving, State};
use super::settings::Settings;
use super::unit::{Unit, UnitState};
use crate::shared::Millis;

/// The kinds of deadlines of a conference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::conf) enum Due {
    EndTime,
    Create,
    Wait,
    Window,
    Move,
    Release,
    Tombstone,
}

impl Conference {
    /// All deadlines of the conference. If several have passed, the first in the list applies first.
    fn deadlines(&self, settings: &Settings) -> [Option<(Due, Millis)>; 3] {
        let since = |length: Millis| self.since.saturating_add(length);
        if self.state == State::Ended {
            return [Some((Due::Tombstone, since(settings.tombstone))), None, None];
        }
        // The unit was told to end the conference; no other deadline applies any more.
        if let Some(ending) = self.ending {
            return [Some((Due::Release, ending.saturating_add(settings.release_timeout))), None, None];
        }
        let own = match self.state {
            State::Creating => Some((Due::Create, since(settings.create_timeout))),
            State::Waiting => Some((Due::Wait, since(settings.wait_timeout))),
            State::Pending => {
                self.pending_since.map(|since| (Due::Window, since.saturating_add(settings.window)))
            }
            State::Open | State::Ended => None,
        };
        let moving = |moving: Moving| (Due::Move, moving.since.saturating_add(settings.create_timeout));
        [self.end.map(|end| (Due::EndTime, end)), own, self.moving.map(moving)]
    }

    /// The earliest deadline of the conference.
    pub(in crate::conf) fn next_due(&self, settings: &Settings) -> Option<Millis> {
        self.deadlines(settings).into_iter().flatten().map(|(_, due)| due).min()
    }

    /// The first deadline that has passed by `now`.
    pub(in crate::conf) fn due(&self, settings: &Settings, now: Millis) -> Option<Due> {
        self.deadlines(settings).into_iter().flatten().find(|&(_, due)| due <= now).map(|(due, _)| due)
    }
}

impl Unit {
    /// The earliest deadline of the unit. `waited_for` says whether the unit was the last one to have some pending
    /// conference open; then its record is kept.
    pub(in crate::conf) fn next_due(&self, settings: &Settings, waited_for: bool) -> Option<Millis> {
        let or_load = |due: Millis| Some(self.load_ends().map_or(due, |load_ends| load_ends.min(due)));
        match self.state {
            UnitState::Up => or_load(self.suspect_at()),
            UnitState::Suspect => or_load(self.lease_ends()),
            UnitState::Unreachable => None,
            UnitState::Down => {
                (self.is_idle() && !waited_for).then(|| self.down_since.saturating_add(settings.tombstone))
            }
        }
    }
}
