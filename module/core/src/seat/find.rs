//! `SEAT.FIND`: the seats that `SEAT.HOLD` would choose, without holding them.

use super::claims::{MAX_COUNT, Seats};
use super::decide::rules::resolve;
use super::decide::search::{Found, Search};
use super::request::{Adjacent, Orphans, Wanted};
use super::state::Show;
use super::venue::Area;
use crate::shared::refusal::{Code, Refusal, refuse};

/// The most offers of one request.
pub const MAX_OFFERS: usize = 20;

impl Show {
    /// Up to `best` offers, the best first, at most one for each area. The first is what `SEAT.HOLD` would hold now, each
    /// further one what it would hold without the areas of the offers before. Empty if it would hold nothing.
    /// O(best (count log rows + areas)).
    ///
    /// # Errors
    /// As `SEAT.HOLD`: `NOTFOUND` for an unknown tier or area, `ERR` for a count or options that cannot be.
    pub fn find(&self, wanted: &Wanted<'_>, best: usize) -> Result<Vec<Seats>, Refusal> {
        wanted.check()?;
        let mut wish = resolve(self, wanted)?;
        let mut areas: Vec<Area> = if wish.areas.is_empty() {
            (0..self.venue.areas().len() as Area).collect()
        } else {
            wish.areas.clone()
        };
        let mut offers = Vec::new();
        while offers.len() < best && !areas.is_empty() {
            let Found::Seats(seats) = Search::new(self, &wish, &[], false).run() else { break };
            let taken =
                |area: &Area| seats.iter().any(|&seat| self.venue.area_of(self.venue.row_of(seat)) == *area);
            areas.retain(|area| !taken(area));
            wish.areas.clone_from(&areas);
            offers.push(seats);
        }
        Ok(offers)
    }
}

impl Wanted<'_> {
    /// Checks count and options against each other.
    ///
    /// # Errors
    /// `ERR` for a count out of range, or for options that exclude each other.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if !(1..=MAX_COUNT).contains(&self.count) {
            return refuse(Code::Err, format!("count must be 1 to {MAX_COUNT}, not {}", self.count));
        }
        if self.adjacent == Adjacent::Ignore && self.orphans == Orphans::Forbid {
            return refuse(
                Code::Err,
                "ADJACENT IGNORE does not look at neighbours; it cannot go with ORPHANS FORBID",
            );
        }
        Ok(())
    }
}
