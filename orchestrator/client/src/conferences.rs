//! The commands of a realm of conferences, typed. Replies that are only printed for people remain [`Record`]s.

use std::ops::Deref;
use std::time::Duration;

use redis::{Cmd, Value};

use super::keyed::Keyed;
use crate::connection::Connection;
use crate::error::Error;
use crate::record::{Record, records};

/// Names that no detail may have: entries of streams begin with fields of these names, and a client that reads an entry
/// as a map would take the detail for such a field.
pub const RESERVED_DETAILS: [&str; 5] = ["event", "e164", "cmu", "epoch", "seq"];

/// A unit as `CMU.LIST` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitRow {
    /// Identity of the unit.
    pub cmu: String,
    /// `up`, `draining`, `suspect`, `unreachable` or `down`.
    pub state: String,
    /// Number of conferences that the unit owns.
    pub conferences: u64,
    /// Time for which the unit counts as alive after a heartbeat.
    pub lease: Duration,
}

/// What a unit says when it joins.
#[derive(Debug, Clone, Copy)]
pub struct JoinRequest<'a> {
    /// Room for conferences.
    pub capacity: u32,
    /// Zone of the unit.
    pub zone: Option<&'a str>,
    /// Tags of the unit.
    pub tags: &'a [String],
    /// How long the unit counts as alive after a heartbeat, in milliseconds.
    pub lease_ms: u64,
    /// What tells the machine of the unit from other machines.
    pub machine: Option<&'a str>,
}

records! {
    /// How the realm sees a unit, by the reply to its heartbeat.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UnitStatus {
        /// Room that its conferences take.
        pub used: u64,
        /// Creations that failed on it since one succeeded.
        pub failures: u64,
        /// Until when nothing new is placed on it, in milliseconds since 1970.
        pub backoff_until: Option<i64>,
        /// The machine of another unit that wants its host, and is refused.
        pub conflict: Option<String>,
    }
}

/// A conference that [`RealmStore::create`] asks for. Absent options have the defaults of `CONF.CREATE`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateRequest<'a> {
    /// Its number; `*` with `from`.
    pub e164: &'a str,
    /// The key of the pool from which a number is called.
    pub from: Option<&'a str>,
    /// Its start, in milliseconds since 1970, if it is scheduled.
    pub start: Option<u64>,
    /// Its end, in milliseconds since 1970.
    pub end: Option<u64>,
    /// Room that it takes.
    pub size: Option<u32>,
    /// Licences that it takes.
    pub licences: Option<u32>,
    /// Conferences of greater priority are recovered first.
    pub priority: Option<i64>,
    /// Zone of the unit that runs it.
    pub zone: Option<&'a str>,
    /// How long it waits for its zone and host, in milliseconds, before another unit may take it.
    pub zone_fall: Option<u64>,
    /// Host of the unit that runs it.
    pub host: Option<&'a str>,
    /// Tags that the unit must have.
    pub require: &'a [String],
    /// Tags of which the unit should have as many as possible.
    pub prefer: &'a [String],
    /// Whether it ends, rather than opens on another unit, if its unit is lost.
    pub no_recover: bool,
    /// Id of the request. A repeated request with the same id returns the same conference.
    pub request: Option<&'a str>,
}

/// A conference placed on a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Number of the conference, which may have any bytes.
    pub e164: Vec<u8>,
    /// Identity of the unit.
    pub cmu: String,
    /// Epoch of the assignment.
    pub epoch: u64,
}

/// A move that evens out the used share of the units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMove {
    /// Number of the conference, which may have any bytes.
    pub e164: Vec<u8>,
    /// Identity of the unit that has the conference.
    pub from: String,
    /// Identity of the unit that gets the conference.
    pub to: String,
}

/// What a unit knows about a conference that it runs, as `CREATE` and `UPDATE` had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyParams<'a> {
    /// E.164 number.
    pub e164: Vec<u8>,
    /// Planned end, in milliseconds since 1970; empty without one.
    pub end: &'a str,
    /// Room that the conference takes.
    pub size: &'a str,
    /// Priority.
    pub priority: &'a str,
    /// Id of the creation; empty without one.
    pub request: &'a str,
}

