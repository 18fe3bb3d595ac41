//! Reconciliation: ends the leases of a switch that the switch no longer carries.

use super::batches::each_some;
use super::due::deadline;
use crate::invariant;
use crate::numpool::event::{Cause, Event, Events, Numbers};
use crate::numpool::number::Number;
use crate::numpool::outcome::{Decision, Reconciled, Reply};
use crate::numpool::state::Pool;
use crate::shared::decision::Decided;
use crate::shared::list::NONE;
use crate::shared::refusal::Refusal;
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;

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
    let live = pool.leases.carried_by(group).filter(|&id| !pool.has_expired(id, now));
    for id in live {
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
pub(super) fn listed(
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
pub(super) fn ended(pool: &Pool, now: Millis, mut calls: Vec<(Millis, Number)>) -> Events {
    calls.sort_unstable();
    let numbers: Numbers = calls.into_iter().map(|(_, number)| number).collect();
    let cool_until = deadline(now, None, pool.settings.cooldown);
    each_some(numbers, |numbers| Event::Ended { numbers, cool_until, cause: Cause::Reconciled })
}
