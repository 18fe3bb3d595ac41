//! The rows that a search reads, of one kind of seats.
//!
//! Rows come in *groups*: a group is a bucket, or a half of an area that is read as a whole (`whole_areas`). The rows of a
//! group have *places*, in seat order. What a request may take, which lengths of runs there are, and which is the first
//! row with a run, is answered from the index of the bucket or by the whole area. *Changed rows* hide those of the index:
//! rows in which seats of the replaced hold count as free, or in which seats are queued for others, and the rows of the block
//! of a request, or with seats that are free in several shows, which are then the only ones.

use super::rules::resolve;
use super::whole_areas::{Half, WholeAreas};
use crate::seat::bits::{self, Bits};
use crate::seat::claims::Seats;
use crate::seat::index::{LONG, Runs, clean_run_of, exactly, run_of};
use crate::seat::kind::{Kind, Kinds};
use crate::seat::plan::Rule;
use crate::seat::state::{Bucket, Show, View};
use crate::seat::venue::{Area, Row, Seat};
use crate::seat::wish::{NamedWish, NumberedWish, Part};
use crate::shared::invariant::Expected;
use std::borrow::Cow;
use std::rc::Rc;

/// The kind of run that a row must have.
#[derive(Clone, Copy)]
pub(super) enum RunNeed {
    /// A run of at least this length.
    Run(usize),
    /// The same, without stranding a seat.
    Clean(usize),
    /// A run of exactly this length.
    Exactly(usize),
}

impl RunNeed {
    fn lengths(self) -> u128 {
        match self {
            Self::Run(n) => run_of(n),
            Self::Clean(n) => clean_run_of(n),
            Self::Exactly(n) => exactly(n),
        }
    }

    /// Whether the index may take other runs for such ones, so that each row that it finds is looked at.
    fn is_unclear(self) -> bool {
        match self {
            Self::Run(n) => n > LONG,
            Self::Clean(n) => n + 2 > LONG,
            Self::Exactly(_) => false,
        }
    }

    /// Whether there is such a run among the seats that may be taken; all free seats tell which is stranded.
    fn is_met_by(self, takeable: &[u64], free: &[u64]) -> bool {
        let some = |starts: Bits| starts.iter().any(|&word| word != 0);
        match self {
            Self::Run(n) => some(bits::windows(takeable, n)),
            Self::Clean(n) => some(bits::stranding_nobody(&bits::windows(takeable, n), free, n)),
            Self::Exactly(n) => bits::runs(takeable).any(|(_, len)| len == n),
        }
    }
}

/// Where a run is in the order of its area, the least first: its distance from the focus, which is 0 but with the rule
/// `focus`; then its row, and its place there by rule.
pub(super) type Order = (u64, Row, (usize, usize));

/// The seats of a row as the request sees them.
#[derive(Clone, Default)]
pub(super) struct StripView {
    /// The seats that may be taken.
    pub(super) takeable: Bits,
    /// The same, and those of the replaced hold that must not be taken again.
    pub(super) free: Bits,
}

impl StripView {
    /// All of these may be taken.
    pub(super) fn all(seats: Bits) -> Self {
        Self { takeable: seats.clone(), free: seats }
    }

    /// Starts of the runs of `n` seats; if `clean`, of those that strand no seat.
    pub(super) fn windows(&self, n: usize, clean: bool) -> Bits {
        let all = bits::windows(&self.takeable, n);
        if clean { bits::stranding_nobody(&all, &self.free, n) } else { all }
    }
}

/// A row that hides that of the index.
struct ChangedRow {
    group: u32,
    place: u32,
    seats: StripView,
    /// How many seats the index counts in the row.
    indexed: usize,
}

/// A seat of a changed row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ChangedSeat {
    group: u32,
    place: u32,
    seat: Seat,
    takeable: bool,
    free: bool,
}

/// What a search sees that is not free to all.
#[derive(Clone, Copy, Default)]
pub(in crate::seat) struct Sees<'a> {
    /// The seats of the replaced hold, which count as free.
    pub(in crate::seat) replaced: &'a [Seat],
    /// Whether they may be taken again.
    pub(in crate::seat) again: bool,
    /// Whether queued seats count as free: the search is for somebody who waits.
    pub(in crate::seat) queued: bool,
}

