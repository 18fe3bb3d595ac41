//! Telling the book what a plan has for it: each change as a command that carries the term.

use std::time::Duration;

use redis::Cmd;
use tracing::{debug, info, warn};

use super::observed_tree::InstanceId;
use super::reconcile::Change;
use allot_client::{BookStore, Error};

/// Carries out; the instances that were attached, with their nodes. What others have changed since the book was read is
/// passed over: it is read again.
pub(super) async fn carry_out(
    store: &BookStore,
    term: u64,
    grace: Duration,
    changes: &[Change],
) -> Result<Vec<(InstanceId, i64)>, Error> {
    let (mut commands, mut sent): (Vec<Cmd>, Vec<&Change>) = (Vec::new(), Vec::new());
    for change in changes {
        let mut command;
        match change {
            Change::Detach { module, instance } => {
                info!(module, instance, "an instance has gone");
                command = store.begin("ACCOUNT.DETACH");
                command.arg(module).arg(instance).arg("GRACE").arg(grace.as_millis() as u64);
                command.arg("TERM").arg(term);
            }
            Change::Attach { module, id, .. } => {
                info!(module, instance = id.instance, "an instance has come");
                command = store.begin("ACCOUNT.ATTACH");
                command.arg(module).arg(&id.instance).arg("TERM").arg(term);
            }
            Change::Logout { account, epoch } => {
                command = store.begin("ACCOUNT.LOGOUT");
                command.arg(account).arg(epoch);
            }
            Change::Freeze { account } => {
                warn!(account, "an instance cannot use an account: it is frozen");
                command = store.begin("ACCOUNT.FREEZE");
                command.arg(account).arg("TERM").arg(term);
            }
            Change::Return { account, epoch } => {
                info!(account, "an instance gives an account back");
                command = store.begin("ACCOUNT.LOGOUT");
                command.arg(account).arg(epoch).arg("BACK").arg("TERM").arg(term);
            }
        }
        commands.push(command);
        sent.push(change);
    }
    let mut attached = Vec::new();
    for (change, result) in sent.into_iter().zip(store.ask_all(&commands).await?) {
        match result {
            Ok(_) => {
                if let Change::Attach { id, created, .. } = change {
                    attached.push((id.clone(), *created));
                }
            }
            Err(error) if matches!(error.code(), Some("NOTFOUND" | "BADSTATE")) => {
                debug!(?change, %error, "what was to be changed has changed");
            }
            // Of one only; all others go on.
            Err(error) if matches!(error.code(), Some("ERR" | "LIMIT")) => {
                warn!(?change, %error, "the book does not take this");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(attached)
}
