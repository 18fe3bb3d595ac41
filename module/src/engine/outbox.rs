//! Puts the messages of a state into their streams, after the step that caused them.
//!
//! A step replicates its events and closes its key. Then the messages are written: the master chooses each entry's id and
//! replicates the `XADD` itself. The event that records that the messages were sent is replicated in the same transaction,
//! so each entry reaches a replica and an AOF exactly once. If a stream cannot be written (its key has another type, or
//! its slot is migrating), no command fails: the messages stay in the outbox, and the timer tries again.

use allot_core::shared::outbox::{Fields, Outbox, SENT_AT_ONCE, Sent};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::family::Family;
use super::info;
use super::value::Value;
use crate::ffi::context::{Answer, Outcome};
use crate::ffi::{Context, KeyName};

/// Messages of a key that are written after it was closed.
pub(super) struct Unsent {
    lanes: Vec<Lane>,
    /// The greatest entry id given out before.
    last_id: (u64, u64),
    /// The number under which the value knows that they are being written.
    pub(super) sending: u64,
}

/// Messages to one stream, oldest first.
struct Lane {
    stream: Vec<u8>,
    /// How many entries the stream keeps; 0 is no limit.
    length: u32,
    messages: Vec<Fields>,
}

/// Copies the messages that a step sends, and notes that they are being written: a listener may cause another step of the
/// key before they are.
#[inline]
pub(super) fn gather<F: Family>(ctx: Context<'_>, name: KeyName<'_>, value: &mut Value<F>) -> Option<Unsent> {
    if value.state.outbox().is_empty() || value.sending != 0 { None } else { gather_some(ctx, name, value) }
}

#[inline(never)]
fn gather_some<F: Family>(ctx: Context<'_>, name: KeyName<'_>, value: &mut Value<F>) -> Option<Unsent> {
    thread_local! {
        static LAST: Cell<u64> = const { Cell::new(0) };
    }
    value.unsent = false;
    if ctx.is_cluster() && !has_hash_tag(name.as_bytes()) {
        let why = "the key has no hash tag, as in '{name}:1', and the stream may be in another slot: rename the key";
        has_failed(ctx, name.as_bytes(), why);
        return None;
    }
    let outbox = value.state.outbox();
    let streams = outbox.lanes().len();
    // Streams that take no entries may have many messages. So each stream gets its share first, and each time another
    // stream is the first one.
    let share = (SENT_AT_ONCE / streams).max(1);
    let from = value.streams_sent % streams;
    let turns = outbox.lanes().skip(from).chain(outbox.lanes().take(from)).take(SENT_AT_ONCE);
    let mut room = SENT_AT_ONCE - turns.clone().map(|(_, waiting)| waiting.len().min(share)).sum::<usize>();
    let mut lanes = Vec::with_capacity(streams.min(SENT_AT_ONCE));
    for (stream, waiting) in turns {
        let more = waiting.len().saturating_sub(share).min(room);
        room -= more;
        let messages = waiting.take(share + more).cloned().collect();
        lanes.push(Lane { stream: stream.to_vec(), length: value.state.stream_length(stream), messages });
    }
    let last_id = outbox.last_id;
    value.streams_sent = (from + lanes.len()) % streams;
    value.sending = LAST.get() + 1;
    LAST.set(value.sending);
    Some(Unsent { lanes, last_id, sending: value.sending })
}

/// Writes messages. Returns those that were written, and the streams that took none. The key is closed.
pub(super) fn send<'u, F: Family>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    now: i64,
    unsent: &'u Unsent,
) -> (Sent, Vec<&'u [u8]>) {
    let mut sent = Sent { streams: Vec::new(), last_id: unsent.last_id };
    let mut failed = Vec::new();
    for Lane { stream, length, messages } in &unsent.lanes {
        let key = stream_name(name.as_bytes(), stream);
        let mut count = 0;
        for message in messages {
            let is_sent = F::deliver(ctx, stream, message)
                .unwrap_or_else(|| write(ctx, &key, message, *length, now, &mut sent.last_id));
            if !is_sent {
                failed.push(&stream[..]);
                break;
            }
            count += 1;
        }
        if count > 0 {
            sent.streams.push((stream.clone(), count));
        }
    }
    (sent, failed)
}

