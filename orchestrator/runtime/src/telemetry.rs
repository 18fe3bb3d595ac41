//! Logging by `tracing` on standard error: standard output carries the result of a command and can be piped. A warning
//! that is repeated every second is logged once in ten minutes.

use std::io::IsTerminal;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::repeats::RepeatFilter;

/// The format of log events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging at level `least`, at a lower level for each `-v`, or by the filter in `ALLOT_LOG` if that is set.
pub fn init(verbose: u8, least: &str, format: LogFormat) {
    let default = match (verbose, least) {
        (0, least) => least,
        (1, "warn") => "info",
        (1, _) | (2, "warn") => "debug",
        _ => "trace",
    };
    // Errors of client libraries are reported by this program where they matter.
    let default = format!("{default},zookeeper_client=error,rustls=warn");
    let filter = EnvFilter::try_from_env("ALLOT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(layer.with_filter(RepeatFilter::new())).init();
}
