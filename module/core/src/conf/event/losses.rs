//! A conference loses its unit, its move is cancelled, or it ends.

use crate::conf::model::assignment::AssignmentEnd;
use crate::conf::model::conference::{Cause, Conference};
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::invariant;
use crate::shared::Millis;
use crate::shared::codec::LAST_COUNT;

impl Realm {
    /// The last sign of life of the unit of a conference that is lost for this cause: of a unit that answers, now.
    pub(in crate::conf) fn last_heard(&self, conference: &Conference, at: Millis, cause: Cause) -> Millis {
        let silent = matches!(cause, Cause::Down | Cause::Replaced | Cause::Restart | Cause::Timeout);
        let owner = conference.owner.filter(|_| silent).and_then(|owner| self.indexed_unit(owner));
        owner.map_or(at, |owner| owner.heard)
    }

    /// A conference loses its unit.
    pub(super) fn lose(&mut self, at: Millis, id: u32, cause: Cause) {
        let Some(conference) = self.indexed(id) else { return };
        let (ending, was) = (conference.ending.is_some(), conference.cause);
        let heard = self.last_heard(conference, at, cause);
        let next = effective(conference, transition(Trigger::Lost, Some(conference.state)));
        // The target of a move takes over.
        if let Some(moving) = conference.moving.clone().filter(|_| !ending) {
            let Some(cmu) = conference.last_unit().cloned() else { return };
            let epoch = conference.epoch;
            self.change(id, |conference| conference.goes_on(at, heard, &moving, cause));
            self.publish_of("lost", id, &cmu, epoch, Some(cause));
            self.publish("granted", id, Some(Cause::Recovery));
            return;
        }
        match next {
            Transition::Pending => {
                let next_retry = at.saturating_add(self.settings.retry);
                self.change(id, |conference| match cause {
                    Cause::Failed => conference.fails_on_its_unit(at, next_retry),
                    _ => conference.loses(at, heard, cause),
                });
                self.publish("lost", id, Some(cause));
            }
            Transition::Ended => {
                // If the unit comes back, it finds the RELEASE in its stream.
                if cause != Cause::Replaced {
                    self.release(id, true);
                }
                self.change(id, |conference| conference.close(at, AssignmentEnd::Lost));
                self.end(at, id, if ending { was } else { cause });
            }
            _ => invariant!("a conference that loses its unit waits for recovery or ends"),
        }
    }

    pub(super) fn end(&mut self, at: Millis, id: u32, cause: Cause) {
        self.change(id, |conference| conference.ends(at, cause));
        // The encoding of a count has 53 bits.
        self.ends = (self.ends + 1).min(LAST_COUNT);
        self.publish_end(id, cause);
    }

    /// Cancels the move of a conference, if there is one.
    pub(super) fn cancel_move(&mut self, id: u32, cause: Cause, release: bool) {
        let target = self.indexed(id).and_then(|one| Some((one.moving.clone()?, one.e164.clone())));
        let Some((moving, e164)) = target else { return };
        if release {
            self.tell_release(&moving.cmu, &e164, moving.epoch, false);
        }
        self.change(id, |conference| conference.moving = None);
        self.publish_of("move-failed", id, &moving.cmu, moving.epoch, Some(cause));
    }
}
