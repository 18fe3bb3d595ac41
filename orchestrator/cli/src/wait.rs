//! Waits until a conference is open, over failovers.

use std::time::Duration;

use allot_client::streams::read_list;
use allot_client::{Error, RealmStore, Record};
use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::stores::Changing;

/// The longest time limit that counts.
const LONGEST_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);
/// The time between two looks at the record.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the event with a unit's reason may come after the end is known.
const REASON: Duration = Duration::from_secs(1);
/// The last events among which the reason is looked for.
const LATEST: u32 = 1000;

/// Waits until the conference of a record is open. Continues over failovers.
///
/// # Errors
/// It has ended, or the time limit has passed.
pub(crate) async fn until_open(
    context: &Context,
    realm: Option<&str>,
    mut changing: Changing,
    record: &Record,
    limit: Duration,
) -> Result<Record> {
    let number: String = record.get("e164")?;
    // The epoch of its creation tells it from a later conference on the number.
    let origin: u64 = record.get("origin_epoch")?;
    let deadline = Instant::now() + limit.min(LONGEST_WAIT);
    loop {
        let why = match look(&changing.store, &number).await {
            Err(error) if error.ends_session() && Instant::now() < deadline => {
                // The old connection stays while there is no other: the next attempt fails, and tries again.
                if let Ok(again) = Changing::connect(context, realm).await {
                    changing = again;
                }
                sleep(LOOK_INTERVAL).await;
                continue;
            }
            Err(error) if error.code() == Some("NOTFOUND") => {
                format!("a failover lost conference {number}; create it again")
            }
            Err(error) => return Err(error.into()),
            Ok(record) if record.get::<u64>("origin_epoch")? != origin => {
                format!("conference {number} has ended, and another one is on its number")
            }
            Ok(record) => match record.text("state").as_str() {
                "open" => return Ok(record),
                "ended" => {
                    let reason = reason(&changing.store, &record).await?;
                    format!("conference {number} ended before it was open: {}{reason}", record.text("cause"))
                }
                state if Instant::now() >= deadline => {
                    format!("conference {number} is still {state}; it remains, and may open later")
                }
                _ => {
                    sleep(LOOK_INTERVAL).await;
                    continue;
                }
            },
        };
        return Err(Failure::no(why));
    }
}

async fn look(store: &RealmStore, number: &str) -> Result<Record, Error> {
    Record::read(store.ask(store.begin("CONF.INFO").arg(number)).await?)
}

/// Why a unit refused the conference, in parentheses; empty if none has said so.
async fn reason(store: &RealmStore, record: &Record) -> Result<String, Error> {
    let mut events = redis::cmd("XREVRANGE");
    events.arg(store.stream("evt")).arg("+").arg("-").arg("COUNT").arg(LATEST);
    let deadline = Instant::now() + REASON;
    while record.text("cause") == "refused" {
        let entries = read_list(store.ask(&events).await?)?;
        let is_own = |entry: &&allot_client::streams::Entry| {
            entry.text("event") == "refused" && entry.text("e164") == record.text("e164")
        };
        if let Some(entry) = entries.iter().find(is_own) {
            return Ok(format!(" ({})", entry.text("reason")));
        }
        if Instant::now() >= deadline {
            break;
        }
        sleep(LOOK_INTERVAL).await;
    }
    Ok(String::new())
}
