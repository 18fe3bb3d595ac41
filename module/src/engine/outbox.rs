//! Puts the messages of a state into their streams, in the step that caused them.
//!
//! The master chooses each entry's id and replicates the `XADD` itself. The event that records that the messages were
//! sent is replicated in the same transaction, so each entry reaches a replica and an AOF exactly once. If a stream
//! cannot be written (its key has another type, or its slot is migrating), no command fails: the messages stay in the
//! outbox, the failure is counted, and the timer tries again.

use allot_core::shared::outbox::{Fields, Outbox, Sent};
use allot_core::shared::refusal::{Code, Refusal};

use super::family::Family;
use super::info;
use crate::ffi::context::{Answer, Outcome};
use crate::ffi::{Context, KeyName};

/// How long a message waits before its stream is tried again.
pub(crate) const RETRY_MS: i64 = 1000;

/// Sends at most `limit` messages, and returns those that were sent. A stream that cannot be written does not delay other
/// streams.
pub(crate) fn flush<F: Family>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    state: &F,
    now: i64,
    limit: usize,
) -> Sent {
    let (mut streams, mut messages, mut last) = (Vec::new(), 0, state.outbox().last_id);
    let away = ctx.is_cluster() && !has_hash_tag(name.as_bytes());
    for (stream, waiting) in state.outbox().lanes() {
        if away {
            info::OUTBOX_FAILURES.add(1);
            break;
        }
        let key = stream_name(name.as_bytes(), stream);
        let length = state.stream_length(stream);
        let mut count = 0;
        for message in waiting.take(limit - messages) {
            let id = Outbox::next_id(last, now);
            match F::deliver(ctx, stream, message) {
                Some(true) => {}
                None if send(ctx, &key, message, length, id) => last = id,
                None if send_behind(ctx, &key, message, length, id) => {}
                _ => {
                    info::OUTBOX_FAILURES.add(1);
                    break;
                }
            }
            count += 1;
        }
        if count > 0 {
            messages += count as usize;
            streams.push((stream.to_vec(), count));
        }
        if messages >= limit {
            break;
        }
    }
    Sent { streams, last_id: last }
}

/// Puts one message into its stream. A message without fields ends the stream.
fn send(ctx: Context<'_>, stream: &[u8], message: &Fields, length: u32, id: (u64, u64)) -> bool {
    if message.is_empty() {
        return end(ctx, stream);
    }
    if ctx.appends_to_streams() {
        return ctx.append(stream, id, length, message.iter());
    }
    let (length, id) = (length.to_string(), format!("{}-{}", id.0, id.1));
    let mut arguments: Vec<&[u8]> = vec![stream];
    if length != "0" {
        arguments.extend([&b"MAXLEN"[..], b"=", length.as_bytes()]);
    }
    arguments.push(id.as_bytes());
    arguments.extend(message.iter().flat_map(|(field, value)| [field, value]));
    matches!(ctx.call_and_replicate(c"XADD", &arguments), Outcome::Done)
}

/// How far the ids of a stream may be ahead of the clock, in milliseconds: as long as the longest time for which
/// entries are kept for slow readers. Entries are trimmed by their ids, so an entry ahead of the clock is kept longer.
const AHEAD_MS: u64 = 3_600_000;

/// Adds a message after entries whose ids come from a clock ahead of this server's clock. Only the ids of this stream
/// follow that clock.
fn send_behind(ctx: Context<'_>, stream: &[u8], message: &Fields, length: u32, id: (u64, u64)) -> bool {
    let record = ctx.ask(c"XINFO", &[b"STREAM", stream]);
    let Some(Answer::Text(last)) = record.field(b"last-generated-id") else { return false };
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let mut parts = last.split(|&byte| byte == b'-').filter_map(number);
    let (Some(ms), Some(seq)) = (parts.next(), parts.next()) else { return false };
    let ahead = ms.saturating_sub(ctx.clock().max(0) as u64);
    (ms, seq) >= id && ahead <= AHEAD_MS && send(ctx, stream, message, length, Outbox::next_id((ms, seq), 0))
}

/// Deletes a stream that has ended, unless its key now has another type: such a value does not belong to the module.
fn end(ctx: Context<'_>, stream: &[u8]) -> bool {
    match ctx.ask(c"TYPE", &[stream]) {
        Answer::Text(word) if word == b"stream" => {
            matches!(ctx.call_and_replicate(c"UNLINK", &[stream]), Outcome::Done)
        }
        Answer::Text(word) => {
            info::OUTBOX_FAILURES.add(u64::from(word != b"none"));
            true
        }
        _ => false,
    }
}

/// Refuses a stream in a cluster if no hash tag puts it into the slot of its key.
pub(crate) fn check_stream(ctx: Context<'_>, name: KeyName<'_>, what: &str) -> Result<(), Refusal> {
    if ctx.is_cluster() && !has_hash_tag(name.as_bytes()) {
        let why =
            "the event stream of a key in a cluster needs a hash tag in the key's name, as in '{name}:1'";
        return Err(Refusal::new(Code::Err, format!("{what}: {why}")));
    }
    Ok(())
}

/// Whether a key's name has a hash tag, as in `{show}:1`, which determines its slot in a cluster. The streams of a key
/// without a hash tag would be in other slots.
pub(crate) fn has_hash_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return false };
    key.get(open + 1..).unwrap_or_default().iter().position(|&byte| byte == b'}').is_some_and(|len| len > 0)
}

/// The name of a stream of a key: `<key>:<stream>`.
pub(crate) fn stream_name(key: &[u8], stream: &[u8]) -> Vec<u8> {
    [key, b":", stream].concat()
}
