//! `allot conference create`: creates a conference, and with `--wait` waits until it is open.

use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use clap::Args;
use tokio::time::{Instant, sleep, timeout_at};

use super::session::{Changing, Target};
use crate::outcome::Outcome;
use crate::sources::Confirm;
use crate::table::print_one;
use crate::terminal::errln;
use allot_client::streams::{Commands, Entry};
use allot_client::{CreateRequest, Error, Record};

/// The longest `--timeout` that counts.
const LONGEST_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest time between two looks at the record while no event of the conference comes.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before the next attempt to reach Redis.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `allot conference create`.
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
    /// Wait until the conference is open. If it ends instead, the command fails and says why.
    #[arg(long = "wait")]
    until_open: bool,
    /// Time limit for --wait. The conference remains when it has passed.
    #[arg(long = "timeout", requires = "until_open", default_value = "30s", value_parser = humantime::parse_duration)]
    time_limit: Duration,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    realm: Target,
}

/// Runs the command.
pub(super) async fn run(arguments: &Create) -> Result<Outcome> {
    let mut changing = Changing::connect(&arguments.realm.source, &arguments.confirm).await?;
    let request = CreateRequest {
        e164: &arguments.e164,
        from: arguments.from.as_deref(),
        end: arguments.end,
        size: arguments.size,
        licences: arguments.licences,
        priority: arguments.priority,
        zone: arguments.zone.as_deref(),
        no_recover: arguments.no_recover,
        request: arguments.request.as_deref(),
    };
    let mut record = changing.store.create(&request).await?;
    changing.confirm().await;
    if arguments.until_open {
        match until_open(arguments, changing, &record).await? {
            Ok(open) => record = open,
            Err(reason) => {
                errln!("allot: {reason}");
                return Ok(Outcome::CheckFailed);
            }
        }
    }
    print_one(&record, arguments.realm.json).map(|()| Outcome::Done)
}

/// A conference whose opening is waited for.
struct Waiting {
    e164: Vec<u8>,
    /// The epoch of its creation, which tells it from a later conference on the number.
    origin_epoch: u64,
    /// The id in the event stream after which its events come.
    after: String,
    /// Why a unit refused it, if one did.
    reason: Option<String>,
    deadline: Instant,
}

/// The record of an open conference, or why the conference is not open.
type Opening = Result<Record, String>;

/// Waits until the conference is open, has ended, or the time limit has passed. Continues over failovers.
async fn until_open(arguments: &Create, mut changing: Changing, created: &Record) -> Result<Opening> {
    let mut waiting = Waiting {
        e164: created.get("e164")?,
        origin_epoch: created.get("origin_epoch")?,
        after: created.get("evt")?,
        reason: None,
        deadline: Instant::now() + arguments.time_limit.min(LONGEST_WAIT),
    };
    loop {
        match waiting.follow(&changing).await {
            Err(error) if error.ends_session() && Instant::now() < waiting.deadline => {
                sleep(RETRY_PAUSE).await;
                // The old connection stays while there is no other: the next attempt fails, and tries again.
                if let Ok(again) = Changing::connect(&arguments.realm.source, &arguments.confirm).await {
                    changing = again;
                }
            }
            result => return Ok(result?),
        }
    }
}

