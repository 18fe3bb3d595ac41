//! `allot show rehearse`: sells a copy of a show out, and checks that no seat is given to two buyers at once.

use std::fs;

use allot_client::{Connection, SeatStore, query};
use allot_tools::rush::{self, Options};
use allot_tools::seats::hash_tag;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use futures_util::FutureExt as _;
use redis::cmd;

use crate::context::{Context, Noun};
use crate::failure::{Cause, Failure, Result};
use crate::output::{Section, columns, field};
use crate::show_create::{Reading, build, read};
use crate::{complete, stores};

/// Seconds after which the server removes a copy of a process that was killed.
const EXPIRY: u64 = 3600;

/// What an interruption says of the copy.
const REMOVED: &str = "the copy is removed";

/// Arguments of `show rehearse`.
#[derive(Debug, Args)]
pub(crate) struct Rehearse {
    /// A file with a seating plan, or the key of a show: a copy of it is sold, and removed afterwards
    #[arg(required_unless_present = "really", value_name = "FILE|KEY", value_hint = clap::ValueHint::FilePath)]
    #[arg(add = ArgValueCompleter::new(complete::shows))]
    show: Option<String>,
    /// Sell the seats of this key itself: nobody can buy them afterwards
    #[arg(long, value_name = "KEY", conflicts_with = "show")]
    #[arg(add = ArgValueCompleter::new(complete::shows))]
    really: Option<String>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    options: Options,
}

columns! {
    REPORT = key Text, buyers Number, connections Number, seconds Number, purchases_per_second Number,
        seats_per_second Number, granted Number, confirmed Number, released Number, expired Number,
        too_late Number, nothing_free Number, seats_granted Number, seats_confirmed Number,
        seats_unknown Number, double_holders Number, breaches Number, fresh Flag, differences Text,
        faults Text;
    LATENCY = operation Text, count Number, p50 Number, p90 Number, p99 Number, p999 Number, max Number;
    COUNTS = all Number, free Number, held Number, sold Number, blocked Number;
}

/// Makes the copy that is sold, and returns its key.
async fn copy(context: &Context, arguments: &Rehearse, wanted: &str) -> Result<String> {
    let random = rand::random::<u64>();
    let is_file = wanted == "-" || fs::metadata(wanted).is_ok_and(|found| !found.is_dir());
    let (key, plan) = if is_file {
        let (_, plan) = build(wanted, read(wanted, None)?, &arguments.reading)?;
        (format!("rehearsal:{random:016x}"), plan)
    } else {
        let plan = stores::show(context, wanted).await?.plan().await?;
        (format!("{{{}}}:rehearsal:{random:016x}", hash_tag(wanted)), plan)
    };
    let mut connection = context.open(Noun::Show, &key).await?;
    context.on_interruption(removed(connection.clone(), key.clone()).boxed());
    SeatStore::new(connection.clone(), &key).create(&plan).await?;
    query::<i64>(&mut connection, cmd("EXPIRE").arg(&key).arg(EXPIRY)).await?;
    Ok(key)
}

async fn removed(mut connection: Connection, key: String) {
    // The expiry of the copy removes it if this fails.
    let _ = query::<i64>(&mut connection, cmd("UNLINK").arg(&key).arg(format!("{key}:evt"))).await;
}

/// Runs the buyers.
pub(crate) async fn run(context: &Context, arguments: &Rehearse) -> Result {
    let options = &arguments.options;
    let (key, is_copy) = match (&arguments.really, &arguments.show) {
        (Some(key), _) => {
            let free = stores::summary(key, &stores::show(context, key).await?.stat(None, None).await?);
            let change =
                format!("sell seats of show '{key}' itself, of which {} are free", field(&free, "free"));
            context.confirm(&change).await?;
            (key.clone(), false)
        }
        (None, Some(wanted)) => {
            context.no_dry_run("a rehearsal")?;
            // An interruption may come as soon as there is a copy.
            let copying = context.work("copying", 0, "seats were sold", REMOVED);
            let key = copy(context, arguments, wanted).await?;
            drop(copying);
            (key, true)
        }
        (None, None) => return Err(Failure::usage("name a file or a show, or --really KEY")),
    };
    let mut shows = Vec::new();
    for _ in 0..options.connections {
        shows.push(stores::show(context, &key).await?);
    }
    let again = if is_copy { REMOVED } else { "holds expire; sold seats remain sold" };
    let work = context.work("selling", 0, "seats were sold", again);
    let sold = rush::run(&shows, &key, options, &mut |done, all| work.at(done, all)).await;
    drop(work);
    if is_copy {
        removed(context.open(Noun::Show, &key).await?, key).await;
    }
    let report = sold?;
    let value = serde_json::to_value(&report).map_err(anyhow::Error::from)?;
    if context.out.is_table() {
        let rows = |name: &str| field(&value, name).as_array().cloned().unwrap_or_default();
        let after = [field(&value, "after").clone()];
        context.out.get(
            REPORT,
            &value,
            &[
                Section { name: "latency_us", columns: LATENCY, rows: &rows("latency_us") },
                Section { name: "after", columns: COUNTS, rows: &after },
            ],
        )?;
    } else {
        context.out.json(&value)?;
    }
    match &report.error {
        _ if !report.holds() => Err(Failure::no("the check failed: the counts do not agree")),
        Some(error) => Err(Failure::new(Cause::Unreachable, format!("stopped early: {error}"))),
        None if context.out.is_table() => context.out.text("\nthe books balance\n"),
        None => Ok(()),
    }
}
