//! `allot unit`: lists and drains media units, and says what their loss would mean.

use std::time::Duration;

use allot_client::{PlannedMove, RealmStore, Record};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::arguments::Realm;
use crate::complete;
use crate::context::{Context, values};
use crate::failure::{Failure, Result, counted};
use crate::output::{columns, field, short};
use crate::stores::{self, Changing, guard};
use crate::watch::watch;

/// The verbs of media units.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List media units
    #[command(alias = "ls")]
    List(List),
    /// Show a unit
    Get(One),
    /// Place nothing new on a unit or on a host, and with --move move its conferences away
    Drain(Drain),
    /// Place conferences on a drained unit or host again
    Undrain(Place),
    /// Move conferences until the used share of the units is even, a few at a time; --dry-run shows the moves
    Rebalance(Rebalance),
    /// Show where the conferences of a unit would go if it died now; of any unit: how many would find room
    SimulateLoss(One),
}

/// Arguments that name one unit.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The unit: its short name, or its identity
    #[arg(add = ArgValueCompleter::new(complete::units))]
    unit: String,
    #[command(flatten)]
    realm: Realm,
}

/// Arguments that name one unit, or a host.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("place").required(true)))]
pub(crate) struct Place {
    /// The unit: its short name, or its identity
    #[arg(group = "place", add = ArgValueCompleter::new(complete::units))]
    unit: Option<String>,
    /// The host, which may have no unit now
    #[arg(long, group = "place", value_name = "HOST")]
    host: Option<String>,
    #[command(flatten)]
    realm: Realm,
}

/// Arguments of `unit list`.
#[derive(Debug, Default, Args)]
pub(crate) struct List {
    /// Follow the list
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    realm: Realm,
}

/// Arguments of `unit drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    place: Place,
    /// Also move its conferences away, at most 1000 in one call
    #[arg(long)]
    r#move: bool,
}

/// Arguments of `unit rebalance`.
#[derive(Debug, Args)]
pub(crate) struct Rebalance {
    /// The most conferences that move at a time
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    at_once: u32,
    /// The most conferences that are moved in all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_moves: u32,
    #[command(flatten)]
    realm: Realm,
}

columns! {
    UNITS = unit Unit = "cmu", state Text, conferences Number, used Number, capacity Number, zone Text, tags Text,
        failures Number, backoff_until Time, lease_ends Time, joined Time wide, draining Flag wide, load Number wide,
        lease_ms Span = "lease" wide, machine Text wide, conflict Text wide, identity Text = "cmu" wide;
    HOST = host Text, unit Unit = "cmu", draining Flag, moves Number, left Number;
    PLAN = number Text = "e164", goes_to Unit = "cmu", waits_for Text = "why", next_retry Time;
    MOVES = number Text = "e164", from Unit, to Unit;
    LOSSES = unit Unit = "cmu", conferences Number, find_room Number = "placed", no_room Number,
        would_end Number = "ending";
}

