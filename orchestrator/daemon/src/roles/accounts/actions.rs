//! Sends the changes of a plan to the book: one command for each change, with the leadership term.

use std::time::Duration;

use redis::Cmd;
use tracing::{debug, info, warn};

use super::observed_tree::InstanceId;
use super::reconcile::Change;
use allot_client::{BookStore, Error};

/// Applies the changes, and returns the instances that were attached, each with the creation id of its node. A change
/// that no longer fits the book is skipped, since the leader reads the book again afterwards. `grace` is how long the
/// book keeps the accounts of a detached instance.
pub(super) async fn apply_changes(
    store: &BookStore,
    term: u64,
    grace: Duration,
    changes: &[Change],
) -> Result<Vec<(InstanceId, i64)>, Error> {
    let (mut commands, mut sent): (Vec<Cmd>, Vec<&Change>) = (Vec::new(), Vec::new());
    for change in changes {
        let mut command;
        match change {
            Change::Detach { module, instance, leaves } => {
                info!(module, instance, leaves, "detaching an instance that is gone");
                let grace = if *leaves { Duration::ZERO } else { grace };
                command = store.begin("ACCOUNT.DETACH");
                command.arg(module).arg(instance).arg("GRACE").arg(grace.as_millis() as u64);
                command.arg("TERM").arg(term);
            }
            Change::Attach { module, id, .. } => {
                info!(module, instance = id.instance, "attaching an instance");
                command = store.begin("ACCOUNT.ATTACH");
                command.arg(module).arg(&id.instance).arg("TERM").arg(term);
            }
            Change::Logout { account, epoch } => {
                command = store.begin("ACCOUNT.LOGOUT");
                command.arg(account).arg(epoch);
            }
            Change::Freeze { account } => {
                warn!(account, "freezing an account that its instance cannot use");
                command = store.begin("ACCOUNT.FREEZE");
                command.arg(account).arg("TERM").arg(term);
            }
            Change::Raise { epoch, account } => {
                info!(account, epoch, "tree is ahead of book; raising epochs");
                command = store.begin("ACCOUNT.RAISE");
                command.arg(epoch);
                if let Some(account) = account {
                    command.arg("ACCOUNT").arg(account);
                }
                command.arg("TERM").arg(term);
            }
            Change::Report { account, epoch, total } => {
                command = store.begin("ACCOUNT.REPORT");
                command.arg(account).arg(epoch).arg(total);
            }
            Change::Return { account, epoch } => {
                info!(account, "an instance returns an account");
                command = store.begin("ACCOUNT.LOGOUT");
                command.arg(account).arg(epoch).arg("BACK").arg("TERM").arg(term);
            }
        }
        commands.push(command);
        sent.push(change);
    }
    let mut attached = Vec::new();
    for (change, result) in sent.into_iter().zip(store.ask_all(commands).await?) {
        match result {
            Ok(_) => {
                if let Change::Attach { id, created, .. } = change {
                    attached.push((id.clone(), *created));
                }
            }
            Err(error)
                if matches!(change, Change::Report { .. })
                    && matches!(error.code(), Some("NOTFOUND" | "STALE" | "LIMIT" | "ERR")) =>
            {
                warn!(?change, %error, "the book cannot count the reported use of an account");
            }
            Err(error) if matches!(error.code(), Some("NOTFOUND" | "BADSTATE")) => {
                debug!(?change, %error, "skipping a change: the book has changed since it was read");
            }
            // The error concerns this change only; the others go on.
            Err(error) if matches!(error.code(), Some("ERR" | "LIMIT")) => {
                warn!(?change, %error, "the book rejects a change");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(attached)
}
