//! Best seating: chooses the seats of a hold (steps 4 to 9 of "Best seating, exactly" in docs/seats.md).

use super::lifted::{Lifted, LiftedSeat, lifted_seats, lifted_strips};
use super::whole_areas::{Half, Kinds, WholeAreas};
use super::wish::{Found, Need, StripSeats, Wish};
use crate::invariant;
use crate::seat::bits;
use crate::seat::choice::Kind;
use crate::seat::claims::Seats;
use crate::seat::plan::Rule;
use crate::seat::request::{Adjacent, Orphans};
use crate::seat::state::{Bucket, Show, Strip};
use crate::seat::venue::{Area, Row, Seat};
use std::borrow::Cow;
use std::rc::Rc;

/// One search: the show, the request, and the seats of a replaced hold, which count as free.
pub struct Search<'a> {
    pub(super) show: &'a Show,
    pub(super) wish: &'a Wish,
    /// The seats that may be taken.
    kind: Kind,
    /// The areas that are searched without views, and the number of the kind there.
    whole: Option<Rc<WholeAreas<'a>>>,
    kind_number: usize,
    /// By bucket and strip.
    lifted: Vec<Lifted>,
    /// Whether the seats of the replaced hold may be taken again.
    again: bool,
    /// For a party with needs: how many seats of each kind it takes, and the search among these; first the seats without
    /// a needed flag. Empty for other requests.
    pub(super) parts: Vec<(usize, Self)>,
}

impl<'a> Search<'a> {
    /// A search over the show; the seats of `replaced` count as free, and may be taken if `again` is set.
    pub fn new(show: &'a Show, wish: &'a Wish, replaced: &[Seat], again: bool) -> Self {
        let whole = whole_areas(show, wish).map(Rc::new);
        let lifted = lifted_seats(show, wish, replaced, again, whole.as_deref());
        let of_kind = |number, kind| Self::of_kind(show, wish, (number, kind), &lifted, again, whole.clone());
        let mut search = of_kind(0, wish.kind());
        if !wish.needs.is_empty() {
            let parts = wish.parts().into_iter().zip(1..);
            search.parts = parts.map(|((count, kind), number)| (count, of_kind(number, kind))).collect();
        }
        search
    }

    fn of_kind(
        show: &'a Show,
        wish: &'a Wish,
        (kind_number, kind): (usize, Kind),
        lifted: &[LiftedSeat],
        again: bool,
        whole: Option<Rc<WholeAreas<'a>>>,
    ) -> Self {
        let mut search =
            Self { show, wish, kind, whole, kind_number, lifted: Vec::new(), again, parts: Vec::new() };
        search.lifted = lifted_strips(show, wish, kind, lifted, |bucket, strip| search.seats(bucket, strip));
        search
    }

    /// Runs the search. O(count log rows + areas).
    pub fn run(&self) -> Found {
        let candidates = match self.wish.from {
            None => self.candidates_and_halves(),
            Some(_) => Cow::Owned(self.candidates_in_block()),
        };
        if !self.has_enough(&candidates) {
            return Found::TooFew;
        }
        let seats = match (self.wish.adjacent, self.wish.orphans) {
            (Adjacent::Ignore, _) => Some(self.first_seats(&candidates)),
            (Adjacent::Area, _) => self.best_area_first(&candidates),
            (Adjacent::Prefer, orphans) if orphans != Orphans::Forbid => {
                Some(self.together(&candidates).unwrap_or_else(|| self.scattered(&candidates)))
            }
            _ => self.together(&candidates),
        };
        let Some(mut seats) = seats else { return Found::NotAdjacent };
        seats.sort_unstable();
        let distinct = seats.windows(2).all(|pair| matches!(pair, [a, b] if a < b));
        if !invariant!(
            seats.len() == self.wish.count && distinct,
            "a request gets as many seats as it asked for"
        ) {
            return Found::TooFew;
        }
        Found::Seats(seats)
    }

