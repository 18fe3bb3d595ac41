//! Where the seats of an import are: rows become lines or points, and what all look at decides which seats are the best.

use super::draft::{Area, Draft, Row, Seat};
use allot_core::seat::places::Point;
use allot_core::seat::plan::Rule;

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

fn distance([x, y]: Place, [to_x, to_y]: Place) -> f64 {
    (to_x - x).hypot(to_y - y)
}

/// The point that is so many steps from another.
fn stepped([x, y]: Place, [dx, dy]: Place, steps: f64) -> Place {
    [x + dx * steps, y + dy * steps]
}

fn single(place: Place) -> Point {
    place.map(|number| number as f32)
}

impl RowPlaces {
    /// The places of a row in which each seat has its own; nothing if one has none. A break lies between its neighbours.
    pub(super) fn of(positions: &[Option<Seat>]) -> Self {
        let places =
            positions.iter().enumerate().filter_map(|(at, seat)| Some((at as f64, seat.as_ref()?.at)));
        let places: Option<Vec<(f64, Place)>> = places.map(|(at, place)| Some((at, place?))).collect();
        let Some(places) = places else { return Self::default() };
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
        Self { points: Some((0..positions.len()).map(|at| single(point(at))).collect()), ..Self::default() }
    }
}

/// The middle of the seats of a row; `None` if one of them has no place.
fn middle(row: &Row) -> Option<Place> {
    let places: Option<Vec<Place>> = row.seats().map(|seat| seat.at).collect();
    let places = places.filter(|places| !places.is_empty())?;
    let sum = places.iter().fold([0.0; 2], |[x, y], place| [x + place[0], y + place[1]]);
    Some(sum.map(|total| total / places.len() as f64))
}

/// Turns the ranks of an area whose rows come back to front. Returns whether it did.
fn turn_ranks(area: &mut Area, focus: Place) -> bool {
    let mut rows: Vec<(i32, f64)> =
        area.rows.iter().filter_map(|row| Some((row.rank, distance(middle(row)?, focus)))).collect();
    rows.sort_by_key(|&(rank, _)| rank);
    let pairs = || rows.iter().zip(rows.iter().skip(1));
    let nearer = pairs().filter(|((_, one), (_, next))| next < one).count();
    let farther = pairs().filter(|((_, one), (_, next))| next > one).count();
    let (first, last) = (rows.first().map_or(0, |&(rank, _)| rank), rows.last().map_or(0, |&(rank, _)| rank));
    if nearer <= farther {
        return false;
    }
    for row in &mut area.rows {
        row.rank = first.saturating_add(last).saturating_sub(row.rank);
    }
    true
}

impl Draft {
    /// Has the seats sold from a point outwards: the one that is given, else the stage that the source shows. Areas whose
    /// seats all have places get the rule `focus`.
    pub fn look_at(&mut self, given: Option<Place>) {
        let focus = match (given, self.stage.take()) {
            (Some(focus), _) => focus,
            (None, Some((focus, note))) => {
                self.notes.push(note);
                focus
            }
            (None, None) => return,
        };
        self.focus = Some(single(focus));
        for area in &mut self.areas {
            if area.rows.is_empty() || area.rows.iter().any(|row| middle(row).is_none()) {
                continue;
            }
            area.rule = Rule::Focus;
            if turn_ranks(area, focus) {
                self.notes
                    .push(format!("the rows of area '{}' come back first: their ranks are turned", area.id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(places: &[Option<Place>]) -> Vec<Option<Seat>> {
        let seat = |place: Place| Seat { at: Some(place), ..Seat::new("1".into(), "t".into()) };
        places.iter().map(|place| place.map(seat)).collect()
    }

    #[test]
    fn evenly_spaced_row_is_a_line_and_its_breaks_are_on_it() {
        let row = seats(&[None, Some([10.0, 5.0]), None, Some([20.0, 5.0]), Some([25.0, 5.001])]);
        let places = RowPlaces::of(&row);
        assert_eq!((places.at.unwrap()[0], places.step.unwrap()[0]), (5.0, 5.0));
        assert_eq!(places.points, None);
    }

    #[test]
    fn bent_row_has_a_point_for_each_position() {
        let row = seats(&[Some([0.0, 0.0]), None, Some([4.0, 2.0]), Some([8.0, 0.0]), None]);
        let places = RowPlaces::of(&row);
        assert_eq!(places.points.unwrap(), [[0.0, 0.0], [2.0, 1.0], [4.0, 2.0], [8.0, 0.0], [8.0, 0.0]]);
        assert_eq!((places.at, places.step), (None, None));
    }

    #[test]
    fn row_with_a_seat_without_a_place_has_none() {
        let mut row = seats(&[Some([0.0, 0.0]), Some([1.0, 0.0])]);
        row.push(Some(Seat::new("3".into(), "t".into())));
        assert_eq!(RowPlaces::of(&row), RowPlaces::default());
    }

    fn draft(ys: &[f64]) -> Draft {
        let rows = ys.iter().zip(1..).map(|(&y, rank)| Row {
            label: rank.to_string(),
            rank,
            source: String::new(),
            positions: seats(&[Some([0.0, y]), Some([1.0, y])]),
        });
        Draft {
            areas: vec![Area { id: "a".into(), name: "A".into(), rows: rows.collect(), ..Area::default() }],
            ..Draft::default()
        }
    }

    #[test]
    fn ranks_are_turned_only_if_rows_come_back_first() {
        let ranks = |draft: &Draft| draft.areas[0].rows.iter().map(|row| row.rank).collect::<Vec<_>>();
        let mut front_first = draft(&[1.0, 2.0, 3.0]);
        front_first.look_at(Some([0.0, 0.0]));
        assert_eq!((ranks(&front_first), front_first.areas[0].rule), (vec![1, 2, 3], Rule::Focus));
        let mut back_first = draft(&[3.0, 2.0, 1.0]);
        back_first.look_at(Some([0.0, 0.0]));
        assert_eq!(ranks(&back_first), [3, 2, 1]);
        assert_eq!(back_first.notes, ["the rows of area 'a' come back first: their ranks are turned"]);
        back_first.look_at(Some([0.0, 0.0]));
        assert_eq!(ranks(&back_first), [3, 2, 1], "once is enough");
        let mut nobody_looks = draft(&[3.0, 2.0]);
        nobody_looks.look_at(None);
        assert_eq!((ranks(&nobody_looks), nobody_looks.areas[0].rule), (vec![1, 2], Rule::Ltr));
    }
}
