//! Numbers that are out of service: suspended by hand, or in quarantine after a call that ended for a cause.

use super::causes::Word;
use crate::fields;
use crate::shared::Millis;
use crate::shared::deadlines::Deadlines;
use hashbrown::HashMap;

fields! {
    /// Why a number is out of service, and until when.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Suspension {
        /// The cause, if there is one: the number is in quarantine then.
        pub cause: Option<Word>,
        /// When it ends by itself, if it does.
        pub until: Option<Millis>,
    }
}

/// The suspended numbers of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::numpool) struct Suspensions {
    causes: HashMap<u32, Option<Word>>,
    ends: Deadlines,
    /// How many have a cause.
    with_cause: u32,
}

impl Suspensions {
    /// Whether a number is suspended. O(1).
    #[inline]
    pub(in crate::numpool) fn contains(&self, number: u32) -> bool {
        !self.causes.is_empty() && self.causes.contains_key(&number)
    }

    /// The suspension of a number, if there is one. O(1).
    pub(in crate::numpool) fn get(&self, number: u32) -> Option<Suspension> {
        let cause = self.causes.get(&number)?.clone();
        Some(Suspension { cause, until: self.ends.get(number) })
    }

    /// Suspends a number, whether it was suspended or not. O(log n).
    pub(in crate::numpool) fn set(&mut self, number: u32, Suspension { cause, until }: Suspension) {
        self.remove(number);
        self.with_cause += u32::from(cause.is_some());
        self.causes.insert(number, cause);
        until.into_iter().for_each(|until| self.ends.set(number, until));
    }

    /// Ends the suspension of a number, if there is one. O(log n).
    pub(in crate::numpool) fn remove(&mut self, number: u32) {
        if let Some(cause) = self.causes.remove(&number) {
            self.with_cause -= u32::from(cause.is_some());
            self.ends.remove(number);
        }
    }

    /// The suspended numbers, in no order.
    pub(in crate::numpool) fn ids(&self) -> impl Iterator<Item = u32> {
        self.causes.keys().copied()
    }

    /// How many numbers are suspended, and how many of them for a cause.
    pub(in crate::numpool) fn counts(&self) -> (u32, u32) {
        (self.causes.len() as u32, self.with_cause)
    }

    /// By number: when its suspension ends.
    pub(in crate::numpool) fn ends(&self) -> &Deadlines {
        &self.ends
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        self.causes.allocation_size() + self.ends.allocated()
    }
}
