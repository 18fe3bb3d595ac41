//! Overdue deadlines that a request depends on. After a pause or a restart a million deadlines may be overdue. The
//! timer applies them in slices; a request applies only the deadlines on which its own decision depends.

use super::due::{Due, all_due, cool_down_due, due_events, lease_due, number_due, registration_due};
use super::pick::Selection;
use crate::numpool::event::Events;
use crate::numpool::number::Number;
use crate::numpool::request::{Call, Request};
use crate::numpool::state::Pool;
use crate::shared::Millis;
use crate::shared::list::NONE;

/// The most deadlines that are applied for one reason at once.
const SLICE: usize = 1000;

/// The events of overdue deadlines on which the decision of `request` depends. Empty when the decision is final: apply
/// the events and call again until then.
///
/// A call that names no number gets one of the numbers that are free by now. Only when there is none are the ends of
/// leases and cool-downs looked for, so that no call is refused because of a deadline that has passed. Registrations end
/// if the call would get a number whose registration has lapsed. While other calls wait for all overdue deadlines to be
/// applied, a call applies them as well.
pub fn decide_overdue(pool: &Pool, now: Millis, request: &Request<'_>) -> Events {
    if pool.next_due().is_none_or(|due| due > now) {
        return Events::new();
    }
    let due = match request {
        Request::Add(numbers)
        | Request::Unreg(numbers)
        | Request::Del { numbers, .. }
        | Request::Reg { numbers, .. } => of_numbers(pool, now, numbers),
        Request::HangUp { number, .. } | Request::TakeBack { number, .. } | Request::Renew { number, .. } => {
            of_numbers(pool, now, &[*number])
        }
        Request::UnregSwitch(switch) => of_registrar(pool, now, switch),
        Request::Call(call) => for_call(pool, now, call),
        Request::Reconcile { switch, .. } => of_carrier(pool, now, switch),
        // The cool-down after a lease is the one that holds when the lease ends.
        Request::Configure(changes) if changes.cooldown.is_some() => leases(pool, now),
        Request::Configure(_) | Request::Cause { .. } => Vec::new(),
    };
    due_events(pool, due)
}

fn of_numbers(pool: &Pool, now: Millis, numbers: &[Number]) -> Vec<Due> {
    let mut ids: Vec<u32> = numbers.iter().filter_map(|&number| pool.directory.find(number)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().flat_map(|id| number_due(pool, id, now)).collect()
}

/// The numbers that a switch registered; one that is draining goes when its lease ends.
fn of_registrar(pool: &Pool, now: Millis, switch: &[u8]) -> Vec<Due> {
    let group = pool.switches.find(switch).unwrap_or(NONE);
    pool.switches.listed(group).flat_map(|id| number_due(pool, id, now)).collect()
}

/// Leases that a switch carries.
fn of_carrier(pool: &Pool, now: Millis, switch: &[u8]) -> Vec<Due> {
    let Some(group) = pool.switches.find(switch) else { return Vec::new() };
    let expired = pool.leases.carried_by(group).filter(|&lease| pool.has_expired(lease, now));
    expired.filter_map(|lease| lease_due(pool, lease, now)).collect()
}

fn leases(pool: &Pool, now: Millis) -> Vec<Due> {
    let expired = pool.leases.deadlines().due(now, SLICE).into_iter();
    expired.filter_map(|lease| lease_due(pool, lease, now)).collect()
}

fn for_call(pool: &Pool, now: Millis, call: &Call<'_>) -> Vec<Due> {
    if let Some(lease) = pool.leases.find(call.lease.token) {
        // A live lease is the answer.
        let expired = pool.has_expired(lease, now).then(|| lease_due(pool, lease, now));
        return expired.flatten().into_iter().collect();
    }
    if let Some(number) = call.number {
        let due = of_numbers(pool, now, &[number]);
        if !due.is_empty() || !pool.postponed.awaits_deadlines() {
            return due;
        }
    }
    // Others wait for all of them, and come first.
    if pool.postponed.awaits_deadlines() {
        let due = all_due(pool, now, SLICE);
        if !due.is_empty() || call.number.is_some() {
            return due;
        }
    }
    let first = pool.first_choice(&Selection::of(pool, call));
    // The choice is final, or no number can be free.
    if first.is_some_and(|first| !pool.has_lapsed(first, now)) || pool.all_have_lapsed(now) {
        return Vec::new();
    }
    if first.is_some() {
        let lapsed = pool.registrations.due(now, SLICE).into_iter();
        return lapsed.filter_map(|id| registration_due(pool, id)).collect();
    }
    let cooled = pool.cool_downs.due(now, SLICE).into_iter();
    let cooled = cooled.filter_map(|id| cool_down_due(pool, id, now));
    cooled.chain(leases(pool, now)).collect()
}