/// Puts one message into its stream, with an id after the last one. Returns whether this was done. A message without
/// fields ends the stream.
fn write(
    ctx: Context<'_>,
    stream: &[u8],
    message: &Fields,
    length: u32,
    now: i64,
    last_id: &mut (u64, u64),
) -> bool {
    if message.is_empty() {
        return end(ctx, stream);
    }
    let id = Outbox::next_id(*last_id, now);
    let done = match add(ctx, stream, message, length, id) {
        Outcome::Done => {
            *last_id = id;
            true
        }
        // The slot of the stream is moving.
        Outcome::NotRun => false,
        Outcome::Refused => add_behind(ctx, stream, message, length, id),
    };
    if done {
        FAILED.with_borrow_mut(|failed| {
            if !failed.is_empty() {
                failed.remove(stream);
            }
        });
    }
    done
}

fn add(ctx: Context<'_>, stream: &[u8], message: &Fields, length: u32, id: (u64, u64)) -> Outcome {
    if ctx.appends_to_streams() {
        let added = ctx.append(stream, id, length, message.iter());
        return if added { Outcome::Done } else { Outcome::Refused };
    }
    let (length, id) = (length.to_string(), format!("{}-{}", id.0, id.1));
    let mut arguments: Vec<&[u8]> = vec![stream];
    if length != "0" {
        arguments.extend([&b"MAXLEN"[..], b"=", length.as_bytes()]);
    }
    arguments.push(id.as_bytes());
    arguments.extend(message.iter().flat_map(|(field, value)| [field, value]));
    ctx.call_and_replicate(c"XADD", &arguments)
}

/// How far the ids of a stream that is trimmed by age may be ahead of the clock, in milliseconds: as long as the longest
/// time for which entries are kept for slow readers. An entry ahead of the clock is kept longer.
const AHEAD_MS: u64 = 3_600_000;

/// Adds a message after entries that somebody else has added, or whose ids come from a clock ahead of this server's clock.
/// Only the ids of this stream follow that clock.
#[cold]
fn add_behind(ctx: Context<'_>, stream: &[u8], message: &Fields, length: u32, id: (u64, u64)) -> bool {
    match ctx.ask(c"TYPE", &[stream]) {
        Answer::Text(word) if word == b"stream" => {}
        Answer::Text(word) => {
            let held = String::from_utf8_lossy(&word).into_owned();
            has_failed(ctx, stream, &format!("its key holds a {held}: delete or rename this key"));
            return false;
        }
        _ => return false,
    }
    let record = ctx.ask(c"XINFO", &[b"STREAM", stream]);
    let Some(Answer::Text(last)) = record.field(b"last-generated-id") else { return false };
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let mut parts = last.split(|&byte| byte == b'-').filter_map(number);
    let (Some(ms), Some(seq)) = (parts.next(), parts.next()) else { return false };
    let ahead = ms.saturating_sub(ctx.clock().max(0) as u64);
    let next = Outbox::next_id((ms, seq), 0);
    let may_follow = (ms, seq) >= id && next > (ms, seq) && (length > 0 || ahead <= AHEAD_MS);
    if may_follow && matches!(add(ctx, stream, message, length, next), Outcome::Done) {
        return true;
    }
    let why = format!("its last id is {ms}-{seq}, which is {ahead} ms ahead of the clock: delete the stream");
    has_failed(ctx, stream, &why);
    false
}

thread_local! {
    /// Streams of which the log says that they take no entries.
    static FAILED: RefCell<BTreeSet<Vec<u8>>> = const { RefCell::new(BTreeSet::new()) };
}

/// The most streams that are remembered because they take no entries.
const FAILED_AT_MOST: usize = 1000;

/// Counts that a stream took no entry, and says so once in the log.
fn has_failed(ctx: Context<'_>, stream: &[u8], why: &str) {
    info::OUTBOX_FAILURES.add(1);
    let is_new =
        FAILED.with_borrow_mut(|failed| failed.len() < FAILED_AT_MOST && failed.insert(stream.to_vec()));
    if is_new {
        let stream = quoted(stream);
        ctx.log(
            c"warning",
            &format!("allot: the event stream {stream} takes no entries. They wait, because {why}"),
        );
    }
}

/// Deletes a stream that has ended, unless its key now has another type: such a value does not belong to the module.
fn end(ctx: Context<'_>, stream: &[u8]) -> bool {
    match ctx.ask(c"TYPE", &[stream]) {
        Answer::Text(word) if word == b"stream" => {
            matches!(ctx.call_and_replicate(c"UNLINK", &[stream]), Outcome::Done)
        }
        Answer::Text(word) => {
            if word != b"none" {
                info::OUTBOX_FAILURES.add(1);
            }
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
