//! The venue: areas, rows and seats. A plan that changes makes a new venue, and `moves` knows where the seats of the old
//! one are. Equal rows share one layout, so a regular plan takes little memory.
//!
//! Inside, a seat is a number (`Seat`): all positions are numbered, by area in plan order, by row in rank order, or with the
//! rule `focus` by nearness. Breaks have numbers as well, so adjacent positions have adjacent numbers.

use super::kind::Flagged;
use super::labels::Labels;
use super::own_ids::OwnIds;
use super::places::{Frame, Places, RowPlaces};
use super::plan::{PlanArea, PlanRow, PlanSeat, PlanSeats, Point, Rule};
use super::sparse::Sparse;
use crate::invariant;
use crate::shared::MAX_IDENTIFIER;
use crate::shared::names::NameIndex;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;
use xxhash_rust::xxh3::Xxh3;

/// Number of a position of the show.
pub type Seat = u32;
/// Number of a row: areas in plan order, within an area by rank; with the rule `focus` the nearest first.
pub type Row = u32;
/// Number of an area in plan order.
pub type Area = u32;
/// Number of a tier, in order of first appearance.
pub type Tier = u16;

/// The venue of a show.
#[derive(Clone, Debug)]
pub struct Venue {
    pub(in crate::seat) areas: Vec<AreaInfo>,
    pub(in crate::seat) rows: Vec<RowInfo>,
    pub(in crate::seat) layouts: Vec<Layout>,
    pub(in crate::seat) row_labels: Box<str>,
    pub(in crate::seat) tiers: NumberedNames,
    pub(in crate::seat) flags: NumberedNames,
    pub(in crate::seat) seats: u32,
    pub(in crate::seat) positions: u32,
    pub(in crate::seat) area_by_id: NameIndex,
    pub(in crate::seat) rows_by_label: HashTable<Row>,
    pub(in crate::seat) hasher: DefaultHashBuilder,
    /// The row of the first position of each block of 64.
    pub(in crate::seat) row_of_block: Vec<Row>,
    pub(in crate::seat) own_ids: OwnIds,
    pub(in crate::seat) places: Places,
    /// The focus of areas without one of their own.
    pub(in crate::seat) focus: Option<Point>,
    /// See `arrangement`.
    pub(in crate::seat) arrangement: OnceLock<u32>,
}

/// One area.
#[derive(Clone, Debug)]
pub struct AreaInfo {
    /// First part of the ids of the area's seats.
    pub id: Box<str>,
    /// Name for people.
    pub name: Box<str>,
    /// The lowest is best.
    pub priority: i32,
    /// Order within a row.
    pub rule: Rule,
    /// Its own focus.
    pub focus: Option<Point>,
    /// Which way is across it, if its plan says where its rows are.
    pub(in crate::seat) frame: Option<Frame>,
    /// Its rows, in the order of their numbers.
    pub rows: Range<Row>,
    /// Its rows in the order of the plan; empty if they are numbered in this order.
    pub(in crate::seat) planned: Box<[Row]>,
    /// Whether its seats are standing places, see `standing`.
    pub standing: bool,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::seat) struct RowInfo {
    pub(in crate::seat) base: Seat,
    pub(in crate::seat) layout: u32,
    pub(in crate::seat) rank: i32,
    pub(in crate::seat) label_at: u32,
    pub(in crate::seat) label_len: u16,
    pub(in crate::seat) area: u16,
}

/// The layout of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Number of positions, with breaks.
    pub len: u16,
    /// Tiers of the row, by number, with the positions of each.
    pub tiers: Box<[(Tier, Sparse)]>,
    /// Positions with flags, and their flags as bits.
    pub flags: Box<[(u16, u64)]>,
    /// Labels of its seats.
    pub labels: Labels,
    /// The slot of each position in `tiers`, `NO_SLOT` for a break; empty if the row has one tier.
    pub(in crate::seat) slots: Box<[u16]>,
}

/// No tier: the slot of a break.
pub(in crate::seat) const NO_SLOT: u16 = u16::MAX;

impl Layout {
    /// A layout of `len` positions. O(positions).
    pub fn new(len: u16, mut tiers: Vec<(Tier, Sparse)>, flags: Vec<(u16, u64)>, labels: Labels) -> Self {
        tiers.sort_unstable_by_key(|&(tier, _)| tier);
        let mut slots = vec![NO_SLOT; if tiers.len() == 1 { 0 } else { len.into() }];
        for (slot, (_, seats)) in tiers.iter().enumerate().filter(|_| tiers.len() > 1) {
            for position in seats.ones() {
                match slots.get_mut(position) {
                    Some(entry) => *entry = slot as u16,
                    None => invariant!("a seat lies inside its row"),
                }
            }
        }
        let slots = slots.into();
        Self { len, tiers: tiers.into(), flags: flags.into(), labels, slots }
    }

