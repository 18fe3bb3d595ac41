//! How far something is that a person waits for: a bar on the terminal; nothing where standard error is none.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over so many steps, shown at once: `what [####    ] done/total time`.
pub(crate) fn bar(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar.tick();
    bar
}
