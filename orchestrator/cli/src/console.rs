//! `allot console`: serves the web console in a process of its own, and opens it in a browser.

use std::path::Path;
use std::process::{Command, Stdio};

use allot_compaction::TaskClient;
use allot_console::{Keys, Section, Settings};
use allot_runtime::telemetry;
use allotd::config::{Source, load, read};
use allotd::daemon::{self, Part};
use allotd::roles::accounts::paths::{Paths, own_dir};
use allotd::roles::context::RoleContext;
use clap::Args;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::failure::Result;
use crate::terminal;

/// Arguments of `allot console`: its own settings, and those of `allotd run`, of which it needs some.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Open the console in the browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten, next_help_heading = "Console")]
    given: Section,
}

/// The section of a file that the daemon does not read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    console: Section,
}

/// Serves the console until a signal ends the process.
pub(crate) async fn run(verbose: u8, arguments: Arguments) -> Result {
    let Arguments { open: opens, source, given } = arguments;
    let given = over_file(given, source.config.as_deref())?;
    let config = load(source.given, source.config.as_deref())?;
    let settings = Settings::of(&given, &config.servers)?;
    settings.check()?;
    telemetry::init(verbose, "info", config.log);
    if opens {
        tokio::spawn(open(settings.address()));
    }
    let part = Part { name: "console", run: Box::new(move |context| serve(context, settings)) };
    Ok(daemon::run(config, vec![part]).await?)
}

/// The settings of the console; what is not given is taken from the file.
fn over_file(given: Section, file: Option<&Path>) -> anyhow::Result<Section> {
    let Some(path) = file else { return Ok(given) };
    Ok(given.over(read::<File>(path)?.console))
}

/// Serves the console with these settings.
fn serve(context: RoleContext, settings: Settings) -> BoxFuture<'static, anyhow::Result<()>> {
    let config = &context.config;
    let keys = Keys {
        realm: config.realm.clone(),
        book: config.accounts.book.clone(),
        accounts_notify: Paths::new(&config.accounts.root).notify(),
        elections: [("scheduler", context.dir()), ("accounts", own_dir(config))]
            .map(|(name, dir)| (name, format!("{dir}/election"))),
        wait_replicas: config.scheduler.wait_replicas,
        wait: config.scheduler.wait,
    };
    let tasks = || TaskClient::new(context.coordinator.clone(), config.compaction.clone());
    let tasks = (!context.standalone).then(tasks);
    allot_console::run(context.process, settings, keys, tasks).boxed()
}

/// Opens an address in the browser, once the console answers there.
async fn open(address: String) {
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = Command::new(program).arg(&address).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = opened {
        terminal::note(&format!("allot: {program} did not start ({error}); open {address} in a browser"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags that a command line gives.
    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        given: Section,
    }

    #[test]
    fn every_setting_of_the_section_is_read_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("allot.toml");
        let example = format!("[realm]\nkey = \"k\"\n{}", Section::example().replace("#:", ""));
        std::fs::write(&path, example).unwrap();
        let line = ["console", "--console-listen", "127.0.0.1:1"];
        let given = over_file(<Cli as clap::Parser>::parse_from(line).given, Some(&path)).unwrap();
        assert_eq!(given.listen.map(|address| address.port()), Some(1));
        assert!(!format!("{given:?}").contains("None"), "{given:?}");
        std::fs::write(&path, "[console]\nlisten = \"127.0.0.1:1\"\nopen = true").unwrap();
        assert!(format!("{:#}", over_file(Section::default(), Some(&path)).unwrap_err()).contains("line 3"));
    }
}
