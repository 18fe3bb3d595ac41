//! `SEAT.PICK ... ORPHANS FORBID`: picked seats that leave a single free seat are refused.

use crate::seat::bits::{self, Bits};
use crate::seat::kind::Kind;
use crate::seat::plan::PickOrphans;
use crate::seat::request::Pick;
use crate::seat::state::{Show, Strip};
use crate::seat::venue::Seat;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;

/// Whether picked seats must leave no single seat.
pub(super) fn forbids_orphans(show: &Show, pick: &Pick<'_>) -> bool {
    pick.orphans.unwrap_or(show.limits.pick_orphans) == PickOrphans::Forbid
}

/// Refuses seats (free, in ascending order) after which more single seats are free than before. Only seats without flags
/// count: other requests take no others. With a block, only its seats count. O(seats words of their rows); with a block
/// O(positions of their rows).
pub(super) fn check_orphans(show: &Show, picked: &[Seat], from: Option<u32>) -> Result<(), Refusal> {
    let mut strips: Vec<(u32, u32)> = picked.iter().filter_map(|&seat| show.strip_of(seat)).collect();
    strips.sort_unstable();
    strips.dedup();
    let (mut before, mut after, mut left_alone) = (0, 0, None);
    for (bucket, strip) in strips {
        let strip = show.strip(bucket, strip).filter(|strip| !show.venue.is_standing(strip.row));
        let Some(strip) = strip else { continue };
        let base = show.venue.base(strip.row);
        let mut free = match from {
            None => show.takeable(strip, Kind::default()),
            Some(block) => available(show, strip, block),
        };
        let alone: Vec<usize> = single_seats(&free).collect();
        let row = show.venue.positions_of(strip.row);
        for &seat in picked.iter().filter(|seat| row.contains(seat)) {
            bits::put(&mut free, (seat - base) as usize, false);
        }
        before += alone.len();
        after += single_seats(&free).count();
        let new = single_seats(&free).find(|position| !alone.contains(position));
        left_alone = left_alone.or(new.map(|position| base + position as Seat));
    }
    match left_alone {
        Some(seat) if after > before => {
            let id = show.venue.id(seat);
            refuse(Code::Limit, format!("seat {} would stay alone; ORPHANS ALLOW permits it", quoted(&id)))
        }
        _ => Ok(()),
    }
}

/// The seats of a strip without flags that are blocked in a block.
fn available(show: &Show, strip: Strip, block: u32) -> Bits {
    let (layout, base, seats) =
        (show.venue.layout(strip.row), show.venue.base(strip.row), show.seats_of(strip));
    let mut free: Bits = show.takeable(strip, Kind::default()).iter().map(|_| 0).collect();
    for position in seats.ones() {
        let seat = base + position as Seat;
        if layout.flags_at(position) == 0 && show.is_available(seat, Some(block)) {
            bits::put(&mut free, position, true);
        }
    }
    free
}

/// Positions of the runs of one seat.
fn single_seats(free: &Bits) -> impl Iterator<Item = usize> {
    bits::runs(free).filter(|&(_, len)| len == 1).map(|(start, _)| start)
}
