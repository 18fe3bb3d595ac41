//! The loop that reads while somebody listens.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use allot_runtime::time::now_ms;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::state::Console;

/// Time for which a reader goes on without listeners: a page that is loaded again finds its reader.
const LINGER: Duration = Duration::from_secs(10);
/// Pause after a read that failed.
const RETRY: Duration = Duration::from_millis(500);
/// Time after which a read that is not done is said to be late: people must not take old values for new ones.
pub(crate) const LATE: Duration = Duration::from_secs(2);

/// A reader of one subject.
pub(super) trait Reader: Send + 'static {
    /// Reads the subject at this key, and sends what has changed. Returns the pause before the next read.
    fn read(
        &mut self,
        console: &Arc<Console>,
        key: &str,
        feed: &Feed,
    ) -> impl Future<Output = Result<Duration, Problem>> + Send;
}

/// What keeps a subject from being read.
#[derive(Serialize)]
pub(crate) struct Trouble {
    #[serde(flatten)]
    problem: Problem,
    /// The console's clock when the values were read that are shown, in milliseconds since 1970; `None` if there are none.
    since: Option<u64>,
}

impl Trouble {
    pub(crate) fn message(problem: Problem, since: Option<u64>) -> Message {
        Message::new(Message::TROUBLE, &Self { problem, since })
    }
}

/// Reads until nobody has listened for a while.
pub(super) async fn run(mut reader: impl Reader, console: Arc<Console>, key: String, feed: Arc<Feed>) {
    let mut listened = Instant::now();
    let mut since = None;
    loop {
        let mut read = pin!(reader.read(&console, &key, &feed));
        let outcome = if let Ok(outcome) = timeout(LATE, &mut read).await {
            outcome
        } else {
            feed.send_trouble(Some(Trouble::message(Problem::late(), since)));
            read.await
        };
        let pause = match outcome {
            Ok(pause) => {
                since = Some(now_ms());
                feed.send_trouble(None);
                pause
            }
            Err(problem) => {
                feed.send_trouble(Some(Trouble::message(problem, since)));
                RETRY
            }
        };
        sleep(pause).await;
        // This task holds one reference.
        if Arc::strong_count(&feed) > 1 {
            listened = Instant::now();
        } else if listened.elapsed() > LINGER {
            feed.ended.store(true, Ordering::SeqCst);
            // Somebody may have come in this instant.
            if Arc::strong_count(&feed) == 1 {
                return;
            }
            feed.ended.store(false, Ordering::SeqCst);
        }
    }
}
