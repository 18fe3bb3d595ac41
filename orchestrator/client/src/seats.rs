//! The commands of a show, typed.

use std::ops::Deref;

use serde::Serialize;

use super::keyed::Keyed;
use crate::connection::{Connection, from_reply};
use crate::error::Error;
use crate::record::{Record, records};

/// A buyer's request for seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldRequest<'a> {
    /// The buyer; limits per user apply to this name.
    pub user: &'a str,
    /// Seats, 1 to 500.
    pub count: u32,
    /// Time to live of the hold, in milliseconds.
    pub ttl_ms: u64,
    /// How the seats are chosen.
    pub choice: SeatChoice<'a>,
    /// Name of the hold. If the answer was lost, the same request under the same name returns the same hold. Without a
    /// name the server generates one.
    pub token: Option<&'a str>,
}

/// How best seating chooses seats; the default is the server's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeatChoice<'a> {
    /// Only seats of this tier; `None` for any tier.
    pub tier: Option<&'a str>,
    /// Only seats in these areas; all areas if empty.
    pub areas: &'a [String],
    /// `PREFER`, `REQUIRE`, `AREA` or, except for a wait, `IGNORE`; `None` for `PREFER`.
    pub adjacent: Option<&'a str>,
    /// `AVOID`, `ALLOW` or `FORBID`; `None` for `AVOID`.
    pub orphans: Option<&'a str>,
    /// Flags whose seats may be taken too.
    pub flags: &'a [String],
    /// Seats of the party that must have a flag: their number, and the flag. The other seats have no flag that `flags`
    /// does not name.
    pub needs: &'a [(u32, String)],
    /// Flags whose seats come first, at most four.
    pub wishes: &'a [String],
    /// Only seats of the block of this name; `None` for free seats.
    pub from: Option<&'a str>,
}

impl SeatChoice<'_> {
    fn write(&self, command: &mut redis::Cmd) {
        command.arg(self.tier.map(|tier| ("TIER", tier)));
        command.arg(self.adjacent.map(|adjacent| ("ADJACENT", adjacent)));
        command.arg(self.orphans.map(|orphans| ("ORPHANS", orphans)));
        command.arg(self.from.map(|block| ("FROM", block)));
        for (option, names) in [("AREAS", self.areas), ("FLAGS", self.flags)] {
            if !names.is_empty() {
                command.arg(option).arg(names.len()).arg(names);
            }
        }
        for (count, flag) in self.needs {
            command.arg("NEED").arg(count).arg(flag);
        }
        for flag in self.wishes {
            command.arg("WISH").arg(flag);
        }
    }
}

records! {
    /// Seats that are held for a user until a deadline.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Hold {
        /// Token that names the hold in later commands.
        pub token: String,
        /// Ids of the held seats.
        pub seats: Vec<String>,
        /// Ids of the free seats that the hold leaves alone.
        pub orphans: Vec<String>,
    }

    /// The counts of the seats of one tier in one area.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct Bucket {
        /// Id of the area.
        pub area: String,
        /// The tier.
        pub tier: String,
        /// Priority of the area; 1 is the best.
        pub priority: i64,
        /// Seats for sale.
        pub free: u64,
        /// Seats in a hold.
        pub held: u64,
        /// Seats sold.
        pub sold: u64,
        /// Blocked seats, which are not for sale.
        pub blocked: u64,
        /// Longest run of adjacent free seats.
        pub longest: u64,
    }
}

/// The seats of a show, or of a part of it, by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// All seats.
    pub all: u64,
    /// Seats for sale.
    pub free: u64,
    /// Seats in a hold.
    pub held: u64,
    /// Seats sold.
    pub sold: u64,
    /// Blocked seats, which are not for sale.
    pub blocked: u64,
}

impl Totals {
    /// The seats of all these buckets.
    pub fn of(buckets: &[Bucket]) -> Self {
        buckets.iter().fold(Self::default(), |sum, bucket| Self {
            all: sum.all + bucket.free + bucket.held + bucket.sold + bucket.blocked,
            free: sum.free + bucket.free,
            held: sum.held + bucket.held,
            sold: sum.sold + bucket.sold,
            blocked: sum.blocked + bucket.blocked,
        })
    }
}

