//! A progress bar on standard error. It is drawn only if standard error is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of this many steps, drawn at once: `what [####    ] done/total time`.
pub(crate) fn bar(total: u64, what: &'static str) -> ProgressBar {
    let bar = unknown(what);
    bar.set_length(total);
    bar.tick();
    bar
}

/// A bar whose steps [`at`] counts.
pub(crate) fn unknown(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// Draws a bar at this step.
pub(crate) fn at(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}
