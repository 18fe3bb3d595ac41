//! Best seating: chooses the seats of a hold (steps 4 to 9 of "Best seating, exactly" in docs/seats.md).

use super::also::Also;
use super::near::{NEAR, groups_near};
use super::rows::{Order, Rows, RunNeed, Sees};
use crate::invariant;
use crate::seat::bits::Bits;
use crate::seat::claims::Seats;
use crate::seat::plan::Rule;
use crate::seat::state::Show;
use crate::seat::venue::{Row, Seat};
use crate::seat::wish::{Adjacent, NumberedWish, Orphans, Part};
use std::cmp::Reverse;

/// One search: the request, and the rows that it reads.
pub(in crate::seat) struct Search<'a> {
    pub(super) wish: &'a NumberedWish,
    /// Seats wanted.
    pub(super) count: usize,
    /// The rows with all seats that the request may take.
    pub(super) rows: Rows<'a>,
    /// For a party with needs: the kinds of its seats, and the rows with these; first the seats without a needed flag.
    /// Empty for other requests.
    pub(super) parts: Vec<(Part, Rows<'a>)>,
    /// The other shows of a request for several.
    pub(super) also: Option<&'a Also<'a>>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::seat) enum Found {
    /// The seats, in ascending order.
    Seats(Seats),
    /// Fewer seats are free than requested.
    TooFew,
    /// Enough seats are free, but they are not adjacent.
    NotAdjacent,
}

impl<'a> Search<'a> {
    /// A search over the show; the seats of `replaced` count as free, and may be taken if `again` is set. Queued seats are
    /// not found.
    pub(in crate::seat) fn new(
        show: &'a Show,
        wish: &'a NumberedWish,
        replaced: &[Seat],
        again: bool,
    ) -> Self {
        let (rows, parts) = Rows::of(show, wish, &Sees { replaced, again, queued: false });
        Self { wish, count: wish.count as usize, rows, parts, also: None }
    }

    /// A search for somebody who waits, who may have queued seats.
    pub(in crate::seat) fn for_waiter(show: &'a Show, wish: &'a NumberedWish) -> Self {
        let (rows, parts) = Rows::of(show, wish, &Sees { queued: true, ..Sees::default() });
        Self { wish, count: wish.count as usize, rows, parts, also: None }
    }

    /// As `for_waiter`, for a search that only looks at single rows of buckets; with `all_seats`, as if every seat were free.
    pub(super) fn one_by_one(show: &'a Show, wish: &'a NumberedWish, all_seats: bool) -> Self {
        let (rows, parts) = Rows::one_by_one(show, wish, all_seats);
        Self { wish, count: wish.count as usize, rows, parts, also: None }
    }

    /// The search for seats that the other shows have free as well. O(rows of all shows); O(seats of all shows) for shows
    /// in which seats have other numbers, or with a block.
    pub(in crate::seat) fn within(mut self, also: &'a Also<'a>) -> Self {
        let venue = &self.rows.show.venue;
        let parts = self.parts.iter_mut().map(|(_, rows)| rows);
        for rows in std::iter::once(&mut self.rows).chain(parts) {
            if also.has_shows() {
                rows.restrict(self.wish, |row, seats| also.keep_free(venue, row, seats));
            }
        }
        self.also = Some(also);
        self
    }

    /// Runs the search. O(count log rows + areas).
    pub(in crate::seat) fn run(&self) -> Found {
        let candidates = self.rows.groups(self.wish);
        if !self.has_enough(&candidates) {
            return Found::TooFew;
        }
        let seats = match (self.wish.adjacent, self.wish.orphans) {
            (Adjacent::Ignore, _) => Some(self.first_seats(&candidates)),
            (Adjacent::Area, _) => self.best_area_first(&candidates),
            (Adjacent::Prefer, Orphans::Avoid | Orphans::Allow) => {
                Some(self.together(&candidates).unwrap_or_else(|| self.scattered(&candidates)))
            }
            (Adjacent::Prefer, Orphans::Forbid) | (Adjacent::Require, _) => self.together(&candidates),
        };
        let Some(mut seats) = seats else { return Found::NotAdjacent };
        seats.sort_unstable();
        let distinct = seats.is_sorted_by(|a, b| a < b);
        if !invariant!(seats.len() == self.count && distinct, "a request gets as many seats as it asked for")
        {
            return Found::TooFew;
        }
        Found::Seats(seats)
    }

