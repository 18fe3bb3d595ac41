//! `CONF.*` and `CMU.*`: the conference family's state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod trim;
mod units;
mod writes;

use allot_core::conf::messages::HANG_UPS;
use allot_core::conf::{Event, Realm};
use allot_core::shared::machine::Events;
use allot_core::shared::outbox::Fields;
use std::ffi::CStr;

use crate::engine::family::{Family, Gauge, Shelf};
use crate::engine::info::Counter;
use crate::engine::reply::present;
use crate::ffi::context::Outcome;
use crate::ffi::{Context, KeyName};

pub(crate) use commands::{CMU_COMMANDS, CONF_COMMANDS};

static SHELF: Shelf = Shelf::new();

impl Family for Realm {
    const TYPE: &'static CStr = c"allotconf";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"CONF.APPLY";
    const GAUGES: &'static [Gauge<Self>] =
        &[Gauge { field: c"conf_pending", part: |realm| realm.pending() as i64 }];
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    // When a unit goes down, thousands of messages are sent; each takes some microseconds.
    const SENT_AT_ONCE: usize = 512;
    const DUE_AT_ONCE: usize = 1000;
    const MAINTENANCE_FROM: i64 = 0;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn observe(&self, at: i64, event: &Event) {
        if let Event::Acked { e164 } | Event::Adopted { e164, .. } = event
            && let Some(conference) = self.conference_called(e164)
            && let Some(since) = conference.pending_since
        {
            counters::reopened(at - since);
        }
        if let Event::Ended { e164, .. } = event
            && self.conference_called(e164).is_some_and(|conference| conference.pending_since.is_some())
        {
            counters::CONF_NEVER_RECOVERED.add(1);
        }
    }

    fn deliver(ctx: Context<'_>, stream: &[u8], message: &Fields) -> Option<bool> {
        (stream == HANG_UPS).then(|| hang_up(ctx, message))
    }

    fn maintain(
        &self,
        ctx: Context<'_>,
        name: KeyName<'_>,
        now: i64,
        place: &mut usize,
    ) -> (Events<Event>, i64) {
        trim::run(self, ctx, name, now, place)
    }
}

/// Hangs up a number that was called for a conference. Returns whether the message is done with, which is also so if
/// the pool no longer exists.
fn hang_up(ctx: Context<'_>, message: &Fields) -> bool {
    let value = |name: &str| present(message.get(name.as_bytes())).unwrap_or_default();
    let arguments = [value("pool"), value("number"), b"LEASE", value("lease")];
    match ctx.call_and_replicate(c"NUMPOOL.HANGUP", &arguments) {
        Outcome::Done => true,
        Outcome::NotRun => false,
        // Another attempt would be refused as well.
        Outcome::Refused => {
            counters::CONF_POOLS_GONE.add(1);
            true
        }
    }
}
