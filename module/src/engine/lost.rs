//! Keys that are deleted with what they have given out: seats that are held or sold, leases, conferences, logins. Each is
//! counted, and leaves an entry in the event stream of its key.
//!
//! The server tells of a deletion in two calls, in which no key may be written: first that a value loses its name, then
//! why. The entries are written by the regular work of the server.

use std::cell::RefCell;

use super::info::{KEYS_DELETED_IN_USE, KEYS_DROPPED_IN_USE};
use crate::ffi::Context;
use crate::ffi::context::Answer;

/// The name of the event streams of all families.
const STREAM: &[u8] = b"evt";

/// The most keys that wait for their entries. Those beyond have none.
const AT_MOST: usize = 10_000;

/// How many entries are written at once.
const AT_ONCE: usize = 100;

/// A key that has lost a value in use.
struct Lost {
    db: i32,
    name: Box<[u8]>,
    /// The name of its entry.
    event: &'static str,
    /// How much it had given out.
    in_use: usize,
    /// How many entries its event stream keeps; 0 if the server does not trim the stream, or there is none.
    length: u32,
}

thread_local! {
    // Only the server's thread uses it.
    static LOST: RefCell<Vec<Lost>> = const { RefCell::new(Vec::new()) };
}

/// A value in use has lost its name. Unless `because` says more, another value is put there.
pub(super) fn displaced(db: i32, name: &[u8], in_use: usize, length: impl FnOnce(&[u8]) -> u32) {
    if in_use == 0 || Context::detached().is_loading() {
        return;
    }
    LOST.with_borrow_mut(|lost| {
        if lost.len() < AT_MOST {
            lost.push(Lost {
                db,
                name: name.into(),
                event: "key-overwritten",
                in_use,
                length: length(STREAM),
            });
        }
    });
}

/// Whether the server should say why keys lost their values.
pub(crate) fn asks_why() -> bool {
    LOST.with_borrow(|lost| !lost.is_empty())
}

/// Why a key has lost its value: an event of the server.
pub(crate) fn because(event: &[u8], db: i32, name: &[u8]) {
    LOST.with_borrow_mut(|lost| {
        let Some(place) = lost.iter().rposition(|one| one.db == db && *one.name == *name) else { return };
        match (event, lost.get_mut(place)) {
            (b"del", Some(one)) => one.event = "key-deleted",
            (b"expired", Some(one)) => one.event = "key-expired",
            (b"evicted", Some(one)) => one.event = "key-evicted",
            // It has another name now.
            _ => _ = lost.remove(place),
        }
    });
}

/// Counts the keys that were lost, and has a master write their entries.
pub(crate) fn look(ctx: Context<'_>) {
    if !asks_why() || (ctx.is_master() && !ctx.may_change_keys()) {
        return;
    }
    let some: Vec<Lost> = LOST.with_borrow_mut(|lost| lost.drain(..lost.len().min(AT_ONCE)).collect());
    for one in some {
        // A key whose slot is moving or has moved is on another node.
        if !ctx.select_db(one.db) || ctx.ask(c"EXISTS", &[&one.name]) == Answer::Nothing {
            continue;
        }
        match one.event {
            "key-expired" | "key-evicted" => KEYS_DROPPED_IN_USE.add(1),
            _ => KEYS_DELETED_IN_USE.add(1),
        }
        if ctx.is_master() {
            write(ctx, &one);
        }
    }
}

/// Writes the entry of a key, unless it had no event stream.
fn write(ctx: Context<'_>, lost: &Lost) {
    let (stream, length, in_use) =
        ([&*lost.name, b":", STREAM].concat(), lost.length.to_string(), lost.in_use.to_string());
    let mut arguments: Vec<&[u8]> = vec![&stream];
    match lost.length {
        0 => arguments.push(b"NOMKSTREAM"),
        _ => arguments.extend([&b"MAXLEN"[..], b"=", length.as_bytes()]),
    }
    arguments.extend([&b"*"[..], b"event", lost.event.as_bytes(), b"in-use", in_use.as_bytes()]);
    // A stream of another type takes none: the log has said so when the key was there.
    let _ = ctx.call_and_replicate(c"XADD", &arguments);
}
