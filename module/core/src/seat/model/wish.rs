//! The wish for the best seats. A request, a waiter and a search have the same wish. They differ only in how they name
//! tiers, areas, flags and blocks.

use super::claims::MAX_COUNT;
use super::kind::Kind;
use super::venue::{Area, Tier};
use crate::shared::Bytes;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::field::Field;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::words;

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

/// The most different needs of one request, and the most wishes.
pub const MAX_NEEDS: usize = 4;

/// The seats that somebody wants. The parameters are the names of a tier, an area, a block and a flag, and a set of flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish<Tier, Area, Block, Flag, Flags> {
    /// Seats wanted, 1 to 500.
    pub count: u32,
    /// Only this tier.
    pub tier: Option<Tier>,
    /// Only these areas; all areas if empty. Of a waiter, in ascending order.
    pub areas: Vec<Area>,
    /// How much sitting together matters.
    pub adjacent: Adjacent,
    /// Whether a single seat may be left beside the group.
    pub orphans: Orphans,
    /// Flags whose seats may be taken too.
    pub flags: Flags,
    /// Seats of the party that have a flag, with different flags.
    pub needs: Vec<Need<Flag>>,
    /// Flags whose seats come first. By numbers they are in `flags` as well.
    pub preferred: Flags,
    /// Only seats of this block; `None` for free seats.
    pub from: Option<Block>,
}

/// The wish of a request, by names.
pub type NamedWish<'a> = Wish<&'a [u8], &'a [u8], &'a [u8], &'a [u8], Vec<&'a [u8]>>;

/// The wish of a search, by numbers; flags are bits.
pub type NumberedWish = Wish<Tier, Area, u32, u64, u64>;

/// The wish of a waiter: by numbers, but by name where the number may change while the user waits.
pub type LastingWish = Wish<Bytes, Area, Bytes, u64, u64>;

/// `NEED n flag`: so many seats of the party have this flag; at least so many if `flags` has the flag as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<F> {
    /// Seats with the flag, at least one.
    pub count: u32,
    /// The flag.
    pub flag: F,
}

impl NamedWish<'_> {
    /// Checks count and options against each other.
    ///
    /// # Errors
    /// `ERR` for a count out of range, or for options that exclude each other.
    pub(in crate::seat) fn check(&self) -> Result<(), Refusal> {
        let err = |text: String| refuse(Code::Err, text);
        if !(1..=MAX_COUNT).contains(&self.count.into()) {
            return err(format!("count must be 1 to {MAX_COUNT}, not {}", self.count));
        }
        if self.adjacent == Adjacent::Ignore && self.orphans == Orphans::Forbid {
            let text = "ADJACENT IGNORE does not look at neighbours; it cannot go with ORPHANS FORBID";
            return err(text.to_owned());
        }
        if self.preferred.len() > MAX_NEEDS {
            let most = format!("a request has at most {MAX_NEEDS} wishes, not {}", self.preferred.len());
            return err(most);
        }
        if self.needs.len() > MAX_NEEDS {
            return err(format!("a request has at most {MAX_NEEDS} needs, not {}", self.needs.len()));
        }
        let mut needed = 0;
        for (number, need) in self.needs.iter().enumerate() {
            let flag = quoted(need.flag);
            if !(1..=MAX_COUNT).contains(&need.count.into()) {
                return err(format!(
                    "NEED must be 1 to {MAX_COUNT} seats with flag {flag}, not {}",
                    need.count
                ));
            }
            if self.needs.iter().take(number).any(|other| other.flag == need.flag) {
                return err(format!("flag {flag} is needed twice"));
            }
            needed += need.count;
        }
        if needed > self.count {
            return err(format!("a party of {} cannot need {needed} seats with flags", self.count));
        }
        Ok(())
    }
}

/// How many seats of a kind a party with needs takes.
#[derive(Clone, Copy)]
pub(in crate::seat) struct Part {
    pub(in crate::seat) least: usize,
    pub(in crate::seat) most: usize,
    pub(in crate::seat) kind: Kind,
}

impl NumberedWish {
    /// All seats that may be taken.
    pub(in crate::seat) fn kind(&self) -> Kind {
        Kind::with(self.needs.iter().fold(self.flags, |union, need| union | need.flag))
    }

    /// The kinds of seats of a party with needs: first those without a needed flag. The kinds have no seat in common. Empty
    /// for a party without needs.
    pub(in crate::seat) fn parts(&self) -> Vec<Part> {
        if self.needs.is_empty() {
            return Vec::new();
        }
        let (needed, flags) =
            self.needs.iter().fold((0, 0), |(count, flags), need| (count + need.count, flags | need.flag));
        let (others, allowed) = (self.count.saturating_sub(needed) as usize, self.flags & !flags);
        let may_replace = |need: &Need<u64>| need.flag & self.flags != 0;
        let least = if self.needs.iter().any(may_replace) { 0 } else { others };
        let of_need = |need: &Need<u64>| {
            let least = need.count as usize;
            let most = if may_replace(need) { least + others } else { least };
            Part { least, most, kind: Kind { allowed: allowed | need.flag, carried: need.flag } }
        };
        let of_others = Part { least, most: others, kind: Kind::with(allowed) };
        std::iter::once(of_others).chain(self.needs.iter().map(of_need)).collect()
    }
}

impl Field for LastingWish {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.count);
        out.field(&self.tier);
        out.field(&self.areas);
        out.field(&self.adjacent);
        out.field(&self.orphans);
        out.unsigned(self.flags);
        out.field(&self.needs);
        out.unsigned(self.preferred);
        out.field(&self.from);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self {
            count: reader.field()?,
            tier: reader.field()?,
            areas: reader.field()?,
            adjacent: reader.field()?,
            orphans: reader.field()?,
            flags: reader.unsigned()?,
            needs: reader.field()?,
            preferred: reader.unsigned()?,
            from: reader.field()?,
        })
    }
}

impl Field for Need<u64> {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.count);
        out.unsigned(self.flag);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self { count: reader.field()?, flag: reader.unsigned()? })
    }
}
