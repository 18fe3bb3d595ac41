//! What readers and listeners have in common: a feed, its messages, and the loop that reads while somebody listens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use super::snapshot::ShowSnapshot;
use crate::problem::Problem;

/// Messages that a listener may be behind.
const BEHIND: usize = 64;
/// Time for which a reader goes on without listeners: a page that is loaded again finds its reader.
const LINGER: Duration = Duration::from_secs(10);
/// Pause after a read that failed.
const RETRY: Duration = Duration::from_millis(500);

/// A message for browsers: the name of the event, and its data as JSON.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) event: &'static str,
    pub(crate) data: Arc<str>,
}

impl Message {
    pub(crate) fn new(event: &'static str, data: &impl Serialize) -> Self {
        // These types have text keys only, so they can always be written as JSON.
        let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        Self { event, data: data.into() }
    }

    /// The reader cannot read, for this reason. Its next message ends the trouble.
    fn trouble(problem: &Problem) -> Self {
        Self::new("trouble", problem)
    }
}

/// A reader and its listeners.
pub(crate) struct Feed {
    sender: broadcast::Sender<Message>,
    /// The latest message with the whole state, for listeners that come later.
    state: watch::Sender<Option<Message>>,
    /// The latest message of each further event that lasts, by the name of the event.
    kept: watch::Sender<BTreeMap<&'static str, Message>>,
    /// The latest snapshot of a show.
    pub(crate) show: watch::Sender<Option<Arc<ShowSnapshot>>>,
    /// Whether the reader has ended.
    ended: AtomicBool,
}

impl Feed {
    pub(super) fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(BEHIND),
            state: watch::Sender::new(None),
            kept: watch::Sender::new(BTreeMap::new()),
            show: watch::Sender::new(None),
            ended: AtomicBool::new(false),
        }
    }

    /// Whether nothing reads for this feed any more. To be asked after a reference was taken: then either this is true, or
    /// the reader sees the reference and goes on.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// The latest messages that last, and all messages from now on.
    pub(crate) fn listen(&self) -> (Vec<Message>, broadcast::Receiver<Message>) {
        let receiver = self.sender.subscribe();
        let state = self.state.borrow().clone();
        let kept: Vec<Message> = self.kept.borrow().values().cloned().collect();
        (state.into_iter().chain(kept).collect(), receiver)
    }

    /// Sends a message that replaces all earlier ones.
    pub(super) fn send_state(&self, message: Message) {
        self.state.send_replace(Some(message.clone()));
        self.send(message);
    }

    /// Keeps a message for later listeners, and sends another one that leads those of now to the same.
    pub(super) fn send_change(&self, kept: Message, change: Message) {
        // In this order: who comes in between gets both, and a change that is made twice does no harm.
        self.kept.send_modify(|all| drop(all.insert(kept.event, kept)));
        self.send(change);
    }

    /// Sends a message that later listeners get, too, in addition to the state, until the next one of the same event. A
    /// message that is equal to the last one is not sent: all listeners have it.
    pub(super) fn send_kept(&self, message: Message) {
        let is_new = self.kept.send_if_modified(|kept| {
            let is_new = kept.get(message.event).is_none_or(|last| last.data != message.data);
            if is_new {
                kept.insert(message.event, message.clone());
            }
            is_new
        });
        if is_new {
            self.send(message);
        }
    }

    pub(super) fn send(&self, message: Message) {
        // Without listeners there is nobody to tell.
        let _ = self.sender.send(message);
    }
}

/// A reader of one subject.
pub(super) trait Reader: Send {
    /// Reads, and sends what has changed. Returns the pause before the next read.
    fn read(&mut self, feed: &Feed) -> impl Future<Output = Result<Duration, Problem>> + Send;
}

/// Starts a reader.
pub(super) fn spawn(reader: impl Reader + 'static, feed: Arc<Feed>) {
    tokio::spawn(run(reader, feed));
}

/// Reads until nobody has listened for a while.
async fn run(mut reader: impl Reader, feed: Arc<Feed>) {
    let mut listened = tokio::time::Instant::now();
    loop {
        let pause = match reader.read(&feed).await {
            Ok(pause) => pause,
            Err(problem) => {
                feed.send_state(Message::trouble(&problem));
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
