//! Books of accounts: accounts, proposed moves, and what an operator does with them.

use allot_client::{BookStore, Record};
use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::action::{Answer, Done, act};
use super::paging::page;
use crate::operations::{Import, Imported};
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;

/// Which accounts.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// The key of the book.
    key: String,
    /// Only accounts of this module.
    module: Option<String>,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: u64,
}

/// A page of accounts.
#[derive(Serialize, ToSchema)]
pub(super) struct Accounts {
    /// Cursor of the next page; 0 at the end.
    next: u64,
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

/// A book.
#[derive(Deserialize, ToSchema)]
pub(super) struct Key {
    /// The key of the book.
    key: String,
}

/// A page of accounts, as `ACCOUNT.LIST` gives them.
#[utoipa::path(get, path = "/api/v1/book/accounts", params(Which),
    responses((status = 200, body = Accounts), (status = 404, body = Problem)))]
pub(super) async fn accounts(
    State(console): State<Console>,
    Query(Which { key, module, cursor }): Query<Which>,
) -> Result<Json<Accounts>, Problem> {
    let ask = async |book: BookStore| book.page(cursor, module.as_deref()).await;
    let (next, items) = console.sources.viewer.book(&key, ask).await?;
    Ok(Json(Accounts { next, items: items.iter().map(Record::json).collect() }))
}

/// Which moves.
#[derive(Deserialize, IntoParams)]
pub(super) struct Proposed {
    /// The key of the book.
    key: String,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: usize,
}

/// A page of moves.
#[derive(Serialize, ToSchema)]
pub(super) struct Moves {
    /// Cursor of the next page; 0 at the end.
    next: usize,
    /// How many moves there are in all.
    count: usize,
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

/// The moves that a rebalance would make now.
#[utoipa::path(get, path = "/api/v1/book/proposed", params(Proposed),
    responses((status = 200, body = Moves), (status = 404, body = Problem)))]
pub(super) async fn proposed(
    State(console): State<Console>,
    Query(Proposed { key, cursor }): Query<Proposed>,
) -> Result<Json<Moves>, Problem> {
    let moves =
        console.sources.viewer.book(&key, async |book: BookStore| book.rebalance(true, None).await).await?;
    let (next, items) = page(moves.iter().map(Record::json).collect(), cursor);
    Ok(Json(Moves { next, count: moves.len(), items }))
}

/// An account.
#[derive(Deserialize, ToSchema)]
pub(super) struct Freeze {
    key: String,
    account: String,
    /// Whether it can be used again.
    #[serde(default)]
    off: bool,
}

/// Records that the platform froze an account, or that it can be used again.
#[utoipa::path(post, path = "/api/v1/book/freeze", request_body = Freeze,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn freeze(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(Freeze { key, account, off }): Json<Freeze>,
) -> Answer {
    let target = format!("{key} {account}{}", if off { " OFF" } else { "" });
    act(&caller, "ACCOUNT.FREEZE", target, async {
        let ask = async |book: BookStore| {
            let mut command = book.begin("ACCOUNT.FREEZE");
            command.arg(&account);
            if off {
                command.arg("OFF");
            }
            Ok(Record::read(book.ask(&command).await?)?.json())
        };
        Ok(console.operator.book(&key, ask).await?)
    })
    .await
}

/// Rebalances the projected use.
#[utoipa::path(post, path = "/api/v1/book/rebalance", request_body = Key,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn rebalance(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(Key { key }): Json<Key>,
) -> Answer {
    act(&caller, "ACCOUNT.REBALANCE", key.clone(), async {
        let ask = async |book: BookStore| book.rebalance(false, None).await;
        let moves = console.operator.book(&key, ask).await?;
        Ok(moves.iter().map(Record::json).collect::<Vec<_>>())
    })
    .await
}

/// A table of accounts for a book.
#[derive(Deserialize, ToSchema)]
pub(super) struct ImportInto {
    key: String,
    #[serde(flatten)]
    wanted: Import,
}

/// Makes a book equal to a table of accounts, as `allot accounts import` does, or says what would change. The result is
/// an [`Imported`].
#[utoipa::path(post, path = "/api/v1/book/import", request_body = ImportInto,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn import(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(ImportInto { key, wanted }): Json<ImportInto>,
) -> Answer {
    let what = if wanted.dry_run { "import (dry run)" } else { "import" };
    act(&caller, what, key.clone(), async {
        let session = console.operator.session(&key).await?;
        let book = BookStore::new(session.connection, &key);
        let imported = console.operations.import(book, key.clone(), wanted).await;
        let imported: Imported = imported.inspect_err(|error| {
            if let Some(error) = error.downcast_ref::<allot_client::Error>() {
                console.operator.drop_after(&key, error);
            }
        })?;
        Ok(serde_json::to_value(imported).map_err(anyhow::Error::from)?)
    })
    .await
}
