//! The place: areas, rows and seats, which never change while a show is open but for tiers, names, priorities
//! and rules. Rows that look alike share one layout, so a regular plan takes next to nothing a seat.
//!
//! A seat is known inside by its number (`Seat`): the positions of all rows, counted through areas in plan
//! order and rows in rank order. Breaks have a number too, so neighbours in a row are neighbours in number.

use super::bits::{self, Bits};
use super::labels::{Labels, parse_short_form};
use super::plan::{Plan, PlanArea, PlanRow, PlanSeat, PlanSeats, Rule, max, wrong};
use crate::shared::MAX_IDENTIFIER;
use crate::shared::refusal::Refusal;
use crate::shared::text::quoted;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use std::hash::BuildHasher;
use std::ops::Range;

/// Number of a position of the show.
pub type Seat = u32;
/// Number of a row: areas in plan order, within an area by rank.
pub type Row = u32;
/// Number of an area in plan order.
pub type Area = u32;
/// Number of a tier, in order of first appearance.
pub type Tier = u16;

/// All that is fixed about a show.
#[derive(Clone, Debug)]
pub struct Venue {
    areas: Vec<AreaInfo>,
    rows: Vec<RowInfo>,
    layouts: Vec<Layout>,
    row_labels: Box<str>,
    tiers: Names,
    flags: Names,
    seats: u32,
    positions: u32,
    area_by_id: HashMap<Box<[u8]>, Area>,
    rows_by_label: HashTable<Row>,
    hasher: DefaultHashBuilder,
    /// The row of the first position of each block of 64.
    row_of_block: Vec<Row>,
}

/// One area.
#[derive(Clone, Debug)]
pub struct AreaInfo {
    /// First part of its seats' ids.
    pub id: Box<str>,
    /// What people call it.
    pub name: Box<str>,
    /// 1 is best.
    pub priority: i32,
    /// Order within a row.
    pub rule: Rule,
    /// Its rows, by rank.
    pub rows: Range<Row>,
}

#[derive(Clone, Copy, Debug)]
struct RowInfo {
    base: Seat,
    layout: u32,
    rank: i32,
    label_at: u32,
    label_len: u16,
    area: u16,
}

/// What a row looks like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Positions, breaks included.
    pub len: u16,
    /// Its tiers, by number, and the positions of each.
    pub tiers: Box<[(Tier, Bits)]>,
    /// Positions with flags, and these as bits.
    pub flags: Box<[(u16, u64)]>,
    /// Labels of its seats.
    pub labels: Labels,
}

impl Layout {
    /// Which of the row's tiers a position has; `None` for a break.
    pub fn tier_slot(&self, position: usize) -> Option<usize> {
        self.tiers.iter().position(|(_, seats)| bits::is_set(seats, position))
    }

    /// Flags of a position as bits.
    pub fn flags_at(&self, position: usize) -> u64 {
        self.flags
            .binary_search_by_key(&position, |&(at, _)| usize::from(at))
            .ok()
            .and_then(|found| self.flags.get(found))
            .map_or(0, |&(_, set)| set)
    }
}

/// Collects names and gives them numbers in order of appearance.
#[derive(Clone, Debug, Default)]
struct Names {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<[u8]>, u16>,
}

impl Names {
    fn number(&mut self, name: &str) -> u16 {
        if let Some(&number) = self.numbers.get(name.as_bytes()) {
            return number;
        }
        let number = self.names.len() as u16;
        self.names.push(name.into());
        self.numbers.insert(name.as_bytes().into(), number);
        number
    }
}

/// A plan row in preparation: its place in the plan, for messages, and its layout.
struct Draft<'a> {
    plan: &'a PlanRow,
    place: usize,
    layout: u32,
}

/// A seat of a plan: its label, its own tier, its flags.
type SeatParts<'p> = (&'p str, Option<&'p str>, &'p [String]);

/// What is collected while the rows of a plan are read.
#[derive(Default)]
struct Drafting {
    tiers: Names,
    flags: Names,
    layouts: Vec<Layout>,
    interned: HashMap<Layout, u32>,
    /// Layouts of rows in the short form, by text and tier: most rows of a plan look like one before.
    short_forms: HashMap<(String, String), u32>,
    seats: usize,
    positions: usize,
}

