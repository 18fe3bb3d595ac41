//! The result of a request: events and a reply, or a refusal. The reply is true once the events are applied.

use super::event::Events;
use super::refusal::Refusal;
use smallvec::smallvec;

/// The events that a request causes, and the reply to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<E, R> {
    /// Events, applied in this order, all at the time of the decision.
    pub events: Events<E>,
    /// The reply, which is true once the events are applied.
    pub reply: R,
}

/// A decision, or a refusal.
pub type Decided<E, R> = Result<Decision<E, R>, Refusal>;

impl<E, R> Decision<E, R> {
    /// A decision with one event.
    pub fn event(event: E, reply: R) -> Self {
        Self { events: smallvec![event], reply }
    }

    /// A decision without events.
    pub fn unchanged(reply: R) -> Self {
        Self { events: Events::new(), reply }
    }
}

/// A decision with one event, as the result of a function that may refuse.
#[allow(
    clippy::missing_errors_doc,
    clippy::unnecessary_wraps,
    reason = "the last word of functions that may refuse"
)]
pub fn decided<E, R>(event: E, reply: R) -> Decided<E, R> {
    Ok(Decision::event(event, reply))
}

/// A decision without events, as the result of a function that may refuse.
#[allow(
    clippy::missing_errors_doc,
    clippy::unnecessary_wraps,
    reason = "the last word of functions that may refuse"
)]
pub fn unchanged<E, R>(reply: R) -> Decided<E, R> {
    Ok(Decision::unchanged(reply))
}
