//! Events of a pool. Only events change a pool; they are replicated, written to the AOF, published and replayed.

pub use super::model::causes::{Rule, Word};
pub use super::model::leases::Called;
use super::model::number::Number;
pub use super::model::state::{Rest, RestReason};
use super::settings::Settings;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::field::Field;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, words};
use smallvec::{SmallVec, smallvec};

/// The events of one step; usually one.
pub type Events = machine::Events<Event>;

/// The numbers of an event; usually one.
pub type Numbers = SmallVec<[Number; 1]>;

/// The most numbers in an event that writes a message for each number: messages are sent between two events, and only
/// so many are kept.
pub(in crate::numpool) const TOLD_AT_ONCE: usize = crate::shared::outbox::CAPACITY / 4;

/// Events of a part of the numbers each.
pub(in crate::numpool) fn each_some(numbers: Numbers, event: impl Fn(Numbers) -> Event) -> Events {
    if numbers.len() <= TOLD_AT_ONCE {
        return if numbers.is_empty() { Events::new() } else { smallvec![event(numbers)] };
    }
    numbers.chunks(TOLD_AT_ONCE).map(|numbers| event(Numbers::from_slice(numbers))).collect()
}

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
        Unregistered {
            /// Which.
            numbers: Numbers,
            /// The switch, if all of its registrations end.
            switch: Option<Bytes>,
        } = 7, notice c"allot.numpool.unregistered";
        /// Registrations were not renewed in time.
        Lapsed(numbers: Numbers) = 8,
            notice c"allot.numpool.lapsed",
            count (Counter::Lapsed, numbers.len() as u64);
        /// A number was given for a call.
        Called(called: Called) = 9, notice c"allot.numpool.called", count (Counter::Called, 1);
        /// Calls ended.
        Ended {
            /// On which numbers.
            numbers: Numbers,
            /// The rest that follows.
            rest: Option<Rest>,
            /// Why.
            cause: Cause,
            /// The cause of a hangup, in the word of its caller.
            word: Option<Word>,
        } = 10,
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
        } = 11, notice c"allot.numpool.renewed";
        /// Numbers have rested.
        Cooled(numbers: Numbers) = 12, notice c"allot.numpool.cooled";
        /// A cause has another rule, or none.
        Ruled {
            /// The word of the cause.
            word: Word,
            /// When it sends a number into quarantine.
            rule: Option<Rule>,
        } = 13, notice c"allot.numpool.configured";
        /// Messages of the outbox were written to their stream.
        Flushed {
            /// How many, oldest first.
            count: u32,
            /// The id of the last (milliseconds, sequence).
            last_id: (u64, u64),
        } = 14;
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
