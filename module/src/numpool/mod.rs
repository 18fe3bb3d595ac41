//! `NUMPOOL.*`: the number pools' state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod writes;

use allot_core::numpool::Pool;
use std::ffi::CStr;

use crate::engine::family::{Family, Shelf};
use crate::engine::info::Counter;

pub(crate) use commands::COMMANDS;
pub(crate) use writes::call_number;

static SHELF: Shelf = Shelf::new();

impl Family for Pool {
    const TYPE: &'static CStr = c"allotpool";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"NUMPOOL.APPLY";
    const GAUGE: &'static CStr = c"numpool_live_leases";
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    const DUE_AT_ONCE: usize = 1000;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.live_leases() as i64
    }
}
