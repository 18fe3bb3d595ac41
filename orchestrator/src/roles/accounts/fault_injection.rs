//! Fault points for the tests of a take-over: places where a process can be made to abort, and small batches so that
//! it can abort between two of them. A release build contains none of this.

/// Aborts the process if `ALLOT_FAULT_POINT` is `accounts:<name>`.
#[cfg(debug_assertions)]
pub(super) fn point(name: &str) {
    use std::sync::OnceLock;
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("ALLOT_FAULT_POINT").ok());
    let here = wanted.as_deref().and_then(|wanted| wanted.strip_prefix("accounts:")) == Some(name);
    if here {
        tracing::error!(name, "dying here, at the fault point that ALLOT_FAULT_POINT names");
        std::process::abort();
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub(super) fn point(_: &str) {}

/// The most operations of one multi: the value of `ALLOT_FAULT_BATCH` if it is set, so that little work makes
/// many batches.
#[cfg(debug_assertions)]
pub(super) fn batch(usual: usize) -> usize {
    use std::sync::OnceLock;
    static WANTED: OnceLock<Option<usize>> = OnceLock::new();
    WANTED.get_or_init(|| std::env::var("ALLOT_FAULT_BATCH").ok()?.parse().ok()).unwrap_or(usual)
}

/// The usual size in a release build.
#[cfg(not(debug_assertions))]
pub(super) fn batch(usual: usize) -> usize {
    usual
}
