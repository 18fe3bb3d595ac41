//! Requests to a show, with parsed arguments. docs/seats.md describes the commands.

use super::plan::PlanPart;
use crate::shared::Millis;
use crate::shared::codec::Writer;
use crate::shared::token::TokenChoice;
use crate::words;

/// A request that may change a show.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `SEAT.HOLD`: the best seats.
    Hold(Hold<'a>),
    /// `SEAT.PICK`: just these seats.
    Pick(Pick<'a>),
    /// `SEAT.EXTEND`.
    Extend {
        /// The hold.
        token: &'a [u8],
        /// The new time to live, from now, in milliseconds.
        ttl: Millis,
    },
    /// `SEAT.CONFIRM`.
    Confirm {
        /// The hold.
        token: &'a [u8],
        /// The user whose hold it must be.
        user: Option<&'a [u8]>,
        /// The order under which the sale is recorded.
        order: Option<&'a [u8]>,
    },
    /// `SEAT.RELEASE`.
    Release {
        /// The hold.
        token: &'a [u8],
        /// The seats to release; `None` for all seats of the hold.
        seats: Option<Vec<&'a [u8]>>,
    },
    /// `SEAT.REFUND`.
    Refund {
        /// The order to which all seats must belong.
        order: Option<&'a [u8]>,
        /// Sold seats.
        seats: Vec<&'a [u8]>,
    },
    /// `SEAT.BLOCK`.
    Block(Vec<&'a [u8]>),
    /// `SEAT.UNBLOCK`.
    Unblock(Vec<&'a [u8]>),
    /// `SEAT.ALTER`.
    Alter(PlanPart),
}

/// `SEAT.HOLD key user count TTL ms ...`
#[derive(Clone, Debug)]
pub struct Hold<'a> {
    /// The buyer.
    pub user: &'a [u8],
    /// Seats wanted, 1 to 100.
    pub count: i64,
    /// Life of the hold.
    pub ttl: Millis,
    /// Only this tier.
    pub tier: Option<&'a [u8]>,
    /// Only these areas; all areas if empty.
    pub areas: Vec<&'a [u8]>,
    /// How much sitting together matters.
    pub adjacent: Adjacent,
    /// Whether a single seat may be left beside the group.
    pub orphans: Orphans,
    /// Flags whose seats may be taken too.
    pub flags: Vec<&'a [u8]>,
    /// A live hold of the user that the new hold replaces.
    pub replace: Option<Replace<'a>>,
    /// The new hold's token.
    pub token: TokenChoice<'a>,
}

/// `REPLACE token [OTHER]`
#[derive(Clone, Copy, Debug)]
pub struct Replace<'a> {
    /// The hold to release.
    pub token: &'a [u8],
    /// Whether the new hold must have other seats.
    pub other: bool,
}

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

/// `SEAT.PICK key user TTL ms [TOKEN token] SEATS n seat ...`
#[derive(Clone, Debug)]
pub struct Pick<'a> {
    /// The buyer.
    pub user: &'a [u8],
    /// Life of the hold.
    pub ttl: Millis,
    /// The hold's token.
    pub token: TokenChoice<'a>,
    /// Ids of the seats.
    pub seats: Vec<&'a [u8]>,
}

/// What a request for best seats wants, by names.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Seats wanted, 1 to 100.
    pub count: i64,
    /// Only this tier.
    pub tier: Option<&'a [u8]>,
    /// Only these areas; all areas if empty.
    pub areas: &'a [&'a [u8]],
    /// How much sitting together matters.
    pub adjacent: Adjacent,
    /// Whether a single seat may be left beside the group.
    pub orphans: Orphans,
    /// Flags whose seats may be taken too.
    pub flags: &'a [&'a [u8]],
}

impl Hold<'_> {
    /// What the request wants.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted {
            count: self.count,
            tier: self.tier,
            areas: &self.areas,
            adjacent: self.adjacent,
            orphans: self.orphans,
            flags: &self.flags,
        }
    }

    /// A hash of all arguments except the time to live, by which a retry is recognised; 0 if the caller chose no
    /// token. The hash is kept with the hold, so it must be the same in every version.
    pub fn fingerprint(&self) -> u64 {
        if !self.token.chosen {
            return 0;
        }
        let mut writer = Writer::default();
        writer.unsigned(1);
        writer.string(self.user);
        writer.signed(self.count);
        writer.optional(self.tier);
        writer.unsigned(self.adjacent.number());
        writer.unsigned(self.orphans.number());
        for names in [&self.areas, &self.flags] {
            let mut names = names.clone();
            names.sort_unstable();
            names.dedup();
            writer.unsigned(names.len() as u64);
            for name in names {
                writer.string(name);
            }
        }
        writer.optional(self.replace.map(|replace| replace.token));
        writer.unsigned(self.replace.map_or(0, |replace| u64::from(replace.other)));
        hash(&writer)
    }
}

impl Pick<'_> {
    /// As `Hold::fingerprint`.
    pub fn fingerprint(&self) -> u64 {
        if !self.token.chosen {
            return 0;
        }
        let mut writer = Writer::default();
        writer.unsigned(2);
        writer.string(self.user);
        let mut seats = self.seats.clone();
        seats.sort_unstable();
        for seat in seats {
            writer.string(seat);
        }
        hash(&writer)
    }
}

fn hash(writer: &Writer) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&writer.bytes).max(1)
}
