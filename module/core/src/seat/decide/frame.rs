//! Where runs are in their area, so that groups can be near each other: how far back, and how far across, in halves of
//! positions.
//!
//! Without places in the plan a row is as deep as two seats are wide, by rank; rows of one rank lie side by side in the order
//! of the plan. Rows begin at one side of the area (`ltr`, `rtl`), or have their middles behind each other (`center`). With
//! places, the first row of the area says which way is across, and how wide a position is.

use super::rows::Rows;
use crate::seat::places::{Frame, POSITION, RowPlaces};
use crate::seat::plan::Rule;
use crate::seat::venue::{Row, Seat};

/// How deep a row is, in an area without places.
pub(super) const ROW: i64 = 2 * POSITION;

/// Where a row is in its area.
pub(super) enum Line<'a> {
    /// Without places: how far back it is, and where its first position is across.
    Ranked { depth: i64, first: i64 },
    /// With places.
    Placed(Frame, RowPlaces<'a>),
}

/// Where seats side by side are in their area.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// How far back they are, by their middle.
    pub(super) depth: i64,
    /// Where their left end is across.
    pub(super) left: i64,
    /// Whether the last is the left one.
    pub(super) reversed: bool,
}

impl Line<'_> {
    /// Where so many positions from `start` on are. O(1).
    pub(super) fn span(&self, start: usize, len: usize) -> Span {
        match self {
            Self::Ranked { depth, first } => {
                Span { depth: *depth, left: first + start as i64 * POSITION, reversed: false }
            }
            Self::Placed(frame, places) => {
                let place = |position: usize| frame.of_point(places.point(position));
                let ([_, first], [_, last]) = (place(start), place(start + len.saturating_sub(1)));
                let [depth, _] = place(start + len / 2);
                Span { depth, left: first.min(last), reversed: last < first }
            }
        }
    }
}

impl Rows<'_> {
    /// Where a row is in its area. O(log rows).
    pub(super) fn line(&self, row: Row) -> Line<'_> {
        let venue = &self.show.venue;
        let frame = venue.area(venue.area_of(row)).frame;
        if let Some((frame, places)) = frame.zip(venue.places.of(row)) {
            return Line::Placed(frame, places);
        }
        let depth = i64::from(venue.rank(row)) * ROW;
        let of_rank = venue.rows_of_rank(row);
        let begin = venue.base(of_rank.start);
        let end = of_rank.last().map_or(begin, |last| venue.positions_of(last).end);
        let width = |to: Seat| i64::from(to.saturating_sub(begin)) * POSITION;
        let (before, all) = (width(venue.base(row)), width(end));
        let first = match self.shape(row).1 {
            Rule::Ltr | Rule::Focus => before,
            Rule::Rtl => before - all,
            Rule::Center => before - all / 2,
        };
        Line::Ranked { depth, first }
    }
}
