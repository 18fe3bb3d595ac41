//! The order of rows in a plan, for seats that a server lists in the order of their numbers.

use std::collections::HashMap;

use allot_client::Record;
use allot_core::seat::Show;
use anyhow::{Result, anyhow};

/// Puts the seats of a list into the order of the plan.
pub struct PlanOrder {
    /// The area and the row of each seat, by their places in the plan; only of areas whose rows have another order in the
    /// list.
    places: HashMap<String, Place>,
    /// Seats of one such area, until all of them were listed.
    of_area: Vec<(Place, Record)>,
}

type Place = (u32, usize);

impl PlanOrder {
    /// The order of a plan in JSON.
    pub fn of(plan: &str) -> Result<Self> {
        let show = Show::open(plan, 0).map_err(|refusal| anyhow!("{refusal}"))?;
        let (venue, mut places) = (show.venue(), HashMap::new());
        for (area, _) in (0..).zip(venue.areas()) {
            if venue.rows_in_plan(area).is_sorted() {
                continue;
            }
            for (row, place) in venue.rows_in_plan(area).zip(0..) {
                places.extend(venue.seats_of(row).map(|seat| (venue.id(seat), (area, place))));
            }
        }
        Ok(Self { places, of_area: Vec::new() })
    }

    /// The seats to write after this part of the list, which is the last one or not.
    pub fn of_part(&mut self, part: Vec<Record>, is_last: bool) -> Result<Vec<Record>> {
        if self.places.is_empty() {
            return Ok(part);
        }
        let mut ready = Vec::with_capacity(part.len());
        for seat in part {
            let place = self.places.get(&seat.get::<String>("id")?).copied();
            let area = |place: Place| place.0;
            if self.of_area.last().is_some_and(|&(last, _)| place.map(area) != Some(area(last))) {
                self.end_area(&mut ready);
            }
            match place {
                Some(place) => self.of_area.push((place, seat)),
                None => ready.push(seat),
            }
        }
        if is_last {
            self.end_area(&mut ready);
        }
        Ok(ready)
    }

    fn end_area(&mut self, ready: &mut Vec<Record>) {
        // The seats of a row are listed from left to right.
        self.of_area.sort_by_key(|&(place, _)| place);
        ready.extend(self.of_area.drain(..).map(|(_, seat)| seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    #[test]
    fn seats_of_each_area_are_in_the_order_of_the_plan() {
        let row = |label: &str, rank: u32| serde_json::json!({"label": label, "rank": rank, "tier": "t", "seats": "1-2"});
        let area = |id: &str, rows: &[serde_json::Value]| serde_json::json!({"id": id, "rows": rows});
        let back_first = [row("C", 3), row("B", 2), row("A", 1)];
        let plan = serde_json::json!({"areas": [area("a", &back_first), area("b", &[row("A", 1), row("B", 2)]),
            area("c", &back_first), area("d", &back_first)]});
        let show = Show::open(&plan.to_string(), 0).unwrap();
        let venue = show.venue();
        let listed = (0..venue.position_count()).map(|seat| {
            let id = Value::BulkString(venue.id(seat).into_bytes());
            Record::read(Value::Array(vec![Value::SimpleString("id".into()), id])).unwrap()
        });
        let listed: Vec<Record> = listed.collect();
        for part in [1, 2, 5, 100] {
            let mut order = PlanOrder::of(&plan.to_string()).unwrap();
            let (parts, mut written) = (listed.chunks(part), Vec::new());
            let last = parts.len() - 1;
            for (number, part) in parts.enumerate() {
                written.extend(order.of_part(part.to_vec(), number == last).unwrap());
            }
            let ids: Vec<String> = written.iter().map(|seat| seat.get("id").unwrap()).collect();
            let rows = |area: &str, rows: [&str; 3]| {
                let ids = rows.map(|row| [format!("{area}-{row}-1"), format!("{area}-{row}-2")]);
                ids.into_iter().flatten().collect::<Vec<_>>()
            };
            let of = |area| rows(area, ["C", "B", "A"]);
            let of_b = rows("b", ["A", "B", ""])[..4].to_vec();
            assert_eq!(ids, [of("a"), of_b, of("c"), of("d")].concat(), "parts of {part}");
        }
    }
}
