//! Follows rows: a terminal shows them in place, and a pipe gets a line for each that has changed.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::context::Context;
use crate::failure::Result;
use crate::output::{Column, Format};

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Prints the rows that `look` gives, until the command is interrupted.
pub(crate) async fn watch(
    context: &Context,
    columns: &'static [Column],
    mut look: impl AsyncFnMut() -> Result<Vec<Value>>,
) -> Result {
    let mut out = context.out;
    let in_place = out.width.is_some() && out.is_table();
    if out.format == Format::Json {
        out.format = Format::Jsonl;
    }
    let mut last: Vec<Value> = Vec::new();
    let mut changes = out.rows(columns);
    loop {
        let rows = look().await?;
        if in_place {
            // The upper left corner, and everything from there on is cleared.
            out.raw("\u{1b}[H\u{1b}[2J")?;
            let mut shown = out.rows(columns);
            rows.iter().try_for_each(|row| shown.push(row))?;
            shown.flush()?;
        } else {
            rows.iter().filter(|row| !last.contains(row)).try_for_each(|row| changes.push(row))?;
            changes.flush()?;
        }
        last = rows;
        sleep(INTERVAL).await;
    }
}
