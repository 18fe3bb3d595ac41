//! What a search looks for, and what it finds.

use crate::seat::bits::{self, Bits};
use crate::seat::choice::{FlagNeed, Kind};
use crate::seat::claims::Seats;
use crate::seat::index::{clean_run_of, exactly, run_of};
use crate::seat::request::{Adjacent, Orphans};
use crate::seat::state::Show;
use crate::seat::venue::{Area, Tier};

/// A request for seats with resolved names.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Seats wanted, 1 to 100.
    pub count: usize,
    /// Only this tier.
    pub tier: Option<Tier>,
    /// Only these areas; all areas if empty.
    pub areas: Vec<Area>,
    /// How important adjacent seats are.
    pub adjacent: Adjacent,
    /// Whether a single seat may be stranded.
    pub orphans: Orphans,
    /// Flags of the request, as bits.
    pub flags: u64,
    /// Seats of the party that must have a flag, with different flags that are not in `flags`.
    pub needs: Vec<FlagNeed>,
    /// Only seats of this block; `None` for free seats.
    pub from: Option<u32>,
}

impl Wish {
    /// All seats that the request may take.
    pub fn kind(&self) -> Kind {
        Kind::with(self.needs.iter().fold(self.flags, |all, need| all | need.flag.0))
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The seats, in ascending order.
    Seats(Seats),
    /// Fewer seats are free than requested.
    TooFew,
    /// Enough seats are free, but they are not adjacent.
    NotAdjacent,
}

/// The kind of run that a row must have.
#[derive(Clone, Copy)]
pub(super) enum Need {
    /// A run of at least this length.
    Run(usize),
    /// The same, without stranding a seat.
    Clean(usize),
    /// A run of exactly this length.
    Exactly(usize),
}

impl Need {
    pub(super) fn lengths(self) -> u128 {
        match self {
            Self::Run(n) => run_of(n),
            Self::Clean(n) => clean_run_of(n),
            Self::Exactly(n) => exactly(n),
        }
    }

    pub(super) fn is_met_by(self, seats: &StripSeats) -> bool {
        match self {
            Self::Run(n) => bits::count(&seats.windows(n, false)) > 0,
            Self::Clean(n) => bits::count(&seats.windows(n, true)) > 0,
            Self::Exactly(n) => bits::runs(&seats.takeable).any(|(_, len)| len == n),
        }
    }
}

/// The seats of a strip as the request sees them.
pub(super) struct StripSeats {
    pub(super) takeable: Bits,
    /// The takeable seats, and those of the replaced hold that must not be taken again.
    pub(super) free: Bits,
}

impl StripSeats {
    pub(super) fn of(show: &Show, kind: Kind, bucket: u32, strip: u32) -> Self {
        let strip = show.strip(bucket, strip);
        Self::all(strip.map_or_else(Bits::new, |strip| show.takeable(strip, kind)))
    }

    /// All of these may be taken.
    pub(super) fn all(seats: Bits) -> Self {
        Self { takeable: seats.clone(), free: seats }
    }

    /// Forgets all seats.
    pub(super) fn clear(&mut self) {
        self.takeable.fill(0);
        self.free.fill(0);
    }

    pub(super) fn windows(&self, n: usize, clean: bool) -> Bits {
        let all = bits::windows(&self.takeable, n);
        if clean { bits::stranding_nobody(&all, &self.free, n) } else { all }
    }
}
