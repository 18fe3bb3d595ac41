//! A book as a state machine of the engine.

use super::event::Event;
use super::{Book, decide_due, decide_over};
use crate::shared::Millis;
use crate::shared::machine::{Events, Machine, own_methods};
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

    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_due(self, now, limit)
    }

    fn due_before_all(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_over(self, now, limit)
    }
}
