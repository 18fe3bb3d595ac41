//! Waits until a conference is open, over failovers.

use std::time::Duration;

use allot_client::streams::{Commands, Entry};
use allot_client::{Error, Record};
use tokio::time::{Instant, sleep, timeout_at};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::stores::Changing;

/// The longest time limit that counts.
const LONGEST_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest time between two looks at the record while no event of the conference comes.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before the next attempt to reach Redis.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

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
    let mut waiting = Waiting {
        e164: record.get("e164")?,
        origin_epoch: record.get("origin_epoch")?,
        // Only the reply of a creation says after which id the events come.
        after: record.get("evt").unwrap_or_else(|_| "$".to_owned()),
        reason: None,
        deadline: Instant::now() + limit.min(LONGEST_WAIT),
    };
    loop {
        match waiting.follow(&changing).await {
            Err(error) if error.ends_session() && Instant::now() < waiting.deadline => {
                sleep(RETRY_PAUSE).await;
                // The old connection stays while there is no other: the next attempt fails, and tries again.
                if let Ok(again) = Changing::connect(context, realm).await {
                    changing = again;
                }
            }
            opening => return opening?.map_err(Failure::no),
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
}
