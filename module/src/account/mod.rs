//! `ACCOUNT.*`: the state machine of books of accounts, as a family of the module.

mod commands;
mod counters;
mod inventory;
mod reads;
mod replies;
mod writes;

use allot_core::account::{Book, Event};
use std::ffi::CStr;

use crate::engine::family::{Family, Shelf};
use crate::engine::info::Counter;

pub(crate) use commands::COMMANDS;

static SHELF: Shelf = Shelf::new();

impl Family for Book {
    const TYPE: &'static CStr = c"allotacct";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"ACCOUNT.APPLY";
    const GAUGE: &'static CStr = c"account_live_logins";
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    const DUE_AT_ONCE: usize = 1000;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.live_logins() as i64
    }

    fn announce(event: &Event) -> Option<&'static CStr> {
        Some(match event {
            Event::Opened(_) => c"allot.account.book-opened",
            Event::Configured(_) => c"allot.account.book-configured",
            Event::Claimed { .. } => c"allot.account.claimed",
            Event::Defined { .. } => c"allot.account.module-defined",
            Event::Added { .. } => c"allot.account.added",
            Event::Deleted { .. } => c"allot.account.deleted",
            Event::Rehomed { .. } => c"allot.account.moved",
            Event::Frozen { .. } | Event::Halted { .. } => c"allot.account.frozen",
            Event::Thawed { .. } => c"allot.account.thawed",
            Event::Attached { .. } => c"allot.account.attached",
            Event::Placed { active: true, .. } => c"allot.account.promoted",
            Event::Placed { .. } => c"allot.account.demoted",
            Event::Away { .. } => c"allot.account.away",
            Event::Detached { .. } => c"allot.account.detached",
            Event::Withdrawn { .. } | Event::Recalled { .. } => c"allot.account.revoked",
            Event::Dealt { accounts, .. } => {
                counters::ACCOUNT_DEALT.add(accounts.len() as u64);
                c"allot.account.dealt"
            }
            Event::Shifted { .. } => {
                counters::ACCOUNT_SHIFTED.add(1);
                c"allot.account.shifted"
            }
            Event::LoggedIn { .. } => {
                counters::ACCOUNT_LOGINS.add(1);
                c"allot.account.login"
            }
            Event::Renewed { .. } => c"allot.account.renewed",
            Event::LoggedOut { lapsed, .. } => {
                counters::ACCOUNT_LAPSED.add(u64::from(*lapsed));
                if *lapsed { c"allot.account.lapsed" } else { c"allot.account.logout" }
            }
            Event::Used { count, .. } => {
                counters::ACCOUNT_USED.add(*count);
                c"allot.account.used"
            }
            Event::MonthTurned => c"allot.account.month-turned",
        })
    }
}
