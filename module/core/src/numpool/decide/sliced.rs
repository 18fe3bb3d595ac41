//! Requests about a switch that are carried out in slices: it carries many leases, or has registered many numbers.

use super::batches::each_some;
use super::reconcile::{ended, listed};
use crate::numpool::event::{Event, Events};
use crate::numpool::model::sliced::{Ends, Sliced};
use crate::numpool::outcome::{Reconciled, Reply};
use crate::numpool::state::Pool;
use crate::shared::Millis;
use crate::shared::list::NONE;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::token::check_identifier;
use hashbrown::HashSet;

/// The most leases or registrations of a switch that one step ends: about 5 ms of work.
pub const MAX_AT_ONCE: u32 = 10_000;
/// How many ids a slice looks at.
const LOOKED_AT: u32 = 10_000;
/// The most requests of a pool that are in progress.
const MAX_IN_PROGRESS: usize = 16;

impl Pool {
    /// Whether a switch carries more leases than one step ends. O(1).
    pub fn is_reconciled_in_slices(&self, switch: &[u8]) -> bool {
        let switch = self.switches.find(switch);
        switch.is_some_and(|switch| self.leases.count_carried_by(switch) > MAX_AT_ONCE)
    }

    /// Whether a switch has registered more numbers than one step unregisters. O(1).
    pub fn is_unregistered_in_slices(&self, switch: &[u8]) -> bool {
        let group = self.switches.find(switch).and_then(|switch| self.switches.get(switch));
        group.is_some_and(|group| group.members.len() > MAX_AT_ONCE)
    }

    /// Begins a reconciliation in slices. When it is done, its outcome is for the waiter that `wait` returns, which is
    /// called only if the request is accepted. O(tokens).
    ///
    /// # Errors
    /// As a request that is decided at once; `LIMIT` if too many are in progress.
    pub fn begin_reconciliation(
        &mut self,
        now: Millis,
        switch: &[u8],
        before: Option<Millis>,
        carried: &[&[u8]],
        wait: impl FnOnce() -> u64,
    ) -> Result<(), Refusal> {
        let switch = self.sliced_switch(switch)?;
        let (exempt, unknown) = listed(self, now, switch, carried)?;
        let end = if switch == NONE { 0 } else { self.leases.table().slots() };
        let (ends, kept) = (Ends::Leases { before, unknown }, exempt.len() as u64);
        self.sliced.begin(wait(), Sliced { switch, ends, exempt, next: 0, end, kept, ended: 0 });
        Ok(())
    }

    /// Begins to end the registrations by a switch in slices. When that is done, their count is for the waiter that
    /// `wait` returns, which is called only if the request is accepted. O(1).
    ///
    /// # Errors
    /// As a request that is decided at once; `LIMIT` if too many are in progress.
    pub fn begin_unregistration(&mut self, switch: &[u8], wait: impl FnOnce() -> u64) -> Result<(), Refusal> {
        let switch = self.sliced_switch(switch)?;
        let count = self.switches.get(switch).map_or(0, |group| group.members.len());
        self.mind_orders(count as usize);
        let end = if switch == NONE { 0 } else { self.directory.slots() };
        let (ends, exempt) = (Ends::Registrations, HashSet::new());
        self.sliced.begin(wait(), Sliced { switch, ends, exempt, next: 0, end, kept: 0, ended: 0 });
        Ok(())
    }

    /// The switch of a request that begins, or `NONE`.
    fn sliced_switch(&self, switch: &[u8]) -> Result<u32, Refusal> {
        check_identifier("SWITCH", switch)?;
        if self.sliced.len() >= MAX_IN_PROGRESS {
            let text = format!(
                "a pool carries out at most {MAX_IN_PROGRESS} requests in slices at once; try again later"
            );
            return refuse(Code::Limit, text);
        }
        Ok(self.switches.find(switch).unwrap_or(NONE))
    }

    /// The next slice of the oldest request: the ends of at most `limit` leases or registrations. Apply the events
    /// before the next call. Those whose deadline has passed are left to the timer.
    pub fn continue_sliced(&mut self, now: Millis, limit: usize) -> Events {
        let mut sliced = std::mem::take(&mut self.sliced);
        let events = sliced.first_mut().map_or_else(Events::new, |first| match first.ends {
            Ends::Leases { before, .. } => self.end_leases(first, before, now, limit),
            Ends::Registrations => self.end_registrations(first, now, limit),
        });
        self.sliced = sliced;
        events
    }

    fn end_leases(&self, request: &mut Sliced, before: Option<Millis>, now: Millis, limit: usize) -> Events {
        let mut calls = Vec::new();
        for id in request.next..request.end.min(request.next.saturating_add(LOOKED_AT)) {
            if calls.len() >= limit {
                break;
            }
            request.next = id + 1;
            let lease = self.leases.get(id).filter(|lease| lease.switch == request.switch);
            let Some(lease) = lease.filter(|_| !request.exempt.contains(&id)) else { continue };
            if self.has_expired(id, now) {
                continue;
            }
            if before.is_some_and(|before| lease.since >= before) {
                request.kept += 1;
                continue;
            }
            request.ended += 1;
            calls.push((lease.since, self.number(lease.number)));
        }
        ended(self, now, calls)
    }

    fn end_registrations(&self, request: &mut Sliced, now: Millis, limit: usize) -> Events {
        let mut numbers = super::Numbers::new();
        for id in request.next..request.end.min(request.next.saturating_add(LOOKED_AT)) {
            if numbers.len() >= limit {
                break;
            }
            request.next = id + 1;
            if self.switches.of(id) == request.switch
                && !request.exempt.contains(&id)
                && !self.has_lapsed(id, now)
            {
                request.ended += 1;
                numbers.push(self.number(id));
            }
        }
        each_some(numbers, Event::Unregistered)
    }

    /// Whether `take_sliced` finds an outcome. O(1).
    #[inline]
    pub fn has_sliced(&self) -> bool {
        self.sliced.is_first_done()
    }

    /// The waiter of a request that is done, and its outcome.
    pub fn take_sliced(&mut self) -> Option<(u64, Reply)> {
        let (waiter, done) = self.sliced.take_done()?;
        let reply = match done.ends {
            Ends::Leases { unknown, .. } => {
                Reply::Reconciled(Reconciled { kept: done.kept, freed: done.ended, unknown })
            }
            Ends::Registrations => Reply::Integer(done.ended as i64),
        };
        Some((waiter, reply))
    }

    /// Whether a lease has passed its deadline.
    pub(super) fn has_expired(&self, lease: u32, now: Millis) -> bool {
        self.leases.until(lease).is_some_and(|until| until <= now)
    }
}
