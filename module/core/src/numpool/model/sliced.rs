//! Requests about a switch that are carried out in slices, because the switch has so many leases or numbers.
//!
//! Such a request is one of one server, as a waiter is: it is neither saved nor replicated nor copied. Each slice ends
//! leases or registrations by events, so a request that is sent again after a failover ends the rest.

use crate::shared::Bytes;
use crate::shared::Millis;
use crate::shared::list::NONE;
use hashbrown::HashSet;

/// What a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::numpool) enum Ends {
    /// The leases of a switch: `RECONCILE`.
    Leases,
    /// The leases that have neither a switch nor a holder: `RECONCILE` as well.
    Unswitched,
    /// The registrations by a switch: `UNREG`.
    Registrations,
}

/// A request that is not done.
#[derive(Debug)]
pub(in crate::numpool) struct Sliced {
    pub(in crate::numpool) ends: Ends,
    pub(in crate::numpool) switch: u32,
    /// The next lease or number to look at on the list of the switch, and the last one. What joins the list after the
    /// request is behind the last one. `NONE`: there is nothing left to look at.
    pub(in crate::numpool) next: u32,
    pub(in crate::numpool) last: u32,
    /// Leases that the switch still carries: they go on.
    pub(in crate::numpool) carried: HashSet<u32>,
    /// Only leases that were granted before this time end.
    pub(in crate::numpool) before: Option<Millis>,
    /// Tokens that were no live lease of the switch at the time of the request.
    pub(in crate::numpool) unknown: Vec<Bytes>,
    /// How many leases of the switch go on.
    pub(in crate::numpool) kept: u64,
    /// How many leases or registrations were ended.
    pub(in crate::numpool) ended: u64,
}

impl Sliced {
    /// Whether the request has looked at all that it concerns.
    pub(in crate::numpool) fn is_done(&self) -> bool {
        self.next == NONE
    }

    /// The next lease or number is looked at; `behind` is behind it on the list.
    pub(in crate::numpool) fn advance(&mut self, behind: u32) {
        self.next = if self.next == self.last { NONE } else { behind };
    }

    /// A lease or a number leaves the list, where it is between these two.
    fn left(&mut self, id: u32, [before, behind]: [u32; 2]) {
        if id == self.next {
            self.advance(behind);
        }
        if id == self.last {
            self.last = before;
        }
    }
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

    #[inline]
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

    /// Whether the oldest request is done.
    #[inline]
    pub(in crate::numpool) fn is_first_done(&self) -> bool {
        self.0.first().is_some_and(|(_, first)| first.is_done())
    }

    /// Takes out the oldest request with its waiter, if it is done.
    pub(in crate::numpool) fn take_done(&mut self) -> Option<(u64, Sliced)> {
        self.is_first_done().then(|| self.0.remove(0))
    }

    /// A lease leaves its list, where it is between these two.
    pub(in crate::numpool) fn lease_left(&mut self, lease: u32, neighbours: [u32; 2]) {
        let requests = self.0.iter_mut().filter(|(_, request)| request.ends != Ends::Registrations);
        requests.for_each(|(_, request)| request.left(lease, neighbours));
    }

    /// A number leaves the list of the switch that registered it, where it is between these two.
    pub(in crate::numpool) fn number_left(&mut self, number: u32, neighbours: [u32; 2]) {
        let requests = self.0.iter_mut().filter(|(_, request)| request.ends == Ends::Registrations);
        requests.for_each(|(_, request)| request.left(number, neighbours));
    }

    /// Whether a request ends the registrations by a switch.
    #[inline]
    pub(in crate::numpool) fn unregisters(&self, switch: u32) -> bool {
        let ends = |request: &Sliced| request.ends == Ends::Registrations && request.switch == switch;
        self.0.iter().any(|(_, request)| ends(request) && !request.is_done())
    }

    /// Forgets all of them.
    pub(in crate::numpool) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}
