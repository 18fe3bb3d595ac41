//! Best seating beside a hold: seats that are added to a cart.

use super::frame::Line;
use super::near::NEAR;
use super::rows::{Rows, RunNeed};
use super::search::{Found, Search};
use super::split::Group;
use crate::seat::bits;
use crate::seat::claims::Seats;
use crate::seat::places::POSITION;
use crate::seat::venue::{Row, Seat};
use crate::seat::wish::{Adjacent, Orphans};
use std::cmp::Reverse;
use std::ops::Range;

/// A part of an area: how far back its rows are, and places across the area.
#[derive(Clone, Copy)]
struct Part {
    front: i64,
    back: i64,
    left: i64,
    right: i64,
}

impl Part {
    /// The part in which these seats of a row lie.
    fn of(line: &Line<'_>, start: usize, size: usize) -> Self {
        let span = line.span(start, size);
        Self {
            front: span.depth,
            back: span.depth,
            left: span.left,
            right: span.left + size as i64 * POSITION,
        }
    }

    /// The smallest part with both.
    fn with(self, other: Self) -> Self {
        Self {
            front: self.front.min(other.front),
            back: self.back.max(other.back),
            left: self.left.min(other.left),
            right: self.right.max(other.right),
        }
    }

    /// Its width, and its depth.
    fn size(self) -> i64 {
        self.right - self.left + self.back - self.front
    }
}

impl Search<'_> {
    /// As `run`, for seats that are added to these (in ascending order): in the run next to them, else near them in the
    /// same area, else as if they were not there. O(rows of the area log rows) at worst.
    pub(in crate::seat) fn run_beside(&self, cart: &[Seat]) -> Found {
        let candidates = self.rows.groups(self.wish);
        if self.wish.adjacent == Adjacent::Ignore || !self.has_enough(&candidates) {
            return self.run();
        }
        let near = || self.rows.areas(&candidates).find_map(|area| self.near_in(area, cart));
        match self.next_to(cart).or_else(near) {
            Some(mut seats) => {
                seats.sort_unstable();
                Found::Seats(seats)
            }
            None => self.run(),
        }
    }

    /// Seats that continue a group of the cart on one side, or on both.
    fn next_to(&self, cart: &[Seat]) -> Option<Seats> {
        if !self.parts.is_empty() {
            return None;
        }
        let venue = &self.rows.show.venue;
        let in_rows = cart.iter().copied().filter(|&seat| !venue.is_standing(venue.row_of(seat)));
        let mut groups: Vec<Range<Seat>> = Vec::new();
        for seat in in_rows {
            match groups.last_mut() {
                Some(group) if group.end == seat && venue.row_of(group.start) == venue.row_of(seat) => {
                    group.end += 1;
                }
                _ => groups.push(seat..seat + 1),
            }
        }
        let continued = |&clean: &bool| groups.iter().find_map(|group| self.around(group.clone(), clean));
        self.clean_or_not().iter().find_map(continued)
    }

    /// The best seats around a group, by the order rule for the group that they make together; if `clean`, of those that
    /// strand no seat.
    fn around(&self, group: Range<Seat>, clean: bool) -> Option<Seats> {
        let (count, venue) = (self.count, &self.rows.show.venue);
        let row = venue.row_of(group.start);
        let (base, (len, _)) = (venue.base(row), self.rows.shape(row));
        let left = self.takeable_run((base..group.start).rev());
        let right = self.takeable_run(group.end..base + len as Seat);
        // Either is asked for only if seats on that side are taken.
        let tier = |run: usize, seat: Seat| if run > 0 { venue.tier_of(seat) } else { None };
        let tiers = [tier(left, group.start.wrapping_sub(1)), tier(right, group.end)];
        let strands = |run: usize, taken: usize| clean && run - taken == 1;
        let fits = |&on_left: &usize| {
            let on_right = count - on_left;
            let of_one_tier = on_left == 0 || on_right == 0 || matches!(tiers, [one, other] if one == other);
            of_one_tier
                && on_left <= left
                && on_right <= right
                && !strands(left, on_left)
                && !strands(right, on_right)
        };
        let size = group.len() + count;
        let start = |on_left: usize| (group.start - base) as usize - on_left;
        let starts = (0..=count).filter(fits).map(start);
        let preferred = self.preferred_in(row);
        let worth =
            |&start: &usize| (Reverse(preferred.count(start, size)), self.rows.order(row, start, size));
        let best = starts.min_by_key(worth)?;
        let seats = self.rows.window(row, best, size);
        Some(seats.into_iter().filter(|seat| !group.contains(seat)).collect())
    }

    /// How many of these seats of a row the request may take, up to the first that it may not, or of another tier: two more
    /// than wanted at most.
    fn takeable_run(&self, seats: impl Iterator<Item = Seat>) -> usize {
        let (show, wish) = (self.rows.show, self.wish);
        let mut tier = wish.tier;
        let takeable = |&seat: &Seat| {
            let area = show.venue.area_of(show.venue.row_of(seat));
            let of_tier = show.venue.tier_of(seat).is_some_and(|own| *tier.get_or_insert(own) == own);
            of_tier
                && show.is_available(seat, wish.from)
                && self.also.is_none_or(|also| also.has_free(&show.venue, seat))
                && wish.kind().takes(show.venue.flags_of(seat))
                && (wish.areas.is_empty() || wish.areas.contains(&area))
        };
        seats.take(self.count + 2).take_while(takeable).count()
    }

    /// Seats in an area in which the cart has some, so that all lie in the smallest part: side by side, or a party of up
    /// to 10 in few groups.
    fn near_in(&self, area: &[u32], cart: &[Seat]) -> Option<Seats> {
        let venue = &self.rows.show.venue;
        let own = self.rows.area_of(*area.first()?);
        let places = cart.iter().map(|&seat| (venue.row_of(seat), seat));
        let places = places.filter(|&(row, _)| venue.area_of(row) == own);
        let of_seat = |(row, seat)| Part::of(&self.rows.line(row), (seat - venue.base(row)) as usize, 1);
        let mut part = places.map(of_seat).reduce(Part::with)?;
        if !self.has_enough(area) {
            return None;
        }
        if self.rows.is_standing(area) {
            return Some(self.first_seats(area));
        }
        let may_split = self.wish.adjacent != Adjacent::Require && self.wish.orphans != Orphans::Forbid;
        if !may_split && !self.parts.is_empty() {
            return None;
        }
        let mut seats = Seats::new();
        for (count, rows) in self.kinds(area) {
            let (mut missing, mut size) = (count, count);
            while missing > 0 {
                match rows.nearest(area, size, self.wish.orphans == Orphans::Forbid, &seats, part) {
                    Some((row, start)) => {
                        part = part.with(Part::of(&rows.line(row), start, size));
                        seats.extend(rows.window(row, start, size));
                        missing -= size;
                        size = size.min(missing);
                    }
                    None if size > 1 && may_split && self.count <= NEAR => size -= 1,
                    None => return None,
                }
            }
        }
        Some(seats)
    }
}

