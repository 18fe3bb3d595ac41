//! What a leader looks after once a second: that the book is still claimed by it, that the book knows when months turn, and
//! that projected use is evened out in time.

use std::time::Duration;

use jiff::tz::TimeZone;
use tracing::{info, warn};

use super::billing_cycles;
use crate::config::AccountsConfig;
use allot_client::{BookStore, Error};
use allot_runtime::time::now_ms;

/// Of one session.
pub(super) struct PeriodicTasks {
    zone: TimeZone,
    every: Duration,
    /// The interval of rebalancing that was begun.
    slot: u64,
}

impl PeriodicTasks {
    /// Nothing is due yet.
    pub(super) fn new(config: &AccountsConfig) -> Self {
        let mut periodic_tasks = Self { zone: config.time_zone.clone(), every: config.rebalance, slot: 0 };
        periodic_tasks.slot = periodic_tasks.now();
        periodic_tasks
    }

    /// Which interval of rebalancing it is: by the clock, so that a change of leaders does not hasten it. One that begins
    /// while nobody leads is passed over, and what it would have moved the next one moves.
    fn now(&self) -> u64 {
        now_ms() / (self.every.as_millis() as u64).max(1)
    }

    /// Looks, and does what is due; why the book is ours no more, if so.
    pub(super) async fn look(&mut self, store: &BookStore, term: u64) -> Result<Option<Error>, Error> {
        let book = store.info().await?;
        let claimed: u64 = book.get("term")?;
        if claimed != term {
            let leader = book.text("leader");
            return Ok(Some(Error::Refused {
                command: "ACCOUNT.INFO".to_owned(),
                code: "STALE".to_owned(),
                message: format!("the book is claimed by {leader} for term {claimed}, and ours is {term}"),
            }));
        }
        let now = now_ms() as i64;
        let known: Vec<i64> = book.get("turns")?;
        // The first month began when the book was made, which is no turn.
        let began: Option<i64> = if book.get::<u32>("month")? > 0 { book.get("month_start")? } else { None };
        if let Some(turns) =
            billing_cycles::choose(&known, began, billing_cycles::after(now, &self.zone), now)
        {
            match store.set_turns(&turns).await {
                // The clocks of two machines differ, and a turn is just now.
                Err(error) if error.code() == Some("ERR") => {
                    warn!(%error, "the turns of the month are not set");
                }
                result => result?,
            }
        }
        let slot = self.now();
        if slot != self.slot {
            self.slot = slot;
            let moves = store.rebalance(false, Some(term)).await?;
            info!(moves = moves.len(), "projected use is evened out");
            metrics::counter!("allot_accounts_moves_total").increment(moves.len() as u64);
        }
        Ok(None)
    }
}
