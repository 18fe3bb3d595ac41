//! `allot conference`: creates, shows, moves and ends conferences.

use std::time::Duration;

use allot_client::{CreateRequest, RealmStore, Record};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use redis::Value as Reply;
use serde_json::{Value, json};

use crate::arguments::Realm;
use crate::context::{Context, values};
use crate::failure::{Failure, Result};
use crate::output::{Section, columns, short};
use crate::stores::{self, Changing};
use crate::watch::watch;
use crate::{complete, time, wait};

/// Conferences asked for at a time.
const PAGE: u32 = 1000;

/// The verbs of conferences.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List conferences
    #[command(alias = "ls")]
    List(List),
    /// Show a conference, its details and its assignments
    Get(One),
    /// Create a conference: Redis chooses a unit and notifies it, at once or at --start
    Create(Box<Create>),
    /// Change the planned end of a conference
    Extend(Extend),
    /// Change the room that a conference takes on its unit
    Resize(Resize),
    /// Move a conference to another unit; the old unit runs it until the new unit does. Place a pending conference
    Move(Move),
    /// End a conference
    End(One),
    /// Wait until a conference is open; exit code 1 if it ends instead
    Wait(Wait),
    /// Follow the events of all conferences
    Watch(Realm),
}

/// Arguments that name one conference.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// Number of the conference
    #[arg(value_name = "N")]
    #[arg(add = ArgValueCompleter::new(complete::conferences))]
    number: String,
    #[command(flatten)]
    realm: Realm,
}

/// Arguments of `conference list`.
#[derive(Debug, Default, Args)]
pub(crate) struct List {
    /// Only conferences in this state; ended ones are listed only with it
    #[arg(long, value_parser = ["scheduled", "waiting", "creating", "open", "lost", "pending", "ended"])]
    state: Option<String>,
    /// Only conferences of this unit
    #[arg(long, add = ArgValueCompleter::new(complete::units))]
    unit: Option<String>,
    /// Follow the list
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    realm: Realm,
}

/// Arguments of `conference create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Number of the conference; '*' with --from
    #[arg(value_name = "N")]
    number: String,
    /// Call a number for it from the pool at this key
    #[arg(long, value_name = "KEY", add = ArgValueCompleter::new(complete::pools))]
    from: Option<String>,
    /// Its start, if it is scheduled: 2026-11-21T17:00:00+01:00, or a length of time from now, 1h30m. Room and licences
    /// are reserved until its end
    #[arg(long, value_name = "TIME", value_parser = time::instant, requires = "end", conflicts_with = "until_open")]
    start: Option<i64>,
    /// Its end: 2026-11-21T18:00:00+01:00, or a length of time from now, 1h30m
    #[arg(long, value_name = "TIME", value_parser = time::instant)]
    end: Option<i64>,
    /// Room that it takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    size: Option<u32>,
    /// Licences that it takes
    #[arg(long, value_name = "N")]
    licences: Option<u32>,
    /// Conferences of greater priority are recovered first
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i64>,
    /// Zone of the unit that runs it
    #[arg(long)]
    zone: Option<String>,
    /// Time that it waits for its zone and host, after its unit was lost or with --wait-for-room, before another unit may
    /// take it [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = time::span)]
    zone_fall: Option<Duration>,
    /// Host of the unit that runs it
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Tag that the unit must have; may be repeated
    #[arg(long, value_name = "TAG")]
    require: Vec<String>,
    /// Tag that the unit should have; may be repeated: the more, the better
    #[arg(long, value_name = "TAG")]
    prefer: Vec<String>,
    /// End it, rather than open it on another unit, if its unit is lost
    #[arg(long)]
    no_recover: bool,
    /// Id of the request: a repeated request with the same id returns the same conference
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Wait so long for a unit with room and for licences, if there are none now; exit code 1 if there are none until then
    #[arg(long, value_name = "TIME", conflicts_with_all = ["start", "from"], value_parser = time::span)]
    wait_for_room: Option<Duration>,
    /// Wait until it is open; exit code 1 if it ends instead
    #[arg(long = "wait")]
    until_open: bool,
    /// Time limit of --wait; the conference remains when it has passed
    #[arg(long, value_name = "TIME", requires = "until_open", default_value = "30s", value_parser = time::span)]
    timeout: Duration,
    #[command(flatten)]
    realm: Realm,
}

