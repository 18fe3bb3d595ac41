//! Trims the streams of a realm by age. Entries that a live consumer group has not yet read or acknowledged are kept
//! longer, up to a limit. Beyond the limit they are deleted as well, and a RESYNC is added.

use allot_core::conf::messages::{EVENTS, INFO, command_stream};
use allot_core::conf::{Event, Realm};
use allot_core::shared::machine::Events;

use crate::engine::config;
use crate::engine::deadlines::NEVER;
use crate::engine::family::Maintained;
use crate::engine::outbox::stream_name;
use crate::ffi::context::Answer;
use crate::ffi::{Context, KeyName};

/// Streams that are trimmed in one part.
const AT_ONCE: usize = 32;
/// A group is live if one of its consumers was seen within this time.
const LIVE_MS: i64 = 300_000;
/// The greatest age of an entry.
const LONGEST_MS: i64 = 3_600_000;

/// The next streams of a realm, from this place on.
pub(super) fn next_streams(realm: &Realm, place: &mut usize) -> Vec<Vec<u8>> {
    let units = realm.units().map(|unit| command_stream(&unit.cmu));
    let all = [EVENTS.to_vec(), INFO.to_vec()].into_iter().chain(units);
    let part: Vec<Vec<u8>> = all.skip(*place).take(AT_ONCE).collect();
    *place = if part.len() == AT_ONCE { *place + AT_ONCE } else { 0 };
    part
}

/// When a stream must be trimmed whose first entry has this time.
pub(super) fn due(entry: i64) -> i64 {
    entry.saturating_add(config::CONF_STREAM_AGE.get())
}

/// Trims a stream by age. If a live group missed entries, a `Missed` event follows.
pub(super) fn run(ctx: Context<'_>, name: KeyName<'_>, suffix: &[u8], now: i64) -> Maintained<Event> {
    let stream = &stream_name(name.as_bytes(), suffix);
    let again_at = |first: Option<(i64, i64)>| first.map_or(NEVER, |first| due(first.0));
    let oldest = first_entry(ctx, stream);
    let Some((first, aged)) = oldest.map(|oldest| (oldest, now - config::CONF_STREAM_AGE.get())) else {
        return Maintained { events: Events::new(), again_at: NEVER };
    };
    if first.0 >= aged {
        return Maintained { events: Events::new(), again_at: again_at(oldest) };
    }
    let limit = (now - LONGEST_MS, 0);
    let keep = needed(ctx, stream).map_or((aged, 0), |needed| needed.min((aged, 0)));
    let missed = keep < limit;
    let keep = keep.max(limit);
    if first < keep {
        let from = format!("{}-{}", keep.0, keep.1);
        ctx.call_and_replicate(c"XTRIM", &[stream, b"MINID", b"=", from.as_bytes()]);
    }
    let event = missed.then(|| Event::Missed { stream: suffix.to_vec() });
    Maintained { events: event.into_iter().collect(), again_at: again_at(first_entry(ctx, stream)) }
}

fn first_entry(ctx: Context<'_>, stream: &[u8]) -> Option<(i64, i64)> {
    let entries = ctx.ask(c"XRANGE", &[stream, b"-", b"+", b"COUNT", b"1"]);
    entries.list().first().and_then(|entry| entry.list().first()).and_then(id)
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
