//! Best seating as one would write it in an afternoon: every search is a loop over all seats.

use super::naive::{Area, Naive, Outcome, Place, Seat, State, Wish, distance};
use allot_core::seat::plan::Rule;
use allot_core::seat::request::{Adjacent, Orphans};
use std::collections::{BTreeMap, BTreeSet};

impl Naive {
    /// The seats that a wish gets. The seats of a replaced hold count as free, and with `true` may not be taken again.
    pub(super) fn search(&self, wish: &Wish, replace: Option<(&[u8], bool)>) -> Outcome {
        let Some(look) = self.look(wish, replace) else { return Outcome::TooFew };
        let seats = match wish.adjacent {
            Adjacent::Ignore => Some(look.by_kind(&look.all(), Look::in_seat_order)),
            Adjacent::Prefer if wish.orphans == Orphans::Forbid => look.together(),
            Adjacent::Prefer => look.together().or_else(|| Some(look.scattered())),
            Adjacent::Require => look.together(),
            Adjacent::Area => look.area_first(),
        };
        seats.map_or(Outcome::NotAdjacent, |places| self.chosen(places))
    }

    /// The seats that are added to a hold: next to its seats, else near them in the same area, else as usual.
    pub(super) fn search_beside(&self, wish: &Wish, token: &[u8]) -> Outcome {
        let Some(look) = self.look(wish, None) else { return Outcome::TooFew };
        let is_held = |&place: &Place| self.seat(place).state == State::Held(token.to_vec());
        let cart: Vec<Place> = self.places().filter(is_held).collect();
        if wish.adjacent == Adjacent::Ignore {
            return self.search(wish, None);
        }
        let seats = look.next_to(&cart).or_else(|| look.near_cart(&cart));
        seats.map_or_else(|| self.search(wish, None), |places| self.chosen(places))
    }

    fn chosen(&self, mut places: Vec<Place>) -> Outcome {
        places.sort_unstable();
        Outcome::Seats(places.into_iter().map(|place| self.seat(place).id.clone()).collect())
    }

    /// `None` if too few seats are free.
    fn look<'a>(&'a self, wish: &'a Wish, replace: Option<(&'a [u8], bool)>) -> Option<Look<'a>> {
        let named = |name: &String| self.blocks.iter().find(|block| block.name == *name);
        let block = match &wish.from {
            Some(name) => Some(named(name)?.number),
            None => None,
        };
        let look = Look { show: self, wish, replace, kind: None, block };
        look.enough(&look.all()).then_some(look)
    }
}

/// A free run: the order of its area, its first place and its seats, and where it begins across the area.
#[derive(Clone, Debug)]
struct Run {
    order: usize,
    first: Place,
    len: usize,
    left: i64,
}

impl Run {
    /// The seats between two lines across the area.
    fn between(&self, left: i64, right: i64) -> Option<Self> {
        if self.left >= right || self.left + 2 * self.len as i64 <= left {
            return None;
        }
        let inside = |&seat: &usize| {
            let at = self.left + 2 * seat as i64;
            at >= left && at + 2 <= right
        };
        let first = (0..self.len).find(inside)?;
        let len = (first..self.len).filter(inside).count();
        let (a, r, s) = self.first;
        Some(Self { order: self.order, first: (a, r, s + first), len, left: self.left + 2 * first as i64 })
    }
}

