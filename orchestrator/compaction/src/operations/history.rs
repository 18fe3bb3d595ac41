//! What people read of the history: ended tasks, rounds, and the failures of both.

use allot_runtime::settings::Span;
use allot_runtime::time::now_ms;
use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;

use super::client::TaskClient;
use crate::fault::Fault;
use crate::history::{self, Cursor, Filter};
use crate::ids::TaskId;
use crate::task::{Failure, MainTask, State};
use crate::task_store::Found;

/// Which ended tasks and rounds are wanted. An option that is absent leaves none out.
#[derive(Debug, Default, Args, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
pub struct HistoryQuery {
    /// The cursor of the page before; without it, the first page.
    #[arg(skip)]
    pub cursor: Option<String>,
    /// Only of this database
    #[arg(long)]
    pub db: Option<String>,
    /// Only of this schema
    #[arg(long)]
    pub schema: Option<String>,
    /// Only of this table
    #[arg(long)]
    pub table: Option<String>,
    /// Only those that ended so: done or cancel
    #[arg(long)]
    pub state: Option<String>,
    /// Only those that ended at this time or later: 2026-11-21T18:00:00+01:00, or a length of time before now, e.g. 12h
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Only those that ended at this time or earlier
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
}

impl HistoryQuery {
    fn filter(&self) -> Result<Filter, Fault> {
        let state = match self.state.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None => None,
            Some("done") => Some(State::Done),
            Some("cancel") => Some(State::Cancel),
            Some(other) => {
                return Err(Fault::Wrong(format!("`state` '{other}' is no end: write done or cancel")));
            }
        };
        let table = [&self.db, &self.schema, &self.table].map(Clone::clone);
        let (from, to) = (time("from", self.from.as_ref())?, time("to", self.to.as_ref())?);
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            return Err(Fault::Wrong("`from` is later than `to`, so that nothing can match".to_owned()));
        }
        Ok(Filter { table, state, from: from.unwrap_or(0), to })
    }
}

/// Reads a time of RFC 3339, or a length of time before now, as milliseconds since 1970.
fn time(option: &str, text: Option<&String>) -> Result<Option<u64>, Fault> {
    let Some(text) = text else { return Ok(None) };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Some(u64::try_from(time.as_millisecond()).unwrap_or(0)));
    }
    let wrong = |_| {
        let example = "write 2026-11-21T18:00:00+01:00, or a length of time before now, e.g. 12h or 7days";
        Fault::Wrong(format!("`{option}` '{text}' is no time; {example}"))
    };
    let before = text.parse::<Span>().map_err(wrong)?;
    Ok(Some(now_ms().saturating_sub(u64::try_from(before.0.as_millis()).unwrap_or(u64::MAX))))
}

/// Failures of a round.
pub struct Failures {
    /// Those that are kept, from old to new.
    pub kept: Vec<Failure>,
    /// How many there were.
    pub all: u64,
}

impl TaskClient {
    /// The ended tasks, and the rounds of repeated tasks, that are wanted, from old to new: the newest `limit` at least, if
    /// there are so many. The second value is false if older ones may be left out.
    pub async fn history(&self, wanted: &HistoryQuery, limit: usize) -> Result<(Vec<MainTask>, bool), Fault> {
        history::all(&self.store, &wanted.filter()?, limit).await
    }

    /// A task that has ended, and the rounds of it that have ended, from old to new.
    pub async fn history_of(&self, id: TaskId) -> Result<Vec<MainTask>, Fault> {
        history::of_task(&self.store, id).await
    }

    /// What is wanted from new to old, in pages: with the cursor of the next page, unless this is the last one. A page has
    /// at least one, unless nothing more is wanted.
    pub async fn history_page(
        &self,
        wanted: &HistoryQuery,
        count: usize,
    ) -> Result<(Vec<MainTask>, Option<Cursor>), Fault> {
        let filter = wanted.filter()?;
        let cursor = wanted.cursor.as_ref().map(|text| text.parse::<Cursor>()).transpose();
        let (mut tasks, mut next) = (Vec::new(), Some(cursor.map_err(Fault::Wrong)?.unwrap_or_default()));
        while tasks.is_empty()
            && let Some(cursor) = next
        {
            (tasks, next) = history::page(&self.store, &filter, cursor, count).await?;
        }
        Ok((tasks, next))
    }

    /// The failures of the current or last round of a task, or of the round with this number: all, or the last ones if only
    /// these are kept. `None` if there is no such task or round.
    pub async fn failures(&self, id: TaskId, round: Option<u64>) -> Result<Option<Failures>, Fault> {
        if let Some(found) = self.unpacked(id, round).await? {
            let kept = self.store.failures(&found).await?;
            return Ok(Some(Failures { kept, all: found.task.result.failed_count }));
        }
        let found = history::find(&self.store, id, round).await?;
        Ok(found.map(|task| Failures { kept: task.failures, all: task.result.failed_count }))
    }

    /// A task that is not packed, or its round with this number, with the place of its failures; `None` if there is none.
    pub async fn unpacked(&self, id: TaskId, round: Option<u64>) -> Result<Option<Found<MainTask>>, Fault> {
        let main = self.store.main(id).await?;
        match (main, round) {
            (Some(main), Some(round)) if main.task.round != round => self.store.round(&main, round).await,
            (main, _) => Ok(main),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(query: &HistoryQuery) -> Result<Filter, String> {
        query.filter().map_err(|fault| fault.to_string())
    }

    #[test]
    fn times_and_ends_of_the_history_are_read() {
        let text = |text: &str| Some(text.to_owned());
        let query = HistoryQuery {
            table: text("orders"),
            state: text("Cancel"),
            from: text("1970-01-01T01:00:01+01:00"),
            to: text("2h"),
            ..HistoryQuery::default()
        };
        let read = filter(&query).unwrap();
        assert_eq!(read.table, [None, None, text("orders")]);
        assert_eq!((read.state, read.from), (Some(State::Cancel), 1000));
        let ago = now_ms() - read.to.unwrap();
        assert!((7_200_000..7_260_000).contains(&ago), "{ago}");
        for (query, why) in [
            (HistoryQuery { state: text("running"), ..HistoryQuery::default() }, "done or cancel"),
            (HistoryQuery { from: text("yesterday"), ..HistoryQuery::default() }, "e.g. 12h"),
            (HistoryQuery { from: text("1h"), to: text("2h"), ..HistoryQuery::default() }, "later than"),
        ] {
            let refused = filter(&query).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
