//! What happens to a show: results, not wishes. The only thing that ever changes one, and what is replicated,
//! written to the AOF, published and replayed.

use super::claims::Seats;
use super::plan::Limits;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::machine::{self, MachineEvent};
use crate::shared::{Bytes, Millis};

/// The events of one step; mostly one.
pub type Events = machine::Events<Event>;

/// The most seats that one event names.
const MAX_SEATS: usize = super::plan::max::SEATS;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The show opened. The first event of a key; the state before it is none.
    Created {
        /// The plan in its normal form, as JSON.
        plan: String,
    },
    /// Limits, names, priorities, rules or tiers changed.
    Altered {
        /// The whole new plan in its normal form, as JSON.
        plan: String,
    },
    /// Nothing changed but the limits of users, or the length of the event stream.
    Limited {
        /// The new limits, all of them.
        limits: Limits,
        /// Length of the event stream, 0 = none.
        events: u32,
    },
    /// A user holds seats.
    Held(Held),
    /// A hold has another deadline.
    Extended {
        /// The hold.
        token: Bytes,
        /// Its new deadline.
        until: Millis,
    },
    /// A hold was sold.
    Confirmed {
        /// The hold.
        token: Bytes,
        /// The order it was filed under.
        order: Option<Bytes>,
    },
    /// Seats of a hold were given back by its holder.
    Released {
        /// The hold.
        token: Bytes,
        /// Which seats, rising; if it was all of them the hold is gone.
        seats: Seats,
    },
    /// A hold's deadline passed.
    Expired {
        /// The hold.
        token: Bytes,
    },
    /// Sold seats are free again.
    Refunded {
        /// Which, rising.
        seats: Seats,
    },
    /// Free seats are kept by the house.
    Blocked {
        /// Which, rising.
        seats: Seats,
    },
    /// Blocked seats are free again.
    Unblocked {
        /// Which, rising.
        seats: Seats,
    },
    /// Messages of the outbox are in their stream.
    Flushed {
        /// How many, oldest first.
        count: u32,
        /// The id of the last (milliseconds, sequence).
        last_id: (u64, u64),
    },
}

/// A user holds seats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The hold's name.
    pub token: Bytes,
    /// Its user.
    pub user: Bytes,
    /// Its deadline.
    pub until: Millis,
    /// Hash of the request, 0 where the caller chose no token.
    pub fingerprint: u64,
    /// Which seats, rising.
    pub seats: Seats,
    /// Who took a turn by it.
    pub turn: Turn,
    /// The hold that this one replaces.
    pub replaced: Option<Bytes>,
}

/// Areas of equal priority take turns; a granted hold into one area is a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nobody's: the seats were picked, or lie in several areas.
    None,
    /// The area's, among requests without a tier.
    Area(u32),
    /// The bucket's, among requests for its tier.
    Bucket(u32),
}

impl Event {
    /// The event's name in notifications and in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::Altered { .. } | Self::Limited { .. } => "altered",
            Self::Held(_) => "held",
            Self::Extended { .. } => "extended",
            Self::Confirmed { .. } => "confirmed",
            Self::Released { .. } => "released",
            Self::Expired { .. } => "expired",
            Self::Refunded { .. } => "refunded",
            Self::Blocked { .. } => "blocked",
            Self::Unblocked { .. } => "unblocked",
            Self::Flushed { .. } => "flushed",
        }
    }
}

impl MachineEvent for Event {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Created { plan } => {
                out.unsigned(1);
                out.string(plan.as_bytes());
            }
            Self::Altered { plan } => {
                out.unsigned(2);
                out.string(plan.as_bytes());
            }
            Self::Held(held) => {
                out.unsigned(3);
                out.string(&held.token);
                out.string(&held.user);
                out.signed(held.until);
                out.unsigned(held.fingerprint);
                out.rising(&held.seats);
                match held.turn {
                    Turn::None => out.unsigned(0),
                    Turn::Area(area) => {
                        out.unsigned(1);
                        out.unsigned(area.into());
                    }
                    Turn::Bucket(bucket) => {
                        out.unsigned(2);
                        out.unsigned(bucket.into());
                    }
                }
                out.optional(held.replaced.as_deref());
            }
            Self::Extended { token, until } => {
                out.unsigned(4);
                out.string(token);
                out.signed(*until);
            }
            Self::Confirmed { token, order } => {
                out.unsigned(5);
                out.string(token);
                out.optional(order.as_deref());
            }
            Self::Released { token, seats } => {
                out.unsigned(6);
                out.string(token);
                out.rising(seats);
            }
            Self::Expired { token } => {
                out.unsigned(7);
                out.string(token);
            }
            Self::Refunded { seats } => seat_event(out, 8, seats),
            Self::Blocked { seats } => seat_event(out, 9, seats),
            Self::Unblocked { seats } => seat_event(out, 10, seats),
            Self::Limited { limits, events } => {
                out.unsigned(12);
                out.unsigned(limits.seats_per_user.into());
                out.unsigned(limits.holds_per_user.into());
                out.unsigned(limits.max_hold_ms);
                out.unsigned((*events).into());
            }
            Self::Flushed { count, last_id } => {
                out.unsigned(11);
                out.unsigned((*count).into());
                out.unsigned(last_id.0);
                out.unsigned(last_id.1);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let text =
            |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Damaged("a plan is not UTF-8"));
        Ok(match reader.unsigned()? {
            1 => Self::Created { plan: text(reader.string()?)? },
            2 => Self::Altered { plan: text(reader.string()?)? },
            3 => Self::Held(Held {
                token: reader.identifier()?,
                user: reader.identifier()?,
                until: reader.time()?,
                fingerprint: reader.unsigned()?,
                seats: seats(reader)?,
                turn: match reader.unsigned()? {
                    0 => Turn::None,
                    1 => Turn::Area(reader.number()?),
                    2 => Turn::Bucket(reader.number()?),
                    _ => return Err(Damaged("a turn is nobody's")),
                },
                replaced: reader.optional_identifier()?,
            }),
            4 => Self::Extended { token: reader.identifier()?, until: reader.time()? },
            5 => Self::Confirmed { token: reader.identifier()?, order: reader.optional_identifier()? },
            6 => Self::Released { token: reader.identifier()?, seats: seats(reader)? },
            7 => Self::Expired { token: reader.identifier()? },
            8 => Self::Refunded { seats: seats(reader)? },
            9 => Self::Blocked { seats: seats(reader)? },
            10 => Self::Unblocked { seats: seats(reader)? },
            11 => {
                Self::Flushed { count: reader.number()?, last_id: (reader.unsigned()?, reader.unsigned()?) }
            }
            12 => Self::Limited {
                limits: Limits {
                    seats_per_user: reader.number()?,
                    holds_per_user: reader.number()?,
                    max_hold_ms: reader.count()?,
                },
                events: reader.number()?,
            },
            _ => return Err(Damaged("the kind of event is unknown; was it written by a newer version?")),
        })
    }
}

fn seat_event(out: &mut Writer, kind: u64, seats: &[u32]) {
    out.unsigned(kind);
    out.rising(seats);
}

fn seats(reader: &mut Reader<'_>) -> Result<Seats, Damaged> {
    let seats = reader.rising(MAX_SEATS)?;
    if seats.is_empty() { Err(Damaged("an event names no seat")) } else { Ok(Seats::from_vec(seats)) }
}
