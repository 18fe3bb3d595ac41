//! Which epochs a host has from this realm. A copy of another epoch is of an assignment that the realm lost: a failover
//! or an older file took it away.

use super::epoch::Epoch;
use crate::fields;
use crate::shared::codec::{Damaged, ensure};
use std::collections::VecDeque;

/// The most epochs of a host that are kept one by one.
const MAX_SENT: usize = 256;

fields! {
    /// The epochs that the realm sent to the units of a host, in CREATE, EPOCH and RELEASE, or compared with their
    /// reports.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Sent {
        /// All epochs up to this one are in the set.
        all_up_to: Epoch,
        /// The later ones, in ascending order. At most [`MAX_SENT`].
        later: VecDeque<Epoch>,
    } checked by Sent::is_sound;
}

impl Sent {
    fn is_sound(&self) -> Result<(), Damaged> {
        let rises = self.later.iter().is_sorted_by(|epoch, next| epoch < next);
        let are_later = self.later.front().is_none_or(|first| *first > self.all_up_to);
        ensure(rises && are_later, "the epochs that a host was sent are not in order")?;
        ensure(self.later.len() <= MAX_SENT, "too many epochs of a host are kept")
    }

    /// Whether the epoch is in the set. O(log [`MAX_SENT`]).
    pub(in crate::conf) fn contains(&self, epoch: Epoch) -> bool {
        epoch <= self.all_up_to || self.later.binary_search(&epoch).is_ok()
    }

    /// Adds an epoch. O(1) if it is the latest, as those of CREATE and EPOCH are; otherwise O([`MAX_SENT`]).
    pub(in crate::conf) fn add(&mut self, epoch: Epoch) {
        if epoch <= self.all_up_to {
            return;
        }
        if let Err(at) = self.later.binary_search(&epoch) {
            self.later.insert(at, epoch);
        }
        if self.later.len() > MAX_SENT
            && let Some(oldest) = self.later.pop_front()
        {
            self.all_up_to = oldest;
        }
    }

    /// Adds all epochs up to this one. O([`MAX_SENT`]).
    pub(in crate::conf) fn add_all_up_to(&mut self, epoch: Epoch) {
        self.all_up_to = self.all_up_to.max(epoch);
        self.later.retain(|later| *later > epoch);
    }

    /// The greatest epoch of the set; 0 if it is empty.
    pub(in crate::conf) fn last(&self) -> Epoch {
        self.later.back().copied().unwrap_or(self.all_up_to)
    }
}
