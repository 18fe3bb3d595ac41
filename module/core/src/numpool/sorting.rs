//! Sorts the free numbers for a choice by prefix or by use. A few numbers are sorted at once; many are sorted by the
//! timer in slices, and a choice is refused with `TRYAGAIN` until then.

use super::model::sorted_free::Numbers;
use super::request::{Call, Policy};
use super::state::Pool;
use crate::shared::Millis;
use crate::shared::list::NONE;

/// The most numbers that are sorted in one slice: about 2 ms of work.
const SORTED_AT_ONCE: usize = 10_000;

impl Pool {
    /// Sorts the free numbers as a choice needs them, if they are not. The first time O(n log n); from then on every event
    /// costs O(log n).
    pub fn sort_at_once(&mut self, pick: Option<Policy>, by_prefix: bool) {
        self.begin_to_sort(pick, by_prefix);
        self.sort(usize::MAX);
    }

    /// Begins to sort the free numbers for a choice, if it needs them sorted.
    pub(super) fn begin_to_sort(&mut self, pick: Option<Policy>, by_prefix: bool) {
        if let Some(by_peer) = self.sorting_for(pick, by_prefix)
            && self.sorted.begin(by_peer, self.queue)
            && self.queue.len() as usize <= SORTED_AT_ONCE
        {
            self.sort(SORTED_AT_ONCE);
        }
    }

    /// The count of calls from which a number goes on that joins, if the pool chooses by use; 0 otherwise. It would get
    /// all calls otherwise until it has caught up. This is the least count of the free numbers; if none is free, or
    /// they are not sorted, it is the least one when the last call chose by use. O(1).
    pub fn uses_of_joining(&self) -> u32 {
        if self.settings.pick != Policy::LeastUsed && self.least_uses.is_none() {
            return 0;
        }
        self.least_free_uses().or(self.least_uses).unwrap_or(0)
    }

    /// The least count of calls of the free numbers, if one is free and they are sorted. O(1).
    pub(super) fn least_free_uses(&self) -> Option<u32> {
        let least = self.sorted.least_used().filter(|&id| id != NONE);
        least.map(|id| self.directory.get(id).uses)
    }

    /// Whether the free numbers are sorted as a call that names no number needs them. O(1).
    pub fn are_sorted_for(&self, call: &Call<'_>) -> bool {
        self.sorting_for(call.pick, !call.prefixes.is_empty())
            .is_none_or(|by_peer| self.sorted.is_ready(by_peer))
    }

    /// `None` for a choice that needs no sorted numbers, or else whether it needs them sorted by their peers as well.
    fn sorting_for(&self, pick: Option<Policy>, by_prefix: bool) -> Option<bool> {
        let pick = pick.unwrap_or(self.settings.pick);
        let by_peer = by_prefix && pick == Policy::Sticky && self.settings.peers == 0;
        (by_prefix || pick == Policy::LeastUsed).then_some(by_peer)
    }

    fn sort(&mut self, count: usize) {
        self.sorted.grow(count, Numbers { directory: &self.directory, peers: &self.peers });
    }

    /// Sorts a slice of the free numbers. Those of a pool that picks by use are sorted before a call needs it.
    pub(super) fn continue_sorting(&mut self) {
        if self.lacks_usual_sorting() {
            self.begin_to_sort(None, false);
        }
        self.sort(SORTED_AT_ONCE);
    }

    /// Whether there is work for the timer: numbers to sort, or calls that wait for work. O(1).
    #[inline]
    pub(super) fn is_at_work(&self) -> bool {
        self.waiters.await_work() || !self.sorted.are_whole() || self.lacks_usual_sorting()
    }

    fn lacks_usual_sorting(&self) -> bool {
        self.settings.pick == Policy::LeastUsed && self.sorted.is_empty() && !self.queue.is_empty()
    }

    /// Has calls looked at again that waited for the rate until now, or for work, if all work is done. O(1), plus the
    /// classes of waiters.
    pub fn finish_work(&mut self, now: Millis) {
        if self.waiters.held_until().is_some_and(|until| until <= now) {
            self.waiters.hold(None);
        }
        let is_behind = || self.earliest_deadline().is_some_and(|due| due <= now);
        if self.waiters.await_work() && self.sorted.are_whole() && !is_behind() {
            self.waiters.open_all();
        }
    }
}
