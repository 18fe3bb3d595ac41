//! Numbers of a pool, in pages.

use std::sync::Arc;

use allot_client::{NumberStore, Record};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::feed::pool::number_page;
use crate::problem::Problem;
use crate::state::Console;

/// Numbers that one page examines.
const PAGE: u32 = 200;

/// Which numbers.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// The key of the pool.
    key: String,
    /// Only numbers in this state: `idle+up`, `idle+down`, `busy+up`, `busy+down` or `quarantined`.
    state: Option<String>,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: u32,
}

/// A page of numbers.
#[derive(Serialize, ToSchema)]
pub(super) struct Numbers {
    /// Cursor of the next page; 0 at the end.
    next: u32,
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

pub(super) async fn numbers(console: Arc<Console>, which: Which) -> Result<Numbers, Problem> {
    let ask = async |pool: NumberStore| number_page(&pool, which.cursor, PAGE, which.state.as_deref()).await;
    let (next, items) = console.viewer.ask(NumberStore::new, &which.key, ask).await?;
    Ok(Numbers { next, items: items.iter().map(Record::json).collect() })
}
