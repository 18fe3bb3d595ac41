//! The reader of a book of accounts: departments, modules and instances with their use, and accounts in transit.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{BookStore, Record};
use serde::Serialize;
use serde_json::Value as Json;

use super::events::server_clock;
use super::reader::Reader;
use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::state::Console;

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);

/// A book, as its page shows it. Records have the fields of the commands that gave them.
#[derive(Serialize)]
struct State {
    /// The server's clock in milliseconds since 1970.
    now: u64,
    /// `ACCOUNT.INFO`.
    book: Json,
    /// `ACCOUNT.USAGE BY department`.
    departments: Vec<Json>,
    /// `ACCOUNT.USAGE BY module`.
    usage: Vec<Json>,
    /// `ACCOUNT.INFO MODULE` for each module.
    modules: Vec<Json>,
    /// The first page of `ACCOUNT.LIST`.
    accounts: Vec<Json>,
    /// Whether there are further accounts.
    more: bool,
}

pub(super) struct Book;

fn json(records: &[Record]) -> Vec<Json> {
    records.iter().map(Record::json).collect()
}

impl Reader for Book {
    async fn read(&mut self, console: &Arc<Console>, key: &str, feed: &Feed) -> Result<Duration, Problem> {
        let read = async |book: BookStore| {
            let now = server_clock(&book).await?;
            let (next, accounts) = book.page(0, None).await?;
            Ok(State {
                now,
                book: book.info().await?.json(),
                departments: json(&book.usage("department").await?),
                usage: json(&book.usage("module").await?),
                modules: json(&book.modules().await?),
                accounts: json(&accounts),
                more: next != 0,
            })
        };
        let state = console.viewer.ask(BookStore::new, key, read).await?;
        feed.send_state(Message::new("state", &state));
        Ok(PAUSE)
    }
}
