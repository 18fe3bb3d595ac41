//! Imports of tables of accounts into a book.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{BookStore, Record};
use allot_tools::accounts::file;
use allot_tools::accounts::import::{Difference, SHOWN, notify};
use allot_tools::table::Problems;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};
use utoipa::ToSchema;

use super::declaration::{Action, AtKey};
use crate::problem::Problem;
use crate::shared::{Imported, LastImport};
use crate::state::Console;

/// Time limit for notifying the leader: a person waits for the answer.
const NOTIFY_LIMIT: Duration = Duration::from_secs(2);

/// A table of accounts to import.
#[derive(Deserialize, ToSchema)]
pub(super) struct Import {
    /// The key of the book.
    key: String,
    /// The table (CSV), as `allot book apply` reads it.
    table: String,
    /// Say what would change, and change nothing.
    dry_run: bool,
    /// Also delete accounts that the table does not have.
    #[serde(default)]
    delete: bool,
    /// Places of new modules for which the table names none.
    #[serde(default = "one")]
    instances: u32,
    /// The `comparison` of a dry run. If table and book differ in another way by now, the import is refused, and changes
    /// nothing.
    seen: Option<String>,
}

fn one() -> u32 {
    1
}

impl Action for Import {
    /// More than a hundred thousand accounts.
    const LONGEST: usize = 16 * 1024 * 1024;

    fn target(&self) -> String {
        format!("{}{}", self.key, if self.dry_run { " (dry run)" } else { "" })
    }
}

/// Moves of accounts, as `ACCOUNT.REBALANCE` gives them.
#[derive(Serialize, ToSchema)]
#[schema(value_type = [Object])]
pub(super) struct Moves(Vec<Value>);

pub(super) async fn rebalance(console: Arc<Console>, AtKey { key }: AtKey) -> Result<Moves, Problem> {
    let make = async {
        let ask = async |book: BookStore| book.rebalance(true, None).await;
        let moves = console.viewer.ask(BookStore::new, &key, ask);
        let moves = console.viewer.ask_if_permitted(format!("ACCOUNT.REBALANCE of {key}"), moves).await?;
        Ok::<_, Problem>(moves.ok_or_else(Problem::denied)?.iter().map(Record::json).collect())
    };
    Ok(Moves(console.moves.answer(key.clone(), make).await?))
}

pub(super) async fn last_import(
    console: Arc<Console>,
    AtKey { key }: AtKey,
) -> Result<Option<LastImport>, Problem> {
    Ok(console.imports.last(&key))
}

pub(super) async fn import(console: Arc<Console>, wanted: Import) -> Result<Value, Problem> {
    if wanted.dry_run {
        return Ok(json!(compare_or_import(&console, &wanted).await?));
    }
    console.imports.begin(&wanted.key)?;
    // A client that leaves ends this request, and not the import.
    let import = tokio::spawn(async move {
        let outcome = compare_or_import(&console, &wanted).await;
        match &outcome {
            Ok(imported) => info!(book = wanted.key, changes = imported.changes, "a table was imported"),
            Err(problem) => warn!(book = wanted.key, code = problem.code(), "a table was not imported"),
        }
        console.imports.end(&wanted.key, &outcome);
        outcome
    });
    match import.await {
        Ok(outcome) => Ok(json!(outcome?)),
        Err(fault) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", fault.to_string())),
    }
}

async fn compare_or_import(console: &Console, wanted: &Import) -> Result<Imported, Problem> {
    let Import { key, delete, .. } = wanted;
    let contents = file::read(wanted.table.as_bytes()).map_err(|error| Problem::bad(format!("{error:#}")))?;
    let Problems { first, count } = &contents.problems;
    if *count > 0 {
        return Err(Problem::bad(format!("{count} problems in the table: {}", first.join("; "))));
    }
    let compare = async |book: BookStore| Difference::from_book(&book, &contents, wanted.instances).await;
    let difference = console.operator.ask(BookStore::new, key, compare).await?;
    let mut imported = Imported {
        lines: difference.lines(*delete, SHOWN),
        changes: difference.changes(*delete),
        applied: false,
        comparison: difference.digest(*delete),
        warning: None,
    };
    if wanted.dry_run {
        return Ok(imported);
    }
    // Among the changes may be accounts to delete, which the operator has not seen.
    if wanted.seen.as_ref().is_some_and(|seen| *seen != imported.comparison) {
        let why = "the book has changed since the comparison, and nothing was imported; compare again";
        return Err(Problem::conflict(why));
    }
    let apply = async |book: BookStore| difference.apply(&book, *delete, |_| ()).await;
    imported.changes = console.operator.ask(BookStore::new, key, apply).await.map_err(|error| {
        let part = "the import was interrupted, and a part of the changes may be made; repeat it";
        Problem::from(error).after(part)
    })?;
    imported.applied = true;
    if let Some(tasks) = console.tasks.as_ref().filter(|_| imported.changes > 0 && *key == console.keys.book)
    {
        // The changes are made: what fails from here on is no failure of the import.
        let notified = notify(&tasks.coordinator, &console.keys.accounts_notify, NOTIFY_LIMIT).await;
        imported.warning = notified.err().map(|error| {
            format!("the book is changed, but its leader could not be notified ({error}); it notices the change soon")
        });
    }
    Ok(imported)
}