/// The result of a unit's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Conferences of the report that the unit owns.
    pub kept: u64,
    /// Conferences that the unit owns again because of the report.
    pub adopted: usize,
    /// Conferences that the unit must end.
    pub released: usize,
    /// How many conferences ended: people ended them on the unit, or they cannot be recovered.
    pub ended: usize,
    /// How many are recovered, because the unit no longer has them and people did not end them.
    pub lost: usize,
}

/// The client of one realm. Clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use allot_client::{Endpoint, RealmStore, Servers};
///
/// let (endpoint, user) = Endpoint::url("redis://127.0.0.1:6379")?;
/// let connection = Servers { user, ..Servers::new(endpoint, "{eu}") }.connection(Duration::ZERO).await?;
/// let realm = RealmStore::new(connection, "{eu}");
/// for unit in realm.units().await? {
///     println!("{unit:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RealmStore(Keyed);

impl Deref for RealmStore {
    type Target = Keyed;

    fn deref(&self) -> &Keyed {
        &self.0
    }
}

impl RealmStore {
    /// Field of the guard's hash by which an operator asks to lift it: the time since which the guard holds.
    pub const LIFT: &str = "lift";

    /// The client of the realm at `key`.
    pub fn new(connection: impl Into<Connection>, key: &str) -> Self {
        Self(Keyed::new(connection, key))
    }

    /// The name of one of the realm's streams.
    pub fn stream(&self, name: &str) -> String {
        [&self.key, ":", name].concat()
    }

    /// The realm's record. Creates the realm with its defaults if it does not exist.
    pub async fn realm(&self) -> Result<Record, Error> {
        Record::read(self.ask(&self.begin("CONF.REALM")).await?)
    }

    /// Creates a conference. Returns its record, with the id in the event stream after which its events come.
    pub async fn create(&self, conference: &CreateRequest<'_>) -> Result<Record, Error> {
        Record::read(self.ask(&self.creation(conference)).await?)
    }

    /// Creates a conference, and waits this long until there is room and licences for it; `None` if there was none until
    /// then. Needs a connection of its own, whose response timeout is longer than the wait. If the connection breaks, send
    /// the creation again with the same request.
    pub async fn create_with_room(
        &self,
        conference: &CreateRequest<'_>,
        wait: Duration,
    ) -> Result<Option<Record>, Error> {
        let mut command = self.creation(conference);
        command.arg("WAIT").arg(wait.as_millis() as u64);
        match self.ask(&command).await? {
            Value::Nil => Ok(None),
            record => Record::read(record).map(Some),
        }
    }

    fn creation(&self, conference: &CreateRequest<'_>) -> Cmd {
        let mut command = self.begin("CONF.CREATE");
        command.arg(conference.e164);
        let numbers = [
            ("START", conference.start.map(|start| start as i64)),
            ("END", conference.end.map(|end| end as i64)),
            ("SIZE", conference.size.map(i64::from)),
            ("LICENCES", conference.licences.map(i64::from)),
            ("PRIORITY", conference.priority),
            ("ZONEFALL", conference.zone_fall.map(|fall| fall as i64)),
        ];
        for (option, number) in numbers.into_iter().filter_map(|(option, number)| Some((option, number?))) {
            command.arg(option).arg(number);
        }
        let texts = [
            ("FROM", conference.from),
            ("ZONE", conference.zone),
            ("UNIT", conference.host),
            ("REQUEST", conference.request),
        ];
        for (option, text) in texts.into_iter().filter_map(|(option, text)| Some((option, text?))) {
            command.arg(option).arg(text);
        }
        for (option, tags) in [("REQUIRE", conference.require), ("PREFER", conference.prefer)] {
            if !tags.is_empty() {
                command.arg(option).arg(tags.len()).arg(tags);
            }
        }
        if conference.no_recover {
            command.arg("NORECOVER");
        }
        command
    }

    /// Claims the realm for the term of the elected scheduler.
    pub async fn claim(&self, term: u64, leader: &str) -> Result<(), Error> {
        self.ask::<Value>(self.begin("CONF.TERM").arg(term).arg(leader)).await.map(drop)
    }

    /// Reports the units that a new scheduler found alive.
    pub async fn restart(&self, live: &[String], term: u64) -> Result<(), Error> {
        let mut command = self.begin("CONF.RESTART");
        command.arg("LIVE").arg(live.len()).arg(live).arg("TERM").arg(term);
        self.ask::<Value>(&command).await.map(drop)
    }

