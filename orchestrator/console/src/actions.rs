//! Who did what: the actions of operators, as the page and the log have them.

use allot_runtime::time::now_ms;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::journal::Journal;
use crate::problem::Problem;
use crate::security::Caller;

/// Most actions that the console keeps.
pub(crate) const ACTIONS: usize = 2000;
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

/// Carries out an action, logs it and keeps it: who, what and the outcome.
pub(crate) async fn recorded<T>(
    journal: &Journal<ActionRecord>,
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
    let mut kept = Kept { journal, record };
    let outcome = acted.await;
    match &outcome {
        Ok(_) => {
            "done".clone_into(&mut kept.record.outcome);
            info!(%address, user, session, action, target, "operator's action done");
        }
        Err(problem) => {
            problem.code().clone_into(&mut kept.record.outcome);
            warn!(%address, user, session, action, target, code = problem.code(), "operator's action refused");
        }
    }
    outcome
}

/// A record that is kept when its request ends: answered, refused or cut off.
struct Kept<'a> {
    journal: &'a Journal<ActionRecord>,
    record: ActionRecord,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.journal.add(self.record.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::security::Access;

    #[tokio::test(start_paused = true)]
    async fn action_is_kept_also_if_its_client_leaves() {
        let journal = Journal::open(None, "actions", 10).unwrap();
        let caller = Caller {
            access: Access::Operator,
            user: Some("ann".to_owned()),
            address: "192.0.2.1".parse().unwrap(),
            session: None,
        };
        let long = "a".repeat(2000);
        recorded(&journal, &caller, "A", &long, async { Ok(()) }).await.unwrap();
        let refused = async { Err::<(), _>(Problem::conflict("no")) };
        recorded(&journal, &caller, "B", "k", refused).await.unwrap_err();
        let never = recorded(&journal, &caller, "C", "k", std::future::pending::<Result<(), Problem>>());
        tokio::time::timeout(Duration::from_secs(1), never).await.unwrap_err();
        let kept = journal.records();
        let outcomes: Vec<&str> = kept.iter().map(|record| &record.outcome[..]).collect();
        assert_eq!(outcomes, ["done", "refused", "unknown"]);
        assert!(kept.iter().all(|record| record.user.as_deref() == Some("ann")), "{kept:?}");
        assert_eq!(kept[0].target.chars().count(), LONGEST + 1);
    }
}
