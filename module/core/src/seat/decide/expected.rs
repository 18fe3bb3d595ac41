//! The show as if all that is overdue had ended, as a request for best seats sees it: which overdue holds and blocks must
//! end so that the request finds seats. Nothing ends for a request in vain: the timer ends the others in slices.

use super::party::windows_of_kinds;
use super::search::Search;
use super::wish::{StripSeats, Wish};
use crate::invariant;
use crate::seat::bits::{self, Bits};
use crate::seat::choice::Kind;
use crate::seat::claims::Stage;
use crate::seat::event::{Event, Events};
use crate::seat::request::{Adjacent, Orphans};
use crate::seat::state::{Owner, Show, Strip};
use crate::seat::venue::Seat;
use crate::shared::Millis;
use smallvec::SmallVec;

/// The most holds that expire for one reason at once: about 10 ms of work with an event stream.
pub(super) const SLICE: usize = 500;

/// A set of small numbers: a bit for each.
struct Set(Vec<u64>);

impl Set {
    /// None of so many numbers.
    fn new(numbers: usize) -> Self {
        Self(vec![0; numbers.div_ceil(64)])
    }

    #[inline]
    fn put(&mut self, number: u32) {
        match self.0.get_mut(number as usize / 64) {
            Some(word) => *word |= 1 << (number % 64),
            None => invariant!("a number that is put into a set is small enough"),
        }
    }

    #[inline]
    fn has(&self, number: u32) -> bool {
        bits::is_set(&self.0, number as usize)
    }
}

/// What a request may expect. Made in O(overdue holds + seats of blocks). The holds themselves lie scattered in memory, a
/// hundred bytes each, so they are not looked at before some of them are to end.
pub(super) struct Expected<'a> {
    show: &'a Show,
    now: Millis,
    wish: &'a Wish,
    /// The hold that the request replaces, and whether its seats may be taken again.
    replaced: Option<u32>,
    again: bool,
    /// How many seats of each kind the request takes.
    parts: Vec<(usize, Kind)>,
    /// How many overdue seats are looked for, if the request needs fewer. Those who wait are served before it, and may
    /// leave it none of them.
    at_once: usize,
    /// The claims that are overdue.
    overdue: Set,
    /// Seats of the block from which the request takes seats; without one, seats that return to a block when they are
    /// given up.
    of_blocks: Set,
    /// Seats of blocks that are overdue, for a request that takes free seats.
    of_ended: Set,
}

/// The seats of a strip, by its kept words.
struct Seats {
    /// The seats that the request could take, of any kind.
    takeable: Bits,
    /// The same, and those of the replaced hold that must not be taken again.
    free: Bits,
    /// Of the takeable seats, those of what is overdue.
    gained: Bits,
}

impl<'a> Expected<'a> {
    pub(super) fn new(
        show: &'a Show,
        now: Millis,
        wish: &'a Wish,
        replaced: Option<u32>,
        again: bool,
    ) -> Self {
        let parts = if wish.needs.is_empty() { vec![(wish.count, wish.kind())] } else { wish.parts() };
        let mut overdue = Set::new(show.claims.numbers() as usize);
        show.claims.deadlines.each_passed(now, |claim| overdue.put(claim));
        let seats_of = |blocks: &dyn Fn(u32) -> bool| {
            let some = show.blocks.iter().filter(|(id, _)| blocks(*id));
            let positions = if show.blocks.is_empty() { 0 } else { show.venue.position_count() as usize };
            let mut seats = Set::new(positions);
            some.flat_map(|(_, block)| &block.seats).for_each(|&seat| seats.put(seat));
            seats
        };
        let (of_blocks, of_ended) = match wish.from {
            Some(from) => (seats_of(&|id| id == from), seats_of(&|_| false)),
            None => (seats_of(&|id| !show.has_ended(id, now)), seats_of(&|id| show.has_ended(id, now))),
        };
        let at_once = if show.waiters.is_empty() { 1 } else { SLICE };
        Self { show, now, wish, replaced, again, parts, at_once, overdue, of_blocks, of_ended }
    }

    /// The ends of overdue holds and blocks with which the request finds seats; none if it does not find them anyway. If
    /// `together`, it has enough seats by now, but they are not adjacent.
    pub(super) fn to_end(&self, together: bool) -> Events {
        let candidates = Search::candidates(self.show, self.wish);
        let seats = match (together, self.wish.adjacent) {
            (false, _) => self.enough_seats(&candidates),
            (true, Adjacent::Area) => self.run_in_best_level(&candidates),
            (true, _) => self.run(&candidates),
        };
        let blocks = seats.iter().filter_map(|&seat| self.show.blocks.of(seat)).collect();
        // First the blocks, so that seats of overdue holds do not return to a block that has ended.
        let mut events: Events = self.show.overdue_among(self.now, blocks).into();
        let holds = seats.iter().filter_map(|&seat| claim_of(self.show, seat)).collect();
        events.extend(expiries(self.show, self.now, holds));
        events
    }

