//! How far seats are from the focus of their area, the point to which the rule `focus` is near.

use super::places::RowPlaces;
use super::plan::{Point, Rule};
use super::venue::{Row, Venue};

impl Venue {
    /// The row's places and the focus of its area or of the show, if its seats are taken by the rule `focus`.
    fn by_focus(&self, row: Row) -> Option<(RowPlaces<'_>, Point)> {
        let area = self.area(self.area_of(row));
        let is_by_focus = area.rule == Rule::Focus;
        if is_by_focus { self.places.of(row).zip(area.focus.or(self.focus)) } else { None }
    }

    /// How far the middle of `n` positions of a row is from the focus, as a number that grows with the distance; 0 with
    /// another rule than `focus`. O(1).
    pub(in crate::seat) fn distance(&self, row: Row, start: usize, n: usize) -> u64 {
        self.by_focus(row).map_or(0, |(places, focus)| places.distance(start, n, focus))
    }

    /// The least `distance` of any run of a row.
    pub(in crate::seat) fn least_distance(&self, row: Row) -> u64 {
        let len = usize::from(self.layout(row).len);
        self.by_focus(row).map_or(0, |(places, focus)| places.nearest(len, focus))
    }
}