/// The rows of a request, of one kind of seats.
pub(super) struct Rows<'a> {
    pub(super) show: &'a Show,
    kind: Kind,
    /// The areas that are read as a whole, and the number of the kind there.
    whole: Option<Rc<WholeAreas<'a>>>,
    kind_number: usize,
    /// By group and place.
    changed: Vec<ChangedRow>,
    /// Whether there are no other rows: the request takes seats of a block, or those that are free in several shows.
    only_changed: bool,
    /// Whether every seat counts as free. Then no row is changed, and none is found by the index.
    all_seats: bool,
}

/// Buckets of the requested tier and areas, by priority, then plan order.
pub(super) fn candidates<'a>(show: &'a Show, wish: &NumberedWish) -> Cow<'a, [u32]> {
    let all = show.candidates(wish.tier);
    if wish.areas.is_empty() {
        return Cow::Borrowed(all);
    }
    let buckets = wish.areas.iter().flat_map(|&area| show.buckets_of(area));
    let of_tier = |bucket: &u32| wish.tier.is_none_or(|tier| show.bucket_at(*bucket).tier == tier);
    let mut some: Vec<u32> = buckets.filter(of_tier).collect();
    some.sort_unstable_by_key(|&bucket| (show.priority(bucket), bucket));
    some.dedup();
    Cow::Owned(some)
}

fn kinds_of(wish: &NumberedWish) -> Kinds {
    std::iter::once(wish.kind()).chain(wish.parts().into_iter().map(|part| part.kind)).collect()
}

impl Show {
    /// Makes indexes for a wish with flags or needs, called before the request is decided. A wish that will be refused
    /// gets none.
    pub fn prepare(&mut self, wish: &NamedWish<'_>) {
        if wish.flags.is_empty() && wish.needs.is_empty() || wish.from.is_some() {
            return;
        }
        if let Ok(wish) = wish.check().and_then(|()| resolve(self, wish)) {
            let buckets = candidates(self, &wish).into_owned();
            self.make_views(&buckets, &kinds_of(&wish));
        }
    }
}

impl<'a> Rows<'a> {
    /// The rows of a request for all seats that it may take, and for a party with needs those of each kind.
    pub(super) fn of(show: &'a Show, wish: &NumberedWish, sees: &Sees<'_>) -> (Self, Vec<(Part, Self)>) {
        let whole = if (wish.flags != 0 || !wish.needs.is_empty()) && wish.from.is_none() {
            WholeAreas::among(show, wish.tier, &candidates(show, wish), kinds_of(wish)).map(Rc::new)
        } else {
            None
        };
        let changed = changed_seats(show, wish, sees, whole.as_deref());
        Self::of_kinds(wish, |kind_number, kind| {
            let (whole, only_changed) = (whole.clone(), wish.from.is_some());
            let (none, all_seats) = (Vec::new(), false);
            let mut rows = Self { show, kind, whole, kind_number, changed: none, only_changed, all_seats };
            rows.changed = rows.changed_rows(&changed);
            rows
        })
    }

    /// As `of`, for a search that looks at single rows of buckets; queued seats count as free, and with `all_seats` all
    /// others as well.
    pub(super) fn one_by_one(
        show: &'a Show,
        wish: &NumberedWish,
        all_seats: bool,
    ) -> (Self, Vec<(Part, Self)>) {
        Self::of_kinds(wish, |kind_number, kind| {
            let (whole, changed, only_changed) = (None, Vec::new(), false);
            Self { show, kind, whole, kind_number, changed, only_changed, all_seats }
        })
    }

    fn of_kinds(wish: &NumberedWish, of_kind: impl Fn(usize, Kind) -> Self) -> (Self, Vec<(Part, Self)>) {
        let parts = wish.parts().into_iter().zip(1..);
        let parts = parts.map(|(part, number)| (part, of_kind(number, part.kind))).collect();
        (of_kind(0, wish.kind()), parts)
    }

    /// The rows with these seats, of which those of this kind change.
    fn changed_rows(&self, seats: &[ChangedSeat]) -> Vec<ChangedRow> {
        let mut rows: Vec<ChangedRow> = Vec::new();
        for &ChangedSeat { group, place, seat, takeable, free } in seats {
            if rows.last().is_none_or(|row| (row.group, row.place) != (group, place)) {
                let mut seats = self.seats(group, place);
                if self.only_changed {
                    seats.takeable.fill(0);
                    seats.free.fill(0);
                }
                let indexed = bits::count(&seats.takeable) as usize;
                rows.push(ChangedRow { group, place, seats, indexed });
            }
            let venue = &self.show.venue;
            let position = (seat - venue.base(venue.row_of(seat))) as usize;
            let of_kind = self.kind.takes(venue.flags_of(seat));
            if let Some(row) = rows.last_mut().filter(|_| of_kind) {
                bits::put(&mut row.seats.free, position, free);
                bits::put(&mut row.seats.takeable, position, takeable);
            }
        }
        rows
    }

