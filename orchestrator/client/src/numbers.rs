//! The commands of a number pool, typed.

use std::ops::Deref;

use super::keyed::Keyed;
use crate::connection::Connection;
use crate::error::Error;
use crate::record::{Record, records};

records! {
    /// The right to a number for one call.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Lease {
        /// The number.
        pub number: String,
        /// The token of the lease.
        pub lease: String,
        /// The deadline of the lease, in milliseconds since 1970, if it has one.
        pub until: Option<i64>,
    }

    /// What became of a list of numbers.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListOutcome {
        /// How many numbers changed.
        pub done: u64,
        /// The numbers that are not in the pool.
        pub missing: Vec<String>,
    }
}

/// A call that [`NumberStore::call`] asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallRequest<'a> {
    /// The number; if absent, the pool chooses one.
    pub number: Option<&'a str>,
    /// The token of the lease; it makes the call repeatable.
    pub lease: Option<&'a str>,
    /// Lifetime of the lease, in milliseconds; the pool's default if absent.
    pub ttl: Option<u64>,
    /// The switch that carries the call.
    pub switch: Option<&'a str>,
    /// The called party.
    pub peer: Option<&'a str>,
    /// What the number begins with: prefixes that are tried in this order.
    pub prefixes: &'a [&'a str],
    /// The policy by which the number is picked, for example `LEASTUSED`; the pool's if absent.
    pub pick: Option<&'a str>,
    /// How long to wait for a number, in milliseconds, 0 without an end; absent: not at all.
    pub wait: Option<u64>,
    /// The priority of a call that waits; higher is served first.
    pub priority: i32,
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
    pub fn new(connection: impl Into<Connection>, key: &str) -> Self {
        Self(Keyed::new(connection, key))
    }

    /// Puts numbers into the pool. Returns the number of new ones.
    pub async fn add(&self, numbers: &[String]) -> Result<u64, Error> {
        self.ask(self.begin("NUMPOOL.ADD").arg(numbers)).await
    }

    /// Registers the numbers of a list that are in the pool.
    pub async fn register(&self, numbers: &[String], switch: Option<&str>) -> Result<ListOutcome, Error> {
        let switch = switch.map(|switch| ("SWITCH", switch));
        self.ask(self.begin("NUMPOOL.REG").arg(numbers).arg(switch).arg("MISSING")).await
    }

    /// The totals and settings of the pool.
    pub async fn info(&self) -> Result<Record, Error> {
        self.ask(&self.begin("NUMPOOL.INFO")).await
    }

    /// Asks for a number for a call; `None` if none is free, or if none became free while the call waited.
    ///
    /// A call that waits blocks its connection, and with it all clones of this client: use a client with a connection
    /// of its own, whose response timeout is longer than the wait. If the connection breaks, send the call again with
    /// the same lease.
    pub async fn call(&self, call: CallRequest<'_>) -> Result<Option<Lease>, Error> {
        let mut command = self.begin("NUMPOOL.CALL");
        command.arg(call.number);
        command.arg(call.lease.map(|lease| ("LEASE", lease)));
        command.arg(call.switch.map(|switch| ("SWITCH", switch)));
        command.arg(call.peer.map(|peer| ("PEER", peer)));
        if !call.prefixes.is_empty() {
            command.arg("PREFIX").arg(call.prefixes.len()).arg(call.prefixes);
        }
        command.arg(call.pick.map(|pick| ("PICK", pick)));
        command.arg(call.ttl.map(|ttl| ("TTL", ttl)));
        command.arg(call.wait.map(|wait| ("WAIT", wait, "PRIORITY", call.priority)));
        self.ask(&command).await
    }

    /// Ends the call of a lease, for a cause if one is given. Returns whether the call was still live.
    pub async fn hang_up(&self, number: &str, lease: &str, cause: Option<&str>) -> Result<bool, Error> {
        let cause = cause.map(|cause| ("CAUSE", cause));
        self.ask(self.begin("NUMPOOL.HANGUP").arg(number).arg("LEASE").arg(lease).arg(cause)).await
    }

    /// The records of live calls from a cursor on, and the next cursor, 0 at the end.
    pub async fn lease_records(&self, cursor: u32, count: u32) -> Result<(u32, Vec<Record>), Error> {
        self.ask(self.begin("NUMPOOL.LEASES").arg("CURSOR").arg(cursor).arg("COUNT").arg(count)).await
    }
}