/// Arguments of `conference extend`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("new_end").required(true)))]
pub(crate) struct Extend {
    #[command(flatten)]
    one: One,
    /// How much later it ends than planned: 30m
    #[arg(long, group = "new_end", value_name = "TIME", value_parser = time::span)]
    by: Option<Duration>,
    /// The new end: 2026-11-21T18:00:00+01:00, or a length of time from now, 1h30m
    #[arg(long, group = "new_end", value_name = "TIME", value_parser = time::ahead)]
    end: Option<i64>,
}

/// Arguments of `conference resize`.
#[derive(Debug, Args)]
pub(crate) struct Resize {
    #[command(flatten)]
    one: One,
    /// Room that it takes from now on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
}

/// Arguments of `conference move`.
#[derive(Debug, Args)]
pub(crate) struct Move {
    #[command(flatten)]
    one: One,
    /// Target unit [default: the best one]
    #[arg(long, value_name = "UNIT", add = ArgValueCompleter::new(complete::units))]
    to: Option<String>,
}

/// Arguments of `conference wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    one: One,
    /// Time limit; the conference remains when it has passed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time::span)]
    timeout: Duration,
}

columns! {
    CONFERENCES = number Text = "e164", state Text, unit Unit = "cmu", start Time, opened Time, end Time, cause Text,
        epoch Text wide, created Time wide, size Number wide, licences Number wide, priority Number wide,
        zone Text wide;
    CONFERENCE = number Text = "e164", state Text, unit Unit = "cmu", epoch Text, origin_epoch Text,
        created Time, start Time, opened Time, end Time, ended Time, cause Text, pending_since Time, attempts Number,
        next_retry Time, moving_to Unit, ending Time, recovering Flag, recoverable Flag, size Number,
        licences Number, priority Number, zone Text, zone_fall_ms Span = "zonefall", host Text = "unit", elsewhere Flag,
        require Text, prefer Text, request Text, pool Text, identity Text;
    DETAILS = name Text, value Text;
    HISTORY = unit Unit = "cmu", how Text, from Time, opened Time, to Time, epoch Text;
    EVENTS = at Time, event Text, number Text = "e164", unit Unit = "cmu", state Text, cause Text,
        epoch Text wide, id Text wide;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List(arguments) => list(context, &arguments).await,
        Verb::Get(One { number, realm }) => get(context, &realm.open(context).await?, &number).await,
        Verb::Create(arguments) => create(context, &arguments).await,
        Verb::Extend(arguments) => extend(context, &arguments).await,
        Verb::Resize(arguments) => resize(context, &arguments).await,
        Verb::Move(arguments) => move_one(context, &arguments).await,
        Verb::End(one) => end(context, &one).await,
        Verb::Wait(Wait { one, timeout }) => {
            let changing = Changing::connect(context, one.realm.key()).await?;
            let record = changing.info(&one.number).await?;
            let open = wait::until_open(context, one.realm.key(), changing, &record, timeout).await?;
            done(context, &open, "is open")
        }
        Verb::Watch(realm) => follow(context, &realm).await,
    }
}

/// Prints one line on a conference that was changed.
fn done(context: &Context, record: &Record, what: &str) -> Result {
    let number = record.text("e164");
    context.out.done(&format!("conference {number} {what}"), CONFERENCE, &record.json())
}

/// A conference in words.
fn described(record: &Record) -> String {
    let (number, state, cmu) = (record.text("e164"), record.text("state"), record.text("cmu"));
    let place = if cmu == "-" { String::new() } else { format!(" on {}", short(&cmu)) };
    format!("conference {number}, which is {state}{place}")
}

