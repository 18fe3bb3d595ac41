//! `allotd units`.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::table::{print, print_one, write};
use crate::cli::{Global, Outcome};
use crate::conference::LIFT;
use crate::config::RealmSource;
use crate::store::Record;

/// What to do with units; list them, if nothing else is said.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    source: RealmSource,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// More than a list.
#[derive(Debug, Subcommand)]
enum Command {
    /// Place nothing new on a unit.
    Drain {
        /// Its identity.
        cmu: String,
        /// Also move its conferences away; at most 1000 a call.
        #[arg(long)]
        r#move: bool,
    },
    /// Place conferences on a drained unit again.
    Undrain {
        /// Its identity.
        cmu: String,
    },
    /// Lift the brake that holds because many units were silent at once.
    ReleaseBrake,
}

const COLUMNS: [(&str, &str); 8] = [
    ("cmu", "unit"),
    ("zone", "zone"),
    ("state", "state"),
    ("conferences", "conferences"),
    ("used", "used"),
    ("capacity", "capacity"),
    ("lease_ends", "lease until"),
    ("joined", "joined"),
];

/// Does it.
pub(crate) async fn run(global: &Global, arguments: Arguments) -> Result<Outcome> {
    let store = super::connect(global, &arguments.source).await?;
    let brake = store.stream("brake");
    let mut command = store.begin("CMU.DRAIN");
    match &arguments.command {
        None => {
            print(&store.unit_records().await?, &COLUMNS, arguments.json)?;
            let units: Option<String> = store.ask(redis::cmd("HGET").arg(&brake).arg("units")).await?;
            if let Some(units) = units.filter(|_| !arguments.json) {
                write(&format!("\nThe brake holds: {units}\n`allotd units release-brake` lifts it.\n"))?;
            }
            return Ok(Outcome::Done);
        }
        Some(Command::Drain { cmu, r#move }) => {
            command.arg(cmu);
            if *r#move {
                command.arg("MOVE");
            }
        }
        Some(Command::Undrain { cmu }) => {
            command.arg(cmu).arg("OFF");
        }
        Some(Command::ReleaseBrake) => {
            let since: Option<u64> = store.ask(redis::cmd("HGET").arg(&brake).arg("since")).await?;
            let Some(since) = since else {
                eprintln!("allotd: the brake does not hold");
                return Ok(Outcome::CheckFailed);
            };
            // Which brake is meant, lest the next one be lifted with it.
            store.ask::<u64>(redis::cmd("HSET").arg(&brake).arg(LIFT).arg(since)).await?;
            return Ok(Outcome::Done);
        }
    }
    print_one(&Record::read(store.ask(&command).await?)?, arguments.json).map(|()| Outcome::Done)
}
