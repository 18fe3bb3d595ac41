//! The commands of a show, typed.

mod requests;

use std::ops::Deref;

pub use self::requests::{FindRequest, HoldRequest, ListFilter, PickRequest, Sale, SeatChoice, WaitRequest};
use self::requests::{hold_command, with_exchange, with_options};
use super::keyed::Keyed;
use crate::connection::Connection;
use crate::error::Error;
use crate::record::Record;

/// Seats that are held for a user until a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Token that names the hold in later commands.
    pub token: String,
    /// Ids of the held seats.
    pub seats: Vec<String>,
    /// Its deadline, in milliseconds since the Unix epoch.
    pub until: i64,
    /// Ids of the free seats that the hold leaves alone.
    pub orphans: Vec<String>,
}

/// The counts of the seats of one tier in one area.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl Bucket {
    /// Reads an entry of the reply of `SEAT.STAT`.
    ///
    /// # Errors
    /// [`Error::Shape`] if a field is missing.
    pub fn read(record: &Record) -> Result<Self, Error> {
        Ok(Self {
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

    /// All seats of the bucket.
    pub fn all(&self) -> u64 {
        self.free + self.held + self.sold + self.blocked
    }
}

/// A block with a name or an end, as `SEAT.BLOCKS` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatBlock {
    /// Its name; `None` if it only has an end.
    pub name: Option<String>,
    /// Its seats, held and sold ones too.
    pub seats: u64,
    /// Seats of it that are neither held nor sold.
    pub left: u64,
    /// When it ends by itself, in milliseconds since 1970.
    pub until: Option<i64>,
    /// How many of its seats a user may have.
    pub per_user: Option<u64>,
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
/// let (user, token) = ("ann", Some("order-7"));
/// let request = HoldRequest { user, count: 2, ttl_ms: 60_000, choice, token, ..HoldRequest::default() };
/// if let Some(hold) = show.hold(&request).await? {
///     println!("{} as {}", hold.seats.join(", "), hold.token);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SeatStore {
    show: Keyed,
    /// The other shows whose seats `hold`, `add`, `find`, `pick`, `sell`, `release` and `refund` name as well.
    also: Vec<String>,
    /// Shows in which seats that are taken are preferred by `hold`, `add` and `find`.
    beside: Vec<String>,
}

impl Deref for SeatStore {
    type Target = Keyed;

    fn deref(&self) -> &Keyed {
        &self.show
    }
}

impl SeatStore {
    /// The client of the show at `key`.
    pub fn new(connection: impl Into<Connection>, key: &str) -> Self {
        Self { show: Keyed::new(connection, key), also: Vec::new(), beside: Vec::new() }
    }

    /// The client of the same seats in several shows: this one, and those of `also`. [`SeatStore::hold`], `add`, `find`,
    /// `pick`, `extend`, `confirm`, `sell`, `release`, `release_into`, `refund` and `refund_order` are for all of them, in one step;
    /// the other methods are for this show alone. `hold`, `add` and `find` prefer seats that are taken in the shows of
    /// `beside`. At most 100 shows each, in one hash slot.
    #[must_use]
    pub fn in_shows(&self, also: &[&str], beside: &[&str]) -> Self {
        let owned = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
        Self { show: self.show.clone(), also: owned(also), beside: owned(beside) }
    }

    fn write_also(&self, command: &mut redis::Cmd) {
        if !self.also.is_empty() {
            command.arg("ALSO").arg(self.also.len()).arg(&self.also);
        }
    }

    fn write_shows(&self, command: &mut redis::Cmd) {
        self.write_also(command);
        if !self.beside.is_empty() {
            command.arg("BESIDE").arg(self.beside.len()).arg(&self.beside);
        }
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

    /// Adds the best free seats to the live hold of the request's token, next to its seats or near them; without such a
    /// hold, makes it. With `once`, the request is carried out once under this id. `None` if no such seats are free.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTOWNER` if the hold is of another user, and as [`SeatStore::hold`].
    pub async fn add(&self, request: &HoldRequest<'_>, once: Option<&str>) -> Result<Option<Hold>, Error> {
        let mut command = hold_command(self.begin("SEAT.HOLD"), request);
        command.arg("ADD");
        with_options(&mut command, &[("ONCE", once)]);
        self.write_shows(&mut command);
        let record = Record::read_nullable(self.ask(&command).await?)?;
        record.map(|record| hold(&record)).transpose()
    }

    /// Finds and holds the best free seats; `None` if no such seats are free.
    ///
    /// # Errors
    /// [`Error::Refused`] with `LIMIT` if the user would have more than the show allows.
    pub async fn hold(&self, request: &HoldRequest<'_>) -> Result<Option<Hold>, Error> {
        let mut command = hold_command(self.begin("SEAT.HOLD"), request);
        self.write_shows(&mut command);
        let record = Record::read_nullable(self.ask(&command).await?)?;
        record.map(|record| hold(&record)).transpose()
    }

    /// Holds the best free seats, or waits for them. The record has `state` (`offered` or `waiting`) and `position`.
    ///
    /// # Errors
    /// [`Error::Refused`] with `LIMIT` if the user waits more often than the show allows, and with `ENDED` if the wait of
    /// this token is over.
    pub async fn wait(&self, request: &WaitRequest<'_>) -> Result<Record, Error> {
        let mut command = hold_command(self.begin("SEAT.WAIT"), &request.hold);
        command.arg("OFFER").arg(request.offer_ms).arg("PRIORITY").arg(request.priority);
        Record::read(self.ask(&command).await?)
    }

    /// The record of a wait as it is now, as [`SeatStore::wait`] returns it; `None` if nobody waits under this token and
    /// it has no seats.
    pub async fn waiting(&self, token: &str) -> Result<Option<Record>, Error> {
        Record::read_nullable(self.ask(self.begin("SEAT.WAITING").arg(token)).await?)
    }

    /// Moves the deadline of a hold to this time from now, in milliseconds. Returns the deadline.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if there is no such hold, or it has expired, and with `LIMIT` beyond the longest
    /// life of a hold.
    pub async fn extend(&self, token: &str, ttl_ms: u64) -> Result<i64, Error> {
        let mut command = self.begin("SEAT.EXTEND");
        command.arg(token).arg("TTL").arg(ttl_ms);
        self.write_also(&mut command);
        self.ask(&command).await
    }

    /// Leaves the waiting list.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if nobody waits under this token.
    pub async fn unwait(&self, token: &str) -> Result<(), Error> {
        self.ask(self.begin("SEAT.UNWAIT").arg(token)).await
    }

    /// Holds exactly these seats, all or none.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if one of them is not free, `LIMIT` if a single seat would remain, `NOTFOUND`
    /// for an unknown seat or block.
    pub async fn pick(&self, request: &PickRequest<'_>) -> Result<Hold, Error> {
        let mut command = self.begin("SEAT.PICK");
        command.arg(request.user).arg("TTL").arg(request.ttl_ms);
        let options = [("ORPHANS", request.orphans), ("FROM", request.from), ("TOKEN", request.token)];
        with_options(&mut command, &options);
        if request.add {
            command.arg("ADD");
        }
        command.arg("SEATS").arg(request.seats.len()).arg(request.seats);
        with_exchange(&mut command, request.exchange);
        self.write_also(&mut command);
        hold(&Record::read(self.ask(&command).await?)?)
    }

    /// Sells the seats of a hold under an order reference, and returns the number of seats. To repeat the command is no
    /// error.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if there is no such hold, or it has expired.
    pub async fn confirm(&self, token: &str, order: Option<&str>) -> Result<u64, Error> {
        self.sell(&Sale { token, order, ..Sale::default() }).await
    }

    /// As [`SeatStore::confirm`], only for the user of the hold, or in exchange for seats that were sold before: these
    /// are free again in the same step. Returns the number of seats sold. To repeat the command is no error.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTOWNER` if the hold is of another user, or a seat to give back is not sold under its
    /// order; then nothing changes.
    pub async fn sell(&self, sale: &Sale<'_>) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.CONFIRM");
        command.arg(sale.token);
        with_options(&mut command, &[("USER", sale.user), ("ORDER", sale.order)]);
        if let Some((order, seats)) = sale.exchange {
            command.arg("EXCHANGE").arg(order).arg(seats.len()).arg(seats);
        }
        self.write_also(&mut command);
        self.ask(&command).await
    }

    /// The blocks that have a name or an end.
    pub async fn blocks(&self) -> Result<Vec<SeatBlock>, Error> {
        let block = |record: &Record| {
            Ok(SeatBlock {
                name: record.get("block")?,
                seats: record.get("seats")?,
                left: record.get("left")?,
                until: record.get("until")?,
                per_user: record.get("per_user")?,
            })
        };
        Record::read_list(self.ask(&self.begin("SEAT.BLOCKS")).await?)?.iter().map(block).collect()
    }

    /// Releases the seats of a hold, and returns the number of seats.
    pub async fn release(&self, token: &str) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.RELEASE");
        self.write_also(command.arg(token));
        self.ask(&command).await
    }

    /// Sold seats of an order, or these sold seats, become free again. Returns the number of seats.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if one of them is not sold, `NOTOWNER` if one is of another order.
    pub async fn refund(&self, order: Option<&str>, seats: &[String]) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.REFUND");
        if let Some(order) = order {
            command.arg("ORDER").arg(order);
        }
        self.write_also(&mut command);
        self.ask(command.arg(seats.len()).arg(seats)).await
    }

    /// All seats of an order become free again, or go into a block. Returns the number of seats.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if there is no such order.
    pub async fn refund_order(&self, order: &str, into: Option<&str>) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.REFUND");
        with_options(&mut command, &[("ORDER", Some(order)), ("INTO", into)]);
        self.write_also(&mut command);
        self.ask(&command).await
    }

    /// Moves sales of single seats, as pairs of a sold seat and a free one, or another of the sold ones. Returns the number
    /// of seats. With `any_tier` the seats of a pair may be of different tiers.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if a seat is not sold, or not free, or of another tier.
    pub async fn move_sales(&self, pairs: &[(&str, &str)], any_tier: bool) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.MOVE");
        if any_tier {
            command.arg("ANYTIER");
        }
        command.arg(pairs.len());
        for (from, to) in pairs {
            command.arg(from).arg(to);
        }
        self.ask(&command).await
    }

    /// Gives sold seats of an order, or these sold seats, to another user, under an order of its own if it is named. Returns
    /// the number of seats. To repeat the command without an order is no error.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if a seat is not sold, `NOTOWNER` if one is of another order, `LIMIT` if the user
    /// would have more than the show allows.
    pub async fn transfer(
        &self,
        user: &str,
        seats: &[String],
        order: Option<&str>,
        to_order: Option<&str>,
    ) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.TRANSFER");
        command.arg(user);
        with_options(&mut command, &[("ORDER", order)]);
        if let Some(order) = to_order {
            command.arg("TO").arg("ORDER").arg(order);
        }
        self.ask(command.arg("SEATS").arg(seats.len()).arg(seats)).await
    }

    /// The seats of a hold go into a block. Returns the number of seats.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if there is no such hold, or it has expired.
    pub async fn release_into(&self, token: &str, block: &str) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.RELEASE");
        self.write_also(command.arg(token).arg("INTO").arg(block));
        self.ask(&command).await
    }

    /// Takes free seats off sale, without an end. Returns the number of seats.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if one of them is not free.
    pub async fn block(&self, seats: &[String]) -> Result<u64, Error> {
        self.ask(self.begin("SEAT.BLOCK").arg(seats.len()).arg(seats)).await
    }

    /// Takes free seats off sale, in a block. A block with a name gets further seats, `until` (milliseconds since 1970)
    /// changes its end, and `per_user` how many of its seats a user may have (0: any number). A block without a name has an
    /// end. Returns the number of seats.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if one of them is not free, `LIMIT` if the block would be too large.
    pub async fn block_in(
        &self,
        name: Option<&str>,
        until: Option<u64>,
        per_user: Option<u32>,
        seats: &[String],
    ) -> Result<u64, Error> {
        let mut command = self.begin("SEAT.BLOCK");
        let (until, most) = (until.map(|until| until.to_string()), per_user.map(|most| most.to_string()));
        let options = [("NAME", name), ("UNTIL", until.as_deref()), ("PERUSER", most.as_deref())];
        with_options(&mut command, &options);
        self.ask(command.arg(seats.len()).arg(seats)).await
    }

    /// Ends a block. Returns the number of its seats that are free now.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if there is no such block.
    pub async fn end_block(&self, name: &str) -> Result<u64, Error> {
        self.ask(self.begin("SEAT.UNBLOCK").arg("NAME").arg(name)).await
    }

    /// Puts blocked seats on sale again. Returns the number of seats.
    ///
    /// # Errors
    /// [`Error::Refused`] with `BADSTATE` if one of them is not blocked.
    pub async fn unblock(&self, seats: &[String]) -> Result<u64, Error> {
        self.ask(self.begin("SEAT.UNBLOCK").arg(seats.len()).arg(seats)).await
    }

    /// The records of these seats, in one round trip.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` if the show has no such seat.
    pub async fn seats(&self, seats: &[String]) -> Result<Vec<Record>, Error> {
        let commands = seats.iter().map(|seat| self.begin("SEAT.GET").arg(seat).clone()).collect();
        let replies = self.ask_all(commands).await?.into_iter();
        replies.map(|reply| Record::read(reply?)).collect()
    }

    /// The live holds of a user.
    pub async fn holds(&self, user: &str) -> Result<Vec<Record>, Error> {
        Record::read_list(self.ask(self.begin("SEAT.HOLDS").arg(user)).await?)
    }

    /// The ids of the seats of an order.
    pub async fn order(&self, order: &str) -> Result<Vec<String>, Error> {
        self.ask(self.begin("SEAT.ORDER").arg(order)).await
    }

    /// The counts of the show, one bucket for each area and tier.
    pub async fn stat(&self, tier: Option<&str>, area: Option<&str>) -> Result<Vec<Bucket>, Error> {
        let mut command = self.begin("SEAT.STAT");
        with_options(&mut command, &[("TIER", tier), ("AREA", area)]);
        Record::read_list(self.ask(&command).await?)?.iter().map(Bucket::read).collect()
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
        let options = [
            ("STATE", filter.state),
            ("TIER", filter.tier),
            ("AREA", filter.area),
            ("USER", filter.user),
            ("BLOCK", filter.block),
        ];
        with_options(&mut command, &options);
        command.arg("CURSOR").arg(cursor).arg("COUNT").arg(count);
        let part = Record::read(self.ask(&command).await?)?;
        Ok((Record::read_list(part.get("items")?)?, part.get("cursor")?))
    }

    /// The seats that [`SeatStore::hold`] would choose now, as offers with `seats`, `area`, `adjacent`, `groups` and
    /// `areas`, the best first. Holds nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] with `NOTFOUND` for an unknown tier, area or block.
    pub async fn find(&self, request: &FindRequest<'_>) -> Result<Vec<Record>, Error> {
        let mut command = self.begin("SEAT.FIND");
        command.arg(request.count);
        request.choice.write(&mut command);
        command.arg("BEST").arg(request.best);
        self.write_shows(&mut command);
        Record::read_list(self.ask(&command).await?)
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

fn hold(record: &Record) -> Result<Hold, Error> {
    Ok(Hold {
        token: record.get("token")?,
        seats: record.get("seats")?,
        until: record.get("until")?,
        orphans: record.get("orphans")?,
    })
}
