//! What the program says about its own work: tracing, on standard error, so that standard output stays
//! the result and can be piped.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use clap::ValueEnum;
use serde::Deserialize;

/// How log events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Switches logging on: from this level on, more with `-v`, or exactly what `ALLOT_LOG` asks for.
pub fn init(verbose: u8, least: &str, format: LogFormat) {
    let default = match (verbose, least) {
        (0, least) => least,
        (1, "warn") => "info",
        (1, _) | (2, "warn") => "debug",
        _ => "trace",
    };
    // What the clients of other protocols say of their own work is ours to say.
    let default = format!("{default},zookeeper_client=error,rustls=warn");
    let filter = EnvFilter::try_from_env("ALLOT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).init();
        }
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).init(),
    }
}
