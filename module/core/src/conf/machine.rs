//! A realm as a state machine of the engine.

use super::event::Event;
use super::{Realm, decide_due};
use crate::shared::Millis;
use crate::shared::machine::{Events, Machine, own_methods};
use crate::shared::outbox::Outbox;
use crate::shared::refusal::Refusal;

impl Machine for Realm {
    type Event = Event;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        match event {
            Event::Opened { settings } => Some(Ok(Self::open(*settings, at))),
            _ => None,
        }
    }

    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_due(self, now, limit)
    }

    fn outbox(&self) -> Option<&Outbox> {
        Some(self.outbox())
    }

    // The streams of a realm are trimmed by age, so `stream_length` is no limit.

    fn flushed(sent: Vec<(Vec<u8>, u32)>, last_id: (u64, u64)) -> Option<Event> {
        Some(Event::Flushed { sent, last_id })
    }
}