    /// Asks a unit, or all, for its list, or for all details again.
    pub async fn ask_units(&self, cmu: Option<&str>, what: &str) -> Result<(), Error> {
        let mut command = self.begin("CMU.ASK");
        if let Some(cmu) = cmu {
            command.arg(cmu);
        }
        self.ask::<Value>(command.arg(what)).await.map(drop)
    }

    /// All units.
    pub async fn units(&self) -> Result<Vec<UnitRow>, Error> {
        self.unit_records().await?.iter().map(unit).collect()
    }

    /// The records of all units.
    pub async fn unit_records(&self) -> Result<Vec<Record>, Error> {
        Record::read_list(self.ask(&self.begin("CMU.LIST")).await?)
    }

    /// Declares a unit down: with a term for a scheduler, without one for the unit itself.
    pub async fn down(&self, cmu: &str, term: Option<u64>) -> Result<(), Error> {
        let mut command = self.begin("CMU.DOWN");
        command.arg(cmu);
        if let Some(term) = term {
            command.arg("TERM").arg(term);
        }
        self.ask::<Value>(&command).await.map(drop)
    }

    /// Places up to `count` pending conferences. Returns those that were placed.
    pub async fn recover(&self, count: u32, term: u64) -> Result<Vec<Grant>, Error> {
        let mut command = self.begin("CONF.RECOVER");
        command.arg("COUNT").arg(count).arg("TERM").arg(term);
        let grants: Vec<(Vec<u8>, String, u64)> = self.ask(&command).await?;
        Ok(grants.into_iter().map(|(e164, cmu, epoch)| Grant { e164, cmu, epoch }).collect())
    }

    /// Begins up to `most` moves that even out the used share of the units, or only plans them.
    pub async fn rebalance(&self, most: u32, dry_run: bool) -> Result<Vec<PlannedMove>, Error> {
        let mut command = self.begin("CONF.REBALANCE");
        command.arg("MAXMOVES").arg(most);
        if dry_run {
            command.arg("DRYRUN");
        }
        let moves: Vec<(Vec<u8>, String, String)> = self.ask(&command).await?;
        Ok(moves.into_iter().map(|(e164, from, to)| PlannedMove { e164, from, to }).collect())
    }

    /// Registers a unit, or renews its lease.
    pub async fn join(&self, cmu: &str, unit: &JoinRequest<'_>) -> Result<(), Error> {
        let mut command = self.begin("CMU.JOIN");
        command.arg(cmu).arg("CAPACITY").arg(unit.capacity).arg("LEASE").arg(unit.lease_ms);
        for (option, text) in [("ZONE", unit.zone), ("MACHINE", unit.machine)] {
            if let Some(text) = text {
                command.arg(option).arg(text);
            }
        }
        if !unit.tags.is_empty() {
            command.arg("TAGS").arg(unit.tags.len()).arg(unit.tags);
        }
        self.ask::<Value>(&command).await.map(drop)
    }

    /// Renews a unit's lease. `load` is in percent; without it, the last load counts until it is a lease old. Returns how
    /// the realm sees the unit.
    pub async fn beat(&self, cmu: &str, load: Option<u8>) -> Result<UnitStatus, Error> {
        let mut command = self.begin("CMU.BEAT");
        command.arg(cmu);
        if let Some(load) = load {
            command.arg("LOAD").arg(load);
        }
        self.ask(&command).await
    }

