//! Reads a table `area,row,seat,tier[,break_after][,id]`, whose order is the physical order. Areas get the rule
//! `ltr` and, in the order of the file, the priorities 1, 2, 3; a row's rank is its order in its area.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};

use super::draft::{Area, Draft, Row, Seat, SourcePlace};

const NEEDED: [&str; 4] = ["area", "row", "seat", "tier"];
/// Columns that a table may have.
const OPTIONAL: [&str; 2] = ["break_after", "id"];

/// Reads a table; an error names the line.
pub(super) fn read(text: &str) -> Result<Draft> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader =
        ::csv::ReaderBuilder::new().trim(::csv::Trim::All).flexible(true).from_reader(text.as_bytes());
    let header: Vec<String> = reader
        .headers()
        .context("line 1")?
        .iter()
        .map(|name| name.trim_start_matches('#').to_owned())
        .collect();
    let column = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
    let mut columns = [0; NEEDED.len()];
    for (name, slot) in NEEDED.iter().zip(&mut columns) {
        *slot = column(name).with_context(|| {
            format!(
                "line 1: no column '{name}'; the first line must be: area,row,seat,tier[,break_after][,id]"
            )
        })?;
    }
    let known = |name: &str| NEEDED.contains(&name) || OPTIONAL.contains(&name);
    if let Some(odd) = header.iter().find(|name| !known(name)) {
        bail!("line 1: unknown column '{odd}'; the columns are: area,row,seat,tier[,break_after][,id]");
    }
    let [break_after, id] = OPTIONAL.map(column);

    let mut draft = Draft::default();
    let mut areas: HashMap<String, usize> = HashMap::new();
    let mut rows: HashMap<(usize, String), usize> = HashMap::new();
    for record in reader.records() {
        let record = record.context("not a table of seats")?;
        let line = record.position().map_or(0, ::csv::Position::line);
        if record.len() > header.len() {
            bail!("line {line}: {} fields under {} columns", record.len(), header.len());
        }
        let mut fields = [""; NEEDED.len()];
        for ((name, column), field) in NEEDED.iter().zip(columns).zip(&mut fields) {
            *field = record
                .get(column)
                .filter(|field| !field.is_empty())
                .with_context(|| format!("line {line}: the field '{name}' is empty"))?;
        }
        let [area, row, seat, tier] = fields;
        let area_index = *areas.entry(area.to_owned()).or_insert_with(|| {
            let priority = draft.areas.len() as i32 + 1;
            let (id, name) = (area.to_owned(), area.to_owned());
            draft.areas.push(Area { id, name, priority, ..Area::default() });
            draft.areas.len() - 1
        });
        let Some(area) = draft.areas.get_mut(area_index) else { continue };
        let row_index = *rows.entry((area_index, row.to_owned())).or_insert_with(|| {
            let rank = area.rows.len() as i32 + 1;
            let source = SourcePlace::Line(line);
            area.rows.push(Row { label: row.to_owned(), rank, source, positions: Vec::new() });
            area.rows.len() - 1
        });
        let Some(row) = area.rows.get_mut(row_index) else { continue };
        let mut imported = Seat { line: Some(line), ..Seat::new(seat.to_owned(), tier.to_owned()) };
        let own_id = id.and_then(|column| record.get(column)).filter(|id| !id.is_empty());
        imported.plan.id = own_id.map(str::to_owned);
        row.positions.push(Some(imported));
        let mark = break_after.and_then(|column| record.get(column)).unwrap_or_default();
        if is_set(mark)
            .with_context(|| format!("line {line}: break_after is '{mark}'; write 1 or nothing"))?
        {
            row.positions.push(None);
        }
    }
    Ok(draft)
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
    fn errors_name_the_line() {
        let error = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(error("area,row,seat\n").starts_with("line 1: no column 'tier'"));
        assert!(error("area,row,seat,tier,colour\n").contains("unknown column 'colour'"));
        assert!(error("area,row,seat,tier\na,1,1,t\na,1,,t\n").starts_with("line 3: the field 'seat'"));
        assert!(error("area,row,seat,tier\na,1,1,t,1\n").starts_with("line 2: 5 fields"));
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
