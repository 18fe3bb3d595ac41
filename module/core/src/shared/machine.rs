//! A family: the interface between its deterministic state machine and a server.
//!
//! A machine sees no clock and does no I/O. Time is an argument, and events are the only way that a state changes: a
//! replica that applies the same events at the same times has the same bytes.

use super::Millis;
use super::codec::Damaged;
use super::decision::Decided;
pub use super::event::{Events, MachineEvent};
use super::invariant::Checked;
use super::outbox::{Outbox, Sent};
use super::refusal::{Refusal, try_again};
use std::ffi::CStr;

/// A gauge of a family in `INFO`: live holds, live leases and the like.
#[derive(Debug)]
pub struct Gauge<M> {
    /// Its field.
    pub field: &'static CStr,
    /// The part of one state.
    pub part: fn(&M) -> i64,
}

/// A piece of what follows from the changes of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum FollowUp<E> {
    /// This event.
    Event(E),
    /// No event yet: more is to be looked at.
    Continue,
    /// Nothing more.
    Done,
}

/// The state behind one key, and what a server must know of its family.
pub trait Machine: Clone + Send + Sized + 'static {
    /// The events of the state.
    type Event: MachineEvent;
    /// A request that may change the state, with parsed arguments.
    type Request<'a>;
    /// The reply to a request, which is true once the events of its decision are applied.
    type Reply;

    /// Name of the value type in the server, nine characters.
    const TYPE: &'static CStr;
    /// Version of the encoding of a value in the server's dump.
    const ENCODING: i32;
    /// The internal command that carries events to replicas and the append-only file.
    const APPLY: &'static CStr;
    /// The family's gauges in `INFO`.
    const GAUGES: &'static [Gauge<Self>];
    /// How many deadlines are carried out before a request is decided; the timer carries out the others.
    const DUE_AT_ONCE: usize;

    /// The state that the first event of a key creates; `None` for an event that creates none.
    fn open(event: &Self::Event, at: Millis) -> Option<Result<Self, Refusal>>;

    /// Builds indexes that the decision of a request needs. They do not change the meaning of the state.
    fn prepare(&mut self, _request: &Self::Request<'_>) {}

    /// The events that follow when a server begins to decide for this state: it has loaded the state, has become the
    /// master, or stood still. Nobody could keep deadlines alive meanwhile.
    fn take_over(&self) -> Events<Self::Event> {
        Events::new()
    }

    /// Decides a request at `now`, which is not before the last time applied.
    ///
    /// # Errors
    /// A refusal, with its error code and text.
    fn decide(&self, now: Millis, request: &Self::Request<'_>) -> Decided<Self::Event, Self::Reply>;

    /// Whether a reply grants nothing of what was asked for.
    fn is_nothing(&self, reply: &Self::Reply) -> bool;

    /// How many deadlines have passed by `now` and are not carried out, counted up to `limit`. O(limit).
    fn count_overdue(&self, now: Millis, limit: usize) -> usize;

    /// Decides a request on a state of which some deadlines may have passed and not be carried out. A decision that may
    /// be another after them is refused with `TRYAGAIN`.
    ///
    /// # Errors
    /// As `decide`, and `TRYAGAIN`.
    #[inline]
    fn decide_or_try_again(
        &self,
        now: Millis,
        request: &Self::Request<'_>,
    ) -> Decided<Self::Event, Self::Reply> {
        // One place for the decision, which is large: it is not moved.
        let mut decided = self.decide(now, request);
        if self.next_due().is_some_and(|due| due <= now) && depends_on_overdue(self, now, &decided) {
            decided = try_again(|limit| self.count_overdue(now, limit));
        }
        decided
    }

    /// How many elements of the work that goes on in slices (`continue_work`) are carried out with a request.
    fn work_with(&self, _request: &Self::Request<'_>) -> usize {
        0
    }

    /// The events of the next slice of work that is carried out in slices, for at most `limit` elements. The timer asks for
    /// slices while the state's next deadline has passed.
    fn continue_work(&mut self, _now: Millis, _limit: usize) -> Events<Self::Event> {
        Events::new()
    }

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

    /// The events of deadlines that have passed by `now`, at most `limit`; more may have passed.
    fn due(&self, now: Millis, limit: usize) -> Events<Self::Event>;

    /// The next piece of what follows from the changes of a step and belongs to the same step, if there is time for it. An
    /// event is applied before the next piece is asked for.
    fn follow_up(&mut self, _now: Millis) -> FollowUp<Self::Event> {
        FollowUp::Done
    }

    /// The messages that wait for streams.
    fn outbox(&self) -> &Outbox;

    /// How many entries a stream of the key keeps; 0 is no limit.
    fn stream_length(&self, _stream: &[u8]) -> u32 {
        0
    }

    /// The event that records that messages are in their streams.
    fn flushed(sent: Sent) -> Self::Event;

    /// Bytes allocated.
    fn allocated(&self) -> usize;

    /// How many allocations freeing the state takes, as far as a server must know to free it in the background.
    fn free_effort(&self) -> usize;

    /// Checks every index and every sum against the records that it is computed from. O(size).
    ///
    /// # Errors
    /// The first contradiction found.
    fn check(&self) -> Checked;
}

/// Whether a decision may be another once the deadlines that have passed are carried out.
#[cold]
fn depends_on_overdue<M: Machine>(machine: &M, now: Millis, decided: &Decided<M::Event, M::Reply>) -> bool {
    let may_differ = match decided {
        Ok(decision) => decision.events.is_empty() && machine.is_nothing(&decision.reply),
        Err(refusal) => refusal.code.may_be_lifted(),
    };
    may_differ && machine.count_overdue(now, 1) > 0
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
