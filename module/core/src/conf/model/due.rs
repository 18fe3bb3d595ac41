//! Deadlines that follow from the records: when a conference or a unit waits no longer, and for what.

use super::conference::{Conference, Moving, State};
use super::settings::Settings;
use super::unit::{Standing, Unit};
use crate::shared::Millis;

/// What a conference waits for.
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
    /// All its deadlines; where several have passed, the first in the list comes first.
    fn deadlines(&self, settings: &Settings) -> [Option<(Due, Millis)>; 3] {
        let since = |length: Millis| self.since.saturating_add(length);
        if self.state == State::Ended {
            return [Some((Due::Tombstone, since(settings.tombstone))), None, None];
        }
        // Its unit is to end it; nothing else matters any more.
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

    /// Its earliest deadline.
    pub(in crate::conf) fn next_due(&self, settings: &Settings) -> Option<Millis> {
        self.deadlines(settings).into_iter().flatten().map(|(_, due)| due).min()
    }

    /// What a conference waits for that has come by `now`.
    pub(in crate::conf) fn due(&self, settings: &Settings, now: Millis) -> Option<Due> {
        self.deadlines(settings).into_iter().flatten().find(|&(_, due)| due <= now).map(|(due, _)| due)
    }
}

impl Unit {
    /// Its earliest deadline; `waited_for` says whether pending conferences remember it as the last to have them.
    pub(in crate::conf) fn next_due(&self, settings: &Settings, waited_for: bool) -> Option<Millis> {
        match self.standing {
            Standing::Up => Some(self.suspect_at()),
            Standing::Suspect => Some(self.lease_ends()),
            Standing::Unreachable => None,
            Standing::Down => {
                (self.is_idle() && !waited_for).then(|| self.down_since.saturating_add(settings.tombstone))
            }
        }
    }
}