/// A row as `SEAT.MAP` draws it. Of a standing area it is a state and the number of places in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapRow {
    /// Label of the row.
    pub label: String,
    /// One character for each position.
    pub seats: String,
}

/// The things that [`SeatStore::list`] lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// Seats: the fields of `SEAT.GET`.
    Seats,
    /// Live holds: hold records.
    Holds,
    /// Sales: `order`, `token`, `user`, `seats`.
    Orders,
    /// Users who wait: `token`, `user`, `count`, `tier`, `from`, `priority`, `since`, `until`.
    Waiting,
}

/// Conditions of [`SeatStore::list`]; `None` for no condition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListFilter<'a> {
    /// Only seats in this state: `free`, `held`, `sold`, `blocked` or `queued`.
    pub state: Option<&'a str>,
    /// Only seats of this tier, or holds and sales with one.
    pub tier: Option<&'a str>,
    /// Only seats of this area, or holds and sales with one.
    pub area: Option<&'a str>,
    /// Only seats, holds and sales of this user.
    pub user: Option<&'a str>,
    /// Only seats of this block, also those held or sold from it, or holds and sales with one.
    pub block: Option<&'a str>,
}

/// A request for seats that the buyer has chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PickRequest<'a> {
    /// The buyer; limits per user apply to this name.
    pub user: &'a str,
    /// Time to live of the hold, in milliseconds.
    pub ttl_ms: u64,
    /// Ids of the seats, 1 to 500.
    pub seats: &'a [String],
    /// Whether the pick may leave a single free seat, `ALLOW` or `FORBID`; `None` for the rule of the show.
    pub orphans: Option<&'a str>,
    /// The block of which the seats are; `None` for free seats.
    pub from: Option<&'a str>,
    /// Name of the hold, as in [`HoldRequest`].
    pub token: Option<&'a str>,
}

