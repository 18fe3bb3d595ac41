//! The newest entries of an event stream, for the lists of events on the pages, and the clock of their server.

use std::collections::BTreeMap;

use allot_client::{Error, Keyed, streams};
use redis::{Value, cmd};
use serde::Serialize;

/// Longest value of a field in the list; a page shows one line for an event.
const LONGEST: usize = 200;

/// An entry of an event stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    /// Id of the entry; its first part is a time in milliseconds since 1970.
    pub(super) id: String,
    /// All fields as text; bytes that are no text are replaced.
    fields: BTreeMap<String, String>,
}

impl Event {
    /// The place of the entry in time: milliseconds since 1970, and a number within that millisecond.
    pub(super) fn place(&self) -> (u64, u64) {
        let (time, number) = self.id.split_once('-').unwrap_or((&self.id, ""));
        (time.parse().unwrap_or_default(), number.parse().unwrap_or_default())
    }

    /// The kind of event.
    pub(super) fn event(&self) -> &str {
        self.fields.get("event").map_or("", String::as_str)
    }
}

/// The newest entries of the stream beside a key, the newest first; none if there is no stream.
pub(super) async fn newest_events(keyed: &Keyed, key: &str, count: usize) -> Result<Vec<Event>, Error> {
    let mut command = cmd("XREVRANGE");
    command.arg(format!("{key}:evt")).arg("+").arg("-").arg("COUNT").arg(count);
    let reply: Value = match keyed.ask(&command).await {
        // The key of the stream holds another type.
        Err(error) if error.code() == Some("WRONGTYPE") => return Ok(Vec::new()),
        reply => reply?,
    };
    let entries = streams::read_list(reply)?;
    let event = |entry: streams::Entry| {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            match text.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
                None => text.into_owned(),
            }
        };
        let fields = entry.fields.iter().map(|(name, value)| (text(name), text(value))).collect();
        Event { id: entry.id, fields }
    };
    Ok(entries.into_iter().map(event).collect())
}

/// The clock of the server in milliseconds since 1970.
pub(super) async fn server_clock(keyed: &Keyed) -> Result<u64, Error> {
    let (seconds, microseconds): (u64, u64) = keyed.ask(&cmd("TIME")).await?;
    Ok(seconds * 1000 + microseconds / 1000)
}
