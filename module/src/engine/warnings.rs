//! Settings of the server, and replicas, with which Allot may lose what it has given out: named in the log when they are found, and counted
//! as `allot_warnings` in `INFO`.

use std::cell::Cell;

use super::replicas;
use crate::ffi::Context;
use crate::ffi::context::Answer;

/// How often the settings are looked at, in milliseconds.
const EVERY_MS: i64 = 10_000;

/// What is wrong, and what to do.
const WARNINGS: [&str; 4] = [
    "maxmemory-policy may evict shows, pools, realms and books with all that was sold: set noeviction or a volatile policy",
    "neither save nor appendonly is set: a restart loses all that was sold",
    "appendonly is off: a crash loses what was sold since the last RDB file",
    "a replica (ROLE lists them) does not load this module: it acknowledges what is sold and stores nothing of it, and a \
     failover to it loses everything. Load the module there, and restart it without its files",
];

thread_local! {
    /// When the settings are looked at next.
    static NEXT: Cell<i64> = const { Cell::new(0) };
    /// Which warnings hold.
    static HOLD: Cell<[bool; WARNINGS.len()]> = const { Cell::new([false; WARNINGS.len()]) };
}

/// How many warnings hold.
pub(crate) fn count() -> usize {
    HOLD.get().iter().filter(|holds| **holds).count()
}

/// Looks at the settings from time to time, and logs what has become wrong.
pub(crate) fn look(ctx: Context<'_>) {
    let clock = ctx.clock();
    if (NEXT.get() - EVERY_MS..NEXT.get()).contains(&clock) {
        return;
    }
    NEXT.set(clock + EVERY_MS);
    // Nothing is known of the settings of a server on which `CONFIG` has another name.
    let setting_is = |name: &str, is: fn(&[u8]) -> bool| match ctx.ask(c"CONFIG", &[b"GET", name.as_bytes()])
    {
        Answer::List(pair) => match pair.get(1) {
            Some(Answer::Text(value)) => is(value),
            _ => false,
        },
        _ => false,
    };
    let evicts = setting_is("maxmemory", |value| value != b"0")
        && setting_is("maxmemory-policy", |value| value.starts_with(b"allkeys"));
    let keeps_no_log = setting_is("appendonly", |value| value == b"no");
    let keeps_nothing = keeps_no_log && setting_is("save", <[u8]>::is_empty);
    let keeps_files = keeps_no_log && setting_is("save", |value| !value.is_empty());
    let hold = [evicts, keeps_nothing, keeps_files, replicas::some_lack_the_module(ctx)];
    for ((warning, holds), held) in WARNINGS.iter().zip(hold).zip(HOLD.replace(hold)) {
        if holds && !held {
            ctx.log(c"warning", &format!("allot: {warning}"));
        }
    }
}
