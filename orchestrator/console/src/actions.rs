//! Who did what: the actions of operators, as the page and the log have them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use allot_runtime::time::now_ms;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::journal::{Folder, Journal};
use crate::problem::Problem;
use crate::security::Caller;

/// Most actions that the console keeps.
const ACTIONS: usize = 2000;
/// Longest target that the console keeps, in characters. The log has all of it.
const LONGEST: usize = 1000;

/// An action of an operator.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct ActionRecord {
    /// When it began, in milliseconds since 1970.
    at: u64,
    /// The name of the operator; null if the operator has none.
    user: Option<String>,
    /// The address of the browser or program.
    address: String,
    /// The first characters of the session id; null without a session.
    session: Option<String>,
    /// The command, or the path of the endpoint.
    action: String,
    /// What it concerned: the key and further arguments.
    target: String,
    /// `done`, the code of the refusal, or `unknown` if the client did not wait for the end.
    outcome: String,
}

/// What operators did, and what they do at the moment.
pub(crate) struct Actions {
    journal: Journal<ActionRecord>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    /// Actions that have begun.
    count: u64,
    /// Those that have not ended, by their number.
    records: BTreeMap<u64, ActionRecord>,
}

impl Actions {
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(folder: Option<&Folder>) -> Result<Self> {
        Ok(Self { journal: Journal::open(folder, "actions", ACTIONS)?, running: Mutex::default() })
    }

    /// The last actions, from new to old.
    pub(crate) fn newest_first(&self) -> Vec<ActionRecord> {
        let mut records = self.journal.records();
        records.reverse();
        records
    }

    /// Carries out an action, logs it and keeps it: who, what and the outcome.
    pub(crate) async fn recorded<T>(
        &self,
        caller: &Caller,
        action: &str,
        target: &str,
        acted: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let (address, user) = (caller.address, caller.user.as_deref());
        let session = caller.session.as_ref().and_then(|id| id.get(..8));
        let kept = match target.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", target.get(..end).unwrap_or_default()),
            None => target.to_owned(),
        };
        let record = ActionRecord {
            at: now_ms(),
            user: user.map(str::to_owned),
            address: address.to_string(),
            session: session.map(str::to_owned),
            action: action.to_owned(),
            target: kept,
            outcome: "unknown".to_owned(),
        };
        // Before the action: a client that closes its connection ends this request, and perhaps not the action.
        info!(%address, user, session, action, target, "operator's action begins");
        let begun = self.begin(record);
        let outcome = acted.await;
        match &outcome {
            Ok(_) => {
                begun.end("done");
                info!(%address, user, session, action, target, "operator's action done");
            }
            Err(problem) => {
                begun.end(problem.code());
                warn!(%address, user, session, action, target, code = problem.code(), "operator's action refused");
            }
        }
        outcome
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, record: ActionRecord) -> Begun<'_> {
        let mut running = self.running();
        running.count += 1;
        let number = running.count;
        running.records.insert(number, record);
        Begun { actions: self, number }
    }

    /// Keeps actions that have not ended with the outcome `unknown`, and ends the file ([`Journal::end`]).
    pub(crate) fn end(&self) -> Option<JoinHandle<()>> {
        for (_, record) in std::mem::take(&mut self.running().records) {
            self.journal.add(record);
        }
        self.journal.end()
    }
}

/// An action that has begun. It is kept when its request ends: answered, refused or cut off.
struct Begun<'a> {
    actions: &'a Actions,
    number: u64,
}

impl Begun<'_> {
    fn end(self, outcome: &str) {
        if let Some(record) = self.actions.running().records.get_mut(&self.number) {
            outcome.clone_into(&mut record.outcome);
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let ended = self.actions.running().records.remove(&self.number);
        if let Some(record) = ended {
            self.actions.journal.add(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::security::Access;

    #[tokio::test(start_paused = true)]
    async fn action_is_kept_also_if_its_client_leaves() {
        let actions = Actions::open(None).unwrap();
        let caller = Caller {
            access: Access::Operator,
            user: Some("ann".to_owned()),
            address: "192.0.2.1".parse().unwrap(),
            session: None,
        };
        let long = "a".repeat(2000);
        actions.recorded(&caller, "A", &long, async { Ok(()) }).await.unwrap();
        let refused = async { Err::<(), _>(Problem::conflict("no")) };
        actions.recorded(&caller, "B", "k", refused).await.unwrap_err();
        let never = || actions.recorded(&caller, "C", "k", std::future::pending::<Result<(), Problem>>());
        tokio::time::timeout(Duration::from_secs(1), never()).await.unwrap_err();
        // The end of the console keeps what runs, and only once.
        let mut running = Box::pin(never());
        assert!(futures_util::poll!(&mut running).is_pending());
        actions.end();
        drop(running);
        let kept = actions.journal.records();
        let outcomes: Vec<&str> = kept.iter().map(|record| &record.outcome[..]).collect();
        assert_eq!(outcomes, ["done", "refused", "unknown", "unknown"]);
        assert!(kept.iter().all(|record| record.user.as_deref() == Some("ann")), "{kept:?}");
        assert_eq!(kept[0].target.chars().count(), LONGEST + 1);
    }
}
