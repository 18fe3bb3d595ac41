//! The commands of a number pool, typed.

use std::ops::Deref;

use redis::{Cmd, cmd};

use super::keyed::Keyed;
use crate::connection::Connection;
use crate::error::Error;
use crate::record::{Record, records};

records! {
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
        /// Calls that wait for a number.
        pub waiting: u64,
        /// Numbers without a call that have begun as many calls as their caps allow.
        pub limited: u64,
        /// Numbers that are out of service.
        pub suspended: u64,
        /// Of these, numbers that are out of service for a cause.
        pub quarantined: u64,
        /// How many calls a number may begin within which windows.
        pub caps: Vec<Cap>,
        /// How many calls the pool may begin within a window; 0 = as many as there are.
        pub rate: u32,
        /// The length of this window, in milliseconds.
        pub rate_window: Option<i64>,
        /// Until when the rate forbids another call.
        pub rate_until: Option<i64>,
        /// Of how many peers the pool remembers the last number; 0 = of none.
        pub peers: u32,
        /// For how long after their last call, in milliseconds; 0 = no end.
        pub peerttl: i64,
        /// Of how many peers the pool knows the last number.
        pub known_peers: u64,
        /// A midnight, in milliseconds since 1970: when the calendar days of caps begin.
        pub daystart: i64,
        /// How long these days are, in milliseconds.
        pub daylength: i64,
        /// Causes with which calls ended, and the rules for them.
        pub causes: Vec<Cause>,
        /// How many calls ended with causes that the pool does not keep.
        pub causes_other: u64,
    }

    /// A number of a pool. Times are in milliseconds since 1970.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct NumberInfo {
        /// `idle+up`, `idle+down`, `busy+up` or `busy+down`.
        pub state: String,
        /// The token of its live call.
        pub lease: Option<String>,
        /// The deadline of this call, if it has one.
        pub until: Option<i64>,
        /// The switch that registered the number.
        pub reg_switch: Option<String>,
        /// The switch that carries the call.
        pub call_switch: Option<String>,
        /// The called party; of a number without a call, the last one.
        pub peer: Option<String>,
        /// How often the number was given for a call.
        pub uses: u64,
        /// Since when the number has had no call.
        pub idle_since: Option<i64>,
        /// The end of its cool-down.
        pub cool_until: Option<i64>,
        /// The last cause with which a call of the number ended.
        pub cause: Option<String>,
        /// The end of its quarantine.
        pub quarantine_until: Option<i64>,
        /// The time until which the caps forbid another call.
        pub limit_until: Option<i64>,
        /// Whether the number is out of service.
        pub suspended: bool,
        /// Why it is out of service, if a cause was named.
        pub suspend_cause: Option<String>,
        /// When it is in service again by itself.
        pub suspend_until: Option<i64>,
        /// How many calls it may begin within which windows; none: as many as the caps of the pool allow.
        pub caps: Vec<Cap>,
    }

    /// How many calls a number may begin within a sliding window, or within a calendar day.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Cap {
        /// Length of the window, in milliseconds; absent: the calendar day.
        pub window: Option<i64>,
        /// The most calls within any such window.
        pub count: u32,
    }

    /// A cause with which calls ended.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Cause {
        /// Its word.
        pub cause: String,
        /// How many calls ended with it.
        pub count: u64,
        /// Length of the quarantine to which it leads, in milliseconds; `None` if it leads to none.
        pub cooldown: Option<i64>,
        /// How many calls of a number must end with it.
        pub after: Option<u32>,
        /// Within which time, in milliseconds; `None` where one call is enough.
        pub within: Option<i64>,
    }

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

    /// Until when a switch is alive.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Heartbeat {
        /// The deadline of the switch, in milliseconds since 1970.
        pub until: i64,
        /// How many calls the switch carries.
        pub calls: u64,
    }

    /// A switch of a pool.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SwitchInfo {
        /// Its name.
        pub switch: String,
        /// Until when it is alive, if it sends heartbeats; in milliseconds since 1970.
        pub until: Option<i64>,
        /// How many numbers it has registered.
        pub numbers: u64,
        /// How many calls it carries.
        pub calls: u64,
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

/// Adds caps to a command.
fn with_caps<'a>(command: &'a mut Cmd, caps: &[Cap]) -> &'a Cmd {
    command.arg(caps.len());
    for cap in caps {
        match cap.window {
            Some(window) => command.arg(window),
            None => command.arg("DAY"),
        };
        command.arg(cap.count);
    }
    command
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

