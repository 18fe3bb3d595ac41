//! Calls that wait until a number is free for them.

use allot_core::invariant;
use allot_core::numpool::request::{self, Request};
use allot_core::numpool::{Event, LeaseRecord, Pool, Reply, decide};
use allot_core::shared::machine::Events;
use allot_core::shared::refusal::{Code, Refusal};

use super::counters;
use super::replies::{reply_lease, reply_reconciled};
use crate::engine::argument::Argument;
use crate::engine::step::{Step, change, forget_waiter};
use crate::engine::waiting::{self, Grant, Undo};
use crate::engine::{config, token};
use crate::ffi::{Context, KeyName};

/// The greatest priority of a call; the least one is its negative.
const MAX_PRIORITY: i32 = 1_000_000;

/// How long a call waits, and how urgent it is.
pub(super) struct Wait {
    /// In milliseconds; 0 without an end.
    longest: i64,
    priority: i32,
    /// Whether it is answered when the work is done that goes on in slices, whatever is free then.
    for_work: bool,
}

impl Wait {
    /// The wait of a call; `None` if it does not wait.
    pub(super) fn of(wait: &Argument<'_>, priority: &Argument<'_>) -> Result<Option<Self>, Refusal> {
        let Some(wait) = wait.optional_integer() else {
            if priority.is_given() {
                return Err(Refusal::new(Code::Err, "PRIORITY is for calls that WAIT"));
            }
            return Ok(None);
        };
        if wait < 0 {
            return Err(Refusal::new(Code::Err, format!("WAIT must be 0 or more ms, not {wait}")));
        }
        let wait = config::check_ttl(&config::NUMPOOL_MAX_TTL, "WAIT", wait)?;
        let given = priority.optional_integer().unwrap_or(0);
        let in_range = |priority: &i32| (-MAX_PRIORITY..=MAX_PRIORITY).contains(priority);
        let Some(priority) = i32::try_from(given).ok().filter(in_range) else {
            let text = format!("PRIORITY must be -{MAX_PRIORITY} to {MAX_PRIORITY}, not {given}");
            return Err(Refusal::new(Code::Err, text));
        };
        Ok(Some(Self { longest: wait, priority, for_work: false }))
    }

    /// The wait of a call without `WAIT` whose choice needs an index that is being built.
    pub(super) fn for_work() -> Self {
        Self { longest: 0, priority: 0, for_work: true }
    }

    /// Blocks the client of a call. An earlier call that waits for the same lease is told that it was replaced.
    pub(super) fn begin(
        &self,
        ctx: Context<'_>,
        name: KeyName<'_>,
        step: &mut Step<'_, '_, Pool>,
        call: &request::Call<'_>,
    ) {
        let id = waiting::block(
            ctx,
            name,
            self.longest,
            forget_waiter::<Pool>,
            Some(&counters::NUMPOOL_NONE_FREE),
        );
        if let Some(replaced) = step.state_mut().wait(id, call, self.priority) {
            let line = "UNBLOCKED another call waits for the same lease";
            waiting::answer(replaced, Box::new(move |ctx| ctx.reply_error(line)));
        }
        if self.for_work {
            step.state_mut().wait_for_work(id);
        }
    }
}

/// The next client that waits for a pool to be answered.
pub(super) fn grant(pool: &mut Pool, now: i64) -> Option<Grant<Events<Event>>> {
    if let Some((waiter, outcome)) = pool.take_sliced() {
        let answer = Box::new(move |ctx: Context<'_>| match outcome {
            Reply::Reconciled(outcome) => reply_reconciled(ctx, &outcome),
            Reply::Integer(count) => ctx.reply_integer(count),
            Reply::Ok | Reply::None | Reply::Lease(_) | Reply::Alive(_) | Reply::Listed(_) => {
                invariant!("a request in slices ends with a count or with what became of leases");
                ctx.reply_nothing();
            }
        });
        return Some(Grant { waiter, events: Events::new(), answer, granted: None, undo: None });
    }
    let grant = pool.next_grant(now, token::random(), waiting::is_alive)?;
    let waiter = grant.waiter;
    let decision = match grant.outcome {
        Ok(decision) => decision,
        Err(refusal) => {
            counters::NUMPOOL_REFUSED.add(1);
            let line = refusal.to_string();
            let answer = Box::new(move |ctx: Context<'_>| ctx.reply_error(&line));
            return Some(Grant { waiter, events: Events::new(), answer, granted: None, undo: None });
        }
    };
    let is_new = !decision.events.is_empty();
    let (record, undo) = match decision.reply {
        Reply::Lease(record) => (Some(record.clone()), is_new.then(|| take_back(record))),
        _ => (None, None),
    };
    let granted = record.as_ref().map(|record| record.token.clone());
    let answer = Box::new(move |ctx: Context<'_>| {
        if let Some(record) = &record {
            reply_lease(ctx, record);
        } else {
            counters::NUMPOOL_NONE_FREE.add(1);
            ctx.reply_nothing();
        }
    });
    Some(Grant { waiter, events: decision.events, answer, granted, undo })
}

/// Ends a call that its caller does not know of. Nobody was called.
fn take_back(record: LeaseRecord) -> Undo {
    Box::new(move |ctx, name| {
        // A pool that is gone has no leases.
        let _ = change::<Pool, _>(ctx, name, |step| {
            let request = Request::TakeBack { number: record.number, lease: &record.token };
            let decision = decide(step.state(), step.now(), &request)?;
            decision.events.iter().for_each(|event| step.apply(event));
            Ok(())
        });
    })
}
