//! The commands of a number pool, typed.

use std::ops::Deref;

use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};

use super::keyed::Keyed;
use crate::error::Error;
use crate::record::Record;

/// The totals and settings of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolInfo {
    /// Numbers in the pool.
    pub total: u64,
    /// Numbers without a call whose device is registered: these can be called.
    pub idle_up: u64,
    /// Numbers without a call whose device is not registered.
    pub idle_down: u64,
    /// Numbers in a call whose device is registered.
    pub busy_up: u64,
    /// Numbers in a call whose device is not registered.
    pub busy_down: u64,
    /// Numbers that cool down after a call.
    pub cooling: u64,
    /// Live calls.
    pub leases: u64,
    /// Numbers that are removed when their call ends.
    pub draining: u64,
    /// Lifetime of a lease, in milliseconds; 0 = no end.
    pub lease: i64,
    /// Cool-down after a call, in milliseconds.
    pub cooldown: i64,
    /// Lifetime of a registration, in milliseconds; 0 = no end.
    pub regttl: i64,
    /// The policy by which a call picks a number.
    pub pick: String,
}

/// A live call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLease {
    /// The switch that carries the call.
    pub switch: Option<String>,
    /// Start of the call, in milliseconds since 1970.
    pub since: i64,
}

/// The client of one pool. Clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use allot_client::{Endpoint, NumberStore, Servers};
///
/// let (endpoint, user) = Endpoint::url("redis://127.0.0.1:6379")?;
/// let connection = Servers { user, ..Servers::new(endpoint, "pool:1") }.connection(Duration::ZERO).await?;
/// let pool = NumberStore::new(connection, "pool:1");
/// let numbers = ["4930111".to_owned(), "4930112".to_owned()];
/// pool.add(&numbers).await?;
/// pool.register(&numbers, Some("switch-a")).await?;
/// println!("{:?}", pool.info().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct NumberStore(Keyed);

impl Deref for NumberStore {
    type Target = Keyed;

    fn deref(&self) -> &Keyed {
        &self.0
    }
}

impl NumberStore {
    /// The client of the pool at `key`.
    pub fn new(connection: MultiplexedConnection, key: &str) -> Self {
        Self(Keyed::new(connection, key))
    }

    /// Puts numbers into the pool. Returns the number of new ones.
    pub async fn add(&self, numbers: &[String]) -> Result<u64, Error> {
        self.ask(self.begin("NUMPOOL.ADD").arg(numbers)).await
    }

    /// Registers numbers. Returns the number of those that were not registered before.
    pub async fn register(&self, numbers: &[String], switch: Option<&str>) -> Result<u64, Error> {
        let mut command = self.begin("NUMPOOL.REG");
        command.arg(numbers);
        if let Some(switch) = switch {
            command.arg("SWITCH").arg(switch);
        }
        self.ask(&command).await
    }

    /// The totals and settings of the pool.
    pub async fn info(&self) -> Result<PoolInfo, Error> {
        let record = Record::read(self.ask(&self.begin("NUMPOOL.INFO")).await?)?;
        Ok(PoolInfo {
            total: record.get("total")?,
            idle_up: record.get("idle_up")?,
            idle_down: record.get("idle_down")?,
            busy_up: record.get("busy_up")?,
            busy_down: record.get("busy_down")?,
            cooling: record.get("cooling")?,
            leases: record.get("leases")?,
            draining: record.get("draining")?,
            lease: record.get("lease")?,
            cooldown: record.get("cooldown")?,
            regttl: record.get("regttl")?,
            pick: record.get("pick")?,
        })
    }

    /// The records of live calls from a cursor on, and the next cursor, 0 at the end.
    pub async fn lease_records(&self, cursor: u32, count: u32) -> Result<(u32, Vec<Record>), Error> {
        let mut command = self.begin("NUMPOOL.LEASES");
        command.arg("CURSOR").arg(cursor).arg("COUNT").arg(count);
        let (next, leases): (u32, Value) = self.ask(&command).await?;
        Ok((next, Record::read_list(leases)?))
    }

    /// Live calls from a cursor on, and the next cursor, 0 at the end.
    pub async fn leases(&self, cursor: u32, count: u32) -> Result<(u32, Vec<LiveLease>), Error> {
        let (next, leases) = self.lease_records(cursor, count).await?;
        let lease = |record: &Record| {
            Ok(LiveLease { switch: record.get("call_switch")?, since: record.get("since")? })
        };
        Ok((next, leases.iter().map(lease).collect::<Result<_, Error>>()?))
    }

    /// The server's clock, in milliseconds since 1970.
    pub async fn clock(&self) -> Result<i64, Error> {
        let (seconds, microseconds): (i64, i64) = self.ask(&cmd("TIME")).await?;
        Ok(seconds * 1000 + microseconds / 1000)
    }
}
