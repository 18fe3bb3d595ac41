//! Where runs are in their area, so that groups can be near each other: how far back, and how far across.
//!
//! The unit is half a position, because the middle of a row may lie between two positions. Without places in the plan a row is
//! as deep as two seats are wide, by rank; rows of one rank lie side by side in the order of the plan. Rows begin at one side
//! of the area (`ltr`, `rtl`), or have their middles behind each other (`center`). With places, the first row of the area
//! says which way is across, and how wide a position is.

use super::rows::Rows;
use crate::seat::places::RowPlaces;
use crate::seat::plan::Rule;
use crate::seat::venue::{Area, Row, Venue};

/// The width of a position.
pub(super) const POSITION: i64 = 2;

/// How deep a row is, in an area without places.
pub(super) const ROW: i64 = 2 * POSITION;

/// Which way is across an area whose plan says where its rows are.
struct Frame {
    /// Where the first row begins.
    origin: [f64; 2],
    /// The way across that is as long as half a position is wide.
    across: [f64; 2],
    /// The way back, of the same length: from the first row to the last.
    back: [f64; 2],
}

/// Where a row is in its area.
pub(super) struct Line<'a> {
    /// How far back it is, by its middle.
    pub(super) depth: i64,
    /// Where its first position is across the area, without places.
    first: i64,
    places: Option<(Frame, RowPlaces<'a>)>,
}

impl Frame {
    /// The frame of an area, by its first row; `None` if all positions of that row are at one place.
    fn of(venue: &Venue, area: Area) -> Option<Self> {
        let places = venue.places.of(venue.area(area).rows.start)?;
        let [x, y] = places.point(0);
        let (steps, [to_x, to_y]) = match places {
            RowPlaces::Line(_) => (1, places.point(1)),
            RowPlaces::Curve(points) => {
                let last = points.len().saturating_sub(1);
                (last, places.point(last))
            }
        };
        let halves = steps as f64 * POSITION as f64;
        let across = [(to_x - x) / halves, (to_y - y) / halves];
        let length = across[0].hypot(across[1]);
        let [dx, dy] = across;
        let mut frame = Self { origin: [x, y], across, back: [-dy, dx] };
        let end = venue.area(area).rows.end.saturating_sub(1);
        if venue.places.of(end).is_some_and(|places| frame.of_point(places.point(0))[0] < 0) {
            frame.back = [dy, -dx];
        }
        (length > 0.0 && length.is_finite()).then_some(frame)
    }

    /// How far a point is back and across, in halves of positions.
    fn of_point(&self, [x, y]: [f64; 2]) -> [i64; 2] {
        let [x, y] = [x - self.origin[0], y - self.origin[1]];
        let unit = self.across[0] * self.across[0] + self.across[1] * self.across[1];
        [self.back, self.across].map(|[dx, dy]| {
            let halves = (x * dx + y * dy) / unit;
            halves.round().clamp(-FARTHEST, FARTHEST) as i64
        })
    }
}

/// No place is farther away, so that sums of distances are integers.
const FARTHEST: f64 = 1e12;

impl Line<'_> {
    /// Where so many positions from `start` on are across the area: their left end, and whether the last is the left one.
    pub(super) fn left(&self, start: usize, len: usize) -> (i64, bool) {
        let Some((frame, places)) = &self.places else {
            return (self.first + start as i64 * POSITION, false);
        };
        let [[_, first], [_, last]] =
            [start, start + len.saturating_sub(1)].map(|position| frame.of_point(places.point(position)));
        (first.min(last), last < first)
    }
}

impl Rows<'_> {
    /// Where a row is in its area. O(1); without places O(rows of one rank).
    pub(super) fn line(&self, row: Row) -> Line<'_> {
        let venue = &self.show.venue;
        let places = venue.places.of(row);
        if let Some((frame, places)) = Frame::of(venue, venue.area_of(row)).zip(places) {
            let [depth, _] = frame.of_point(places.point(usize::from(venue.layout(row).len) / 2));
            return Line { depth, first: 0, places: Some((frame, places)) };
        }
        let depth = i64::from(venue.rank(row)) * ROW;
        Line { depth, first: self.first_across(row), places: None }
    }

    /// Where the first position of a row is across its area, without places.
    fn first_across(&self, row: Row) -> i64 {
        let venue = &self.show.venue;
        let (rows, rank) = (venue.area(venue.area_of(row)).rows.clone(), venue.rank(row));
        let width = |row: Row| i64::from(venue.layout(row).len) * POSITION;
        let beside = |row: &Row| venue.rank(*row) == rank;
        let before: i64 = (rows.start..row).rev().take_while(beside).map(width).sum();
        let from_row_on = || (row..rows.end).take_while(beside).map(width).sum::<i64>();
        match self.shape(row).1 {
            Rule::Ltr | Rule::Focus => before,
            Rule::Rtl => -from_row_on(),
            Rule::Center => {
                let all = before + from_row_on();
                before - all / 2
            }
        }
    }
}
