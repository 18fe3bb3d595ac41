//! A show as one would write it in an afternoon: every seat on its own, every search a loop. What the real one
//! is held against.

#![allow(unreachable_pub, reason = "one test program")]

use allot_core::seat::plan::{PickOrphans, Plan, PlanSeats, Rule};
use allot_core::seat::request::{Adjacent, Orphans};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    Held(Vec<u8>),
    Sold(Vec<u8>, Option<Vec<u8>>),
    Blocked,
}

#[derive(Clone, Debug)]
pub struct Seat {
    pub id: String,
    pub tier: String,
    pub flags: Vec<String>,
    pub state: State,
    /// Number of its block, also while it is held or sold from the block.
    pub block: Option<usize>,
}

impl Seat {
    /// Whether a request may take the seat: a free one, or a blocked one of this block.
    pub fn is_available(&self, block: Option<usize>) -> bool {
        let state = if block.is_some() { State::Blocked } else { State::Free };
        self.state == state && self.block == block
    }
}

/// A block with a name, or without one (empty) an end.
#[derive(Clone, Debug)]
pub struct Block {
    pub number: usize,
    pub name: String,
    pub until: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Area {
    pub id: String,
    pub priority: i32,
    pub rule: Rule,
    /// By rank; positions, `None` a break.
    pub rows: Vec<Vec<Option<Seat>>>,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub user: Vec<u8>,
    pub created: i64,
    pub until: i64,
    pub sold: bool,
    pub bought: usize,
    pub order: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct Naive {
    pub areas: Vec<Area>,
    pub seats_per_user: usize,
    pub holds_per_user: usize,
    pub max_hold: i64,
    pub claims: BTreeMap<Vec<u8>, Claim>,
    pub waiters: Vec<Waiter>,
    pub waits_per_user: usize,
    pub pick_orphans: PickOrphans,
    pub blocks: Vec<Block>,
    next_block: usize,
    turns: HashMap<(Option<String>, usize), u64>,
    turn: u64,
}

/// A user who waits; the list is in the order of arrival.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub token: Vec<u8>,
    pub user: Vec<u8>,
    pub wish: Wish,
    pub until: i64,
    pub offer: i64,
    pub priority: i32,
}

/// Area, row, position.
type Place = (usize, usize, usize);

#[derive(Clone, Debug)]
pub struct Wish {
    pub count: usize,
    pub tier: Option<String>,
    pub areas: Vec<String>,
    pub adjacent: Adjacent,
    pub orphans: Orphans,
    pub flags: Vec<String>,
    /// So many seats with each flag.
    pub needs: Vec<(usize, String)>,
    /// Name of the block whose seats are wanted.
    pub from: Option<String>,
}

impl Wish {
    /// How many seats of each kind: kind 0 is for everybody else, the others are the needs.
    fn kinds(&self) -> Vec<usize> {
        let needs: Vec<usize> = self.needs.iter().map(|(count, _)| *count).collect();
        std::iter::once(self.count - needs.iter().sum::<usize>()).chain(needs).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Seats(Vec<String>),
    TooFew,
    NotAdjacent,
}

impl Naive {
    pub fn new(plan: &Plan) -> Self {
        let areas = plan.areas.iter().map(|area| {
            let mut rows: Vec<_> = area.rows.iter().collect();
            rows.sort_by_key(|row| row.rank);
            let rows = rows.into_iter().map(|row| {
                let PlanSeats::List(seats) = &row.seats else { panic!("the generator writes lists") };
                let seats = seats.iter().map(|seat| {
                    seat.as_ref().map(|seat| Seat {
                        id: seat
                            .id
                            .clone()
                            .unwrap_or_else(|| format!("{}-{}-{}", area.id, row.label, seat.label)),
                        tier: seat.tier.clone().or(row.tier.clone()).unwrap(),
                        flags: seat.flags.clone(),
                        state: State::Free,
                        block: None,
                    })
                });
                seats.collect()
            });
            Area { id: area.id.clone(), priority: area.priority, rule: area.rule, rows: rows.collect() }
        });
        Self {
            areas: areas.collect(),
            seats_per_user: plan.limits.seats_per_user as usize,
            holds_per_user: plan.limits.holds_per_user as usize,
            max_hold: plan.limits.max_hold_ms as i64,
            claims: BTreeMap::new(),
            waiters: Vec::new(),
            waits_per_user: plan.limits.waits_per_user as usize,
            pick_orphans: plan.limits.pick_orphans,
            blocks: Vec::new(),
            next_block: 0,
            turns: HashMap::new(),
            turn: 0,
        }
    }

    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.areas.iter().enumerate().flat_map(|(a, area)| {
            area.rows.iter().enumerate().flat_map(move |(r, row)| {
                (0..row.len()).filter(move |&p| row[p].is_some()).map(move |p| (a, r, p))
            })
        })
    }

