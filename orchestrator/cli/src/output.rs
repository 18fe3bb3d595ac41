//! What commands print: rows of a noun, one object, one line after a change. Each noun defines its columns once; every
//! format has the same names.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};

use allot_client::Record;
use clap::ValueEnum;
use owo_colors::OwoColorize as _;
use serde_json::{Map, Value};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::failure::{Cause, Failure, Result, counted};
use crate::{terminal, time};

/// Rows by which the widths of a table are chosen.
const SAMPLE: usize = 1000;
/// The least width of a column that is cut off.
const LEAST: usize = 12;
/// The same of the first column, by which people know a row.
const LEAST_FIRST: usize = 20;

/// A form of output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people, as wide as the terminal.
    #[default]
    Table,
    /// A table with all columns.
    Wide,
    /// One JSON value: an array of objects, or an object.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
}

impl Format {
    /// Whether results and errors are objects.
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }
}

/// What a value means, which decides its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
    /// Milliseconds since 1970.
    Time,
    /// Milliseconds. The name of the column ends in `_ms`.
    Span,
    /// Identity of a media unit, which tables shorten.
    Unit,
}

/// A column of a noun, which is a field in JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// The field of the value that is printed.
    field: &'static str,
    kind: Kind,
    wide: bool,
}

/// Defines the columns of a noun: name and kind, `= "field"` if the value has another name, and `wide` if only `--format
/// wide` and programs get the column.
macro_rules! columns {
    ($($(#[$meta:meta])* $vis:vis $table:ident = $($name:ident $kind:ident $(= $field:literal)? $($wide:ident)?),+;)+) => { $(
        $(#[$meta])*
        $vis const $table: &[$crate::output::Column] = &[$(
            $crate::output::Column::new(stringify!($name), $crate::output::Kind::$kind)
                $(.of($field))? $(.$wide())?
        ),+];
    )+ };
}
pub(crate) use columns;

impl Column {
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, field: name, kind, wide: false }
    }

    /// Of a field with another name.
    pub(crate) const fn of(mut self, field: &'static str) -> Self {
        self.field = field;
        self
    }

    /// Shown only where all columns are.
    pub(crate) const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }

    fn title(&self) -> &'static str {
        self.name.strip_suffix("_ms").unwrap_or(self.name)
    }

    /// The value of the column in a row.
    pub(crate) fn value<'a>(&self, row: &'a Value) -> &'a Value {
        row.get(self.field).unwrap_or(&Value::Null)
    }

    fn ms(value: &Value) -> Option<i64> {
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    fn json<'a>(&self, row: &'a Value) -> Cow<'a, Value> {
        let value = self.value(row);
        match (self.kind, value) {
            (Kind::Flag, Value::Number(number)) => Cow::Owned((number.as_i64() != Some(0)).into()),
            (Kind::Time, Value::Number(_) | Value::String(_)) => {
                Self::ms(value).map_or(Cow::Borrowed(value), |ms| Cow::Owned(time::utc(ms).into()))
            }
            _ => Cow::Borrowed(value),
        }
    }

    /// The cell of a table; `-` if there is no value.
    fn cell(&self, row: &Value, out: &Output) -> String {
        let value = self.value(row);
        let shown = match (self.kind, value) {
            (Kind::Time, _) => Self::ms(value).map(|ms| out.time(ms)),
            (Kind::Span, _) => Self::ms(value).map(time::length),
            (Kind::Flag, _) => {
                let flag = value.as_bool().or_else(|| value.as_i64().map(|number| number != 0));
                flag.map(|flag| if flag { "yes" } else { "no" }.to_owned())
            }
            (Kind::Unit, Value::String(name)) => Some(short(name).to_owned()),
            _ => None,
        };
        terminal::value(&shown.unwrap_or_else(|| plain(value))).into_owned()
    }
}

