//! The record of a conference that has ended, from its `ended` entry in the event stream; as a line of JSON or CSV.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use allot_client::streams::Entry;

use crate::output::{columns, csv_cell, csv_line, named};
use crate::time::utc;

/// The format of a file of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values under a line of names; the segments are one column, in JSON.
    Csv,
}

columns! {
    /// The fields of a record, in the order of a file.
    pub(crate) RECORD = id Text, record Number, missing_before Number, number Text, origin_epoch Number,
        created Time, start Time, opened Time, ended Time, cause Text, truncated Flag, segments Text;
}

/// The id of an entry of a stream: milliseconds and sequence.
pub(crate) type Id = (u64, u64);

/// Where a file of records ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    /// The id of the last record.
    pub(crate) id: Id,
    /// The number of the last record.
    pub(crate) number: u64,
}

/// The id in a text.
pub(crate) fn id(text: &str) -> Option<Id> {
    let (time, sequence) = text.split_once('-')?;
    Some((time.parse().ok()?, sequence.parse().ok()?))
}

/// The most assignments that the realm keeps of a conference.
const KEPT: usize = 64;

/// The event of an entry for a conference that has ended.
const ENDED: &str = "ended";

/// The record of one conference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallRecord {
    /// Where it is in the event stream.
    pub(crate) id: Id,
    /// How many conferences of the realm had ended, with this one.
    pub(crate) number: u64,
    /// The fields, by the names of [`RECORD`].
    pub(crate) fields: Value,
}

impl CallRecord {
    /// The record in an entry of the event stream; `None` for an entry of another kind. `last` is the record before it, if
    /// there is one: from the numbers follows how many records are missing between the two.
    ///
    /// # Errors
    /// The entry is of a later version.
    pub(crate) fn read(entry: &Entry, last: Option<Last>) -> Result<Option<Self>> {
        if entry.text("event") != ENDED {
            return Ok(None);
        }
        let number = entry.text("record");
        let number: u64 =
            number.parse().with_context(|| format!("entry {} has the record '{number}'", entry.id))?;
        let Some(at) = id(&entry.id) else { bail!("'{}' is no id of a stream", entry.id) };
        // A server that took over may know of fewer ends than its predecessor.
        let missing = last.map_or(0, |last| number.saturating_sub(last.number + 1));
        let origin = entry.number("origin_epoch");
        let (text, was_scheduled) = (entry.text("segments"), !entry.bytes("start").is_empty());
        // A conference that ends before its start has none.
        let segments = if was_scheduled && text.is_empty() {
            Some(Vec::new())
        } else {
            text.split(',').map(segment).collect::<Option<Vec<Value>>>()
        };
        let segments = segments
            .with_context(|| format!("entry {} has segments that this version cannot read", entry.id))?;
        // The realm keeps the latest assignments of a conference. The first one of a conference that was scheduled is
        // later than its creation.
        let first = segments.first().and_then(|first| first.get("epoch")?.as_u64());
        let truncated = first != Some(origin) && (!was_scheduled || segments.len() >= KEPT);
        let time = |name| match entry.bytes(name) {
            b"" => Value::Null,
            _ => json!(entry.number(name)),
        };
        let fields = json!({
            "id": entry.id, "record": number, "missing_before": missing, "number": entry.text("e164"),
            "origin_epoch": origin, "created": time("created"), "start": time("start"),
            "opened": time("opened"), "ended": time("ended"),
            "cause": entry.text("cause"), "truncated": truncated, "segments": segments,
        });
        Ok(Some(Self { id: at, number, fields }))
    }

    /// How many records are missing before this one.
    pub(crate) fn missing(&self) -> u64 {
        self.fields.get("missing_before").and_then(Value::as_u64).unwrap_or(0)
    }

    /// The record as a line, with its end.
    pub(crate) fn line(&self, form: Form) -> String {
        let named = named(RECORD, &self.fields);
        match form {
            Form::Jsonl => format!("{}\n", Value::Object(named)),
            // A cell with an end of line would be two lines to a reader that goes line by line.
            Form::Csv => csv_line(RECORD.iter().map(|column| match named.get(column.name) {
                Some(Value::String(text)) => text.escape_default().to_string().into(),
                value => value.map(csv_cell).unwrap_or_default(),
            })),
        }
    }
}

/// The first line of a file; empty in JSON.
pub(crate) fn heading(form: Form) -> String {
    match form {
        Form::Jsonl => String::new(),
        Form::Csv => csv_line(RECORD.iter().map(|column| column.name)),
    }
}

/// Which record a line of a file has; `None` for the heading.
///
/// # Errors
/// The line is no record of this format.
pub(crate) fn last_of(line: &str, form: Form) -> Result<Option<Last>> {
    let (at, number) = match form {
        Form::Jsonl => {
            let record: Value = serde_json::from_str(line).context("no record in JSON")?;
            let at = record.get("id").and_then(Value::as_str).unwrap_or_default();
            (at.to_owned(), record.get("record").and_then(Value::as_u64))
        }
        Form::Csv => {
            let mut cells = line.split(',');
            let first = cells.next().unwrap_or_default().to_owned();
            if RECORD.first().is_some_and(|column| column.name == first) {
                return Ok(None);
            }
            (first, cells.next().and_then(|number| number.parse().ok()))
        }
    };
    let last = id(&at).zip(number).map(|(id, number)| Last { id, number });
    last.map(Some).with_context(|| format!("no record: {line}"))
}