impl Venue {
    /// Builds the venue of a plan, checking everything that the plan's shape leaves open. O(seats).
    ///
    /// # Errors
    /// `ERR plan: <place>: <what>` for the first fault found.
    pub fn build(plan: &Plan) -> Result<Self, Refusal> {
        if plan.areas.is_empty() {
            return Err(wrong("areas", "is empty"));
        }
        if plan.areas.len() > max::AREAS {
            return Err(wrong("areas", &format!("has {} areas, more than {}", plan.areas.len(), max::AREAS)));
        }
        let mut drafting = Drafting::default();
        let hasher = DefaultHashBuilder::default();
        let mut venue = Self {
            areas: Vec::with_capacity(plan.areas.len()),
            rows: Vec::with_capacity(plan.areas.iter().map(|area| area.rows.len()).sum()),
            layouts: Vec::new(),
            row_labels: Box::default(),
            tiers: Names::default(),
            flags: Names::default(),
            seats: 0,
            positions: 0,
            area_by_id: HashMap::new(),
            rows_by_label: HashTable::new(),
            hasher,
            row_of_block: Vec::new(),
        };
        let mut row_labels = String::new();
        let mut all_drafts = Vec::new();
        for (number, area) in plan.areas.iter().enumerate() {
            let place = format!("areas[{number}]");
            identifier(&format!("{place}.id"), &area.id)?;
            if venue.area_by_id.insert(area.id.as_bytes().into(), number as Area).is_some() {
                return Err(wrong(&place, &format!("area id {} occurs twice", quoted(&area.id))));
            }
            if let Some(name) = &area.name {
                identifier(&format!("{place}.name"), name)?;
            }
            if area.rows.is_empty() {
                return Err(wrong(&place, "rows: is empty"));
            }
            // By rank from the start: the numbers that tiers and flags get then follow from the normal form of
            // the plan, and are the same on a server that was sent a snapshot.
            let mut rows: Vec<(usize, &PlanRow)> = area.rows.iter().enumerate().collect();
            rows.sort_by_key(|(_, row)| row.rank);
            let mut drafts = Vec::with_capacity(rows.len());
            for (row_place, row) in rows {
                let place = || format!("{place}.rows[{row_place}]");
                drafts.push(Draft { plan: row, place: row_place, layout: drafting.row(row, area, &place)? });
            }
            let first = venue.rows.len() as Row;
            for draft in &drafts {
                let label_at = row_labels.len() as u32;
                row_labels.push_str(&draft.plan.label);
                venue.rows.push(RowInfo {
                    base: venue.positions,
                    layout: draft.layout,
                    rank: draft.plan.rank,
                    label_at,
                    label_len: draft.plan.label.len() as u16,
                    area: number as u16,
                });
                venue.positions +=
                    drafting.layouts.get(draft.layout as usize).map_or(0, |layout| u32::from(layout.len));
            }
            venue.areas.push(AreaInfo {
                id: area.id.as_str().into(),
                name: area.name.as_deref().unwrap_or(&area.id).into(),
                priority: area.priority,
                rule: area.rule,
                rows: first..venue.rows.len() as Row,
            });
            all_drafts.push(drafts);
        }
        venue.seats = drafting.seats as u32;
        venue.layouts = drafting.layouts;
        venue.layouts.shrink_to_fit();
        venue.tiers = drafting.tiers;
        venue.flags = drafting.flags;
        venue.row_labels = row_labels.into();
        venue.index_rows();
        venue.check_ids(&all_drafts)?;
        Ok(venue)
    }

    /// Fills what finds rows: by label, and by position.
    fn index_rows(&mut self) {
        let mut table = HashTable::with_capacity(self.rows.len());
        let hash = |&row: &Row| self.label_hash(self.area_of(row), self.row_label(row).as_bytes());
        for row in self.rows() {
            // Rows of one label stand side by side in the table, each on its own.
            table.insert_unique(hash(&row), row, hash);
        }
        self.rows_by_label = table;
        let mut row = 0;
        self.row_of_block = (0..self.positions)
            .step_by(64)
            .map(|position| {
                while self.rows.get(row as usize + 1).is_some_and(|next| next.base <= position) {
                    row += 1;
                }
                row
            })
            .collect();
    }

