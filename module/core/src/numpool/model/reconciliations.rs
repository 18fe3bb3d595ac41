//! Reconciliations of switches that carry so many leases that these end in slices.
//!
//! A reconciliation is part of a request of one server, as a waiter is: it is neither saved nor replicated nor copied.
//! The leases end by events, so a request that is sent again after a failover ends the rest.

use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;

/// A reconciliation that is not done.
#[derive(Debug)]
pub(in crate::numpool) struct Reconciliation {
    /// The switch, by its id. While a lease of the time of the request is live, the id belongs to the same switch.
    pub(in crate::numpool) switch: u32,
    /// Only leases that were granted before this time end.
    pub(in crate::numpool) before: Option<Millis>,
    /// Leases that go on: those that the switch still carries, and those that were granted after the request.
    pub(in crate::numpool) exempt: HashSet<u32>,
    /// The next lease to look at. Leases are looked at in the order of their ids.
    pub(in crate::numpool) next: u32,
    /// An upper bound of the ids of leases at the time of the request.
    pub(in crate::numpool) end: u32,
    /// How many leases of the switch go on.
    pub(in crate::numpool) kept: u64,
    /// How many leases were ended.
    pub(in crate::numpool) freed: u64,
    /// Tokens that were no live lease of the switch at the time of the request.
    pub(in crate::numpool) unknown: Vec<Bytes>,
}

/// The reconciliations of a pool with their waiters, the oldest first.
#[derive(Debug, Default)]
pub(in crate::numpool) struct Reconciliations(Vec<(u64, Reconciliation)>);

/// A copy of a pool has no connections.
impl Clone for Reconciliations {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Reconciliations {
    /// How many are not done.
    pub(in crate::numpool) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::numpool) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a reconciliation, whose outcome is for this waiter.
    pub(in crate::numpool) fn begin(&mut self, waiter: u64, reconciliation: Reconciliation) {
        self.0.push((waiter, reconciliation));
    }

    /// The oldest reconciliation.
    pub(in crate::numpool) fn first_mut(&mut self) -> Option<&mut Reconciliation> {
        self.0.first_mut().map(|(_, reconciliation)| reconciliation)
    }

    /// Whether all leases of the oldest reconciliation were looked at.
    pub(in crate::numpool) fn is_first_done(&self) -> bool {
        self.0.first().is_some_and(|(_, first)| first.next >= first.end)
    }

    /// Takes out the oldest reconciliation with its waiter, if it is done.
    pub(in crate::numpool) fn take_done(&mut self) -> Option<(u64, Reconciliation)> {
        self.is_first_done().then(|| self.0.remove(0))
    }

    /// A lease began after the requests.
    #[inline]
    pub(in crate::numpool) fn lease_began(&mut self, lease: u32) {
        for (_, reconciliation) in &mut self.0 {
            reconciliation.exempt.insert(lease);
        }
    }

    /// Forgets all of them.
    pub(in crate::numpool) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}
