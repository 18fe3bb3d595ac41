//! What all look at decides which seats of an import are the best.

use super::draft::{Area, Draft, Row};
use super::places::{Place, distance, single};
use allot_core::seat::plan::Rule;

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

/// Takes all places away from an area in which some seats have none, or all have the same. Returns whether it did.
fn drop_partial_places(area: &mut Area) -> bool {
    let seats = || area.rows.iter().flat_map(Row::seats);
    let Some(first) = seats().find_map(|seat| seat.at) else { return false };
    let differs = seats().any(|seat| seat.at.is_some_and(|at| distance(at, first) > 0.0));
    if seats().all(|seat| seat.at.is_some()) && (differs || seats().count() == 1) {
        return false;
    }
    let seats = area.rows.iter_mut().flat_map(|row| row.positions.iter_mut().flatten());
    seats.for_each(|seat| seat.at = None);
    true
}

impl Draft {
    /// Has the seats sold from a point outwards: the one that is given, else the stage that the source shows. Areas whose
    /// seats all have places get the rule `focus`.
    pub fn look_at(&mut self, given: Option<Place>) {
        // Told before all other notes, since this decides which seats are the best.
        let mut told = Vec::new();
        for area in &mut self.areas {
            if drop_partial_places(area) {
                let why = "some of its seats have none, or all are at one";
                told.push(format!("the places of seats in area '{}' are passed over: {why}", area.id));
            }
        }
        let shown = self.stage.take().filter(|_| given.is_none());
        let focus = given.or(shown.as_ref().map(|(focus, _)| *focus));
        told.extend(shown.map(|(_, note)| note));
        if let Some(focus) = focus {
            self.focus = Some(single(focus));
            for area in &mut self.areas {
                if area.rows.is_empty() || area.rows.iter().any(|row| middle(row).is_none()) {
                    continue;
                }
                (area.rule, area.focus) = (Rule::Focus, None);
                if turn_ranks(area, focus) {
                    told.push(format!(
                        "the rows of area '{}' come back first: their ranks are turned",
                        area.id
                    ));
                }
            }
        }
        self.notes.splice(0..0, told);
    }
}

#[cfg(test)]
mod tests {
    use super::super::draft::Seat;
    use super::*;

    fn seats(places: &[Place]) -> Vec<Option<Seat>> {
        let seat = |&place: &Place| Seat { at: Some(place), ..Seat::new("1".into(), "t".into()) };
        places.iter().map(|place| Some(seat(place))).collect()
    }

    #[test]
    fn places_of_some_seats_or_of_one_point_are_passed_over() {
        let mut some = draft(&[1.0, 2.0]);
        some.areas[0].rows[0].positions[0].as_mut().unwrap().at = None;
        let mut one_point = draft(&[0.0, 0.0]);
        one_point.areas[0].rows.iter_mut().for_each(|row| row.positions.truncate(1));
        for mut draft in [some, one_point] {
            draft.look_at(Some([0.0, 0.0]));
            assert!(draft.notes[0].starts_with("the places of seats in area 'a' are passed over"));
            assert_eq!((draft.areas[0].rule, draft.seats().find_map(|seat| seat.at)), (Rule::Ltr, None));
        }
    }

    fn draft(ys: &[f64]) -> Draft {
        let rows = ys.iter().zip(1..).map(|(&y, rank)| Row {
            label: rank.to_string(),
            rank,
            source: String::new(),
            positions: seats(&[[0.0, y], [1.0, y]]),
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
