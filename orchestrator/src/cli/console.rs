//! `allotd console`: serves the web console, and opens it in a browser.

use std::process::{Command, Stdio};

use anyhow::Result;
use clap::Args;

use allot_runtime::telemetry;

use crate::cli::outcome::Outcome;
use crate::cli::terminal::errln;
use crate::config::{Role, Source};
use crate::daemon;

/// Arguments of `allotd console`: the settings of `allotd run`, of which its role needs some.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Open the console in the browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    source: Source,
}

/// Serves the console until a signal ends the process.
pub(crate) async fn run(verbose: u8, arguments: Arguments, run_role: daemon::RunRole) -> Result<Outcome> {
    let config = arguments.source.with_role(Role::Console).config()?;
    telemetry::init(verbose, "info", config.log);
    if arguments.open {
        let address = config.console.address();
        tokio::spawn(open(address));
    }
    daemon::run(config, run_role).await.map(|()| Outcome::Done)
}

/// Opens an address in the browser, once the console answers there.
async fn open(address: String) {
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = Command::new(program).arg(&address).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = opened {
        errln!("allotd: {program} did not start ({error}); open {address} in a browser");
    }
}
