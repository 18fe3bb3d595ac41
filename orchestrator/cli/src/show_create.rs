//! `allot show create`, `alter` and `check`: plans from files and caches become shows on the server.

use std::collections::BTreeMap;

use allot_client::{Bucket, ListFilter, Listed, Record, SeatStore, query};
use allot_tools::seats::draft::{Area, Draft, Row};
use allot_tools::seats::places::Place;
use allot_tools::seats::{self, Difference, Format, caches, hash_tag, side};
use allot_tools::table::Problems;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use redis::{Cmd, Value as Reply, cmd};
use serde_json::{Value, json};

use crate::context::{Context, Noun};
use crate::failure::{Failure, Result, counted};
use crate::output::{Section, columns, field};
use crate::settings::{Given, Settings};
use crate::{complete, input, stores};

/// How a seating plan is read.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// What the file is [default: recognised by its content]
    #[arg(long, value_enum, value_name = "FORM")]
    from: Option<Format>,
    /// JSON file with priorities, rules and names of areas, corrections of seats, and limits
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    side: Option<String>,
    /// The middle of what all look at, in the units of the file: seats near it are the best [default: the stage, screen or
    /// pitch that a plan of pretix shows]
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true, value_parser = place)]
    focus: Option<Place>,
    /// Number rows, and seats in a row, that have one name
    #[arg(long)]
    disambiguate: bool,
}

/// Arguments of `show check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The seating plan; - is standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: String,
    #[command(flatten)]
    reading: Reading,
}

/// Arguments of `show create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Key of the show
    #[arg(add = ArgValueCompleter::new(complete::shows))]
    key: String,
    /// The seating plan: JSON of Allot or pretix, or a table; - is standard input
    #[arg(required_unless_present = "from_caches", value_hint = clap::ValueHint::FilePath)]
    file: Option<String>,
    #[command(flatten)]
    reading: Reading,
    /// Change a show that exists into the plan of the file, in one step; holds, orders and waits go on
    #[arg(long)]
    alter: bool,
    /// Read the caches of an existing system, on the same server or on another
    #[arg(long, value_name = "SERVER", num_args = 0..=1, require_equals = true, default_missing_value = "",
          conflicts_with_all = ["file", "from"])]
    from_caches: Option<String>,
    #[command(flatten)]
    caches: caches::Names,
}

/// Reads a place, `X,Y`.
fn place(text: &str) -> Result<Place, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let place = text.split_once(',').and_then(|(x, y)| Some([number(x)?, number(y)?]));
    place.ok_or_else(|| "write two numbers, such as 120,40.5".to_owned())
}

columns! {
    AREAS = area Text, seats Number, rows Number, priority Number, rule Text, tiers Text, sold Number wide;
    WHOLE = seats Number, areas Number, rows Number, tiers Text, sold Number;
    CREATED = key Text, result Text, seats Number, areas Number;
}

/// Reads a plan of a file.
pub(crate) fn read(path: &str, from: Option<Format>) -> Result<(Draft, Problems)> {
    let mut input = input::open(path, input::PLAN)?;
    let text = input.text()?;
    let format = from.map_or_else(|| Format::guess(&text), Ok).map_err(|error| input.wrong(error))?;
    format.read(&text).map_err(|error| input.wrong(error))
}

/// The plan of a draft.
pub(crate) fn build(
    name: &str,
    (mut draft, found): (Draft, Problems),
    reading: &Reading,
) -> Result<(Draft, String)> {
    if reading.disambiguate {
        draft.disambiguate();
    }
    draft.look_at(reading.focus);
    if let Some(path) = &reading.side {
        let mut input = input::open(path, input::PLAN)?;
        let text = input.text()?;
        side::read(&text).and_then(|side| side.apply(&mut draft)).map_err(|error| input.wrong(error))?;
    }
    let problems = if found.count > 0 { Err(found) } else { Ok(()) };
    let show = problems.and_then(|()| draft.build().map_err(Problems::from));
    let Problems { first, count } = match show {
        Ok(show) => return Ok((draft, show.plan_json())),
        Err(problems) => problems,
    };
    let twice = first.iter().any(|problem| problem.contains("occurs"));
    let text = counted(count as u64, "problem");
    let failure = Failure::input(format!("{name}: {text}")).counted(first, count);
    Err(if twice { failure.hint("names that occur twice can be numbered: --disambiguate") } else { failure })
}

/// The most notes that are told.
const NOTES: usize = 20;

/// Tells what of the source was not kept, or was changed.
fn tell_notes(context: &Context, draft: &Draft) {
    if !draft.notes.is_empty() {
        context.out.note(&lines("not everything is as in the source", &draft.notes));
    }
}

