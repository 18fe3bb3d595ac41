//! What keeps a process from its work until a person helps, for the readiness probe: requests that the service refuses,
//! and sessions without a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// All problems of a process, by number. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Problems(Arc<watch::Sender<BTreeMap<u64, String>>>);

impl Problems {
    /// The problems, with notification of changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<BTreeMap<u64, String>> {
        self.0.subscribe()
    }
}

/// The place of one loop among the problems. Dropping it solves its problem.
pub(crate) struct Problem {
    all: Problems,
    /// The number and the text, while there is a problem.
    current: Option<(u64, String)>,
}

impl Problem {
    /// No problem yet.
    pub(crate) fn new(all: &Problems) -> Self {
        Self { all: all.clone(), current: None }
    }

    /// Reports the problem, in place of an earlier one.
    pub(crate) fn set(&mut self, text: String) {
        if self.current.as_ref().is_some_and(|(_, current)| *current == text) {
            return;
        }
        self.clear();
        self.all.0.send_modify(|all| {
            let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
            all.insert(number, text.clone());
            self.current = Some((number, text));
        });
    }

    /// The problem is solved. Returns whether there was one.
    pub(crate) fn clear(&mut self) -> bool {
        let Some((number, _)) = self.current.take() else { return false };
        self.all.0.send_modify(|all| drop(all.remove(&number)));
        true
    }
}

impl Drop for Problem {
    fn drop(&mut self) {
        self.clear();
    }
}