/// A group of a party, in the order in which groups are compared: area and row, the larger first, then by distance and order
/// rule.
type Group = ((usize, usize), std::cmp::Reverse<usize>, (u64, usize, usize), Place);

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
        let need = |flag: &String| self.wish.needs.iter().position(|(_, needed)| needed == flag);
        let needed: Vec<usize> = seat.flags.iter().filter_map(need).collect();
        let named = |flag: &String| self.wish.flags.contains(flag) || self.wish.preferred.contains(flag);
        let others = seat.flags.iter().all(|flag| need(flag).is_some() || named(flag));
        match needed[..] {
            _ if !others => None,
            [] => Some(0),
            [need] => Some(need + 1),
            _ => None,
        }
    }

    /// Whether these areas together have enough seats of each kind.
    fn enough(&self, areas: &[usize]) -> bool {
        let parts = self.wish.parts().into_iter().zip(self.free_of_kinds(areas));
        parts.clone().all(|((least, _), free)| free >= least)
            && parts.map(|((_, most), free)| free.min(most)).sum::<usize>() >= self.wish.count
    }

    fn free_of_kinds(&self, areas: &[usize]) -> Vec<usize> {
        let looks = (0..self.wish.parts().len()).map(|kind| Look { kind: Some(kind), ..*self });
        looks.map(|look| areas.iter().map(|&area| look.free_in(area)).sum()).collect()
    }

    /// How many seats of each kind the party takes in these areas: first of those without a need.
    fn kinds(&self, areas: &[usize]) -> Vec<(usize, usize)> {
        let (parts, free) = (self.wish.parts(), self.free_of_kinds(areas));
        let mut counts: Vec<usize> = parts.iter().map(|(least, _)| *least).collect();
        while counts.iter().sum::<usize>() < self.wish.count {
            let more = (0..counts.len()).find(|&kind| counts[kind] < free[kind].min(parts[kind].1)).unwrap();
            counts[more] += 1;
        }
        counts.into_iter().enumerate().filter(|&(_, count)| count > 0).collect()
    }

    /// All areas, by level.
    fn all(&self) -> Vec<usize> {
        self.levels().into_iter().flatten().collect()
    }

    /// The seats of each kind on its own.
    fn by_kind(&self, areas: &[usize], seats: impl Fn(&Self, usize) -> Vec<Place>) -> Vec<Place> {
        let kinds = self.kinds(areas).into_iter();
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
        self.wish.parts().into_iter().enumerate().all(|(kind, (least, most))| {
            let of_kind = |&p: &usize| self.kind_of(self.show.seat((a, r, p))) == Some(kind);
            (least..=most).contains(&(s..s + n).filter(of_kind).count())
        })
    }

    fn strands(&self, (a, r, s): Place, n: usize) -> bool {
        let tier = self.tier((a, r, s)).to_owned();
        let same = |p: usize| self.free((a, r, p)) && self.tier((a, r, p)) == tier;
        let left = (0..s).rev().take_while(|&p| same(p)).count();
        let right = (s + n..s + n + 2).take_while(|&p| same(p)).count();
        left == 1 || right == 1
    }

    fn key(&self, (a, r, s): Place, n: usize) -> (u64, usize, usize) {
        let area = &self.show.areas[a];
        let row = area.rows[r].len();
        match area.rule {
            Rule::Ltr => (0, s, 0),
            Rule::Rtl => (0, row - s, 0),
            Rule::Center => (0, (2 * s + n).abs_diff(row), s),
            Rule::Focus => (distance(&area.points[r][s..s + n], area.focus.unwrap()), s, 0),
        }
    }

    /// How many seats of a run have a flag that comes first, each counted for each of these flags.
    fn preferred(&self, (a, r, s): Place, n: usize) -> usize {
        let seats = (s..s + n).filter_map(|p| self.show.areas[a].rows[r][p].as_ref());
        seats.flat_map(|seat| &seat.flags).filter(|flag| self.wish.preferred.contains(flag)).count()
    }

    /// How many seats of a run are taken in the shows beside.
    fn taken_beside(&self, (a, r, s): Place, n: usize) -> usize {
        let seats = (s..s + n).filter_map(|p| self.show.areas[a].rows[r][p].as_ref());
        seats.map(|seat| self.show.beside.get(&seat.id).copied().unwrap_or(0)).sum()
    }

    fn best_run(&self, area: usize, clean: bool) -> Option<Vec<Place>> {
        let n = self.wish.count;
        if self.show.areas[area].standing {
            return self.enough(&[area]).then(|| self.first_places(area, n));
        }
        let rows = self.show.areas[area].rows.iter().enumerate();
        let starts = rows.flat_map(|(r, row)| (0..row.len()).map(move |s| (area, r, s)));
        let runs = starts.filter(|&w| self.is_window(w, n) && self.fits(w, n));
        let order = |w: Place| {
            let (distance, at, tie) = self.key(w, n);
            (std::cmp::Reverse((self.taken_beside(w, n), self.preferred(w, n))), distance, w.1, at, tie)
        };
        let (a, r, s) = runs.filter(|&w| !clean || !self.strands(w, n)).min_by_key(|&w| order(w))?;
        Some((s..s + n).map(|p| (a, r, p)).collect())
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
            return scatter.then(|| self.by_kind(&self.all(), Look::over_areas));
        };
        if let Some(area) = self.whose_turn(&level, |area| self.has_run(area)) {
            return self.seat_area(area);
        }
        let area = self.whose_turn(&level, |area| self.enough(&[area])).unwrap();
        scatter.then(|| self.scattered_in(area))
    }

    fn scattered(&self) -> Vec<Place> {
        let all = self.all();
        let needs = !self.wish.needs.is_empty();
        let fewest = |areas: &[usize]| self.fewest(areas, self.wish.count);
        let groups = fewest(&all).map(|(groups, _)| groups);
        let least = |area: usize| {
            if needs || !self.enough(&[area]) {
                return self.enough(&[area]).then_some(0);
            }
            fewest(&[area]).filter(|&(own, _)| Some(own) == groups).map(|(_, least)| least)
        };
        for level in self.levels() {
            let best = level.iter().filter_map(|&area| least(area)).max();
            if let Some(area) = self.whose_turn(&level, |area| best.is_some() && least(area) == best) {
                return self.scattered_in(area);
            }
        }
        self.by_kind(&self.all(), Look::over_areas)
    }

    fn over_areas(&self, count: usize) -> Vec<Place> {
        let all = self.all();
        let (groups, least) = self.fewest(&all, count).unwrap();
        let runs: Vec<Run> =
            all.iter().enumerate().flat_map(|(order, &area)| self.runs(order, area)).collect();
        self.seats_of(&self.best_groups(&runs, count, groups, least).unwrap())
    }

    fn scattered_in(&self, area: usize) -> Vec<Place> {
        if self.show.areas[area].standing {
            return self.by_kind(&[area], |look, count| look.first_places(area, count));
        }
        if self.wish.count <= 10 {
            return self.near(area);
        }
        self.by_kind(&[area], |look, count| {
            let (groups, least) = look.fewest(&[area], count).unwrap();
            look.seats_of(&look.best_groups(&look.runs(0, area), count, groups, least).unwrap())
        })
    }

    /// The free runs of an area; the places of a standing area are one run.
    fn runs(&self, order: usize, area: usize) -> Vec<Run> {
        if self.show.areas[area].standing {
            let len = self.free_in(area);
            return if len > 0 { vec![Run { order, first: (area, 0, 0), len, left: 0 }] } else { vec![] };
        }
        let mut runs = Vec::new();
        for (r, row) in self.show.areas[area].rows.iter().enumerate() {
            let mut s = 0;
            while s < row.len() {
                let len =
                    (1..=row.len() - s).take_while(|&n| self.is_window((area, r, s), n)).last().unwrap_or(0);
                if len > 0 {
                    let left = 2 * s as i64 + self.across(area, r);
                    runs.push(Run { order, first: (area, r, s), len, left });
                }
                s += len.max(1);
            }
        }
        runs
    }

    /// How far back a row is, in half positions.
    fn depth(&self, area: usize, row: usize) -> i64 {
        let Area { ranks, points, .. } = &self.show.areas[area];
        points[row].first().map_or(4 * i64::from(ranks[row]), |&[_, y]| (2.0 * y) as i64)
    }

    /// Where a row begins, in half positions: rows of one rank stand side by side.
    fn across(&self, area: usize, row: usize) -> i64 {
        let Area { rows, ranks, rule, points, .. } = &self.show.areas[area];
        if let Some(&[x, _]) = points[row].first() {
            // The generator puts positions one apart.
            return (2.0 * x) as i64;
        }
        let beside: Vec<usize> = (0..rows.len()).filter(|&other| ranks[other] == ranks[row]).collect();
        let width: usize = beside.iter().map(|&other| rows[other].len()).sum();
        let before: usize = beside.iter().filter(|&&other| other < row).map(|&other| rows[other].len()).sum();
        match rule {
            Rule::Ltr | Rule::Focus => 2 * before as i64,
            Rule::Rtl => 2 * before as i64 - 2 * width as i64,
            Rule::Center => 2 * before as i64 - width as i64,
        }
    }

    /// The fewest groups for so many seats, and the most that the smallest of them can have.
    fn fewest(&self, areas: &[usize], count: usize) -> Option<(usize, usize)> {
        let runs = areas.iter().flat_map(|&area| self.runs(0, area));
        let mut lengths: Vec<usize> = runs.map(|run| run.len).collect();
        lengths.sort_by_key(|&len| std::cmp::Reverse(len));
        let groups = (1..=lengths.len()).find(|&groups| lengths[..groups].iter().sum::<usize>() >= count)?;
        Some((groups, lengths[groups - 1].min(count / groups)))
    }

    /// The best groups of at least so many seats: compared one by one, by area, row, size and order rule.
    fn best_groups(&self, runs: &[Run], count: usize, groups: usize, least: usize) -> Option<Vec<Group>> {
        if groups == 0 {
            return (count == 0).then(Vec::new);
        }
        let mut lengths: Vec<usize> = runs.iter().map(|run| run.len).filter(|&len| len >= least).collect();
        lengths.sort_by_key(|&len| std::cmp::Reverse(len));
        if lengths.len() < groups || lengths[..groups].iter().sum::<usize>() < count || groups * least > count
        {
            return None;
        }
        let mut all: Vec<(Group, usize)> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            all.extend((least..=run.len.min(count)).map(|size| (self.best_part(run, size), number)));
        }
        all.sort();
        all.into_iter().find_map(|(group, number)| {
            let others = [&runs[..number], &runs[number + 1..]].concat();
            let rest = self.best_groups(&others, count - group.1.0, groups - 1, least)?;
            Some([vec![group], rest].concat())
        })
    }

    fn best_part(&self, run: &Run, size: usize) -> Group {
        let (a, r, s) = run.first;
        let starts = (s..=s + run.len - size).map(|s| (self.key((a, r, s), size), s));
        let (key, start) = starts.min().unwrap();
        ((run.order, r), std::cmp::Reverse(size), key, (a, r, start))
    }

    fn seats_of(&self, groups: &[Group]) -> Vec<Place> {
        let places = groups.iter().flat_map(|&(_, std::cmp::Reverse(size), _, (a, r, s))| {
            if self.show.areas[a].standing {
                self.first_places(a, size)
            } else {
                (s..s + size).map(|p| (a, r, p)).collect()
            }
        });
        places.collect()
    }

    /// The groups in the smallest part of an area: every part is looked at.
    fn near(&self, area: usize) -> Vec<Place> {
        let depth = |run: &Run| self.depth(area, run.first.1);
        let kinds = self.kinds(&[area]).into_iter();
        // The free runs of each kind, the seats wanted, the groups and the least size of one.
        let kinds: Vec<(Vec<Run>, usize, usize, usize)> = kinds
            .map(|(kind, count)| {
                let look = Look { kind: Some(kind), ..*self };
                let (groups, least) = look.fewest(&[area], count).unwrap();
                (look.runs(0, area), count, groups, least)
            })
            .collect();
        let depths: BTreeSet<i64> = kinds.iter().flat_map(|kind| kind.0.iter().map(depth)).collect();
        let mut found: Vec<(i64, Vec<Group>)> = Vec::new();
        for &from in &depths {
            for &to in depths.range(from..) {
                let inside = |run: &&Run| (from..=to).contains(&depth(run));
                let rows = kinds.iter().flat_map(|kind| kind.0.iter().filter(inside));
                let places: BTreeSet<i64> =
                    rows.flat_map(|run| (0..run.len as i64).map(|seat| run.left + 2 * seat)).collect();
                for &left in &places {
                    for right in places.range(left..).map(|place| place + 2) {
                        let size = right - left + to - from;
                        if found.iter().any(|(smaller, _)| *smaller < size) {
                            break;
                        }
                        let groups = kinds.iter().map(|(runs, count, groups, least)| {
                            let part = runs.iter().filter(inside).filter_map(|run| run.between(left, right));
                            self.best_groups(&part.collect::<Vec<_>>(), *count, *groups, *least)
                        });
                        if let Some(groups) = groups.collect::<Option<Vec<_>>>() {
                            let mut groups = groups.concat();
                            groups.sort();
                            found.push((size, groups));
                            break;
                        }
                    }
                }
            }
        }
        if let [(runs, count, 2, least @ ..=2)] = &kinds[..]
            && *count > 2
        {
            let mut behind: Vec<(i64, Vec<Group>)> = Vec::new();
            for run in runs.iter().filter(|run| run.len == count - 1) {
                let right = run.left + 2 * run.len as i64;
                let others = runs.iter().filter(|other| (2..=6).contains(&(depth(other) - depth(run)).abs()));
                for alone in others.filter_map(|other| other.between(run.left, right)) {
                    let mut pair = vec![self.best_part(run, count - 1), self.best_part(&alone, 1)];
                    pair.sort();
                    behind.push((2 * (*count as i64 - 1) + (depth(&alone) - depth(run)).abs(), pair));
                }
            }
            // Nobody is alone then.
            if *least == 1 && !behind.is_empty() {
                found.clear();
            }
            found.extend(behind);
        }
        self.seats_of(&found.into_iter().min().unwrap().1)
    }

    /// Seats that continue a group of the cart in its row, on one side or on both.
    fn next_to(&self, cart: &[Place]) -> Option<Vec<Place>> {
        if !self.wish.needs.is_empty() {
            return None;
        }
        let clean_or_not: &[bool] = match self.wish.orphans {
            Orphans::Avoid => &[true, false],
            Orphans::Allow => &[false],
            Orphans::Forbid => &[true],
        };
        for clean in clean_or_not {
            for &(a, r, s) in cart.iter().filter(|place| !self.show.areas[place.0].standing) {
                if s > 0 && cart.contains(&(a, r, s - 1)) {
                    continue;
                }
                let len = (1..1000).find(|&len| !cart.contains(&(a, r, s + len))).unwrap();
                let size = len + self.wish.count;
                let run = |places: &mut dyn Iterator<Item = usize>| {
                    let places: Vec<usize> = places.take_while(|&p| self.takeable((a, r, p))).collect();
                    let tier = |&&p: &&usize| self.tier((a, r, p)) == self.tier((a, r, places[0]));
                    places.iter().take_while(tier).count()
                };
                let (left, right) = (run(&mut (0..s).rev()), run(&mut (s + len..)));
                let fits = |&start: &usize| {
                    let new: Vec<usize> =
                        (start..start + size).filter(|p| !(s..s + len).contains(p)).collect();
                    let (before, after) = (s - start, start + size - s - len);
                    let of_one_tier =
                        || new.iter().all(|&p| self.tier((a, r, p)) == self.tier((a, r, new[0])));
                    let strands = left.checked_sub(before) == Some(1) || right.checked_sub(after) == Some(1);
                    new.iter().all(|&p| self.takeable((a, r, p))) && of_one_tier() && !(*clean && strands)
                };
                let starts = s.saturating_sub(self.wish.count)..=s;
                let order = |start| {
                    let run = (a, r, start);
                    (std::cmp::Reverse(self.preferred(run, size)), self.key(run, size))
                };
                if let Some(start) = starts.filter(fits).min_by_key(|&start| order(start)) {
                    let all = (start..start + size).map(|p| (a, r, p));
                    return Some(all.filter(|place| !cart.contains(place)).collect());
                }
            }
        }
        None
    }

    /// Seats in an area of the cart so that all lie in the smallest part of the area.
    fn near_cart(&self, cart: &[Place]) -> Option<Vec<Place>> {
        let areas = self.levels().into_iter().flatten();
        let mut areas =
            areas.filter(|&area| cart.iter().any(|place| place.0 == area) && self.enough(&[area]));
        areas.find_map(|area| {
            if self.show.areas[area].standing {
                return Some(self.by_kind(&[area], |look, count| look.first_places(area, count)));
            }
            let may_split = self.wish.adjacent != Adjacent::Require && self.wish.orphans != Orphans::Forbid;
            if !may_split && !self.wish.needs.is_empty() {
                return None;
            }
            let mut all: Vec<Place> = cart.iter().filter(|place| place.0 == area).copied().collect();
            let mut chosen = Vec::new();
            for (kind, count) in self.kinds(&[area]) {
                let look = Look { kind: Some(kind), ..*self };
                let (mut missing, mut size) = (count, count);
                while missing > 0 {
                    if let Some(window) = look.nearest(area, size, &all, &chosen) {
                        all.extend(&window);
                        chosen.extend(window);
                        missing -= size;
                        size = size.min(missing);
                    } else if size > 1 && may_split && self.wish.count <= 10 {
                        size -= 1;
                    } else {
                        return None;
                    }
                }
            }
            Some(chosen)
        })
    }

    fn nearest(&self, area: usize, size: usize, all: &[Place], chosen: &[Place]) -> Option<Vec<Place>> {
        let part = |places: &[Place]| {
            let lefts: Vec<i64> = places.iter().map(|&(a, r, s)| self.across(a, r) + 2 * s as i64).collect();
            let rows: Vec<i64> = places.iter().map(|&(_, r, _)| self.depth(area, r)).collect();
            let range = |of: &[i64]| of.iter().max().unwrap() - of.iter().min().unwrap();
            range(&lefts) + range(&rows)
        };
        let starts = self.show.places().filter(|place| place.0 == area);
        let windows = starts.filter(|&(a, r, s)| {
            self.is_window((a, r, s), size)
                && (s..s + size).all(|p| !chosen.contains(&(a, r, p)))
                && !(self.wish.orphans == Orphans::Forbid && self.strands((a, r, s), size))
        });
        let seats = |(a, r, s): Place| (s..s + size).map(move |p| (a, r, p)).collect::<Vec<_>>();
        let rated = windows.map(|w| (part(&[all, &seats(w)].concat()), w.1, self.key(w, size), w));
        rated.min().map(|(.., window)| seats(window))
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
