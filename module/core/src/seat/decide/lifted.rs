//! Strips whose seats a search does not take from the index: those with seats of a replaced hold, and those of a block.

use super::whole_areas::WholeAreas;
use super::wish::{StripSeats, Wish};
use crate::invariant;
use crate::seat::bits;
use crate::seat::choice::Kind;
use crate::seat::claims::Seats;
use crate::seat::state::Show;
use crate::seat::venue::Seat;

/// A strip whose seats are not only those that the index knows: some are of the replaced hold, and count as free; or the
/// request takes seats of a block.
pub(super) struct Lifted {
    pub(super) bucket: u32,
    pub(super) strip: u32,
    pub(super) seats: StripSeats,
}

/// A seat of a lifted strip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LiftedSeat {
    bucket: u32,
    strip: u32,
    seat: Seat,
    takeable: bool,
}

/// The seats of the lifted strips of a request, by bucket and strip; none for most requests. Only seats of the areas and
/// the tier of the wish. The seats of `replaced` count as free, and may be taken if `again` is set. O(B log B) with B
/// seats of the block.
/// Those of areas that are read as a whole lie in strips of halves.
pub(super) fn lifted_seats(
    show: &Show,
    wish: &Wish,
    replaced: &[Seat],
    again: bool,
    whole: Option<&WholeAreas<'_>>,
) -> Vec<LiftedSeat> {
    let blocked = wish.from.map_or_else(Seats::new, |block| show.blocked_seats(block));
    // The seats of a replaced hold return to their block.
    let replaced = replaced.iter().filter(|&&seat| show.blocks.of(seat) == wish.from);
    let replaced = replaced.map(|&seat| (seat, again));
    let mut seats: Vec<LiftedSeat> = Vec::new();
    for (seat, takeable) in blocked.into_iter().map(|seat| (seat, true)).chain(replaced) {
        let Some((bucket, strip)) = show.strip_of(seat) else {
            invariant!("a seat of a hold lies in a strip");
            continue;
        };
        seats.push(LiftedSeat { bucket, strip, seat, takeable });
    }
    seats.sort_unstable();
    let of_wish = |bucket: u32| {
        let info = show.bucket_at(bucket);
        wish.tier.is_none_or(|tier| tier == info.tier)
            && (wish.areas.is_empty() || wish.areas.contains(&info.area))
    };
    let buckets = seats.chunk_by(|one, other| one.bucket == other.bucket);
    let buckets = buckets.filter(|seats| seats.first().is_some_and(|one| of_wish(one.bucket)));
    let mut seats: Vec<LiftedSeat> = buckets.flatten().copied().collect();
    if let Some(whole) = whole {
        for one in &mut seats {
            (one.bucket, one.strip) = whole.strip_of(one.seat).unwrap_or((one.bucket, one.strip));
        }
        seats.sort_unstable();
    }
    seats
}

/// The lifted strips for seats of this kind, by bucket and strip.
/// `seats_of` has the free ones of a strip.
pub(super) fn lifted_strips(
    show: &Show,
    wish: &Wish,
    kind: Kind,
    seats: &[LiftedSeat],
    seats_of: impl Fn(u32, u32) -> StripSeats,
) -> Vec<Lifted> {
    let mut lifted: Vec<Lifted> = Vec::new();
    for &LiftedSeat { bucket, strip, seat, takeable } in seats {
        if lifted.last().is_none_or(|one| (one.bucket, one.strip) != (bucket, strip)) {
            let mut seats = seats_of(bucket, strip);
            if wish.from.is_some() {
                seats.clear();
            }
            lifted.push(Lifted { bucket, strip, seats });
        }
        let row = show.venue.row_of(seat);
        let position = (seat - show.venue.base(row)) as usize;
        let named = kind.takes(show.venue.layout(row).flags_at(position));
        // A seat of another kind does not count as free for this request.
        if let Some(one) = lifted.last_mut().filter(|_| named) {
            bits::put(&mut one.seats.free, position, true);
            bits::put(&mut one.seats.takeable, position, takeable);
        }
    }
    lifted
}