/// The short name of a unit: its own name behind the address, or the address; without process and start.
pub(crate) fn short(identity: &str) -> &str {
    let mut parts = identity.rsplitn(3, ':');
    let host = match (parts.next(), parts.next(), parts.next()) {
        (Some(start), Some(process), Some(host)) if is_number(start) && is_number(process) => host,
        _ => identity,
    };
    host.rsplit_once('/').map_or(host, |(_, name)| name)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A value as text for people.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}={}", plain(value));
            fields.iter().map(field).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Pads or cuts a text to this many cells of a terminal.
fn fit(text: &str, width: usize, cuts: bool, right: bool) -> String {
    let mut text = text.to_owned();
    if cuts && text.width() > width {
        let mut used = 1;
        let end = text.char_indices().find(|(_, character)| {
            used += character.width().unwrap_or(0);
            used > width.max(1)
        });
        text.truncate(end.map_or(0, |(end, _)| end));
        text.push('…');
    }
    let pad = " ".repeat(width.saturating_sub(text.width()));
    if right { pad + &text } else { text + &pad }
}

/// A line of a table in CSV.
pub(crate) fn csv_line<T: AsRef<str>>(mut cells: impl Iterator<Item = T>) -> String {
    let mut writer = csv::WriterBuilder::new().buffer_capacity(256).from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = cells.try_for_each(|cell| writer.write_field(cell.as_ref()));
    let _ = writer.write_record(None::<&[u8]>);
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// A value as a cell of such a line.
pub(crate) fn csv_cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// A field of a value; null if there is none.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Each of these as a line.
pub(crate) fn lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    lines.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// The fields of a row under the names of its columns.
pub(crate) fn named(columns: &[Column], row: &Value) -> Map<String, Value> {
    columns.iter().map(|column| (column.name.to_owned(), column.json(row).into_owned())).collect()
}

/// Rows that belong to an object.
pub(crate) struct Section<'a> {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [Column],
    pub(crate) rows: &'a [Value],
}

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) color: bool,
    /// Whether times are in UTC for people as well.
    pub(crate) utc: bool,
    /// Columns of the terminal.
    pub(crate) width: Option<usize>,
    /// Whether only errors and what was asked for are printed.
    pub(crate) quiet: bool,
}

fn failed(error: &io::Error) -> Failure {
    Failure::file(Cause::Local, "standard output", error)
}

/// Prints text as it is; what came from others is escaped already.
pub(crate) fn print(text: &str) -> Result {
    let mut out = terminal::output();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed(&error))
}

impl Output {
    /// Whether people read the output.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// A time for people.
    pub(crate) fn time(&self, ms: i64) -> String {
        if self.utc { time::utc(ms) } else { time::local(ms) }
    }

    /// Prints text for people, escaped.
    #[allow(clippy::unused_self, reason = "what commands print goes through an output")]
    pub(crate) fn text(&self, text: &str) -> Result {
        print(&terminal::escaped(text))
    }

    /// Prints a JSON value, on one line.
    pub(crate) fn json(&self, value: &Value) -> Result {
        self.text(&format!("{value}\n"))
    }

