//! `NUMPOOL.*`: the number pools' state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod waiting;
mod writes;

use allot_core::numpool::{Decision, Event, Pool, Reply, Request};
use allot_core::shared::machine::Events;
use allot_core::shared::refusal::Refusal;

use crate::engine::family::{Family, FamilyStatics, Maintained};
use crate::engine::info::Counter;
use crate::engine::value::Value;
use crate::engine::waiting::{Grant, cancel_undo};
use crate::ffi::context::{Answer, Mode};
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName};

pub(crate) use commands::COMMANDS;
pub(crate) use writes::call_number;

/// How often a pool looks whether the realms that hold its numbers still exist, in milliseconds.
const LOOKS_FOR_REALMS: i64 = 1000;
/// The most leases of such a realm that one step ends.
const ENDED_AT_ONCE: usize = 1000;

static STATICS: FamilyStatics = FamilyStatics::new();

impl Family for Pool {
    const NUMBER: u8 = 1;
    const MAINTENANCE_FROM: i64 = 0;
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;

    fn statics() -> &'static FamilyStatics {
        &STATICS
    }

    fn reply(&self, ctx: Context<'_>, name: KeyName<'_>, _: i64, _: &Request<'_>, reply: &Reply) {
        match reply {
            Reply::Ok => ctx.reply_ok(),
            Reply::None => ctx.reply_nothing(),
            Reply::Integer(value) => ctx.reply_integer(*value),
            Reply::Lease(record) => {
                // Perhaps the retry of a call whose connection ended before the answer was sent.
                cancel_undo(ctx.selected_db(), name, &record.token);
                replies::reply_lease(ctx, record);
            }
            Reply::Alive(alive) => replies::reply_alive(ctx, *alive),
            Reply::Listed(listed) => replies::reply_listed(ctx, listed),
            Reply::Reconciled(outcome) => replies::reply_reconciled(ctx, outcome),
        }
    }

    fn in_use(&self) -> usize {
        self.live_leases()
    }

    fn count_refusal(_: &Refusal) {
        counters::NUMPOOL_REFUSED.add(1);
    }

    fn count_decision(decision: &Decision) {
        if decision.reply == Reply::None {
            counters::NUMPOOL_NONE_FREE.add(1);
        }
    }

    fn has_pending_grants(&self) -> bool {
        self.has_pending_grants() || self.has_sliced()
    }

    fn grant(&mut self, now: i64) -> Option<Grant<Events<Event>>> {
        waiting::grant(self, now)
    }

    /// The realms that hold leases. Their keys are looked at as streams of other families are.
    fn streams_to_maintain(&self, _: &mut usize) -> Vec<Vec<u8>> {
        self.holders().into_iter().map(<[u8]>::to_vec).collect()
    }

    /// Ends leases of a realm that is gone. A realm that is on its way to another node is not known to be gone.
    fn maintain(ctx: Context<'_>, name: KeyName<'_>, realm: &[u8], now: i64) -> Maintained<Event> {
        let mut events = Events::new();
        if ctx.ask(c"TYPE", &[realm]) == Answer::Text(b"none".to_vec())
            && let Found::Value(pool) = ctx.open(name, Mode::Read).value::<Value<Pool>>()
        {
            events = pool.state.leases_to_end_of(realm, now, ENDED_AT_ONCE);
        }
        Maintained { events, again_at: now + LOOKS_FOR_REALMS }
    }

    fn forget_waiters(&mut self, waiter: Option<u64>) {
        match waiter {
            Some(waiter) => self.stop_waiting(waiter),
            None => self.forget_waiters(),
        }
    }
}
