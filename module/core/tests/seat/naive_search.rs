//! Best seating as one would write it in an afternoon: every search is a loop over all seats.

use super::naive::{Naive, Outcome, Place, Seat, State, Wish};
use allot_core::seat::plan::Rule;
use allot_core::seat::request::{Adjacent, Orphans};
use std::collections::BTreeMap;

impl Naive {
    /// The seats that a wish gets. The seats of a replaced hold count as free, and with `true` may not be taken again.
    pub(super) fn search(&self, wish: &Wish, replace: Option<(&[u8], bool)>) -> Outcome {
        let named = |name: &String| self.blocks.iter().find(|block| block.name == *name);
        let block = wish.from.as_ref().map(named);
        let Some(block) = block.map_or(Some(None), |found| found.map(|block| Some(block.number))) else {
            return Outcome::TooFew;
        };
        let look = Look { show: self, wish, replace, kind: None, block };
        let all: Vec<usize> = (0..self.areas.len()).collect();
        if !look.enough(&all) {
            return Outcome::TooFew;
        }
        let seats = match wish.adjacent {
            Adjacent::Ignore => Some(look.by_kind(Look::in_seat_order)),
            Adjacent::Prefer if wish.orphans == Orphans::Forbid => look.together(),
            Adjacent::Prefer => look.together().or_else(|| Some(look.scattered())),
            Adjacent::Require => look.together(),
            Adjacent::Area => look.area_first(),
        };
        match seats {
            None => Outcome::NotAdjacent,
            Some(mut places) => {
                places.sort_unstable();
                Outcome::Seats(places.into_iter().map(|place| self.seat(place).id.clone()).collect())
            }
        }
    }
}

struct Look<'a> {
    show: &'a Naive,
    wish: &'a Wish,
    replace: Option<(&'a [u8], bool)>,
    /// Only seats of this kind.
    kind: Option<usize>,
    /// The block whose seats are wanted.
    block: Option<usize>,
}

