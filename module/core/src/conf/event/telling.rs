//! What the units of a conference are told when the conference changes.

use crate::conf::model::conference::{Conference, Epoch};
use crate::conf::model::state::Realm;

impl Realm {
    /// Sends RELEASE to the owner of a conference, if it has one.
    pub(super) fn release_owner(&mut self, id: u32, over: bool) {
        let owned = self.indexed(id).filter(|conference| conference.owner.is_some());
        let owner = owned.and_then(|one| Some((one.last_unit()?.clone(), one.e164.clone(), one.epoch)));
        if let Some((cmu, e164, epoch)) = owner {
            self.tell_release(&cmu, &e164, epoch, over);
        }
    }

    /// Sends RELEASE to the owner of a conference and to the target of its move. `over` says that the conference ends.
    pub(super) fn release(&mut self, id: u32, over: bool) {
        self.release_owner(id, over);
        let target = self.indexed(id).and_then(|one| Some((one.moving.clone()?, one.e164.clone())));
        if let Some((moving, e164)) = target {
            self.tell_release(&moving.cmu, &e164, moving.epoch, over);
        }
    }

    /// Sends EPOCH to the owner of a conference, whose copy had the epoch `old`.
    pub(super) fn tell_epoch_of(&mut self, id: u32, old: Epoch) {
        let Some(one) = self.indexed(id) else { return };
        let (cmu, e164, epoch) = (one.last_unit().cloned(), one.e164.clone(), one.epoch);
        if let Some(cmu) = cmu {
            self.tell_epoch(&cmu, &e164, old, epoch);
        }
    }

    /// Changes what the units of a conference are told, and tells them.
    pub(super) fn update(&mut self, id: u32, number: Epoch, change: impl FnOnce(&mut Conference)) {
        self.raise_last_epoch(number);
        self.change(id, |conference| conference.updates(number, change));
        self.tell_update(id);
    }

    /// Sends the last UPDATE to the owner of a conference and to the target of its move, if their copies are older.
    pub(super) fn tell_update(&mut self, id: u32) {
        let Some(one) = self.indexed(id) else { return };
        let owner = one.owner.and_then(|_| Some((one.last_unit()?.clone(), one.epoch, one.copy_epoch)));
        let target = one.moving.as_ref().map(|moving| (moving.cmu.clone(), moving.epoch, moving.epoch));
        let last_update = one.last_update;
        for (cmu, epoch, copy_epoch) in owner.into_iter().chain(target) {
            if last_update > copy_epoch {
                self.tell_change(id, &cmu, epoch);
            }
        }
    }
}
