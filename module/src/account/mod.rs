//! `ACCOUNT.*`: the state machine of books of accounts, as a family of the module.

mod commands;
mod counters;
mod inventory;
mod reads;
mod replies;
mod writes;

use allot_core::account::Book;
use std::ffi::CStr;

use crate::engine::family::{Family, Gauge, Shelf};
use crate::engine::info::Counter;

pub(crate) use commands::COMMANDS;

static SHELF: Shelf = Shelf::new();

impl Family for Book {
    const TYPE: &'static CStr = c"allotacct";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"ACCOUNT.APPLY";
    const GAUGES: &'static [Gauge<Self>] =
        &[Gauge { field: c"account_live_logins", part: |book| book.live_logins() as i64 }];
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    const DUE_AT_ONCE: usize = 1000;

    fn shelf() -> &'static Shelf {
        &SHELF
    }
}
