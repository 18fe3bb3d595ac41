//! Builds a venue from a plan: parses rows, shares equal layouts, and checks every rule that the JSON shape does not
//! ensure. An error names the place in the plan.

use super::labels::{Labels, parse_short_form};
use super::own_ids::OwnIds;
use super::places::{Places, check_focus, ordered_rows};
use super::plan::{Plan, PlanArea, PlanRow, PlanSeats, Point, identifier, max, wrong};
use super::sparse::Sparse;
use super::standing;
use super::venue::{Area, AreaInfo, Layout, NO_SLOT, NumberedNames, Row, RowInfo, Seat, Tier, Venue};
use crate::invariant;
use crate::shared::MAX_IDENTIFIER;
use crate::shared::invariant::Expected;
use crate::shared::names::NameIndex;
use crate::shared::refusal::Refusal;
use crate::shared::text::quoted;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use std::hash::BuildHasher;
use std::sync::OnceLock;

/// A row in preparation: its layout, and, unless it is of a standing area, the row of the plan with its place there.
struct Draft<'a> {
    plan: Option<(usize, &'a PlanRow)>,
    layout: u32,
}

/// A seat of a plan: its label, its own tier, its flags.
type SeatParts<'p> = (&'p str, Option<&'p str>, &'p [String]);

/// Data that is collected while the rows of a plan are read.
#[derive(Default)]
struct Drafting<'p> {
    tiers: NumberedNames,
    flags: NumberedNames,
    layouts: Vec<Layout>,
    /// Numbers of the layouts, by the layouts themselves.
    interned: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Layouts of rows in the short form, by text and tier: most rows of a plan are equal to an earlier one.
    short_forms: HashMap<(&'p str, &'p str), u32>,
    /// The slot of each tier in the row that is read; `NO_SLOT` for a tier without a seat there.
    tier_slots: Vec<u16>,
    /// The focus of areas without one of their own.
    focus: Option<Point>,
    seats: usize,
    positions: usize,
}

