//! Events of a show. Only events change a show; they are replicated, written to the AOF, published and replayed.

use super::claims::Seats;
use super::plan::{Limits, Rule};
use super::waiting::QueueWish;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::field::{Any, Field};
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, fields, words};

/// The events of one step; usually one.
pub type Events = machine::Events<Event>;

/// The most seats in one event.
const MAX_SEATS: usize = super::plan::max::SEATS;

words! {
    /// Counters of shows in `INFO`.
    pub enum Counter {
        /// Holds and picks granted.
        Held => "seat_held",
        /// Holds confirmed.
        Confirmed => "seat_confirmed",
        /// Releases, whole or in part.
        Released => "seat_released",
        /// Holds that ended at their deadlines.
        Expired => "seat_expired",
        /// Refunds.
        Refunded => "seat_refunded",
        /// Users who began to wait.
        Waited => "seat_waited",
        /// Offers to users who waited or asked to wait.
        Offered => "seat_offered",
        /// Users who stopped waiting without an offer.
        Unwaited => "seat_unwaited",
    }
}

events! {
    /// One change.
    pub enum Event counted by Counter {
        /// The show opened: the first event of a key.
        Created {
            /// The plan in its normal form, as JSON.
            plan: String,
        } = 1, notice c"allot.seat.created";
        /// The plan changed. Seats that are in both plans, by their ids, keep their states.
        Altered {
            /// The whole new plan in its normal form, as JSON.
            plan: String,
        } = 2, notice c"allot.seat.altered";
        /// A user holds seats.
        Held(held: Held) = 3, notice c"allot.seat.held", count (Counter::Held, 1);
        /// A hold has another deadline.
        Extended {
            /// The hold.
            token: Bytes,
            /// Its new deadline.
            until: Millis,
        } = 4, notice c"allot.seat.extended";
        /// A hold was sold.
        Confirmed {
            /// The hold.
            token: Bytes,
            /// The order it was filed under.
            order: Option<Bytes>,
        } = 5, notice c"allot.seat.confirmed", count (Counter::Confirmed, 1);
        /// The holder released seats of a hold.
        Released {
            /// The hold.
            token: Bytes,
            /// The seats, in ascending order. If they are all seats of the hold, the hold ends.
            seats: Seats,
        } = 6, notice c"allot.seat.released", count (Counter::Released, 1);
        /// A hold's deadline passed.
        Expired {
            /// The hold.
            token: Bytes,
        } = 7, notice c"allot.seat.expired", count (Counter::Expired, 1);
        /// Sold seats are free again.
        Refunded {
            /// Which, rising.
            seats: Seats,
        } = 8, notice c"allot.seat.refunded", count (Counter::Refunded, 1);
        /// Free seats are kept by the house.
        Blocked {
            /// Which, rising.
            seats: Seats,
        } = 9, notice c"allot.seat.blocked";
        /// Blocked seats are free again.
        Unblocked {
            /// Which, rising.
            seats: Seats,
        } = 10, notice c"allot.seat.unblocked";
        /// Messages of the outbox were written to their stream.
        Flushed {
            /// How many, oldest first.
            count: u32,
            /// The id of the last (milliseconds, sequence).
            last_id: (u64, u64),
        } = 11;
        /// Only the limits of users, or the length of the event stream, changed.
        Limited {
            /// The new limits, all of them.
            limits: Limits,
            /// Length of the event stream, 0 = none.
            events: u32,
        } = 12, notice c"allot.seat.altered";
        /// Names, priorities or order rules of areas changed, and perhaps limits or the length of the event stream.
        Arranged {
            /// The new limits, all of them.
            limits: Limits,
            /// Length of the event stream, 0 = none.
            events: u32,
            /// The areas that changed, in plan order.
            areas: Vec<Arrangement>,
        } = 13, notice c"allot.seat.altered";
        /// A user waits.
        Waited(waited: Box<Waited>) = 14, notice c"allot.seat.waiting", count (Counter::Waited, 1);
        /// A user who waited, or asked to wait, holds seats.
        Offered(held: Held) = 15, notice c"allot.seat.offered", count (Counter::Offered, 1);
        /// A user does not wait any more, and was offered nothing.
        Unwaited {
            /// The wait.
            token: Bytes,
            /// Whether its time was over.
            expired: bool,
        } = 16, notice c"allot.seat.unwaited", count (Counter::Unwaited, 1);
        /// A user waits for seats of a block.
        WaitedFrom(waited: WaitedFrom) = 17, notice c"allot.seat.waiting", count (Counter::Waited, 1);
        /// Free seats are kept by the house, in a block.
        BlockedIn {
            /// Name of the block; `None` for seats that are only blocked until a time.
            name: Option<Bytes>,
            /// When the block ends by itself; `None` leaves the end of a block that exists.
            until: Option<Millis>,
            /// Which, rising.
            seats: Seats,
        } = 18, notice c"allot.seat.blocked";
        /// A block ended: its blocked seats are free.
        BlockEnded {
            /// Name of the block.
            name: Option<Bytes>,
            /// End of a block without a name, by which it is found.
            until: Option<Millis>,
            /// Whether its time was over.
            expired: bool,
        } = 19, notice c"allot.seat.unblocked";
    }
}

