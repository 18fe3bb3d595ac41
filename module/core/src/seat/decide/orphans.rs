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
    pick.orphans.unwrap_or(show.limits.pick_orphans) != PickOrphans::Allow
}

/// Refuses seats (free, in ascending order) that leave a single seat in a run from which as many seats could be taken without
/// leaving one. Only seats without flags count: other requests take no others. With a block, only its seats count. O(seats
/// words of their rows); with a block O(positions of their rows).
pub(super) fn check_orphans(show: &Show, picked: &[Seat], from: Option<u32>) -> Result<(), Refusal> {
    let mut strips: Vec<(u32, u32)> = picked.iter().filter_map(|&seat| show.strip_of(seat)).collect();
    strips.sort_unstable();
    strips.dedup();
    for (bucket, strip) in strips {
        let strip = show.strip(bucket, strip).filter(|strip| !show.venue.is_standing(strip.row));
        let Some(strip) = strip else { continue };
        let base = show.venue.base(strip.row);
        let mut before = match from {
            None => show.takeable(strip, Kind::default()),
            Some(block) => available(show, strip, block),
        };
        show.hide_queued(strip.row, &mut before);
        let mut after = before.clone();
        let row = show.venue.positions_of(strip.row);
        for &seat in picked.iter().filter(|seat| row.contains(seat)) {
            bits::put(&mut after, (seat - base) as usize, false);
        }
        for (start, len) in bits::runs(&before) {
            let left = bits::count_in(&after, start..start + len);
            // One seat of a run that has one more than are picked stays alone, whichever it is.
            if left <= 1 || left == len {
                continue;
            }
            let inside = |at: &usize| (start..start + len).contains(at);
            if let Some(alone) = single_seats(&after).find(inside) {
                let id = quoted(show.venue.id(base + alone as Seat));
                let text = format!("seat {id} would stay alone; ORPHANS ALLOW permits it");
                return refuse(Code::Limit, text);
            }
        }
    }
    Ok(())
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