/// A segment: unit, epoch, beginning, opening or `-`, end, and how it ended. The name of the unit is percent-encoded.
fn segment(text: &str) -> Option<Value> {
    let mut words = text.split(' ');
    let unit = decoded(words.next()?)?;
    let epoch: u64 = words.next()?.parse().ok()?;
    let from: u64 = words.next()?.parse().ok()?;
    let opened: Option<u64> = match words.next()? {
        "-" => None,
        opened => Some(opened.parse().ok()?),
    };
    let to: u64 = words.next()?.parse().ok()?;
    let how = words.next()?;
    words.next().is_none().then(|| {
        let [from, to] = [from, to].map(|time| utc(time as i64));
        let opened = opened.map(|time| utc(time as i64));
        json!({ "unit": unit, "epoch": epoch, "from": from, "opened": opened, "to": to, "how": how })
    })
}

/// A percent-encoded name. Bytes that are not UTF-8 are replaced.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut name = parts.next()?.as_bytes().to_vec();
    for part in parts {
        name.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        name.extend_from_slice(part.get(2..)?.as_bytes());
    }
    Some(String::from_utf8_lossy(&name).into_owned())
}

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it finds something wrong"
)]
mod tests {
    use super::*;

    fn entry(number: u64, e164: &str, segments: &str) -> Entry {
        let fields = [
            ("event", "ended"),
            ("e164", e164),
            ("cmu", "b:1:1"),
            ("epoch", "9"),
            ("state", "ended"),
            ("cause", "unit"),
            ("record", &number.to_string()),
            ("origin_epoch", "7"),
            ("created", "1000"),
            ("opened", ""),
            ("ended", "3000"),
            ("segments", segments),
        ];
        let bytes = |(name, value): (&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        Entry { id: format!("{}-0", number * 10), fields: fields.map(bytes).into() }
    }

    const SEGMENTS: &str = "a%20%2c:1:1 7 1000 1100 2000 lost,b:1:1 9 2100 - 3000 ended";

    #[test]
    fn record_has_all_segments_and_says_what_is_missing_before_it() {
        let last = Some(Last { id: (20, 0), number: 2 });
        let record = CallRecord::read(&entry(5, "49", SEGMENTS), last).unwrap().unwrap();
        assert_eq!((record.id, record.number, record.missing()), ((50, 0), 5, 2));
        let line: Value = serde_json::from_str(&record.line(Form::Jsonl)).unwrap();
        let expected = json!({
            "id": "50-0", "record": 5, "missing_before": 2, "number": "49", "origin_epoch": 7,
            "created": utc(1000), "start": null, "opened": null, "ended": utc(3000), "cause": "unit",
            "truncated": false,
            "segments": [
                { "unit": "a ,:1:1", "epoch": 7, "from": utc(1000), "opened": utc(1100), "to": utc(2000), "how": "lost" },
                { "unit": "b:1:1", "epoch": 9, "from": utc(2100), "opened": null, "to": utc(3000), "how": "ended" },
            ],
        });
        assert_eq!(line, expected);
        let later = CallRecord::read(&entry(5, "49", "b:1:1 9 2100 - 3000 ended"), None).unwrap().unwrap();
        assert_eq!((later.missing(), &later.fields["truncated"]), (0, &json!(true)));
        // Of a conference that was scheduled, the first assignment is later than the creation; or there is none.
        for (segments, count) in [("b:1:1 9 2100 - 3000 ended", 1), ("", 0)] {
            let mut scheduled = entry(5, "49", segments);
            scheduled.fields.push((b"start".to_vec(), b"2000".to_vec()));
            let record = CallRecord::read(&scheduled, None).unwrap().unwrap();
            let count_of = record.fields["segments"].as_array().unwrap().len();
            assert_eq!((&record.fields["truncated"], count_of), (&json!(false), count));
            assert_eq!(record.fields["start"], json!(2000));
        }
    }

    #[test]
    fn end_of_a_file_is_found_in_both_formats() {
        for form in [Form::Jsonl, Form::Csv] {
            let record = CallRecord::read(&entry(5, "4\n9,\"x\"", SEGMENTS), None).unwrap().unwrap();
            let line = record.line(form);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            let last = last_of(line.trim_end(), form).unwrap();
            assert_eq!(last, Some(Last { id: (50, 0), number: 5 }));
            assert!(last_of("{\"id\":1", form).is_err());
        }
        let heading = heading(Form::Csv);
        assert_eq!(last_of(heading.trim_end(), Form::Csv).unwrap(), None);
    }

    #[test]
    fn entry_of_another_kind_is_passed_over_and_a_damaged_one_refused() {
        let mut opened = entry(5, "49", SEGMENTS);
        opened.fields[0].1 = b"opened".to_vec();
        assert_eq!(CallRecord::read(&opened, None).unwrap(), None);
        for number in ["", "-1", "5x", "18446744073709551616"] {
            let mut damaged = entry(5, "49", SEGMENTS);
            damaged.fields[6].1 = number.into();
            assert!(CallRecord::read(&damaged, None).is_err(), "{number}");
        }
        for damaged in ["", "a 7 1 - 2", "a 7 1 - 2 lost more", "a% 7 1 - 2 lost", "a x 1 - 2 lost"] {
            assert!(CallRecord::read(&entry(5, "49", damaged), None).is_err(), "{damaged:?}");
        }
    }
}