fields! {
    /// A user waits for seats.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Waited {
        /// Name of the wait.
        pub token: Bytes,
        /// Its user.
        pub user: Bytes,
        /// The seats that the user waits for.
        pub wish: QueueWish,
        /// Priority; the highest is served first.
        pub priority: i32,
        /// When the user stops waiting.
        pub until: Millis,
        /// Time to live of the offered hold, in milliseconds.
        pub offer: Millis,
        /// Hash of the request; 0 if the caller chose no token.
        pub fingerprint: Any<u64>,
    }
}

/// The wait of a user for seats of a block; the wish names the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitedFrom(pub Box<Waited>);

/// The wait, then the name of the block.
impl Field for WaitedFrom {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.0);
        out.field(&self.0.wish.from);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut waited: Box<Waited> = reader.field()?;
        waited.wish.from = reader.field()?;
        if waited.wish.from.is_none() {
            return Err(Damaged("a wait for a block names none"));
        }
        Ok(Self(waited))
    }
}

fields! {
    /// The new name of an area, and how its seats are chosen from now on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Arrangement {
        /// Number of the area.
        pub area: u32,
        /// Name for people, 1 to 256 bytes.
        pub name: String,
        /// Priority; 1 is best.
        pub priority: i32,
        /// Order within a row.
        pub rule: Rule,
    }
}

fields! {
    /// A user holds seats.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Held {
        /// The hold's name.
        pub token: Bytes,
        /// Its user.
        pub user: Bytes,
        /// Its deadline.
        pub until: Millis,
        /// Hash of the request; 0 if the caller chose no token.
        pub fingerprint: Any<u64>,
        /// Which seats, rising.
        pub seats: Seats,
        /// The area or bucket that took its turn with this hold.
        pub turn: Turn,
        /// The hold that this one replaces.
        pub replaced: Option<Bytes>,
    }
}

/// Areas of equal priority take turns. A hold whose seats lie in one area is a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No turn: the seats were picked, or lie in several areas.
    None,
    /// The turn of an area, among requests without a tier.
    Area(u32),
    /// The turn of a bucket, among requests for its tier.
    Bucket(u32),
}

impl Field for Turn {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::None => out.unsigned(0),
            Self::Area(area) => {
                out.unsigned(1);
                out.field(area);
            }
            Self::Bucket(bucket) => {
                out.unsigned(2);
                out.field(bucket);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        match reader.unsigned()? {
            0 => Ok(Self::None),
            1 => reader.field().map(Self::Area),
            2 => reader.field().map(Self::Bucket),
            _ => Err(Damaged("a turn is unknown")),
        }
    }
}

/// 0 left to right, 1 right to left, 2 from the middle.
impl Field for Rule {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(match self {
            Self::Ltr => 0,
            Self::Rtl => 1,
            Self::Center => 2,
        });
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        match reader.unsigned()? {
            0 => Ok(Self::Ltr),
            1 => Ok(Self::Rtl),
            2 => Ok(Self::Center),
            _ => Err(Damaged("an order rule is unknown")),
        }
    }
}

/// At least one seat, in ascending order.
impl Field for Seats {
    fn encode(&self, out: &mut Writer) {
        out.rising(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let seats = reader.rising(MAX_SEATS)?;
        if seats.is_empty() { Err(Damaged("an event names no seat")) } else { Ok(Self::from_vec(seats)) }
    }
}

impl Field for Limits {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.seats_per_user);
        out.field(&self.holds_per_user);
        out.field(&self.max_hold_ms);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self {
            seats_per_user: reader.field()?,
            holds_per_user: reader.field()?,
            max_hold_ms: reader.field()?,
            // The events that change only limits keep the other limits of the show.
            ..Self::default()
        })
    }
}
