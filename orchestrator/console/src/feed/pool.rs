//! The reader of a pool of numbers: its totals, and how they moved while somebody looked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use allot_client::{NumberStore, Record};
use serde::Serialize;
use serde_json::Value as Json;

use super::channel::{Feed, Message, Reader};
use crate::problem::Problem;
use crate::sources::Sources;

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);
/// Points of the chart: fifteen minutes.
const POINTS: usize = 900;
/// Live calls that are read for the table by switch.
const LEASES: u32 = 1000;

/// The counts of a pool at one instant.
#[derive(Serialize, Clone)]
struct Point {
    /// Milliseconds since 1970.
    at: i64,
    idle_up: u64,
    idle_down: u64,
    busy: u64,
    cooling: u64,
    /// Calls that wait for a number.
    waiting: u64,
}

/// A pool, as its page shows it.
#[derive(Serialize)]
struct State<'a> {
    now: i64,
    /// `NUMPOOL.INFO`.
    info: Json,
    /// Live calls, the longest first; at most [`LEASES`].
    leases: &'a [Json],
    /// Whether there are further live calls.
    more: bool,
    points: &'a VecDeque<Point>,
}

pub(super) struct Pool {
    sources: Arc<Sources>,
    key: String,
    points: VecDeque<Point>,
}

impl Pool {
    pub(super) fn new(sources: Arc<Sources>, key: String) -> Self {
        Self { sources, key, points: VecDeque::new() }
    }
}

impl Reader for Pool {
    async fn read(&mut self, feed: &Feed) -> Result<Duration, Problem> {
        let read = async |pool: NumberStore| {
            let info = Record::read(pool.ask(&pool.begin("NUMPOOL.INFO")).await?)?;
            let (next, leases) = pool.lease_records(0, LEASES).await?;
            Ok((info, pool.info().await?, next, leases, pool.clock().await?))
        };
        let (info, totals, next, leases, now) = self.sources.viewer.pool(&self.key, read).await?;
        if self.points.len() >= POINTS {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            at: now,
            idle_up: totals.idle_up,
            idle_down: totals.idle_down,
            busy: totals.busy_up + totals.busy_down,
            cooling: totals.cooling,
            waiting: totals.waiting,
        });
        let leases: Vec<Json> = leases.iter().map(Record::json).collect();
        let state = State { now, info: info.json(), leases: &leases, more: next != 0, points: &self.points };
        feed.send_state(Message::new("state", &state));
        Ok(PAUSE)
    }
}
