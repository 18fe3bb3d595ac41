//! `allot accounts settings`, `module`, `delete-module`, `department`, `tariff`: change settings of a book, one object
//! at a time. `import` changes many modules at once.

use allot_client::{BookChanges, ModuleChanges};
use anyhow::{Result, bail};
use clap::Args;

use super::session;
use crate::outcome::Outcome;
use crate::sources::BookSource;
use crate::table;
use crate::terminal::outln;
use allot_runtime::settings::Span;
use allot_tools::accounts::file;

/// Most accounts in one command.
const CHUNK: usize = 1000;

/// Settings of the book.
#[derive(Debug, Args)]
pub(crate) struct BookArguments {
    #[command(flatten)]
    source: BookSource,
    /// Most instructions of an account in a month; 0 for no limit.
    #[arg(long)]
    cap: Option<u64>,
    /// Shortest time between two moves of an account.
    #[arg(long)]
    dwell: Option<Span>,
    /// Most moves of an account in a day.
    #[arg(long)]
    max_moves: Option<u32>,
    /// Least cost that a move of rebalancing must avoid.
    #[arg(long, value_name = "COST")]
    margin: Option<String>,
    /// Modules exchange accounts if so many levels of their departments are the same; 0 for all levels.
    #[arg(long, value_name = "N")]
    lend_level: Option<u32>,
    /// About how many entries the event stream keeps; 0 for no stream.
    #[arg(long, value_name = "N")]
    events: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Settings of a module.
#[derive(Debug, Args)]
pub(crate) struct ModuleArguments {
    module: String,
    #[command(flatten)]
    source: BookSource,
    /// Department of the module; a new module needs one.
    #[arg(long)]
    department: Option<String>,
    /// How many instances hold a share at once; 1 for a new module.
    #[arg(long, value_name = "N")]
    places: Option<u32>,
    /// Weight when accounts without a module are distributed.
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Accounts that are kept free for replacements.
    #[arg(long, value_name = "N")]
    reserve: Option<u32>,
    /// Accounts that an active instance keeps.
    #[arg(long, value_name = "N")]
    min: Option<u32>,
    /// How the accounts are divided: `places` or `present`.
    #[arg(long)]
    share: Option<String>,
    /// How long an account is free before it is lent.
    #[arg(long)]
    lend: Option<Span>,
    /// Most instructions in a month; 0 for no limit.
    #[arg(long)]
    cap: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A module to delete.
#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    module: String,
    #[command(flatten)]
    source: BookSource,
}

/// The budget of a department.
#[derive(Debug, Args)]
pub(crate) struct DepartmentArguments {
    department: String,
    #[command(flatten)]
    source: BookSource,
    /// Most instructions in a month, with the departments in it; 0 for no limit.
    #[arg(long)]
    cap: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A tariff and its accounts.
#[derive(Debug, Args)]
pub(crate) struct TariffArguments {
    #[arg(required = true, value_name = "ACCOUNT")]
    accounts: Vec<String>,
    #[command(flatten)]
    source: BookSource,
    /// Instructions in a month at the flat price.
    #[arg(long)]
    quota: u64,
    /// Steps beyond the quota, as in a file: `150:0.1 1000:0.5`.
    #[arg(long, default_value = "", value_name = "UPTO:PRICE ...")]
    tiers: String,
}

/// Changes settings of the book, and prints it.
pub(super) async fn book(arguments: &BookArguments) -> Result<Outcome> {
    let (_, book) = session::open(&arguments.source).await?;
    let changes = BookChanges {
        cap: arguments.cap,
        dwell: arguments.dwell.map(|dwell| dwell.0),
        max_moves: arguments.max_moves,
        margin: arguments.margin.clone(),
        lend_level: arguments.lend_level,
        events: arguments.events,
    };
    // Without changes the book is not created.
    let record =
        if changes == BookChanges::default() { book.info().await? } else { book.configure(&changes).await? };
    table::print_one(&record, arguments.json)?;
    Ok(Outcome::Done)
}

/// Defines a module or changes it, and prints it.
pub(super) async fn module(arguments: &ModuleArguments) -> Result<Outcome> {
    let (config, book) = session::open(&arguments.source).await?;
    let known = book.module(&arguments.module).await?;
    let department = match (&arguments.department, &known) {
        (Some(department), _) => department.clone(),
        (None, Some(known)) => known.get("department")?,
        (None, None) => bail!("there is no module {}; a new one needs --department", arguments.module),
    };
    let places = match (arguments.places, &known) {
        (Some(places), _) => places,
        (None, Some(known)) => known.get("instances")?,
        (None, None) => 1,
    };
    let changes = ModuleChanges {
        department,
        places,
        weight: arguments.weight,
        reserve: arguments.reserve,
        min: arguments.min,
        share: arguments.share.clone(),
        lend: arguments.lend.map(|lend| lend.0),
        cap: arguments.cap,
    };
    let record = book.set_module(&arguments.module, &changes).await?;
    session::notify(&config).await?;
    table::print_one(&record, arguments.json)?;
    Ok(Outcome::Done)
}

/// Deletes a module.
pub(super) async fn delete_module(arguments: &DeleteArguments) -> Result<Outcome> {
    let (config, book) = session::open(&arguments.source).await?;
    book.delete_module(&arguments.module).await?;
    session::notify(&config).await?;
    outln!("module {} is deleted", arguments.module);
    Ok(Outcome::Done)
}

/// Sets the budget of a department, and prints it.
pub(super) async fn department(arguments: &DepartmentArguments) -> Result<Outcome> {
    let (_, book) = session::open(&arguments.source).await?;
    let record = book.cap_department(&arguments.department, arguments.cap).await?;
    table::print_one(&record, arguments.json)?;
    Ok(Outcome::Done)
}

/// Gives accounts another tariff.
pub(super) async fn tariff(arguments: &TariffArguments) -> Result<Outcome> {
    let tariff = file::tariff(arguments.quota, &arguments.tiers).map_err(anyhow::Error::msg)?;
    let (_, book) = session::open(&arguments.source).await?;
    let mut changed = 0;
    for some in arguments.accounts.chunks(CHUNK) {
        changed += book.set_tariff(tariff.quota, &tariff.steps()?, some).await?;
    }
    outln!("{changed} accounts have another tariff now");
    Ok(Outcome::Done)
}