    pub fn seat(&self, (a, r, p): Place) -> &Seat {
        self.areas[a].rows[r][p].as_ref().unwrap()
    }

    pub fn by_id(&mut self, id: &str) -> &mut Seat {
        let place = self.places().find(|&place| self.seat(place).id == id).unwrap();
        self.areas[place.0].rows[place.1][place.2].as_mut().unwrap()
    }

    pub fn ids(&self) -> Vec<String> {
        self.places().map(|place| self.seat(place).id.clone()).collect()
    }

    pub fn seats_of(&self, token: &[u8]) -> Vec<String> {
        let has = |seat: &Seat| matches!(&seat.state, State::Held(t) | State::Sold(t, _) if t == token);
        self.places()
            .map(|place| self.seat(place))
            .filter(|seat| has(seat))
            .map(|seat| seat.id.clone())
            .collect()
    }

    /// A seat is neither held nor sold any more: it is free, or blocked again.
    pub fn give_up(&mut self, id: &str) {
        let seat = self.by_id(id);
        seat.state = if seat.block.is_some() { State::Blocked } else { State::Free };
    }

    /// The block of that name; without a name, the one that ends at that time. It may be new.
    pub fn block_for(&mut self, name: Option<&str>, until: Option<i64>) -> usize {
        let name = name.unwrap_or_default();
        let mut blocks = self.blocks.iter_mut();
        let same = |block: &&mut Block| block.name == name && (!name.is_empty() || block.until == until);
        if let Some(block) = blocks.find(same) {
            block.until = until.or(block.until);
            return block.number;
        }
        self.next_block += 1;
        self.blocks.push(Block { number: self.next_block, name: name.to_owned(), until });
        self.next_block
    }

    /// A block ends. Returns how many of its seats are free now.
    pub fn end_block(&mut self, number: usize) -> i64 {
        let mut freed = 0;
        for id in self.ids() {
            let seat = self.by_id(&id);
            if seat.block == Some(number) {
                seat.block = None;
                if seat.state == State::Blocked {
                    seat.state = State::Free;
                    freed += 1;
                }
            }
        }
        self.forget_blocks();
        freed
    }

    /// Blocks without seats end.
    pub fn forget_blocks(&mut self) {
        let used: BTreeSet<usize> = self.places().filter_map(|place| self.seat(place).block).collect();
        self.blocks.retain(|block| used.contains(&block.number));
    }

    /// Free seats (with a block, those of the block) without flags, and without a neighbour of the same tier that is free
    /// and has no flags either.
    pub fn single_seats(&self, block: Option<usize>) -> usize {
        let free = |(a, r, p): Place| {
            let seat = self.areas[a].rows[r].get(p).and_then(Option::as_ref);
            seat.filter(|seat| seat.is_available(block) && seat.flags.is_empty())
        };
        let places = self.places().filter_map(|place| Some((place, free(place)?)));
        let alone = places.filter(|((a, r, p), seat)| {
            let near = |p: Option<usize>| {
                p.and_then(|p| free((*a, *r, p))).is_some_and(|other| other.tier == seat.tier)
            };
            !near(p.checked_sub(1)) && !near(p.checked_add(1))
        });
        alone.count()
    }

