//! How the seats of a request are chosen.

use crate::shared::field::Any;
use crate::{fields, words};

words! {
    /// `ADJACENT PREFER|REQUIRE|AREA|IGNORE`. The numbers are part of a hold's fingerprint and never change.
    #[derive(Default)]
    pub enum Adjacent {
        /// Together if an area of any priority allows it, otherwise scattered.
        #[default]
        Prefer = 0 => "PREFER",
        /// Together or not at all.
        Require = 1 => "REQUIRE",
        /// The best area first, together if that area allows it.
        Area = 2 => "AREA",
        /// The first free seats.
        Ignore = 3 => "IGNORE",
    }
}

words! {
    /// `ORPHANS AVOID|ALLOW|FORBID`. The numbers are part of a hold's fingerprint and never change.
    #[derive(Default)]
    pub enum Orphans {
        /// Strand a single seat only if the area has no other way.
        #[default]
        Avoid = 0 => "AVOID",
        /// Ignore stranded seats.
        Allow = 1 => "ALLOW",
        /// Never strand a seat, never scatter the group.
        Forbid = 2 => "FORBID",
    }
}

/// The most different needs of one request.
pub const MAX_NEEDS: usize = 4;

fields! {
    /// `NEED n flag`: so many seats of the party have this flag.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FlagNeed {
        /// Seats with the flag, at least one.
        pub count: u32,
        /// The flag, as one bit.
        pub flag: Any<u64>,
    }
}

/// Seats that a request may take, by their flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// A seat of this kind has no other flags.
    pub allowed: u64,
    /// A seat of this kind has all of these flags.
    pub carried: u64,
}

impl Kind {
    /// Seats without flags other than these.
    pub fn with(allowed: u64) -> Self {
        Self { allowed, carried: 0 }
    }

    /// The kinds of a party with these flags and needed flags, which have no seat in common: the seats for everybody, and
    /// those of each need.
    pub fn of_party(flags: u64, needed: impl Iterator<Item = u64>) -> impl Iterator<Item = Self> {
        let of_need = move |flag| Self { allowed: flags | flag, carried: flag };
        std::iter::once(Self::with(flags)).chain(needed.map(of_need))
    }

    /// Whether a seat with these flags is of this kind.
    pub fn takes(self, flags: u64) -> bool {
        // Of the flags that it must have, or may not have, it has the former only.
        flags & !(self.allowed & !self.carried) == self.carried
    }
}
