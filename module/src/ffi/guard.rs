//! The boundary of all calls from the server: no panic passes it. It hands the calls to hooks, because `ffi` does not
//! import the rest of the module.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::context::Context;
use super::info::InfoWriter;

/// A database, and the name of a key in it.
pub(crate) type Place<'a> = (i32, &'a [u8]);

/// The hooks for calls from the server, except calls of commands and value types.
pub(crate) struct Hooks {
    /// The timer has fired.
    pub(crate) timer: fn(Context<'_>),
    /// The server does its regular work, some ten times a second.
    pub(crate) cron: fn(Context<'_>),
    /// A database was emptied; `None`: all of them.
    pub(crate) flushed: fn(Option<i32>),
    /// A key got another name or went to another database: from this place, to that one.
    pub(crate) moved: fn(Place<'_>, Place<'_>),
    /// Whether `because` is to be called.
    pub(crate) asks_why: fn() -> bool,
    /// Why a key has lost its value: an event of the server.
    pub(crate) because: fn(&[u8], Place<'_>),
    /// Two databases changed places.
    pub(crate) swapped: fn(i32, i32),
    /// The wait of a client, by its id, has ended: it is to be answered.
    pub(crate) wait_ended: fn(Context<'_>, u64),
    /// A client that waits has gone, or the server has answered it itself.
    pub(crate) disconnected: fn(Context<'_>, u64),
    /// The server has run all commands that it received, and sends the answers next.
    pub(crate) before_sleep: fn(Context<'_>),
    /// The server was a master and has become a replica, or it is the replica of another master now.
    pub(crate) demoted: fn(),
    /// The server has become the master.
    pub(crate) promoted: fn(),
    /// A client asked for `INFO`.
    pub(crate) info: fn(&InfoWriter),
    /// A panic was caught.
    pub(crate) panicked: fn(),
}

static HOOKS: OnceLock<&'static Hooks> = OnceLock::new();

/// Sets the hooks; once, at load.
pub(super) fn set_hooks(hooks: &'static Hooks) {
    let _ = HOOKS.set(hooks);
}

/// Runs a function that the server called and that hands the call to a hook. Before the module is loaded, it does not run.
/// A panic is caught and counted.
pub(super) fn with_hooks(work: impl FnOnce(&'static Hooks)) {
    guard((), || {
        if let Some(hooks) = HOOKS.get() {
            work(hooks);
        }
    });
}

/// Runs a function that the server called. A panic is caught and counted, and the result is then `otherwise`.
pub(crate) fn guard<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        if let Some(hooks) = HOOKS.get() {
            (hooks.panicked)();
        }
        otherwise
    })
}

/// Ends the process when a panic drops it, because the state may contain half a change that was not replicated. The
/// server writes its crash report, and a replica or the AOF takes over.
pub(crate) struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "allot: a bug struck while a change was being applied; the server stops rather than serve half of it"
            );
            std::process::abort();
        }
    }
}
