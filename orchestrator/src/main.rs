//! `allotd`: the daemon and command line of Allot.
#![warn(missing_docs)]

mod cli;
mod config;
mod daemon;
mod roles;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    cli::main().await
}
