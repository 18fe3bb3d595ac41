//! Work that the choice of a number needs first: the order of the free numbers, for a choice by prefix or by use, and
//! overdue deadlines. What is too much for one step is done by the timer in slices, and the calls that need it are
//! postponed until then.

use super::decide::{Selection, decide};
use super::model::order::Order;
use super::number::Number;
use super::request::{Call, Policy, Request};
use super::state::{ByDigits, ByPeer, Pool};
use super::waiting::{Grant, call_of, wish_of};
use crate::shared::Millis;

/// The most numbers that an order gets in one slice: about 2 ms of work.
const ORDERED_AT_ONCE: usize = 10_000;

impl Pool {
    /// Makes the order that a call with this way of picking needs, if there is none yet. The first time O(n log n);
    /// from then on every event costs O(log n).
    pub fn prepare(&mut self, pick: Option<Policy>, prefix: Option<Number>) {
        if !self.begin_to_order(pick, prefix) {
            self.grow_orders(usize::MAX);
        }
    }

    /// Does a slice of this work, for a caller that cannot wait: until the order is whole, a choice by use takes O(numbers).
    pub fn prepare_a_part(&mut self) {
        if self.lacks_usual_order() {
            self.begin_to_order(None, None);
        }
        self.grow_orders(ORDERED_AT_ONCE);
    }

    /// Whether a call is to be postponed: the order for its choice is not whole, or postponed calls come first. O(1) for a
    /// pool whose orders are whole.
    pub fn is_postponed(&mut self, now: Millis, call: &Call<'_>) -> bool {
        let must_wait = self.lacks_order(call) || call.number.is_none() && self.postponed.are_ready();
        // A call that waits behind the others is looked at again.
        self.postponed.is_awaited |= must_wait;
        must_wait && !self.has_lease(call.lease.token, now)
    }

    /// Whether the order for the choice of a call is not whole. If so, the timer makes it. O(1).
    pub fn lacks_order(&mut self, call: &Call<'_>) -> bool {
        call.number.is_none() && !self.begin_to_order(call.pick, call.prefix)
    }

    /// Has calls that wait looked at again when all that is overdue was applied. O(1).
    pub fn await_deadlines(&mut self) {
        self.postponed.await_deadlines();
    }

    /// Postpones a call: when the work is done it is answered, even if no number is free. O(1).
    pub fn postpone(&mut self, id: u64, call: &Call<'_>) {
        self.postponed.push(id, wish_of(call));
    }

    /// Does a slice of the work, if there is some. A pool that picks by use gets its order before a call needs it: a
    /// caller of another family cannot wait.
    pub fn continue_preparation(&mut self, now: Millis) {
        self.prepare_a_part();
        self.finish_preparation(now);
    }

    /// Has the calls that wait for this work looked at again if it is done. O(1), plus the classes of waiters.
    pub fn finish_preparation(&mut self, now: Millis) {
        if self.postponed.is_awaited && self.is_prepared(now) {
            self.postponed.done();
            self.waiters.open_all();
        }
    }

    /// Whether there is work for `continue_preparation`. O(1).
    #[inline]
    pub(super) fn is_preparing(&self) -> bool {
        self.postponed.is_awaited || !self.orders_are_whole() || self.lacks_usual_order()
    }

    /// Whether free numbers are not in the order by which the pool picks. O(1).
    fn lacks_usual_order(&self) -> bool {
        self.settings.pick == Policy::LeastUsed && self.by_digits.is_none() && !self.queue.is_empty()
    }

    /// Whether the decision of a call that waits needs work that the timer does: the order is not whole, or the lease of its
    /// token or the registration of its number has ended and nobody has noticed. If so, the call is looked at again when that
    /// is done.
    pub(super) fn needs_work(&mut self, now: Millis, call: &Call<'_>) -> bool {
        let repeated = self.leases.find(call.lease.token);
        if repeated.is_none() && self.lacks_order(call) {
            self.postponed.is_awaited = true;
            return true;
        }
        let is_overdue = match (repeated, call.number) {
            (Some(lease), _) => self.leases.until(lease).is_some_and(|until| until <= now),
            (None, Some(number)) => self.directory.find(number).is_some_and(|id| self.has_lapsed(id, now)),
            (None, None) => {
                self.registrations.earliest().is_some_and(|due| due <= now)
                    && self.first_choice_has_lapsed(&Selection::of(self, call), now)
                    && (self.postponed.awaits_deadlines() || !self.all_have_lapsed(now))
            }
        };
        if is_overdue {
            self.await_deadlines();
        }
        is_overdue
    }

    /// The first postponed call, with its answer, if the work is done.
    pub(super) fn next_postponed(
        &mut self,
        now: Millis,
        random: u64,
        is_alive: impl Fn(u64) -> bool,
    ) -> Option<Grant> {
        while let Some((waiter, wish)) = self.postponed.pop() {
            if !is_alive(waiter) {
                continue;
            }
            let call = call_of(&wish, random);
            // Deadlines have passed since, or an order was dropped.
            if !self.is_prepared(now) || self.needs_work(now, &call) {
                self.postponed.put_back((waiter, wish));
                return None;
            }
            return Some(Grant { waiter, outcome: decide(self, now, &Request::Call(call)) });
        }
        None
    }

    /// Whether all orders are whole and all that is due by `now` was applied.
    fn is_prepared(&self, now: Millis) -> bool {
        self.orders_are_whole() && self.earliest_deadline().is_none_or(|due| due > now)
    }

    fn orders_are_whole(&self) -> bool {
        [&self.by_digits, &self.by_peer].into_iter().flatten().all(|order| order.whole().is_some())
    }

    /// Begins the order that this way of picking needs. Returns whether the order is whole: a short one is made at once.
    fn begin_to_order(&mut self, pick: Option<Policy>, prefix: Option<Number>) -> bool {
        let pick = pick.unwrap_or(self.settings.pick);
        let by_digits = prefix.is_some() || pick == Policy::LeastUsed;
        let by_peer = prefix.is_some() && pick == Policy::Sticky;
        let queue = self.queue;
        let is_short = queue.len() as usize <= ORDERED_AT_ONCE;
        let order = || Box::new(Order::new(queue));
        if by_digits && self.by_digits.is_none() || by_peer && self.by_peer.is_none() {
            if by_digits {
                self.by_digits.get_or_insert_with(order);
            }
            if by_peer {
                self.by_peer.get_or_insert_with(order);
            }
            if is_short {
                self.grow_orders(ORDERED_AT_ONCE);
            }
        }
        let is_whole =
            |order: &Option<Box<Order>>| order.as_ref().is_some_and(|order| order.whole().is_some());
        (!by_digits || is_whole(&self.by_digits)) && (!by_peer || is_whole(&self.by_peer))
    }

    fn grow_orders(&mut self, count: usize) {
        if let Some(order) = &mut self.by_digits {
            order.grow(count, &self.directory, &ByDigits(&self.directory));
        }
        if let Some(order) = &mut self.by_peer {
            order.grow(count, &self.directory, &ByPeer(&self.directory, &self.peers));
        }
    }
}
