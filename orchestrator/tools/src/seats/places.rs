//! Where the seats of an import are: rows become lines or points.

use allot_core::seat::plan::Point;

/// A place in the source, `[x, y]`.
pub type Place = [f64; 2];

/// A row is straight if no seat is farther from its place on the line than this part of a step.
const STRAIGHT: f64 = 0.01;

/// Where the positions of a row are, as a plan has it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RowPlaces {
    pub(super) at: Option<Point>,
    pub(super) step: Option<Point>,
    pub(super) points: Option<Vec<Point>>,
}

/// The distance of two places.
pub(super) fn distance([x, y]: Place, [to_x, to_y]: Place) -> f64 {
    (to_x - x).hypot(to_y - y)
}

/// The point that is so many steps from another.
fn stepped([x, y]: Place, [dx, dy]: Place, steps: f64) -> Place {
    [x + dx * steps, y + dy * steps]
}

/// A place in the precision of a plan.
pub(super) fn single(place: Place) -> Point {
    place.map(|number| number as f32)
}

impl RowPlaces {
    /// The places of a row of so many positions, by the position and the place of each seat; nothing if a seat has none. A
    /// break lies between its neighbours.
    pub(super) fn of(seats: &[(usize, Option<Place>)], positions: usize) -> Self {
        let places = seats.iter().map(|&(at, place)| Some((at as f64, place?)));
        let Some(places) = places.collect::<Option<Vec<(f64, Place)>>>() else { return Self::default() };
        let (Some(&(first_at, first)), Some(&(last_at, last))) = (places.first(), places.last()) else {
            return Self::default();
        };
        let steps = (last_at - first_at).max(1.0);
        let step = [(last[0] - first[0]) / steps, (last[1] - first[1]) / steps];
        let tolerance = STRAIGHT * step[0].hypot(step[1]);
        let is_on_line =
            |&(at, place): &(f64, Place)| distance(place, stepped(first, step, at - first_at)) <= tolerance;
        if places.iter().all(is_on_line) {
            let at = stepped(first, step, -first_at);
            return Self { at: Some(single(at)), step: Some(single(step)), points: None };
        }
        let point = |at: usize| {
            let at = at as f64;
            let after = places.partition_point(|&(other, _)| other < at);
            let (before, after) = (after.checked_sub(1).and_then(|at| places.get(at)), places.get(after));
            match (before, after) {
                (Some(&(from, place)), Some(&(to, next))) => {
                    let part = (at - from) / (to - from);
                    [place[0] + (next[0] - place[0]) * part, place[1] + (next[1] - place[1]) * part]
                }
                (Some(&(_, place)), None) | (None, Some(&(_, place))) => place,
                (None, None) => first,
            }
        };
        Self { points: Some((0..positions).map(|at| single(point(at))).collect()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of a row of seats and breaks.
    fn places(row: &[Option<Place>]) -> RowPlaces {
        let seats = row.iter().enumerate().filter(|(_, place)| place.is_some());
        RowPlaces::of(&seats.map(|(at, place)| (at, *place)).collect::<Vec<_>>(), row.len())
    }

    #[test]
    fn evenly_spaced_row_is_a_line_and_its_breaks_are_on_it() {
        let row = places(&[None, Some([10.0, 5.0]), None, Some([20.0, 5.0]), Some([25.0, 5.001])]);
        assert_eq!((row.at.unwrap()[0], row.step.unwrap()[0]), (5.0, 5.0));
        assert_eq!(row.points, None);
    }

    #[test]
    fn bent_row_has_a_point_for_each_position() {
        let row = places(&[Some([0.0, 0.0]), None, Some([4.0, 2.0]), Some([8.0, 0.0]), None]);
        assert_eq!(row.points.unwrap(), [[0.0, 0.0], [2.0, 1.0], [4.0, 2.0], [8.0, 0.0], [8.0, 0.0]]);
        assert_eq!((row.at, row.step), (None, None));
    }

    #[test]
    fn row_with_a_seat_without_a_place_has_none() {
        let seats = [(0, Some([0.0, 0.0])), (1, Some([1.0, 0.0])), (2, None)];
        assert_eq!(RowPlaces::of(&seats, 3), RowPlaces::default());
    }
}
