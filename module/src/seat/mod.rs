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

use crate::engine::family::{Family, Shelf};
use crate::engine::info::Counter;

pub(crate) use commands::COMMANDS;

static SHELF: Shelf = Shelf::new();

impl Family for Show {
    const TYPE: &'static CStr = c"allotseat";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"SEAT.APPLY";
    const GAUGE: &'static CStr = c"seat_live_holds";
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    const DUE_AT_ONCE: usize = 500;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.claims().holds() as i64
    }
}
