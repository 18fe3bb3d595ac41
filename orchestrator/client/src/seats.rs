//! The commands of a show, typed.

use std::ops::Deref;

use redis::aio::MultiplexedConnection;

use super::keyed::Keyed;
use crate::error::Error;
use crate::record::Record;

/// What a buyer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldRequest<'a> {
    /// The buyer, whose limits count.
    pub user: &'a str,
    /// Seats, 1 to 100.
    pub count: u32,
    /// How long the seats are held, in milliseconds.
    pub ttl_ms: u64,
    /// Only seats of this tier; without it, of any.
    pub tier: Option<&'a str>,
    /// Name of the hold. The same request under the same name again, after a lost answer, gets the same hold; without a
    /// name the server makes one.
    pub token: Option<&'a str>,
}

/// Seats that a user has for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Names the hold in later commands.
    pub token: String,
    /// Ids of its seats.
    pub seats: Vec<String>,
}

/// The seats of one tier in one area, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Id of the area.
    pub area: String,
    /// The tier.
    pub tier: String,
    /// 1 is best.
    pub priority: i64,
    /// Seats for sale.
    pub free: u64,
    /// Seats in a hold.
    pub held: u64,
    /// Seats sold.
    pub sold: u64,
    /// Seats kept by the house.
    pub blocked: u64,
    /// Longest run of adjacent free seats.
    pub longest: u64,
}

impl Bucket {
    /// All its seats.
    pub fn all(&self) -> u64 {
        self.free + self.held + self.sold + self.blocked
    }
}

/// A row as `SEAT.MAP` draws it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapRow {
    /// Its label.
    pub label: String,
    /// One character a position.
    pub seats: String,
}

/// The client of one show. Clones share the connection.
#[derive(Debug, Clone)]
pub struct SeatStore(Keyed);

impl Deref for SeatStore {
    type Target = Keyed;

    fn deref(&self) -> &Keyed {
        &self.0
    }
}

impl SeatStore {
    /// The client of the show at `key`.
    pub fn new(connection: MultiplexedConnection, key: &str) -> Self {
        Self(Keyed::new(connection, key))
    }

    /// Creates the show from a plan in JSON; the same plan again is no error.
    ///
    /// # Errors
    /// [`Error::Refused`] with `EXISTS` if there is a show of another plan.
    pub async fn create(&self, plan: &str) -> Result<(), Error> {
        self.ask(self.begin("SEAT.CREATE").arg(plan)).await
    }

    /// Finds and holds the best free seats; `None` when fewer are free.
    ///
    /// # Errors
    /// [`Error::Refused`] with `LIMIT` if the user would have more than the show allows.
    pub async fn hold(&self, request: &HoldRequest<'_>) -> Result<Option<Hold>, Error> {
        let mut command = self.begin("SEAT.HOLD");
        command.arg(request.user).arg(request.count).arg("TTL").arg(request.ttl_ms);
        for (option, value) in [("TIER", request.tier), ("TOKEN", request.token)] {
            if let Some(value) = value {
                command.arg(option).arg(value);
            }
        }
        let record = Record::read_nullable(self.ask(&command).await?)?;
        record.map(|record| hold(&record)).transpose()
    }

    /// Holds exactly these seats, all or none.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if one of them is not free.
    pub async fn pick(&self, user: &str, ttl_ms: u64, seats: &[String]) -> Result<Hold, Error> {
        let mut command = self.begin("SEAT.PICK");
        command.arg(user).arg("TTL").arg(ttl_ms);
        command.arg("SEATS").arg(seats.len()).arg(seats);
        hold(&Record::read(self.ask(&command).await?)?)
    }

    /// Sells the seats of a hold under an order reference, and returns how many. The same again is no error.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if there is no such hold, or it has expired.
    pub async fn confirm(&self, token: &str, order: Option<&str>) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.CONFIRM");
        command.arg(token);
        if let Some(order) = order {
            command.arg("ORDER").arg(order);
        }
        self.ask(&command).await
    }

    /// Releases the seats of a hold, and returns how many.
    pub async fn release(&self, token: &str) -> Result<u64, Error> {
        self.ask(self.begin("SEAT.RELEASE").arg(token)).await
    }

    /// The counts of the show, one line per area and tier.
    pub async fn stat(&self, tier: Option<&str>, area: Option<&str>) -> Result<Vec<Bucket>, Error> {
        let mut command = self.begin("SEAT.STAT");
        if let Some(tier) = tier {
            command.arg("TIER").arg(tier);
        }
        if let Some(area) = area {
            command.arg("AREA").arg(area);
        }
        Record::read_list(self.ask(&command).await?)?.iter().map(bucket).collect()
    }

    /// The rows of an area, the one nearest the stage first.
    pub async fn map(&self, area: &str) -> Result<Vec<MapRow>, Error> {
        let rows: Vec<(String, String)> = self.ask(self.begin("SEAT.MAP").arg(area)).await?;
        Ok(rows.into_iter().map(|(label, seats)| MapRow { label, seats }).collect())
    }
}

fn hold(record: &Record) -> Result<Hold, Error> {
    Ok(Hold { token: record.get("token")?, seats: record.get("seats")? })
}

fn bucket(record: &Record) -> Result<Bucket, Error> {
    Ok(Bucket {
        area: record.get("area")?,
        tier: record.get("tier")?,
        priority: record.get("priority")?,
        free: record.get("free")?,
        held: record.get("held")?,
        sold: record.get("sold")?,
        blocked: record.get("blocked")?,
        longest: record.get("longest")?,
    })
}
