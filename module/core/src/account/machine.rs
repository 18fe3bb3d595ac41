//! A book as a state machine of the engine.

use super::event::Event;
use super::{Book, decide_due, decide_over};
use crate::shared::Millis;
use crate::shared::machine::{Events, Machine, own_methods};
use crate::shared::outbox::Outbox;
use crate::shared::refusal::Refusal;

impl Machine for Book {
    type Event = Event;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        match event {
            Event::Opened(settings) => Some(Ok(Self::open(settings.clone(), at))),
            _ => None,
        }
    }

    fn outbox(&self) -> Option<&Outbox> {
        Some(self.outbox())
    }

    fn stream_length(&self, _: &[u8]) -> u32 {
        self.policy().events
    }

    fn flushed(sent: Vec<(Vec<u8>, u32)>, last_id: (u64, u64)) -> Option<Event> {
        // A book has one stream.
        Some(Event::Flushed { count: sent.iter().map(|(_, count)| count).sum(), last_id })
    }

    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_due(self, now, limit)
    }

    fn due_before_all(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_over(self, now, limit)
    }
}
