//! What happens to a pool: results, not wishes. The only thing that ever changes one, and what is replicated,
//! written to the AOF, published and replayed.

use super::number::Number;
use super::state::Settings;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::machine::{self, MachineEvent};
use crate::shared::{Bytes, Millis};
use crate::words;
use smallvec::SmallVec;

/// The events of one step; mostly one.
pub type Events = machine::Events<Event>;

/// Numbers that something happens to; mostly one.
pub type Numbers = SmallVec<[Number; 1]>;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pool was made. The first event of a key; the state before it is none.
    Created(Settings),
    /// The pool has other settings.
    Configured(Settings),
    /// Numbers are in the pool: new ones, and those that were to go at the end of their call.
    Added(Numbers),
    /// Numbers are not in the pool any more, nor are their leases.
    Deleted(Numbers),
    /// Numbers that carry calls go when these end.
    Draining(Numbers),
    /// A switch registered numbers, or did so again.
    Registered {
        /// Which.
        numbers: Numbers,
        /// When that lapses.
        until: Option<Millis>,
        /// Who it was.
        switch: Option<Bytes>,
    },
    /// Registrations of numbers ended.
    Unregistered(Numbers),
    /// All registrations by a switch ended.
    Left {
        /// Which switch.
        switch: Bytes,
    },
    /// Registrations were not renewed in time.
    Lapsed(Numbers),
    /// A number was given for a call.
    Called(Called),
    /// Calls ended.
    Ended {
        /// On which numbers.
        numbers: Numbers,
        /// Until when these rest.
        cool_until: Option<Millis>,
        /// Why.
        cause: Cause,
    },
    /// A lease has another deadline.
    Renewed {
        /// Its number.
        number: Number,
        /// The new deadline.
        until: Millis,
    },
    /// Numbers have rested.
    Cooled(Numbers),
    /// Messages of the outbox are in their stream.
    Flushed {
        /// How many, oldest first.
        count: u32,
        /// The id of the last (milliseconds, sequence).
        last_id: (u64, u64),
    },
}

/// A number was given for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Which.
    pub number: Number,
    /// Name of the lease.
    pub token: Bytes,
    /// When it ends by itself.
    pub until: Option<Millis>,
    /// Who carries the call.
    pub switch: Option<Bytes>,
    /// Who is called.
    pub peer: Option<Bytes>,
}

words! {
    /// Why a call ended. The numbers are the encoding's and never change.
    pub enum Cause {
        /// Somebody hung up.
        HungUp = 0 => "hungup",
        /// The lease's deadline passed.
        Expired = 1 => "expired",
        /// Its switch does not carry it any more.
        Reconciled = 2 => "reconciled",
    }
}

impl Event {
    /// The event's name in notifications and in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Created(_) => "created",
            Self::Configured(_) => "configured",
            Self::Added(_) => "added",
            Self::Deleted(_) => "deleted",
            Self::Draining(_) => "draining",
            Self::Registered { .. } => "registered",
            Self::Unregistered(_) | Self::Left { .. } => "unregistered",
            Self::Lapsed(_) => "lapsed",
            Self::Called(_) => "called",
            Self::Ended { cause: Cause::HungUp, .. } => "hungup",
            Self::Ended { cause: Cause::Expired, .. } => "expired",
            Self::Ended { cause: Cause::Reconciled, .. } => "reconciled",
            Self::Renewed { .. } => "renewed",
            Self::Cooled(_) => "cooled",
            Self::Flushed { .. } => "flushed",
        }
    }
}

