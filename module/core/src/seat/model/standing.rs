//! Standing areas: places with numbers and without rows.
//!
//! Inside, the places are positions of rows of `ROW` without breaks, which have no label and are all of one tier. So
//! everything that works for seats works for places, and only a search treats them in another way.

use super::labels::as_number;
use super::plan::{max, wrong};
use super::venue::{Area, Row, Seat, Venue};
use crate::ensure;
use crate::shared::invariant::Checked;
use crate::shared::refusal::Refusal;
use crate::shared::text::quoted;

/// Places of a row of a standing area; the last row may have fewer.
pub(super) const ROW: u32 = max::POSITIONS as u32;

impl Venue {
    /// Whether a row is part of a standing area.
    #[inline]
    pub(in crate::seat) fn is_standing(&self, row: Row) -> bool {
        self.area(self.area_of(row)).standing
    }

    /// The place of a standing area with that number, as its id has it.
    pub(super) fn place_numbered(&self, area: Area, number: &[u8]) -> Option<Seat> {
        let place = as_number(std::str::from_utf8(number).ok()?)?.checked_sub(1)?;
        let rows = &self.area(area).rows;
        let row = rows.start.checked_add(place / ROW).filter(|row| rows.contains(row))?;
        let position = place % ROW;
        (position < u32::from(self.layout(row).len)).then(|| self.base(row) + position)
    }

    /// Refuses a place whose id `area-number` is also the id `area-row-label` of a seat. This takes a standing area whose
    /// own id has a dash, since the id of the seat's area is a part of it.
    pub(super) fn check_ids_of_places(&self) -> Result<(), Refusal> {
        for (number, info) in self.areas.iter().enumerate().filter(|(_, area)| area.standing) {
            let id = info.id.as_bytes();
            for dash in (0..id.len()).filter(|&at| id.get(at) == Some(&b'-')) {
                let (Some(area), Some(rest)) = (id.get(..dash), id.get(dash + 1..)) else { continue };
                let Some(area) = self.area_called(area).filter(|&area| !self.area(area).standing) else {
                    continue;
                };
                // The rest of the id is the label of the row, or this label and the begin of the seat's label.
                let begins = |row: &Row| {
                    let rest = rest.strip_prefix(self.row_label(*row).as_bytes());
                    rest.is_some_and(|rest| rest.first().is_none_or(|&next| next == b'-'))
                };
                let seats = self.area(area).rows.clone().filter(begins).flat_map(|row| self.seats_of(row));
                let mut ids = seats.filter(|&seat| self.own_ids.of(seat).is_none()).map(|seat| self.id(seat));
                let is_place = |seat: &String| {
                    let place = seat.as_bytes().strip_prefix(id).and_then(|rest| rest.strip_prefix(b"-"));
                    place.is_some_and(|place| self.place_numbered(number as Area, place).is_some())
                };
                if let Some(seat) = ids.find(is_place) {
                    let what = format!("seat id {} occurs twice", quoted(&seat));
                    return Err(wrong(&format!("areas[{number}]"), &what));
                }
            }
        }
        Ok(())
    }

    /// Checks that the rows of standing areas have no labels, one tier, no flags, no breaks, and numbered places.
    ///
    /// # Errors
    /// The first contradiction.
    pub(super) fn check_standing_areas(&self) -> Checked {
        for info in self.areas.iter().filter(|area| area.standing) {
            let tier = |row: Row| self.layout(row).tiers.first().map(|&(tier, _)| tier);
            let mut next = 1;
            for row in info.rows.clone() {
                let layout = self.layout(row);
                let (len, last) = (u32::from(layout.len), row + 1 == info.rows.end);
                let plain =
                    layout.tiers.len() == 1 && layout.flags.is_empty() && self.row_label(row).is_empty();
                ensure!(plain && tier(row) == tier(info.rows.start), "row {row} is not of standing places");
                ensure!(self.seats_of(row).count() == len as usize, "row {row} of places has a break");
                ensure!(len == ROW || last && len > 0, "row {row} has {len} places");
                let at = |number: u32| layout.labels.position(&number.to_string()).map(u32::from);
                let numbered = at(next) == Some(0) && at(next + len - 1) == Some(len - 1);
                ensure!(numbered, "the places of row {row} are not numbered from {next} on");
                next += len;
            }
        }
        Ok(())
    }
}