    /// The groups to search, by priority, then plan order.
    pub(super) fn groups(&self, wish: &NumberedWish) -> Cow<'a, [u32]> {
        if self.only_changed {
            let mut groups: Vec<u32> = self.changed.iter().map(|row| row.group).collect();
            groups.dedup();
            groups.sort_unstable_by_key(|&group| (self.priority(group), self.area_of(group), group));
            return Cow::Owned(groups);
        }
        let buckets = candidates(self.show, wish);
        match &self.whole {
            None => buckets,
            Some(whole) => Cow::Owned(whole.halves_for(&buckets)),
        }
    }

    /// Reads only the seats that `keep` leaves of each row. O(rows), and the cost of `keep`.
    pub(super) fn restrict(&mut self, wish: &NumberedWish, keep: impl Fn(Row, &mut StripView)) {
        let places: Vec<(u32, u32)> = if self.only_changed {
            self.changed.iter().map(|row| (row.group, row.place)).collect()
        } else {
            let groups = self.groups(wish);
            groups
                .iter()
                .flat_map(|&group| (0..self.places(group)).map(move |place| (group, place)))
                .collect()
        };
        // Rows in which nothing is left hide those of the index, too.
        let kept = places.into_iter().map(|(group, place)| {
            let mut seats = self.seats(group, place);
            if bits::count(&seats.free) > 0 {
                keep(self.row(group, place), &mut seats);
            }
            ChangedRow { group, place, seats, indexed: 0 }
        });
        let mut kept: Vec<ChangedRow> = kept.collect();
        kept.sort_unstable_by_key(|row| (row.group, row.place));
        self.changed = kept;
        self.only_changed = true;
    }

    /// How many places a group has.
    fn places(&self, group: u32) -> u32 {
        self.half(group).map_or_else(
            || self.show.bucket_at(group).strips.len() as u32,
            |(whole, half)| whole.places(half),
        )
    }

    /// These groups by priority.
    pub(super) fn levels<'b>(&'b self, groups: &'b [u32]) -> impl Iterator<Item = &'b [u32]> {
        groups.chunk_by(|&one, &other| self.priority(one) == self.priority(other))
    }

    /// These groups by area.
    pub(super) fn areas<'b>(&'b self, groups: &'b [u32]) -> impl Iterator<Item = &'b [u32]> {
        groups.chunk_by(|&one, &other| self.area_of(one) == self.area_of(other))
    }

    fn priority(&self, group: u32) -> i32 {
        self.show.venue.area(self.area_of(group)).priority
    }

    pub(super) fn area_of(&self, group: u32) -> Area {
        self.half(group).map_or_else(|| self.show.bucket_at(group).area, |(_, half)| half.area)
    }

    /// The bucket of that number; `None` for a half.
    pub(super) fn bucket(&self, group: u32) -> Option<&'a Bucket> {
        self.half(group).is_none().then(|| self.show.bucket_at(group))
    }

    /// The half of that number, with the areas that are read as a whole; `None` for a bucket.
    fn half(&self, group: u32) -> Option<(&WholeAreas<'a>, Half)> {
        let whole = self.whole.as_deref()?;
        Some((whole, whole.half(group)?))
    }

    /// Whether these groups are of a standing area, in which every party stands together.
    pub(super) fn is_standing(&self, area: &[u32]) -> bool {
        area.first().is_some_and(|&group| self.show.venue.area(self.area_of(group)).standing)
    }

    /// The row at a place of a group.
    pub(super) fn row(&self, group: u32, place: u32) -> Row {
        match self.half(group) {
            Some((whole, half)) => whole.row(half, place),
            None => self.show.strip(group, place).map_or(0, |strip| strip.row),
        }
    }

    /// Positions of a row, and the rule of its area; standing places are taken by their numbers.
    pub(super) fn shape(&self, row: Row) -> (usize, Rule) {
        let venue = &self.show.venue;
        let area = venue.area(venue.area_of(row));
        let rule = if area.standing { Rule::Ltr } else { area.rule };
        (usize::from(venue.layout(row).len), rule)
    }

    /// Where the run of `n` seats of a row from a position on is in the order of its area.
    pub(super) fn order(&self, row: Row, start: usize, n: usize) -> Order {
        let (len, rule) = self.shape(row);
        let distance = if rule == Rule::Focus { self.show.venue.distance(row, start, n) } else { 0 };
        (distance, row, bits::order(start, n, len, rule))
    }

    /// No run of the row comes before this one in the order of its area.
    pub(super) fn least_order(&self, row: Row) -> Order {
        (self.show.venue.least_distance(row), row, (0, 0))
    }

    /// The best of the runs of `n` seats that start at these positions of a row. O(words), with the rule `focus` O(runs).
    pub(super) fn best_start(&self, row: Row, starts: &[u64], n: usize) -> Option<usize> {
        match self.shape(row) {
            (_, Rule::Focus) => bits::ones(starts).min_by_key(|&start| self.order(row, start, n)),
            (len, rule) => bits::best_window(starts, n, len, rule),
        }
    }

    /// The `n` seats of a row from a position on.
    pub(super) fn window(&self, row: Row, start: usize, n: usize) -> Seats {
        let first = self.show.venue.base(row) + start as Seat;
        (first..first + n as Seat).collect()
    }

    /// The seats at a place of a group.
    pub(super) fn seats(&self, group: u32, place: u32) -> StripView {
        if let Some(changed) = self.changed_at(group, place) {
            return changed.seats.clone();
        }
        StripView::all(match self.half(group) {
            Some((whole, half)) => whole.seats(half, self.kind_number, place),
            None => self.show.strip(group, place).map_or_else(Bits::new, |strip| {
                if self.all_seats {
                    self.show.seats_of_kind(strip, self.kind)
                } else {
                    self.show.takeable(strip, self.kind)
                }
            }),
        })
    }

    fn changed_at(&self, group: u32, place: u32) -> Option<&ChangedRow> {
        let found = self.changed.binary_search_by_key(&(group, place), |row| (row.group, row.place));
        found.ok().and_then(|at| self.changed.get(at))
    }

    /// The changed rows of a group from a place on.
    fn changed_from(&self, group: u32, place: u32) -> impl Iterator<Item = &ChangedRow> {
        let first = self.changed.partition_point(|row| (row.group, row.place) < (group, place));
        self.changed.iter().skip(first).take_while(move |row| row.group == group)
    }

    /// Seats of these groups that may be taken; counted only until there are `enough`.
    pub(super) fn free_of(&self, area: &[u32], enough: usize) -> usize {
        let mut free: usize = 0;
        area.iter().any(|&group| {
            free += self.free(group, enough - free);
            free >= enough
        });
        free
    }

    fn free(&self, group: u32, enough: usize) -> usize {
        if self.all_seats {
            let mut seats = 0;
            (0..self.places(group)).any(|place| {
                seats += bits::count(&self.seats(group, place).free) as usize;
                seats >= enough
            });
            return seats;
        }
        // The seats that changed rows have now, and those that the index counts there.
        let (changed, hidden) = self.changed_from(group, 0).fold((0, 0), |(seats, indexed), row| {
            (seats + bits::count(&row.seats.takeable) as usize, indexed + row.indexed)
        });
        let indexed = match self.half(group) {
            _ if self.only_changed => 0,
            Some((whole, half)) => whole.free(half, self.kind_number, enough + hidden),
            None => self.view(group).map_or(0, |view| view.free as usize),
        };
        changed + indexed - hidden
    }

    /// The index of a bucket; `None` if the bucket has no seat of this kind. An area in which a bucket lacks its index is
    /// read as a whole.
    fn view(&self, bucket: u32) -> Option<&'a View> {
        self.show.bucket_at(bucket).view(self.kind)
    }

    /// Lengths of the runs that may exist in a group; where a row is changed, also those that it had before.
    pub(super) fn lengths(&self, group: u32) -> u128 {
        let indexed = match self.half(group) {
            _ if self.only_changed => 0,
            Some((whole, half)) => whole.lengths(half, self.kind_number),
            None => self.view(group).map_or(0, |view| view.runs.all().lengths),
        };
        let changed = self.changed_from(group, 0);
        changed.fold(indexed, |union, row| union | Runs::of(&row.seats.takeable).lengths)
    }

    /// Whether a group has a row with such a run.
    pub(super) fn has(&self, group: u32, need: RunNeed) -> bool {
        let is_indexed = self.changed.is_empty() && !self.only_changed && self.half(group).is_none();
        if is_indexed && !need.is_unclear() {
            return self.view(group).is_some_and(|view| view.runs.all().lengths & need.lengths() != 0);
        }
        self.first(group, 0, need).is_some()
    }

    /// The first place of a group from `from` on that has such a run. O(log rows + changed rows); for more seats than the
    /// index tells apart, O(log rows) for each row with a long run before it.
    pub(super) fn first(&self, group: u32, from: u32, need: RunNeed) -> Option<u32> {
        let changed =
            self.changed_from(group, from).find(|row| need.is_met_by(&row.seats.takeable, &row.seats.free));
        let changed = changed.map(|row| row.place);
        if self.only_changed {
            return changed;
        }
        let mut at = from;
        let indexed = loop {
            let found = if let Some((whole, half)) = self.half(group) {
                whole.first(half, self.kind_number, at, |seats| need.is_met_by(seats, seats))
            } else {
                let found = self.view(group).and_then(|view| view.runs.first(at as usize, need.lengths()));
                found.map(|place| place as u32)
            };
            match found {
                Some(place) if self.changed_at(group, place).is_some() => at = place + 1,
                Some(place) if need.is_unclear() && !self.has_run(group, place, need) => at = place + 1,
                found => break found,
            }
        };
        match (changed, indexed) {
            (Some(changed), Some(indexed)) => Some(changed.min(indexed)),
            (changed, indexed) => changed.or(indexed),
        }
    }

    fn has_run(&self, group: u32, place: u32, need: RunNeed) -> bool {
        let seats = self.seats(group, place);
        need.is_met_by(&seats.takeable, &seats.free)
    }

    /// The rows of an area that have such a run in one of these groups, in seat order.
    pub(super) fn walk<'b>(&'b self, area: &'b [u32], need: RunNeed) -> Walk<'b, 'a> {
        let next = area.iter().map(|&group| self.first(group, 0, need)).collect();
        Walk { rows: self, area, need, next }
    }
}

