//! What readers and listeners have in common: feeds, their messages, and the things to look at.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, watch};

/// Messages that a listener may be behind.
const BEHIND: usize = 64;

/// A message for browsers: the name of the event, and its data as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) event: &'static str,
    pub(crate) data: Arc<str>,
}

impl Message {
    /// The event that says why the state is old; without data, that it is not old any more.
    pub(crate) const TROUBLE: &str = "trouble";

    pub(crate) fn new(event: &'static str, data: &impl Serialize) -> Self {
        // These types have text keys only, so they can always be written as JSON.
        let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        Self { event, data: data.into() }
    }
}

/// A reader and its listeners.
pub(crate) struct Feed {
    sender: broadcast::Sender<Message>,
    /// The latest message with the whole state, for listeners that come later.
    state: watch::Sender<Option<Message>>,
    /// Why the state is old; `None` if it is not.
    trouble: watch::Sender<Option<Message>>,
    /// The latest message of each further event that lasts, by the name of the event.
    kept: watch::Sender<BTreeMap<&'static str, Message>>,
    /// The latest snapshot of a show.
    pub(crate) show: watch::Sender<Option<Arc<ShowSnapshot>>>,
    /// Whether the reader has ended.
    pub(crate) ended: AtomicBool,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(BEHIND),
            state: watch::Sender::new(None),
            trouble: watch::Sender::new(None),
            kept: watch::Sender::new(BTreeMap::new()),
            show: watch::Sender::new(None),
            ended: AtomicBool::new(false),
        }
    }

    /// The latest messages that last, and all messages from now on.
    pub(crate) fn listen(&self) -> (Vec<Message>, broadcast::Receiver<Message>) {
        let receiver = self.sender.subscribe();
        let state = self.state.borrow().clone();
        let kept: Vec<Message> = self.kept.borrow().values().cloned().collect();
        let trouble = self.trouble.borrow().clone();
        (state.into_iter().chain(kept).chain(trouble).collect(), receiver)
    }

    /// Sends a message that replaces all earlier ones. A message that is equal to the last one is not sent: all listeners
    /// have it.
    pub(crate) fn send_state(&self, message: Message) {
        if self.state.send_if_modified(|state| {
            let is_new = state.as_ref() != Some(&message);
            *state = Some(message.clone());
            is_new
        }) {
            self.send(message);
        }
    }

    /// Says that the state is old, and why; or that it is not old any more.
    pub(crate) fn send_trouble(&self, trouble: Option<Message>) {
        if self.trouble.send_if_modified(|now| {
            let is_new = *now != trouble;
            now.clone_from(&trouble);
            is_new
        }) {
            self.send(trouble.unwrap_or_else(|| Message::new(Message::TROUBLE, &())));
        }
    }

    /// Keeps a message for later listeners, and sends another one that leads those of now to the same.
    pub(crate) fn send_change(&self, kept: Message, change: Message) {
        // In this order: who comes in between gets both, and a change that is made twice does no harm.
        self.kept.send_modify(|all| drop(all.insert(kept.event, kept)));
        self.send(change);
    }

    /// Sends a message that later listeners get, too, in addition to the state, until the next one of the same event. A
    /// message that is equal to the last one is not sent.
    pub(crate) fn send_kept(&self, message: Message) {
        if self
            .kept
            .send_if_modified(|kept| kept.insert(message.event, message.clone()).as_ref() != Some(&message))
        {
            self.send(message);
        }
    }

    pub(crate) fn send(&self, message: Message) {
        // Without listeners there is nobody to tell.
        let _ = self.sender.send(message);
    }
}

/// A thing to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// The keys that hold values, and whether Redis answers.
    Keys,
    /// Redis, ZooKeeper and the rates of the module.
    Overview,
    /// The tasks of compaction.
    Compaction,
    /// The show at this key.
    Show(String),
    /// The realm at this key.
    Realm(String),
    /// The pool at this key.
    Pool(String),
    /// The book of accounts at this key.
    Book(String),
}

/// The feeds that have listeners, or had some a moment ago.
#[derive(Default)]
pub(crate) struct Feeds(pub(crate) Mutex<HashMap<Subject, Weak<Feed>>>);

/// The map of a show at one instant.
#[derive(Debug)]
pub(crate) struct ShowSnapshot {
    /// Number of this state; each message of changes has the number of the state that it leads to.
    pub(crate) seq: u64,
    /// The plan, as `SEAT.PLAN` gives it.
    pub(crate) plan: Arc<RawValue>,
    /// For each area of the plan the rows in the order of the plan, each a string with one character for each position; for
    /// a standing area the numbers of free, held, sold and blocked places.
    pub(crate) areas: Vec<Vec<String>>,
    /// The server's clock at the read, in milliseconds since 1970.
    pub(crate) now: u64,
}
