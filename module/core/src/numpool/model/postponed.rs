//! Calls whose number cannot be chosen in one step, because an order of the free numbers is not whole, or many
//! deadlines are overdue. They are answered in the order in which they came, when the timer has done this work.
//!
//! A postponed call is a connection of one server, as a waiter is: it is neither saved nor replicated nor copied.

use super::waiters::Wish;
use std::collections::VecDeque;

/// The postponed calls of a pool.
#[derive(Debug, Default)]
pub(in crate::numpool) struct Postponed {
    calls: VecDeque<(u64, Wish)>,
    /// Whether a call waits for the work to be done; it may be a waiter.
    pub(in crate::numpool) is_awaited: bool,
    /// Whether a call waits for overdue deadlines to be applied, or has to wait again. Those that come later are behind it.
    awaits_deadlines: bool,
    /// Whether the work is done, and the calls can be answered.
    is_ready: bool,
}

/// A copy of a pool has no connections.
impl Clone for Postponed {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Postponed {
    /// Whether calls can be answered.
    #[inline]
    pub(in crate::numpool) fn are_ready(&self) -> bool {
        self.is_ready
    }

    /// Adds a call, behind all others.
    pub(in crate::numpool) fn push(&mut self, id: u64, wish: Wish) {
        self.calls.push_back((id, wish));
        self.is_awaited |= !self.is_ready;
    }

    /// A call waits until all that is overdue was applied.
    pub(in crate::numpool) fn await_deadlines(&mut self) {
        (self.is_awaited, self.awaits_deadlines) = (true, true);
    }

    /// Whether a call waits for that.
    pub(in crate::numpool) fn awaits_deadlines(&self) -> bool {
        self.awaits_deadlines
    }

    /// The work is done.
    pub(in crate::numpool) fn done(&mut self) {
        (self.is_awaited, self.awaits_deadlines) = (false, false);
        self.is_ready = !self.calls.is_empty();
    }

    /// Takes out the first call, if it can be answered.
    pub(in crate::numpool) fn pop(&mut self) -> Option<(u64, Wish)> {
        let first = if self.is_ready { self.calls.pop_front() } else { None };
        self.is_ready &= !self.calls.is_empty();
        first
    }

    /// Puts back a call that was taken out: there is more work to do.
    pub(in crate::numpool) fn put_back(&mut self, call: (u64, Wish)) {
        self.calls.push_front(call);
        self.is_ready = false;
        self.await_deadlines();
    }

    /// Forgets all of them.
    pub(in crate::numpool) fn clear(&mut self) {
        *self = Self::default();
    }
}
