//! `allot units`: lists and drains media units, and ends the mass-failure guard.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::session::{Changing, connect};
use crate::outcome::Outcome;
use crate::sources::{Confirm, RealmSource};
use crate::table::{print, print_one};
use crate::terminal::{errln, write};
use allot_client::{RealmStore, Record};

/// Arguments of `allot units`; without a subcommand the units are listed.
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

/// The commands that change units.
#[derive(Debug, Subcommand)]
enum Command {
    /// Place nothing new on a unit.
    Drain {
        /// Identity of the unit.
        cmu: String,
        /// Also move its conferences away; at most 1000 a call.
        #[arg(long)]
        r#move: bool,
        #[command(flatten)]
        confirm: Confirm,
    },
    /// Place conferences on a drained unit again.
    Undrain {
        /// Identity of the unit.
        cmu: String,
    },
    /// End the mass-failure guard, which holds because many units were silent at once.
    LiftGuard,
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

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let Arguments { command, source, json } = arguments;
    match command {
        None => list(&connect(&source).await?, json).await,
        Some(Command::Drain { cmu, r#move, confirm }) => {
            let mut changing = Changing::connect(&source, &confirm).await?;
            let mut drain = changing.store.begin("CMU.DRAIN");
            drain.arg(cmu);
            if r#move {
                drain.arg("MOVE");
            }
            let record = Record::read(changing.store.ask(&drain).await?)?;
            changing.confirm().await;
            print_one(&record, json).map(|()| Outcome::Done)
        }
        Some(Command::Undrain { cmu }) => {
            let store = connect(&source).await?;
            let record = Record::read(store.ask(store.begin("CMU.DRAIN").arg(cmu).arg("OFF")).await?)?;
            print_one(&record, json).map(|()| Outcome::Done)
        }
        Some(Command::LiftGuard) => lift_guard(&connect(&source).await?).await,
    }
}

async fn list(store: &RealmStore, json: bool) -> Result<Outcome> {
    print(&store.unit_records().await?, &COLUMNS, json)?;
    let guard = store.stream("guard");
    let units: Option<String> = store.ask(redis::cmd("HGET").arg(&guard).arg("units")).await?;
    if let Some(units) = units.filter(|_| !json) {
        write(&format!("\nThe mass-failure guard holds: {units}\n`allot units lift-guard` lifts it.\n"))?;
    }
    Ok(Outcome::Done)
}

async fn lift_guard(store: &RealmStore) -> Result<Outcome> {
    if !store.lift_guard().await? {
        errln!("allot: the mass-failure guard does not hold");
        return Ok(Outcome::CheckFailed);
    }
    Ok(Outcome::Done)
}
