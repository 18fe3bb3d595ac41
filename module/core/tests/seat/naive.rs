//! A show as one would write it in an afternoon: every seat on its own, every search a loop. What the real one
//! is held against.

#![allow(unreachable_pub, reason = "one test program")]

use allot_core::seat::plan::{PickOrphans, Plan, PlanArea, PlanRow, PlanSeats, Rule};
use allot_core::seat::request::{Adjacent, NamedWish, Need, Orphans};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    /// Free for those who wait.
    Queued,
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
    /// How many of its seats a user may have.
    pub per_user: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Area {
    pub id: String,
    pub priority: i32,
    pub rule: Rule,
    /// By rank, or the nearest first; positions, `None` a break.
    pub rows: Vec<Vec<Option<Seat>>>,
    /// Where each position is, if the plan says so.
    pub points: Vec<Vec<[f64; 2]>>,
    pub focus: Option<[f64; 2]>,
    /// The rank of each row.
    pub ranks: Vec<i32>,
    /// Whether its seats are places of one row that are taken by their numbers, and that are always together.
    pub standing: bool,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub user: Vec<u8>,
    pub created: i64,
    pub until: i64,
    pub sold: bool,
    pub bought: usize,
    pub order: Option<Vec<u8>>,
    /// Whether the hold is in exchange for sold seats.
    pub exchange: bool,
}

#[derive(Clone, Debug)]
pub struct Naive {
    pub areas: Vec<Area>,
    pub seats_per_user: usize,
    pub holds_per_user: usize,
    pub max_hold: i64,
    pub claims: BTreeMap<Vec<u8>, Claim>,
    pub waiters: Vec<Waiter>,
    /// Tokens of waits that were served or left, and when the time of each wait is over.
    pub ended: BTreeMap<Vec<u8>, i64>,
    pub waits_per_user: usize,
    pub pick_orphans: PickOrphans,
    pub blocks: Vec<Block>,
    next_block: usize,
    pub turns: HashMap<(Option<String>, usize), u64>,
    pub turn: u64,
    /// In how many shows beside this one each seat is taken.
    pub beside: HashMap<String, usize>,
}

/// A user who waits; the list is in the order of arrival.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub token: Vec<u8>,
    pub user: Vec<u8>,
    pub wish: Wish,
    pub since: i64,
    pub until: i64,
    pub offer: i64,
    pub priority: i32,
}

/// Area, row, position.
pub type Place = (usize, usize, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub count: usize,
    pub tier: Option<String>,
    pub areas: Vec<String>,
    pub adjacent: Adjacent,
    pub orphans: Orphans,
    pub flags: Vec<String>,
    /// So many seats with each flag.
    pub needs: Vec<(usize, String)>,
    /// Flags whose seats come first.
    pub preferred: Vec<String>,
    /// Name of the block whose seats are wanted.
    pub from: Option<String>,
}

/// Names as a request has them.
pub fn bytes(ids: &[String]) -> Vec<&[u8]> {
    ids.iter().map(String::as_bytes).collect()
}

impl Wish {
    /// How many seats of each kind, at least and at most: kind 0 is for everybody else, the others are the needs.
    pub fn parts(&self) -> Vec<(usize, usize)> {
        let others = self.count - self.needs.iter().map(|(count, _)| count).sum::<usize>();
        let is_more = |flag: &String| self.flags.contains(flag) || self.preferred.contains(flag);
        let needs =
            self.needs.iter().map(|(count, flag)| (*count, count + if is_more(flag) { others } else { 0 }));
        let least = if self.needs.iter().any(|(_, flag)| is_more(flag)) { 0 } else { others };
        std::iter::once((least, others)).chain(needs).collect()
    }

