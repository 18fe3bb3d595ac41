//! Realms as a family.

use super::conference::State;
use super::event::Event;
use super::{Realm, Reply, Request, decide, decide_due};
use crate::shared::Millis;
use crate::shared::decision::Decided;
use crate::shared::machine::{Events, Gauge, Machine, own_methods};
use crate::shared::outbox::{Outbox, Sent};
use crate::shared::refusal::Refusal;
use std::ffi::CStr;

impl Machine for Realm {
    type Event = Event;
    type Request<'a> = Request<'a>;
    type Reply = Reply;

    const TYPE: &'static CStr = c"allotconf";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"CONF.APPLY";
    const GAUGES: &'static [Gauge<Self>] = &[
        Gauge { field: c"conf_pending", part: |realm| realm.pending() as i64 },
        Gauge { field: c"conf_scheduled", part: |realm| realm.count(State::Scheduled) as i64 },
    ];
    const DUE_AT_ONCE: usize = 1000;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        match event {
            Event::Opened { settings } => Some(Ok(Self::open(*settings, at))),
            _ => None,
        }
    }

    fn decide(&self, now: Millis, request: &Request<'_>) -> Decided<Event, Reply> {
        decide(self, now, request)
    }

    fn is_nothing(&self, _: &Reply) -> bool {
        false
    }

    fn count_overdue(&self, now: Millis, limit: usize) -> usize {
        let deadlines = [&self.unit_due, &self.conference_due];
        deadlines.map(|deadlines| deadlines.count_passed(now, limit)).iter().sum::<usize>().min(limit)
    }

    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_due(self, now, limit)
    }

    fn outbox(&self) -> &Outbox {
        self.outbox()
    }

    // The streams of a realm are trimmed by age, so `stream_length` is no limit.

    fn flushed(sent: Sent) -> Event {
        Event::Flushed { sent: sent.streams, last_id: sent.last_id }
    }
}
