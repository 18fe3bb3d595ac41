//! Tasks that a leader does once a second: check that the book is still claimed by its own term, send the book the
//! instants at which its billing months begin, and start rebalancing at each interval.

use std::time::Duration;

use jiff::tz::TimeZone;
use tracing::{info, warn};

use super::billing_cycles;
use crate::config::AccountsConfig;
use allot_client::{BookStore, Error, Record};
use allot_runtime::time::now_ms;

/// The periodic tasks of one leader session.
pub(super) struct PeriodicTasks {
    zone: TimeZone,
    every: Duration,
    /// The number of the last rebalancing interval that was handled.
    slot: u64,
}

impl PeriodicTasks {
    /// Starts in the current interval, so the first rebalancing follows at the next interval.
    pub(super) fn new(config: &AccountsConfig) -> Self {
        let mut tasks = Self { zone: config.time_zone.clone(), every: config.rebalance, slot: 0 };
        tasks.slot = tasks.current_slot();
        tasks
    }

    /// The number of the current rebalancing interval. It follows the clock, so a change of leaders does not bring a
    /// rebalancing forward. An interval that begins without a leader is skipped; the next one makes its moves.
    fn current_slot(&self) -> u64 {
        now_ms() / (self.every.as_millis() as u64).max(1)
    }

    /// Checks the claim and does the periodic tasks whose time has come. If another term has claimed the book, returns
    /// a text that says so.
    pub(super) async fn run(&mut self, store: &BookStore, term: u64) -> Result<Option<Error>, Error> {
        let book = store.info().await?;
        let claimed: u64 = book.get("term")?;
        if claimed != term {
            let leader = book.text("leader");
            return Ok(Some(Error::Refused {
                command: "ACCOUNT.INFO".to_owned(),
                code: "STALE".to_owned(),
                message: format!(
                    "the book is claimed by {leader} for term {claimed}; this process has term {term}"
                ),
            }));
        }
        if let Some(refusal) = self.set_calendar_months(store, &book, term).await? {
            return Ok(Some(refusal));
        }
        let slot = self.current_slot();
        if slot != self.slot {
            self.slot = slot;
            let moves = store.rebalance(false, Some(term)).await?;
            info!(moves = moves.len(), "rebalanced projected use");
            metrics::counter!("allot_accounts_moves_total").increment(moves.len() as u64);
        }
        Ok(None)
    }

    /// Sends the book the next ends of calendar months, unless an operator has set others. Returns the refusal if
    /// another term has claimed the book.
    async fn set_calendar_months(
        &self,
        store: &BookStore,
        book: &Record,
        term: u64,
    ) -> Result<Option<Error>, Error> {
        if book.get::<u8>("calendar")? == 0 {
            return Ok(None);
        }
        let now = now_ms() as i64;
        let known: Vec<i64> = book.get("turns")?;
        // The first month began when the book was created, which was no turn of the month.
        let began: Option<i64> = if book.get::<u32>("month")? > 0 { book.get("month_start")? } else { None };
        let wanted = billing_cycles::after(now, &self.zone);
        let Some(turns) = billing_cycles::choose(&known, began, wanted, now) else { return Ok(None) };
        match store.set_calendar_turns(term, &turns).await {
            Ok(()) => Ok(None),
            Err(error) if error.code() == Some("STALE") => Ok(Some(error)),
            // An operator has set the ends of months since the book was read.
            Err(error) if error.code() == Some("BADSTATE") => Ok(None),
            // The clocks of two machines differ: for Redis this turn of the month is already past.
            Err(error) if error.code() == Some("ERR") => {
                warn!(%error, "cannot set the turns of the month; trying again in a second");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
