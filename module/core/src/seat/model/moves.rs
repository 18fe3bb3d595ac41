//! Where the seats of a venue are after its plan has changed. A seat is recognised by its id.

use super::venue::{Row, Seat, Venue};
use crate::invariant;

/// The places of the seats of an old venue in a new one.
pub(in crate::seat) struct Moves<'a> {
    old: &'a Venue,
    /// By old row.
    rows: Vec<RowMove>,
    /// The new bit of each old flag, 0 for a flag that no seat has any more.
    flags: Vec<u64>,
}

/// The place of a row.
enum RowMove {
    /// The first `len` positions of the row follow one another from position `base` on; the others are gone.
    Together { base: Seat, len: u16 },
    /// The place of each position; `None` for a break, and for a seat that is gone.
    Apart(Box<[Option<Seat>]>),
}

impl<'a> Moves<'a> {
    /// The moves from `old` to `new`; `None` if an area of `old` is missing in `new`, has another place in the plan, or is
    /// a standing area in only one of them. O(seats).
    pub(in crate::seat) fn between(old: &'a Venue, new: &Venue) -> Option<Self> {
        let mut areas = old.areas().iter().enumerate();
        let kept = areas.all(|(number, area)| {
            new.areas()
                .get(number)
                .is_some_and(|other| (&other.id, other.standing) == (&area.id, area.standing))
        });
        if !kept {
            return None;
        }
        let rows = old.rows().map(|row| row_move(old, new, row)).collect();
        let flags = old.flag_names(old.all_flags()).map(|name| new.flag_bit(name.as_bytes())).collect();
        Some(Self { old, rows, flags })
    }

    /// The new number of a seat of the old venue; `None` if the seat is gone. O(1).
    pub(in crate::seat) fn of(&self, seat: Seat) -> Option<Seat> {
        let row = self.old.row_of(seat);
        let position = seat - self.old.base(row);
        match self.rows.get(row as usize) {
            Some(RowMove::Together { base, len }) => (position < Seat::from(*len)).then(|| base + position),
            Some(RowMove::Apart(seats)) => seats.get(position as usize).copied().flatten(),
            None => {
                invariant!("every row of the old venue has a place");
                None
            }
        }
    }

    /// Whether every flag keeps its bit.
    pub(in crate::seat) fn keep_flags(&self) -> bool {
        self.flags.iter().enumerate().all(|(number, &bit)| bit == 1 << number)
    }

    /// These flags with their new bits, without those that no seat has any more.
    pub(in crate::seat) fn flags(&self, set: u64) -> u64 {
        let of_set = self.flags.iter().enumerate().filter(|&(number, _)| set >> number & 1 == 1);
        of_set.fold(0, |union, (_, bit)| union | bit)
    }
}

fn row_move(old: &Venue, new: &Venue, row: Row) -> RowMove {
    let (area, len) = (old.area_of(row), old.layout(row).len);
    if old.is_standing(row) {
        // The rows of a standing area are equally long, so that places keep their numbers.
        let rows = &new.area(area).rows;
        let place = rows.start + (row - old.area(area).rows.start);
        if !rows.contains(&place) {
            return RowMove::Together { base: 0, len: 0 };
        }
        return RowMove::Together { base: new.base(place), len: len.min(new.layout(place).len) };
    }
    let of_first = old.seats_of(row).next().and_then(|seat| new.find(old.id(seat).as_bytes()));
    match of_first.map(|seat| new.row_of(seat)) {
        Some(other) if have_same_ids(old, row, new, other) => {
            RowMove::Together { base: new.base(other), len }
        }
        _ => {
            let first = old.base(row);
            let place = |seat: Seat| if old.is_seat(seat) { new.find(old.id(seat).as_bytes()) } else { None };
            RowMove::Apart((first..first + Seat::from(len)).map(place).collect())
        }
    }
}

/// Whether two rows have the same seats at the same positions.
fn have_same_ids(old: &Venue, row: Row, new: &Venue, other: Row) -> bool {
    let (one, two) = (old.layout(row), new.layout(other));
    let own_ids = |venue: &'_ Venue, row: Row, len: u16| -> Vec<(Seat, String)> {
        let base = venue.base(row);
        let ids = venue.own_ids.within(base..base + Seat::from(len));
        ids.map(|(seat, id)| (seat - base, id.to_owned())).collect()
    };
    old.area_of(row) == new.area_of(other)
        && old.row_label(row) == new.row_label(other)
        && (one.len, &one.labels) == (two.len, &two.labels)
        && own_ids(old, row, one.len) == own_ids(new, other, two.len)
}
