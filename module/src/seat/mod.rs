//! `SEAT.*`: the seat family's state machine, as a family of the module.

mod commands;
mod counters;
mod listing;
mod reads;
mod replies;
mod waiting;
mod writes;
mod zmpop;

use allot_core::seat::Show;
use std::ffi::CStr;

use crate::engine::family::{Family, Gauge, Shelf};
use crate::engine::info::Counter;

pub(crate) use commands::COMMANDS;

static SHELF: Shelf = Shelf::new();

impl Family for Show {
    const TYPE: &'static CStr = c"allotseat";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"SEAT.APPLY";
    const GAUGES: &'static [Gauge<Self>] = &[
        Gauge { field: c"seat_live_holds", part: |show| show.claims().holds() as i64 },
        Gauge { field: c"seat_waiting", part: |show| show.waiters().len() as i64 },
    ];
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    const DUE_AT_ONCE: usize = 500;

    fn shelf() -> &'static Shelf {
        &SHELF
    }
}