impl Rows<'_> {
    /// The row and the first position of the run of `size` seats that lies with `part` in the smallest part of the area;
    /// of equal ones the best. The seats of `taken` are not free.
    fn nearest(
        &self,
        area: &[u32],
        size: usize,
        clean: bool,
        taken: &[Seat],
        part: Part,
    ) -> Option<(Row, usize)> {
        let need = if clean { RunNeed::Clean(size) } else { RunNeed::Run(size) };
        let mut best: Option<(i64, Group)> = None;
        for (row, places) in self.walk(area, need) {
            let line = self.line(row);
            if let Line::Ranked { depth, .. } = line {
                let least = part.with(Part { front: depth, back: depth, ..part }).size();
                if best.as_ref().is_some_and(|(size, _)| *size <= least) {
                    continue;
                }
            }
            let base = self.show.venue.base(row);
            for (group, place) in places {
                let mut seats = self.seats(group, place);
                let of_row = |seat: &&Seat| self.show.venue.row_of(**seat) == row;
                for &seat in taken.iter().filter(of_row) {
                    bits::put(&mut seats.takeable, (seat - base) as usize, false);
                }
                let found = bits::ones(&seats.windows(size, clean))
                    .map(|start| {
                        (part.with(Part::of(&line, start, size)).size(), self.group_at(row, start, size))
                    })
                    .min();
                best = best.into_iter().chain(found).min();
            }
        }
        best.map(|(_, (row, .., start))| (row, start))
    }
}