/// Walks the rows of an area, merging its groups.
pub(super) struct Walk<'b, 'a> {
    rows: &'b Rows<'a>,
    area: &'b [u32],
    need: RunNeed,
    /// The next place of each group.
    next: Vec<Option<u32>>,
}

impl Iterator for Walk<'_, '_> {
    /// A row with the needed run, and the groups and places in which the row has one.
    type Item = (Row, Vec<(u32, u32)>);

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows;
        let heads =
            || self.area.iter().zip(&self.next).filter_map(|(&group, next)| next.map(|place| (group, place)));
        let row = heads().map(|(group, place)| rows.row(group, place)).min()?;
        let places: Vec<(u32, u32)> =
            heads().filter(|&(group, place)| rows.row(group, place) == row).collect();
        for (&group, next) in self.area.iter().zip(&mut self.next) {
            if let Some(place) = next.filter(|&place| rows.row(group, place) == row) {
                *next = rows.first(group, place + 1, self.need);
            }
        }
        Some((row, places))
    }
}

/// The seats that a request sees in another way than the index, by group and place: those of its block, those of the
/// replaced hold, and queued ones. Only seats of the areas and the tier of the wish. None for most requests. O(B log B) with
/// B seats of the block, or so many queued ones.
fn changed_seats(
    show: &Show,
    wish: &NumberedWish,
    sees: &Sees<'_>,
    whole: Option<&WholeAreas<'_>>,
) -> Vec<ChangedSeat> {
    let &Sees { replaced, again, queued } = sees;
    let blocked = wish.from.map_or_else(Seats::new, |block| show.blocked_seats(block));
    // The seats of a replaced hold return to their block.
    let replaced = replaced.iter().filter(|&&seat| show.blocks.of(seat) == wish.from);
    let replaced = replaced.map(|&seat| (seat, again, true));
    let hides_queued = !queued && wish.from.is_none();
    let hidden = hides_queued.then(|| show.waiters.queued().iter()).into_iter().flatten();
    let hidden = hidden.map(|&seat| (seat, false, false));
    let mut seats: Vec<ChangedSeat> = Vec::new();
    let blocked = blocked.into_iter().map(|seat| (seat, true, true));
    for (seat, takeable, free) in blocked.chain(replaced).chain(hidden) {
        let Some((bucket, strip)) =
            show.strip_of(seat).expected("a seat of a hold or a block lies in a bucket")
        else {
            continue;
        };
        let info = show.bucket_at(bucket);
        let wanted = wish.tier.is_none_or(|tier| tier == info.tier)
            && (wish.areas.is_empty() || wish.areas.contains(&info.area));
        if wanted {
            let (group, place) = whole.and_then(|whole| whole.place_of(seat)).unwrap_or((bucket, strip));
            seats.push(ChangedSeat { group, place, seat, takeable, free });
        }
    }
    seats.sort_unstable();
    seats
}
