//! Points at which a process can be made to die, for the tests of a take-over. None of it is in a release.

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
