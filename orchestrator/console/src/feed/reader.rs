//! The loop that reads while somebody listens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::state::Console;

/// Time for which a reader goes on without listeners: a page that is loaded again finds its reader.
const LINGER: Duration = Duration::from_secs(10);
/// Pause after a read that failed.
const RETRY: Duration = Duration::from_millis(500);

/// A reader of one subject.
pub(super) trait Reader: Send + 'static {
    /// Reads the subject at this key, and sends what has changed. Returns the pause before the next read.
    fn read(
        &mut self,
        console: &Console,
        key: &str,
        feed: &Feed,
    ) -> impl Future<Output = Result<Duration, Problem>> + Send;
}

/// Reads until nobody has listened for a while.
pub(super) async fn run(mut reader: impl Reader, console: Arc<Console>, key: String, feed: Arc<Feed>) {
    let mut listened = tokio::time::Instant::now();
    loop {
        let pause = match reader.read(&console, &key, &feed).await {
            Ok(pause) => pause,
            Err(problem) => {
                // The next state ends the trouble.
                feed.send_state(Message::new("trouble", &problem));
                RETRY
            }
        };
        sleep(pause).await;
        // This task holds one reference.
        if Arc::strong_count(&feed) > 1 {
            listened = tokio::time::Instant::now();
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
