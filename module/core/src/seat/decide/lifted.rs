//! Strips whose seats a search does not take from the index: those with seats of a replaced hold, and those of a block.

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

/// The lifted strips of a request for seats of this kind, by bucket and strip; none for most requests. The seats of
/// `replaced` count as free, and may be taken if `again` is set.
pub(super) fn lifted_strips(
    show: &Show,
    wish: &Wish,
    kind: Kind,
    replaced: &[Seat],
    again: bool,
) -> Vec<Lifted> {
    let mut lifted: Vec<Lifted> = Vec::new();
    let blocked = wish.from.map_or_else(Seats::new, |block| show.blocked_seats(block));
    // The seats of a replaced hold return to their block.
    let replaced = replaced.iter().filter(|&&seat| show.blocks.of(seat) == wish.from);
    let replaced = replaced.map(|&seat| (seat, again));
    let mut seats: Vec<(u32, u32, Seat, bool)> = Vec::new();
    for (seat, takeable) in blocked.into_iter().map(|seat| (seat, true)).chain(replaced) {
        let Some((bucket, strip)) = show.strip_of(seat) else {
            invariant!("a seat of a hold lies in a strip");
            continue;
        };
        seats.push((bucket, strip, seat, takeable));
    }
    seats.sort_unstable();
    for (bucket, strip, seat, takeable) in seats {
        if lifted.last().is_none_or(|one| (one.bucket, one.strip) != (bucket, strip)) {
            let mut seats = StripSeats::of(show, kind, bucket, strip);
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
