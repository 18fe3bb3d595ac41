//! Events of a pool. Only events change a pool; they are replicated, written to the AOF, published and replayed.

pub use super::model::causes::Rule;
use super::model::causes::read_word;
pub use super::model::leases::Called;
use super::model::number::Number;
use super::settings::{Cap, Caps, MAX_CAPS, Settings};
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::field::Field;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, words};
use smallvec::SmallVec;

/// The events of one step; usually one.
pub type Events = machine::Events<Event>;

/// The numbers of an event; usually one.
pub type Numbers = SmallVec<[Number; 1]>;

words! {
    /// Counters of pools in `INFO`.
    pub enum Counter {
        /// Numbers given for a call.
        Called => "numpool_called",
        /// Calls ended by a hangup.
        HungUp => "numpool_hungup",
        /// Calls ended by the deadline of their lease.
        Expired => "numpool_expired",
        /// Calls ended because their switch did not carry them any more.
        Reconciled => "numpool_reconciled",
        /// Registrations that were not renewed in time.
        Lapsed => "numpool_lapsed",
    }
}

events! {
    /// One change.
    pub enum Event counted by Counter {
        /// The pool was created: the first event of a key.
        Created(settings: Settings) = 1, notice c"allot.numpool.created";
        /// The pool has other settings.
        Configured(settings: Settings) = 2, notice c"allot.numpool.configured";
        /// Numbers are added, or kept if they were draining.
        Added(numbers: Numbers) = 3, notice c"allot.numpool.added";
        /// Numbers and their leases are deleted.
        Deleted(numbers: Numbers) = 4, notice c"allot.numpool.deleted";
        /// Numbers that carry calls are draining: deleted when their calls end.
        Draining(numbers: Numbers) = 5, notice c"allot.numpool.draining";
        /// A switch registered numbers, or did so again.
        Registered {
            /// Which.
            numbers: Numbers,
            /// When that lapses.
            until: Option<Millis>,
            /// Who it was.
            switch: Option<Bytes>,
        } = 6, notice c"allot.numpool.registered";
        /// Registrations of numbers ended.
        Unregistered(numbers: Numbers) = 7, notice c"allot.numpool.unregistered";
        /// All registrations by a switch ended.
        Left {
            /// Which switch.
            switch: Bytes,
        } = 8, notice c"allot.numpool.unregistered";
        /// Registrations were not renewed in time.
        Lapsed(numbers: Numbers) = 9,
            notice c"allot.numpool.lapsed",
            count (Counter::Lapsed, numbers.len() as u64);
        /// A number was given for a call.
        Called(called: Called) = 10, notice c"allot.numpool.called", count (Counter::Called, 1);
        /// Calls ended.
        Ended {
            /// On which numbers.
            numbers: Numbers,
            /// Until when these rest.
            cool_until: Option<Millis>,
            /// Why.
            cause: Cause,
        } = 11,
            notice match cause {
                Cause::HungUp | Cause::TakenBack => c"allot.numpool.hungup",
                Cause::Expired => c"allot.numpool.expired",
                Cause::Reconciled => c"allot.numpool.reconciled",
            },
            count (
                match cause {
                    Cause::HungUp | Cause::TakenBack => Counter::HungUp,
                    Cause::Expired => Counter::Expired,
                    Cause::Reconciled => Counter::Reconciled,
                },
                numbers.len() as u64,
            );
        /// A lease has another deadline.
        Renewed {
            /// Its number.
            number: Number,
            /// The new deadline.
            until: Millis,
        } = 12, notice c"allot.numpool.renewed";
        /// Numbers have rested.
        Cooled(numbers: Numbers) = 13, notice c"allot.numpool.cooled";
        /// Messages of the outbox were written to their stream.
        Flushed {
            /// How many, oldest first.
            count: u32,
            /// The id of the last (milliseconds, sequence).
            last_id: (u64, u64),
        } = 14;
        /// The pool has other caps.
        Capped(caps: Caps) = 15, notice c"allot.numpool.configured";
        /// A cause has another rule, or none.
        Ruled {
            /// The word of the cause.
            word: Word,
            /// When it sends a number into quarantine.
            rule: Option<Rule>,
        } = 16, notice c"allot.numpool.configured";
        /// A call was hung up with a cause.
        Blamed {
            /// On which number.
            number: Number,
            /// The cause.
            word: Word,
            /// Until when the number rests.
            until: Option<Millis>,
            /// Whether that is a quarantine.
            quarantine: bool,
        } = 17, notice c"allot.numpool.hungup", count (Counter::HungUp, 1);
    }
}

words! {
    /// Why a call ended. The numbers are the encoding's and never change.
    pub enum Cause {
        /// Somebody hung up.
        HungUp = 0 => "hungup",
        /// The lease's deadline passed.
        Expired = 1 => "expired",
        /// The switch does not carry the call any more.
        Reconciled = 2 => "reconciled",
        /// The caller never heard of the call, so the call does not count for the caps.
        TakenBack = 3 => "taken-back",
    }
}

/// The word of a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub Bytes);

impl Field for Word {
    fn encode(&self, out: &mut Writer) {
        out.string(&self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        read_word(reader).map(Self)
    }
}

impl Field for Caps {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.iter().count() as u64);
        self.iter().for_each(|cap| out.field(&cap));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let count = reader.unsigned()?;
        let mut list = [Cap::default(); MAX_CAPS];
        let caps = list.get_mut(..count as usize).ok_or(Damaged("there are too many caps"))?;
        for cap in &mut *caps {
            *cap = reader.field()?;
            if !cap.is_sound() {
                return Err(Damaged("a cap is out of range"));
            }
        }
        Self::of(caps).ok_or(Damaged("there are too many caps"))
    }
}

/// A setting that is a span of time: none, or at most ten years.
fn span(reader: &mut Reader<'_>) -> Result<Millis, Damaged> {
    match reader.count()? as Millis {
        time if time <= crate::shared::token::MAX_TTL => Ok(time),
        _ => Err(Damaged("a setting is out of range")),
    }
}

impl Field for Settings {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.lease as u64);
        out.unsigned(self.cooldown as u64);
        out.unsigned(self.regttl as u64);
        out.field(&self.pick);
        out.field(&self.events);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self {
            lease: span(reader)?,
            cooldown: span(reader)?,
            regttl: span(reader)?,
            pick: reader.field()?,
            events: reader.field()?,
        })
    }
}

/// At least one number.
impl Field for Numbers {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.len() as u64);
        self.iter().for_each(|number| out.field(number));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut numbers = Self::new();
        for _ in 0..reader.unsigned()? {
            numbers.push(reader.field()?);
        }
        if numbers.is_empty() { Err(Damaged("an event names no number")) } else { Ok(numbers) }
    }
}

impl Field for Number {
    fn encode(&self, out: &mut Writer) {
        let (bytes, used) = self.packed();
        out.string(bytes.get(..used).unwrap_or(&bytes));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Self::unpacked(reader.string()?).ok_or(Damaged("a number is not valid"))
    }
}
