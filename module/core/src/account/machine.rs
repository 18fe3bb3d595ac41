//! A book as the state machine that a server runs.

use super::event::Event;
use super::{Book, decide_due, decide_over};
use crate::shared::Millis;
use crate::shared::codec::Damaged;
use crate::shared::invariant::Checked;
use crate::shared::machine::{Events, Machine};
use crate::shared::refusal::Refusal;

impl Machine for Book {
    type Event = Event;

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        match event {
            Event::Opened(settings) => Some(Ok(Self::open(settings.clone(), at))),
            _ => None,
        }
    }

    fn admits(&self, event: &Event) -> Result<(), Damaged> {
        self.admits(event)
    }

    fn apply(&mut self, at: Millis, event: &Event) {
        self.apply(at, event);
    }

    fn encode(&self) -> Vec<u8> {
        self.encode()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        Self::decode(bytes)
    }

    fn now(&self, clock: Millis) -> Millis {
        self.now(clock)
    }

    fn next_due(&self) -> Option<Millis> {
        self.next_due()
    }

    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_due(self, now, limit)
    }

    fn due_before_all(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_over(self, now, limit)
    }

    fn allocated(&self) -> usize {
        self.allocated()
    }

    fn free_effort(&self) -> usize {
        self.free_effort()
    }

    fn check(&self) -> Checked {
        self.check()
    }
}