    /// Tells people something beside the result.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            terminal::note(text);
        }
    }

    /// Begins to print rows.
    pub(crate) fn rows(&self, columns: &'static [Column]) -> Rows {
        Rows {
            out: *self,
            columns,
            writer: terminal::output(),
            waiting: Vec::new(),
            layout: None,
            hidden: 0,
            count: 0,
            is_part: false,
        }
    }

    /// Prints rows that are all known. `none` says what was not found.
    pub(crate) fn list(&self, columns: &'static [Column], rows: &[Value], none: &str) -> Result {
        let mut printed = self.rows(columns);
        rows.iter().try_for_each(|row| printed.push(row))?;
        printed.end(none)
    }

    /// Prints rows that a server gives page by page, as they come: `page` returns the next cursor, 0 at the end.
    pub(crate) async fn pages(
        &self,
        columns: &'static [Column],
        none: &str,
        mut page: impl AsyncFnMut(u64) -> Result<(u64, Vec<Record>)>,
    ) -> Result {
        let mut rows = self.rows(columns);
        let mut part = page(0).await?;
        loop {
            let (next, records) = part;
            let printed = async {
                records.into_iter().try_for_each(|record| rows.push(&record.into_json()))?;
                rows.flush()
            };
            if next == 0 {
                printed.await?;
                return rows.end(none);
            }
            // The server works on the next page while this one is printed.
            let (following, printed) = tokio::join!(page(next), printed);
            printed?;
            part = following?;
        }
    }

    /// Prints one object with the rows that belong to it.
    pub(crate) fn get(&self, columns: &'static [Column], value: &Value, sections: &[Section<'_>]) -> Result {
        match self.format {
            Format::Json | Format::Jsonl => {
                let mut all = named(columns, value);
                for Section { name, columns, rows } in sections {
                    let rows = rows.iter().map(|row| Value::from(named(columns, row))).collect::<Vec<_>>();
                    all.insert((*name).to_owned(), rows.into());
                }
                return self.json(&all.into());
            }
            Format::Csv => return self.list(columns, std::slice::from_ref(value), ""),
            Format::Table | Format::Wide => {}
        }
        let shown: Vec<&Column> = columns.iter().filter(|column| !column.value(value).is_null()).collect();
        let width = shown.iter().map(|column| column.title().width()).max().unwrap_or(0);
        let mut text = String::new();
        for column in shown {
            let title = fit(column.title(), width, false, false);
            let title = if self.color { title.bold().to_string() } else { title };
            let _ = writeln!(
                text,
                "{title}  {}",
                terminal::folded(&column.cell(value, self), width + 2, self.width)
            );
        }
        print(&text)?;
        for Section { name, columns, rows } in sections.iter().filter(|section| !section.rows.is_empty()) {
            print(&format!("\n{name}\n"))?;
            let mut printed = self.rows(columns);
            printed.is_part = true;
            rows.iter().try_for_each(|row| printed.push(row))?;
            printed.end("")?;
        }
        Ok(())
    }

    /// Prints one line after a change, or for programs the object that was changed.
    pub(crate) fn done(&self, message: &str, columns: &'static [Column], value: &Value) -> Result {
        let printed = match self.format {
            Format::Json | Format::Jsonl => self.json(&named(columns, value).into()),
            Format::Csv => self.list(columns, std::slice::from_ref(value), ""),
            Format::Table | Format::Wide if self.quiet => Ok(()),
            Format::Table | Format::Wide => self.text(&format!("{message}\n")),
        };
        printed.map_err(|mut failure| {
            if failure.cause == Cause::Local {
                failure.message.push_str("; the change is made");
            }
            failure
        })
    }
}

/// A column of a table that is being printed.
#[derive(Clone)]
struct Laid {
    place: usize,
    /// In cells of the terminal.
    width: usize,
    /// Whether longer values are cut off.
    cut: bool,
    column: &'static Column,
}

/// The columns within a width: texts are cut, those behind the first column before it; `None` if that does not suffice.
fn laid(columns: &[Laid], limit: usize) -> Option<Vec<Laid>> {
    let mut laid = columns.to_vec();
    let used = |laid: &[Laid]| laid.iter().map(|one| one.width + 2).sum::<usize>().saturating_sub(2);
    for (first, least) in [(1, LEAST), (0, LEAST_FIRST)] {
        while used(&laid) > limit {
            let texts =
                laid.iter_mut().skip(first).filter(|one| one.column.kind == Kind::Text && one.width > least);
            let Some(widest) = texts.max_by_key(|one| one.width) else { break };
            widest.width -= 1;
            widest.cut = true;
        }
    }
    (used(&laid) <= limit).then_some(laid)
}

