//! What several pages share, so that each of them costs the server nothing of its own: the list of keys, plans, moves,
//! imports, alerts, and the places of an address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::problem::Problem;

/// A key that holds a value of Allot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) struct FoundKey {
    /// `show`, `realm`, `pool` or `book`.
    pub(crate) kind: &'static str,
    /// The key; if it is no text, with an escape for each byte that is none.
    pub(crate) key: String,
    /// Whether the key is text. There is a page for no other.
    pub(crate) is_text: bool,
}

impl FoundKey {
    pub(crate) fn new(kind: &'static str, key: Vec<u8>) -> Self {
        match String::from_utf8(key) {
            Ok(key) => Self { kind, key, is_text: true },
            Err(error) => Self { kind, key: error.as_bytes().escape_ascii().to_string(), is_text: false },
        }
    }
}

/// The keys that hold values of Allot.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct KeyList {
    /// The keys, by kind and name.
    pub(crate) keys: Vec<FoundKey>,
    /// The kinds of which there may be more keys.
    pub(crate) more: Vec<&'static str>,
}

/// The live holds of a show.
#[derive(Clone, Serialize, ToSchema)]
pub(crate) struct Holds {
    /// How many there are.
    pub(crate) count: u64,
    /// When the first of them ends, in milliseconds since 1970; null if there is none.
    pub(crate) next_end: Option<u64>,
    /// Those that end first, as the records of `SEAT.LIST HOLDS`, the next to end on top.
    #[schema(value_type = [Object])]
    pub(crate) first: Vec<Value>,
}

/// How many seats were sold when.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Sales {
    /// Times of changes in milliseconds since 1970, from old to new.
    pub(crate) at: Vec<u64>,
    /// Seats that were sold from then on.
    pub(crate) sold: Vec<u64>,
    /// Whether the curve begins with the creation of the show. A stream keeps only its newest entries.
    pub(crate) whole: bool,
}

/// Conferences of a plan with the same outcome.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct PlanTotal {
    /// The unit to which they go; null if they go nowhere.
    #[schema(value_type = Option<String>)]
    pub(crate) cmu: Value,
    /// Why they wait, or go nowhere.
    #[schema(value_type = Option<String>)]
    pub(crate) why: Value,
    pub(crate) count: u64,
}

/// A rule that is met.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Alert {
    /// The rule, as the settings have it.
    pub(crate) rule: String,
    /// Since when it is met, in milliseconds since 1970.
    pub(crate) since: u64,
    /// What was measured last.
    pub(crate) value: f64,
}

/// The alerts of now.
#[derive(Default)]
pub(crate) struct Alerts(pub(crate) Mutex<Vec<Alert>>);

impl Alerts {
    pub(crate) fn now(&self) -> Vec<Alert> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers that all pages share for some time, by what was asked. One answer is made at a time.
pub(crate) struct Recent<K, V> {
    shared_for: Duration,
    /// The answers, and when they were asked for.
    answers: tokio::sync::Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    pub(crate) fn new(shared_for: Duration) -> Self {
        Self { shared_for, answers: tokio::sync::Mutex::default() }
    }

    /// The answer to `question`: an answer that is recent, or else what `make` answers.
    pub(crate) async fn answer<E>(
        &self,
        question: K,
        make: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        let mut answers = self.answers.lock().await;
        answers.retain(|_, (asked, _)| asked.elapsed() < self.shared_for);
        if let Some((_, answer)) = answers.get(&question) {
            return Ok(answer.clone());
        }
        let asked = Instant::now();
        let answer = make.await?;
        answers.insert(question, (asked, answer.clone()));
        Ok(answer)
    }
}

/// Places that are counted for each client address, so that one address cannot take all.
pub(crate) struct Places {
    /// How many an address has.
    pub(crate) each: usize,
    taken: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl Places {
    pub(crate) fn new(each: usize) -> Self {
        Self { each, taken: Mutex::default() }
    }

    /// A place of an address; `None` if it has all of its places.
    pub(crate) fn take(&self, address: IpAddr) -> Option<OwnedSemaphorePermit> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, places| places.available_permits() < self.each);
        let places = taken.entry(address).or_insert_with(|| Arc::new(Semaphore::new(self.each)));
        Arc::clone(places).try_acquire_owned().ok()
    }
}

/// What an import changes, or would change.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Imported {
    /// The difference between book and table, in words.
    pub(crate) lines: Vec<String>,
    /// How many modules and accounts are created, changed, moved and deleted.
    pub(crate) changes: u64,
    /// Whether the changes were made.
    pub(crate) applied: bool,
    /// A digest of the difference, for `seen`.
    pub(crate) comparison: String,
    /// What went wrong after the changes were made; absent if nothing did.
    pub(crate) warning: Option<String>,
}

/// The last import into a book.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(crate) struct LastImport {
    running: bool,
    /// What it changed; null if it runs, or was refused.
    result: Option<Imported>,
    /// Why it was refused, or interrupted.
    problem: Option<Problem>,
}

/// The imports that run, by the key of the book, and the last one that ended.
#[derive(Default)]
pub(crate) struct Imports(Mutex<HashMap<String, LastImport>>);

impl Imports {
    /// Begins an import into a book, if none runs.
    pub(crate) fn begin(&self, key: &str) -> Result<(), Problem> {
        let mut imports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        imports.retain(|_, import| import.running);
        if imports.contains_key(key) {
            return Err(Problem::conflict("an import into this book runs; wait for its end"));
        }
        imports.insert(key.to_owned(), LastImport { running: true, ..LastImport::default() });
        Ok(())
    }

    /// Ends an import with this outcome.
    pub(crate) fn end(&self, key: &str, outcome: &Result<Imported, Problem>) {
        let (result, problem) = (outcome.as_ref().ok().cloned(), outcome.as_ref().err().cloned());
        let mut imports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        imports.insert(key.to_owned(), LastImport { running: false, result, problem });
    }

    /// The last import into a book.
    pub(crate) fn last(&self, key: &str) -> Option<LastImport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}
