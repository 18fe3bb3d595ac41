//! Bugs that come to light while the server runs: counted in `INFO` as `allot_internal_errors`, and logged once per
//! place in the code, with the type and the name of the key that was worked on.

use allot_core::shared::invariant;
use allot_core::shared::text::quoted;
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::Mutex;

use super::info::INTERNAL_ERRORS;
use crate::ffi::Context;
use crate::ffi::string::current;

/// Places that have been logged.
static LOGGED: Mutex<BTreeSet<(&str, u32)>> = Mutex::new(BTreeSet::new());

/// Has broken invariants of the state machines reported here; once, at load.
pub(crate) fn receive() {
    invariant::set_reporter(broken_invariant);
}

fn broken_invariant(what: &'static str, place: &'static Location<'static>) {
    INTERNAL_ERRORS.add(1);
    // A panic elsewhere while the set was locked does it no harm.
    let mut logged = LOGGED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if logged.insert((place.file(), place.line())) {
        log(&format!("broken invariant, place={place}: {what}; further ones of this place are only counted"));
    }
}

/// Ends the process, because it cannot apply an event of its master or of its append-only file.
pub(crate) fn end_process(why: &str) -> ! {
    log_line(&format!("allot: the server stops{}: {why}", current_key()));
    std::process::exit(1)
}

fn log(what: &str) {
    log_line(&format!("allot: internal error{}: {what}", current_key()));
}

fn log_line(line: &str) {
    Context::detached().log(c"warning", line);
}

/// The type and name of the key that is worked on, for a log line.
fn current_key() -> String {
    match current() {
        Some((kind, name)) => format!(" type={} key={}", kind.to_string_lossy(), quoted(name)),
        None => String::new(),
    }
}
