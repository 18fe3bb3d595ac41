//! The interface between a family and a server: a deterministic state machine.
//!
//! A machine sees no clock and does no I/O. Time is an argument, and events are the only way that a state changes: a
//! replica that applies the same events at the same times has the same bytes.

use super::Millis;
use super::codec::Damaged;
pub use super::event::{Events, MachineEvent};
use super::invariant::Checked;
use super::outbox::Outbox;
use super::refusal::Refusal;

/// The state behind one key.
pub trait Machine: Clone + Send + Sized + 'static {
    /// The events of the state.
    type Event: MachineEvent;

    /// The state that the first event of a key creates; `None` for an event that creates none.
    fn open(event: &Self::Event, at: Millis) -> Option<Result<Self, Refusal>>;

    /// Whether an event that another server decided fits this state. Once it passes, `apply` cannot go wrong.
    ///
    /// # Errors
    /// The part of the event that does not fit: this state differs from the other server's.
    fn admits(&self, event: &Self::Event) -> Result<(), Damaged>;

    /// Applies an event that this state decided or admits.
    fn apply(&mut self, at: Millis, event: &Self::Event);

    /// The state as bytes: equal states have equal bytes.
    fn encode(&self) -> Vec<u8>;

    /// The state of these bytes.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    fn decode(bytes: &[u8]) -> Result<Self, Damaged>;

    /// *Now* of this state: the greater of the clock and the last time applied.
    fn now(&self, clock: Millis) -> Millis;

    /// Sets the last time applied back to an earlier one: the clock was ahead when it was applied. Deadlines stay as
    /// they are.
    fn set_back(&mut self, to: Millis);

    /// Brings times of the state that must not be later than the last time applied into line, after it was set back.
    fn follow_set_back(&mut self) {}

    /// When the next event is due that happens without a request, such as a deadline.
    fn next_due(&self) -> Option<Millis>;

    /// The events that are due, at most `limit`; more may be due.
    fn due(&self, now: Millis, limit: usize) -> Events<Self::Event>;

    /// The due events that must come before a request is decided, at most `limit`. The rest is left to the timer.
    fn due_before_all(&self, now: Millis, limit: usize) -> Events<Self::Event> {
        self.due(now, limit)
    }

    /// The next event that follows from the changes of a step and belongs to the same step; `None` when there is no
    /// further one. The event is applied before the next is asked for.
    fn follow_up(&mut self, _now: Millis) -> Option<Self::Event> {
        None
    }

    /// The messages that wait for streams; `None` for a family that only sends notifications.
    fn outbox(&self) -> Option<&Outbox> {
        None
    }

    /// How many entries a stream of the key keeps; 0 is no limit.
    fn stream_length(&self, _stream: &[u8]) -> u32 {
        0
    }

    /// The event that records that messages are in their streams: how many of each stream, and the id of the last
    /// entry.
    fn flushed(_sent: Vec<(Vec<u8>, u32)>, _last_id: (u64, u64)) -> Option<Self::Event> {
        None
    }

    /// Bytes allocated.
    fn allocated(&self) -> usize;

    /// How many allocations freeing the state takes, as far as a server must know to free it in the background.
    fn free_effort(&self) -> usize;

    /// Checks every index and every sum against the records that it is computed from. O(size).
    ///
    /// # Errors
    /// The first contradiction found.
    fn check(&self) -> Checked {
        Ok(())
    }
}

/// Implements the methods of [`Machine`] that every state has as methods of its own, under the same names.
macro_rules! own_methods {
    ($Event:ty) => {
        fn admits(&self, event: &$Event) -> Result<(), $crate::shared::codec::Damaged> {
            self.admits(event)
        }

        fn apply(&mut self, at: $crate::shared::Millis, event: &$Event) {
            self.apply(at, event);
        }

        fn encode(&self) -> Vec<u8> {
            self.encode()
        }

        fn decode(bytes: &[u8]) -> Result<Self, $crate::shared::codec::Damaged> {
            Self::decode(bytes)
        }

        fn now(&self, clock: $crate::shared::Millis) -> $crate::shared::Millis {
            self.now(clock)
        }

        fn set_back(&mut self, to: $crate::shared::Millis) {
            self.applied = self.applied.min(to);
            $crate::shared::machine::Machine::follow_set_back(self);
        }

        fn next_due(&self) -> Option<$crate::shared::Millis> {
            self.next_due()
        }

        fn allocated(&self) -> usize {
            self.allocated()
        }

        fn free_effort(&self) -> usize {
            self.free_effort()
        }

        fn check(&self) -> $crate::shared::invariant::Checked {
            self.check()
        }
    };
}
pub(crate) use own_methods;
