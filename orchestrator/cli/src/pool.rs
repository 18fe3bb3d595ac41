//! `allot pool`: fills and shows number pools, and takes them over from the list and the hash of an existing system.

use allot_client::{NumberStore, Record};
use allot_tools::numbers::file::{Numbers, read};
use allot_tools::numbers::migrate;
use allot_tools::table::Problems;
use clap::{Args, Subcommand};
use redis::Value as Reply;
use serde_json::{Value, json};

use crate::arguments::{Key, KeyAndFile};
use crate::context::{Context, Noun, values};
use crate::failure::{Failure, Result, counted};
use crate::input::{self, Input};
use crate::output::{Section, columns};
use crate::{stores, time};

/// Numbers in one request: enough to be fast, and few enough not to delay other clients.
const CHUNK: usize = 1000;
/// Switches, or numbers, asked for at a time.
const PAGE: u32 = 1000;

/// The verbs of number pools.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the pools of the server
    #[command(alias = "ls")]
    List,
    /// Show a pool: totals, settings, causes, and the calls of each switch
    Get(Get),
    /// Put the numbers of a file into a pool, which is created if there is none
    Load(Load),
    /// Make a pool of the list and the hash of an existing system, in one step on the server
    Import(Import),
}

/// Arguments of `pool get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pool: Key,
    /// Also each number that is out of service, why, and until when
    #[arg(long)]
    suspended: bool,
}

/// Arguments of `pool load`.
#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    pool: KeyAndFile,
    /// The column of a table that has the numbers [default: number]
    #[arg(long)]
    column: Option<String>,
    /// Leave out spaces, dots, dashes, slashes and parentheses inside of numbers
    #[arg(long)]
    strip: bool,
    /// Register the numbers as well, so that they can be called at once
    #[arg(long)]
    register: bool,
    /// With --register: the switch that they are registered by
    #[arg(long, requires = "register", value_name = "ID")]
    switch: Option<String>,
}

/// Arguments of `pool import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(flatten)]
    pool: Key,
    /// Key of the list of free numbers
    #[arg(long, value_name = "KEY")]
    list: String,
    /// Key of the hash of states, which has all numbers
    #[arg(long, value_name = "KEY")]
    hash: String,
    /// Lease of the calls in progress; without it, they have no deadline
    #[arg(long, value_name = "TIME", value_parser = time::span)]
    lease: Option<std::time::Duration>,
    /// Delete the list and the hash in the same step, if every entry can be taken over
    #[arg(long)]
    delete_source: bool,
}

columns! {
    POOLS = key Text, total Number, idle_up Number, idle_down Number, busy_up Number, busy_down Number,
        suspended Number, waiting Number;
    POOL = key Text, total Number, idle_up Number, idle_down Number, busy_up Number, busy_down Number,
        cooling Number, limited Number, suspended Number, quarantined Number, leases Number, draining Number, waiting Number,
        lease_ms Span = "lease", cooldown_ms Span = "cooldown", regttl_ms Span = "regttl", pick Text,
        causes_other Number, rate Number, rate_window_ms Span = "rate_window", rate_until Time,
        peers Number, peerttl_ms Span = "peerttl", known_peers Number, daystart Time,
        daylength_ms Span = "daylength";
    CAPS = count Number, window_ms Span = "window";
    CAUSES = cause Text, count Number, cooldown_ms Span = "cooldown", after Number,
        within_ms Span = "within";
    SWITCHES = switch Text, numbers Number, calls Number, until Time;
    SUSPENDED = number Text, state Text, cause Text = "suspend_cause", until Time = "suspend_until";
    LOADED = key Text, numbers Number, created Number, unchanged Number, registered Number;
    IMPORTED = key Text, numbers Number, free Number, busy Number;
    FOUND = found Text, count Number, meaning Text, examples Text;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List => stores::list(context, Noun::Pool, POOLS).await,
        Verb::Get(arguments) => get(context, &arguments).await,
        Verb::Load(arguments) => load(context, &arguments).await,
        Verb::Import(arguments) => import(context, &arguments).await,
    }
}

async fn get(context: &Context, Get { pool: Key { key }, suspended }: &Get) -> Result {
    let pool = NumberStore::new(context.open(Noun::Pool, key).await?, key);
    let record = Record::read(pool.ask(&pool.begin("NUMPOOL.INFO")).await?)?;
    let switches = stores::all(async |cursor| {
        let mut command = pool.begin("NUMPOOL.SWITCHES");
        command.arg("CURSOR").arg(cursor).arg("COUNT").arg(PAGE);
        let (next, switches): (u64, Reply) = pool.ask(&command).await?;
        Ok((next, Record::read_list(switches)?))
    })
    .await?;
    let rows = |field: &str| Ok::<_, Failure>(values(&Record::read_list(record.get(field)?)?));
    let (caps, causes) = (rows("caps")?, rows("causes")?);
    let out_of_service = if *suspended { numbers_in(&pool, "suspended").await? } else { Vec::new() };
    let sections = [
        Section { name: "caps", columns: CAPS, rows: &caps },
        Section { name: "causes", columns: CAUSES, rows: &causes },
        Section { name: "switches", columns: SWITCHES, rows: &switches },
        Section { name: "out_of_service", columns: SUSPENDED, rows: &out_of_service },
    ];
    context.out.get(POOL, &stores::with_key(record.json(), key), &sections)
}