impl MachineEvent for Event {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Created(settings) => {
                out.unsigned(1);
                settings.encode(out);
            }
            Self::Configured(settings) => {
                out.unsigned(2);
                settings.encode(out);
            }
            Self::Added(numbers) => write_numbers(out, 3, numbers),
            Self::Deleted(numbers) => write_numbers(out, 4, numbers),
            Self::Draining(numbers) => write_numbers(out, 5, numbers),
            Self::Registered { numbers, until, switch } => {
                write_numbers(out, 6, numbers);
                write_time(out, *until);
                out.optional(switch.as_deref());
            }
            Self::Unregistered(numbers) => write_numbers(out, 7, numbers),
            Self::Left { switch } => {
                out.unsigned(8);
                out.string(switch);
            }
            Self::Lapsed(numbers) => write_numbers(out, 9, numbers),
            Self::Called(called) => {
                out.unsigned(10);
                write_number(out, called.number);
                out.string(&called.token);
                write_time(out, called.until);
                out.optional(called.switch.as_deref());
                out.optional(called.peer.as_deref());
            }
            Self::Ended { numbers, cool_until, cause } => {
                write_numbers(out, 11, numbers);
                write_time(out, *cool_until);
                out.unsigned(cause.number());
            }
            Self::Renewed { number, until } => {
                out.unsigned(12);
                write_number(out, *number);
                out.signed(*until);
            }
            Self::Cooled(numbers) => write_numbers(out, 13, numbers),
            Self::Flushed { count, last_id } => {
                out.unsigned(14);
                out.unsigned((*count).into());
                out.unsigned(last_id.0);
                out.unsigned(last_id.1);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(match reader.unsigned()? {
            1 => Self::Created(Settings::decode(reader)?),
            2 => Self::Configured(Settings::decode(reader)?),
            3 => Self::Added(read_numbers(reader)?),
            4 => Self::Deleted(read_numbers(reader)?),
            5 => Self::Draining(read_numbers(reader)?),
            6 => Self::Registered {
                numbers: read_numbers(reader)?,
                until: read_time(reader)?,
                switch: reader.optional_identifier()?,
            },
            7 => Self::Unregistered(read_numbers(reader)?),
            8 => Self::Left { switch: reader.identifier()? },
            9 => Self::Lapsed(read_numbers(reader)?),
            10 => Self::Called(Called {
                number: read_number(reader)?,
                token: reader.identifier()?,
                until: read_time(reader)?,
                switch: reader.optional_identifier()?,
                peer: reader.optional_identifier()?,
            }),
            11 => Self::Ended {
                numbers: read_numbers(reader)?,
                cool_until: read_time(reader)?,
                cause: reader.field()?,
            },
            12 => Self::Renewed { number: read_number(reader)?, until: reader.time()? },
            13 => Self::Cooled(read_numbers(reader)?),
            14 => {
                Self::Flushed { count: reader.number()?, last_id: (reader.unsigned()?, reader.unsigned()?) }
            }
            _ => return Err(Damaged("the kind of event is unknown; was it written by a newer version?")),
        })
    }
}

impl Settings {
    /// Appends the settings' bytes.
    pub fn encode(&self, out: &mut Writer) {
        out.unsigned(self.lease as u64);
        out.unsigned(self.cooldown as u64);
        out.unsigned(self.regttl as u64);
        out.unsigned(self.pick.number());
        out.unsigned(self.events.into());
    }

    /// Reads settings.
    ///
    /// # Errors
    /// Settings that no pool can have.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut time = || match reader.count()? as Millis {
            time if time <= crate::shared::token::MAX_TTL => Ok(time),
            _ => Err(Damaged("a setting is out of range")),
        };
        let (lease, cooldown, regttl) = (time()?, time()?, time()?);
        let pick = reader.field()?;
        Ok(Self { lease, cooldown, regttl, pick, events: reader.number()? })
    }
}

fn write_numbers(out: &mut Writer, kind: u64, numbers: &[Number]) {
    out.unsigned(kind);
    out.unsigned(numbers.len() as u64);
    numbers.iter().for_each(|&number| write_number(out, number));
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Numbers, Damaged> {
    let count = reader.unsigned()?;
    let mut numbers = Numbers::new();
    for _ in 0..count {
        numbers.push(read_number(reader)?);
    }
    if numbers.is_empty() { Err(Damaged("an event names no number")) } else { Ok(numbers) }
}

pub(super) fn write_number(out: &mut Writer, number: Number) {
    let (bytes, used) = number.packed();
    out.string(bytes.get(..used).unwrap_or(&bytes));
}

pub(super) fn read_number(reader: &mut Reader<'_>) -> Result<Number, Damaged> {
    Number::unpacked(reader.string()?).ok_or(Damaged("a number is none"))
}

/// A time or none: 0, or 1 more than the time.
pub(super) fn write_time(out: &mut Writer, time: Option<Millis>) {
    out.unsigned(time.map_or(0, |time| time as u64 + 1));
}

pub(super) fn read_time(reader: &mut Reader<'_>) -> Result<Option<Millis>, Damaged> {
    Ok(reader.count()?.checked_sub(1).map(|time| time as Millis))
}
