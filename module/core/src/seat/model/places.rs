//! Where the seats of a venue are, if its plan says so: each row is a straight line, or a list of points, in any unit; and
//! the order of rows that follows from it.

use super::plan::{PlanArea, PlanRow, PlanSeats, Point, Rule, max, wrong};
use crate::shared::refusal::Refusal;
use std::ops::Range;

/// The first point and the step of a row without a straight line.
const NOWHERE: [Point; 2] = [[f32::NAN; 2]; 2];

/// The width of a position: two halves, because the middle of a row may lie between two positions.
pub(in crate::seat) const POSITION: i64 = 2;

/// No place is farther away, so that sums of distances are integers.
const FARTHEST: f64 = 1e12;

/// Which way is across an area whose plan says where its rows are.
#[derive(Clone, Copy, Debug)]
pub(in crate::seat) struct Frame {
    /// Where a row begins.
    origin: [f64; 2],
    /// The way across that is as long as half a position is wide.
    across: [f64; 2],
}

impl Frame {
    /// The frame that a row gives its area; `None` if all of its positions are at one place.
    fn of(places: &RowPlaces<'_>) -> Option<Self> {
        let [x, y] = places.point(0);
        let steps = match places {
            RowPlaces::Line(_) => 1,
            RowPlaces::Curve(points) => points.len().saturating_sub(1),
        };
        let [to_x, to_y] = places.point(steps);
        let halves = steps as f64 * POSITION as f64;
        let across = [(to_x - x) / halves, (to_y - y) / halves];
        let unit = across[0] * across[0] + across[1] * across[1];
        (unit > 0.0 && unit.is_finite()).then_some(Self { origin: [x, y], across })
    }

    /// How far a point is back and across, in halves of positions.
    pub(in crate::seat) fn of_point(&self, [x, y]: [f64; 2]) -> [i64; 2] {
        let ([dx, dy], [x, y]) = (self.across, [x - self.origin[0], y - self.origin[1]]);
        let unit = dx * dx + dy * dy;
        [(y * dx - x * dy) / unit, (x * dx + y * dy) / unit]
            .map(|halves| halves.round().clamp(-FARTHEST, FARTHEST) as i64)
    }
}

/// The places of all rows. Takes no memory in a venue without places, 16 bytes a straight row, and 8 bytes a position and
/// 24 of another.
#[derive(Clone, Debug, Default)]
pub(in crate::seat) struct Places {
    /// The first point and the step of each row; `NOWHERE` for a row with points, or without places. Rows at the end may be
    /// missing.
    lines: Vec<[Point; 2]>,
    /// The points of rows that are no straight lines, by row.
    curves: Vec<(u32, Box<[Point]>)>,
}

/// The places of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowPlaces<'a> {
    /// The first point and the step.
    Line([Point; 2]),
    /// The point of each position.
    Curve(&'a [Point]),
}

impl Places {
    /// Adds the places of a row behind those of all rows before.
    pub(in crate::seat) fn push(&mut self, row: u32, places: Option<RowPlaces<'_>>) {
        let line = match places {
            None => return,
            Some(RowPlaces::Line(line)) => line,
            Some(RowPlaces::Curve(points)) => {
                self.curves.push((row, points.into()));
                return;
            }
        };
        self.lines.resize(row as usize, NOWHERE);
        self.lines.push(line);
    }

    /// The places of a row; `None` if it has none. O(log rows).
    pub(in crate::seat) fn of(&self, row: u32) -> Option<RowPlaces<'_>> {
        match self.lines.get(row as usize) {
            Some(line) if !line[0][0].is_nan() => Some(RowPlaces::Line(*line)),
            Some(_) | None => {
                let at = self.curves.binary_search_by_key(&row, |&(row, _)| row).ok()?;
                self.curves.get(at).map(|(_, points)| RowPlaces::Curve(points))
            }
        }
    }

    /// Whether all of these rows have places, or none has.
    pub(in crate::seat) fn are_for_all_or_none(&self, rows: Range<u32>) -> bool {
        let with_places = rows.clone().filter(|&row| self.of(row).is_some()).count();
        with_places == 0 || with_places == rows.len()
    }

    /// The frame of the area of these rows: that of the first row that has one. O(rows), mostly O(1).
    pub(in crate::seat) fn frame(&self, mut rows: Range<u32>) -> Option<Frame> {
        rows.find_map(|row| Frame::of(&self.of(row)?))
    }

    /// Gives back memory that no row takes.
    pub(in crate::seat) fn shrink(&mut self) {
        self.lines.shrink_to_fit();
        self.curves.shrink_to_fit();
    }

    /// Bytes allocated.
    pub(in crate::seat) fn allocated(&self) -> usize {
        self.lines.capacity() * size_of::<[Point; 2]>()
            + self.curves.capacity() * size_of::<(u32, Box<[Point]>)>()
            + self.curves.iter().map(|(_, points)| points.len() * size_of::<Point>()).sum::<usize>()
    }
}

