//! Events of a show. Only events change a show; they are replicated, written to the AOF, published and replayed.

use super::claims::Seats;
use super::plan::{Limits, Rule};
use super::wish::LastingWish;
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
        /// Limits, the length of the event stream, or names, priorities and order rules of areas changed.
        Arranged {
            /// The new limits, all of them.
            limits: Limits,
            /// Length of the event stream, 0 = none.
            events: u32,
            /// The areas that changed, in plan order.
            areas: Vec<Arrangement>,
        } = 3, notice c"allot.seat.altered";
        /// A user holds seats.
        Held(held: Held) = 4, notice c"allot.seat.held", count (Counter::Held, 1);
        /// A user who waited, or asked to wait, holds seats.
        Offered(held: Held) = 5, notice c"allot.seat.offered", count (Counter::Offered, 1);
        /// A hold has another deadline.
        Extended {
            /// The hold.
            token: Bytes,
            /// Its new deadline.
            until: Millis,
        } = 6, notice c"allot.seat.extended";
        /// A hold was sold.
        Confirmed {
            /// The hold.
            token: Bytes,
            /// The order under which the sale is recorded.
            order: Option<Bytes>,
        } = 7, notice c"allot.seat.confirmed", count (Counter::Confirmed, 1);
        /// The holder released seats of a hold.
        Released {
            /// The hold.
            token: Bytes,
            /// The seats, in ascending order. If they are all seats of the hold, the hold ends.
            seats: Seats,
        } = 8, notice c"allot.seat.released", count (Counter::Released, 1);
        /// A hold's deadline passed.
        Expired {
            /// The hold.
            token: Bytes,
        } = 9, notice c"allot.seat.expired", count (Counter::Expired, 1);
        /// Sold seats are free again.
        Refunded {
            /// The seats, in ascending order.
            seats: Seats,
        } = 10, notice c"allot.seat.refunded", count (Counter::Refunded, 1);
        /// A user waits.
        Waited(waited: Box<Waited>) = 11, notice c"allot.seat.waiting", count (Counter::Waited, 1);
        /// A user does not wait any more, and was offered nothing.
        Unwaited {
            /// The wait.
            token: Bytes,
            /// Whether its time was over.
            expired: bool,
        } = 12, notice c"allot.seat.unwaited", count (Counter::Unwaited, 1);
        /// Free seats are kept by the house; with a name or an end, in a block.
        Blocked {
            /// Name of the block; `None` for seats that are only blocked, or only until a time.
            name: Option<Bytes>,
            /// When the block ends by itself; `None` leaves the end of a block that exists.
            until: Option<Millis>,
            /// The seats, in ascending order.
            seats: Seats,
        } = 13, notice c"allot.seat.blocked";
        /// Blocked seats are free again.
        Unblocked {
            /// The seats, in ascending order.
            seats: Seats,
        } = 14, notice c"allot.seat.unblocked";
        /// A block ended: its blocked seats are free.
        BlockEnded {
            /// Name of the block.
            name: Option<Bytes>,
            /// End of a block without a name, by which it is found.
            until: Option<Millis>,
            /// Whether its time was over.
            expired: bool,
        } = 15, notice c"allot.seat.unblocked";
        /// Messages of the outbox were written to their stream.
        Flushed {
            /// How many, oldest first.
            count: u32,
            /// The id of the last (milliseconds, sequence).
            last_id: (u64, u64),
        } = 16;
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
        pub wish: LastingWish,
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

fields! {
    /// The new name of an area, and how its seats are chosen from now on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Arrangement {
        /// Number of the area.
        pub area: u32,
        /// Name for people, 1 to 256 bytes.
        pub name: String,
        /// The lowest is best.
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
        /// The seats, in ascending order.
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
