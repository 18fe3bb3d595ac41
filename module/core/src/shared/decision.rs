//! What a request comes to: events, and a reply that is true once they are applied; or a refusal.

use super::machine::Events;
use super::refusal::Refusal;
use smallvec::smallvec;

/// What happens, and what the caller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<E, R> {
    /// To be applied in this order, all at the time of the decision.
    pub events: Events<E>,
    /// True once they are applied.
    pub reply: R,
}

/// A decision, or why there is none.
pub type Decided<E, R> = Result<Decision<E, R>, Refusal>;

impl<E, R> Decision<E, R> {
    /// One event happens.
    pub fn event(event: E, reply: R) -> Self {
        Self { events: smallvec![event], reply }
    }

    /// Nothing happens.
    pub fn unchanged(reply: R) -> Self {
        Self { events: Events::new(), reply }
    }
}

/// One event happens: the last word of a function that may refuse.
#[allow(
    clippy::missing_errors_doc,
    clippy::unnecessary_wraps,
    reason = "the last word of functions that may refuse"
)]
pub fn decided<E, R>(event: E, reply: R) -> Decided<E, R> {
    Ok(Decision::event(event, reply))
}

/// Nothing happens: the last word of a function that may refuse.
#[allow(
    clippy::missing_errors_doc,
    clippy::unnecessary_wraps,
    reason = "the last word of functions that may refuse"
)]
pub fn unchanged<E, R>(reply: R) -> Decided<E, R> {
    Ok(Decision::unchanged(reply))
}