impl Look<'_> {
    /// The kind of a seat, if the request may take the seat.
    fn kind_of(&self, seat: &Seat) -> Option<usize> {
        let beyond: Vec<&String> = seat.flags.iter().filter(|flag| !self.wish.flags.contains(flag)).collect();
        match beyond[..] {
            [] => Some(0),
            [flag] => self.wish.needs.iter().position(|(_, needed)| needed == flag).map(|need| need + 1),
            _ => None,
        }
    }

    /// Whether these areas together have enough seats of each kind.
    fn enough(&self, areas: &[usize]) -> bool {
        self.wish.kinds().iter().enumerate().all(|(kind, &count)| {
            let look = Look { kind: Some(kind), ..*self };
            areas.iter().map(|&area| look.free_in(area)).sum::<usize>() >= count
        })
    }

    /// The seats of each kind on its own.
    fn by_kind(&self, seats: impl Fn(&Self, usize) -> Vec<Place>) -> Vec<Place> {
        let kinds = self.wish.kinds().into_iter().enumerate().filter(|&(_, count)| count > 0);
        kinds.flat_map(|(kind, count)| seats(&Look { kind: Some(kind), ..*self }, count)).collect()
    }

    fn wanted(&self, (a, r, p): Place) -> Option<&Seat> {
        let seat = self.show.areas[a].rows[r].get(p)?.as_ref()?;
        let tier = self.wish.tier.as_ref().is_none_or(|tier| *tier == seat.tier);
        let area = self.wish.areas.is_empty() || self.wish.areas.contains(&self.show.areas[a].id);
        let kind = self.kind_of(seat);
        let flags = kind.is_some() && (self.kind.is_none() || kind == self.kind);
        (tier && area && flags).then_some(seat)
    }

    fn is_replaced(&self, seat: &Seat) -> bool {
        self.replace
            .is_some_and(|(token, _)| seat.state == State::Held(token.to_vec()) && seat.block == self.block)
    }

    /// Free, or as if it were.
    fn free(&self, place: Place) -> bool {
        self.wanted(place).is_some_and(|seat| seat.is_available(self.block) || self.is_replaced(seat))
    }

    fn takeable(&self, place: Place) -> bool {
        self.free(place)
            && self
                .wanted(place)
                .is_some_and(|seat| !self.is_replaced(seat) || self.replace.is_some_and(|(_, other)| !other))
    }

    fn free_in(&self, area: usize) -> usize {
        self.show.places().filter(|&place| place.0 == area && self.takeable(place)).count()
    }

    fn tier(&self, place: Place) -> &str {
        &self.show.seat(place).tier
    }

    fn is_window(&self, (a, r, s): Place, n: usize) -> bool {
        (s..s + n).all(|p| self.takeable((a, r, p)) && self.tier((a, r, p)) == self.tier((a, r, s)))
    }

    /// Whether a run has as many seats of each kind as the party needs.
    fn fits(&self, (a, r, s): Place, n: usize) -> bool {
        self.wish.kinds().iter().enumerate().all(|(kind, &count)| {
            let of_kind = |&p: &usize| self.kind_of(self.show.seat((a, r, p))) == Some(kind);
            (s..s + n).filter(of_kind).count() == count
        })
    }

    fn strands(&self, (a, r, s): Place, n: usize) -> bool {
        let tier = self.tier((a, r, s)).to_owned();
        let same = |p: usize| self.free((a, r, p)) && self.tier((a, r, p)) == tier;
        let left = (0..s).rev().take_while(|&p| same(p)).count();
        let right = (s + n..s + n + 2).take_while(|&p| same(p)).count();
        left == 1 || right == 1
    }

    fn key(&self, (a, r, s): Place, n: usize) -> (usize, usize) {
        let row = self.show.areas[a].rows[r].len();
        match self.show.areas[a].rule {
            Rule::Ltr => (s, 0),
            Rule::Rtl => (row - s, 0),
            Rule::Center => ((2 * s + n).abs_diff(row), s),
        }
    }

    fn best_run(&self, area: usize, clean: bool) -> Option<Vec<Place>> {
        let n = self.wish.count;
        if self.show.areas[area].standing {
            return self.enough(&[area]).then(|| self.first_places(area, n));
        }
        (0..self.show.areas[area].rows.len()).find_map(|r| {
            let row = self.show.areas[area].rows[r].len();
            let windows = (0..row).map(|s| (area, r, s)).filter(|&w| self.is_window(w, n) && self.fits(w, n));
            let best = windows.filter(|&w| !clean || !self.strands(w, n)).min_by_key(|&w| self.key(w, n))?;
            Some((best.2..best.2 + n).map(|p| (area, r, p)).collect())
        })
    }

    fn has_run(&self, area: usize) -> bool {
        self.best_run(area, self.wish.orphans == Orphans::Forbid).is_some()
    }

    fn seat_area(&self, area: usize) -> Option<Vec<Place>> {
        match self.wish.orphans {
            Orphans::Avoid => self.best_run(area, true).or_else(|| self.best_run(area, false)),
            Orphans::Allow => self.best_run(area, false),
            Orphans::Forbid => self.best_run(area, true),
        }
    }

    /// Areas by level, each level in plan order.
    fn levels(&self) -> Vec<Vec<usize>> {
        let mut levels: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (number, area) in self.show.areas.iter().enumerate() {
            levels.entry(area.priority).or_default().push(number);
        }
        levels.into_values().collect()
    }

    fn whose_turn(&self, level: &[usize], can: impl Fn(usize) -> bool) -> Option<usize> {
        let last = |area: usize| self.show.turns.get(&(self.wish.tier.clone(), area)).copied().unwrap_or(0);
        level.iter().copied().filter(|&area| can(area)).min_by_key(|&area| (last(area), area))
    }

    fn together(&self) -> Option<Vec<Place>> {
        let level = self.levels().into_iter().find(|level| level.iter().any(|&area| self.has_run(area)))?;
        self.seat_area(self.whose_turn(&level, |area| self.has_run(area))?)
    }

    fn area_first(&self) -> Option<Vec<Place>> {
        let scatter = self.wish.orphans != Orphans::Forbid;
        let level = self.levels().into_iter().find(|level| level.iter().any(|&area| self.enough(&[area])));
        let Some(level) = level else {
            return scatter.then(|| self.by_kind(Look::over_areas));
        };
        if let Some(area) = self.whose_turn(&level, |area| self.has_run(area)) {
            return self.seat_area(area);
        }
        let area = self.whose_turn(&level, |area| self.enough(&[area])).unwrap();
        scatter.then(|| self.by_kind(|look, count| look.fewest_groups(area, count)))
    }

    fn scattered(&self) -> Vec<Place> {
        for level in self.levels() {
            if let Some(area) = self.whose_turn(&level, |area| self.enough(&[area])) {
                return self.by_kind(|look, count| look.fewest_groups(area, count));
            }
        }
        self.by_kind(Look::over_areas)
    }

    fn over_areas(&self, count: usize) -> Vec<Place> {
        let mut seats = Vec::new();
        for area in self.levels().into_iter().flatten() {
            let missing = count - seats.len();
            let free = self.free_in(area);
            seats.extend(self.fewest_groups(area, missing.min(free)));
        }
        seats
    }

    fn fewest_groups(&self, area: usize, count: usize) -> Vec<Place> {
        if self.show.areas[area].standing {
            return self.first_places(area, count);
        }
        let mut runs: Vec<(Place, usize)> = Vec::new();
        for (r, row) in self.show.areas[area].rows.iter().enumerate() {
            let mut s = 0;
            while s < row.len() {
                let n =
                    (1..=row.len() - s).take_while(|&n| self.is_window((area, r, s), n)).last().unwrap_or(0);
                if n > 0 {
                    runs.push(((area, r, s), n));
                }
                s += n.max(1);
            }
        }
        runs.sort_by_key(|&(run, n)| (std::cmp::Reverse(n), run.1, self.key(run, n)));
        let mut seats = Vec::new();
        for ((a, r, s), n) in runs {
            let size = n.min(count - seats.len());
            if size > 0 {
                let best = (s..=s + n - size).map(|s| (a, r, s)).min_by_key(|&w| self.key(w, size)).unwrap();
                seats.extend((best.2..best.2 + size).map(|p| (a, r, p)));
            }
        }
        seats
    }

    /// The first places of a standing area.
    fn first_places(&self, area: usize, count: usize) -> Vec<Place> {
        self.show.places().filter(|&p| p.0 == area && self.takeable(p)).take(count).collect()
    }

    fn in_seat_order(&self, count: usize) -> Vec<Place> {
        let mut places = Vec::new();
        for area in self.levels().into_iter().flatten() {
            let mut here: Vec<Place> =
                self.show.places().filter(|&p| p.0 == area && self.takeable(p)).collect();
            here.sort_by_key(|&place| (place.1, self.key(place, 1)));
            places.extend(here);
        }
        places.truncate(count);
        places
    }
}
