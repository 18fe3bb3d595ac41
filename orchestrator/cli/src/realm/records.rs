//! `allot conference records`: one record for each conference that has ended, in the order of the event stream. A
//! consumer group keeps the place of the reader, and keeps the server from trimming entries that were not read.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::time::sleep;

use super::call_record::{CallRecord, Format, Last, Recorded, recorded};
use super::record_file::RecordFile;
use crate::outcome::Outcome;
use crate::sources::{Confirm, RealmSource};
use crate::terminal::{errln, write_data};
use allot_client::streams::{BLOCK, Entry, Group};
use allot_client::{Error, RealmStore, Session};
use allotd::config::Config;

/// Entries taken at once.
const BATCH: u32 = 512;
/// The name of the consumer in the group. A command that was killed and is started again continues as this consumer.
const CONSUMER: &str = "records";
/// How long a command without `--follow` waits for entries.
const NO_WAIT: Duration = Duration::from_millis(1);
/// Pause before the next attempt to reach Redis.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `allot conference records`.
#[derive(Debug, Args)]
pub(crate) struct Records {
    /// Continue with conferences that end later, until the command is stopped.
    #[arg(long)]
    follow: bool,
    /// Format of the records.
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
    /// Append the records to this file, each exactly once, even if the command or the machine crashes. Without it,
    /// records go to standard output, and those written just before a crash may come again.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Consumer group of the event stream that keeps the place. Use one group for each file.
    #[arg(long, default_value = "records")]
    group: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    source: RealmSource,
}

/// Where records go.
struct Writer {
    format: Format,
    /// `None` for standard output.
    file: Option<RecordFile>,
    /// The last record written, as far as it is known.
    last: Option<Last>,
}

/// Runs the command.
pub(super) async fn run(arguments: &Records) -> Result<Outcome> {
    let config = arguments.source.config_with(&arguments.confirm)?;
    let format = arguments.format;
    let file = arguments.output.as_ref().map(|path| RecordFile::open(path, format)).transpose()?;
    let last = file.as_ref().and_then(|file| file.last);
    let mut writer = Writer { format, file, last };
    if writer.file.is_none() {
        write_data(&super::call_record::heading(format)?)?;
    }
    loop {
        match copy(arguments, &config, &mut writer).await {
            Err(error) if arguments.follow && is_transient(&error) => {
                errln!("allot: {error}; connecting again");
                sleep(RETRY_PAUSE).await;
            }
            result => return result.map(|()| Outcome::Done),
        }
    }
}

/// Whether another session may succeed. A server that took over may lack the group, which is then created again.
fn is_transient(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<Error>();
    error.is_some_and(|error| error.ends_session() || error.code() == Some("NOGROUP"))
}

/// Copies records from the stream in one session: those that were taken and not acknowledged, then new ones. Returns
/// when there are no more, and with `--follow` never.
async fn copy(arguments: &Records, config: &Config, writer: &mut Writer) -> Result<()> {
    let mut session = config.servers.session().await?;
    let store = RealmStore::new(session.connection.clone(), &config.realm);
    // A realm that does not exist is an error, and not an empty stream.
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
        let mut lines = String::new();
        let mut last = writer.last;
        for entry in &entries {
            lines.push_str(&writer.line(entry, &mut last)?);
        }
        tell_of_missing_records(&entries);
        if !lines.is_empty() {
            if let Some(entry) = entries.last() {
                group.take_again(entry).await?;
            }
            confirm(config, &mut session).await?;
            writer.write(&lines, last)?;
        }
        group.acknowledge(&entries).await?;
    }
}

/// Says which conferences get no record, and why.
fn tell_of_missing_records(entries: &[Entry]) {
    let reasons = [
        (Recorded::Without, "an earlier version of the module told of their ends"),
        (Recorded::Damaged, "the numbers of their records cannot be read"),
    ];
    for (kind, reason) in reasons {
        let mut without = entries.iter().filter(|entry| recorded(entry) == kind);
        if let Some(first) = without.next() {
            let count = 1 + without.count();
            errln!("allot: {count} conferences, of entry {} and later, have no record: {reason}", first.id);
        }
    }
}

/// Waits until replicas have the entries that were read: a failover after that does not take back what is in the file.
async fn confirm(config: &Config, session: &mut Session) -> Result<()> {
    session.check_master().await?;
    let limit = config.scheduler.wait;
    if !session.wait(config.scheduler.wait_replicas, limit).await? {
        errln!(
            "allot: not enough replicas confirmed the ends of conferences within {limit:?}; a failover now may repeat records"
        );
    }
    Ok(())
}

impl Writer {
    /// The line of an entry; empty if the entry has no record, or if its record was written before.
    fn line(&self, entry: &Entry, last: &mut Option<Last>) -> Result<String> {
        let Some(record) = CallRecord::read(entry, *last)? else { return Ok(String::new()) };
        // Ids of a server that took over may be lower than those before; the numbers of new ends are not.
        if last.is_some_and(|last| record.id <= last.id && record.number <= last.number) {
            return Ok(String::new());
        }
        if record.missing() > 0 {
            errln!(
                "allot: {} conferences that ended before entry {} have no record: the server dropped their entries \
                 before they were read",
                record.missing(),
                entry.id
            );
        }
        match *last {
            Some(last) if record.number <= last.number => errln!(
                "allot: entry {} has number {} after {}: a failover lost ends of conferences whose records remain",
                entry.id,
                record.number,
                last.number
            ),
            None if record.number > 1 => errln!(
                "allot: the first record is number {}: {} conferences ended before it",
                record.number,
                record.number - 1
            ),
            _ => {}
        }
        *last = Some(Last { id: record.id, number: record.number });
        record.line(self.format)
    }

    /// Writes the lines of some entries, of which `last` is the last record.
    fn write(&mut self, lines: &str, last: Option<Last>) -> Result<()> {
        match &mut self.file {
            Some(file) => file.write(lines)?,
            None => write_data(lines)?,
        }
        self.last = last;
        Ok(())
    }
}
