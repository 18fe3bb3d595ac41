//! Prints results as tables for people, or as JSON for programs.

use anyhow::Result;

use super::terminal::{value, write};
use allot_client::Record;

/// Prints records as a table with these columns, or as a JSON array with all fields.
pub(crate) fn print(records: &[Record], columns: &[(&str, &str)], json: bool) -> Result<()> {
    if json {
        let all: Vec<_> = records.iter().map(Record::json).collect();
        return write(&format!("{}\n", serde_json::Value::from(all)));
    }
    write(&draw(records, columns))
}

/// Prints one record, one line for each field, or as a JSON object.
pub(super) fn print_one(record: &Record, json: bool) -> Result<()> {
    if json {
        return write(&format!("{}\n", record.json()));
    }
    let width = record.names().map(str::len).max().unwrap_or(0);
    let lines =
        record.names().map(|name| format!("{name:<width$}  {}\n", readable(name, &record.text(name))));
    write(&lines.collect::<String>())
}

fn draw(records: &[Record], columns: &[(&str, &str)]) -> String {
    let mut rows = vec![columns.iter().map(|(_, title)| (*title).to_owned()).collect::<Vec<_>>()];
    rows.extend(records.iter().map(|record| {
        columns.iter().map(|(field, _)| readable(field, &record.text(field))).collect::<Vec<_>>()
    }));
    lay(&rows)
}

/// Lays out rows in columns; each column is as wide as its widest cell.
pub(crate) fn lay(rows: &[Vec<String>]) -> String {
    let escaped = |row: &Vec<String>| row.iter().map(|cell| value(cell).into_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Times are in milliseconds since 1970 on the wire.
fn readable(field: &str, text: &str) -> String {
    /// The first time whose year has more than four digits.
    const YEAR_10000: u64 = 253_402_300_800_000;
    const TIMES: [&str; 15] = [
        "created",
        "opened",
        "end",
        "ended",
        "pending_since",
        "next_retry",
        "ending",
        "from",
        "to",
        "joined",
        "lease_ends",
        "since",
        "down_since",
        "renewed",
        "until",
    ];
    match text.parse::<u64>() {
        Ok(ms) if TIMES.contains(&field) && ms < YEAR_10000 => {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
            humantime::format_rfc3339_millis(time).to_string()
        }
        _ => value(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let record = |e164: &str, end: Value| {
            let pairs = [("e164", Value::BulkString(e164.into())), ("end", end)];
            let pairs = pairs.map(|(name, value)| (Value::BulkString(name.into()), value));
            Record::read(Value::Map(pairs.into())).unwrap()
        };
        let records = [record("4930123", Value::Nil), record("1", Value::Int(1_700_000_000_000))];
        let drawn = draw(&records, &[("e164", "number"), ("end", "end")]);
        assert_eq!(drawn, "number   end\n4930123  -\n1        2023-11-14T22:13:20.000Z\n");
    }
}
