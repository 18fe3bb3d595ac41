//! The way of one process to the servers: slow, stalled or broken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use allot_coordination::random;
use allot_simulation::line::{Accident, Step, Steps};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::sleep;

/// The longest way of a request to a server, in milliseconds.
const LATENCY_MS: u64 = 3;

/// How long a broken connection with ZooKeeper is away at most.
const RECONNECTED: Duration = Duration::from_secs(1);

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// The connection breaks before the request is carried out.
    BreakBefore,
    /// The connection breaks before the answer arrives.
    BreakAfter,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Condition {
    /// Whether nothing arrives. Connections stay open.
    stalls: bool,
    /// How often all connections were broken.
    breaks: u64,
    /// The probability that a request, or a piece of a pipeline, breaks its connection.
    unreliable: f64,
    /// Which requests ZooKeeper refuses.
    refusal: Option<Refusal>,
    /// How many requests it has refused.
    refused: u64,
}

/// Requests that ZooKeeper refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// All, as if the process had no permission.
    All,
    /// Those that create nodes, as if a quota were used up.
    Creates,
}

/// The way of one process to the servers. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Link(Arc<watch::Sender<Condition>>);

impl Link {
    pub(super) fn new() -> Self {
        let condition = Condition { stalls: false, breaks: 0, unreliable: 0.0, refusal: None, refused: 0 };
        Self(Arc::new(watch::Sender::new(condition)))
    }

    /// Stops all requests and replies, or lets them arrive again.
    pub(super) fn stall(&self, stalls: bool) {
        self.0.send_modify(|condition| condition.stalls = stalls);
    }

    /// Breaks all connections.
    pub(super) fn break_all(&self) {
        self.0.send_modify(|condition| condition.breaks += 1);
    }

    /// From now on each request, and each piece of a pipeline, breaks its connection with this probability.
    pub(super) fn set_unreliable(&self, probability: f64) {
        self.0.send_modify(|condition| condition.unreliable = probability);
    }

    /// From now on ZooKeeper refuses these requests.
    pub(super) fn refuse(&self, refusal: Option<Refusal>) {
        self.0.send_modify(|condition| condition.refusal = refusal);
    }

    /// Whether ZooKeeper refuses requests, and how many it has refused.
    pub(super) fn refusals(&self) -> (bool, u64) {
        let condition = self.0.borrow();
        (condition.refusal.is_some(), condition.refused)
    }

    /// A request is on its way.
    pub(super) async fn pass(&self) {
        let latency = latency();
        if !latency.is_zero() {
            sleep(latency).await;
        }
        self.is_open().await;
    }

    /// Waits until requests and replies arrive.
    pub(super) async fn is_open(&self) {
        if self.0.borrow().stalls {
            let _ = self.0.subscribe().wait_for(|condition| !condition.stalls).await;
        }
    }

    /// The end of a connection that begins now: all connections are broken, or its server closes it and counts that.
    pub(super) fn end(&self, server: Option<watch::Receiver<u64>>) -> End {
        let (link, closings) = (self.0.subscribe(), server.clone());
        let (mut condition, breaks) = (link.clone(), link.borrow().breaks);
        let broken = async move { drop(condition.wait_for(|condition| condition.breaks > breaks).await) };
        let closed = async move {
            match closings {
                Some(mut closings) => drop(closings.changed().await),
                None => std::future::pending().await,
            }
        };
        let awaited = async move {
            tokio::select! {
                biased;
                () = closed => {}
                () = broken => {}
            }
        };
        // A task with no budget left must not miss the end, so waiting costs no budget.
        End { link, server, awaited: unconstrained(awaited).boxed() }
    }

    /// What happens to the next request.
    pub(super) fn fate(&self) -> Fate {
        let unreliable = self.0.borrow().unreliable;
        if unreliable == 0.0 || random::within(0.0..1.0) >= unreliable {
            Fate::Answered
        } else if random::any() {
            Fate::BreakBefore
        } else {
            Fate::BreakAfter
        }
    }
}

/// How long a request is on its way. Tokio's timers wait for whole milliseconds, so this has no fractions.
fn latency() -> Duration {
    Duration::from_millis(random::within(0..LATENCY_MS + 1))
}

/// The end of a connection.
pub(super) struct End {
    link: watch::Receiver<Condition>,
    server: Option<watch::Receiver<u64>>,
    awaited: BoxFuture<'static, ()>,
}

impl End {
    /// Whether it may have come since it was last polled. This is much faster than to poll it.
    pub(super) fn may_have_come(&self) -> bool {
        let has_changed = |server: &watch::Receiver<u64>| server.has_changed().unwrap_or(true);
        self.link.has_changed().unwrap_or(true) || self.server.as_ref().is_some_and(has_changed)
    }
}

impl Future for End {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.link.mark_unchanged();
        if let Some(server) = &mut self.server {
            server.mark_unchanged();
        }
        self.awaited.poll_unpin(context)
    }
}

/// What happens to the requests of a process to ZooKeeper.
impl Steps for Link {
    fn next(&self, what: &str, _path: &str) -> Step {
        let is_refused = match self.0.borrow().refusal {
            Some(Refusal::All) => true,
            Some(Refusal::Creates) => matches!(what, "create" | "multi"),
            None => false,
        };
        if is_refused {
            // Wakes nobody who waits for a change of the connection.
            self.0.send_if_modified(|condition| {
                condition.refused += 1;
                false
            });
            return Step::Refused;
        }
        let hit = |carried_out| {
            let accident = Accident::Cut(random::within(Duration::ZERO..RECONNECTED));
            Step::Hit { carried_out, accident }
        };
        match self.fate() {
            Fate::Answered => Step::Answered(latency()),
            Fate::BreakBefore => hit(false),
            Fate::BreakAfter => hit(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;
    use crate::run_paused;

    #[test]
    fn task_without_budget_notices_the_end_of_a_connection() {
        run_paused(1, async {
            let link = Link::new();
            let end = link.end(None);
            link.break_all();
            while has_budget_remaining() {
                consume_budget().await;
            }
            assert_eq!(end.now_or_never(), Some(()));
        });
    }
}