/// A live call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLease {
    /// The switch that carries the call.
    pub switch: Option<String>,
    /// The realm whose conference has the number.
    pub holder: Option<String>,
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

    /// Ends the registrations of the numbers of a list that are in the pool.
    pub async fn unregister(&self, numbers: &[String]) -> Result<ListOutcome, Error> {
        self.ask(self.begin("NUMPOOL.UNREG").arg(numbers).arg("MISSING")).await
    }

    /// Takes the numbers of a list that are in the pool out of service: for a cause, for `ttl` milliseconds, or until
    /// they are resumed.
    pub async fn suspend(
        &self,
        numbers: &[String],
        cause: Option<&str>,
        ttl: Option<u64>,
    ) -> Result<ListOutcome, Error> {
        let mut command = self.begin("NUMPOOL.SUSPEND");
        command.arg(cause.map(|cause| ("CAUSE", cause))).arg(ttl.map(|ttl| ("FOR", ttl)));
        self.ask(command.arg(numbers).arg("MISSING")).await
    }

    /// Puts the numbers of a list that are in the pool into service again.
    pub async fn resume(&self, numbers: &[String]) -> Result<ListOutcome, Error> {
        self.ask(self.begin("NUMPOOL.RESUME").arg(numbers).arg("MISSING")).await
    }

    /// The totals and settings of the pool.
    pub async fn info(&self) -> Result<PoolInfo, Error> {
        self.ask(&self.begin("NUMPOOL.INFO")).await
    }

    /// One number of the pool.
    ///
    /// # Errors
    /// The refusal `NOTFOUND` if the number is not in the pool, and any [`Error`] of a request.
    pub async fn number(&self, number: &str) -> Result<NumberInfo, Error> {
        self.ask(self.begin("NUMPOOL.GET").arg(number)).await
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

    /// Says that a switch is alive for `ttl` milliseconds from now: its calls without a deadline of their own go on.
    pub async fn beat(&self, switch: &str, ttl: u64) -> Result<Heartbeat, Error> {
        self.ask(self.begin("NUMPOOL.BEAT").arg(switch).arg("TTL").arg(ttl)).await
    }

    /// Switches from a cursor on, and the next cursor, 0 at the end.
    pub async fn switches(&self, cursor: u32, count: u32) -> Result<(u32, Vec<SwitchInfo>), Error> {
        self.ask(self.begin("NUMPOOL.SWITCHES").arg("CURSOR").arg(cursor).arg("COUNT").arg(count)).await
    }

    /// Ends the call of a lease, for a cause if one is given. Returns whether the call was still live.
    pub async fn hang_up(&self, number: &str, lease: &str, cause: Option<&str>) -> Result<bool, Error> {
        let cause = cause.map(|cause| ("CAUSE", cause));
        self.ask(self.begin("NUMPOOL.HANGUP").arg(number).arg("LEASE").arg(lease).arg(cause)).await
    }

    /// Sets the caps of the pool; none removes them.
    pub async fn set_caps(&self, caps: &[Cap]) -> Result<(), Error> {
        self.ask(with_caps(self.begin("NUMPOOL.CONFIG").arg("CAPS"), caps)).await
    }

    /// Sets the caps of a number, which hold instead of those of the pool; none removes them.
    pub async fn set_number_caps(&self, number: &str, caps: &[Cap]) -> Result<(), Error> {
        self.ask(with_caps(self.begin("NUMPOOL.CAPS").arg(number), caps)).await
    }

    /// Sets how many calls the pool may begin within a window, in milliseconds; a count of 0 removes the rate.
    pub async fn set_rate(&self, count: u32, window: i64) -> Result<(), Error> {
        self.ask(self.begin("NUMPOOL.CONFIG").arg("RATE").arg(count).arg(window)).await
    }

    /// Sets the calendar days of caps: a midnight, in milliseconds since 1970, and the length of days, in milliseconds.
    pub async fn set_days(&self, start: i64, length: i64) -> Result<(), Error> {
        self.ask(self.begin("NUMPOOL.CONFIG").arg("DAYSTART").arg(start).arg(length)).await
    }

    /// Sets of how many peers the pool remembers the last number, and for how long after their last call, in milliseconds,
    /// 0 without an end.
    pub async fn set_peers(&self, peers: u32, peerttl: i64) -> Result<(), Error> {
        self.ask(self.begin("NUMPOOL.CONFIG").arg("PEERS").arg(peers).arg("PEERTTL").arg(peerttl)).await
    }

    /// Has a cause send a number into quarantine for `cooldown` milliseconds, after so many calls within a time in
    /// milliseconds if `after` is given. A cool-down of 0 removes the rule.
    pub async fn set_cause(
        &self,
        cause: &str,
        cooldown: i64,
        after: Option<(u32, i64)>,
    ) -> Result<(), Error> {
        let after = after.map(|(after, within)| ("AFTER", after, "WITHIN", within));
        self.ask(self.begin("NUMPOOL.CAUSE").arg(cause).arg("COOLDOWN").arg(cooldown).arg(after)).await
    }

    /// The records of live calls from a cursor on, and the next cursor, 0 at the end.
    pub async fn lease_records(&self, cursor: u32, count: u32) -> Result<(u32, Vec<Record>), Error> {
        self.ask(self.begin("NUMPOOL.LEASES").arg("CURSOR").arg(cursor).arg("COUNT").arg(count)).await
    }

    /// Live calls from a cursor on, and the next cursor, 0 at the end.
    pub async fn leases(&self, cursor: u32, count: u32) -> Result<(u32, Vec<LiveLease>), Error> {
        let (next, leases) = self.lease_records(cursor, count).await?;
        let lease = |record: &Record| {
            Ok(LiveLease {
                switch: record.get("call_switch")?,
                holder: record.get("holder")?,
                since: record.get("since")?,
            })
        };
        Ok((next, leases.iter().map(lease).collect::<Result<_, Error>>()?))
    }

    /// The server's clock, in milliseconds since 1970.
    pub async fn clock(&self) -> Result<i64, Error> {
        let (seconds, microseconds): (i64, i64) = self.ask(&cmd("TIME")).await?;
        Ok(seconds * 1000 + microseconds / 1000)
    }
}
