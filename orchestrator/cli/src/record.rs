//! `allot record`: one record for each conference that has ended, in the order of the event stream. To list them reads
//! only. To collect them, a consumer group keeps the place of the reader, and keeps the server from trimming entries that
//! were not read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use allot_client::streams::{BLOCK, Entry, Group, read_list};
use allot_client::{Error, RealmStore, Session};
use clap::{Args, Subcommand};
use tokio::time::sleep;

use crate::arguments::Realm;
use crate::call_record::{CallRecord, Form, Last, RECORD};
use crate::context::{Context, Noun};
use crate::failure::{Cause, Failure, Result, counted};
use crate::output::{Format, columns};
use crate::record_file::RecordFile;
use crate::terminal::note;

/// Entries taken at once.
const BATCH: u32 = 512;
/// The name of the consumer in the group. A command that was killed and is started again continues as this consumer.
const CONSUMER: &str = "records";
/// How long a command without `--follow` waits for entries.
const NO_WAIT: Duration = Duration::from_millis(1);
/// Pause before the next attempt to reach Redis.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The verbs of records.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the records that the event stream has; nothing is taken from any group
    #[command(alias = "ls")]
    List(Realm),
    /// Append each record to a file exactly once, whenever the command is killed
    Collect(Collect),
}

/// Arguments of `record collect`.
#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Consumer group of the event stream that keeps the place; one for each file
    #[arg(long)]
    group: String,
    /// The file: JSON lines, or CSV with --format csv
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Continue with conferences that end later
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    realm: Realm,
}

columns! {
    COLLECTED = output Text, group Text, records Number;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List(realm) => list(context, &realm).await,
        Verb::Collect(arguments) => collect(context, &arguments).await,
    }
}

async fn list(context: &Context, realm: &Realm) -> Result {
    let store = realm.open(context).await?;
    // A realm that does not exist is an error, and not an empty stream.
    store.stat().await?;
    let (mut rows, mut last, mut after) = (context.out.rows(RECORD), None, "-".to_owned());
    loop {
        let mut range = redis::cmd("XRANGE");
        range.arg(store.stream("evt")).arg(&after).arg("+").arg("COUNT").arg(BATCH);
        let entries = read_list(store.ask(&range).await?)?;
        for entry in &entries {
            if let Some(record) = CallRecord::read(entry, last)? {
                last = Some(Last { id: record.id, number: record.number });
                rows.push(&record.fields)?;
            }
        }
        let Some(end) = entries.last() else {
            return rows.end("the event stream has no record of a conference that ended");
        };
        rows.flush()?;
        after = format!("({}", end.id);
    }
}

async fn collect(context: &Context, arguments: &Collect) -> Result {
    context.no_dry_run("the collection of records")?;
    if arguments.output == Path::new("-") {
        let why = "records are appended to a file, so that each is there once; - is none";
        return Err(Failure::usage(why).hint("allot record list prints records"));
    }
    let form = match context.out.format {
        Format::Csv => Form::Csv,
        Format::Table | Format::Jsonl => Form::Jsonl,
        Format::Json | Format::Wide => {
            return Err(Failure::usage("a file of records is jsonl or csv"));
        }
    };
    let mut file = RecordFile::open(&arguments.output, form).map_err(|error| of_file(&error))?;
    let work =
        context.work("collecting", 0, "records are in the file", "the same command goes on behind them");
    let mut count = 0;
    loop {
        match copy(context, arguments, &mut file, form, &mut |more| {
            count += more;
            work.at(count, 0);
        })
        .await
        {
            Err(failure) if arguments.follow && is_transient(&failure) => {
                work.note(&format!("allot: {}; connecting again", failure.message));
                sleep(RETRY_PAUSE).await;
            }
            Err(failure) => return Err(failure),
            Ok(()) => break,
        }
    }
    drop(work);
    let (name, group) = (arguments.output.display().to_string(), &arguments.group);
    let row = serde_json::json!({"output": name, "group": group, "records": count});
    context.out.done(&format!("{} appended to {name}", counted(count, "record")), COLLECTED, &row)
}

