//! A progress bar on standard error. It is drawn only if standard error is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of this many steps, drawn at once: `what [####    ] done/total time`.
pub(crate) fn bar(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar.tick();
    bar
}