    /// Refuses two seats of one id. Only rows that can collide are looked at seat by seat: those that share a
    /// label, those that repeat one within, and all of them where a dash makes ids ambiguous.
    fn check_ids(&self, areas: &[Vec<Draft<'_>>]) -> Result<(), Refusal> {
        let duplicated: Vec<bool> =
            self.layouts.iter().map(|layout| layout.labels.has_duplicates()).collect();
        let dashes =
            self.row_labels.contains('-') || self.layouts.iter().any(|layout| layout.labels.has_dash());
        let mut seen = HashSet::new();
        let mut id = String::new();
        for (area, drafts) in areas.iter().enumerate() {
            let Some(info) = self.areas.get(area) else { continue };
            // In the order of the plan, so that the message names the later of two.
            let mut rows: Vec<(&Draft<'_>, Row)> = drafts.iter().zip(info.rows.clone()).collect();
            rows.sort_unstable_by_key(|(draft, _)| draft.place);
            for (draft, row) in rows {
                let label = self.row_label(row);
                let shared = self.rows_labelled(area as Area, label.as_bytes()).nth(1).is_some();
                let layout = self.layout(row);
                let longest = info.id.len() + label.len() + layout.labels.longest() + 2;
                let suspicious = dashes
                    || shared
                    || duplicated.get(draft.layout as usize).is_some_and(|&duplicated| duplicated);
                if !suspicious && longest <= MAX_IDENTIFIER {
                    continue;
                }
                let place = format!("areas[{area}].rows[{}]", draft.place);
                for seat in self.seats_of(row) {
                    id.clear();
                    self.write_id(seat, &mut id);
                    if id.len() > MAX_IDENTIFIER {
                        let what = format!("seat id {} is longer than {MAX_IDENTIFIER} bytes", quoted(&id));
                        return Err(wrong(&place, &what));
                    }
                    if suspicious && !seen.insert(xxhash_rust::xxh3::xxh3_128(id.as_bytes())) {
                        return Err(wrong(&place, &format!("seat id {} occurs twice", quoted(&id))));
                    }
                }
            }
        }
        Ok(())
    }

    /// The plan from which an equal venue can be built, in its normal form: rows by rank, the short form
    /// wherever it can say all.
    pub fn areas_as_plan(&self) -> Vec<PlanArea> {
        self.areas
            .iter()
            .map(|area| PlanArea {
                id: area.id.to_string(),
                name: Some(area.name.to_string()),
                priority: area.priority,
                rule: area.rule,
                rows: area.rows.clone().map(|row| self.row_as_plan(row)).collect(),
            })
            .collect()
    }

    fn row_as_plan(&self, row: Row) -> PlanRow {
        let layout = self.layout(row);
        let (label, rank) = (self.row_label(row).to_owned(), self.rank(row));
        let tier_name =
            |slot: usize| layout.tiers.get(slot).map(|&(tier, _)| self.tier_name(tier).to_owned());
        if layout.tiers.len() == 1
            && layout.flags.is_empty()
            && let Some(short) = layout.labels.short_form(usize::from(layout.len))
        {
            return PlanRow { label, rank, tier: tier_name(0), seats: PlanSeats::Short(short) };
        }
        let seats = (0..layout.len).map(|position| {
            let slot = layout.tier_slot(usize::from(position))?;
            let mut label = String::new();
            layout.labels.write(position, &mut label);
            let flags = self.flag_names(layout.flags_at(usize::from(position))).map(str::to_owned).collect();
            Some(PlanSeat { label, tier: tier_name(slot), flags })
        });
        PlanRow { label, rank, tier: None, seats: PlanSeats::List(seats.collect()) }
    }

    /// The seat of that id (`area-row-label`), if there is one. O(dashes^2) look-ups, mostly one.
    pub fn find(&self, id: &[u8]) -> Option<Seat> {
        if id.len() > MAX_IDENTIFIER {
            return None;
        }
        let dashes = || id.iter().enumerate().filter(|&(_, &byte)| byte == b'-').map(|(at, _)| at);
        for first in dashes() {
            let Some(&area) = id.get(..first).and_then(|id| self.area_by_id.get(id)) else { continue };
            for second in dashes().filter(|&second| second > first) {
                let (Some(row), Some(label)) = (id.get(first + 1..second), id.get(second + 1..)) else {
                    continue;
                };
                let Ok(label) = std::str::from_utf8(label) else { continue };
                for row in self.rows_labelled(area, row) {
                    if let Some(position) = self.layout(row).labels.position(label) {
                        return Some(self.base(row) + Seat::from(position));
                    }
                }
            }
        }
        None
    }

    /// Appends the id of a seat.
    pub fn write_id(&self, seat: Seat, out: &mut String) {
        let row = self.row_of(seat);
        out.push_str(&self.area(self.area_of(row)).id);
        out.push('-');
        out.push_str(self.row_label(row));
        out.push('-');
        self.write_label(seat, out);
    }

    /// Appends the label of a seat.
    pub fn write_label(&self, seat: Seat, out: &mut String) {
        let row = self.row_of(seat);
        self.layout(row).labels.write((seat - self.base(row)) as u16, out);
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

    /// The area of that number, which is one of this venue.
    #[allow(clippy::indexing_slicing, reason = "numbers of areas come from the venue")]
    pub fn area(&self, area: Area) -> &AreaInfo {
        &self.areas[area as usize]
    }

    /// The area of that id.
    pub fn area_called(&self, id: &[u8]) -> Option<Area> {
        self.area_by_id.get(id).copied()
    }

    /// Number of rows.
    pub fn rows(&self) -> Range<Row> {
        0..self.rows.len() as Row
    }

    #[allow(clippy::indexing_slicing, reason = "numbers of rows come from the venue")]
    fn row(&self, row: Row) -> &RowInfo {
        &self.rows[row as usize]
    }

    /// What the row looks like.
    #[allow(clippy::indexing_slicing, reason = "numbers of layouts come from the venue")]
    pub fn layout(&self, row: Row) -> &Layout {
        &self.layouts[self.row(row).layout as usize]
    }

    /// Number of the row's first position.
    pub fn base(&self, row: Row) -> Seat {
        self.row(row).base
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
        self.row_labels.get(at..at + usize::from(row.label_len)).unwrap_or("")
    }

    /// The row of a position. O(1) but where rows are shorter than 64 positions: a few steps.
    pub fn row_of(&self, seat: Seat) -> Row {
        let mut row = self.row_of_block.get(seat as usize / 64).copied().unwrap_or(0);
        while self.rows.get(row as usize + 1).is_some_and(|next| next.base <= seat) {
            row += 1;
        }
        row
    }

    /// Whether that number is a seat, and not a break or beyond the end.
    pub fn is_seat(&self, seat: Seat) -> bool {
        seat < self.positions && {
            let row = self.row_of(seat);
            self.layout(row).tier_slot((seat - self.base(row)) as usize).is_some()
        }
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
        self.tiers.names.get(usize::from(tier)).map_or("", |name| name)
    }

    /// The tier of that name.
    pub fn tier_called(&self, name: &[u8]) -> Option<Tier> {
        self.tiers.numbers.get(name).copied()
    }

    /// The bit of a flag, 0 where no seat has it.
    pub fn flag_bit(&self, name: &[u8]) -> u64 {
        self.flags.names.iter().position(|flag| flag.as_bytes() == name).map_or(0, |number| 1 << number)
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
            let spilled = |bits: &Bits| if bits.spilled() { bits.capacity() * 8 } else { 0 };
            layout.labels.allocated()
                + layout.tiers.len() * size_of::<(Tier, Bits)>()
                + layout.tiers.iter().map(|(_, bits)| spilled(bits)).sum::<usize>()
                + layout.flags.len() * size_of::<(u16, u64)>()
        };
        self.areas.capacity() * size_of::<AreaInfo>()
            + self.areas.iter().map(|area| area.id.len() * 2 + area.name.len() + 64).sum::<usize>()
            + self.rows.capacity() * size_of::<RowInfo>()
            + self.layouts.capacity() * size_of::<Layout>()
            + self.layouts.iter().map(layout).sum::<usize>()
            + self.row_labels.len()
            + self.rows_by_label.allocation_size()
            + self.area_by_id.allocation_size()
            + self.row_of_block.capacity() * size_of::<Row>()
    }

    fn label_hash(&self, area: Area, label: &[u8]) -> u64 {
        self.hasher.hash_one((area, label))
    }
}

impl Drafting {
    /// Reads one row: gives the number of its layout.
    fn row(&mut self, row: &PlanRow, area: &PlanArea, place: &dyn Fn() -> String) -> Result<u32, Refusal> {
        let refuse = |what: &str| Err(wrong(&place(), what));
        if row.label.is_empty() {
            return refuse("label: is empty");
        }
        if area.id.len() + row.label.len() + 3 > MAX_IDENTIFIER {
            let what =
                format!("label {} makes seat ids longer than {MAX_IDENTIFIER} bytes", quoted(&row.label));
            return refuse(&what);
        }
        let short_form = match (&row.seats, &row.tier) {
            (PlanSeats::Short(text), Some(tier)) => Some((text.clone(), tier.clone())),
            _ => None,
        };
        if let Some(&number) = short_form.as_ref().and_then(|form| self.short_forms.get(form)) {
            let layout = self.layouts.get(number as usize);
            let seats =
                layout.map_or(0, |layout| layout.tiers.iter().map(|(_, seats)| bits::count(seats)).sum());
            self.count(seats, layout.map_or(0, |layout| layout.len), place)?;
            return Ok(number);
        }
        let short;
        let seats: Vec<Option<SeatParts<'_>>> = match &row.seats {
            PlanSeats::Short(text) => {
                short = parse_short_form(text).map_err(|what| wrong(&format!("{}.seats", place()), &what))?;
                short.iter().map(|label| label.as_deref().map(|label| (label, None, &[][..]))).collect()
            }
            PlanSeats::List(list) => list
                .iter()
                .map(|seat| {
                    seat.as_ref().map(|seat| (seat.label.as_str(), seat.tier.as_deref(), &seat.flags[..]))
                })
                .collect(),
        };
        if seats.len() > max::POSITIONS {
            return refuse(&format!("has {} positions, more than {}", seats.len(), max::POSITIONS));
        }
        let mut tiers: Vec<(Tier, Bits)> = Vec::new();
        let (mut flags, mut count) = (Vec::new(), 0);
        for (position, seat) in seats.iter().enumerate() {
            let Some((label, tier, seat_flags)) = seat else { continue };
            let seat_place = || format!("{}.seats[{position}]", place());
            identifier(&format!("{}.label", seat_place()), label)?;
            let Some(tier) = tier.or(row.tier.as_deref()) else {
                return Err(wrong(&seat_place(), "has no tier, and its row has none"));
            };
            if !self.tiers.numbers.contains_key(tier.as_bytes()) {
                identifier(&format!("{}.tier", seat_place()), tier)?;
            }
            let tier = self.tiers.number(tier);
            if usize::from(tier) >= max::TIERS {
                return Err(wrong(&seat_place(), &format!("the plan has more than {} tiers", max::TIERS)));
            }
            let slot = tiers.iter().position(|(number, _)| *number == tier).unwrap_or_else(|| {
                tiers.push((tier, smallvec::smallvec![0; seats.len().div_ceil(64)]));
                tiers.len() - 1
            });
            if let Some((_, bits)) = tiers.get_mut(slot) {
                bits::put(bits, position, true);
            }
            let mut set = 0;
            for flag in *seat_flags {
                identifier(&format!("{}.flags", seat_place()), flag)?;
                let number = self.flags.number(flag);
                if usize::from(number) >= max::FLAGS {
                    return Err(wrong(
                        &seat_place(),
                        &format!("the plan has more than {} flags", max::FLAGS),
                    ));
                }
                set |= 1 << number;
            }
            if set != 0 {
                flags.push((position as u16, set));
            }
            count += 1;
        }
        if tiers.is_empty() {
            return refuse("seats: has no seat");
        }
        self.count(count, seats.len() as u16, place)?;
        let layout = Layout {
            len: seats.len() as u16,
            tiers: tiers.into(),
            flags: flags.into(),
            labels: Labels::new(seats.iter().map(|seat| seat.map(|(label, _, _)| label))),
        };
        let number = self.interned.get(&layout).copied().unwrap_or_else(|| {
            let number = self.layouts.len() as u32;
            self.layouts.push(layout.clone());
            self.interned.insert(layout, number);
            number
        });
        if let Some(form) = short_form {
            self.short_forms.insert(form, number);
        }
        Ok(number)
    }

    /// Adds a row to the totals.
    fn count(&mut self, seats: u32, positions: u16, place: &dyn Fn() -> String) -> Result<(), Refusal> {
        self.seats += seats as usize;
        self.positions += usize::from(positions);
        if self.seats > max::SEATS {
            return Err(wrong(&place(), &format!("the plan has more than {} seats", max::SEATS)));
        }
        if self.positions > max::ALL_POSITIONS {
            return Err(wrong(&place(), &format!("the plan has more than {} positions", max::ALL_POSITIONS)));
        }
        Ok(())
    }
}

/// Refuses a name that has not 1 to 256 bytes.
fn identifier(place: &str, name: &str) -> Result<(), Refusal> {
    match name.len() {
        0 => Err(wrong(place, "is empty")),
        1..=MAX_IDENTIFIER => Ok(()),
        len => Err(wrong(place, &format!("has {len} bytes, more than {MAX_IDENTIFIER}"))),
    }
}
