//! One command of Redis, with its arguments as they are on the wire: those that read as the viewer's user, and those that
//! change something as the operator's user.

use std::sync::Arc;

use allot_client::to_json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;
use utoipa::ToSchema;

use super::declaration::{Done, Nothing};
use crate::problem::Problem;
use crate::security::{Access, Caller, refusal};
use crate::state::Console;

/// Longest body of a command, in bytes: twice the 20,000 seats that a command names, with ids of up to 100 bytes.
pub(super) const LONGEST: usize = 4 * 1024 * 1024;

/// A command that the console sends. It names one key, its first argument, and creates none; the server refuses a key that
/// holds another type.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(super) struct Allowed {
    name: &'static str,
    /// Who may send it.
    access: Access,
    /// Whether the console waits until replicas have confirmed it, because it changes the owner of a conference.
    waits: bool,
}

const fn reads(name: &'static str) -> Allowed {
    Allowed { name, access: Access::Viewer, waits: false }
}

const fn acts(name: &'static str) -> Allowed {
    Allowed { access: Access::Operator, ..reads(name) }
}

const ALLOWED: [Allowed; 39] = [
    reads("SEAT.GET"),
    reads("SEAT.HOLDS"),
    reads("SEAT.LIST"),
    reads("SEAT.ORDER"),
    reads("SEAT.STAT"),
    acts("SEAT.BLOCK"),
    acts("SEAT.CONFIRM"),
    acts("SEAT.EXTEND"),
    acts("SEAT.MOVE"),
    acts("SEAT.PICK"),
    acts("SEAT.REFUND"),
    acts("SEAT.RELEASE"),
    acts("SEAT.TRANSFER"),
    acts("SEAT.UNBLOCK"),
    acts("SEAT.UNWAIT"),
    acts("SEAT.WAIT"),
    reads("CMU.LIST"),
    reads("CONF.GET"),
    reads("CONF.HISTORY"),
    reads("CONF.INFO"),
    reads("CONF.LIST"),
    Allowed { waits: true, ..acts("CMU.DRAIN") },
    acts("CONF.EXTEND"),
    Allowed { waits: true, ..acts("CONF.MOVE") },
    Allowed { waits: true, ..acts("CONF.RELEASE") },
    reads("NUMPOOL.GET"),
    reads("NUMPOOL.LEASES"),
    acts("NUMPOOL.HANGUP"),
    acts("NUMPOOL.RECONCILE"),
    acts("NUMPOOL.RESUME"),
    acts("NUMPOOL.SUSPEND"),
    acts("NUMPOOL.UNREG"),
    reads("ACCOUNT.HISTORY"),
    reads("ACCOUNT.INFO"),
    reads("ACCOUNT.LIST"),
    acts("ACCOUNT.FREEZE"),
    acts("ACCOUNT.MOVE"),
    acts("ACCOUNT.RAISE"),
    acts("ACCOUNT.REBALANCE"),
];

/// A command to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Its name.
    command: String,
    /// Its key.
    key: String,
    /// The arguments after the key.
    #[serde(default)]
    arguments: Vec<Word>,
}

/// An argument of a command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum Word {
    Text(String),
    Number(i64),
}

/// The commands that the console sends.
pub(super) async fn list(_: Arc<Console>, _: Nothing) -> Result<Vec<Allowed>, Problem> {
    Ok(ALLOWED.to_vec())
}

/// Sends a command, if this caller may send it.
pub(super) async fn run(
    State(console): State<Arc<Console>>,
    Extension(caller): Extension<Caller>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<Json<Done>, Problem> {
    let Json(Wanted { command: name, key, arguments }) = wanted?;
    let Some(allowed) = ALLOWED.iter().find(|allowed| allowed.name.eq_ignore_ascii_case(&name)) else {
        let why = format!(
            "the console does not send '{name}'; GET /api/v1/command lists the commands that it sends"
        );
        return Err(Problem::new(StatusCode::FORBIDDEN, "not-allowed", why));
    };
    if key.is_empty() {
        return Err(Problem::bad("the key is empty"));
    }
    let words = arguments.iter().map(|word| match word {
        Word::Text(text) => text.clone(),
        Word::Number(number) => number.to_string(),
    });
    let words: Vec<String> = words.collect();
    if caller.access < allowed.access {
        return Err(refusal(caller.access));
    }
    let sent = send(&console, allowed, &key, &words);
    if allowed.access == Access::Viewer {
        return Ok(Done::new(console.serve(sent).await?));
    }
    let target = [&[key.clone()][..], &words].concat().join(" ");
    let acted = console.actions.recorded(&caller, allowed.name, &target, sent);
    let acted = Box::pin(console.serve(acted));
    Ok(Done::new(acted.await?))
}

async fn send(console: &Console, allowed: &Allowed, key: &str, words: &[String]) -> Result<Value, Problem> {
    let mut command = redis::cmd(allowed.name);
    command.arg(key).arg(words);
    if allowed.access == Access::Viewer {
        // Pages repeat what they read.
        let request = console.viewer.send(key, &command);
        let request = console.viewer.ask_if_permitted(format!("{} of {key}", allowed.name), request);
        let (reply, _) = request.await?.ok_or_else(Problem::denied)?;
        return Ok(to_json(&reply));
    }
    let (reply, mut session) = console.operator.send(key, &command).await?;
    if allowed.waits {
        match session.wait(console.keys.wait_replicas, console.keys.wait).await {
            Ok(true) => {}
            Ok(false) => {
                warn!(key, "not enough replicas confirmed an operator's action; a failover now may undo it");
            }
            Err(error) => warn!(key, %error, "whether replicas confirmed an operator's action is unknown"),
        }
    }
    Ok(to_json(&reply))
}