fn tiers<'a>(areas: impl Iterator<Item = &'a Area> + Clone) -> BTreeMap<&'a str, u64> {
    let mut counts = BTreeMap::new();
    for (places, tier) in areas.clone().map(|area| &area.standing) {
        if let (Some(places), Some(tier)) = (places, tier) {
            *counts.entry(tier.as_str()).or_default() += u64::from(*places);
        }
    }
    for seat in areas.flat_map(|area| &area.rows).flat_map(Row::seats) {
        *counts.entry(seat.plan.tier.as_deref().unwrap_or("(none)")).or_default() += 1;
    }
    counts
}

fn sold(areas: &[Area]) -> usize {
    areas.iter().flat_map(|area| &area.rows).flat_map(Row::seats).filter(|seat| seat.sold).count()
}

fn area_row(area: &Area) -> Value {
    let tiers = tiers(std::iter::once(area));
    json!({
        "area": area.id, "priority": area.priority, "rule": area.rule, "rows": area.rows.len(),
        "seats": tiers.values().sum::<u64>(), "sold": sold(std::slice::from_ref(area)), "tiers": tiers,
    })
}

fn whole(draft: &Draft) -> Value {
    let tiers = tiers(draft.areas.iter());
    json!({
        "areas": draft.areas.len(), "rows": draft.rows().count(), "seats": tiers.values().sum::<u64>(),
        "sold": sold(&draft.areas), "tiers": tiers,
    })
}

/// Runs `show check`.
pub(crate) fn check(context: &Context, arguments: &Check) -> Result {
    let read = read(&arguments.file, arguments.reading.from)?;
    let (draft, _) = build(&arguments.file, read, &arguments.reading)?;
    tell_notes(context, &draft);
    let rows: Vec<Value> = draft.areas.iter().map(area_row).collect();
    context.out.get(WHOLE, &whole(&draft), &[Section { name: "by_area", columns: AREAS, rows: &rows }])
}

async fn read_caches(context: &Context, arguments: &Create, server: &str) -> Result<(Draft, Problems)> {
    let key = arguments.caches.first_key();
    let mut connection = if server.is_empty() {
        context.open(Noun::Show, key).await?
    } else {
        let other = Settings::load(&Given { server: Some(server.to_owned()), ..Given::default() })?;
        context.connect(&other.servers(key)?).await?
    };
    let work = context.work("reading the caches", 0, "tiers were read", "nothing was changed");
    let draft = caches::read(&mut connection, &arguments.caches, &mut |done, all| work.at(done, all)).await?;
    Ok((draft, Problems::default()))
}

/// Runs `show create`.
pub(crate) async fn create(context: &Context, arguments: Create) -> Result {
    let key = &arguments.key;
    let (name, found) = match (&arguments.from_caches, &arguments.file) {
        (Some(server), _) => ("the caches", read_caches(context, &arguments, server).await?),
        (None, Some(file)) => (file.as_str(), read(file, arguments.reading.from)?),
        (None, None) => return Err(Failure::usage("name a file, or --from-caches")),
    };
    let (draft, plan) = build(name, found, &arguments.reading)?;
    tell_notes(context, &draft);
    let all = whole(&draft);
    let sold = sold(&draft.areas);
    let mut connection = context.open(Noun::Show, key).await?;
    let there: u64 = query(&mut connection, cmd("EXISTS").arg(key)).await?;
    let show = SeatStore::new(connection.clone(), key);
    if there > 0 && sold > 0 {
        let why =
            format!("there is a show '{key}', and the plan has seats that are sold before a show is opened");
        return Err(Failure::refused(why).hint("take another key"));
    }
    let difference = match there {
        0 => None,
        _ => Difference::between(&show.plan().await?, &plan)?,
    };
    let (seats, areas) = (field(&all, "seats"), field(&all, "areas"));
    let row = |result: &str| json!({"key": key, "result": result, "seats": seats, "areas": areas});
    if let Some(difference) = difference {
        let changes = change_plan(context, &show, &arguments, &difference).await?;
        return context.out.done(&format!("show '{key}' is altered: {changes}"), CREATED, &row("altered"));
    }
    let count = |name: &str, noun: &str| counted(field(&all, name).as_u64().unwrap_or(0), noun);
    let size = format!("{} in {}", count("seats", "seat"), count("areas", "area"));
    let said = |result: &str, context: &Context| {
        let beforehand = if sold > 0 { format!(", {sold} of them sold beforehand") } else { String::new() };
        context.out.done(&format!("show '{key}' is {result}: {size}{beforehand}"), CREATED, &row(result))
    };
    if there > 0 {
        return said("unchanged", context);
    }
    context.proceed(&format!("create show '{key}' with {size}"))?;
    let again = "nothing was opened; the same command begins again";
    let work = context.work("marking sold seats", 0, "seats were marked", again);
    seats::create(connection, key, &plan, &draft, &mut |done, all| work.at(done, all)).await?;
    drop(work);
    said("created", context)
}

