//! Fault points for the tests of a take-over: places where a process can be made to abort, and small batches so that
//! it can abort between two of them. A release build contains none of this.

use std::sync::OnceLock;

/// Whether this is a build for tests and development.
const IS_DEBUG: bool = cfg!(debug_assertions);

/// Aborts the process if `ALLOT_FAULT_POINT` is `accounts:<name>`.
pub(super) fn point(name: &str) {
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    if !IS_DEBUG {
        return;
    }
    let wanted = WANTED.get_or_init(|| std::env::var("ALLOT_FAULT_POINT").ok());
    let here = wanted.as_deref().and_then(|wanted| wanted.strip_prefix("accounts:")) == Some(name);
    if here {
        tracing::error!(name, "dying here, at the fault point that ALLOT_FAULT_POINT names");
        std::process::abort();
    }
}

/// The most operations of one multi: the value of `ALLOT_FAULT_BATCH` if it is set, so that little work makes
/// many batches.
pub(super) fn batch(usual: usize) -> usize {
    static WANTED: OnceLock<Option<usize>> = OnceLock::new();
    if !IS_DEBUG {
        return usual;
    }
    WANTED.get_or_init(|| std::env::var("ALLOT_FAULT_BATCH").ok()?.parse().ok()).unwrap_or(usual)
}