    /// The tier of a position, as an index into `tiers`; `None` for a break.
    pub fn tier_slot(&self, position: usize) -> Option<usize> {
        if let [(_, only)] = &*self.tiers {
            return only.contains(position).then_some(0);
        }
        self.slots.get(position).filter(|&&slot| slot != NO_SLOT).map(|&slot| usize::from(slot))
    }

    /// The seats with flags in a word of the row. O(log flagged seats of the row), O(1) in a row of one word, or if all
    /// seats up to the end of the word have flags.
    pub fn flagged(&self, word: usize) -> Flagged<'_> {
        if usize::from(self.len) <= 64 {
            return Flagged(if word == 0 { &self.flags } else { &[] });
        }
        let before = |end: usize| match self.flags.get(end) {
            Some(&(at, _)) if usize::from(at) == end => end,
            _ => self.flags.partition_point(|&(at, _)| usize::from(at) < end),
        };
        Flagged(self.flags.get(before(word * 64)..before(word * 64 + 64)).unwrap_or_default())
    }

    /// Flags of a position as bits. O(log flagged seats of the row), O(1) if all seats up to this one have flags.
    pub fn flags_at(&self, position: usize) -> u64 {
        // No entry is behind the place of its position, since each position has at most one.
        let last = position.min(self.flags.len().saturating_sub(1));
        match self.flags.get(..=last) {
            None => 0,
            Some([.., (at, set)]) if usize::from(*at) == position => *set,
            Some(flags) => {
                let found = flags.binary_search_by_key(&position, |&(at, _)| usize::from(at)).ok();
                found.and_then(|found| flags.get(found)).map_or(0, |&(_, set)| set)
            }
        }
    }
}

/// Numbers names in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub(in crate::seat) struct NumberedNames {
    pub(in crate::seat) names: Vec<Box<str>>,
    pub(in crate::seat) by_name: NameIndex,
}

impl NumberedNames {
    /// The number of a name, if it has one.
    pub(in crate::seat) fn find(&self, name: &[u8]) -> Option<u16> {
        let has = |number: u32| self.names.get(number as usize).is_some_and(|one| one.as_bytes() == name);
        self.by_name.find(name, has).map(|number| number as u16)
    }

    /// The number of a name, which may be new.
    pub(in crate::seat) fn number(&mut self, name: &str) -> u16 {
        self.find(name.as_bytes()).unwrap_or_else(|| {
            let number = self.names.len() as u16;
            self.names.push(name.into());
            self.by_name.insert(name.as_bytes(), number.into());
            number
        })
    }
}

impl Venue {
    /// The plan of this venue in its normal form: the names of areas, and the short form of rows where possible.
    pub fn areas_as_plan(&self) -> Vec<PlanArea> {
        self.areas.iter().enumerate().map(|(number, area)| self.area_as_plan(number as Area, area)).collect()
    }

    fn area_as_plan(&self, number: Area, area: &AreaInfo) -> PlanArea {
        let (id, name) = (area.id.to_string(), Some(area.name.to_string()));
        let (priority, rule, focus) = (area.priority, area.rule, area.focus);
        if area.standing {
            let tier =
                self.layout(area.rows.start).tiers.first().map(|&(tier, _)| self.tier_name(tier).to_owned());
            let standing = Some(self.positions_in(number).len() as u32);
            return PlanArea { id, name, priority, rule, standing, tier, focus, rows: Vec::new() };
        }
        let rows = self.rows_in_plan(number).map(|row| self.row_as_plan(row)).collect();
        PlanArea { id, name, priority, rule, standing: None, tier: None, focus, rows }
    }

