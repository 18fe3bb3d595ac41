//! `allotd`, the daemon and command line of Allot: reads the command line and hands over.
#![warn(missing_docs)]

mod cli;
mod seats;
mod store;
mod telemetry;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    cli::main().await
}