/// A failure of the file of records: of this machine, or of what is in the file.
fn of_file(error: &anyhow::Error) -> Failure {
    let cause = if error.root_cause().is::<std::io::Error>() { Cause::Local } else { Cause::Input };
    Failure::new(cause, format!("{error:#}"))
}

/// Whether another session may succeed. A server that took over may lack the group, which is then created again.
fn is_transient(failure: &Failure) -> bool {
    failure.cause == Cause::Unreachable || failure.code.as_deref() == Some("NOGROUP")
}

/// Copies records from the stream in one session: those that were taken and not acknowledged, then new ones. Returns
/// when there are no more, and with `--follow` never.
async fn copy(
    context: &Context,
    arguments: &Collect,
    file: &mut RecordFile,
    form: Form,
    written: &mut (dyn FnMut(u64) + Send),
) -> Result {
    let key = arguments.realm.realm.clone().unwrap_or_else(|| context.settings.realm());
    let mut session = context.session(Noun::Realm, &key).await?;
    let store = RealmStore::new(session.connection.clone(), &key);
    store.stat().await?;
    let place = (store.stream("evt"), arguments.group.clone(), CONSUMER.to_owned());
    let taking = session.another(BLOCK).await?;
    let mut group = Group::join(session.connection.clone(), taking, place).await?;
    let block = if arguments.follow { BLOCK } else { NO_WAIT };
    let mut taken_before = true;
    loop {
        let entries =
            if taken_before { group.own(BATCH, "0").await? } else { group.fresh(BATCH, block).await? };
        if entries.is_empty() {
            if !taken_before && !arguments.follow {
                return Ok(());
            }
            taken_before = false;
            continue;
        }
        let (mut lines, mut last, mut count) = (String::new(), file.last, 0);
        for entry in &entries {
            let line = line_of(entry, &mut last, form)?;
            count += u64::from(!line.is_empty());
            lines.push_str(&line);
        }
        if !lines.is_empty() {
            if let Some(entry) = entries.last() {
                group.take_again(entry).await?;
            }
            confirm(context, &mut session).await?;
            file.write(&lines).map_err(|error| of_file(&error))?;
            file.last = last;
            written(count);
        }
        group.acknowledge(&entries).await?;
    }
}

/// Waits until replicas have the entries that were read: a failover after that does not take back what is in the file.
async fn confirm(context: &Context, session: &mut Session) -> Result {
    session.check_master().await?;
    let (replicas, limit) = context.settings.confirmation()?;
    let confirmed: Result<bool, Error> = session.wait(replicas, limit).await;
    if !confirmed? {
        note(&format!(
            "allot: not enough replicas confirmed the ends of conferences within {limit:?}; a failover now may repeat records"
        ));
    }
    Ok(())
}

/// The line of an entry; empty if the entry has no record, or if its record was written before.
fn line_of(entry: &Entry, last: &mut Option<Last>, form: Form) -> Result<String> {
    let Some(record) = CallRecord::read(entry, *last)? else { return Ok(String::new()) };
    // Ids of a server that took over may be lower than those before; the numbers of new ends are not.
    if last.is_some_and(|last| record.id <= last.id && record.number <= last.number) {
        return Ok(String::new());
    }
    if record.missing() > 0 {
        note(&format!(
            "allot: {} conferences that ended before entry {} have no record: the server dropped their entries \
             before they were read",
            record.missing(),
            entry.id
        ));
    }
    match *last {
        Some(last) if record.number <= last.number => note(&format!(
            "allot: entry {} has number {} after {}: a failover lost ends of conferences whose records remain",
            entry.id, record.number, last.number
        )),
        None if record.number > 1 => note(&format!(
            "allot: the first record is number {}: {} conferences ended before it",
            record.number,
            record.number - 1
        )),
        _ => {}
    }
    *last = Some(Last { id: record.id, number: record.number });
    Ok(record.line(form))
}
