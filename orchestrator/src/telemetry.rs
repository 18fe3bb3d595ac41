//! What the program says about its own work: tracing, on standard error, so that standard output stays
//! the result and can be piped.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Switches logging on: warnings by default, more with `-v`, or exactly what `ALLOT_LOG` asks for.
pub(crate) fn init(verbose: u8) {
    let default = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("ALLOT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
