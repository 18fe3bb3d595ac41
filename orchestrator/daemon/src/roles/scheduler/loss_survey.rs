//! Surveys regularly whether the realm could lose any one unit: for how many conferences of each unit no other unit has
//! room. The result is a metric. The survey never runs while conferences wait for recovery, and asks for one part of it
//! at a time, so it does not hold up Redis.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use allot_client::{Error, RealmStore};

/// Time between the end of a survey and the next.
const INTERVAL: Duration = Duration::from_secs(30);

/// What a survey has found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    /// Units whose loss would leave conferences without room.
    units: u64,
    /// The most conferences for which there would be no room after the loss of one unit.
    worst: u64,
}

/// The survey of one scheduler.
#[derive(Debug, Default)]
pub(super) struct LossSurvey {
    /// Where the survey continues; 0 at its beginning.
    cursor: u64,
    found: Found,
    /// The end of the last survey, or of the last attempt.
    ended: Option<Instant>,
}

impl LossSurvey {
    /// Asks for the next part of the survey, if its time has come and no conference is `pending`.
    ///
    /// # Errors
    /// An error that ends the session. Other errors end the survey, and the next one begins later.
    pub(super) async fn proceed(&mut self, store: &RealmStore, pending: u64) -> Result<(), Error> {
        if pending > 0 || self.ended.is_some_and(|ended| ended.elapsed() < INTERVAL) {
            return Ok(());
        }
        match store.loss_page(self.cursor).await {
            Ok((next, units)) => {
                for unit in units {
                    let no_room: u64 = unit.get("no_room")?;
                    self.found.units += u64::from(no_room > 0);
                    self.found.worst = self.found.worst.max(no_room);
                }
                self.cursor = next;
                if next == 0 {
                    self.end();
                }
                Ok(())
            }
            Err(error) if error.ends_session() => Err(error),
            Err(error) => {
                // The user may not run the command, or a server of an earlier version does not know it.
                warn!(%error, "survey skipped: CONF.PLAN refused; permit CONF.PLAN to this user");
                *self = Self { ended: Some(Instant::now()), ..Self::default() };
                Ok(())
            }
        }
    }

    fn end(&mut self) {
        let Found { units, worst } = self.found;
        metrics::gauge!("allot_scheduler_units_without_cover").set(units as f64);
        metrics::gauge!("allot_scheduler_conferences_without_cover").set(worst as f64);
        *self = Self { ended: Some(Instant::now()), ..Self::default() };
    }
}