impl Venue {
    /// Builds the venue of a plan, and checks all rules of plans. O(seats).
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
        check_focus("", plan.focus)?;
        let mut drafting = Drafting { focus: plan.focus, ..Drafting::default() };
        let hasher = DefaultHashBuilder::default();
        let mut venue = Self {
            areas: Vec::with_capacity(plan.areas.len()),
            rows: Vec::with_capacity(plan.areas.iter().map(|area| area.rows.len()).sum()),
            layouts: Vec::new(),
            row_labels: Box::default(),
            tiers: NumberedNames::default(),
            flags: NumberedNames::default(),
            seats: 0,
            positions: 0,
            area_by_id: NameIndex::default(),
            rows_by_label: HashTable::new(),
            hasher,
            row_of_block: Vec::new(),
            own_ids: OwnIds::default(),
            places: Places::default(),
            focus: plan.focus,
            arrangement: OnceLock::new(),
        };
        let mut row_labels = String::new();
        let mut all_drafts = Vec::new();
        for (number, area) in plan.areas.iter().enumerate() {
            let place = format!("areas[{number}]");
            identifier(|| format!("{place}.id"), &area.id)?;
            if venue.area_called(area.id.as_bytes()).is_some() {
                return Err(wrong(&place, &format!("area id {} occurs twice", quoted(&area.id))));
            }
            if let Some(name) = &area.name {
                identifier(|| format!("{place}.name"), name)?;
            }
            check_focus(&format!("{place}."), area.focus)?;
            let first = venue.rows.len() as Row;
            let drafts = match area.standing {
                Some(places) => drafting.standing(area, places, &|| place.clone())?,
                None => drafting.rows(area, &place)?,
            };
            for draft in &drafts {
                let (rank, label) = draft.plan.map_or((0, ""), |(_, row)| (row.rank, row.label.as_str()));
                let label_at = row_labels.len() as u32;
                row_labels.push_str(label);
                let (base, layout, label_len) = (venue.positions, draft.layout, label.len() as u16);
                let row = RowInfo { base, layout, rank, label_at, label_len, area: number as u16 };
                if let Some((at, plan)) = draft.plan {
                    let positions = drafting.positions_of(draft);
                    let places = plan.places(positions, &|| format!("{place}.rows[{at}]"))?;
                    venue.places.push(venue.rows.len() as Row, places);
                }
                venue.add_row(row, &drafting.layouts);
            }
            if !venue.places.are_for_all_or_none(first..venue.rows.len() as Row) {
                let what =
                    "says where some of its rows are; write at and step, or points, for all or for none";
                return Err(wrong(&place, what));
            }
            venue.add_area(area, first, &drafts);
            all_drafts.push(drafts);
        }
        venue.seats = drafting.seats as u32;
        venue.layouts = drafting.layouts;
        venue.layouts.shrink_to_fit();
        venue.places.shrink();
        venue.tiers = drafting.tiers;
        venue.flags = drafting.flags;
        venue.row_labels = row_labels.into();
        venue.index_rows();
        venue.add_own_ids(&all_drafts)?;
        venue.check_ids(&all_drafts)?;
        venue.check_ids_of_places()?;
        Ok(venue)
    }

    /// Adds a row after all others.
    fn add_row(&mut self, row: RowInfo, layouts: &[Layout]) {
        let layout = layouts.get(row.layout as usize);
        invariant!(layout.is_some(), "a row has a layout");
        self.positions += layout.map_or(0, |layout| u32::from(layout.len));
        self.rows.push(row);
    }

    /// Adds an area, with the rows from `first` on.
    fn add_area(&mut self, area: &PlanArea, first: Row, drafts: &[Draft<'_>]) {
        let places = drafts.iter().filter_map(|draft| Some(draft.plan?.0));
        let mut rows: Vec<(usize, Row)> = places.zip(first..).collect();
        let planned = if rows.is_sorted() {
            Box::default()
        } else {
            rows.sort_unstable();
            rows.into_iter().map(|(_, row)| row).collect()
        };
        self.area_by_id.insert(area.id.as_bytes(), self.areas.len() as Area);
        self.areas.push(AreaInfo {
            id: area.id.as_str().into(),
            name: area.name.as_deref().unwrap_or(&area.id).into(),
            priority: area.priority,
            rule: area.rule,
            focus: area.focus,
            frame: self.places.frame(first..self.rows.len() as Row),
            rows: first..self.rows.len() as Row,
            planned,
            standing: area.standing.is_some(),
        });
    }

    /// Fills the indexes of rows by label and by position.
    fn index_rows(&mut self) {
        let mut table = HashTable::with_capacity(self.rows.len());
        let hash = |&row: &Row| self.label_hash(self.area_of(row), self.row_label(row).as_bytes());
        for row in self.rows() {
            // Rows with the same label have separate entries in the table.
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

    /// Adds the ids that the seats of the plan have of their own. O(seats of the rows in the long notation).
    fn add_own_ids(&mut self, areas: &[Vec<Draft<'_>>]) -> Result<(), Refusal> {
        let mut derived = String::new();
        for (area, drafts) in areas.iter().enumerate() {
            let rows = self.area(area as Area).rows.clone();
            for (draft, row) in drafts.iter().zip(rows) {
                let base = self.base(row);
                let Some((place, PlanRow { seats: PlanSeats::List(seats), .. })) = draft.plan else {
                    continue;
                };
                for (position, seat) in seats.iter().enumerate() {
                    let Some(id) = seat.as_ref().and_then(|seat| seat.id.as_deref()) else { continue };
                    let place = || format!("areas[{area}].rows[{place}].seats[{position}]");
                    identifier(|| format!("{}.id", place()), id)?;
                    let number = base + position as Seat;
                    derived.clear();
                    self.write_derived_id(number, &mut derived);
                    // The normal form of a plan has no own id that the seat would have anyway.
                    if id != derived && !self.own_ids.push(number, id) {
                        return Err(wrong(&place(), &format!("seat id {} occurs twice", quoted(id))));
                    }
                }
            }
        }
        self.own_ids.shrink();
        // After all of them: a seat with an own id has no other.
        let clash = self.own_ids.iter().find(|(_, id)| self.find_derived(id.as_bytes()).is_some());
        match clash {
            None => Ok(()),
            Some((_, id)) => {
                let what = format!(
                    "the own id {} of a seat is also the seat id of one without an own id",
                    quoted(id)
                );
                Err(wrong("areas", &what))
            }
        }
    }

    /// Refuses two seats with the same derived id. Only rows that can collide are compared seat by seat: rows that share a
    /// label, rows that repeat a label, and all rows if a dash makes ids ambiguous.
    fn check_ids(&self, areas: &[Vec<Draft<'_>>]) -> Result<(), Refusal> {
        let duplicated: Vec<bool> =
            self.layouts.iter().map(|layout| layout.labels.has_duplicates()).collect();
        let dashes =
            self.row_labels.contains('-') || self.layouts.iter().any(|layout| layout.labels.has_dash());
        let mut seen = HashSet::new();
        let mut id = String::new();
        for (area, drafts) in areas.iter().enumerate() {
            let info = self.area(area as Area);
            // In the order of the plan, so that the message names the later of two.
            let rows = drafts.iter().zip(info.rows.clone());
            let mut rows: Vec<(usize, u32, Row)> =
                rows.filter_map(|(draft, row)| Some((draft.plan?.0, draft.layout, row))).collect();
            rows.sort_unstable();
            for (place, number, row) in rows {
                let label = self.row_label(row);
                let shared = self.rows_labelled(area as Area, label.as_bytes()).nth(1).is_some();
                let layout = self.layout(row);
                let longest = info.id.len() + label.len() + layout.labels.longest() + 2;
                let suspicious =
                    dashes || shared || duplicated.get(number as usize).is_some_and(|&duplicated| duplicated);
                if !suspicious && longest <= MAX_IDENTIFIER {
                    continue;
                }
                let place = format!("areas[{area}].rows[{place}]");
                for seat in self.seats_of(row).filter(|&seat| self.own_ids.of(seat).is_none()) {
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
}

impl<'p> Drafting<'p> {
    /// The rows of an area that is no standing area.
    fn rows(&mut self, area: &'p PlanArea, place: &str) -> Result<Vec<Draft<'p>>, Refusal> {
        if area.tier.is_some() {
            return Err(wrong(place, "tier: only a standing area has one; name the tiers of rows or seats"));
        }
        if area.rows.is_empty() {
            return Err(wrong(place, "rows: is empty"));
        }
        // In order first, so that the numbers of tiers and flags follow from the normal form of the plan, and are the same on a
        // server that loads a snapshot.
        let rows = ordered_rows(area, self.focus, place)?;
        let draft = |(number, row)| {
            let place = || format!("{place}.rows[{number}]");
            Ok(Draft { plan: Some((number, row)), layout: self.row(row, area, &place)? })
        };
        rows.into_iter().map(draft).collect()
    }

    /// How many positions a row has.
    fn positions_of(&self, draft: &Draft<'_>) -> usize {
        let layout = self.layouts.get(draft.layout as usize).expected("a row has a layout");
        layout.map_or(0, |layout| layout.len.into())
    }

    /// Parses a row; returns the number of its layout.
    fn row(&mut self, row: &'p PlanRow, area: &PlanArea, place: &dyn Fn() -> String) -> Result<u32, Refusal> {
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
            (PlanSeats::Short(text), Some(tier)) => Some((text.as_str(), tier.as_str())),
            _ => None,
        };
        if let Some(&number) = short_form.as_ref().and_then(|form| self.short_forms.get(form)) {
            if let Some(layout) = self.layouts.get(number as usize) {
                let seats = layout.tiers.iter().map(|(_, seats)| seats.count()).sum();
                self.count(seats, layout.len, place)?;
                return Ok(number);
            }
            invariant!("a short form that was read has a layout");
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
        let mut tiers: Vec<(Tier, Sparse)> = Vec::new();
        let (mut flags, mut count) = (Vec::new(), 0);
        for (position, seat) in seats.iter().enumerate() {
            let Some((label, tier, seat_flags)) = seat else { continue };
            let seat_place = || format!("{}.seats[{position}]", place());
            identifier(|| format!("{}.label", seat_place()), label)?;
            let Some(tier) = tier.or(row.tier.as_deref()) else {
                return Err(wrong(&seat_place(), "has no tier, and its row has none"));
            };
            let tier = self.tier(tier, &seat_place)?;
            let slot = self.tier_slot(tier, tiers.len());
            if slot == tiers.len() {
                tiers.push((tier, Sparse::default()));
            }
            match tiers.get_mut(slot) {
                Some((_, seats)) => seats.push(position),
                None => invariant!("the slot of a tier is one of its row"),
            }
            let mut set = 0;
            for flag in *seat_flags {
                identifier(|| format!("{}.flags", seat_place()), flag)?;
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
        for (tier, _) in &tiers {
            match self.tier_slots.get_mut(usize::from(*tier)) {
                Some(slot) => *slot = NO_SLOT,
                None => invariant!("a tier has a slot"),
            }
        }
        if tiers.is_empty() {
            return refuse("seats: has no seat");
        }
        self.count(count, seats.len() as u16, place)?;
        let labels = Labels::new(seats.iter().map(|seat| seat.map(|(label, _, _)| label)));
        let number = self.intern(Layout::new(seats.len() as u16, tiers, flags, labels));
        if let Some(form) = short_form {
            self.short_forms.insert(form, number);
        }
        Ok(number)
    }

    /// The rows of a standing area.
    fn standing(
        &mut self,
        area: &PlanArea,
        places: u32,
        place: &dyn Fn() -> String,
    ) -> Result<Vec<Draft<'p>>, Refusal> {
        let refuse = |what: &str| Err(wrong(&place(), what));
        if !area.rows.is_empty() {
            return refuse("rows: a standing area has none");
        }
        if !(1..=max::SEATS as u32).contains(&places) {
            return refuse(&format!("standing: must be 1 to {} places, not {places}", max::SEATS));
        }
        if area.id.len() + 1 + places.to_string().len() > MAX_IDENTIFIER {
            return refuse(&format!("id: makes ids of places longer than {MAX_IDENTIFIER} bytes"));
        }
        let Some(tier) = area.tier.as_deref() else { return refuse("tier: is missing in a standing area") };
        let tier = self.tier(tier, place)?;
        let mut rows = Vec::new();
        for first in (1..=places).step_by(standing::ROW as usize) {
            let len = (places - first + 1).min(standing::ROW) as u16;
            self.count(len.into(), len, place)?;
            let mut seats = Sparse::default();
            (0..len).for_each(|position| seats.push(position.into()));
            let labels = Labels::numbers(first, len);
            let layout = self.intern(Layout::new(len, vec![(tier, seats)], Vec::new(), labels));
            rows.push(Draft { plan: None, layout });
        }
        Ok(rows)
    }

    /// The number of a tier, which may be new.
    fn tier(&mut self, name: &str, place: &dyn Fn() -> String) -> Result<Tier, Refusal> {
        if self.tiers.find(name.as_bytes()).is_none() {
            identifier(|| format!("{}.tier", place()), name)?;
        }
        let tier = self.tiers.number(name);
        if usize::from(tier) >= max::TIERS {
            return Err(wrong(&place(), &format!("the plan has more than {} tiers", max::TIERS)));
        }
        Ok(tier)
    }

    /// The slot of a tier in the row that is read; `next` if the tier has no seat there so far.
    fn tier_slot(&mut self, tier: Tier, next: usize) -> usize {
        if self.tier_slots.len() <= usize::from(tier) {
            self.tier_slots.resize(usize::from(tier) + 1, NO_SLOT);
        }
        let Some(slot) = self.tier_slots.get_mut(usize::from(tier)).expected("a tier has a slot") else {
            return next;
        };
        if *slot == NO_SLOT {
            *slot = next as u16;
        }
        usize::from(*slot)
    }

    /// The number of a layout, which equal rows share.
    fn intern(&mut self, layout: Layout) -> u32 {
        let (layouts, hasher) = (&self.layouts, &self.hasher);
        let at = |number: u32| layouts.get(number as usize);
        let hash = hasher.hash_one(Some(&layout));
        if let Some(&number) = self.interned.find(hash, |&number| at(number) == Some(&layout)) {
            return number;
        }
        let number = layouts.len() as u32;
        self.interned.insert_unique(hash, number, |&number| hasher.hash_one(at(number)));
        self.layouts.push(layout);
        number
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
