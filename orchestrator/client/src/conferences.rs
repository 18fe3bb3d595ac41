//! The commands of a realm of conferences, typed. Records that people look at stay records.

use std::ops::Deref;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::keyed::Keyed;
use crate::error::Error;
use crate::record::Record;

/// A unit as `CMU.LIST` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitRow {
    /// Its identity.
    pub cmu: String,
    /// `up`, `draining`, `suspect`, `unreachable` or `down`.
    pub state: String,
    /// Conferences that it owns.
    pub conferences: u64,
    /// How long it counts as alive after a beat.
    pub lease: Duration,
}

/// A conference placed on a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Which conference.
    pub e164: String,
    /// On which unit.
    pub cmu: String,
    /// By which assignment.
    pub epoch: u64,
}

/// What came of a unit's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// How many conferences are its own.
    pub kept: u64,
    /// How many became its own again.
    pub adopted: usize,
    /// How many it must end.
    pub released: usize,
    /// How many ended: people ended them on the unit, or they cannot be recovered.
    pub ended: usize,
    /// How many are recovered, because the unit no longer has them and people did not end them.
    pub lost: usize,
}

/// The client of one realm. Clones share the connection.
#[derive(Debug, Clone)]
pub struct RealmStore(Keyed);

impl Deref for RealmStore {
    type Target = Keyed;

    fn deref(&self) -> &Keyed {
        &self.0
    }
}

impl RealmStore {
    /// Of the realm at `key`.
    pub fn new(connection: MultiplexedConnection, key: &str) -> Self {
        Self(Keyed::new(connection, key))
    }

    /// The name of one of the realm's streams.
    pub fn stream(&self, name: &str) -> String {
        format!("{}:{name}", self.key)
    }

    /// The realm's record; a realm that is not there is made, with its defaults.
    pub async fn realm(&self) -> Result<Record, Error> {
        Record::read(self.ask(&self.begin("CONF.REALM")).await?)
    }

    /// The elected scheduler claims the realm.
    pub async fn claim(&self, term: u64, leader: &str) -> Result<(), Error> {
        self.ask::<Value>(self.begin("CONF.TERM").arg(term).arg(leader)).await.map(drop)
    }

    /// A new scheduler found these units alive.
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

    /// A unit is down, by a scheduler's verdict or by its own word.
    pub async fn down(&self, cmu: &str, term: Option<u64>) -> Result<(), Error> {
        let mut command = self.begin("CMU.DOWN");
        command.arg(cmu);
        if let Some(term) = term {
            command.arg("TERM").arg(term);
        }
        self.ask::<Value>(&command).await.map(drop)
    }

    /// Places up to `count` conferences whose time has come.
    pub async fn recover(&self, count: u32, term: u64) -> Result<Vec<Grant>, Error> {
        let mut command = self.begin("CONF.RECOVER");
        command.arg("COUNT").arg(count).arg("TERM").arg(term);
        let grants: Vec<(String, String, u64)> = self.ask(&command).await?;
        Ok(grants.into_iter().map(|(e164, cmu, epoch)| Grant { e164, cmu, epoch }).collect())
    }

    /// A unit comes up, or renews its lease.
    pub async fn join(
        &self,
        cmu: &str,
        capacity: u32,
        zone: Option<&str>,
        lease_ms: u64,
    ) -> Result<(), Error> {
        let mut command = self.begin("CMU.JOIN");
        command.arg(cmu).arg("CAPACITY").arg(capacity).arg("LEASE").arg(lease_ms);
        if let Some(zone) = zone {
            command.arg("ZONE").arg(zone);
        }
        self.ask::<Value>(&command).await.map(drop)
    }

    /// Renews a unit's lease.
    pub async fn beat(&self, cmu: &str, load: usize) -> Result<(), Error> {
        self.ask::<Value>(self.begin("CMU.BEAT").arg(cmu).arg("LOAD").arg(load)).await.map(drop)
    }

    /// A unit's whole list, and what people ended on it, each with its epoch.
    pub async fn report(
        &self,
        cmu: &str,
        highest: u64,
        ended: &[(String, u64)],
        list: &[(String, u64)],
    ) -> Result<Reported, Error> {
        let mut command = self.begin("CMU.REPORT");
        command.arg(cmu).arg("HIGHEST").arg(highest);
        if !ended.is_empty() {
            command.arg("ENDED").arg(ended.len());
        }
        for (e164, epoch) in ended.iter().chain(list) {
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

    /// Moves a unit's conferences away; how many stay for now.
    pub async fn drain(&self, cmu: &str) -> Result<u64, Error> {
        let record = Record::read(self.ask(self.begin("CMU.DRAIN").arg(cmu).arg("MOVE")).await?)?;
        record.get("left")
    }

    /// Totals.
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
