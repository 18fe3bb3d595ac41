//! `SEAT.*`: the seat family's state machine, as a family of the module.

mod commands;
mod counters;
mod listing;
mod reads;
mod replies;
mod several;
mod waiting;
mod writes;
mod zmpop;

use allot_core::seat::{Decision, Reply, Request, Show};
use allot_core::shared::refusal::Refusal;

use crate::engine::family::{Family, FamilyStatics};
use crate::engine::info::Counter;
use crate::ffi::{Context, KeyName};

pub(crate) use commands::COMMANDS;

static STATICS: FamilyStatics = FamilyStatics::new();

impl Family for Show {
    const NUMBER: u8 = 0;
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;

    fn statics() -> &'static FamilyStatics {
        &STATICS
    }

    fn reply(&self, ctx: Context<'_>, _: KeyName<'_>, _: i64, _: &Request<'_>, reply: &Reply) {
        match reply {
            Reply::Ok => ctx.reply_ok(),
            Reply::None => ctx.reply_nothing(),
            Reply::Integer(value) => ctx.reply_integer(*value),
            Reply::Hold(record) => replies::reply_hold(ctx, self, record),
            Reply::Wait(record) => replies::reply_wait(ctx, record),
        }
    }

    fn in_use(&self) -> usize {
        self.buckets().iter().map(|bucket| (bucket.counts.held + bucket.counts.sold) as usize).sum()
    }

    fn count_refusal(_: &Refusal) {
        counters::SEAT_REFUSED.add(1);
    }

    fn count_decision(decision: &Decision) {
        if decision.reply == Reply::None {
            counters::SEAT_SOLD_OUT.add(1);
        }
    }
}