async fn list(context: &Context, arguments: &List) -> Result {
    let store = arguments.realm.open(context).await?;
    let unit = match &arguments.unit {
        Some(unit) => Some(stores::unit(&store, unit).await?),
        None => None,
    };
    let page = async |cursor| {
        Ok(store.conference_page(cursor, PAGE, arguments.state.as_deref(), unit.as_deref()).await?)
    };
    if arguments.watch {
        return watch(context, CONFERENCES, async || stores::all(&page).await).await;
    }
    context.out.pages(CONFERENCES, "there are no such conferences", page).await
}

async fn get(context: &Context, store: &RealmStore, number: &str) -> Result {
    let mut record = Record::read(store.ask(store.begin("CONF.INFO").arg(number)).await?)?.json();
    if let Some(fields) = record.as_object_mut() {
        let identity = fields.get("cmu").cloned().unwrap_or_default();
        fields.insert("identity".to_owned(), identity);
    }
    let details = Record::read(store.ask(store.begin("CONF.GET").arg(number)).await?)?;
    let details: Vec<Value> =
        details.names().map(|name| json!({"name": name, "value": details.text(name)})).collect();
    let history = values(&store.history(number).await?);
    let sections = [
        Section { name: "details", columns: DETAILS, rows: &details },
        Section { name: "assignments", columns: HISTORY, rows: &history },
    ];
    context.out.get(CONFERENCE, &record, &sections)
}

async fn create(context: &Context, arguments: &Create) -> Result {
    context.no_dry_run("the creation of a conference")?;
    if arguments.number == "*" && arguments.from.is_none() {
        return Err(Failure::usage("'*' names no pool").hint("--from KEY names the pool of its number"));
    }
    if arguments.start.is_some() && arguments.start >= arguments.end {
        return Err(Failure::usage("--end is not after --start"));
    }
    if arguments.wait_for_room.is_some_and(|limit| limit.is_zero()) {
        return Err(Failure::usage("--wait-for-room 0s waits for nothing"));
    }
    // A repeated request has its answer also when its times are over.
    if arguments.request.is_none() {
        for (option, time) in [("--start", arguments.start), ("--end", arguments.end)] {
            if time.is_some_and(|time| time <= time::now()) {
                return Err(Failure::usage(format!("{option}: this time is over")));
            }
        }
    }
    let mut changing = Changing::connect(context, arguments.realm.key()).await?;
    let request = CreateRequest {
        e164: &arguments.number,
        from: arguments.from.as_deref(),
        start: arguments.start.map(i64::unsigned_abs),
        end: arguments.end.map(i64::unsigned_abs),
        size: arguments.size,
        licences: arguments.licences,
        priority: arguments.priority,
        zone: arguments.zone.as_deref(),
        zone_fall: arguments.zone_fall.map(|fall| fall.as_millis() as u64),
        host: arguments.host.as_deref(),
        require: &arguments.require,
        prefer: &arguments.prefer,
        no_recover: arguments.no_recover,
        request: arguments.request.as_deref(),
    };
    let record = match arguments.wait_for_room {
        None => changing.store.create(&request).await?,
        Some(limit) => changing.create_with_room(&request, limit).await?.ok_or_else(|| {
            let why = format!("no unit had room for conference {} within {limit:?}", arguments.number);
            Failure::no(why).hint("allot unit list shows the room of each unit")
        })?,
    };
    changing.confirm(context).await?;
    if arguments.until_open {
        let open =
            wait::until_open(context, arguments.realm.key(), changing, &record, arguments.timeout).await?;
        return done(context, &open, &format!("is open on {}", short(&open.text("cmu"))));
    }
    if let Some(start) = arguments.start.filter(|_| record.text("state") == "scheduled") {
        return done(context, &record, &format!("is scheduled for {}", context.out.time(start)));
    }
    let (state, unit) = (record.text("state"), record.text("cmu"));
    done(context, &record, &format!("is {state} on {}", short(&unit)))
}

