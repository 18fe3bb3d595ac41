//! `SEAT.ZMPOP`: `ZMPOP` on ordinary sorted sets, and N neighbours from them.
//!
//! Without `ADJACENT` every reply is that of `ZMPOP`, error texts included, so this command parses its arguments
//! itself. It replicates and notifies as `ZMPOP` does. With `ADJACENT`, members with consecutive scores are neighbours,
//! and a multiple of the stride begins a new row.

use allot_core::shared::refusal::{Code, Refusal};

use crate::engine::reply::reply_list;
use crate::engine::step::wrong_type;
use crate::engine::word::integer;
use crate::engine::{Call, Done};
use crate::ffi::context::{Key, Mode};
use crate::ffi::zset::{End, Member, Members};

/// From this score on a double cannot distinguish neighbouring whole numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The scores of one row in existing systems.
const STRIDE: i64 = 100_000;

/// The options after the keys.
struct Options {
    end: End,
    count: usize,
    /// `None` without `ADJACENT`.
    stride: Option<i64>,
}

/// `SEAT.ZMPOP numkeys key [key ...] MIN|MAX [COUNT n] [ADJACENT [STRIDE s]]`
pub(super) fn zmpop(call: &Call<'_>) -> Done {
    let words = call.words();
    let keys = positive(words.get(1).copied().unwrap_or_default(), "numkeys")?;
    let place = keys.checked_add(2).filter(|&place| place < words.len()).ok_or_else(syntax)?;
    let options = options(words.get(place..).unwrap_or_default())?;
    for place in 2..place {
        let name = call.key_at(place)?;
        let key = call.ctx.open(name, Mode::Write);
        match key.is_zset() {
            None => continue,
            Some(false) => return Err(wrong_type()),
            Some(true) => {}
        }
        let members = match options.stride {
            None => first(&key, &options),
            Some(stride) => neighbours(&key, &options, stride),
        };
        if members.is_empty() {
            continue;
        }
        let emptied = members.len() == key.zset_len();
        key.zset_remove(&members);
        call.ctx.signal_modified(name);
        if options.stride.is_some() {
            call.ctx.replicate_zrem(name, &members);
        } else {
            call.ctx.replicate_pop(options.end, name, members.len());
        }
        reply(call, name.as_bytes(), &members);
        // Last, because a listener may change or delete the key.
        drop(key);
        call.ctx.notify_popped(options.end, name, emptied);
        return Ok(());
    }
    call.ctx.reply_nothing();
    Ok(())
}

fn options(words: &[&[u8]]) -> Result<Options, Refusal> {
    let mut words = words.iter();
    let end = match words.next() {
        Some(word) if is_word(word, b"MIN") => End::Min,
        Some(word) if is_word(word, b"MAX") => End::Max,
        _ => return Err(syntax()),
    };
    let (mut count, mut adjacent, mut stride) = (None, false, None);
    while let Some(option) = words.next() {
        if count.is_none() && is_word(option, b"COUNT") {
            count = Some(positive(words.next().ok_or_else(syntax)?, "count")?);
        } else if !adjacent && is_word(option, b"ADJACENT") {
            adjacent = true;
        } else if stride.is_none() && is_word(option, b"STRIDE") {
            stride = Some(positive(words.next().ok_or_else(syntax)?, "stride")? as i64);
        } else {
            return Err(syntax());
        }
    }
    if stride.is_some() && !adjacent {
        return Err(syntax());
    }
    Ok(Options { end, count: count.unwrap_or(1), stride: adjacent.then(|| stride.unwrap_or(STRIDE)) })
}

/// The first members from the requested end.
fn first(key: &Key<'_>, options: &Options) -> Members {
    let mut members = Members::new();
    key.zset_walk(options.end, |member| {
        members.push(member);
        members.len() < options.count
    });
    members
}

/// The first run of so many neighbours from the requested end, or nothing. Walks at most the whole set. Members whose
/// scores are not whole numbers are skipped. Of members with equal scores, the lowest counts.
fn neighbours(key: &Key<'_>, options: &Options, stride: i64) -> Members {
    let mut run = Members::new();
    let mut last = None;
    key.zset_walk(options.end, |member| {
        let whole = member.score.fract() == 0.0 && member.score.abs() < EXACT;
        if !whole {
            return true;
        }
        let score = member.score as i64;
        if last == Some(score) {
            // Walking down, the lowest of equals comes last; walking up, it came first.
            if options.end == End::Max
                && let Some(end) = run.last_mut()
            {
                *end = member;
            }
            return true;
        }
        // A run is complete only if no lower member with its last score can follow.
        if run.len() == options.count {
            return false;
        }
        let (step, higher) = match options.end {
            End::Min => (1, score),
            End::Max => (-1, score + 1),
        };
        let follows = last.is_some_and(|last: i64| last + step == score) && higher.rem_euclid(stride) != 0;
        if !follows {
            run.clear();
        }
        run.push(member);
        last = Some(score);
        run.len() < options.count || options.end == End::Max
    });
    if run.len() < options.count {
        run.clear();
    }
    run
}

fn reply(call: &Call<'_>, name: &[u8], members: &[Member]) {
    call.ctx.reply_array(2);
    call.ctx.reply_string(name);
    reply_list(call.ctx, members, |member| {
        call.ctx.reply_array(2);
        call.ctx.reply_string(member.name.name().as_bytes());
        call.ctx.reply_double(member.score);
    });
}

fn syntax() -> Refusal {
    Refusal::new(Code::Err, "syntax error")
}

fn positive(word: &[u8], what: &str) -> Result<usize, Refusal> {
    let number = integer(word).filter(|&number| number > 0);
    number
        .map(|number| number as usize)
        .ok_or_else(|| Refusal::new(Code::Err, format!("{what} should be greater than 0")))
}

/// Redis compares such words as C strings, so bytes after a NUL do not count.
fn is_word(argument: &[u8], word: &[u8]) -> bool {
    argument.split(|&byte| byte == 0).next().is_some_and(|argument| argument.eq_ignore_ascii_case(word))
}