    /// Buckets of the requested tier and areas, by priority, then plan order.
    pub(super) fn candidates(show: &'a Show, wish: &Wish) -> Cow<'a, [u32]> {
        let all = show.candidates(wish.tier);
        if wish.areas.is_empty() {
            return Cow::Borrowed(all);
        }
        let mut some: Vec<u32> = wish
            .areas
            .iter()
            .flat_map(|&area| show.buckets_of(area))
            .filter(|&bucket| wish.tier.is_none_or(|tier| show.bucket_at(bucket).tier == tier))
            .collect();
        some.sort_unstable_by_key(|&bucket| (show.priority(bucket), bucket));
        some.dedup();
        Cow::Owned(some)
    }

    /// The candidates; the halves of areas that are read as a whole instead of their buckets.
    fn candidates_and_halves(&self) -> Cow<'a, [u32]> {
        let buckets = Self::candidates(self.show, self.wish);
        match &self.whole {
            None => buckets,
            Some(whole) => Cow::Owned(whole.halves_for(&buckets)),
        }
    }

    /// The candidates with seats of the block, in the same order. O(rows of the block).
    fn candidates_in_block(&self) -> Vec<u32> {
        let mut buckets: Vec<u32> = self.lifted.iter().map(|one| one.bucket).collect();
        buckets.dedup();
        buckets.sort_unstable_by_key(|&bucket| (self.show.priority(bucket), bucket));
        buckets
    }

    /// Step 3, PREFER and REQUIRE: the best run in the best level that has one.
    fn together(&self, candidates: &[u32]) -> Option<Seats> {
        let need = self.need();
        self.levels(candidates).find_map(|level| {
            let area = self.whose_turn(level, |area| self.seats_together(area, need))?;
            self.best_run(area)
        })
    }

    /// The kind of run that seats the group together.
    fn need(&self) -> Need {
        match self.wish.orphans {
            Orphans::Forbid => Need::Clean(self.wish.count),
            Orphans::Avoid | Orphans::Allow => Need::Run(self.wish.count),
        }
    }

    /// Step 3, AREA: the best level in which an area has enough seats, and there an area with a run, if possible.
    fn best_area_first(&self, candidates: &[u32]) -> Option<Seats> {
        let need = self.need();
        let may_scatter = self.wish.orphans != Orphans::Forbid;
        let Some(level) =
            self.levels(candidates).find(|level| self.areas(level).any(|area| self.has_enough(area)))
        else {
            return may_scatter.then(|| self.scattered_over(candidates));
        };
        if let Some(area) = self.whose_turn(level, |area| self.seats_together(area, need)) {
            return self.best_run(area);
        }
        let area = self.whose_turn(level, |area| self.has_enough(area)).filter(|_| may_scatter)?;
        Some(self.scattered_in(area))
    }

    /// Step 5: in one area if one has enough seats, otherwise over several.
    fn scattered(&self, candidates: &[u32]) -> Seats {
        let one =
            self.levels(candidates).find_map(|level| self.whose_turn(level, |area| self.has_enough(area)));
        one.map_or_else(|| self.scattered_over(candidates), |area| self.scattered_in(area))
    }

    /// Step 4: among the areas of a level that can serve the request, the one served longest ago.
    fn whose_turn<'b>(&'b self, level: &'b [u32], can: impl Fn(&[u32]) -> bool) -> Option<&'b [u32]> {
        self.areas(level).filter(|area| can(area)).min_by_key(|area| self.last_turn(area))
    }

    fn last_turn(&self, area: &[u32]) -> u64 {
        let turn = area.first().and_then(|&bucket| match (self.wish.tier, self.half(bucket)) {
            (None, _) => self.show.area_turns.get(self.area_of(bucket) as usize).copied(),
            (Some(_), None) => Some(self.show.bucket_at(bucket).turn),
            (Some(tier), Some((_, half))) => {
                let mut buckets = self.show.buckets_of(half.area).map(|bucket| self.show.bucket_at(bucket));
                buckets.find(|bucket| bucket.tier == tier).map(|bucket| bucket.turn)
            }
        });
        invariant!(turn.is_some(), "an area of the candidates has a bucket and a turn");
        turn.unwrap_or(0)
    }