/// Rows that are printed one after another, in constant memory.
pub(crate) struct Rows {
    out: Output,
    columns: &'static [Column],
    writer: BufWriter<terminal::Standard>,
    /// Rows of a table whose widths are not chosen yet.
    waiting: Vec<Vec<String>>,
    layout: Option<Vec<Laid>>,
    /// Columns for which the terminal is too narrow.
    hidden: usize,
    count: u64,
    /// Whether the rows are a part of an object, and may be none.
    is_part: bool,
}

impl Rows {
    /// Prints a row.
    pub(crate) fn push(&mut self, row: &Value) -> Result {
        self.count += 1;
        let written = match self.out.format {
            Format::Table | Format::Wide => {
                let cells = self.columns.iter().map(|column| column.cell(row, &self.out)).collect();
                if self.layout.is_none() {
                    self.waiting.push(cells);
                    return if self.waiting.len() >= SAMPLE { self.lay() } else { Ok(()) };
                }
                self.line(&cells, false)
            }
            Format::Json => {
                let begin = if self.count == 1 { "[" } else { ",\n" };
                let row = Value::from(named(self.columns, row)).to_string();
                write!(self.writer, "{begin}{}", terminal::escaped(&row))
            }
            Format::Jsonl => {
                let row = Value::from(named(self.columns, row)).to_string();
                writeln!(self.writer, "{}", terminal::escaped(&row))
            }
            Format::Csv => self.csv(row),
        };
        written.map_err(|error| failed(&error))
    }

    /// Makes what was pushed visible.
    pub(crate) fn flush(&mut self) -> Result {
        self.lay()?;
        self.writer.flush().map_err(|error| failed(&error))
    }

    /// Ends the rows. If there were none, the answer is no.
    pub(crate) fn end(mut self, none: &str) -> Result {
        if self.out.format == Format::Json {
            let end = if self.count == 0 { "[]\n" } else { "]\n" };
            self.writer.write_all(end.as_bytes()).map_err(|error| failed(&error))?;
        }
        if self.count == 0 && self.out.format == Format::Csv {
            self.head().map_err(|error| failed(&error))?;
        }
        self.flush()?;
        if self.hidden > 0 {
            let columns = counted(self.hidden as u64, "more column");
            self.out.note(&format!("{columns}: --format wide"));
        }
        if self.count > 0 || self.is_part {
            return Ok(());
        }
        Err(Failure::no(if self.out.quiet || !self.out.is_table() { "" } else { none }))
    }

    fn head(&mut self) -> io::Result<()> {
        let names = self.columns.iter().map(|column| column.name);
        self.writer.write_all(csv_line(names).as_bytes())
    }

    fn csv(&mut self, row: &Value) -> io::Result<()> {
        if self.count == 1 {
            self.head()?;
        }
        let values: Vec<_> = self.columns.iter().map(|column| column.json(row)).collect();
        let cells = values.iter().map(|value| csv_cell(value));
        // A terminal would obey what is in a name; a program gets the name as it is.
        let line = match self.out.width {
            Some(_) => csv_line(cells.map(|cell| terminal::value(&cell).into_owned())),
            None => csv_line(cells),
        };
        self.writer.write_all(line.as_bytes())
    }

