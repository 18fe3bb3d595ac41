//! The boundary through which every call from the server comes: no panic passes it. Also where such calls are handed on
//! to: `ffi` itself knows nothing of the module behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::context::Context;
use super::info::InfoWriter;

/// What the module does when the server calls it; commands and value types have functions of their own.
pub(crate) struct Hooks {
    /// The timer rang.
    pub(crate) timer: fn(Context<'_>),
    /// The server does its regular work, some ten times a second.
    pub(crate) cron: fn(Context<'_>),
    /// A database was emptied; `None`: all of them.
    pub(crate) flushed: fn(Option<i32>),
    /// Two databases changed places.
    pub(crate) swapped: fn(i32, i32),
    /// `INFO` is asked for.
    pub(crate) info: fn(&InfoWriter),
    /// A panic was caught.
    pub(crate) panicked: fn(),
}

static HOOKS: OnceLock<&'static Hooks> = OnceLock::new();

/// Sets what the server's calls lead to; once, at load.
pub(super) fn set_hooks(hooks: &'static Hooks) {
    let _ = HOOKS.set(hooks);
}

/// What the server's calls lead to; `None` before the module is loaded.
pub(super) fn hooks() -> Option<&'static Hooks> {
    HOOKS.get().copied()
}

/// Runs what the server called. A panic ends here, is counted, and gives `otherwise`.
pub(super) fn guard<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        if let Some(hooks) = hooks() {
            (hooks.panicked)();
        }
        otherwise
    })
}

/// Ends the process when it is dropped by a panic: half a change that no replica was told of must not live on. The
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