    /// Step 4: the best run of an area, over all its candidate buckets.
    fn best_run(&self, area: &[u32]) -> Option<Seats> {
        let n = self.wish.count;
        if self.is_standing(area) {
            return self.has_enough(area).then(|| self.first_seats(area));
        }
        if !self.parts.is_empty() {
            return self.best_run_of_party(area);
        }
        let needs: &[(Need, bool)] = match self.wish.orphans {
            Orphans::Avoid => &[(Need::Clean(n), true), (Need::Run(n), false)],
            Orphans::Allow => &[(Need::Run(n), false)],
            Orphans::Forbid => &[(Need::Clean(n), true)],
        };
        needs.iter().find_map(|&(need, clean)| {
            let mut best: Option<(Row, usize)> = None;
            for &bucket in area {
                let Some(strip) = self.first(bucket, 0, need) else { continue };
                let row = self.row(bucket, strip);
                if best.is_some_and(|(best, _)| best < row) {
                    continue;
                }
                let (len, rule) = self.shape(row);
                let starts = self.seats(bucket, strip).windows(n, clean);
                let Some(start) = bits::best_window(&starts, n, len, rule) else {
                    invariant!("a row of the index has the run");
                    continue;
                };
                let better =
                    |(other, at): (Row, usize)| row < other || bits::is_better(start, at, n, len, rule);
                if best.is_none_or(better) {
                    best = Some((row, start));
                }
            }
            best.map(|(row, start)| self.window(row, start, n))
        })
    }

    /// The half of that number, with the areas that are read as a whole; `None` for a bucket.
    fn half(&self, number: u32) -> Option<(&WholeAreas<'a>, Half)> {
        let whole = self.whole.as_deref()?;
        Some((whole, whole.half(number)?))
    }

    fn area_of(&self, bucket: u32) -> Area {
        self.half(bucket).map_or_else(|| self.show.bucket_at(bucket).area, |(_, half)| half.area)
    }

    // The functions below take the seats of the replaced hold into account.

    fn is_lifted(&self, bucket: u32, strip: u32) -> Option<&Lifted> {
        let found = self.lifted.binary_search_by_key(&(bucket, strip), |one| (one.bucket, one.strip));
        found.ok().and_then(|at| self.lifted.get(at))
    }

    fn lifted_in(&self, bucket: u32) -> impl Iterator<Item = &Lifted> {
        self.lifted_from(bucket, 0)
    }

    /// The same, from this strip on.
    fn lifted_from(&self, bucket: u32, strip: u32) -> impl Iterator<Item = &Lifted> {
        let first = self.lifted.partition_point(|one| (one.bucket, one.strip) < (bucket, strip));
        self.lifted.iter().skip(first).take_while(move |one| one.bucket == bucket)
    }

    pub(super) fn seats(&self, bucket: u32, strip: u32) -> StripSeats {
        if let Some(lifted) = self.is_lifted(bucket, strip) {
            return StripSeats { takeable: lifted.seats.takeable.clone(), free: lifted.seats.free.clone() };
        }
        match self.half(bucket) {
            None => StripSeats::of(self.show, self.kind, bucket, strip),
            Some((whole, half)) => StripSeats::all(whole.seats(half, self.kind_number, strip)),
        }
    }

    /// Whether some seat of a bucket has the flag that is needed.
    fn may_have_some_in(&self, bucket: &Bucket) -> bool {
        self.kind.carried & !bucket.flags == 0
    }

    /// Seats of a bucket that the request may take; counted only until there are `enough`, if that is cheaper.
    fn free(&self, bucket: u32, enough: usize) -> usize {
        if self.wish.from.is_some() {
            return self.lifted_in(bucket).map(|one| bits::count(&one.seats.takeable) as usize).sum();
        }
        let free = match self.half(bucket) {
            Some((whole, half)) => whole.free(half, self.kind_number, enough),
            None => self.free_in_bucket(bucket),
        };
        if !self.again {
            return free;
        }
        let lifted =
            |one: &Lifted| bits::count(&one.seats.takeable) as usize - self.unlifted_count(bucket, one.strip);
        free + self.lifted_in(bucket).map(lifted).sum::<usize>()
    }

    fn free_in_bucket(&self, bucket: u32) -> usize {
        let info = self.show.bucket_at(bucket);
        if !self.may_have_some_in(info) {
            return 0;
        }
        match info.view(self.kind) {
            Some(view) => view.free as usize,
            None => (0..info.strips.len() as u32).map(|strip| self.unlifted_count(bucket, strip)).sum(),
        }
    }