impl Waiting {
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.e164).into_owned()
    }

    async fn follow(&mut self, changing: &Changing) -> Result<Opening, Error> {
        let name = self.name();
        let mut events = changing.events_after(&self.after).await?;
        loop {
            let info = changing.store.begin("CONF.INFO").arg(&self.e164).clone();
            let record = match changing.store.ask(&info).await {
                Err(error) if error.code() == Some("NOTFOUND") => {
                    return Ok(Err(format!("a failover lost conference {name}; create it again")));
                }
                reply => Record::read(reply?)?,
            };
            if record.get::<u64>("origin_epoch")? != self.origin_epoch {
                return Ok(Err(format!("conference {name} has ended, and another one is on its number")));
            }
            match record.get::<String>("state")?.as_str() {
                "open" => return Ok(Ok(record)),
                "ended" => {
                    let cause = record.text("cause");
                    if cause == "refused" {
                        // The event with the unit's reason may come after the end is known.
                        self.wait_for_reason(async || events.next().await).await?;
                    }
                    let reason = self.reason.take();
                    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                    return Ok(Err(format!("conference {name} ended before it was open: {cause}{reason}")));
                }
                state if Instant::now() >= self.deadline => {
                    return Ok(Err(format!(
                        "conference {name} is still {state}; it remains, and may open later"
                    )));
                }
                _ => self.next_event(&mut events).await?,
            }
        }
    }

    /// Waits until it is known why a unit refused the conference, but not longer than a look may wait.
    async fn wait_for_reason(
        &mut self,
        mut next: impl AsyncFnMut() -> Result<Vec<Entry>, Error>,
    ) -> Result<(), Error> {
        let limit = self.next_look();
        while self.reason.is_none()
            && let Ok(entries) = timeout_at(limit, next()).await
        {
            self.note(&entries?);
        }
        Ok(())
    }

    /// The time of the next look at the record.
    fn next_look(&self) -> Instant {
        self.deadline.min(Instant::now() + LOOK_INTERVAL)
    }

    /// Notes what some events say. Returns whether they concern the conference.
    fn note(&mut self, entries: &[Entry]) -> bool {
        let mut concerned = false;
        for entry in entries {
            let is_own = entry.bytes("e164") == self.e164;
            concerned |= is_own || entry.text("event") == "RESYNC";
            if is_own && entry.text("event") == "refused" {
                self.reason = Some(entry.text("reason"));
            }
        }
        if let Some(Entry { id, .. }) = entries.last() {
            self.after.clone_from(id);
        }
        concerned
    }

    /// Waits for an event of the conference, for a gap in the events, or for the time of the next look.
    async fn next_event(&mut self, events: &mut Commands) -> Result<(), Error> {
        let look = self.next_look();
        while let Ok(entries) = timeout_at(look, events.next()).await {
            if self.note(&entries?) {
                return Ok(());
            }
        }
        Ok(())
    }
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

    /// Events of a conference every 100 ms, of which the last comes at the end.
    fn events(
        count: u32,
        last: [(&'static str, &'static str); 3],
    ) -> impl AsyncFnMut() -> Result<Vec<Entry>, Error> {
        let mut sent = 0;
        async move || {
            sleep(LOOK_INTERVAL / 10).await;
            sent += 1;
            let other = [("e164", "other"), ("event", "refused"), ("reason", "full")];
            let fields = if sent == count { last } else { other };
            let bytes = |(name, value): (&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
            Ok(vec![Entry { id: format!("{sent}-0"), fields: fields.map(bytes).into() }])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reason_is_waited_for_though_other_conferences_have_events() {
        let refused = [("e164", "49"), ("event", "refused"), ("reason", "no licence")];
        for (count, reason, longest) in [(5, Some("no licence"), 0.6), (50, None, 1.1)] {
            let began = Instant::now();
            let mut waiting = Waiting {
                e164: b"49".to_vec(),
                origin_epoch: 1,
                after: "0-0".to_owned(),
                reason: None,
                deadline: began + LONGEST_WAIT,
            };
            waiting.wait_for_reason(events(count, refused)).await.unwrap();
            assert_eq!(waiting.reason.as_deref(), reason);
            assert!(began.elapsed().as_secs_f64() < longest, "{:?}", began.elapsed());
        }
    }

    #[test]
    fn an_end_is_a_time_or_a_length() {
        assert_eq!(end("2023-11-14T22:13:20Z").unwrap(), 1_700_000_000_000);
        let hour = end("1h").unwrap();
        assert!(hour > allot_runtime::time::now_ms() + 3_500_000);
        assert!(end("soon").unwrap_err().to_string().contains("90m"));
    }
}
