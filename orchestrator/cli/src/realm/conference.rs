//! `allot conference`: ends, shows and moves conferences, and the list of its subcommands.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::create::{self, Create};
use super::records::{self, Records};
use super::session::{Changing, Target, connect};
use super::settings::{self, Settings};
use crate::outcome::Outcome;
use crate::sources::Confirm;
use crate::table::{lay, print, print_one};
use crate::terminal::write;
use allot_client::Record;

/// The commands for conferences.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a conference: Redis chooses a unit and notifies it.
    Create(Create),
    /// End a conference.
    Release(Release),
    /// List conferences.
    List(List),
    /// Show a conference, its details and its assignments.
    Show(One),
    /// Print which conferences wait and why, or to which units the conferences of a unit would go if it died now.
    Plan(Plan),
    /// List the assignments of a conference, each with its end.
    History(One),
    /// Move a conference to another unit. The old unit runs it until the new unit does.
    Move(Move),
    /// Write a record of each conference that has ended, with its segments, each record once.
    Records(Records),
    /// Print the settings of the realm, or change them.
    Settings(Settings),
    /// Accept schedulers of earlier terms again, after ZooKeeper was rebuilt.
    Unclaim(Target),
}

/// Arguments that name one conference.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// Number of the conference.
    e164: String,
    #[command(flatten)]
    realm: Target,
}

/// The end of a conference.
#[derive(Debug, Args)]
pub(crate) struct Release {
    /// Number of the conference.
    e164: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    realm: Target,
}

/// Arguments of `allot conference list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// List only conferences in this state: waiting, creating, open, pending, ended.
    #[arg(long)]
    state: Option<String>,
    /// List only conferences of this unit.
    #[arg(long)]
    cmu: Option<String>,
    #[command(flatten)]
    realm: Target,
}

/// Arguments of `allot conference plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Print the plan for the case that this unit died now. For ANY: for each unit, how many of its conferences would
    /// find room on others.
    #[arg(long, value_name = "CMU|ANY")]
    down: Option<String>,
    #[command(flatten)]
    realm: Target,
}

/// Arguments of `allot conference move`.
#[derive(Debug, Args)]
pub(crate) struct Move {
    /// The conference's number.
    e164: String,
    /// Target unit; without it, the best one.
    #[arg(long, value_name = "CMU")]
    to: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    realm: Target,
}

const COLUMNS: [(&str, &str); 7] = [
    ("e164", "number"),
    ("state", "state"),
    ("cmu", "unit"),
    ("epoch", "epoch"),
    ("opened", "opened"),
    ("end", "end"),
    ("cause", "cause"),
];
const PLAN: [(&str, &str); 4] =
    [("e164", "number"), ("cmu", "goes to"), ("why", "waits for"), ("next_retry", "next try")];
const LOSSES: [(&str, &str); 5] = [
    ("cmu", "unit"),
    ("conferences", "conferences"),
    ("placed", "find room"),
    ("no_room", "no room"),
    ("ending", "would end"),
];
const HISTORY: [(&str, &str); 6] = [
    ("epoch", "epoch"),
    ("cmu", "unit"),
    ("from", "from"),
    ("opened", "opened"),
    ("to", "to"),
    ("how", "how"),
];

/// Conferences asked for at a time.
const PAGE: u32 = 1000;

/// Runs the command.
pub(crate) async fn run(command: Command) -> Result<Outcome> {
    match command {
        Command::Create(arguments) => create::run(&arguments).await,
        Command::Records(arguments) => records::run(&arguments).await,
        Command::Release(arguments) => {
            let mut changing = Changing::connect(&arguments.realm.source, &arguments.confirm).await?;
            let release = changing.store.begin("CONF.RELEASE").arg(&arguments.e164).clone();
            let record = Record::read(changing.store.ask(&release).await?)?;
            // A failover that loses the release would open the conference again when its unit is lost.
            changing.confirm().await;
            print_one(&record, arguments.realm.json).map(|()| Outcome::Done)
        }
        Command::List(arguments) => list(arguments).await,
        Command::Show(one) => show(one).await,
        Command::Plan(arguments) => plan(&arguments).await,
        Command::History(one) => {
            let store = connect(&one.realm.source).await?;
            print(&store.history(&one.e164).await?, &HISTORY, one.realm.json).map(|()| Outcome::Done)
        }
        Command::Move(arguments) => {
            let mut changing = Changing::connect(&arguments.realm.source, &arguments.confirm).await?;
            let mut command = changing.store.begin("CONF.MOVE");
            command.arg(&arguments.e164);
            if let Some(to) = &arguments.to {
                command.arg("TO").arg(to);
            }
            let record = Record::read(changing.store.ask(&command).await?)?;
            changing.confirm().await;
            print_one(&record, arguments.realm.json).map(|()| Outcome::Done)
        }
        Command::Settings(arguments) => settings::run(arguments).await,
        Command::Unclaim(realm) => {
            let store = connect(&realm.source).await?;
            let mut command = store.begin("CONF.TERM");
            command.arg(0).arg("operator").arg("FORCE");
            let record = Record::read(store.ask(&command).await?)?;
            print_one(&record, realm.json).map(|()| Outcome::Done)
        }
    }
}

async fn plan(arguments: &Plan) -> Result<Outcome> {
    let store = connect(&arguments.realm.source).await?;
    let (down, json) = (arguments.down.as_deref(), arguments.realm.json);
    if !down.is_some_and(|cmu| cmu.eq_ignore_ascii_case("ANY")) {
        return print(&store.plan(down).await?, &PLAN, json).map(|()| Outcome::Done);
    }
    let (mut records, mut cursor) = (Vec::new(), 0);
    loop {
        let (next, page) = store.loss_page(cursor).await?;
        records.extend(page);
        if next == 0 {
            return print_losses(&records, json).map(|()| Outcome::Done);
        }
        cursor = next;
    }
}

fn print_losses(records: &[Record], json: bool) -> Result<()> {
    if json {
        return print(records, &LOSSES, json);
    }
    // `ending` is a count here; in the record of a conference it is a time.
    let mut rows = vec![LOSSES.map(|(_, title)| title.to_owned()).to_vec()];
    rows.extend(records.iter().map(|record| LOSSES.map(|(field, _)| record.text(field)).to_vec()));
    write(&lay(&rows))
}

async fn list(arguments: List) -> Result<Outcome> {
    let store = connect(&arguments.realm.source).await?;
    let mut records = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let (state, cmu) = (arguments.state.as_deref(), arguments.cmu.as_deref());
        let (next, mut page) = store.conference_page(cursor, PAGE, state, cmu).await?;
        records.append(&mut page);
        if next == 0 {
            break;
        }
        cursor = next;
    }
    print(&records, &COLUMNS, arguments.realm.json).map(|()| Outcome::Done)
}

async fn show(one: One) -> Result<Outcome> {
    let store = connect(&one.realm.source).await?;
    let record = Record::read(store.ask(store.begin("CONF.INFO").arg(&one.e164)).await?)?;
    let details = Record::read(store.ask(store.begin("CONF.GET").arg(&one.e164)).await?)?;
    let history = store.history(&one.e164).await?;
    if one.realm.json {
        let history: Vec<_> = history.iter().map(Record::json).collect();
        let all =
            serde_json::json!({ "conference": record.json(), "details": details.json(), "history": history });
        return write(&format!("{all}\n")).map(|()| Outcome::Done);
    }
    print_one(&record, false)?;
    write("\ndetails\n")?;
    print_one(&details, false)?;
    write("\nassignments\n")?;
    print(&history, &HISTORY, false).map(|()| Outcome::Done)
}