    fn unlifted_count(&self, bucket: u32, strip: u32) -> usize {
        if let Some((whole, half)) = self.half(bucket) {
            return bits::count(&whole.seats(half, self.kind_number, strip)) as usize;
        }
        let strip = self.show.strip(bucket, strip);
        strip.map_or(0, |strip| bits::count(&self.show.takeable_words(strip, self.kind)) as usize)
    }

    /// Lengths of the runs of a strip, for buckets that have no view for the request.
    fn unlifted_lengths(&self, strip: Strip) -> u128 {
        self.show.runs_of(strip, &self.show.takeable_words(strip, self.kind)).lengths
    }

    /// Seats of these buckets that the request may take; counted only until there are `enough`.
    pub(super) fn free_of(&self, area: &[u32], enough: usize) -> usize {
        let mut free: usize = 0;
        area.iter().any(|&bucket| {
            free += self.free(bucket, enough - free);
            free >= enough
        });
        free
    }

    /// Lengths of runs that may exist in a bucket, including those that the seats of the replaced hold may form.
    pub(super) fn lengths(&self, bucket: u32) -> u128 {
        let indexed = match self.half(bucket) {
            _ if self.wish.from.is_some() => 0,
            Some((whole, half)) => whole.lengths(half, self.kind_number),
            None => self.lengths_in_bucket(bucket),
        };
        let lifted = |one: &Lifted| crate::seat::index::Runs::of(&one.seats.takeable).lengths;
        self.lifted_in(bucket).fold(indexed, |all, one| all | lifted(one))
    }

    fn lengths_in_bucket(&self, bucket: u32) -> u128 {
        let info = self.show.bucket_at(bucket);
        match info.view(self.kind) {
            _ if !self.may_have_some_in(info) => 0,
            Some(view) => view.runs.all().lengths,
            None => info.strips.iter().fold(0, |all, &strip| all | self.unlifted_lengths(strip)),
        }
    }

    /// Whether these buckets have enough seats for the request.
    fn has_enough(&self, buckets: &[u32]) -> bool {
        if !self.parts.is_empty() {
            return self.has_enough_of_each_kind(buckets);
        }
        self.free_of(buckets, self.wish.count) >= self.wish.count
    }

    /// Whether an area can seat the request together.
    fn seats_together(&self, area: &[u32], need: Need) -> bool {
        if self.is_standing(area) {
            return self.has_enough(area);
        }
        if self.parts.is_empty() {
            return area.iter().any(|&bucket| self.has(bucket, need));
        }
        self.run_of_party(area, matches!(need, Need::Clean(_))).is_some()
    }

    /// Whether a bucket has a row with such a run.
    fn has(&self, bucket: u32, need: Need) -> bool {
        if !self.lifted.is_empty() || self.wish.from.is_some() || self.half(bucket).is_some() {
            return self.first(bucket, 0, need).is_some();
        }
        match self.show.bucket_at(bucket).view(self.kind) {
            Some(view) => view.runs.all().lengths & need.lengths() != 0,
            None => self.first(bucket, 0, need).is_some(),
        }
    }

    /// The first strip of a bucket from `from` on that has such a run. O(log rows + lifted).
    pub(super) fn first(&self, bucket: u32, from: u32, need: Need) -> Option<u32> {
        let lifted =
            self.lifted_from(bucket, from).find(|one| need.is_met_by(&one.seats)).map(|one| one.strip);
        if self.wish.from.is_some() {
            return lifted;
        }
        let mut at = from;
        let indexed = loop {
            let found = match self.half(bucket) {
                Some((whole, half)) => whole.first(half, self.kind_number, at, need.lengths()),
                None => self.first_in_bucket(bucket, at, need),
            };
            match found {
                // The index does not know the seats of the replaced hold.
                Some(strip) if self.is_lifted(bucket, strip).is_some() => at = strip + 1,
                found => break found,
            }
        };
        match (lifted, indexed) {
            (Some(lifted), Some(indexed)) => Some(lifted.min(indexed)),
            (lifted, indexed) => lifted.or(indexed),
        }
    }

