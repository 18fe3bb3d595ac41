//! A realm as the state machine that a server runs.

use super::event::Event;
use super::{Realm, decide_due};
use crate::shared::Millis;
use crate::shared::codec::Damaged;
use crate::shared::invariant::Checked;
use crate::shared::machine::{Events, Machine};
use crate::shared::outbox::Outbox;
use crate::shared::refusal::Refusal;

impl Machine for Realm {
    type Event = Event;

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        match event {
            Event::Opened { settings } => Some(Ok(Self::open(*settings, at))),
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

    fn outbox(&self) -> Option<&Outbox> {
        Some(self.outbox())
    }

    // The streams of a realm are trimmed by age, so `stream_length` is no limit.

    fn flushed(sent: Vec<(Vec<u8>, u32)>, last_id: (u64, u64)) -> Option<Event> {
        Some(Event::Flushed { sent, last_id })
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
