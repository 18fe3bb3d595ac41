//! Trims the streams of a realm by age. Entries that a live consumer group has not yet read or acknowledged are kept
//! longer, up to a limit. Beyond the limit they are deleted as well, and a RESYNC is added.

use allot_core::conf::messages::{EVENTS, INFO, command_stream};
use allot_core::conf::{Event, Realm};
use allot_core::shared::machine::Events;

use crate::engine::config;
use crate::engine::outbox::stream_name;
use crate::ffi::context::Answer;
use crate::ffi::{Context, KeyName};

/// Interval of trimming a realm's streams.
const EVERY_MS: i64 = 5_000;
/// Interval between two parts of one trimming.
const NEXT_MS: i64 = 10;
/// Streams that are trimmed in one part.
const AT_ONCE: usize = 32;
/// A group is live if one of its consumers was seen within this time.
const LIVE_MS: i64 = 300_000;
/// The greatest age of an entry.
const LONGEST_MS: i64 = 3_600_000;

/// Trims the next streams of a realm. Returns a `Missed` event for each stream whose readers missed entries, and the
/// time to continue.
pub(super) fn run(
    realm: &Realm,
    ctx: Context<'_>,
    name: KeyName<'_>,
    now: i64,
    place: &mut usize,
) -> (Events<Event>, i64) {
    let units = realm.units().map(|unit| command_stream(&unit.cmu));
    let all = [EVENTS.to_vec(), INFO.to_vec()].into_iter().chain(units);
    let part: Vec<Vec<u8>> = all.skip(*place).take(AT_ONCE).collect();
    let mut events = Events::new();
    for stream in &part {
        if trim(ctx, &stream_name(name.as_bytes(), stream), now) {
            events.push(Event::Missed { stream: stream.clone() });
        }
    }
    if part.len() == AT_ONCE {
        *place += AT_ONCE;
        return (events, now + NEXT_MS);
    }
    *place = 0;
    (events, now + EVERY_MS)
}

/// Trims a stream by age. Returns whether a live group missed entries.
fn trim(ctx: Context<'_>, stream: &[u8], now: i64) -> bool {
    let oldest = ctx.ask(c"XRANGE", &[stream, b"-", b"+", b"COUNT", b"1"]);
    let Some(oldest) = oldest.list().first().and_then(|entry| entry.list().first()).and_then(id) else {
        return false;
    };
    let (aged, limit) = (now - config::CONF_STREAM_AGE.get(), now - LONGEST_MS);
    if oldest.0 >= aged {
        return false;
    }
    let needed = needed(ctx, stream);
    let keep = needed.map_or((aged, 0), |needed| needed.min((aged, 0)));
    let missed = keep < (limit, 0);
    let keep = keep.max((limit, 0));
    if oldest >= keep {
        return false;
    }
    let from = format!("{}-{}", keep.0, keep.1);
    ctx.call_and_replicate(c"XTRIM", &[stream, b"MINID", b"=", from.as_bytes()]);
    missed
}

/// The id of the first entry that a live group has not read or not acknowledged; `None` if there is no live group.
fn needed(ctx: Context<'_>, stream: &[u8]) -> Option<(i64, i64)> {
    let groups = ctx.ask(c"XINFO", &[b"GROUPS", stream]);
    groups.list().iter().filter_map(|group| needed_by(ctx, stream, group)).min()
}

fn needed_by(ctx: Context<'_>, stream: &[u8], group: &Answer) -> Option<(i64, i64)> {
    let Some(Answer::Text(name)) = group.field(b"name") else { return None };
    let consumers = ctx.ask(c"XINFO", &[b"CONSUMERS", stream, name]);
    let seen =
        |consumer: &&Answer| matches!(consumer.field(b"idle"), Some(Answer::Number(idle)) if *idle < LIVE_MS);
    consumers.list().iter().find(seen)?;
    let (time, sequence) = group.field(b"last-delivered-id").and_then(id)?;
    // The first id after the last delivered entry.
    let unread = (time, sequence + 1);
    let pending = ctx.ask(c"XPENDING", &[stream, name]);
    let pending = pending.list().get(1).and_then(id);
    Some(pending.map_or(unread, |pending| pending.min(unread)))
}

fn id(answer: &Answer) -> Option<(i64, i64)> {
    let Answer::Text(text) = answer else { return None };
    let (time, sequence) = std::str::from_utf8(text).ok()?.split_once('-')?;
    Some((time.parse().ok()?, sequence.parse().ok()?))
}
