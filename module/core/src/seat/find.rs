//! `SEAT.FIND`: the seats that `SEAT.HOLD` would choose, without holding them.

use super::claims::Seats;
use super::decide::also::Also;
use super::decide::rules::resolve;
use super::decide::search::{Found, Search};
use super::decide::several::{Refused, Several};
use super::state::Show;
use super::venue::Area;
use super::wish::NamedWish;
use crate::shared::refusal::Refusal;

/// The most offers of one request.
pub const MAX_OFFERS: usize = 20;

impl Show {
    /// Up to `best` offers, the best first, at most one for each area. The first is what `SEAT.HOLD` would hold now, each
    /// further one what it would hold without the areas of the offers before. Empty if it would hold nothing.
    /// O(best (count log rows + areas)).
    ///
    /// # Errors
    /// As `SEAT.HOLD`: `NOTFOUND` for an unknown tier or area, `ERR` for a count or options that cannot be.
    pub fn find(&self, wanted: &NamedWish<'_>, best: usize) -> Result<Vec<Seats>, Refusal> {
        self.offers(wanted, best, None)
    }

    fn offers(
        &self,
        wanted: &NamedWish<'_>,
        best: usize,
        also: Option<&Also<'_>>,
    ) -> Result<Vec<Seats>, Refusal> {
        wanted.check()?;
        let mut wish = resolve(self, wanted)?;
        let mut areas: Vec<Area> = if wish.areas.is_empty() {
            (0..self.venue.areas().len() as Area).collect()
        } else {
            wish.areas.clone()
        };
        let mut offers = Vec::new();
        while offers.len() < best && !areas.is_empty() {
            let search = Search::new(self, &wish, &[], false);
            let Found::Seats(seats) = also.into_iter().fold(search, Search::within).run() else { break };
            let taken =
                |area: &Area| seats.iter().any(|&seat| self.venue.area_of(self.venue.row_of(seat)) == *area);
            areas.retain(|area| !taken(area));
            wish.areas.clone_from(&areas);
            offers.push(seats);
        }
        Ok(offers)
    }
}

/// As `Show::find`, for seats that are free in all shows; their numbers are those of the first.
///
/// # Errors
/// As `Show::find`, for one of the shows.
pub fn find_in_all(shows: &Several<'_>, wanted: &NamedWish<'_>, best: usize) -> Result<Vec<Seats>, Refused> {
    let also = shows.looked_at(wanted.from)?;
    shows.first.show.offers(wanted, best, Some(&also)).map_err(|refusal| (0, refusal))
}
