//! Requests about a switch that are carried out in slices, because the switch has so many leases or numbers.
//!
//! Such a request is one of one server, as a waiter is: it is neither saved nor replicated nor copied. Each slice ends
//! leases or registrations by events, so a request that is sent again after a failover ends the rest.

use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;

/// What a request ends.
#[derive(Debug)]
pub(in crate::numpool) enum Ends {
    /// The leases of a switch: `RECONCILE`.
    Leases {
        /// Only leases that were granted before this time end.
        before: Option<Millis>,
        /// Tokens that were no live lease of the switch at the time of the request.
        unknown: Vec<Bytes>,
    },
    /// The registrations by a switch: `UNREG`.
    Registrations,
}

/// A request that is not done.
#[derive(Debug)]
pub(in crate::numpool) struct Sliced {
    /// The switch, by its id. While a lease or a registration of the time of the request is there, the id belongs to
    /// the same switch.
    pub(in crate::numpool) switch: u32,
    pub(in crate::numpool) ends: Ends,
    /// What goes on, by the ids of leases or numbers: leases that the switch still carries, and what began after the
    /// request.
    pub(in crate::numpool) exempt: HashSet<u32>,
    /// The next lease or number to look at, in the order of ids.
    pub(in crate::numpool) next: u32,
    /// An upper bound of the ids at the time of the request.
    pub(in crate::numpool) end: u32,
    /// How many leases of the switch go on.
    pub(in crate::numpool) kept: u64,
    /// How many leases or registrations were ended.
    pub(in crate::numpool) ended: u64,
}

/// The requests of a pool that are not done, with their waiters; the oldest first.
#[derive(Debug, Default)]
pub(in crate::numpool) struct SlicedRequests(Vec<(u64, Sliced)>);

/// A copy of a pool has no connections.
impl Clone for SlicedRequests {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl SlicedRequests {
    /// How many are not done.
    pub(in crate::numpool) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::numpool) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a request, whose outcome is for this waiter.
    pub(in crate::numpool) fn begin(&mut self, waiter: u64, request: Sliced) {
        self.0.push((waiter, request));
    }

    /// The oldest request.
    pub(in crate::numpool) fn first_mut(&mut self) -> Option<&mut Sliced> {
        self.0.first_mut().map(|(_, request)| request)
    }

    /// Whether the oldest request has looked at all that it concerns.
    pub(in crate::numpool) fn is_first_done(&self) -> bool {
        self.0.first().is_some_and(|(_, first)| first.next >= first.end)
    }

    /// Takes out the oldest request with its waiter, if it is done.
    pub(in crate::numpool) fn take_done(&mut self) -> Option<(u64, Sliced)> {
        self.is_first_done().then(|| self.0.remove(0))
    }

    /// A lease began after the requests.
    #[inline]
    pub(in crate::numpool) fn lease_began(&mut self, lease: u32) {
        for (_, request) in &mut self.0 {
            if matches!(request.ends, Ends::Leases { .. }) {
                request.exempt.insert(lease);
            }
        }
    }

    /// A number was registered after the requests.
    #[inline]
    pub(in crate::numpool) fn registered(&mut self, number: u32) {
        for (_, request) in &mut self.0 {
            if matches!(request.ends, Ends::Registrations) {
                request.exempt.insert(number);
            }
        }
    }

    /// Whether a request may end the registration of a number by this switch.
    pub(in crate::numpool) fn end_registration(&self, number: u32, switch: u32) -> bool {
        self.0.iter().any(|(_, request)| {
            matches!(request.ends, Ends::Registrations)
                && request.switch == switch
                && !request.exempt.contains(&number)
        })
    }

    /// Forgets all of them.
    pub(in crate::numpool) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}
