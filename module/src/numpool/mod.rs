//! `NUMPOOL.*`: the number pools' state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod waiting;
mod writes;

use allot_core::numpool::{Event, Pool};
use allot_core::shared::machine::Events;
use std::ffi::CStr;

use crate::engine::family::{Family, Gauge, Shelf};
use crate::engine::info::Counter;
use crate::engine::waiting::Grant;

pub(crate) use commands::COMMANDS;
pub(crate) use writes::call_number;

static SHELF: Shelf = Shelf::new();

impl Family for Pool {
    const TYPE: &'static CStr = c"allotpool";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"NUMPOOL.APPLY";
    const GAUGES: &'static [Gauge<Self>] =
        &[Gauge { field: c"numpool_live_leases", part: |pool| pool.live_leases() as i64 }];
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    const DUE_AT_ONCE: usize = 1000;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn has_pending_grants(&self) -> bool {
        self.has_grants() || self.has_sliced()
    }

    fn continue_requests(&mut self, now: i64, limit: usize) -> Events<Event> {
        self.continue_preparation(now);
        self.continue_sliced(now, limit)
    }

    fn grant(&mut self, now: i64) -> Option<Grant<Events<Event>>> {
        waiting::grant(self, now)
    }

    fn forget_waiters(&mut self, waiter: Option<u64>) {
        match waiter {
            Some(waiter) => self.stop_waiting(waiter),
            None => self.forget_waiters(),
        }
    }
}
