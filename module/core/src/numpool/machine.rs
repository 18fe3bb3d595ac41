//! A pool as a state machine of the engine.

use super::event::Event;
use super::{Pool, decide_due};
use crate::shared::Millis;
use crate::shared::machine::{Events, Machine, own_methods};
use crate::shared::outbox::Outbox;
use crate::shared::refusal::Refusal;

impl Machine for Pool {
    type Event = Event;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        Self::open(event, at).map(Ok)
    }

    /// No call began, and none ended, later than now. Numbers whose calls count again for the caps leave the queue.
    fn follow_set_back(&mut self) {
        let now = self.applied;
        self.history.forget_all(|entry| entry.end_at(now));
        self.set_caps(self.caps);
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
}