    /// Step 3, PREFER and REQUIRE: the best run in the best level that has one.
    fn together(&self, candidates: &[u32]) -> Option<Seats> {
        let need = self.need();
        self.rows.levels(candidates).find_map(|level| {
            let area = self.whose_turn(level, |area| self.seats_together(area, need))?;
            self.best_run(area)
        })
    }

    /// The kind of run that seats the group together.
    fn need(&self) -> RunNeed {
        match self.wish.orphans {
            Orphans::Forbid => RunNeed::Clean(self.count),
            Orphans::Avoid | Orphans::Allow => RunNeed::Run(self.count),
        }
    }

    /// Whether the runs to look for must strand no seat, in the order in which they are looked for.
    pub(super) fn clean_or_not(&self) -> &'static [bool] {
        match self.wish.orphans {
            Orphans::Avoid => &[true, false],
            Orphans::Allow => &[false],
            Orphans::Forbid => &[true],
        }
    }

    /// Step 3, AREA: the best level in which an area has enough seats, and there an area with a run, if possible.
    fn best_area_first(&self, candidates: &[u32]) -> Option<Seats> {
        let need = self.need();
        let may_scatter = self.wish.orphans != Orphans::Forbid;
        let mut levels = self.rows.levels(candidates);
        let Some(level) = levels.find(|level| self.rows.areas(level).any(|area| self.has_enough(area)))
        else {
            return may_scatter.then(|| self.scattered_over(candidates));
        };
        if let Some(area) = self.whose_turn(level, |area| self.seats_together(area, need)) {
            return self.best_run(area);
        }
        let area = self.whose_turn(level, |area| self.has_enough(area)).filter(|_| may_scatter)?;
        Some(self.scattered_in(area))
    }

    /// Step 9: in one area, if one seats the party in as few groups as all areas together; otherwise over several. Of the
    /// areas of a level that do, in one whose smallest group is as large as possible.
    fn scattered(&self, candidates: &[u32]) -> Seats {
        let split = if self.parts.is_empty() { self.rows.split(candidates, self.count) } else { None };
        // The size of the smallest group in an area that can seat the party; 0 for a party with needs.
        let least = |area: &[u32]| match &split {
            _ if !self.has_enough(area) => None,
            None => Some(0),
            Some(all) => {
                let own = self.rows.split(area, self.count)?;
                (own.longest.len() == all.longest.len()).then_some(own.least)
            }
        };
        let one = self.rows.levels(candidates).find_map(|level| {
            let areas = self.rows.areas(level).filter_map(|area| Some((least(area)?, area)));
            areas.min_by_key(|&(least, area)| (Reverse(least), self.last_turn(area)))
        });
        match (one, split) {
            (Some((_, area)), _) => self.scattered_in(area),
            (None, Some(split)) => self.rows.in_order(candidates, split),
            (None, None) => self.scattered_over(candidates),
        }
    }

    /// Step 4: among the areas of a level that can serve the request, the one served longest ago.
    fn whose_turn<'b>(&'b self, level: &'b [u32], can: impl Fn(&[u32]) -> bool) -> Option<&'b [u32]> {
        self.rows.areas(level).filter(|area| can(area)).min_by_key(|area| self.last_turn(area))
    }

    fn last_turn(&self, area: &[u32]) -> u64 {
        let show = self.rows.show;
        let turn = area.first().and_then(|&group| {
            let area = self.rows.area_of(group);
            match (self.wish.tier, self.rows.bucket(group)) {
                (None, _) => show.area_turns.get(area as usize).copied(),
                (Some(_), Some(bucket)) => Some(bucket.turn),
                (Some(tier), None) => {
                    let mut buckets = show.buckets_of(area).map(|bucket| show.bucket_at(bucket));
                    buckets.find(|bucket| bucket.tier == tier).map(|bucket| bucket.turn)
                }
            }
        });
        invariant!(turn.is_some(), "an area of the candidates has a bucket and a turn");
        turn.unwrap_or(0)
    }

    /// Step 4: the best run of an area, over all its groups.
    fn best_run(&self, area: &[u32]) -> Option<Seats> {
        if self.rows.is_standing(area) {
            return self.has_enough(area).then(|| self.first_seats(area));
        }
        let prefers = self.wish.preferred != 0 || self.also.is_some_and(Also::has_beside);
        let run = |&clean: &bool| {
            if prefers { self.preferred_run(area, clean) } else { self.run_in(area, clean) }
        };
        let (row, start) = self.clean_or_not().iter().find_map(run)?;
        Some(self.rows.window(row, start, self.count))
    }

    /// The row and the first position of the best run of an area; if `clean`, of those that strand no seat. O(log rows) for
    /// each group; of a party with needs for each row that has both a long enough run and a seat of every kind; with the
    /// rule `focus` for each row that has a run and comes nearer than the best.
    pub(super) fn run_in(&self, area: &[u32], clean: bool) -> Option<(Row, usize)> {
        let mut best: Option<(Order, usize)> = None;
        for &group in area {
            let mut from = 0;
            while let Some(place) = self.next_place(group, from, clean) {
                from = place + 1;
                let row = self.rows.row(group, place);
                if best.is_some_and(|(best, _)| best < self.rows.least_order(row)) {
                    break;
                }
                let starts = self.starts_at(group, place, clean);
                let Some(start) = self.rows.best_start(row, &starts, self.count) else {
                    invariant!(!self.parts.is_empty(), "a row of the index has the run");
                    continue;
                };
                let found = (self.rows.order(row, start, self.count), start);
                best = best.into_iter().chain([found]).min();
                if self.rows.shape(row).1 != Rule::Focus {
                    break;
                }
            }
        }
        best.map(|((_, row, _), start)| (row, start))
    }

    /// The first place of a group from `from` on that may have a run for the request.
    pub(super) fn next_place(&self, group: u32, from: u32, clean: bool) -> Option<u32> {
        if !self.parts.is_empty() {
            return self.place_with_all_kinds(group, from);
        }
        self.rows.first(
            group,
            from,
            if clean { RunNeed::Clean(self.count) } else { RunNeed::Run(self.count) },
        )
    }

    /// The starts of the runs for the request at a place of a group; if `clean`, of those that strand no seat.
    pub(super) fn starts_at(&self, group: u32, place: u32, clean: bool) -> Bits {
        if self.parts.is_empty() {
            self.rows.seats(group, place).windows(self.count, clean)
        } else {
            self.windows_of_party(group, place, clean)
        }
    }

    /// Whether these groups have enough seats for the request, of each kind.
    pub(super) fn has_enough(&self, groups: &[u32]) -> bool {
        self.missing(groups) == 0
    }

    /// Whether an area can seat the request together.
    fn seats_together(&self, area: &[u32], need: RunNeed) -> bool {
        if self.rows.is_standing(area) {
            return self.has_enough(area);
        }
        if self.parts.is_empty() {
            return area.iter().any(|&group| self.rows.has(group, need));
        }
        self.run_in(area, matches!(need, RunNeed::Clean(_))).is_some()
    }

    /// The seats of each kind in as few groups as possible, all in one area.
    fn scattered_in(&self, area: &[u32]) -> Seats {
        let near = if self.count <= NEAR && !self.rows.is_standing(area) {
            groups_near(&self.kinds(area), area)
        } else {
            None
        };
        match near {
            Some(groups) => groups.into_iter().flat_map(|group| self.rows.seats_of_group(group)).collect(),
            None => self.scattered_over(area),
        }
    }

    /// The same, over several areas.
    fn scattered_over(&self, candidates: &[u32]) -> Seats {
        self.of_each_kind(candidates, Rows::fewest_groups)
    }

    /// The first seats of each kind.
    pub(super) fn first_seats(&self, candidates: &[u32]) -> Seats {
        self.of_each_kind(candidates, Rows::in_seat_order)
    }

    /// The seats that are found in these groups for each kind.
    fn of_each_kind(&self, groups: &[u32], seats: impl Fn(&Rows<'a>, &[u32], usize) -> Seats) -> Seats {
        let kinds = self.kinds(groups).into_iter();
        kinds.flat_map(|(count, rows)| seats(rows, groups, count)).collect()
    }
}
