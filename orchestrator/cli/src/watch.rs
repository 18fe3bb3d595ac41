//! Follows rows: a terminal shows them in place, and a pipe gets a line for each that appears, changes or disappears.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::context::Context;
use crate::failure::{Result, counted};
use crate::output::{Column, Format, Kind, print};
use crate::terminal;

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Lines of the terminal beside the rows: the titles, what is left out, and the cursor.
const OTHER_LINES: usize = 4;

/// Prints the rows that `look` gives, until the command is interrupted. The first column names the row.
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
    let name = |row: &Value| columns.first().map(|column| column.value(row).to_string()).unwrap_or_default();
    // They are used until the end of the process.
    let mut changes = out.rows(Vec::leak([&[Column::new("event", Kind::Text)], columns].concat()));
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    loop {
        let rows = look().await?;
        if let Some((width, height)) = terminal::size().filter(|_| in_place) {
            out.width = Some(width);
            // The upper left corner, and everything from there on is cleared.
            print("\u{1b}[H\u{1b}[2J")?;
            let room = height.saturating_sub(OTHER_LINES).max(1);
            let mut shown = out.rows(columns);
            rows.iter().take(room).try_for_each(|row| shown.push(row))?;
            shown.flush()?;
            if rows.len() > room {
                out.text(&format!("{}\n", counted((rows.len() - room) as u64, "more row")))?;
            }
        } else {
            let mut now = BTreeMap::new();
            for row in rows {
                match last.remove(&name(&row)) {
                    Some(before) if before == row => {}
                    before => changes.push(&with(before.map_or("added", |_| "changed"), &row))?,
                }
                now.insert(name(&row), row);
            }
            last.values().try_for_each(|row| changes.push(&with("deleted", row)))?;
            changes.flush()?;
            last = now;
        }
        sleep(INTERVAL).await;
    }
}

/// A row with what happened to it.
fn with(event: &str, row: &Value) -> Value {
    let mut row = row.clone();
    if let Some(fields) = row.as_object_mut() {
        fields.insert("event".to_owned(), event.into());
    }
    row
}
