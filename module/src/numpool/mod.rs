//! `NUMPOOL.*`: the number pools' state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod writes;

use allot_core::numpool::Pool;
use allot_core::numpool::event::{Cause, Event};
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

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.live_leases() as i64
    }

    fn announce(event: &Event) -> Option<&'static CStr> {
        Some(match event {
            Event::Created(_) => c"allot.numpool.created",
            Event::Configured(_) => c"allot.numpool.configured",
            Event::Added(_) => c"allot.numpool.added",
            Event::Deleted(_) => c"allot.numpool.deleted",
            Event::Draining(_) => c"allot.numpool.draining",
            Event::Registered { .. } => c"allot.numpool.registered",
            Event::Unregistered(_) | Event::Left { .. } => c"allot.numpool.unregistered",
            Event::Lapsed(numbers) => {
                counters::NUMPOOL_LAPSED.add(numbers.len() as u64);
                c"allot.numpool.lapsed"
            }
            Event::Called(_) => {
                counters::NUMPOOL_CALLED.add(1);
                c"allot.numpool.called"
            }
            Event::Ended { numbers, cause, .. } => {
                let (counter, notice) = match cause {
                    Cause::HungUp => (&counters::NUMPOOL_HUNGUP, c"allot.numpool.hungup"),
                    Cause::Expired => (&counters::NUMPOOL_EXPIRED, c"allot.numpool.expired"),
                    Cause::Reconciled => (&counters::NUMPOOL_RECONCILED, c"allot.numpool.reconciled"),
                };
                counter.add(numbers.len() as u64);
                notice
            }
            Event::Renewed { .. } => c"allot.numpool.renewed",
            Event::Cooled(_) => c"allot.numpool.cooled",
            Event::Flushed { .. } => return None,
        })
    }
}
