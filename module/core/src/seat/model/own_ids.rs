//! Ids that shops give their seats themselves. A seat without one has the id `area-row-label`.

use crate::shared::invariant::Checked;
use crate::shared::names::NameIndex;
use crate::{ensure, invariant};
use std::ops::Range;

/// Number of a position of the show.
type Seat = u32;

/// The own ids of a venue, by seat and by id.
///
/// An id takes its text, 8 bytes by seat, and 8 to 19 bytes in the index. A venue without own ids takes nothing.
#[derive(Clone, Debug, Default)]
pub(in crate::seat) struct OwnIds {
    /// The seats, in ascending order.
    seats: Vec<Seat>,
    /// The end of each seat's id in `text`.
    ends: Vec<u32>,
    text: String,
    /// Places in `seats`, by id.
    by_id: NameIndex,
}

impl OwnIds {
    /// Adds the id of a seat that comes after all others, unless another seat has the id. Returns whether it was added.
    pub(in crate::seat) fn push(&mut self, seat: Seat, id: &str) -> bool {
        invariant!(
            self.seats.last().is_none_or(|&last| last < seat),
            "own ids are added in the order of seats"
        );
        if self.find(id.as_bytes()).is_some() {
            return false;
        }
        self.by_id.insert(id.as_bytes(), self.seats.len() as u32);
        self.seats.push(seat);
        self.text.push_str(id);
        // At most 2,000,000 seats with 256 bytes each.
        self.ends.push(self.text.len() as u32);
        true
    }

    /// The seat of that id.
    pub(in crate::seat) fn find(&self, id: &[u8]) -> Option<Seat> {
        let place = self.by_id.find(id, |place| self.id_at(place as usize).as_bytes() == id)?;
        self.seats.get(place as usize).copied()
    }

    /// The own id of a seat, if it has one. O(log own ids).
    pub(in crate::seat) fn of(&self, seat: Seat) -> Option<&str> {
        let place = self.seats.binary_search(&seat).ok()?;
        Some(self.id_at(place))
    }

    /// Whether no seat has an own id.
    pub(in crate::seat) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Whether one of these seats has an own id. O(log own ids).
    pub(in crate::seat) fn has_one_in(&self, seats: Range<Seat>) -> bool {
        self.within(seats).next().is_some()
    }

    /// Those of these seats that have an own id, with their ids, in ascending order. O(log own ids), and O(1) for each.
    pub(in crate::seat) fn within(&self, seats: Range<Seat>) -> impl Iterator<Item = (Seat, &str)> {
        let first = self.seats.partition_point(|&seat| seat < seats.start);
        let rest = self.seats.iter().enumerate().skip(first);
        let inside = rest.take_while(move |&(_, seat)| seats.contains(seat));
        inside.map(|(place, &seat)| (seat, self.id_at(place)))
    }

    /// Seats with their ids, in ascending order.
    pub(in crate::seat) fn iter(&self) -> impl Iterator<Item = (Seat, &str)> {
        self.seats.iter().enumerate().map(|(place, &seat)| (seat, self.id_at(place)))
    }

    /// Gives back memory that the building of the venue reserved.
    pub(in crate::seat) fn shrink(&mut self) {
        self.seats.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.text.shrink_to_fit();
    }

    /// Bytes allocated.
    pub(in crate::seat) fn allocated(&self) -> usize {
        (self.seats.capacity() + self.ends.capacity()) * size_of::<u32>()
            + self.text.capacity()
            + self.by_id.allocated()
    }

    /// Checks seats, texts and index against each other. O(own ids).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::seat) fn check(&self) -> Checked {
        let rising = self.seats.is_sorted_by(|a, b| a < b);
        ensure!(rising, "the seats with own ids are not in ascending order");
        ensure!(self.seats.len() == self.ends.len(), "an own id has no text");
        ensure!(self.ends.is_sorted(), "the texts of own ids overlap");
        let end = self.ends.last().map_or(0, |&end| end as usize);
        ensure!(end == self.text.len(), "the text of the own ids ends at {end}");
        self.by_id
            .check((0..self.seats.len() as u32).map(|place| (place, self.id_at(place as usize).as_bytes())))
    }

    fn id_at(&self, place: usize) -> &str {
        let start =
            place.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |&end| end as usize);
        let id = self.ends.get(place).and_then(|&end| self.text.get(start..end as usize));
        invariant!(id.is_some(), "a seat with an own id has its text");
        id.unwrap_or_default()
    }
}