/// The client of one show. Clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use allot_client::{Endpoint, HoldRequest, SeatChoice, SeatStore, Servers};
///
/// let (endpoint, user) = Endpoint::url("redis://127.0.0.1:6379")?;
/// let connection = Servers { user, ..Servers::new(endpoint, "show:1") }.connection(Duration::ZERO).await?;
/// let show = SeatStore::new(connection, "show:1");
/// show.create(r#"{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-4"}]}]}"#).await?;
/// let choice = SeatChoice { adjacent: Some("REQUIRE"), ..SeatChoice::default() };
/// let request = HoldRequest { user: "ann", count: 2, ttl_ms: 60_000, choice, token: Some("order-7") };
/// if let Some(hold) = show.hold(&request).await? {
///     println!("{} as {}", hold.seats.join(", "), hold.token);
/// }
/// # Ok(())
/// # }
/// ```
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
    pub fn new(connection: impl Into<Connection>, key: &str) -> Self {
        Self(Keyed::new(connection, key))
    }

    /// Creates the show from a plan in JSON. To create it again from the same plan is no error.
    ///
    /// # Errors
    /// [`Error::Refused`] with `EXISTS` if the key holds a show of another plan.
    pub async fn create(&self, plan: &str) -> Result<(), Error> {
        self.ask(self.begin("SEAT.CREATE").arg(plan)).await
    }

    /// Changes the plan while the show is open, by a part of a plan in JSON. Holds, orders and waits go on.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if a seat that is held or sold would be removed or changed, and with `NOTFOUND`
    /// for an unknown area, row or seat; then nothing changes.
    pub async fn alter(&self, part: &str) -> Result<(), Error> {
        self.ask(self.begin("SEAT.ALTER").arg(part)).await
    }

    /// Finds and holds the best free seats; `None` if no such seats are free.
    ///
    /// # Errors
    /// [`Error::Refused`] with `LIMIT` if the user would have more than the show allows.
    pub async fn hold(&self, request: &HoldRequest<'_>) -> Result<Option<Hold>, Error> {
        let mut command = self.begin("SEAT.HOLD");
        command.arg(request.user).arg(request.count).arg("TTL").arg(request.ttl_ms);
        request.choice.write(&mut command);
        self.ask(command.arg(request.token.map(|token| ("TOKEN", token)))).await
    }

    /// Holds exactly these seats, all or none.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if one of them is not free, `LIMIT` if a single seat would remain, `NOTFOUND`
    /// for an unknown seat or block.
    pub async fn pick(&self, request: &PickRequest<'_>) -> Result<Hold, Error> {
        let mut command = self.begin("SEAT.PICK");
        command.arg(request.user).arg("TTL").arg(request.ttl_ms);
        command.arg(request.orphans.map(|orphans| ("ORPHANS", orphans)));
        command.arg(request.from.map(|block| ("FROM", block)));
        command.arg(request.token.map(|token| ("TOKEN", token)));
        self.ask(command.arg("SEATS").arg(request.seats.len()).arg(request.seats)).await
    }

    /// Sells the seats of a hold under an order reference, and returns the number of seats. To repeat the command is no
    /// error.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if there is no such hold, or it has expired.
    pub async fn confirm(&self, token: &str, order: Option<&str>) -> Result<u64, Error> {
        self.ask(self.begin("SEAT.CONFIRM").arg(token).arg(order.map(|order| ("ORDER", order)))).await
    }

    /// Releases the seats of a hold, and returns the number of seats.
    pub async fn release(&self, token: &str) -> Result<u64, Error> {
        self.ask(self.begin("SEAT.RELEASE").arg(token)).await
    }

    /// The records of these seats, in one round trip.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if the show has no such seat.
    pub async fn seats(&self, seats: &[String]) -> Result<Vec<Record>, Error> {
        let commands = seats.iter().map(|seat| self.begin("SEAT.GET").arg(seat).clone()).collect();
        let replies = self.ask_all(commands).await?.into_iter();
        replies.map(|reply| from_reply(reply?)).collect()
    }

    /// The counts of the show, one bucket for each area and tier.
    pub async fn stat(&self, tier: Option<&str>, area: Option<&str>) -> Result<Vec<Bucket>, Error> {
        let (tier, area) = (tier.map(|tier| ("TIER", tier)), area.map(|area| ("AREA", area)));
        self.ask(self.begin("SEAT.STAT").arg(tier).arg(area)).await
    }

    /// A part of a list, and the cursor of the next part; 0 begins the list, and 0 ends it. `count` is how many places
    /// the server examines, 1 to 4000.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` for an unknown tier, area or block.
    pub async fn list(
        &self,
        what: Listed,
        filter: &ListFilter<'_>,
        cursor: u64,
        count: u32,
    ) -> Result<(Vec<Record>, u64), Error> {
        let mut command = self.begin("SEAT.LIST");
        command.arg(match what {
            Listed::Seats => "SEATS",
            Listed::Holds => "HOLDS",
            Listed::Orders => "ORDERS",
            Listed::Waiting => "WAITING",
        });
        command.arg(filter.state.map(|state| ("STATE", state)));
        command.arg(filter.tier.map(|tier| ("TIER", tier)));
        command.arg(filter.area.map(|area| ("AREA", area)));
        command.arg(filter.user.map(|user| ("USER", user)));
        command.arg(filter.block.map(|block| ("BLOCK", block)));
        command.arg("CURSOR").arg(cursor).arg("COUNT").arg(count);
        let part: Record = self.ask(&command).await?;
        Ok((part.get("items")?, part.get("cursor")?))
    }

    /// The plan of the show as JSON, from which an equal empty show can be created.
    pub async fn plan(&self) -> Result<String, Error> {
        self.ask(&self.begin("SEAT.PLAN")).await
    }

    /// The rows of an area, in the order of the plan.
    pub async fn map(&self, area: &str) -> Result<Vec<MapRow>, Error> {
        let rows: Vec<(String, String)> = self.ask(self.begin("SEAT.MAP").arg(area)).await?;
        Ok(rows.into_iter().map(|(label, seats)| MapRow { label, seats }).collect())
    }
}