impl RowPlaces<'_> {
    /// Where a position of the row is. O(1).
    pub fn point(&self, position: usize) -> [f64; 2] {
        match self {
            Self::Line([[x, y], [dx, dy]]) => {
                let steps = position as f64;
                [f64::from(*x) + steps * f64::from(*dx), f64::from(*y) + steps * f64::from(*dy)]
            }
            Self::Curve(points) => {
                points.get(position).or(points.last()).map_or([0.0; 2], |&[x, y]| [x.into(), y.into()])
            }
        }
    }

    /// The square of the distance between a point and the middle of the `n` positions from `start` on: the place of the
    /// middle one, or half-way between the two middle ones. As bits, which compare as the distances do. O(1).
    pub(in crate::seat) fn distance(&self, start: usize, n: usize, [x, y]: Point) -> u64 {
        let (left, right) = (self.point(start + n.saturating_sub(1) / 2), self.point(start + n / 2));
        let across = f64::midpoint(left[0], right[0]) - f64::from(x);
        let along = f64::midpoint(left[1], right[1]) - f64::from(y);
        (across * across + along * along).to_bits()
    }

    /// The least distance between a point and the middle of any run in a row of `len` positions, as `distance` has it. O(1)
    /// for a straight row, O(positions) for another.
    pub(in crate::seat) fn nearest(&self, len: usize, focus: Point) -> u64 {
        let last = len.saturating_sub(1);
        let candidates = match self {
            Self::Curve(_) => 0..=last,
            Self::Line([[x, y], [dx, dy]]) => {
                // Where the line is nearest: the middles on both sides of it are the candidates.
                let [x, y, dx, dy] = [x, y, dx, dy].map(|&number| f64::from(number));
                let along = (f64::from(focus[0]) - x) * dx + (f64::from(focus[1]) - y) * dy;
                let nearest = along / (dx * dx + dy * dy);
                // Not a number if the step is zero: then all are equally near.
                let at = if nearest > 0.0 { (nearest as usize).min(last) } else { 0 };
                at.saturating_sub(1)..=(at + 2).min(last)
            }
        };
        let single = candidates.clone().map(|position| self.distance(position, 1, focus));
        let pairs = candidates.filter(|position| *position < last).map(|at| self.distance(at, 2, focus));
        single.chain(pairs).min().unwrap_or(u64::MAX)
    }
}

impl PlanRow {
    /// Where the positions of the row are, by its plan; `None` if it says nothing.
    ///
    /// # Errors
    /// `ERR plan: <place>: <what>` if it contradicts itself, or has a coordinate that is no finite number.
    pub fn places(
        &self,
        positions: usize,
        place: &dyn Fn() -> String,
    ) -> Result<Option<RowPlaces<'_>>, Refusal> {
        let refuse = |what: &str| Err(wrong(&place(), what));
        let places = match (self.at, self.step, &self.points) {
            (None, None, None) => return Ok(None),
            (Some(at), Some(step), None) => RowPlaces::Line([at, step]),
            (None, None, Some(points)) if points.len() == positions => RowPlaces::Curve(points),
            (None, None, Some(points)) => {
                let what = format!("points: has {} points for {positions} positions", points.len());
                return refuse(&what);
            }
            (.., Some(_)) => return refuse("has points as well as at or step; write either"),
            (Some(_), None, None) | (None, Some(_), None) => {
                return refuse("has only one of at and step; write both");
            }
        };
        let all_finite = |points: &[Point]| points.iter().flatten().all(|number| number.is_finite());
        let fine = match &places {
            RowPlaces::Line(line) => all_finite(line),
            RowPlaces::Curve(points) => all_finite(points),
        };
        if fine { Ok(Some(places)) } else { refuse(TOO_LARGE) }
    }

    /// About how many positions the row has: exactly, if its seats can be read. O(items of the short form).
    fn positions(&self) -> usize {
        match &self.seats {
            PlanSeats::List(seats) => seats.len(),
            PlanSeats::Short(text) => text.split(',').map(positions_of).fold(0, usize::saturating_add),
        }
    }
}

/// How many positions an item of the short form has: a range of numbers, a label, or a break.
fn positions_of(item: &str) -> usize {
    let range = item
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?)));
    range.map_or(1, |(from, to)| from.abs_diff(to) as usize + 1)
}

const TOO_LARGE: &str = "has a coordinate that is too large for a number of single precision";

/// Checks the focus of a show or an area.
pub(in crate::seat) fn check_focus(place: &str, focus: Option<Point>) -> Result<(), Refusal> {
    if focus.is_none_or(|focus| focus.iter().all(|number| number.is_finite())) {
        return Ok(());
    }
    Err(wrong(&format!("{place}focus"), TOO_LARGE))
}

/// The rows of an area in the order in which they are numbered: by rank, then as in the plan; with the rule `focus` the
/// nearest first. O(R log R) with R rows, and O(positions) with the rule `focus`.
///
/// # Errors
/// `ERR plan: <place>: <what>` for the rule `focus` without a focus, or with a row whose place is not known.
pub(in crate::seat) fn ordered_rows<'p>(
    area: &'p PlanArea,
    focus: Option<Point>,
    place: &str,
) -> Result<Vec<(usize, &'p PlanRow)>, Refusal> {
    let mut rows: Vec<(usize, &PlanRow)> = area.rows.iter().enumerate().collect();
    if area.rule != Rule::Focus {
        rows.sort_by_key(|(_, row)| row.rank);
        return Ok(rows);
    }
    let Some(focus) = area.focus.or(focus) else {
        return Err(wrong(place, "rule: focus needs the focus of the area or of the show"));
    };
    let mut all_positions: usize = 0;
    let mut distance_of = |(number, row): (usize, &'p PlanRow)| {
        let (positions, place) = (row.positions(), || format!("{place}.rows[{number}]"));
        all_positions = all_positions.saturating_add(positions);
        if positions > max::POSITIONS || all_positions > max::ALL_POSITIONS {
            return Err(wrong(&place(), "the row or the plan has too many positions"));
        }
        match row.places(positions, &place)? {
            Some(places) => Ok((places.nearest(positions, focus), row.rank, number, row)),
            None => Err(wrong(&place(), "the rule of its area is focus, so it needs at and step, or points")),
        }
    };
    let mut by_distance = rows.into_iter().map(&mut distance_of).collect::<Result<Vec<_>, _>>()?;
    by_distance.sort_by_key(|&(distance, rank, ..)| (distance, rank));
    Ok(by_distance.into_iter().map(|(.., number, row)| (number, row)).collect())
}