    /// Sends the lists of all conferences (number, epoch) that a unit has open, that it is creating, and that people ended
    /// there. `params` is what the unit knows about the open ones, for a realm that lost its data.
    pub async fn report(
        &self,
        cmu: &str,
        highest: u64,
        ended: &[(Vec<u8>, u64)],
        starting: &[(Vec<u8>, u64)],
        params: &[CopyParams<'_>],
        list: &[(Vec<u8>, u64)],
    ) -> Result<Reported, Error> {
        let mut command = self.begin("CMU.REPORT");
        command.arg(cmu).arg("HIGHEST").arg(highest);
        for (word, rows) in [("ENDED", ended), ("STARTING", starting)] {
            if !rows.is_empty() {
                command.arg(word).arg(rows.len());
            }
            for (e164, epoch) in rows {
                command.arg(e164).arg(epoch);
            }
        }
        if !params.is_empty() {
            command.arg("PARAMS").arg(params.len());
        }
        for CopyParams { e164, end, size, priority, request } in params {
            command.arg(e164).arg(*end).arg(*size).arg(*priority).arg(*request);
        }
        for (e164, epoch) in list {
            command.arg(e164).arg(epoch);
        }
        let record = Record::read(self.ask(&command).await?)?;
        let count = |field: &str| record.get::<Vec<Value>>(field).map(|list| list.len());
        Ok(Reported {
            kept: record.get("kept")?,
            adopted: count("adopted")?,
            released: count("released")?,
            ended: count("ended")?,
            lost: count("lost")?,
        })
    }

    /// Reports that a unit is about to end, and moves its conferences away. Returns the number of conferences that stay
    /// for now.
    pub async fn leave(&self, cmu: &str) -> Result<u64, Error> {
        let record = Record::read(self.ask(self.begin("CMU.LEAVE").arg(cmu)).await?)?;
        record.get("left")
    }

    /// Keeps new conferences away from all units that run on a host, one after another, or ends this. The host need not
    /// have a unit.
    pub async fn drain_host(&self, host: &str, on: bool) -> Result<(), Error> {
        let mut command = self.begin("CMU.DRAIN");
        command.arg("HOST").arg(host);
        if !on {
            command.arg("OFF");
        }
        self.ask::<Value>(&command).await.map(drop)
    }

    /// How many conferences of each unit would find room elsewhere if the unit died now: a page of units from a cursor on,
    /// and the cursor of the next, 0 at the end.
    pub async fn loss_page(&self, cursor: u64) -> Result<(u64, Vec<Record>), Error> {
        let mut command = self.begin("CONF.PLAN");
        command.arg("DOWN").arg("ANY").arg("CURSOR").arg(cursor);
        let (next, page): (u64, Value) = self.ask(&command).await?;
        Ok((next, Record::read_list(page)?))
    }

    /// A page of conferences from a cursor on, and the cursor of the next, 0 at the end; only those in this state and of
    /// this unit.
    pub async fn conference_page(
        &self,
        cursor: u64,
        count: u32,
        state: Option<&str>,
        cmu: Option<&str>,
    ) -> Result<(u64, Vec<Record>), Error> {
        let mut command = self.begin("CONF.LIST");
        for (option, text) in [("STATE", state), ("CMU", cmu)] {
            if let Some(text) = text {
                command.arg(option).arg(text);
            }
        }
        command.arg("CURSOR").arg(cursor).arg("COUNT").arg(count);
        let (next, page): (u64, Value) = self.ask(&command).await?;
        Ok((next, Record::read_list(page)?))
    }

    /// The assignments of a conference.
    pub async fn history(&self, e164: &str) -> Result<Vec<Record>, Error> {
        Record::read_list(self.ask(self.begin("CONF.HISTORY").arg(e164)).await?)
    }

    /// Which conferences wait and why; with a unit, where its conferences would go if it died now.
    pub async fn plan(&self, down: Option<&str>) -> Result<Vec<Record>, Error> {
        let mut command = self.begin("CONF.PLAN");
        if let Some(cmu) = down {
            command.arg("DOWN").arg(cmu);
        }
        Record::read_list(self.ask(&command).await?)
    }

    /// Asks the scheduler to lift the mass-failure guard. Returns whether the guard holds.
    pub async fn lift_guard(&self) -> Result<bool, Error> {
        let guard = self.stream("guard");
        let since: Option<u64> = self.ask(redis::cmd("HGET").arg(&guard).arg("since")).await?;
        let Some(since) = since else { return Ok(false) };
        // The time identifies this stop of the guard, so that a later one is not lifted by this request.
        self.ask::<u64>(redis::cmd("HSET").arg(&guard).arg(Self::LIFT).arg(since)).await?;
        Ok(true)
    }

    /// The totals of the realm.
    pub async fn stat(&self) -> Result<Record, Error> {
        Record::read(self.ask(&self.begin("CONF.STAT")).await?)
    }
}

fn unit(record: &Record) -> Result<UnitRow, Error> {
    Ok(UnitRow {
        cmu: record.get("cmu")?,
        state: record.get("state")?,
        conferences: record.get("conferences")?,
        lease: Duration::from_millis(record.get("lease")?),
    })
}
