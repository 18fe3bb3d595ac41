//! Points at which a process can be made to die, and small batches to die between, for the tests of a take-over. None of
//! it is in a release.

/// The process dies here if `ALLOT_FAULT_POINT` is `accounts:<name>`.
#[cfg(debug_assertions)]
pub(super) fn point(name: &str) {
    use std::sync::OnceLock;
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("ALLOT_FAULT_POINT").ok());
    let here = wanted.as_deref().and_then(|wanted| wanted.strip_prefix("accounts:")) == Some(name);
    if here {
        tracing::error!(name, "dying here, as ALLOT_FAULT_POINT says");
        std::process::abort();
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(super) fn point(_: &str) {}

/// How many operations one multi has: as `ALLOT_FAULT_BATCH` says, so that little work has many of them.
#[cfg(debug_assertions)]
pub(super) fn batch(usual: usize) -> usize {
    use std::sync::OnceLock;
    static WANTED: OnceLock<Option<usize>> = OnceLock::new();
    WANTED.get_or_init(|| std::env::var("ALLOT_FAULT_BATCH").ok()?.parse().ok()).unwrap_or(usual)
}

/// As many as usual.
#[cfg(not(debug_assertions))]
pub(super) fn batch(usual: usize) -> usize {
    usual
}
