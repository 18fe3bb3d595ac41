//! `allotd conference`: creates, ends, shows and moves conferences.

use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};

use super::session::{Changing, connect};
use crate::cli::outcome::Outcome;
use crate::cli::table::{print, print_one};
use crate::cli::terminal::write;
use crate::config::{Confirm, RealmSource};
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
    /// Accept schedulers of earlier terms again, after ZooKeeper was rebuilt.
    Unclaim(Target),
}

/// The realm, and the format of the output.
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    source: RealmSource,
    /// Print JSON.
    #[arg(long)]
    json: bool,
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

/// Arguments of `allotd conference create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Number of the conference; `*` with --from.
    e164: String,
    /// Call a number for it from the pool at this key.
    #[arg(long, value_name = "POOL")]
    from: Option<String>,
    /// End of the conference: a time (2026-11-21T18:00:00Z) or a length of time from now (90m).
    #[arg(long, value_parser = end)]
    end: Option<u64>,
    /// Room that the conference takes.
    #[arg(long)]
    size: Option<u32>,
    /// Licences that the conference takes.
    #[arg(long)]
    licences: Option<u32>,
    /// Priority; conferences of greater priority are recovered first.
    #[arg(long, allow_hyphen_values = true)]
    priority: Option<i64>,
    /// Zone of the unit that runs the conference.
    #[arg(long)]
    zone: Option<String>,
    /// End it, rather than open it on another unit, if its unit is lost.
    #[arg(long)]
    no_recover: bool,
    /// Id of the request. A repeated request with the same id returns the same conference.
    #[arg(long)]
    request: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    realm: Target,
}

/// Arguments of `allotd conference list`.
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

/// Arguments of `allotd conference plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Print the plan for the case that this unit died now.
    #[arg(long, value_name = "CMU")]
    down: Option<String>,
    #[command(flatten)]
    realm: Target,
}

/// Arguments of `allotd conference move`.
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
        Command::Create(arguments) => create(arguments).await,
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
        Command::Plan(arguments) => {
            let store = connect(&arguments.realm.source).await?;
            let records = store.plan(arguments.down.as_deref()).await?;
            print(&records, &PLAN, arguments.realm.json).map(|()| Outcome::Done)
        }
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
        Command::Unclaim(realm) => {
            let store = connect(&realm.source).await?;
            let mut command = store.begin("CONF.TERM");
            command.arg(0).arg("operator").arg("FORCE");
            let record = Record::read(store.ask(&command).await?)?;
            print_one(&record, realm.json).map(|()| Outcome::Done)
        }
    }
}

async fn create(arguments: Create) -> Result<Outcome> {
    let mut changing = Changing::connect(&arguments.realm.source, &arguments.confirm).await?;
    let mut command = changing.store.begin("CONF.CREATE");
    command.arg(&arguments.e164);
    let numbers = [
        ("END", arguments.end.map(|end| end as i64)),
        ("SIZE", arguments.size.map(i64::from)),
        ("LICENCES", arguments.licences.map(i64::from)),
        ("PRIORITY", arguments.priority),
    ];
    for (option, number) in numbers {
        if let Some(number) = number {
            command.arg(option).arg(number);
        }
    }
    let texts = [("FROM", &arguments.from), ("ZONE", &arguments.zone), ("REQUEST", &arguments.request)];
    for (option, text) in texts {
        if let Some(text) = text {
            command.arg(option).arg(text);
        }
    }
    if arguments.no_recover {
        command.arg("NORECOVER");
    }
    let record = Record::read(changing.store.ask(&command).await?)?;
    changing.confirm().await;
    print_one(&record, arguments.realm.json).map(|()| Outcome::Done)
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

/// A time, or a length of time from now, as milliseconds since 1970.
fn end(text: &str) -> Result<u64> {
    let time = match humantime::parse_rfc3339_weak(text) {
        Ok(time) => time,
        Err(_) => humantime::parse_duration(text)
            .ok()
            .and_then(|length| SystemTime::now().checked_add(length))
            .ok_or_else(|| {
                anyhow!("write a time, 2026-11-21T18:00:00Z, or a length of time from now, 90m")
            })?,
    };
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Ok(since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_time_or_a_length() {
        assert_eq!(end("2023-11-14T22:13:20Z").unwrap(), 1_700_000_000_000);
        let hour = end("1h").unwrap();
        assert!(hour > allot_runtime::time::now_ms() + 3_500_000);
        assert!(end("soon").unwrap_err().to_string().contains("90m"));
    }
}
