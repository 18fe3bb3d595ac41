//! Where the seats of a venue are, if its plan says so: each row is a straight line, or a list of points, in any unit. And how
//! far seats are from the focus, the point to which the rule `focus` is near.

use super::labels::parse_short_form;
use super::plan::{PlanArea, PlanRow, PlanSeats, Rule, wrong};
use super::venue::{Area, Row, Venue};
use crate::shared::refusal::Refusal;
use std::ops::Range;

/// A point of the plan, `[x, y]`; also the way from one point to another.
pub type Point = [f32; 2];

/// The first point and the step of a row without a straight line.
const NOWHERE: [Point; 2] = [[f32::NAN; 2]; 2];

/// The places of all rows. Takes no memory in a venue without places, 16 bytes a straight row, and 8 bytes a position of
/// another.
#[derive(Clone, Debug, Default)]
pub(in crate::seat) struct Places {
    /// The first point and the step of each row; `NOWHERE` for a row with points, or without places. Rows at the end may be
    /// missing.
    lines: Vec<[Point; 2]>,
    /// The points of rows that are no straight lines, by row.
    curves: Vec<(Row, Box<[Point]>)>,
}

/// The places of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::seat) enum RowPlaces<'a> {
    /// The first point and the step.
    Line([Point; 2]),
    /// The point of each position.
    Curve(&'a [Point]),
}

impl Places {
    /// Adds the places of a row behind those of all rows before.
    pub(in crate::seat) fn push(&mut self, row: Row, places: Option<RowPlaces<'_>>) {
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
    pub(in crate::seat) fn of(&self, row: Row) -> Option<RowPlaces<'_>> {
        match self.lines.get(row as usize) {
            Some(line) if !line[0][0].is_nan() => Some(RowPlaces::Line(*line)),
            Some(_) | None => {
                let at = self.curves.binary_search_by_key(&row, |&(row, _)| row).ok()?;
                self.curves.get(at).map(|(_, points)| RowPlaces::Curve(points))
            }
        }
    }

    /// Whether all of these rows have places, or none has.
    pub(in crate::seat) fn are_for_all_or_none(&self, rows: Range<Row>) -> bool {
        let with_places = rows.clone().filter(|&row| self.of(row).is_some()).count();
        with_places == 0 || with_places == rows.len()
    }

    /// Bytes allocated.
    pub(in crate::seat) fn allocated(&self) -> usize {
        self.lines.capacity() * size_of::<[Point; 2]>()
            + self.curves.capacity() * size_of::<(Row, Box<[Point]>)>()
            + self.curves.iter().map(|(_, points)| points.len() * size_of::<Point>()).sum::<usize>()
    }
}

impl RowPlaces<'_> {
    /// Where a position of the row is. O(1).
    pub(in crate::seat) fn point(&self, position: usize) -> [f64; 2] {
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
    fn distance(&self, start: usize, n: usize, [x, y]: Point) -> u64 {
        let (left, right) = (self.point(start + n.saturating_sub(1) / 2), self.point(start + n / 2));
        let across = f64::midpoint(left[0], right[0]) - f64::from(x);
        let along = f64::midpoint(left[1], right[1]) - f64::from(y);
        (across * across + along * along).to_bits()
    }

    /// The least distance between a point and the middle of any run in a row of `len` positions, as `distance` has it. O(1)
    /// for a straight row, O(positions) for another.
    fn nearest(&self, len: usize, focus: Point) -> u64 {
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
    pub(in crate::seat) fn places(
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

    /// How many positions the row has; `None` if its seats cannot be read.
    fn positions(&self) -> Option<usize> {
        match &self.seats {
            PlanSeats::List(seats) => Some(seats.len()),
            PlanSeats::Short(text) => parse_short_form(text).ok().map(|labels| labels.len()),
        }
    }
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
    let distance_of = |(number, row): (usize, &'p PlanRow)| {
        let place = || format!("{place}.rows[{number}]");
        // What is wrong with the seats is said when they are read.
        let Some(positions) = row.positions() else { return Ok((u64::MAX, row.rank, number, row)) };
        match row.places(positions, &place)? {
            Some(places) => Ok((places.nearest(positions, focus), row.rank, number, row)),
            None => Err(wrong(&place(), "the rule of its area is focus, so it needs at and step, or points")),
        }
    };
    let mut by_distance = rows.into_iter().map(distance_of).collect::<Result<Vec<_>, _>>()?;
    by_distance.sort_by_key(|&(distance, rank, ..)| (distance, rank));
    Ok(by_distance.into_iter().map(|(.., number, row)| (number, row)).collect())
}

impl Venue {
    /// The focus of an area: its own, or that of the show.
    fn focus_of(&self, area: Area) -> Option<Point> {
        self.area(area).focus.or(self.focus)
    }

    /// The row's places and focus, if its seats are taken by the rule `focus`.
    fn by_focus(&self, row: Row) -> Option<(RowPlaces<'_>, Point)> {
        let area = self.area_of(row);
        let is_by_focus = self.area(area).rule == Rule::Focus;
        if is_by_focus { self.places.of(row).zip(self.focus_of(area)) } else { None }
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