async fn extend(context: &Context, Extend { one, by, end }: &Extend) -> Result {
    let mut changing = Changing::connect(context, one.realm.key()).await?;
    let record = changing.info(&one.number).await?;
    let planned: Option<i64> = record.get("end")?;
    if by.is_some_and(|by| by.is_zero()) {
        return Err(Failure::usage("--by 0s changes nothing"));
    }
    let later = |planned: i64| Some(planned.saturating_add(by.as_ref()?.as_millis() as i64));
    let Some(end) = end.or_else(|| planned.and_then(later)) else {
        let why = format!("{} has no planned end", described(&record));
        return Err(Failure::refused(why).hint("--end TIME sets one"));
    };
    let mut command = changing.store.begin("CONF.EXTEND");
    command.arg(&one.number).arg("END").arg(end);
    // What would be refused is not asked about either.
    changing.store.ask::<Reply>(command.clone().arg("DRYRUN")).await?;
    let until = context.out.time(end);
    let change = format!("set the end {until} for {}", described(&record));
    if planned.is_none_or(|planned| end < planned) {
        let planned = planned.map_or_else(|| "never".to_owned(), |planned| context.out.time(planned));
        context.confirm(&format!("{change} (planned end: {planned})")).await?;
    }
    context.proceed(&change)?;
    let record = Record::read(changing.store.ask(&command).await?)?;
    changing.confirm(context).await?;
    done(context, &record, &format!("ends at {until}"))
}

async fn resize(context: &Context, Resize { one, size }: &Resize) -> Result {
    context.no_dry_run("a change of the size")?;
    let mut changing = Changing::connect(context, one.realm.key()).await?;
    let command = changing.store.begin("CONF.RESIZE").arg(&one.number).arg(size).clone();
    let record = Record::read(changing.store.ask(&command).await?)?;
    changing.confirm(context).await?;
    done(context, &record, &format!("has size {size}"))
}

async fn move_one(context: &Context, Move { one, to }: &Move) -> Result {
    context.no_dry_run("a move")?;
    let mut changing = Changing::connect(context, one.realm.key()).await?;
    let mut command = changing.store.begin("CONF.MOVE");
    command.arg(&one.number);
    if let Some(to) = to {
        command.arg("TO").arg(stores::unit(&changing.store, to).await?);
    }
    let record = Record::read(changing.store.ask(&command).await?)?;
    changing.confirm(context).await?;
    let (state, unit, target) = (record.text("state"), record.text("cmu"), record.text("moving_to"));
    let what = if target == "-" {
        format!("is {state} on {}", short(&unit))
    } else {
        format!("is moving to {}", short(&target))
    };
    done(context, &record, &what)
}

async fn end(context: &Context, one: &One) -> Result {
    let mut changing = Changing::connect(context, one.realm.key()).await?;
    let record = changing.info(&one.number).await?;
    context.confirm(&format!("end {}", described(&record))).await?;
    let release = changing.store.begin("CONF.RELEASE").arg(&one.number).clone();
    let record = Record::read(changing.store.ask(&release).await?)?;
    // A failover that loses the release would open the conference again when its unit is lost.
    changing.confirm(context).await?;
    done(context, &record, if record.text("state") == "ended" { "has ended" } else { "is ending" })
}

async fn follow(context: &Context, realm: &Realm) -> Result {
    let changing = Changing::connect(context, realm.key()).await?;
    // A realm that does not exist is an error, and not an empty stream.
    changing.store.stat().await?;
    let mut events = changing.events_after("$").await?;
    let mut rows = context.out.rows(EVENTS);
    loop {
        for entry in events.next().await? {
            let mut row = json!({"id": entry.id, "at": entry.id.split('-').next()});
            for name in ["event", "e164", "cmu", "state", "cause", "epoch"] {
                let value = entry.text(name);
                if let (Some(row), false) = (row.as_object_mut(), value.is_empty()) {
                    row.insert(name.to_owned(), value.into());
                }
            }
            rows.push(&row)?;
        }
        rows.flush()?;
    }
}
