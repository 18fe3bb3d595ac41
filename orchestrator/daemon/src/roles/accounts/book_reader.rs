//! Reads the book: as a whole when it has changed, and single assignments that the tree has and its rows have not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::observed_tree::Book;
use super::paths::Paths;
use allot_client::{BookStore, Error, Record, Rows};
use allot_coordination::Version;

/// Interval at which the whole book is read although its counters have not changed.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(5);
/// The pause before the book is read again is at least this many times the duration of the last read, so that a large
/// book is not read all the time.
const READ_PAUSE_FACTOR: u32 = 4;
/// The most names that one warning lists.
const MAX_NAMES: usize = 5;

/// The book as it was last read in a session with Redis.
#[derive(Default)]
pub(super) struct BookReader {
    pub(super) book: Book,
    /// The counters of the book's record that change with every assignment.
    counters: Vec<u64>,
    /// The version of the notify node that was known before the read.
    pub(super) notified: Option<Version>,
    /// The time of the read, and its duration; `None` if the book must be read again.
    at: Option<(Instant, Duration)>,
    /// Assignments (account, epoch) that were looked up in the book, and whether the book knows them.
    checked_assignments: BTreeMap<(String, u64), bool>,
    /// Names of the book that no node can have. Each is logged once.
    unreadable: Vec<String>,
}

impl BookReader {
    /// Forgets what was read: a new session with Redis begins.
    pub(super) fn reset(&mut self) {
        *self = Self { unreadable: std::mem::take(&mut self.unreadable), ..Self::default() };
    }

    /// The book must be read again.
    pub(super) fn invalidate(&mut self) {
        self.at = None;
    }

    /// Reads the book if it has changed, or if the last read is too old. `notified` is the latest version of the
    /// notify node. Returns whether the book was read, and whether it differs from the last read.
    pub(super) async fn read(
        &mut self,
        store: &BookStore,
        paths: &Paths,
        notified: Option<Version>,
    ) -> Result<(bool, bool), Error> {
        let record = store.info().await?;
        let (counters, last_epoch) = (change_counters(&record)?, record.get("last_epoch")?);
        let is_due = match self.at {
            None => true,
            Some((at, took)) => {
                let changed = counters != self.counters || notified != self.notified;
                at.elapsed() >= FULL_READ_INTERVAL.max(took * READ_PAUSE_FACTOR)
                    || changed && at.elapsed() >= took * READ_PAUSE_FACTOR
            }
        };
        if !is_due {
            return Ok((false, false));
        }
        let began = Instant::now();
        let (modules, accounts) = (store.module_rows().await?, store.account_rows().await?);
        self.warn_unreadable(&modules, &accounts);
        let dir = |department: &str, module: &str| paths.module(department, module);
        let book = Book::new(modules.rows, accounts.rows, last_epoch, dir);
        let changed = book != self.book || self.at.is_none() || notified != self.notified;
        (self.book, self.counters, self.notified) = (book, counters, notified);
        self.at = Some((Instant::now(), began.elapsed()));
        Ok((true, changed))
    }

    /// Warns of modules and accounts that cannot be published, when there are others than before.
    fn warn_unreadable<M, A>(&mut self, modules: &Rows<M>, accounts: &Rows<A>) {
        let names = [&modules.unreadable[..], &accounts.unreadable].concat();
        if names == self.unreadable {
            return;
        }
        if !names.is_empty() {
            let first = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            warn!(
                count = names.len(),
                first,
                "the book has modules or accounts whose names are not UTF-8; they are published to nobody"
            );
        }
        self.unreadable = names;
    }

    /// Returns those of these assignments (account, epoch) that the book does not know.
    pub(super) async fn unknown_assignments(
        &mut self,
        store: &BookStore,
        unverified: BTreeSet<(String, u64)>,
    ) -> Result<BTreeSet<(String, u64)>, Error> {
        let checked = &mut self.checked_assignments;
        checked.retain(|assignment, _| unverified.contains(assignment));
        let new: Vec<&(String, u64)> =
            unverified.iter().filter(|assignment| !checked.contains_key(*assignment)).collect();
        if !new.is_empty() {
            let names: Vec<&str> = new.iter().map(|(account, _)| account.as_str()).collect();
            for (assignment, epochs) in new.iter().zip(store.epochs(&names).await?) {
                let known = epochs.contains(&assignment.1);
                if !known {
                    let (account, epoch) = assignment;
                    warn!(account, epoch, "the book does not know a published assignment");
                }
                checked.insert((*assignment).clone(), known);
            }
        }
        let unknown = checked.iter().filter(|(_, known)| !**known);
        Ok(unknown.map(|(assignment, _)| assignment.clone()).collect())
    }
}

/// The counters of a book's record that change with every assignment.
fn change_counters(record: &Record) -> Result<Vec<u64>, Error> {
    let fields = ["last_epoch", "modules", "instances", "accounts", "free", "assigned", "revoking", "frozen"];
    fields.iter().map(|field| record.get(field)).collect()
}
