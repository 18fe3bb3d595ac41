//! Reconciliation: ends the leases of a switch that the switch no longer carries. If the switch carries many leases,
//! they end in slices.

use super::batches::each_some;
use super::due::deadline;
use crate::invariant;
use crate::numpool::event::{Cause, Event, Events, Numbers};
use crate::numpool::number::Number;
use crate::numpool::outcome::{Decision, Reconciled, Reply};
use crate::numpool::reconciliations::Reconciliation;
use crate::numpool::state::Pool;
use crate::shared::decision::Decided;
use crate::shared::list::NONE;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;

/// The most leases of a switch that are reconciled in one step: about 5 ms of work.
const AT_ONCE: u32 = 10_000;
/// How many ids of leases a slice looks at.
const LOOKED_AT: u32 = 10_000;
/// The most reconciliations of a pool that are in progress.
const MAX_IN_PROGRESS: usize = 16;

pub(super) fn decide_reconcile(
    pool: &Pool,
    now: Millis,
    switch: &[u8],
    before: Option<Millis>,
    carried: &[&[u8]],
) -> Decided<Event, Reply> {
    check_identifier("SWITCH", switch)?;
    let group = pool.switches.find(switch).unwrap_or(NONE);
    let (kept, unknown) = listed(pool, now, group, carried)?;
    let mut outcome = Reconciled { unknown, ..Reconciled::default() };
    let mut freed: Vec<(Millis, Number)> = Vec::new();
    for id in pool.leases.carried_by(group) {
        let Some(lease) = pool.leases.get(id) else {
            invariant!("a lease that a switch carries is live");
            continue;
        };
        if kept.contains(&id) || before.is_some_and(|before| lease.since >= before) {
            outcome.kept += 1;
        } else {
            freed.push((lease.since, pool.number(lease.number)));
        }
    }
    outcome.freed = freed.len() as u64;
    Ok(Decision { events: ended(pool, now, freed), reply: Reply::Reconciled(outcome) })
}

/// The leases of a switch among these tokens, and the tokens that are no live lease of this switch.
fn listed(
    pool: &Pool,
    now: Millis,
    switch: u32,
    tokens: &[&[u8]],
) -> Result<(HashSet<u32>, Vec<Bytes>), Refusal> {
    let (mut leases, mut unknown) = (HashSet::with_capacity(tokens.len()), Vec::new());
    for token in tokens {
        check_identifier("LEASE", token)?;
        // `NONE` would be the switch of leases that have none.
        let is_carried = |id: &u32| {
            let lease = pool.leases.get(*id);
            switch != NONE && lease.is_some_and(|lease| lease.switch == switch) && !pool.has_expired(*id, now)
        };
        match pool.leases.find(token).filter(is_carried) {
            Some(id) => drop(leases.insert(id)),
            None => unknown.push(Bytes::from_slice(token)),
        }
    }
    Ok((leases, unknown))
}

/// The ends of calls, in the order in which they began.
fn ended(pool: &Pool, now: Millis, mut calls: Vec<(Millis, Number)>) -> Events {
    calls.sort_unstable();
    let numbers: Numbers = calls.into_iter().map(|(_, number)| number).collect();
    let cool_until = deadline(now, None, pool.settings.cooldown);
    each_some(numbers, |numbers| Event::Ended { numbers, cool_until, cause: Cause::Reconciled })
}

impl Pool {
    /// Whether a switch carries more leases than one step ends. O(1).
    pub fn is_reconciled_in_slices(&self, switch: &[u8]) -> bool {
        let switch = self.switches.find(switch);
        switch.is_some_and(|switch| self.leases.count_carried_by(switch) > AT_ONCE)
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
        check_identifier("SWITCH", switch)?;
        if self.reconciliations.len() >= MAX_IN_PROGRESS {
            let text = format!("a pool reconciles at most {MAX_IN_PROGRESS} times at once; try again later");
            return refuse(Code::Limit, text);
        }
        let switch = self.switches.find(switch).unwrap_or(NONE);
        let (exempt, unknown) = listed(self, now, switch, carried)?;
        let end = if switch == NONE { 0 } else { self.leases.table().slots() };
        let kept = exempt.len() as u64;
        let reconciliation = Reconciliation { switch, before, exempt, next: 0, end, kept, freed: 0, unknown };
        self.reconciliations.begin(wait(), reconciliation);
        Ok(())
    }

    /// The next slice of the oldest reconciliation: the ends of at most `limit` calls. Apply the events before the next
    /// call. Leases that have expired are left to the timer.
    pub fn continue_reconciliation(&mut self, now: Millis, limit: usize) -> Events {
        let Some(first) = self.reconciliations.first_mut() else { return Events::new() };
        let (begin, end) = (first.next, first.end.min(first.next.saturating_add(LOOKED_AT)));
        let mut calls = Vec::new();
        for id in begin..end {
            if calls.len() >= limit {
                break;
            }
            first.next = id + 1;
            let lease = self.leases.get(id).filter(|lease| lease.switch == first.switch);
            let Some(lease) = lease.filter(|_| !first.exempt.contains(&id)) else { continue };
            if self.leases.until(id).is_some_and(|until| until <= now) {
                continue;
            }
            if first.before.is_some_and(|before| lease.since >= before) {
                first.kept += 1;
                continue;
            }
            first.freed += 1;
            calls.push((lease.since, lease.number));
        }
        let calls = calls.into_iter().map(|(since, id)| (since, self.number(id))).collect();
        ended(self, now, calls)
    }

    /// Whether `take_reconciled` finds an outcome. O(1).
    #[inline]
    pub fn has_reconciled(&self) -> bool {
        self.reconciliations.is_first_done()
    }

    /// The waiter of a reconciliation that is done, and its outcome.
    pub fn take_reconciled(&mut self) -> Option<(u64, Reconciled)> {
        let (waiter, done) = self.reconciliations.take_done()?;
        Some((waiter, Reconciled { kept: done.kept, freed: done.freed, unknown: done.unknown }))
    }

    /// Whether a lease has passed its deadline.
    pub(super) fn has_expired(&self, lease: u32, now: Millis) -> bool {
        self.leases.until(lease).is_some_and(|until| until <= now)
    }
}
