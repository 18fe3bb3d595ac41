//! `CONF.*` and `CMU.*`: the conference family's state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod trim;
mod units;
mod writes;

use allot_core::conf::mail::HANG_UPS;
use allot_core::conf::{Event, Realm};
use allot_core::shared::machine::Events;
use allot_core::shared::outbox::Fields;
use std::ffi::CStr;

use crate::engine::family::{Family, Shelf};
use crate::engine::info::Counter;
use crate::ffi::context::Outcome;
use crate::ffi::{Context, KeyName};

pub(crate) use commands::{CMU_COMMANDS, CONF_COMMANDS};

static SHELF: Shelf = Shelf::new();

impl Family for Realm {
    const TYPE: &'static CStr = c"allotconf";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"CONF.APPLY";
    const GAUGE: &'static CStr = c"conf_pending";
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    // A unit that goes down has thousands of messages to send; each takes some microseconds.
    const SENT_AT_ONCE: usize = 512;
    const DUE_AT_ONCE: usize = 1000;
    const MAINTENANCE_FROM: i64 = 0;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.pending() as i64
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

    fn announce(event: &Event) -> Option<&'static CStr> {
        let (counter, notice) = match event {
            Event::Opened { .. } => (None, c"allot.conf.realm-opened"),
            Event::Configured { .. } => (None, c"allot.conf.realm-configured"),
            Event::Claimed { .. } => (None, c"allot.conf.claimed"),
            Event::Restarted { .. } => (None, c"allot.conf.restarted"),
            Event::Created(_) => (Some(&counters::CONF_CREATED), c"allot.conf.created"),
            Event::Granted { .. } => (Some(&counters::CONF_GRANTED), c"allot.conf.granted"),
            Event::Acked { .. } => (Some(&counters::CONF_OPENED), c"allot.conf.opened"),
            Event::Failed { .. } => (Some(&counters::CONF_FAILED), c"allot.conf.failed"),
            Event::Pending { .. } => (None, c"allot.conf.lost"),
            Event::Ending { .. } => (None, c"allot.conf.ending"),
            Event::Ended { .. } => (Some(&counters::CONF_ENDED), c"allot.conf.ended"),
            Event::Adopted { .. } => (Some(&counters::CONF_ADOPTED), c"allot.conf.adopted"),
            Event::Moving { .. } => (None, c"allot.conf.moving"),
            Event::Moved { .. } => (Some(&counters::CONF_MOVED), c"allot.conf.moved"),
            Event::MoveFailed { .. } => (None, c"allot.conf.move-failed"),
            Event::Extended { .. } => (None, c"allot.conf.extended"),
            Event::Set { .. } => (Some(&counters::CONF_WRITES), c"allot.conf.set"),
            Event::Removed { .. } => (None, c"allot.conf.removed"),
            Event::Disowned { .. } => (Some(&counters::CONF_DISOWNED), c"allot.conf.disowned"),
            Event::EpochAgain { .. } => (None, c"allot.conf.epoch-again"),
            Event::Refused { .. } => (None, c"allot.conf.refused"),
            Event::AskedAgain { .. } => (None, c"allot.conf.asked"),
            Event::Joined { .. } => (None, c"allot.cmu.joined"),
            Event::Beat { .. } => (None, c"allot.cmu.beat"),
            Event::Lapsed { .. } => (Some(&counters::CMU_LAPSED), c"allot.cmu.lapsed"),
            Event::Reported { .. } => (None, c"allot.cmu.reported"),
            Event::Asked { .. } => (None, c"allot.cmu.asked"),
            Event::Drained { .. } => (None, c"allot.cmu.drained"),
            Event::Down { .. } => (Some(&counters::CMU_DOWN), c"allot.cmu.down"),
            Event::Forgotten { .. } => (None, c"allot.cmu.forgotten"),
            Event::Missed { .. } => (Some(&counters::STREAM_RESYNCS), c"allot.conf.missed"),
            Event::Flushed { .. } => return None,
        };
        if let Some(counter) = counter {
            counter.add(1);
        }
        Some(notice)
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

/// Hangs up a number that was called for a conference; whether it need not be tried again. A pool that is gone has
/// nothing to be given back to.
fn hang_up(ctx: Context<'_>, message: &Fields) -> bool {
    let value = |name: &str| message.get(name.as_bytes()).unwrap_or_default();
    let arguments = [value("pool"), value("number"), b"LEASE", value("lease")];
    match ctx.call_and_replicate(c"NUMPOOL.HANGUP", &arguments) {
        Outcome::Done => true,
        Outcome::NotRun => false,
        // Whatever it says, it will say again.
        Outcome::Refused => {
            counters::CONF_POOLS_GONE.add(1);
            true
        }
    }
}
