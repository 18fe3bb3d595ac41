//! `allotd console`: serves the web console, and opens it in a browser.

use std::process::{Command, Stdio};

use anyhow::Result;
use clap::Args;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use allot_runtime::telemetry;

use crate::console_operations::ConsoleOperations;
use crate::outcome::Outcome;
use crate::terminal::errln;
use allotd::config::{Role, Source};
use allotd::daemon;
use allotd::roles::accounts::paths;
use allotd::roles::context::RoleContext;

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
pub(crate) async fn run(verbose: u8, arguments: Arguments) -> Result<Outcome> {
    let config = arguments.source.with_role(Role::Console).config()?;
    telemetry::init(verbose, "info", config.log);
    if arguments.open {
        let address = config.console.address();
        tokio::spawn(open(address));
    }
    daemon::run(config, serve).await.map(|()| Outcome::Done)
}

/// Serves the console with the functions of the command line.
fn serve(_: Role, context: RoleContext) -> BoxFuture<'static, Result<()>> {
    let config = &context.config;
    let places = allot_console::Places {
        realm: config.realm.clone(),
        realm_dir: context.dir(),
        book: config.accounts.book.clone(),
        accounts_dir: paths::own_dir(config),
        compaction: config.compaction.root.clone(),
        wait_replicas: config.conference.wait_replicas,
        wait: config.conference.wait,
    };
    let operations = ConsoleOperations {
        config: config.as_ref().clone(),
        coordinator: context.process.coordinator.clone(),
    };
    let settings = config.console.clone();
    allot_console::run(context.process, settings, places, Box::new(operations)).boxed()
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
