//! Reads a table `area,row,seat,tier[,break_after][,id][,state][,order][,x][,y]`, whose order is the physical order. Other
//! columns are passed over, with a note. Areas get the rule
//! `ltr` and, in the order of the file, the priorities 1, 2, 3; a row's rank is its order in its area.

use std::collections::HashMap;

use anyhow::Result;

use super::draft::{Area, Draft, Row, Seat};
use super::places::Place;
use crate::table::{Problems, Table};
use allot_core::seat::state::SeatState;

/// The columns; the first four must be there.
const COLUMNS: [&str; 10] = ["area", "row", "seat", "tier", "break_after", "id", "state", "order", "x", "y"];

/// Reads a table. Every problem is noted with its line.
pub(super) fn read(text: &str) -> Result<(Draft, Problems)> {
    let mut table = Table::open(text.as_bytes(), &COLUMNS, 4, true).map_err(|error| {
        let is_export = text.lines().next().is_some_and(|head| head.contains("row,label,tier"));
        let hint = "a table of `allot show export` has no aisles; export with --format json";
        if is_export { error.context(hint) } else { error }
    })?;
    let (mut draft, mut problems) = (Draft::default(), Problems::default());
    let others: Vec<&str> = table.others(&COLUMNS).collect();
    if !others.is_empty() {
        draft.notes.push(format!("columns that a plan does not have are passed over: {}", others.join(", ")));
    }
    let mut kept_back = 0;
    let mut areas: HashMap<String, usize> = HashMap::new();
    let mut rows: HashMap<(usize, String), usize> = HashMap::new();
    while let Some(line) = table.advance() {
        let line = match line {
            Ok(line) => line,
            Err(why) => {
                problems.add(why);
                continue;
            }
        };
        let [area, row, seat, tier, mark, id, state, order, x, y] =
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|column| table.get(column));
        if let Some((name, _)) =
            COLUMNS.iter().zip([area, row, seat, tier]).find(|(_, field)| field.is_empty())
        {
            problems.add(format!("line {line}: the field '{name}' is empty"));
            continue;
        }
        let Some(breaks) = is_set(mark) else {
            problems.add(format!("line {line}: break_after is '{mark}'; write 1 or nothing"));
            continue;
        };
        let at = match place(x, y) {
            Ok(at) => at,
            Err(why) => {
                problems.add(format!("line {line}: {why}"));
                continue;
            }
        };
        let state = if state.is_empty() {
            SeatState::Free
        } else {
            let Some(state) = SeatState::parse(state.as_bytes()) else {
                problems.add(format!("line {line}: state is '{state}'; write free, held, blocked or sold"));
                continue;
            };
            state
        };
        kept_back += u64::from(matches!(state, SeatState::Held | SeatState::Blocked));
        let area_index = *areas.entry(area.to_owned()).or_insert_with(|| {
            let priority = draft.areas.len() as i32 + 1;
            let (id, name) = (area.to_owned(), area.to_owned());
            draft.areas.push(Area { id, name, priority, ..Area::default() });
            draft.areas.len() - 1
        });
        let Some(area) = draft.areas.get_mut(area_index) else { continue };
        let row_index = *rows.entry((area_index, row.to_owned())).or_insert_with(|| {
            let rank = area.rows.len() as i32 + 1;
            let source = format!("line {line}");
            area.rows.push(Row { label: row.to_owned(), rank, source, positions: Vec::new() });
            area.rows.len() - 1
        });
        let Some(row) = area.rows.get_mut(row_index) else { continue };
        let mut imported = Seat { at, line: Some(line), ..Seat::new(seat.to_owned(), tier.to_owned()) };
        imported.plan.id = (!id.is_empty()).then(|| id.to_owned());
        imported.order = (!order.is_empty()).then(|| order.to_owned());
        imported.sold = state == SeatState::Sold || imported.order.is_some();
        row.positions.push(Some(imported));
        if breaks {
            row.positions.push(None);
        }
    }
    if kept_back > 0 {
        draft
            .notes
            .push(format!("{kept_back} seats are held or blocked in the source, and free in the show"));
    }
    Ok((draft, problems))
}