    pub fn user_seats(&self, user: &[u8]) -> usize {
        let tokens = self.claims.iter().filter(|(_, claim)| claim.user == user);
        tokens.map(|(token, _)| self.seats_of(token).len()).sum()
    }

    pub fn user_holds(&self, user: &[u8]) -> usize {
        self.claims.values().filter(|claim| claim.user == user && !claim.sold).count()
    }

    /// Whether the limits allow a user so many further seats.
    pub fn allows(&self, user: &[u8], count: usize) -> bool {
        (self.holds_per_user == 0 || self.user_holds(user) < self.holds_per_user)
            && (self.seats_per_user == 0 || self.user_seats(user) + count <= self.seats_per_user)
    }

    /// Offers seats to the first waiter who can be served, by priority and arrival, until nobody can.
    pub fn serve(&mut self, now: i64) {
        loop {
            let mut order: Vec<usize> = (0..self.waiters.len()).collect();
            order.sort_by_key(|&place| std::cmp::Reverse(self.waiters[place].priority));
            let served = order.into_iter().find(|&place| {
                let waiter = self.waiters[place].clone();
                let offer = if self.max_hold > 0 { waiter.offer.min(self.max_hold) } else { waiter.offer };
                self.allows(&waiter.user, waiter.wish.count)
                    && matches!(
                        self.grant(&waiter.wish, &waiter.user, &waiter.token, now, now + offer, None),
                        Outcome::Seats(_)
                    )
            });
            let Some(place) = served else { return };
            self.waiters.remove(place);
        }
    }

    pub fn expire(&mut self, now: i64) {
        self.waiters.retain(|waiter| waiter.until > now);
        let over = self.blocks.iter().filter(|block| block.until.is_some_and(|until| until <= now));
        for number in over.map(|block| block.number).collect::<Vec<_>>() {
            self.end_block(number);
        }
        let due: Vec<Vec<u8>> = self
            .claims
            .iter()
            .filter(|(_, c)| !c.sold && c.until <= now)
            .map(|(token, _)| token.clone())
            .collect();
        for token in due {
            self.free_claim(&token);
        }
    }

    pub fn free_claim(&mut self, token: &[u8]) {
        for id in self.seats_of(token) {
            self.give_up(&id);
        }
        self.claims.remove(token);
    }

    pub fn forget_empty(&mut self) {
        let empty: Vec<Vec<u8>> =
            self.claims.keys().filter(|token| self.seats_of(token).is_empty()).cloned().collect();
        for token in empty {
            self.claims.remove(&token);
        }
    }

    /// Grants a wish: seats change hands, and somebody's turn is over.
    pub fn grant(
        &mut self,
        wish: &Wish,
        user: &[u8],
        token: &[u8],
        now: i64,
        until: i64,
        replace: Option<(&[u8], bool)>,
    ) -> Outcome {
        let outcome = self.search(wish, replace);
        if let Outcome::Seats(ids) = &outcome {
            if let Some((old, _)) = replace {
                self.free_claim(old);
            }
            self.take(ids, user, token, now, until);
            let areas: BTreeSet<usize> = self
                .places()
                .filter(|&place| ids.contains(&self.seat(place).id))
                .map(|place| place.0)
                .collect();
            if areas.len() == 1 {
                self.turn += 1;
                self.turns.insert((wish.tier.clone(), *areas.first().unwrap()), self.turn);
            }
        }
        outcome
    }

    pub fn take(&mut self, ids: &[String], user: &[u8], token: &[u8], now: i64, until: i64) {
        for id in ids {
            self.by_id(id).state = State::Held(token.to_vec());
        }
        let claim = Claim { user: user.to_vec(), created: now, until, sold: false, bought: 0, order: None };
        self.claims.insert(token.to_vec(), claim);
    }

    fn search(&self, wish: &Wish, replace: Option<(&[u8], bool)>) -> Outcome {
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
