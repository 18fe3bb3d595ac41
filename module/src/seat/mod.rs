//! `SEAT.*`: the seat family's state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod writes;
mod zmpop;

use allot_core::seat::Show;
use allot_core::seat::event::Event;
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

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.claims().holds() as i64
    }

    fn announce(event: &Event) -> Option<&'static CStr> {
        let (counter, notice) = match event {
            Event::Created { .. } => (None, c"allot.seat.created"),
            Event::Altered { .. } | Event::Limited { .. } => (None, c"allot.seat.altered"),
            Event::Held(_) => (Some(&counters::SEAT_HELD), c"allot.seat.held"),
            Event::Extended { .. } => (None, c"allot.seat.extended"),
            Event::Confirmed { .. } => (Some(&counters::SEAT_CONFIRMED), c"allot.seat.confirmed"),
            Event::Released { .. } => (Some(&counters::SEAT_RELEASED), c"allot.seat.released"),
            Event::Expired { .. } => (Some(&counters::SEAT_EXPIRED), c"allot.seat.expired"),
            Event::Refunded { .. } => (Some(&counters::SEAT_REFUNDED), c"allot.seat.refunded"),
            Event::Blocked { .. } => (None, c"allot.seat.blocked"),
            Event::Unblocked { .. } => (None, c"allot.seat.unblocked"),
            Event::Flushed { .. } => return None,
        };
        if let Some(counter) = counter {
            counter.add(1);
        }
        Some(notice)
    }
}