/// The place of a seat; `None` if both fields are empty.
fn place(x: &str, y: &str) -> Result<Option<Place>, String> {
    if x.is_empty() && y.is_empty() {
        return Ok(None);
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let place = number(x).zip(number(y)).map(|(x, y)| [x, y]);
    let wrong = || format!("x is '{x}' and y is '{y}'; write two numbers, or leave both empty");
    place.map(Some).ok_or_else(wrong)
}

fn is_set(mark: &str) -> Option<bool> {
    match mark.to_ascii_lowercase().as_str() {
        "" | "0" | "no" | "false" => Some(false),
        "1" | "yes" | "true" | "x" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testdata;
    use super::*;

    fn read(text: &str) -> Result<Draft, String> {
        let (draft, problems) = super::read(text).map_err(|error| format!("{error:#}"))?;
        if problems.count == 0 { Ok(draft) } else { Err(problems.first.join("\n")) }
    }

    #[test]
    fn the_order_of_the_file_is_the_order_of_the_seats() {
        let draft =
            read("area,row,seat,tier,break_after\nb,2,4,gold,\nb,2,2,gold,1\na,1,1,silver,\nb,2,1,gold,\n")
                .unwrap();
        assert_eq!(
            draft.areas.iter().map(|a| (a.id.as_str(), a.priority)).collect::<Vec<_>>(),
            [("b", 1), ("a", 2)]
        );
        assert!(draft.build().unwrap().plan_json().contains(r#""tier":"gold","seats":"4,2,|,1""#));
    }

    #[test]
    fn a_column_id_names_the_seats() {
        let draft = read("area,row,seat,tier,id\na,1,1,t,9001\na,1,2,t,\na,1,3,t,9003\n").unwrap();
        let show = draft.build().unwrap();
        let ids: Vec<String> = (0..3).map(|seat| show.venue().id(seat)).collect();
        assert_eq!(ids, ["9001", "a-1-2", "9003"]);
        let twins = read("area,row,seat,tier,id\na,1,1,t,7\na,1,2,t,7\n").unwrap();
        assert_eq!(twins.build().unwrap_err(), ["line 3: seat id '7' occurs already at line 2"]);
    }

    #[test]
    fn columns_state_and_order_say_which_seats_are_sold() {
        let draft = read(
            "Area;Row;Seat;Tier;State;Order;price\na;1;1;t;sold;o1;9\na;1;2;t;free;;9\na;1;3;t;sold;;9\na;1;4;t;blocked;;9\n\
             a;1;5;t;;o1;9\n",
        )
        .unwrap();
        let sold = draft.sold();
        assert_eq!(sold["o1"], ["a-1-1", "a-1-5"]);
        assert_eq!(sold["imported"], ["a-1-3"]);
        assert_eq!(
            draft.notes,
            [
                "columns that a plan does not have are passed over: price",
                "1 seats are held or blocked in the source, and free in the show"
            ]
        );
        let wrong = read("area,row,seat,tier,state\na,1,1,t,gone\n").unwrap_err();
        assert_eq!(wrong, "line 2: state is 'gone'; write free, held, blocked or sold");
    }

    #[test]
    fn columns_x_and_y_say_where_seats_are() {
        let text = "area,row,seat,tier,x,y\na,1,1,t,0,9\na,1,2,t,1,9\na,2,1,t,0,3\na,2,2,t,1,3\n";
        let mut draft = read(text).unwrap();
        let plan = draft.build().unwrap().plan_json();
        assert!(
            plan.contains(r#""rank":1,"tier":"t","at":[0.0,9.0],"step":[1.0,0.0],"seats":"1-2""#),
            "{plan}"
        );
        draft.look_at(Some([0.5, 0.0]));
        let plan = draft.build().unwrap().plan_json();
        assert!(plan.contains(r#""rule":"focus","rows":[{"label":"1","rank":2"#), "{plan}");
        assert!(plan.contains(r#""focus":[0.5,0.0]"#), "{plan}");
        let wrong = read("area,row,seat,tier,x,y\na,1,1,t,0,\na,1,2,t,one,9\n").unwrap_err();
        assert!(
            wrong.starts_with("line 2: x is '0' and y is ''") && wrong.contains("line 3: x is 'one'"),
            "{wrong}"
        );
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| read(text).unwrap_err();
        assert!(error("area,row,seat\n").starts_with("line 1: there is no column 'tier'"));
        assert!(error("area,row,seat,tier\na,1,1,t\na,1,,t\n").starts_with("line 3: the field 'seat'"));
        assert!(error("area,row,seat,tier\na,1,1,t,1\n").starts_with("line 2, column 5: 5 fields"));
        assert_eq!(error("area,row,seat,tier\na,1,,t\na,,1,t\n").lines().count(), 2);
        assert!(error("area,row,seat,tier,break_after\na,1,1,t,maybe\n").contains("line 2: break_after"));
        let twins = read("area,row,seat,tier\na,1,1,t\na,1,2,t\na,1,1,t\n").unwrap();
        assert_eq!(twins.build().unwrap_err(), ["line 4: seat id 'a-1-1' occurs already at line 2"]);
    }

    #[test]
    fn the_real_train_loads_whole() {
        let Some(text) = testdata::real("train-16-coaches.csv") else { return };
        let draft = read(&text).unwrap();
        assert_eq!((draft.areas.len(), draft.seats().count()), (16, 960));
        assert_eq!(
            draft.seats().map(|seat| &seat.plan.tier).collect::<std::collections::HashSet<_>>().len(),
            3
        );
        let aisles = draft.rows().flat_map(|(_, row)| &row.positions).filter(|seat| seat.is_none()).count();
        assert_eq!(aisles, text.lines().filter(|line| line.ends_with(",1")).count());
        assert_eq!(draft.build().unwrap().venue().seat_count(), 960);
    }
}
