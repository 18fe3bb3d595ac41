//! `allotd`: hands the command line over to the library.
#![warn(missing_docs)]

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    allot_orchestrator::main().await
}
