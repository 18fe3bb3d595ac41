//! `SEAT.FIND`: the seats that `SEAT.HOLD` would choose, without holding them; and what comes before every search.

use super::choice::Kind;
use super::claims::{MAX_COUNT, Seats};
use super::decide::rules::resolve;
use super::decide::search::Search;
use super::decide::wish::Found;
use super::request::{Adjacent, MAX_NEEDS, Orphans, Wanted};
use super::state::Show;
use super::venue::Area;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;

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

impl Show {
    /// Makes indexes for a request with flags or needs, called before the request is decided.
    pub fn prepare(&mut self, wanted: &Wanted<'_>) {
        if wanted.flags.is_empty() && wanted.needs.is_empty() || wanted.from.is_some() {
            return;
        }
        let flags = wanted.flags.iter().fold(0, |all, flag| all | self.venue.flag_bit(flag));
        let needs: Vec<u64> = wanted.needs.iter().map(|need| self.venue.flag_bit(need.flag)).collect();
        let mut kinds = vec![Kind::with(needs.iter().fold(flags, |all, flag| all | flag))];
        if !needs.is_empty() {
            kinds.extend(Kind::of_party(flags, needs.into_iter()));
        }
        self.make_views(wanted.tier, wanted.areas, &kinds);
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
        self.check_needs()
    }

    /// Checks the needs against the count and the flags.
    fn check_needs(&self) -> Result<(), Refusal> {
        let err = |text: String| refuse(Code::Err, text);
        if self.needs.len() > MAX_NEEDS {
            return err(format!("a request has at most {MAX_NEEDS} needs, not {}", self.needs.len()));
        }
        for (number, need) in self.needs.iter().enumerate() {
            let flag = quoted(need.flag);
            if !(1..=MAX_COUNT).contains(&need.count) {
                return err(format!(
                    "NEED must be 1 to {MAX_COUNT} seats with flag {flag}, not {}",
                    need.count
                ));
            }
            let before = self.needs.get(..number).unwrap_or_default();
            if before.iter().any(|other| other.flag == need.flag) {
                return err(format!("flag {flag} is needed twice"));
            }
            if self.flags.contains(&need.flag) {
                return err(format!("flag {flag} is in NEED and in FLAGS: only NEED counts its seats"));
            }
        }
        let needed: i64 = self.needs.iter().map(|need| need.count).sum();
        if needed > self.count {
            return err(format!("a party of {} cannot need {needed} seats with flags", self.count));
        }
        Ok(())
    }
}
