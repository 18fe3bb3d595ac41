//! Heartbeats: a switch that says again and again that it is alive keeps all of its calls by one deadline.
//!
//! A lease without a deadline of its own lives until the deadline of the switch that carries the call, if the switch has
//! one.

use super::state::Pool;
use crate::fields;
use crate::shared::Millis;
use crate::shared::list::NONE;
use crate::shared::token::MAX_TTL;

/// The most switches of a pool that have a deadline.
pub const MAX_HEARTBEATS: usize = 10_000;

fields! {
    /// The deadline of a switch as a snapshot has it.
    #[derive(Clone, Copy, Debug)]
    pub(in crate::numpool) struct SavedHeartbeat {
        pub(in crate::numpool) switch: u32,
        pub(in crate::numpool) until: Millis,
        pub(in crate::numpool) ttl: Millis,
    }
}

impl Pool {
    /// When a lease ends by itself: at its own deadline, or else at that of its switch. O(1).
    #[inline]
    pub(in crate::numpool) fn lease_end(&self, lease: u32) -> Option<Millis> {
        let own = self.leases.until(lease);
        if own.is_some() || self.heartbeats.is_empty() { own } else { self.end_by_switch(lease) }
    }

    /// The deadline of the switch of a lease. A call that began when the deadline had passed does not end by it.
    fn end_by_switch(&self, lease: u32) -> Option<Millis> {
        let lease = self.leases.get(lease).filter(|lease| lease.holder == NONE)?;
        self.heartbeats.get(lease.switch).filter(|&until| lease.since < until)
    }

    /// The deadline of a switch of this name, if it has not passed by `now`. O(1).
    pub(in crate::numpool) fn alive_until(&self, switch: &[u8], now: Millis) -> Option<Millis> {
        if self.heartbeats.is_empty() {
            return None;
        }
        self.heartbeats.get(self.switches.find(switch)?).filter(|&until| until > now)
    }

    /// A switch is alive at a time, and has a deadline. O(log switches).
    pub(in crate::numpool) fn beat(&mut self, switch: &[u8], until: Millis, at: Millis) {
        let is_new = self.switches.find(switch).is_none_or(|id| self.heartbeats.get(id).is_none());
        let id = if is_new { Some(self.switches.refer(switch)) } else { self.switches.find(switch) };
        if let Some(id) = id {
            self.heartbeats.set(id, until);
            self.beat_ttls.set(id, until.saturating_sub(at).clamp(1, MAX_TTL));
        }
    }

    /// Each switch with a deadline has at least as much time from now on as its last heartbeat gave it; half as much each
    /// further time without a heartbeat, so that a switch that is gone falls silent although the server stands still again
    /// and again. O(n log n) with n switches.
    pub(in crate::numpool) fn begin_heartbeats_again(&mut self, at: Millis) {
        let switches: Vec<u32> = self.heartbeats.ids().collect();
        for id in switches {
            let ttl = self.beat_ttls.get(id);
            let begun = at.saturating_add(ttl);
            if self.heartbeats.get(id).is_some_and(|until| until < begun) {
                self.heartbeats.set(id, begun);
                self.beat_ttls.set(id, (ttl / 2).max(1));
            }
        }
    }

    /// A switch has no deadline any more.
    pub(in crate::numpool) fn fall_silent(&mut self, switch: &[u8]) {
        if let Some(id) = self.switches.find(switch)
            && self.heartbeats.get(id).is_some()
        {
            self.heartbeats.remove(id);
            self.switches.release(id);
        }
    }

    /// The deadlines of switches as a snapshot has them, in the order of the switches.
    pub(in crate::numpool) fn saved_heartbeats(&self) -> Vec<SavedHeartbeat> {
        let mut switches: Vec<u32> = self.heartbeats.ids().collect();
        switches.sort_unstable();
        let saved = |switch| {
            let (until, ttl) = (self.heartbeats.get(switch)?, self.beat_ttls.get(switch));
            Some(SavedHeartbeat { switch, until, ttl })
        };
        switches.into_iter().filter_map(saved).collect()
    }

    /// Adds the deadline of a snapshot. `None` if there is no such switch, if it has one, or if its time is out of range.
    pub(in crate::numpool) fn restore_heartbeat(&mut self, saved: SavedHeartbeat) -> Option<()> {
        let is_new = self.heartbeats.get(saved.switch).is_none();
        (is_new && (1..=MAX_TTL).contains(&saved.ttl)).then(|| self.switches.refer_again(saved.switch))??;
        self.heartbeats.set(saved.switch, saved.until);
        self.beat_ttls.set(saved.switch, saved.ttl);
        Some(())
    }
}