    fn row_as_plan(&self, row: Row) -> PlanRow {
        let layout = self.layout(row);
        let (label, rank) = (self.row_label(row).to_owned(), self.rank(row));
        let (at, step, points) = match self.places.of(row) {
            None => (None, None, None),
            Some(RowPlaces::Line([at, step])) => (Some(at), Some(step), None),
            Some(RowPlaces::Curve(points)) => (None, None, Some(points.to_vec())),
        };
        let tier_name =
            |slot: usize| layout.tiers.get(slot).map(|&(tier, _)| self.tier_name(tier).to_owned());
        if layout.tiers.len() == 1
            && layout.flags.is_empty()
            && !self.own_ids.has_one_in(self.positions_of(row))
            && let Some(short) = layout.labels.short_form(usize::from(layout.len))
        {
            return PlanRow {
                label,
                rank,
                tier: tier_name(0),
                at,
                step,
                points,
                seats: PlanSeats::Short(short),
            };
        }
        let seats = (0..layout.len).map(|position| {
            let slot = layout.tier_slot(usize::from(position))?;
            let mut label = String::new();
            layout.labels.write(position, &mut label);
            let flags = self.flag_names(layout.flags_at(usize::from(position))).map(str::to_owned).collect();
            let id = self.own_ids.of(self.base(row) + Seat::from(position)).map(str::to_owned);
            Some(PlanSeat { label, id, tier: tier_name(slot), flags })
        });
        PlanRow { label, rank, tier: None, at, step, points, seats: PlanSeats::List(seats.collect()) }
    }

    /// A hash of which seat, by its id, has which number. It is the same on every server, and differs, but for chance,
    /// after an alteration that gave a seat another number. The first call takes O(rows + labels of different rows + own
    /// ids), the others O(1).
    pub fn arrangement(&self) -> u32 {
        *self.arrangement.get_or_init(|| {
            let hash_of = |layout: &Layout| {
                let mut hash = Xxh3::new();
                (layout.len, &layout.labels).hash(&mut hash);
                hash.finish()
            };
            let layouts: Vec<u64> = self.layouts.iter().map(hash_of).collect();
            let mut hash = Xxh3::new();
            for area in &self.areas {
                (&area.id, &area.rows).hash(&mut hash);
            }
            for (number, row) in self.rows.iter().enumerate() {
                (row.base, self.row_label(number as Row), layouts.get(row.layout as usize)).hash(&mut hash);
            }
            for own in self.own_ids.iter() {
                own.hash(&mut hash);
            }
            hash.finish() as u32
        })
    }

    /// Whether each seat has the same number in another venue, but for chance. O(1), after the first call of `arrangement`.
    pub(in crate::seat) fn numbers_as(&self, other: &Self) -> bool {
        (self.positions, self.rows.len(), self.arrangement())
            == (other.positions, other.rows.len(), other.arrangement())
    }

    /// The seat of that id: its own id, or `area-row-label` (of a standing place `area-number`) if it has none. O(dashes^2) look-ups, usually one.
    pub fn find(&self, id: &[u8]) -> Option<Seat> {
        if id.len() > MAX_IDENTIFIER {
            return None;
        }
        if self.own_ids.is_empty() {
            return self.find_derived(id);
        }
        self.own_ids.find(id).or_else(|| self.find_derived(id))
    }

    /// The seat without an own id whose id `area-row-label` is this one.
    pub(in crate::seat) fn find_derived(&self, id: &[u8]) -> Option<Seat> {
        let dashes = || id.iter().enumerate().filter(|&(_, &byte)| byte == b'-').map(|(at, _)| at);
        for first in dashes() {
            let Some(area) = id.get(..first).and_then(|id| self.area_called(id)) else { continue };
            if self.area(area).standing {
                let place = id.get(first + 1..).and_then(|number| self.place_numbered(area, number));
                if place.is_some() {
                    return place;
                }
                continue;
            }
            for second in dashes().filter(|&second| second > first) {
                let (Some(row), Some(label)) = (id.get(first + 1..second), id.get(second + 1..)) else {
                    continue;
                };
                let Ok(label) = std::str::from_utf8(label) else { continue };
                for row in self.rows_labelled(area, row) {
                    let positions = self.layout(row).labels.positions(label);
                    let mut seats = positions.map(|position| self.base(row) + Seat::from(position));
                    if let Some(seat) = seats.find(|&seat| self.own_ids.of(seat).is_none()) {
                        return Some(seat);
                    }
                }
            }
        }
        None
    }

    /// Appends the id of a seat.
    #[inline]
    pub fn write_id(&self, seat: Seat, out: &mut String) {
        match self.own_ids.of(seat) {
            Some(id) => out.push_str(id),
            None => self.write_derived_id(seat, out),
        }
    }

    /// Appends `area-row-label`, of a standing place `area-number`, whether or not the seat has an own id.
    #[inline]
    pub(in crate::seat) fn write_derived_id(&self, seat: Seat, out: &mut String) {
        let row = self.row_of(seat);
        let area = self.area(self.area_of(row));
        out.push_str(&area.id);
        out.push('-');
        if !area.standing {
            out.push_str(self.row_label(row));
            out.push('-');
        }
        self.write_label(seat, out);
    }