async fn record(store: &RealmStore, identity: &str) -> Result<Value> {
    let units = values(&store.unit_records().await?);
    let found = units.into_iter().find(|unit| unit["cmu"] == identity);
    found.ok_or_else(|| Failure::absent(format!("there is no unit '{identity}'")))
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List(List { watch: follows, realm }) => {
            let store = realm.open(context).await?;
            if follows {
                return watch(context, UNITS, async || Ok(values(&store.unit_records().await?))).await;
            }
            let units = values(&store.unit_records().await?);
            if let Some(units) = guard(&store).await? {
                context
                    .out
                    .note(&format!("the mass-failure guard holds: {units}\nallot realm lift-guard lifts it"));
            }
            for unit in &units {
                if let Some(machine) = unit["conflict"].as_str() {
                    let name = short(unit["cmu"].as_str().unwrap_or_default());
                    context.out.note(&format!(
                        "machine '{machine}' has a unit of the same host as {name}, which is refused; give one of the two \
                         another media-unit.host"
                    ));
                }
            }
            context.out.list(UNITS, &units, "no unit has joined the realm")
        }
        Verb::Get(One { unit, realm }) => {
            let store = realm.open(context).await?;
            let identity = stores::unit(&store, &unit).await?;
            context.out.get(UNITS, &record(&store, &identity).await?, &[])
        }
        Verb::Drain(Drain { place: Place { unit, host, realm }, r#move }) => {
            let mut changing = Changing::connect(context, realm.key()).await?;
            match (unit, host) {
                (Some(unit), _) => drain(context, &mut changing, &unit, r#move).await,
                (None, host) => drain_host(context, &mut changing, &host.unwrap_or_default(), r#move).await,
            }
        }
        Verb::Undrain(Place { unit, host, realm }) => {
            let store = realm.open(context).await?;
            let mut undrain = store.begin("CMU.DRAIN");
            let (name, columns) = if let Some(unit) = unit {
                let identity = stores::unit(&store, &unit).await?;
                undrain.arg(&identity);
                (format!("unit {}", short(&identity)), UNITS)
            } else {
                let host = host.unwrap_or_default();
                undrain.arg("HOST").arg(&host);
                (format!("host {host}"), HOST)
            };
            context.proceed(&format!("place conferences on {name} again"))?;
            let record = Record::read(store.ask(undrain.arg("OFF")).await?)?.json();
            context.out.done(&format!("{name} takes conferences again"), columns, &record)
        }
        Verb::Rebalance(arguments) => rebalance(context, &arguments).await,
        Verb::SimulateLoss(One { unit, realm }) => {
            let store = realm.open(context).await?;
            if !unit.eq_ignore_ascii_case("any") {
                let identity = stores::unit(&store, &unit).await?;
                let plan = values(&store.plan(Some(&identity)).await?);
                return context.out.list(PLAN, &plan, "the unit has no conferences");
            }
            let page = async |cursor| Ok(store.loss_page(cursor).await?);
            context.out.pages(LOSSES, "no unit has joined the realm", page).await
        }
    }
}

/// The time between two looks at the conferences that move.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The most moves that are shown by `--dry-run`.
const MOST_SHOWN: u32 = 1000;

async fn rebalance(context: &Context, arguments: &Rebalance) -> Result {
    let mut changing = Changing::connect(context, arguments.realm.key()).await?;
    let rows = |moves: &[PlannedMove]| -> Vec<Value> {
        let row = |one: &PlannedMove| json!({"e164": String::from_utf8_lossy(&one.e164), "from": one.from, "to": one.to});
        moves.iter().map(row).collect()
    };
    let none = "the used share of the units is even";
    if context.dry_run {
        let most = arguments.max_moves.clamp(1, MOST_SHOWN);
        return context.out.list(MOVES, &rows(&changing.store.rebalance(most, true).await?), none);
    }
    let mut moved = context.out.rows(MOVES);
    let mut left = arguments.max_moves;
    while left > 0 {
        let moves = changing.store.rebalance(arguments.at_once.min(left), false).await?;
        changing.confirm(context).await?;
        if moves.is_empty() {
            break;
        }
        left = left.saturating_sub(moves.len() as u32);
        for row in rows(&moves) {
            moved.push(&row)?;
        }
        moved.flush()?;
        for one in &moves {
            while is_moving(&changing.store, one).await? {
                sleep(LOOK_INTERVAL).await;
            }
        }
    }
    moved.end(none)
}

/// Whether the target of a move has not opened the conference yet, and the move goes on.
async fn is_moving(store: &RealmStore, planned: &PlannedMove) -> Result<bool> {
    match store.ask(store.begin("CONF.INFO").arg(&planned.e164)).await {
        Ok(record) => Ok(Record::read(record)?.text("moving_to") == planned.to),
        Err(error) if error.code() == Some("NOTFOUND") => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Drains a host, on which no unit need run.
async fn drain_host(context: &Context, changing: &mut Changing, host: &str, moves: bool) -> Result {
    let mut command = changing.store.begin("CMU.DRAIN");
    command.arg("HOST").arg(host);
    if moves {
        context.confirm(&format!("drain host {host} and move its conferences away")).await?;
        command.arg("MOVE");
    } else {
        context.proceed(&format!("place nothing new on host {host}"))?;
    }
    let reply = Record::read(changing.store.ask(&command).await?)?;
    changing.confirm(context).await?;
    let mut record = reply.json();
    let said = if moves {
        if let Some(fields) = record.as_object_mut() {
            fields.extend([("host".to_owned(), json!(host)), ("draining".to_owned(), json!(1))]);
        }
        let (moved, left) = (counted(reply.get::<u64>("moves")?, "conference"), reply.text("left"));
        format!("host {host} is draining: {moved} began to move, {left} left")
    } else {
        format!("host {host} is draining: its units get no new conferences")
    };
    context.out.done(&said, HOST, &record)
}

async fn drain(context: &Context, changing: &mut Changing, unit: &str, moves: bool) -> Result {
    let identity = stores::unit(&changing.store, unit).await?;
    let before = record(&changing.store, &identity).await?;
    let conferences = counted(field(&before, "conferences").as_u64().unwrap_or(0), "conference");
    let name = short(&identity).to_owned();
    if moves {
        context.confirm(&format!("drain {name} and move its {conferences} away")).await?;
    } else {
        context.proceed(&format!("place nothing new on {name}, which keeps {conferences}"))?;
    }
    let mut command = changing.store.begin("CMU.DRAIN");
    command.arg(&identity);
    if moves {
        command.arg("MOVE");
    }
    let reply = Record::read(changing.store.ask(&command).await?)?;
    changing.confirm(context).await?;
    let after = record(&changing.store, &identity).await?;
    let said = if moves {
        let (moved, left) = (counted(reply.get::<u64>("moves")?, "conference"), reply.text("left"));
        format!("unit {name} is draining: {moved} began to move, {left} left")
    } else {
        format!("unit {name} is draining: it gets no new conferences")
    };
    context.out.done(&said, UNITS, &after)
}
