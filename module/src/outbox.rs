//! Puts the messages that a state owes into their streams, in the step that caused them.
//!
//! The master chooses each entry's id and replicates the `XADD` itself; the event that the messages are sent
//! goes with it, in one transaction, so each entry reaches a replica and an AOF exactly once. A stream that
//! cannot be written (its key holds another type, or is away in a slot migration) fails nothing: the messages
//! stay, that is counted, and the timer tries again.

use allot_core::shared::outbox::Outbox;
use allot_core::shared::slot::slot_of;

use crate::family::Family;
use crate::info;
use crate::sys::{Context, KeyName};

/// How long a message waits before its stream is tried again.
pub(crate) const RETRY_MS: i64 = 1000;

/// Sends what can be sent: the event that says so, or none.
pub(crate) fn flush<F: Family>(ctx: Context<'_>, name: KeyName<'_>, state: &F, now: i64) -> Option<F::Event> {
    let outbox = state.outbox();
    let (mut sent, mut last) = (0, outbox.last_id);
    for message in outbox.messages() {
        let stream = stream_name(name.as_bytes(), &message.stream);
        // In a cluster a stream beside a key without a hash tag would belong to another slot.
        if ctx.is_cluster() && slot_of(&stream) != slot_of(name.as_bytes()) {
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

/// The stream beside a key: `<key>:<stream>`.
pub(crate) fn stream_name(key: &[u8], stream: &[u8]) -> Vec<u8> {
    [key, b":", stream].concat()
}