    /// Appends the label of a seat.
    #[inline]
    pub fn write_label(&self, seat: Seat, out: &mut String) {
        let (layout, position) = self.place(seat);
        layout.labels.write(position as u16, out);
    }

    /// The id of a seat.
    pub fn id(&self, seat: Seat) -> String {
        let mut id = String::new();
        self.write_id(seat, &mut id);
        id
    }

    /// Areas in plan order.
    pub fn areas(&self) -> &[AreaInfo] {
        &self.areas
    }

    /// The area of that number, which must be one of this venue.
    #[allow(clippy::indexing_slicing, reason = "numbers of areas come from the venue")]
    pub fn area(&self, area: Area) -> &AreaInfo {
        &self.areas[area as usize]
    }

    /// The area of that id.
    pub fn area_called(&self, id: &[u8]) -> Option<Area> {
        self.area_by_id
            .find(id, |area| self.areas.get(area as usize).is_some_and(|area| area.id.as_bytes() == id))
    }

    /// The rows of an area in the order of the plan.
    pub fn rows_in_plan(&self, area: Area) -> impl Iterator<Item = Row> {
        let info = self.area(area);
        let numbered = if info.planned.is_empty() { info.rows.clone() } else { 0..0 };
        numbered.chain(info.planned.iter().copied())
    }

    /// Number of rows.
    pub fn rows(&self) -> Range<Row> {
        0..self.rows.len() as Row
    }

    #[allow(clippy::indexing_slicing, reason = "numbers of rows come from the venue")]
    fn row(&self, row: Row) -> &RowInfo {
        &self.rows[row as usize]
    }

    /// Layout of the row.
    #[allow(clippy::indexing_slicing, reason = "numbers of layouts come from the venue")]
    pub fn layout(&self, row: Row) -> &Layout {
        &self.layouts[self.row(row).layout as usize]
    }

    /// Number of the row's first position.
    pub fn base(&self, row: Row) -> Seat {
        self.row(row).base
    }

    /// Positions of a row, breaks included.
    pub fn positions_of(&self, row: Row) -> Range<Seat> {
        self.base(row)..self.base(row) + Seat::from(self.layout(row).len)
    }

    /// Positions of an area, breaks included.
    pub fn positions_in(&self, area: Area) -> Range<Seat> {
        let rows = &self.area(area).rows;
        let end = rows.clone().next_back().map_or(0, |last| self.positions_of(last).end);
        self.base(rows.start)..end
    }

    /// The rows of one rank in the area of a row, which is in the order of ranks. O(log rows).
    pub(in crate::seat) fn rows_of_rank(&self, row: Row) -> Range<Row> {
        let (area, rank) = (self.area(self.area_of(row)).rows.clone(), self.rank(row));
        let rows = self.rows.get(area.start as usize..area.end as usize).unwrap_or_default();
        let before = |of: &dyn Fn(&RowInfo) -> bool| area.start + rows.partition_point(of) as Row;
        before(&|info| info.rank < rank)..before(&|info| info.rank <= rank)
    }

    /// The area of a row.
    pub fn area_of(&self, row: Row) -> Area {
        Area::from(self.row(row).area)
    }

    /// Rank of a row.
    pub fn rank(&self, row: Row) -> i32 {
        self.row(row).rank
    }

    /// Label of a row.
    pub fn row_label(&self, row: Row) -> &str {
        let row = self.row(row);
        let at = row.label_at as usize;
        self.row_labels.get(at..at + usize::from(row.label_len)).unwrap_or_else(|| {
            invariant!("a row has its label");
            ""
        })
    }

    /// The row of a position of this venue. O(1), with a few more steps if rows are shorter than 64 positions.
    pub fn row_of(&self, seat: Seat) -> Row {
        let block = self.row_of_block.get(seat as usize / 64).copied();
        invariant!(block.is_some(), "a position lies in a block of the venue");
        let mut row = block.unwrap_or(0);
        while self.rows.get(row as usize + 1).is_some_and(|next| next.base <= seat) {
            row += 1;
        }
        row
    }

    /// The layout of the row of a position, and its place there.
    fn place(&self, seat: Seat) -> (&Layout, usize) {
        let row = self.row_of(seat);
        (self.layout(row), (seat - self.base(row)) as usize)
    }

    /// Whether that number is a seat: neither a break nor beyond the end.
    pub fn is_seat(&self, seat: Seat) -> bool {
        seat < self.positions && self.tier_of(seat).is_some()
    }

    /// The tier of a seat; `None` for a break.
    pub fn tier_of(&self, seat: Seat) -> Option<Tier> {
        let (layout, position) = self.place(seat);
        layout.tiers.get(layout.tier_slot(position)?).map(|&(tier, _)| tier)
    }

