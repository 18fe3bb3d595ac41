//! Puts the messages that a state owes into their streams, in the step that caused them.
//!
//! The master chooses each entry's id and replicates the `XADD` itself; the event that the messages are sent
//! goes with it, in one transaction, so each entry reaches a replica and an AOF exactly once. A stream that
//! cannot be written (its key holds another type, or is away in a slot migration) fails nothing: the messages
//! stay, that is counted, and the timer tries again.

use allot_core::shared::outbox::Outbox;

use crate::family::Family;
use crate::info;
use crate::sys::{Context, KeyName};

/// How many messages a step may gather before it sends them.
pub(crate) const FLUSH_AT: usize = allot_core::shared::outbox::CAPACITY / 4;

/// How long a message waits before its stream is tried again.
pub(crate) const RETRY_MS: i64 = 1000;

/// Sends what can be sent: the event that says so, or none.
pub(crate) fn flush<F: Family>(ctx: Context<'_>, name: KeyName<'_>, state: &F, now: i64) -> Option<F::Event> {
    let outbox = state.outbox();
    let (mut sent, mut last) = (0, outbox.last_id);
    for message in outbox.messages() {
        let stream = stream_name(name.as_bytes(), &message.stream);
        if ctx.is_cluster() && !has_hash_tag(name.as_bytes()) {
            info::OUTBOX_FAILURES.add(1);
            break;
        }
        let id = Outbox::next_id(last, now);
        let id_text = format!("{}-{}", id.0, id.1);
        let length = state.stream_length(&message.stream).to_string();
        let mut arguments: Vec<&[u8]> = vec![&stream];
        if length != "0" {
            arguments.extend([&b"MAXLEN"[..], b"=", length.as_bytes()]);
        }
        arguments.push(id_text.as_bytes());
        arguments.extend(message.fields.iter().flat_map(|(field, value)| [&field[..], &value[..]]));
        if !ctx.call_and_replicate(c"XADD", &arguments) {
            info::OUTBOX_FAILURES.add(1);
            break;
        }
        (sent, last) = (sent + 1, id);
    }
    (sent > 0).then(|| F::flushed(sent, last))
}

/// Whether a key's slot in a cluster follows from a tag in its name, as in `{show}:1`; a stream beside a key
/// without one would belong to another slot.
pub(crate) fn has_hash_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return false };
    key.get(open + 1..).unwrap_or_default().iter().position(|&byte| byte == b'}').is_some_and(|len| len > 0)
}

/// The stream beside a key: `<key>:<stream>`.
fn stream_name(key: &[u8], stream: &[u8]) -> Vec<u8> {
    [key, b":", stream].concat()
}