/// Tells the difference between a show and the plan of a file, and with `--alter` changes the show. Returns how many
/// changes there are, in words.
async fn change_plan(
    context: &Context,
    show: &SeatStore,
    arguments: &Create,
    difference: &Difference,
) -> Result<String> {
    let (key, changes) = (&arguments.key, &difference.changes);
    let count = counted(changes.len() as u64, "change");
    let mut forbidden: Vec<String> = difference.impossible.clone();
    if forbidden.is_empty() && difference.needs_free_seats() {
        forbidden = taken(show, difference).await?;
    }
    let why = format!("there is a show '{key}' of another plan, and the file makes {count}");
    if !forbidden.is_empty() {
        let number = forbidden.len();
        context.out.note(&lines("changes", changes));
        return Err(Failure::refused(format!("{why}; they cannot be made, and nothing was changed"))
            .hint("take what cannot be changed out of the file, or take another key")
            .counted(forbidden, number));
    }
    if !arguments.alter {
        return Err(Failure::refused(why)
            .hint("--alter makes the changes, and holds, orders and waits go on; or take another key")
            .counted(changes.clone(), changes.len()));
    }
    context.out.note(&lines("changes", changes));
    context.proceed(&format!("alter show '{key}': {count}"))?;
    show.alter(&difference.part).await?;
    Ok(count)
}

/// A title and the first of some lines, and how many more there are.
fn lines(title: &str, all: &[String]) -> String {
    let more = all.len().saturating_sub(NOTES);
    let rest = (more > 0).then(|| format!("and {more} more"));
    let shown = all.iter().take(NOTES).cloned().chain(rest);
    shown.fold(format!("{title}:"), |text, line| text + "\n  " + &line)
}

/// The seats that are held or sold, and that the difference would remove or change.
async fn taken(show: &SeatStore, difference: &Difference) -> Result<Vec<String>> {
    /// The most places that one call examines.
    const PART: u32 = 4000;
    let mut found = Vec::new();
    for state in ["held", "sold"] {
        let filter = ListFilter { state: Some(state), ..ListFilter::default() };
        let mut cursor = 0;
        loop {
            let (part, next) = show.list(Listed::Seats, &filter, cursor, PART).await?;
            for seat in part {
                found.extend(difference.forbidden_by(&seat.get::<String>("id")?, state));
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
    }
    Ok(found)
}

/// Runs `show alter`.
pub(crate) async fn alter(context: &Context, key: &str, file: &str) -> Result {
    let mut input = input::open(file, input::PLAN)?;
    let part = input.text()?;
    serde_json::from_str::<serde_json::Map<String, Value>>(&part).map_err(|error| input.wrong(error))?;
    let show = stores::show(context, key).await?;
    let before = stores::summary(key, &show.stat(None, None).await?);
    let after = if context.dry_run {
        let buckets = tried(&show, key, &part).await?;
        stores::summary(key, &buckets)
    } else {
        show.alter(&part).await?;
        stores::summary(key, &show.stat(None, None).await?)
    };
    let (had, has) = (field(&before, "seats"), field(&after, "seats"));
    let change = if had == has { format!("{has} seats") } else { format!("{has} seats instead of {had}") };
    context.proceed(&format!("alter show '{key}': {change}"))?;
    let row = json!({"key": key, "result": "altered", "seats": has, "areas": field(&after, "areas")});
    context.out.done(&format!("show '{key}' is altered: {change}"), CREATED, &row)
}

/// The counts of a copy of the show after this change. The copy exists within one step of the server only.
async fn tried(show: &SeatStore, key: &str, part: &str) -> Result<Vec<Bucket>> {
    let copy = format!("{{{}}}:dry-run:{:016x}", hash_tag(key), rand::random::<u64>());
    let on_copy = |name: &str, argument: Option<&str>| {
        let mut command: Cmd = cmd(name);
        command.arg(&copy).arg(argument);
        command
    };
    let stream = format!("{copy}:evt");
    for command in [
        cmd("MULTI"),
        show.begin("COPY").arg(&copy).clone(),
        on_copy("SEAT.ALTER", Some(part)),
        on_copy("SEAT.STAT", None),
        on_copy("UNLINK", Some(&stream)),
    ] {
        show.ask::<Reply>(&command).await?;
    }
    // A refusal of the change is an error here; the copy is still removed.
    let replies: Vec<Reply> = show.ask(&cmd("EXEC")).await?;
    let buckets = replies.into_iter().nth(2).unwrap_or(Reply::Nil);
    Ok(Record::read_list(buckets)?.iter().map(Bucket::read).collect::<Result<_, _>>()?)
}
