//! Telling the book what a plan has for it: each change as a command that carries the term.

use std::time::Duration;

use redis::Cmd;
use tracing::{debug, info, warn};

use super::plan::Change;
use super::view::Place;
use allot_client::{BookStore, Error};

/// Carries out; the instances that were attached, with their nodes. What others have changed since the book was read is
/// passed over: it is read again.
pub(super) async fn carry_out(
    store: &BookStore,
    term: u64,
    grace: Duration,
    changes: &[Change],
) -> Result<Vec<(Place, i64)>, Error> {
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
            Change::Attach { module, place, .. } => {
                info!(module, instance = place.instance, "an instance has come");
                command = store.begin("ACCOUNT.ATTACH");
                command.arg(module).arg(&place.instance).arg("TERM").arg(term);
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
            Change::GiveBack { account, epoch } => {
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
                if let Change::Attach { place, created, .. } = change {
                    attached.push((place.clone(), *created));
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
