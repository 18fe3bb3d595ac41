//! What seats that have changed mean for a wish that waits. All other seats did not meet it before, so they are not looked
//! at again: seats side by side lie in a row with a changed seat, and a party that may split needs a number of seats.

use super::rows::candidates;
use super::search::Search;
use crate::seat::bits;
use crate::seat::state::Show;
use crate::seat::venue::{Row, Seat};
use crate::seat::wish::{Adjacent, NumberedWish, Orphans};

/// How many seats that the wish may take must still become free, at least, before it can be met; 0 if it may be met now.
/// Before the seats of `changed` did, it was `missing`. O(changed seats).
pub(super) fn still_missing(show: &Show, wish: &NumberedWish, missing: u32, changed: &[Seat]) -> u32 {
    let forbids = wish.orphans == Orphans::Forbid;
    if wish.from.is_some() {
        return if forbids && !changed.is_empty() { 0 } else { missing };
    }
    let kind = wish.kind();
    let fits = |&seat: &Seat| {
        is_in_areas(show, wish, show.venue.row_of(seat))
            && wish.tier.is_none_or(|tier| show.venue.tier_of(seat) == Some(tier))
            && kind.takes(show.venue.flags_of(seat))
    };
    // The seats of all its rows decide which area comes first.
    if forbids && wish.adjacent == Adjacent::Area {
        return if changed.iter().any(fits) { 0 } else { missing };
    }
    // Seats that others take may help only a wish that forbids orphans.
    let counts = |&seat: &Seat| forbids || show.waiters.is_queued(seat);
    let changed = changed.iter().copied().filter(counts);
    if forbids || wish.adjacent == Adjacent::Require {
        return if has_together(show, wish, changed) { 0 } else { missing };
    }
    let found = changed.filter(fits).take(missing as usize).count() as u32;
    missing - found
}

fn is_in_areas(show: &Show, wish: &NumberedWish, row: Row) -> bool {
    wish.areas.is_empty() || wish.areas.contains(&show.venue.area_of(row))
}

/// Whether one of the rows of these seats seats the party, or a standing area does.
fn has_together(show: &Show, wish: &NumberedWish, changed: impl Iterator<Item = Seat>) -> bool {
    let search = Search::one_by_one(show, wish, false);
    let seats_party = |row: Row, bucket: u32, strip: u32| {
        let info = show.bucket_at(bucket);
        if wish.tier.is_some_and(|tier| tier != info.tier) {
            return false;
        }
        if show.venue.is_standing(row) {
            return wish.needs.is_empty() && info.counts.free >= wish.count;
        }
        search.has_start(bucket, strip)
    };
    let mut last = None;
    let rows = changed.map(|seat| show.venue.row_of(seat));
    let mut rows = rows.filter(|&row| last.replace(row) != Some(row) && is_in_areas(show, wish, row));
    rows.any(|row| show.strips_of(row).iter().any(|&(bucket, strip)| seats_party(row, bucket, strip)))
}

/// Why the show could not meet the wish even if all its seats were free; `None` if it could. O(rows of the wish's tier and
/// areas) if it could not; if it could, O(rows before one that fits).
pub(super) fn why_never(show: &Show, wish: &NumberedWish) -> Option<String> {
    // A row in which the party would strand a seat may be the right one when others have bought in it.
    let wish = &NumberedWish { orphans: Orphans::Allow, ..wish.clone() };
    let (search, buckets) = (Search::one_by_one(show, wish, true), candidates(show, wish));
    if !search.has_enough(&buckets) {
        return Some(format!("the show has fewer than {} seats of the kinds that are wanted", wish.count));
    }
    let seats_party = |&bucket: &u32| {
        let strips = show.bucket_at(bucket).strips.iter().zip(0..);
        strips.into_iter().any(|(strip, place)| {
            if show.venue.is_standing(strip.row) {
                search.has_enough(&[bucket])
            } else {
                search.has_start(bucket, place)
            }
        })
    };
    let is_met = wish.adjacent != Adjacent::Require || buckets.iter().any(seats_party);
    (!is_met).then(|| {
        format!("no row of the show has {} seats side by side of the kinds that are wanted", wish.count)
    })
}

impl Search<'_> {
    /// Whether the row at a place of a bucket seats the party.
    fn has_start(&self, bucket: u32, strip: u32) -> bool {
        let clean = self.wish.orphans == Orphans::Forbid;
        bits::count(&self.starts_at(bucket, strip, clean)) > 0
    }

    /// How many seats that the request may take must become free, at least, before it can be met, if it is not met now;
    /// at least 1.
    pub(super) fn missing_in_all(&self) -> u32 {
        self.missing(&self.rows.groups(self.wish)).max(1) as u32
    }
}
