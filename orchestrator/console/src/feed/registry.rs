//! The readers of this process, one for each thing that browsers look at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::channel::{Feed, spawn};
use super::{book, compaction, overview, pool, realm, show};
use crate::sources::Sources;

/// A thing to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
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
pub(crate) struct Feeds {
    live: Mutex<HashMap<Subject, Weak<Feed>>>,
    /// The feed of the overview, which always runs: its charts begin before somebody looks.
    overview: Mutex<Option<Arc<Feed>>>,
}

impl Feeds {
    /// Starts the reader of the overview.
    pub(crate) fn start_overview(&self, sources: &Arc<Sources>) {
        let feed = self.feed(sources, &Subject::Overview);
        *self.overview.lock().unwrap_or_else(PoisonError::into_inner) = Some(feed);
    }

    /// The feed of a subject. Starts its reader if there is none.
    pub(crate) fn feed(&self, sources: &Arc<Sources>, subject: &Subject) -> Arc<Feed> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = live.get(subject).and_then(Weak::upgrade).filter(|feed| !feed.has_ended()) {
            return feed;
        }
        live.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(Feed::new());
        live.insert(subject.clone(), Arc::downgrade(&feed));
        start(Arc::clone(sources), subject.clone(), Arc::clone(&feed));
        feed
    }
}

fn start(sources: Arc<Sources>, subject: Subject, feed: Arc<Feed>) {
    match subject {
        Subject::Overview => spawn(overview::Overview::new(sources), feed),
        Subject::Compaction => spawn(compaction::Tasks::new(sources), feed),
        Subject::Show(key) => spawn(show::Show::new(sources, key), feed),
        Subject::Realm(key) => spawn(realm::Realm::new(sources, key), feed),
        Subject::Pool(key) => spawn(pool::Pool::new(sources, key), feed),
        Subject::Book(key) => spawn(book::Book::new(sources, key), feed),
    }
}