    /// Flags of a seat as bits.
    pub fn flags_of(&self, seat: Seat) -> u64 {
        let (layout, position) = self.place(seat);
        layout.flags_at(position)
    }

    /// The seats of a row, in physical order.
    pub fn seats_of(&self, row: Row) -> impl Iterator<Item = Seat> {
        let (layout, base) = (self.layout(row), self.base(row));
        (0..layout.len)
            .filter(|&at| layout.tier_slot(usize::from(at)).is_some())
            .map(move |at| base + Seat::from(at))
    }

    /// Rows of an area that have that label.
    pub fn rows_labelled(&self, area: Area, label: &[u8]) -> impl Iterator<Item = Row> {
        let hash = self.label_hash(area, label);
        self.rows_by_label
            .iter_hash(hash)
            .copied()
            .filter(move |&row| self.area_of(row) == area && self.row_label(row).as_bytes() == label)
    }

    /// Number of seats.
    pub fn seat_count(&self) -> u32 {
        self.seats
    }

    /// Number of positions, breaks included.
    pub fn position_count(&self) -> u32 {
        self.positions
    }

    /// Names of the tiers, by number.
    pub fn tiers(&self) -> &[Box<str>] {
        &self.tiers.names
    }

    /// Name of a tier.
    pub fn tier_name(&self, tier: Tier) -> &str {
        let name = self.tiers.names.get(usize::from(tier));
        invariant!(name.is_some(), "a tier has a name");
        name.map_or("", |name| name)
    }

    /// The tier of that name.
    pub fn tier_called(&self, name: &[u8]) -> Option<Tier> {
        self.tiers.find(name)
    }

    /// The bit of a flag; 0 if no seat has the flag.
    pub fn flag_bit(&self, name: &[u8]) -> u64 {
        self.flags.find(name).map_or(0, |number| 1 << number)
    }

    /// All flags of the venue as bits.
    pub fn all_flags(&self) -> u64 {
        self.flags.names.iter().enumerate().fold(0, |union, (number, _)| union | 1 << number)
    }

    /// Names of flags given as bits.
    pub fn flag_names(&self, set: u64) -> impl Iterator<Item = &str> {
        self.flags
            .names
            .iter()
            .enumerate()
            .filter(move |(number, _)| set >> number & 1 == 1)
            .map(|(_, name)| &**name)
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        let layout = |layout: &Layout| {
            layout.labels.allocated()
                + layout.tiers.len() * size_of::<(Tier, Sparse)>()
                + layout.tiers.iter().map(|(_, seats)| seats.allocated()).sum::<usize>()
                + layout.flags.len() * size_of::<(u16, u64)>()
                + layout.slots.len() * size_of::<u16>()
        };
        self.areas.capacity() * size_of::<AreaInfo>()
            + self.areas.iter().map(|area| area.id.len() * 2 + area.name.len() + 64).sum::<usize>()
            + self.areas.iter().map(|area| area.planned.len() * size_of::<Row>()).sum::<usize>()
            + self.rows.capacity() * size_of::<RowInfo>()
            + self.layouts.capacity() * size_of::<Layout>()
            + self.layouts.iter().map(layout).sum::<usize>()
            + self.row_labels.len()
            + self.rows_by_label.allocation_size()
            + self.area_by_id.allocated()
            + self.row_of_block.capacity() * size_of::<Row>()
            + self.own_ids.allocated()
            + self.places.allocated()
    }

    pub(in crate::seat) fn label_hash(&self, area: Area, label: &[u8]) -> u64 {
        self.hasher.hash_one((area, label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_position_are_those_of_its_entry() {
        let all: Vec<u16> = (0..100).collect();
        let sparse: Vec<u16> = all.iter().copied().filter(|at| at % 7 == 3).collect();
        let gap: Vec<u16> = all.iter().copied().filter(|at| *at != 40).collect();
        let late: Vec<u16> = (90..100).collect();
        for flagged in [all, sparse, gap, late, vec![99], Vec::new()] {
            let flags: Vec<(u16, u64)> = flagged.iter().map(|&at| (at, 1 << (at % 60))).collect();
            let layout = Layout::new(100, Vec::new(), flags, Labels::default());
            for position in 0..120 {
                let named = flagged.iter().any(|&at| usize::from(at) == position);
                let expected = if named { 1 << (position % 60) } else { 0 };
                assert_eq!(layout.flags_at(position), expected, "{position} of {flagged:?}");
            }
        }
    }
}
