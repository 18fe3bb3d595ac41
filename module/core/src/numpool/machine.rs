//! A pool as the state machine that a server runs.

use super::event::Event;
use super::{Pool, decide_due};
use crate::shared::Millis;
use crate::shared::codec::Damaged;
use crate::shared::machine::{Events, Machine};
use crate::shared::outbox::Outbox;
use crate::shared::refusal::Refusal;

impl Machine for Pool {
    type Event = Event;

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        Self::open(event, at).map(Ok)
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

    fn stream_length(&self, _: &[u8]) -> u32 {
        self.settings().events
    }

    fn flushed(sent: Vec<(Vec<u8>, u32)>, last_id: (u64, u64)) -> Option<Event> {
        // A pool has one stream.
        Some(Event::Flushed { count: sent.iter().map(|(_, count)| count).sum(), last_id })
    }

    fn allocated(&self) -> usize {
        self.allocated()
    }

    fn free_effort(&self) -> usize {
        self.free_effort()
    }
}