    fn first_in_bucket(&self, bucket: u32, from: u32, need: Need) -> Option<u32> {
        let info = self.show.bucket_at(bucket);
        match info.view(self.kind) {
            _ if !self.may_have_some_in(info) => None,
            Some(view) => view.runs.first(from as usize, need.lengths()).map(|strip| strip as u32),
            None => info.strips.get(from as usize..).and_then(|strips| {
                let wanted = |strip: &Strip| self.unlifted_lengths(*strip) & need.lengths() != 0;
                strips.iter().position(wanted).map(|found| from + found as u32)
            }),
        }
    }

    /// Rows of an area that have such a run in one of these buckets, in seat order.
    pub(super) fn rows<'b>(&'b self, area: &'b [u32], need: Need) -> Rows<'b, 'a> {
        let next = area.iter().map(|&bucket| self.first(bucket, 0, need)).collect();
        Rows { search: self, area, need, next }
    }

    fn levels<'b>(&'b self, candidates: &'b [u32]) -> impl Iterator<Item = &'b [u32]> {
        candidates.chunk_by(|&a, &b| self.priority(a) == self.priority(b))
    }

    pub(super) fn areas<'b>(&'b self, candidates: &'b [u32]) -> impl Iterator<Item = &'b [u32]> {
        candidates.chunk_by(|&a, &b| self.area_of(a) == self.area_of(b))
    }

    fn priority(&self, bucket: u32) -> i32 {
        self.show.venue.area(self.area_of(bucket)).priority
    }

    pub(super) fn row(&self, bucket: u32, strip: u32) -> Row {
        match self.half(bucket) {
            Some((whole, half)) => whole.row(half, strip),
            None => self.show.strip(bucket, strip).map_or(0, |strip| strip.row),
        }
    }

    /// Whether these buckets are of a standing area, in which every party stands together.
    pub(super) fn is_standing(&self, area: &[u32]) -> bool {
        area.first().is_some_and(|&bucket| self.show.venue.area(self.area_of(bucket)).standing)
    }

    /// Positions of a row, and the rule of its area; standing places are taken by their numbers.
    pub(super) fn shape(&self, row: Row) -> (usize, Rule) {
        let venue = &self.show.venue;
        let area = venue.area(venue.area_of(row));
        let rule = if area.standing { Rule::Ltr } else { area.rule };
        (usize::from(venue.layout(row).len), rule)
    }

    pub(super) fn window(&self, row: Row, start: usize, n: usize) -> Seats {
        let first = self.show.venue.base(row) + start as Seat;
        (first..first + n as Seat).collect()
    }
}

/// Walks the rows of an area, merging its buckets.
pub(super) struct Rows<'b, 'a> {
    search: &'b Search<'a>,
    area: &'b [u32],
    need: Need,
    /// The next strip of each bucket.
    next: Vec<Option<u32>>,
}

impl Rows<'_, '_> {
    /// The next row with the needed run, and its strips (bucket, strip) that have one.
    pub(super) fn next_row(&mut self) -> Option<(Row, Vec<(u32, u32)>)> {
        let search = self.search;
        let heads = || {
            self.area.iter().zip(&self.next).filter_map(|(&bucket, next)| next.map(|strip| (bucket, strip)))
        };
        let row = heads().map(|(bucket, strip)| search.row(bucket, strip)).min()?;
        let strips: Vec<(u32, u32)> =
            heads().filter(|&(bucket, strip)| search.row(bucket, strip) == row).collect();
        for (&bucket, next) in self.area.iter().zip(&mut self.next) {
            if let Some(strip) = next.filter(|&strip| search.row(bucket, strip) == row) {
                *next = search.first(bucket, strip + 1, self.need);
            }
        }
        Some((row, strips))
    }
}

/// The areas that a request searches without views: those in which a bucket lacks one. None for a request of a block, or
/// without flags.
fn whole_areas<'a>(show: &'a Show, wish: &Wish) -> Option<WholeAreas<'a>> {
    let has_flags = wish.flags != 0 || !wish.needs.is_empty();
    if !has_flags || wish.from.is_some() {
        return None;
    }
    let mut kinds: Kinds = std::iter::once(wish.kind()).collect();
    if !wish.needs.is_empty() {
        kinds.extend(wish.parts().into_iter().map(|(_, kind)| kind));
    }
    WholeAreas::among(show, wish.tier, &Search::candidates(show, wish), kinds)
}
