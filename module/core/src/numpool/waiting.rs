//! Serves calls that wait: after each change of a pool, the first waiter for whom a number is free gets it.

use super::model::waiters::Wish;
use super::outcome::{Decision, Reply};
use super::request::{Call, Request};
use super::state::Pool;
use crate::shared::machine::Machine;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::token::TokenChoice;
use crate::shared::{Bytes, Millis};

/// What a waiter is answered.
#[derive(Debug)]
pub struct Grant {
    /// The id of the waiter, which no longer waits.
    pub waiter: u64,
    /// Events to apply and the reply; or a refusal, if the call can never be granted.
    pub outcome: Result<Decision, Refusal>,
}

/// Whether a call that was decided in this way waits if it may: no number is free for it now, and one may be later.
pub fn is_worth_waiting(outcome: &Result<Decision, Refusal>) -> bool {
    match outcome {
        Ok(decision) => decision.reply == Reply::None,
        Err(refusal) => matches!(refusal.code, Code::BadState | Code::Limit | Code::TryAgain),
    }
}

/// Whether a call that was decided in this way is looked at again when work is done that goes on in slices.
pub fn is_try_again(outcome: &Result<Decision, Refusal>) -> bool {
    matches!(outcome, Err(refusal) if refusal.code == Code::TryAgain)
}

fn wish_of(call: &Call<'_>) -> Wish {
    Wish {
        number: call.number,
        ttl: call.ttl,
        token: Bytes::from_slice(call.lease.token),
        chosen: call.lease.chosen,
        switch: call.switch.map(Bytes::from_slice),
        peer: call.peer.map(Bytes::from_slice),
        prefixes: call.prefixes.into(),
        pick: call.pick,
    }
}

fn call_of(wish: &Wish, random: u64) -> Call<'_> {
    Call {
        number: wish.number,
        ttl: wish.ttl,
        endless: false,
        holder: None,
        lease: TokenChoice { token: &wish.token, chosen: wish.chosen },
        switch: wish.switch.as_deref(),
        peer: wish.peer.as_deref(),
        prefixes: &wish.prefixes,
        pick: wish.pick,
        random,
    }
}

impl Pool {
    /// Has a call wait under an id that no other waiter has. The call was decided before, and is worth waiting. A call
    /// with the token of an earlier waiter takes the place of this waiter, whose id is returned. O(log n).
    pub fn wait(&mut self, id: u64, call: &Call<'_>, priority: i32) -> Option<u64> {
        // While more calls wait than one step serves, or for the rate, a number may be free for this one.
        let may_be_served = self.has_pending_grants() || self.rate_until(self.applied).is_some();
        self.waiters.join(id, wish_of(call), priority, may_be_served)
    }

    /// Has the calls that wait looked at again when the work is done that goes on in slices. O(1).
    pub fn await_work(&mut self) {
        self.waiters.set_await_work();
    }

    /// Has a call that waits be answered when this work is done, whether or not a number is free for it then. O(1).
    pub fn wait_for_work(&mut self, id: u64) {
        self.waiters.wait_for_work(id);
        self.await_work();
    }

    /// A waiter has left, for example because its connection has ended. O(log n).
    pub fn stop_waiting(&mut self, id: u64) {
        self.waiters.leave(id);
    }

    /// The pool has another name, for which nobody waits, or this server was a replica meanwhile.
    pub fn forget_waiters(&mut self) {
        self.waiters.clear();
        self.sliced.clear();
        self.missed.clear();
    }

    /// How many calls wait. O(1).
    pub fn waiting_calls(&self) -> usize {
        self.waiters.len()
    }

    /// Ids of the calls that wait, the first to be served first. O(n log n).
    pub fn waiting_in_order(&self) -> Vec<u64> {
        self.waiters.in_order()
    }

    /// Whether numbers may be free for calls that wait. O(1), one comparison in a pool without waiters.
    #[inline]
    pub fn has_pending_grants(&self) -> bool {
        self.waiters.are_pending()
    }

    /// The first waiter for whom a number is free now, with its answer. Apply the events, and call again until there is
    /// none. Those that are not alive are dropped. O(log n), plus the choice of the number.
    pub fn next_grant(&mut self, now: Millis, random: u64, is_alive: impl Fn(u64) -> bool) -> Option<Grant> {
        self.waiters.hold(self.rate_until(now));
        while let Some(waiter) = self.waiters.next(!self.queue.is_empty()) {
            if !is_alive(waiter.id) {
                self.waiters.follow(&waiter);
                continue;
            }
            let request = Request::Call(call_of(&waiter.wish, random));
            Machine::prepare(self, &request);
            let outcome = self.decide_or_try_again(now, &request);
            if is_worth_waiting(&outcome) {
                // Nothing is free for its class, which stays closed.
                self.waiters.put_back(waiter);
                if is_try_again(&outcome) {
                    self.await_work();
                }
                continue;
            }
            self.waiters.follow(&waiter);
            return Some(Grant { waiter: waiter.id, outcome });
        }
        let waiter = self.waiters.next_after_work()?;
        Some(Grant { waiter, outcome: Ok(Decision::unchanged(Reply::None)) })
    }
}