    /// The same as a request has it.
    pub fn named(&self) -> NamedWish<'_> {
        NamedWish {
            count: self.count as u32,
            tier: self.tier.as_deref().map(str::as_bytes),
            areas: bytes(&self.areas),
            adjacent: self.adjacent,
            orphans: self.orphans,
            flags: bytes(&self.flags),
            needs: self
                .needs
                .iter()
                .map(|(count, flag)| Need { count: *count as u32, flag: flag.as_bytes() })
                .collect(),
            preferred: bytes(&self.preferred),
            from: self.from.as_deref().map(str::as_bytes),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Seats(Vec<String>),
    TooFew,
    NotAdjacent,
}

fn standing_area(area: &PlanArea, places: u32) -> Area {
    let place = |number: u32| Seat {
        id: format!("{}-{number}", area.id),
        tier: area.tier.clone().unwrap(),
        flags: vec![],
        state: State::Free,
        block: None,
    };
    let row = (1..=places).map(|number| Some(place(number))).collect();
    Area {
        id: area.id.clone(),
        priority: area.priority,
        rule: Rule::Ltr,
        rows: vec![row],
        ranks: vec![0],
        points: vec![],
        focus: None,
        standing: true,
    }
}

fn positions(row: &PlanRow) -> usize {
    let PlanSeats::List(seats) = &row.seats else { panic!("the generator writes lists") };
    seats.len()
}

/// Where the positions of a row are, of which there are so many; none if the plan does not say.
pub fn points_of(row: &PlanRow, positions: usize) -> Vec<[f64; 2]> {
    let point = |point: [f32; 2]| point.map(f64::from);
    match (&row.points, row.at.map(point), row.step.map(point)) {
        (Some(points), ..) => points.iter().copied().map(point).collect(),
        (None, Some([x, y]), Some([dx, dy])) => {
            (0..positions).map(|at| [x + at as f64 * dx, y + at as f64 * dy]).collect()
        }
        _ => vec![],
    }
}

/// How far the middle of these points is from the focus, as a number that grows with the distance.
pub fn distance(points: &[[f64; 2]], focus: [f64; 2]) -> u64 {
    let (left, right) = (points[(points.len() - 1) / 2], points[points.len() / 2]);
    let [x, y] = [0, 1].map(|axis| f64::midpoint(left[axis], right[axis]) - focus[axis]);
    (x * x + y * y).to_bits()
}

/// Puts rows in the order in which they are numbered: by rank, or with the rule `focus` the nearest first.
fn sort_rows(rows: &mut [PlanRow], focus: Option<[f64; 2]>) {
    rows.sort_by_key(|row| (focus.map(|focus| nearest(&points_of(row, positions(row)), focus)), row.rank));
}

/// The least distance of a run.
fn nearest(points: &[[f64; 2]], focus: [f64; 2]) -> u64 {
    let singles = points.chunks(1).map(|run| distance(run, focus));
    singles.chain(points.windows(2).map(|run| distance(run, focus))).min().unwrap()
}

impl Naive {
    pub fn new(plan: &Plan) -> Self {
        let areas = plan.areas.iter().map(|area| {
            if let Some(places) = area.standing {
                return standing_area(area, places);
            }
            let focus = area.focus.or(plan.focus).map(|point| point.map(f64::from));
            let mut rows = area.rows.clone();
            sort_rows(&mut rows, focus.filter(|_| area.rule == Rule::Focus));
            let points = rows.iter().map(|row| points_of(row, positions(row))).collect();
            let ranks = rows.iter().map(|row| row.rank).collect();
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
            let (id, priority, rule) = (area.id.clone(), area.priority, area.rule);
            Area { id, priority, rule, rows: rows.collect(), ranks, points, focus, standing: false }
        });
        Self {
            areas: areas.collect(),
            seats_per_user: plan.limits.seats_per_user as usize,
            holds_per_user: plan.limits.holds_per_user as usize,
            max_hold: plan.limits.max_hold_ms as i64,
            claims: BTreeMap::new(),
            waiters: Vec::new(),
            ended: BTreeMap::new(),
            waits_per_user: plan.limits.waits_per_user as usize,
            pick_orphans: plan.limits.pick_orphans,
            blocks: Vec::new(),
            next_block: 0,
            turns: HashMap::new(),
            turn: 0,
            beside: HashMap::new(),
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
        let free = self.freed();
        let seat = self.by_id(id);
        seat.state = if seat.block.is_some() { State::Blocked } else { free };
    }

    /// The state of a seat that becomes free.
    pub fn freed(&self) -> State {
        if self.waiters.is_empty() { State::Free } else { State::Queued }
    }

    /// Held or sold seats are given up; with a name (empty for none), they are blocked, and perhaps in a block.
    pub fn give_up_into(
        &mut self,
        ids: &[String],
        into: Option<&str>,
        until: Option<i64>,
        per_user: Option<usize>,
    ) {
        let in_block = into.is_some_and(|name| !name.is_empty()) || until.is_some();
        let number = in_block.then(|| self.block_for(into.filter(|name| !name.is_empty()), until, per_user));
        for id in ids {
            self.give_up(id);
            if into.is_some() {
                let seat = self.by_id(id);
                (seat.state, seat.block) = (State::Blocked, number);
            }
        }
        self.forget_empty();
        self.forget_blocks();
    }

    /// The block of that name; without a name, the one that ends at that time. It may be new.
    pub fn block_for(&mut self, name: Option<&str>, until: Option<i64>, per_user: Option<usize>) -> usize {
        // 0 is no limit.
        let limit = |before| per_user.map_or(before, |most| (most > 0).then_some(most));
        let name = name.unwrap_or_default();
        let mut blocks = self.blocks.iter_mut();
        let same = |block: &&mut Block| block.name == name && (!name.is_empty() || block.until == until);
        if let Some(block) = blocks.find(same) {
            block.until = until.or(block.until);
            block.per_user = limit(block.per_user);
            return block.number;
        }
        self.next_block += 1;
        self.blocks.push(Block {
            number: self.next_block,
            name: name.to_owned(),
            until,
            per_user: limit(None),
        });
        self.next_block
    }

    /// A block ends. Returns how many of its seats are free now.
    pub fn end_block(&mut self, number: usize) -> i64 {
        let mut freed = 0;
        let free = self.freed();
        for id in self.ids() {
            let seat = self.by_id(&id);
            if seat.block == Some(number) {
                seat.block = None;
                if seat.state == State::Blocked {
                    seat.state = free.clone();
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

    /// Whether picked seats leave a single seat in a run from which as many could be taken without leaving one: a run of
    /// seats of one tier without flags, free or available in the block.
    pub fn strands_needlessly(&self, picked: &[String], block: Option<usize>) -> bool {
        let seated = self.areas.iter().filter(|area| !area.standing);
        seated.flat_map(|area| &area.rows).any(|row| {
            let tier = |seat: &Option<Seat>| {
                let seat = seat.as_ref().filter(|seat| seat.is_available(block) && seat.flags.is_empty());
                seat.map(|seat| seat.tier.clone())
            };
            let is_picked = |seat: &Option<Seat>| seat.as_ref().is_some_and(|seat| picked.contains(&seat.id));
            row.chunk_by(|one, other| tier(one) == tier(other)).any(|run| {
                let taken = run.iter().filter(|seat| is_picked(seat)).count();
                let pieces = run.chunk_by(|one, other| is_picked(one) == is_picked(other));
                let mut single = pieces.filter(|piece| piece.len() == 1 && !is_picked(&piece[0]));
                tier(&run[0]).is_some() && taken > 0 && taken + 1 != run.len() && single.next().is_some()
            })
        })
    }

    /// The free seats without flags beside those of a token that have no such neighbour of their tier.
    pub fn orphans(&self, token: &[u8]) -> Vec<String> {
        let own = self.seats_of(token);
        let seated = self.areas.iter().filter(|area| !area.standing);
        let mut orphans = Vec::new();
        for row in seated.flat_map(|area| &area.rows) {
            let at = |place: Option<usize>| place.and_then(|place| row.get(place)).and_then(Option::as_ref);
            let free = |place| at(place).filter(|seat| seat.is_available(None) && seat.flags.is_empty());
            for place in 0..row.len() {
                let Some(seat) = free(Some(place)) else { continue };
                let beside = [place.checked_sub(1), Some(place + 1)];
                let is_own = |place| at(place).is_some_and(|seat| own.contains(&seat.id));
                let is_like = |place| free(place).is_some_and(|other| other.tier == seat.tier);
                if beside.into_iter().any(is_own) && !beside.into_iter().any(is_like) {
                    orphans.push(seat.id.clone());
                }
            }
        }
        orphans
    }

    pub fn user_seats(&self, user: &[u8]) -> usize {
        let tokens = self.claims.iter().filter(|(_, claim)| claim.user == user);
        tokens.map(|(token, _)| self.seats_of(token).len()).sum()
    }

    /// Whether a hold in exchange would leave its user with too many seats if these are given back. Seats that are not all
    /// of this user do not count.
    pub fn has_too_many(&mut self, token: &[u8], given: &[String]) -> bool {
        let Some(claim) = self.claims.get(token).filter(|claim| claim.exchange).cloned() else {
            return false;
        };
        let states: Vec<State> = given.iter().map(|id| self.by_id(id).state.clone()).collect();
        let is_own =
            |state: &State| matches!(state, State::Sold(token, _) if self.claims[token].user == claim.user);
        let given = if states.iter().all(is_own) { given } else { &[] };
        let mut blocks = self.seats_of(token).into_iter().map(|id| self.by_id(&id).block).collect::<Vec<_>>();
        blocks.dedup();
        self.seats_per_user > 0 && self.user_seats(&claim.user) - given.len() > self.seats_per_user
            || !blocks.into_iter().all(|block| self.block_allows(&claim.user, block, 0, given))
    }

    /// Whether the limit of a block allows a user so many more of its seats, after the `given` seats were given up.
    pub fn block_allows(&self, user: &[u8], block: Option<usize>, more: usize, given: &[String]) -> bool {
        let most =
            self.blocks.iter().find(|other| Some(other.number) == block).and_then(|block| block.per_user);
        let has = |seat: &&Seat| match &seat.state {
            State::Held(token) | State::Sold(token, _) => self.claims[token].user == user,
            State::Free | State::Queued | State::Blocked => false,
        };
        let of_block = |seat: &&Seat| seat.block == block && !given.contains(&seat.id);
        let has =
            self.places().map(|place| self.seat(place)).filter(|seat| of_block(seat) && has(seat)).count();
        most.is_none_or(|most| has + more <= most)
    }

    /// The block of this name.
    pub fn block_called(&self, name: Option<&str>) -> Option<usize> {
        let block = self.blocks.iter().find(|block| !block.name.is_empty() && Some(&*block.name) == name);
        block.map(|block| block.number)
    }

    pub fn user_holds(&self, user: &[u8]) -> usize {
        self.claims.values().filter(|claim| claim.user == user && !claim.sold).count()
    }

    /// Whether the limits allow a user the seats of a wish.
    pub fn allows(&self, user: &[u8], wish: &Wish) -> bool {
        let count = wish.count;
        self.block_allows(user, self.block_called(wish.from.as_deref()), count, &[])
            && (self.holds_per_user == 0 || self.user_holds(user) < self.holds_per_user)
            && (self.seats_per_user == 0 || self.user_seats(user) + count <= self.seats_per_user)
    }

    /// Offers seats, queued ones too, to the first waiter who can be served, by priority and arrival. Returns the token.
    pub fn serve_one(&mut self, now: i64) -> Option<Vec<u8>> {
        let mut order: Vec<usize> = (0..self.waiters.len()).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(self.waiters[place].priority));
        let queued: Vec<String> = self.ids_in(&State::Queued);
        self.put_all(&queued, &State::Free);
        let served = order.into_iter().find(|&place| {
            let waiter = self.waiters[place].clone();
            let offer = if self.max_hold > 0 { waiter.offer.min(self.max_hold) } else { waiter.offer };
            self.allows(&waiter.user, &waiter.wish)
                && matches!(
                    self.grant(&waiter.wish, &waiter.user, &waiter.token, now, now + offer, None),
                    Outcome::Seats(_)
                )
        });
        let left: Vec<String> = queued.into_iter().filter(|id| self.by_id(id).state == State::Free).collect();
        self.put_all(&left, &State::Queued);
        let token = self.waiters[served?].token.clone();
        self.end_wait(served?);
        Some(token)
    }

    /// Whether the show has too few seats for a wish, or none where it wants them, or the user has bought too many.
    pub fn can_never_have(&self, user: &[u8], wish: &Wish, is_waited_for: bool) -> bool {
        let of_wish = |&place: &Place| {
            let is_in = wish.areas.is_empty() || wish.areas.contains(&self.areas[place.0].id);
            is_in && wish.tier.as_ref().is_none_or(|tier| self.seat(place).tier == *tier)
        };
        let tokens = self.claims.iter().filter(|(_, claim)| claim.user == user && claim.sold);
        let bought: usize = tokens.map(|(token, _)| self.seats_of(token).len()).sum();
        let live = self.claims.iter().filter(|(_, claim)| claim.user == user && !claim.sold);
        let held: Vec<String> = live.flat_map(|(token, _)| self.seats_of(token)).collect();
        !self.block_allows(user, self.block_called(wish.from.as_deref()), wish.count, &held)
            || self.places().filter(of_wish).count() < wish.count
            || self.seats_per_user > 0 && bought + wish.count > self.seats_per_user
            || wish.from.is_none() && !is_waited_for && !self.could_meet_empty(wish)
    }

    /// Whether the show could meet a wish if nobody had a seat.
    fn could_meet_empty(&self, wish: &Wish) -> bool {
        let mut empty = self.clone();
        let rows = empty.areas.iter_mut().flat_map(|area| &mut area.rows);
        for seat in rows.flatten().flatten() {
            (seat.state, seat.block) = (State::Free, None);
        }
        let wish = Wish { orphans: Orphans::Allow, ..wish.clone() };
        matches!(empty.search(&wish, None), Outcome::Seats(_))
    }

    /// The seats in this state.
    pub fn ids_in(&self, state: &State) -> Vec<String> {
        let seats = self.places().map(|place| self.seat(place));
        seats.filter(|seat| seat.state == *state).map(|seat| seat.id.clone()).collect()
    }

    fn put_all(&mut self, ids: &[String], state: &State) {
        ids.iter().for_each(|id| self.by_id(id).state = state.clone());
    }

    /// Queued seats are free to all.
    pub fn free_queued(&mut self) {
        let queued = self.ids_in(&State::Queued);
        self.put_all(&queued, &State::Free);
    }

    /// A waiter was served or left. After the last, no seat is queued.
    pub fn end_wait(&mut self, place: usize) {
        let waiter = self.waiters.remove(place);
        self.ended.insert(waiter.token, waiter.until);
        self.queue_for_somebody();
    }

    fn queue_for_somebody(&mut self) {
        if self.waiters.is_empty() {
            self.free_queued();
        }
    }

    /// Whether seats that are free to all could meet a wish that waits.
    pub fn could_serve(&self) -> bool {
        self.waiters.iter().any(|waiter| {
            self.allows(&waiter.user, &waiter.wish)
                && matches!(self.search(&waiter.wish, None), Outcome::Seats(_))
        })
    }

    /// The position of a waiter among those with an equal wish, from 1: by priority and arrival.
    pub fn position(&self, place: usize) -> u64 {
        let waiter = &self.waiters[place];
        let others = self.waiters.iter().enumerate().filter(|(_, other)| other.wish == waiter.wish);
        let before = |&(at, other): &(usize, &Waiter)| {
            other.priority > waiter.priority || other.priority == waiter.priority && at < place
        };
        1 + others.filter(before).count() as u64
    }

    pub fn expire(&mut self, now: i64) {
        self.waiters.retain(|waiter| waiter.until > now);
        self.queue_for_somebody();
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
            let mut born = now;
            if let Some((old, _)) = replace {
                born = self.claims[old].created;
                self.free_claim(old);
            }
            self.take(ids, user, token, born, until);
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
        let claim = Claim {
            user: user.to_vec(),
            created: now,
            until,
            sold: false,
            bought: 0,
            order: None,
            exchange: false,
        };
        self.claims.insert(token.to_vec(), claim);
    }
}