/// The records of the numbers in a state.
async fn numbers_in(pool: &NumberStore, state: &str) -> Result<Vec<Value>> {
    stores::all(async |cursor| {
        let mut scan = pool.begin("NUMPOOL.SCAN");
        scan.arg(cursor).arg("STATE").arg(state).arg("COUNT").arg(PAGE);
        let (next, numbers): (u64, Vec<String>) = pool.ask(&scan).await?;
        let commands = numbers.iter().map(|number| pool.begin("NUMPOOL.GET").arg(number).clone()).collect();
        // A number that has gone meanwhile is not listed.
        let found = pool.ask_all(commands).await?.into_iter().flatten();
        Ok((next, found.map(Record::read).collect::<Result<_, _>>()?))
    })
    .await
}

impl Load {
    /// The numbers of the input, from its beginning.
    fn numbers<'a>(&self, input: &'a mut Input) -> Result<Numbers<&'a std::fs::File>> {
        let usual = if looks_like_a_table(input)? { Some("number") } else { None };
        let name = input.name.clone();
        read(input.reader()?, self.column.as_deref().or(usual), self.strip).map_err(|error| {
            Failure::from(error.context(name)).hint("--column NAME names the column of the numbers")
        })
    }
}

/// Whether the first line has more than one field.
fn looks_like_a_table(input: &mut Input) -> Result<bool> {
    use std::io::{BufRead as _, BufReader, Read as _};
    let mut first = String::new();
    // What is no text is found when it is read.
    let _ = BufReader::new(input.reader()?.take(1 << 16)).read_line(&mut first);
    Ok(first.contains([',', ';', '\t']) || first.trim().eq_ignore_ascii_case("number"))
}

async fn load(context: &Context, arguments: &Load) -> Result {
    let KeyAndFile { key, file } = &arguments.pool;
    let mut input = input::open(file, input::TABLE)?;
    // All of it is checked before the first number is sent.
    let (mut total, mut problems) = (0_u64, Problems::default());
    for number in arguments.numbers(&mut input)? {
        match number {
            Ok(_) => total += 1,
            Err(why) => problems.add(why),
        }
    }
    if problems.count > 0 {
        let count = counted(problems.count as u64, "problem");
        let failure = Failure::input(format!("{}: {count}; nothing was loaded", input.name));
        let hint = "a number has 1 to 32 characters of 0-9 + * #; --strip leaves punctuation out";
        return Err(failure.counted(problems.first, problems.count).hint(hint));
    }
    if total == 0 {
        return Err(Failure::input(format!("{} has no numbers", input.name)));
    }
    let pool = NumberStore::new(context.open(Noun::Pool, key).await?, key);
    let again = "the same command again goes on; numbers that are in stay as they are";
    let work = context.work("loading", total, "numbers are in", again);
    let (mut done, mut created, mut registered) = (0_u64, 0, 0);
    let mut numbers = arguments.numbers(&mut input)?.flatten();
    loop {
        let chunk: Vec<String> = numbers.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        if context.dry_run {
            created += missing(&pool, &chunk).await?;
        } else {
            created += pool.add(&chunk).await?;
            if arguments.register {
                registered += pool.register(&chunk, arguments.switch.as_deref()).await?.done;
            }
        }
        done += chunk.len() as u64;
        work.at(done, total);
    }
    drop(work);
    let unchanged = done - created.min(done);
    context.proceed(&format!("create {created} numbers in pool '{key}'; {unchanged} are unchanged"))?;
    let more = match created {
        _ if arguments.register => format!(", {registered} came up"),
        0 => String::new(),
        _ => "; they can be called once they are registered: --register".to_owned(),
    };
    let row = json!({
        "key": key, "numbers": done, "created": created, "unchanged": unchanged, "registered": registered,
    });
    context.out.done(
        &format!("pool '{key}': {created} numbers created, {unchanged} unchanged{more}"),
        LOADED,
        &row,
    )
}

/// How many of these numbers the pool does not have.
async fn missing(pool: &NumberStore, numbers: &[String]) -> Result<u64> {
    let commands = numbers.iter().map(|number| pool.begin("NUMPOOL.GET").arg(number).clone()).collect();
    let mut count = 0;
    for reply in pool.ask_all(commands).await? {
        match reply {
            Err(error) if matches!(error.code(), Some("NOTFOUND" | "NOKEY")) => count += 1,
            reply => drop(reply?),
        }
    }
    Ok(count)
}

async fn import(context: &Context, arguments: &Import) -> Result {
    let Import { pool: Key { key }, list, hash, delete_source, .. } = arguments;
    let mut connection = context.open(Noun::Pool, key).await?;
    let lease = arguments.lease.map(|lease| lease.as_millis() as u64);
    let options =
        |dry_run| migrate::Options { list, hash, pool: key, lease, delete: *delete_source, dry_run };
    if *delete_source && !context.dry_run {
        context.confirm(&format!("delete '{list}' and '{hash}' once pool '{key}' is made")).await?;
    }
    let report = migrate::run(&mut connection, &options(context.dry_run)).await?;
    let [numbers, free, busy] = report.totals();
    let found: Vec<Value> = report
        .inconsistencies()
        .map(|(found, count, meaning, examples)| {
            json!({"found": found, "count": count, "meaning": meaning, "examples": examples})
        })
        .collect();
    if context.out.is_table() && !found.is_empty() {
        context.out.list(FOUND, &found, "")?;
    }
    let made = format!("pool '{key}' of {numbers} numbers: {free} free, {busy} busy");
    context.proceed(&format!("make {made}"))?;
    let sources = if *delete_source {
        format!("'{list}' and '{hash}' are deleted")
    } else {
        format!("'{list}' and '{hash}' stay")
    };
    let row = json!({"key": key, "numbers": numbers, "free": free, "busy": busy});
    context.out.done(&format!("{made}; {sources}"), IMPORTED, &row)
}
