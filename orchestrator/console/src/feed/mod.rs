//! Live values: one reader for each thing that browsers look at, and any number of browsers that listen to it.
//!
//! A reader reads while somebody listens, and a few seconds longer. It decides by itself when to read again; what it
//! reads becomes messages, which all listeners share. A listener that falls behind loses messages, is told so, and reads
//! the page again.

mod book;
mod compaction;
mod events;
mod keys;
mod overview;
mod partition_grid;
mod points;
mod pool;
mod reader;
mod realm;
mod show;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use axum::http::StatusCode;
use redis::{Value, cmd};

use crate::channel::{Feed, Subject};
use crate::problem::Problem;
use crate::state::Console;
pub(crate) use overview::{REFUSALS, parse_info};
pub(crate) use reader::{LATE, Trouble};
use reader::{Reader, run};

impl Console {
    /// The subject of an address: a key, whose type decides, or one of three names.
    pub(crate) async fn subject(&self, name: &str) -> Result<Subject, Problem> {
        match name {
            "keys" => return Ok(Subject::Keys),
            "overview" => return Ok(Subject::Overview),
            "compaction" => return Ok(Subject::Compaction),
            _ => {}
        }
        let key = name.strip_prefix("key:").unwrap_or(name);
        let (of, _) = self.viewer.send(key, cmd("TYPE").arg(key)).await?;
        let Value::SimpleString(of) = of else {
            return Err(allot_client::Error::Shape(format!("TYPE: {of:?}")).into());
        };
        if let Some((_, _, subject)) = keys::TYPES.iter().find(|(name, _, _)| *name == of) {
            return Ok(subject(key.to_owned()));
        }
        Err(match of.as_str() {
            "none" => Problem::new(StatusCode::NOT_FOUND, "NOKEY", format!("there is no key '{key}'")),
            other => Problem::bad(format!("the key '{key}' holds a {other}, and no value of Allot")),
        })
    }

    /// The feed of a subject. Starts its reader if there is none.
    pub(crate) fn feed(self: &Arc<Self>, subject: &Subject) -> Arc<Feed> {
        let mut live = self.feeds.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked after the reference was taken: then either the reader has ended, or it sees the reference and goes on.
        let is_read = |feed: &Arc<Feed>| !feed.ended.load(Ordering::SeqCst);
        if let Some(feed) = live.get(subject).and_then(Weak::upgrade).filter(is_read) {
            return feed;
        }
        live.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(Feed::new());
        live.insert(subject.clone(), Arc::downgrade(&feed));
        match subject {
            Subject::Keys => self.start(keys::Keys::default(), "", &feed),
            Subject::Overview => self.start(overview::Overview::default(), "", &feed),
            Subject::Compaction => self.start(compaction::Tasks::default(), "", &feed),
            Subject::Show(key) => self.start(show::Show::default(), key, &feed),
            Subject::Realm(key) => self.start(realm::Realm::default(), key, &feed),
            Subject::Pool(key) => self.start(pool::Pool::default(), key, &feed),
            Subject::Book(key) => self.start(book::Book, key, &feed),
        }
        feed
    }

    fn start(self: &Arc<Self>, reader: impl Reader, key: &str, feed: &Arc<Feed>) {
        tokio::spawn(run(reader, Arc::clone(self), key.to_owned(), Arc::clone(feed)));
    }
}
