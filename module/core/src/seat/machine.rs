//! A show as a state machine of the engine.

use super::event::Event;
use super::{Show, decide_due};
use crate::shared::Millis;
use crate::shared::machine::{Events, Machine, own_methods};
use crate::shared::outbox::Outbox;
use crate::shared::refusal::Refusal;

impl Machine for Show {
    type Event = Event;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        match event {
            Event::Created { plan } => Some(Self::open(plan, at)),
            _ => None,
        }
    }

    // Every request asks, and mostly nothing is due and nobody waits.
    #[inline]
    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        if self.next_due().is_none_or(|earliest| earliest > now) {
            return Events::new();
        }
        decide_due(self, now, limit)
    }

    #[inline]
    fn follow_up(&mut self, now: Millis) -> Option<Event> {
        self.follow_up(now)
    }

    fn outbox(&self) -> Option<&Outbox> {
        Some(self.outbox())
    }

    fn stream_length(&self, _: &[u8]) -> u32 {
        self.event_stream_length()
    }

    fn flushed(sent: Vec<(Vec<u8>, u32)>, last_id: (u64, u64)) -> Option<Event> {
        // A show has one stream.
        Some(Event::Flushed { count: sent.iter().map(|(_, count)| count).sum(), last_id })
    }
}