    /// As many overdue seats as the request asks for, or all there are, if these buckets have enough seats with them; more
    /// for those who wait.
    fn enough_seats(&self, buckets: &[u32]) -> Vec<Seat> {
        if !self.have_enough_seats(buckets) {
            return Vec::new();
        }
        let mut seats = Vec::new();
        let mut missing = self.parts.clone();
        missing
            .iter_mut()
            .filter(|(count, _)| *count > 0)
            .for_each(|(count, _)| *count = (*count).max(self.at_once));
        for strip in self.strips(buckets) {
            let gained = self.seats(strip).gained;
            let base = self.show.venue.base(strip.row);
            for (missing, kind) in &mut missing {
                let mut gained = gained.clone();
                self.show.keep_kind(strip, *kind, &mut gained);
                let before = seats.len();
                let positions = self.show.seats_of(strip).kept.ones(&gained).take(*missing);
                seats.extend(positions.map(|position| base + position as Seat));
                *missing -= seats.len() - before;
            }
            missing.retain(|&(missing, _)| missing > 0);
            if missing.is_empty() {
                break;
            }
        }
        seats
    }

    /// Whether these buckets have as many seats of each kind as the request asks for.
    fn have_enough_seats(&self, buckets: &[u32]) -> bool {
        let mut missing = self.parts.clone();
        self.strips(buckets).any(|strip| {
            let takeable = self.seats(strip).takeable;
            for (missing, kind) in &mut missing {
                let mut takeable = takeable.clone();
                self.show.keep_kind(strip, *kind, &mut takeable);
                *missing = missing.saturating_sub(bits::count(&takeable) as usize);
            }
            missing.iter().all(|&(missing, _)| missing == 0)
        })
    }

    /// The overdue seats of a run in the best level in which an area has enough seats: no other level can serve a request
    /// for the best area.
    fn run_in_best_level(&self, candidates: &[u32]) -> Vec<Seat> {
        let show = self.show;
        let mut levels = candidates.chunk_by(|&a, &b| show.priority(a) == show.priority(b));
        let area_of = |bucket: u32| show.bucket_at(bucket).area;
        let best = levels.find(|level| {
            level.chunk_by(|&a, &b| area_of(a) == area_of(b)).any(|area| self.have_enough_seats(area))
        });
        best.map_or_else(Vec::new, |level| self.run(level))
    }

    /// The overdue seats of a run that suits the request, in the first strip of these buckets that has one; in more
    /// strips for those who wait.
    fn run(&self, buckets: &[u32]) -> Vec<Seat> {
        let (standing, seated): (Vec<u32>, Vec<u32>) =
            buckets.iter().partition(|&&bucket| self.show.is_standing(bucket));
        // No place has a flag that a party needs.
        for bucket in standing.into_iter().filter(|_| self.wish.needs.is_empty()) {
            let seats = self.enough_seats(&[bucket]);
            if !seats.is_empty() {
                return seats;
            }
        }
        let may_have_one = |&bucket: &u32| {
            let bucket = self.show.bucket_at(bucket);
            let may_end = bucket.counts.held > 0 || bucket.counts.blocked > 0;
            may_end && usize::from(bucket.longest) >= self.wish.count
        };
        let seated: Vec<u32> = seated.into_iter().filter(may_have_one).collect();
        let mut seats = Vec::new();
        for strip in self.strips(&seated) {
            seats.extend(self.run_of(strip).unwrap_or_default());
            if seats.len() >= self.at_once {
                break;
            }
        }
        seats
    }