    /// Chooses columns and widths by the rows that wait, and prints these.
    fn lay(&mut self) -> Result {
        if self.layout.is_some() || self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        let limit = self.out.width.filter(|_| self.out.format == Format::Table).unwrap_or(usize::MAX);
        let is_shown = |column: &Column| !column.wide || self.out.format == Format::Wide;
        let natural = |(place, column): (usize, &'static Column)| {
            let cells = waiting.iter().filter_map(|cells| cells.get(place));
            let width = cells.map(|cell| cell.width()).chain([column.title().width()]).max().unwrap_or(0);
            Laid { place, width, cut: false, column }
        };
        let columns = self.columns.iter().enumerate();
        let natural: Vec<Laid> = columns.filter(|(_, column)| is_shown(column)).map(natural).collect();
        let layout = (1..=natural.len())
            .rev()
            .find_map(|count| laid(natural.get(..count)?, limit))
            .unwrap_or_else(|| {
                natural.iter().take(1).map(|one| Laid { width: limit, cut: true, ..one.clone() }).collect()
            });
        self.hidden = natural.len() - layout.len();
        self.layout = Some(layout);
        let titles: Vec<String> = self.columns.iter().map(|column| column.title().to_owned()).collect();
        self.line(&titles, self.out.color).map_err(|error| failed(&error))?;
        waiting.iter().try_for_each(|cells| self.line(cells, false)).map_err(|error| failed(&error))
    }

    fn line(&mut self, cells: &[String], bold: bool) -> io::Result<()> {
        let laid = self.layout.as_deref().unwrap_or_default();
        let cell = |laid: &Laid| {
            let right = laid.column.kind == Kind::Number;
            fit(cells.get(laid.place).map_or("", String::as_str), laid.width, laid.cut, right)
        };
        let line = laid.iter().map(cell).collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        if bold { writeln!(self.writer, "{}", line.bold()) } else { writeln!(self.writer, "{line}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_short_names() {
        for (identity, name) in [
            ("127.0.0.1/unit-a:4711:1700000000", "unit-a"),
            ("10.0.0.1:4711:1", "10.0.0.1"),
            ("a:1:1", "a"),
            ("node", "node"),
            ("a:b:c", "a:b:c"),
        ] {
            assert_eq!(short(identity), name);
        }
    }

    #[test]
    fn cells_are_as_wide_as_they_are_shown() {
        assert_eq!(fit("田中さん", 10, false, false), "田中さん  ");
        assert_eq!(fit("田中さん", 6, true, false), "田中… ");
        assert_eq!(fit("7", 3, false, true), "  7");
    }

    const UTC: Output = Output { format: Format::Table, color: false, utc: true, width: None, quiet: false };

    #[test]
    fn narrow_tables_cut_texts_and_the_first_column_last() {
        const COLUMNS: &[Column] = &[
            Column::new("key", Kind::Text),
            Column::new("free", Kind::Number),
            Column::new("note", Kind::Text),
        ];
        let natural: Vec<Laid> = COLUMNS
            .iter()
            .zip([30, 4, 40])
            .enumerate()
            .map(|(place, (column, width))| Laid { place, width, cut: false, column })
            .collect();
        let widths = |limit| Some(laid(&natural, limit)?.iter().map(|one| one.width).collect::<Vec<_>>());
        assert_eq!(widths(78), Some(vec![30, 4, 40]));
        assert_eq!(widths(60), Some(vec![30, 4, 22]));
        assert_eq!(widths(40), Some(vec![20, 4, 12]));
        assert_eq!(widths(39), None);
    }

    fn column(name: &'static str, kind: Kind) -> Column {
        Column::new(name, kind)
    }

    #[test]
    fn values_have_the_form_of_their_kind() {
        let row = serde_json::json!({"end": 1_700_000_000_000_i64, "retry": 60_000, "ending": 1, "no": null});
        assert_eq!(*column("end", Kind::Time).json(&row), "2023-11-14T22:13:20.000Z");
        assert_eq!(column("retry_ms", Kind::Span).of("retry").cell(&row, &UTC), "1m");
        assert_eq!(column("retry_ms", Kind::Span).title(), "retry");
        assert_eq!(
            (
                column("ending", Kind::Flag).json(&row).into_owned(),
                column("ending", Kind::Flag).cell(&row, &UTC)
            ),
            (true.into(), "yes".into())
        );
        assert_eq!(
            (column("no", Kind::Time).cell(&row, &UTC), column("no", Kind::Time).json(&row).into_owned()),
            ("-".into(), Value::Null)
        );
    }
}
