//! What a server says of itself when a test is done with it.

use crate::raw::{RawClient, Reply};

/// The types of the module's values.
const TYPES: [&str; 4] = ["allotseat", "allotpool", "allotconf", "allotacct"];

/// What is wrong with the server on this port: internal errors of the module, replicated commands that failed, values
/// that contradict themselves. Nothing where the server does not answer: a test may have stopped or locked it.
pub(crate) fn complaints(port: u16) -> Vec<String> {
    let Some(mut client) = RawClient::try_connect(port) else { return Vec::new() };
    let mut complaints = Vec::new();
    for (section, field) in [("allot", "allot_internal_errors"), ("stats", "unexpected_error_replies")] {
        let Some(Reply::Bulk(info)) = client.try_call(&["INFO", section]) else { return Vec::new() };
        let info = String::from_utf8_lossy(&info).into_owned();
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        if value.is_some_and(|value| value.trim() != "0") {
            complaints.push(format!("{field} is {}", value.unwrap_or_default()));
        }
    }
    complaints.extend(contradictions(&mut client).unwrap_or_default());
    complaints
}

/// Runs `ALLOT.CHECK` on each value of the module, in all databases. Nothing where the module has no such command.
fn contradictions(client: &mut RawClient) -> Option<Vec<String>> {
    let known = client.try_call(&["COMMAND", "INFO", "ALLOT.CHECK"])?;
    if !matches!(&known, Reply::Array(commands) if matches!(commands.first(), Some(Reply::Array(_)))) {
        return None;
    }
    let Reply::Bulk(keyspace) = client.try_call(&["INFO", "keyspace"])? else { return None };
    let keyspace = String::from_utf8_lossy(&keyspace).into_owned();
    let mut wrong = Vec::new();
    for database in keyspace.lines().filter_map(|line| line.strip_prefix("db")?.split(':').next()) {
        client.try_call(&["SELECT", database])?;
        for kind in TYPES {
            let mut cursor = "0".to_owned();
            loop {
                let found = client.try_call(&["SCAN", &cursor, "COUNT", "1000", "TYPE", kind])?;
                let Reply::Array(parts) = found else { return Some(wrong) };
                for key in parts.get(1)?.array() {
                    let Reply::Bulk(key) = key else { continue };
                    // A key may be gone since it was found, and a node of a cluster may not have it any more.
                    match client.try_call(&[b"ALLOT.CHECK", key.as_slice()])? {
                        Reply::Error(text) if text.starts_with("ERR ") => wrong.push(text),
                        _ => {}
                    }
                }
                cursor = parts.first()?.text();
                if cursor == "0" {
                    break;
                }
            }
        }
    }
    Some(wrong)
}