    /// The overdue seats of the best run of a strip that suits the request and has some.
    fn run_of(&self, strip: Strip) -> Option<Vec<Seat>> {
        let (show, n) = (self.show, self.wish.count);
        let seats = self.seats(strip);
        // Most strips are given up here. Kept words side by side have the runs of the row, and maybe more.
        let has_run = |words: &[u64]| bits::windows(words, n).iter().any(|&word| word != 0);
        if bits::count(&seats.gained) == 0 || !has_run(&seats.takeable) {
            return None;
        }
        let (layout, base) = (show.venue.layout(strip.row), show.venue.base(strip.row));
        let len = usize::from(layout.len);
        let of_kind = |words: &Bits, kind: Kind| {
            let mut words = words.clone();
            show.keep_kind(strip, kind, &mut words);
            show.seats_of(strip).kept.dense(&words, len)
        };
        let parts = self.parts.iter().map(|&(count, kind)| {
            let takeable = of_kind(&seats.takeable, kind);
            let free = if self.again || self.replaced.is_none() {
                takeable.clone()
            } else {
                of_kind(&seats.free, kind)
            };
            (count, StripSeats { takeable, free })
        });
        let parts: Vec<(usize, StripSeats)> = parts.collect();
        // In the rows of many plans the seats that a party needs are too far apart.
        let is_short = |group: &[usize]| match (group.first(), group.last()) {
            (Some(first), Some(last)) => last - first < n,
            _ => false,
        };
        let are_near = |(count, seats): &(usize, StripSeats)| {
            let positions: SmallVec<[usize; 64]> = bits::ones(&seats.takeable).collect();
            *count == 0 || positions.windows(*count).any(is_short)
        };
        if !parts.iter().rev().all(are_near) {
            return None;
        }
        let rule = show.venue.area(show.venue.area_of(strip.row)).rule;
        let best = |clean| bits::best_window(&windows_of_kinds(&parts, n, clean), n, len, rule);
        let start = match self.wish.orphans {
            Orphans::Allow => best(false)?,
            Orphans::Forbid => best(true)?,
            Orphans::Avoid => best(false).map(|any| best(true).unwrap_or(any))?,
        };
        // Two seats beside the run tell whether a single one stays.
        let run = start.saturating_sub(2)..start + n + 2;
        let gained = run.filter(|&position| {
            show.seats_of(strip).kept.place(position).is_some_and(|place| bits::is_set(&seats.gained, place))
        });
        let seats: Vec<Seat> = gained.map(|position| base + position as Seat).collect();
        (!seats.is_empty()).then_some(seats)
    }

    /// The strips of these buckets; if the request takes seats of a block, those with seats of the block.
    fn strips(&self, buckets: &[u32]) -> impl Iterator<Item = Strip> {
        let strips = buckets.iter().flat_map(|&bucket| self.show.bucket_at(bucket).strips.iter().copied());
        strips.filter(|strip| self.wish.from.is_none() || self.has_some_of_block(*strip))
    }

    fn has_some_of_block(&self, strip: Strip) -> bool {
        let base = self.show.venue.base(strip.row) as usize;
        let len = usize::from(self.show.venue.layout(strip.row).len);
        bits::count_in(&self.of_blocks.0, base..base + len) > 0
    }

    /// The seats of a strip. About 3 ns for each that is not free.
    fn seats(&self, strip: Strip) -> Seats {
        let (show, base) = (self.show, self.show.venue.base(strip.row));
        let (seats, free) = (show.seats_of(strip), show.free_seats(strip));
        let taken: Bits = seats.words.iter().zip(free).map(|(seats, free)| seats & !free).collect();
        let those = |is: &dyn Fn(Owner, Seat) -> bool| {
            seats.kept.filter(&taken, |position| {
                let seat = base + position as Seat;
                is(show.owner(seat), seat)
            })
        };
        let is_ours = |seat: Seat| self.of_blocks.has(seat) == self.wish.from.is_some();
        let gained = seats.kept.filter(&taken, |position| {
            let seat = base + position as Seat;
            match show.owner(seat) {
                Owner::Claim(id) => self.overdue.has(id) && self.replaced != Some(id) && is_ours(seat),
                Owner::Blocked => self.of_ended.has(seat),
                Owner::Free => false,
            }
        });
        let available = match self.wish.from {
            None => Bits::from_slice(free),
            Some(_) => those(&|owner, seat| owner == Owner::Blocked && is_ours(seat)),
        };
        let mut takeable = all(&available, &gained);
        let mut free = takeable.clone();
        if let Some(replaced) = self.replaced {
            let replaced = those(&|owner, seat| owner == Owner::Claim(replaced) && is_ours(seat));
            free = all(&free, &replaced);
            if self.again {
                takeable.clone_from(&free);
            }
        }
        Seats { takeable, free, gained }
    }
}

/// The bits of either.
fn all(one: &Bits, other: &Bits) -> Bits {
    one.iter().zip(other).map(|(one, other)| one | other).collect()
}

/// The ends of those of these holds that are overdue.
pub(super) fn expiries(show: &Show, now: Millis, mut holds: Vec<u32>) -> Events {
    holds.retain(|&id| is_overdue(show, id, now));
    holds.sort_unstable();
    holds.dedup();
    holds.into_iter().map(|id| Event::Expired { token: show.claims.get(id).token.clone() }).collect()
}

pub(super) fn is_overdue(show: &Show, id: u32, now: Millis) -> bool {
    matches!(show.claims.get(id).stage, Stage::Held { until } if until <= now)
}

pub(super) fn claim_of(show: &Show, seat: Seat) -> Option<u32> {
    match show.owner(seat) {
        Owner::Claim(id) => Some(id),
        Owner::Free | Owner::Blocked => None,
    }
}
