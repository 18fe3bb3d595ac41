//! The other shows of a request for the same seats in several, as the search in the first of them sees them.

use super::rows::StripView;
use crate::seat::bits::{self, Bits};
use crate::seat::state::{Owner, Show};
use crate::seat::venue::{Row, Seat, Venue};

/// What a search must know of other shows.
pub(in crate::seat) struct Also<'a> {
    /// The shows in which the seats must be free as well.
    shows: Vec<Other<'a>>,
    /// The shows in which seats that are taken are preferred.
    beside: Vec<Other<'a>>,
}

/// A show beside the one that is searched.
pub(super) struct Other<'a> {
    pub(super) show: &'a Show,
    /// Whether seats have the same numbers in both.
    pub(super) same: bool,
    /// The block whose seats are wanted here.
    pub(super) from: Option<u32>,
    /// The seats of the replaced hold, which count as free.
    pub(super) lifted: &'a [Seat],
    /// Whether they may be taken again.
    pub(super) again: bool,
}

impl<'a> Also<'a> {
    /// Seats of a search in a show of this venue must be free in `shows`, and are better if they are taken in `beside`.
    pub(super) fn new(shows: Vec<Other<'a>>, beside: &[&'a Show], venue: &Venue) -> Self {
        Self { shows, beside: beside.iter().map(|show| Other::of(show, venue)).collect() }
    }

    /// For how many shows like the first a search counts, of which the seats of one with other numbers count `by_id` times.
    pub(super) fn weight(&self, by_id: u64) -> u64 {
        let others = self.shows.iter().chain(&self.beside);
        1 + others.map(|other| if other.same { 1 } else { by_id }).sum::<u64>()
    }

    pub(super) fn has_shows(&self) -> bool {
        !self.shows.is_empty()
    }

    pub(super) fn has_beside(&self) -> bool {
        !self.beside.is_empty()
    }

    /// Whether a seat is free in all shows.
    pub(super) fn has_free(&self, venue: &Venue, seat: Seat) -> bool {
        self.shows.iter().all(|other| other.free(venue, seat).0)
    }

    /// The seats of a row that are taken in each of the shows beside; only these `seats` are asked for.
    pub(super) fn taken_beside(&self, venue: &Venue, row: Row, seats: &[u64]) -> Vec<Bits> {
        self.beside.iter().map(|other| other.taken_of(venue, row, seats)).collect()
    }

    /// Leaves those seats of a row that are free in all shows.
    pub(super) fn keep_free(&self, venue: &Venue, row: Row, seats: &mut StripView) {
        for other in &self.shows {
            let free = other.free_of(venue, row, &seats.free);
            let keep = |seats: &mut Bits, free: &[u64]| {
                let free = free.iter().copied().chain(std::iter::repeat(0));
                seats.iter_mut().zip(free).for_each(|(seats, free)| *seats &= free);
            };
            keep(&mut seats.takeable, &free.takeable);
            keep(&mut seats.free, &free.free);
        }
    }
}

impl<'a> Other<'a> {
    /// The show beside one of this venue.
    pub(super) fn of(show: &'a Show, venue: &Venue) -> Self {
        Self { show, same: show.venue.numbers_as(venue), from: None, lifted: &[], again: false }
    }

    /// The number of a seat here; `None` if there is no such seat.
    fn number(&self, venue: &Venue, seat: Seat) -> Option<Seat> {
        if self.same { Some(seat) } else { self.show.venue.find(venue.id(seat).as_bytes()) }
    }

    /// Whether a seat may be taken here, and whether it counts as free.
    fn free(&self, venue: &Venue, seat: Seat) -> (bool, bool) {
        let Some(seat) = self.number(venue, seat) else { return (false, false) };
        let lifted = self.lifted.contains(&seat) && self.show.blocks.of(seat) == self.from;
        let available = self.show.is_available(seat, self.from);
        (available || lifted && self.again, available || lifted)
    }

    /// The seats of a row that are free here; only these `seats` are asked for.
    fn free_of(&self, venue: &Venue, row: Row, seats: &[u64]) -> StripView {
        if self.same && self.from.is_none() && self.lifted.is_empty() {
            return StripView::all(self.show.free_in_row(row));
        }
        let none = Bits::from_elem(0, seats.len());
        let (mut free, base) = (StripView { takeable: none.clone(), free: none }, venue.base(row));
        for position in bits::ones(seats) {
            let (takeable, is_free) = self.free(venue, base + position as Seat);
            bits::put(&mut free.takeable, position, takeable);
            bits::put(&mut free.free, position, is_free);
        }
        free
    }

    /// The seats of a row that are taken here; only these `seats` are asked for.
    fn taken_of(&self, venue: &Venue, row: Row, seats: &[u64]) -> Bits {
        if self.same {
            let free = self.show.free_in_row(row).into_iter().chain(std::iter::repeat(0));
            return seats.iter().zip(free).map(|(seats, free)| seats & !free).collect();
        }
        let (mut taken, base) = (Bits::from_elem(0, seats.len()), venue.base(row));
        for position in bits::ones(seats) {
            let seat = self.number(venue, base + position as Seat);
            let is_taken = seat.is_some_and(|seat| self.show.owner(seat) != Owner::Free);
            bits::put(&mut taken, position, is_taken);
        }
        taken
    }
}
