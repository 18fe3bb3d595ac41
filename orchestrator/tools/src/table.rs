//! Reads tables (CSV) line by line: the separator is recognised, and every fault has its line, and its column where there
//! is one.

use std::io::{self, BufRead, BufReader, Read};

use anyhow::{Context as _, Result, bail};
use csv::{ErrorKind, ReaderBuilder, StringRecord};

/// Separators of columns; the one that the header has most often is meant.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];
/// The longest header.
const HEADER: u64 = 64 * 1024;
/// Problems that are kept; further ones are counted.
const KEPT: usize = 20;

/// The problems of an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first problems, each with its place.
    pub first: Vec<String>,
    /// How many there are.
    pub count: usize,
}

impl Problems {
    /// Notes a problem.
    pub fn add(&mut self, why: String) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(why);
        }
    }
}

impl From<Vec<String>> for Problems {
    fn from(all: Vec<String>) -> Self {
        let mut problems = Self::default();
        all.into_iter().for_each(|why| problems.add(why));
        problems
    }
}

/// Where a scan of quotes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Begin,
    Plain,
    Quoted,
    /// After a quote in a quoted field, which ends the field unless another quote follows.
    Ended,
}

/// Passes a text on, and notes where a quoted field begins: the reader of tables takes a quote that is never closed for a
/// field of all the rest.
struct Watched<R> {
    inner: R,
    separator: u8,
    state: Quotes,
    line: u64,
    column: u64,
    opened: (u64, u64),
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        for &byte in buffer.get(..read).unwrap_or_default() {
            self.column += 1;
            self.state = match (self.state, byte) {
                (Quotes::Begin, b'"') => {
                    self.opened = (self.line, self.column);
                    Quotes::Quoted
                }
                (Quotes::Quoted, b'"') => Quotes::Ended,
                (Quotes::Quoted, _) | (Quotes::Ended, b'"') => Quotes::Quoted,
                (_, byte) if byte == self.separator || byte == b'\n' || byte == b'\r' => Quotes::Begin,
                _ => Quotes::Plain,
            };
            if byte == b'\n' {
                (self.line, self.column) = (self.line + 1, 0);
            }
        }
        Ok(read)
    }
}

/// A table that is being read.
pub struct Table<R> {
    reader: csv::Reader<Watched<R>>,
    record: StringRecord,
    header: Vec<String>,
    /// The places of the columns that were asked for.
    places: Vec<Option<usize>>,
    /// The reader counts a line that ends with CR and LF when it begins with the next one.
    lines_ahead: u64,
    is_over: bool,
}

impl<R: Read> Table<BufReader<R>> {
    /// Begins to read a table with these columns, of which the first `needed` must be there. With `others`, further columns
    /// are passed over; without it they are refused.
    ///
    /// # Errors
    /// The header lacks a column, or has one that is unknown or comes twice.
    pub fn open(input: R, columns: &[&str], needed: usize, others: bool) -> Result<Self> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let mut head = input.fill_buf().context("line 1")?.to_vec();
        if head.starts_with("\u{feff}".as_bytes()) {
            input.consume(3);
            head.drain(..3);
        }
        head.truncate(HEADER as usize);
        let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let text = String::from_utf8_lossy(first);
        let count = |separator: &u8| text.matches(char::from(*separator)).count();
        // Of equal counts the first separator is meant.
        let separator = SEPARATORS.into_iter().rev().max_by_key(count).unwrap_or(b',');
        let lines_ahead = u64::from(first.ends_with(b"\r"));
        let (state, line, column) = (Quotes::Begin, 1, 0);
        let watched = Watched { inner: input, separator, state, line, column, opened: (1, 1) };
        let mut reader = ReaderBuilder::new()
            .delimiter(separator)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(watched);
        let names = reader.headers().context("line 1")?;
        let header: Vec<String> = names.iter().map(|name| name.trim_start_matches('#').to_owned()).collect();
        let find = |wanted: &&str| header.iter().position(|name| name.eq_ignore_ascii_case(wanted));
        let places: Vec<Option<usize>> = columns.iter().map(find).collect();
        if let Some((missing, _)) =
            columns.iter().zip(&places).take(needed).find(|(_, place)| place.is_none())
        {
            let there = header.join(", ");
            bail!(
                "line 1: there is no column '{missing}'; there are: {there}. Columns are: {}",
                columns.join(", ")
            );
        }
        for (place, name) in header.iter().enumerate() {
            let known = columns.iter().any(|column| name.eq_ignore_ascii_case(column));
            if !known && !others {
                let all = columns.join(", ");
                bail!(
                    "line 1, column {}: '{name}' is no column of this table; columns are: {all}",
                    place + 1
                );
            }
            if known && header.iter().take(place).any(|before| before.eq_ignore_ascii_case(name)) {
                bail!("line 1, column {}: the column '{name}' comes twice", place + 1);
            }
        }
        Ok(Self { reader, record: StringRecord::new(), header, places, lines_ahead, is_over: false })
    }

    /// The columns that are none of these.
    pub fn others<'a>(&'a self, columns: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let is_other = |name: &&str| !columns.iter().any(|column| name.eq_ignore_ascii_case(column));
        self.header.iter().map(String::as_str).filter(is_other)
    }

    /// Reads the next line: its number, or what is wrong with it; `None` at the end.
    pub fn advance(&mut self) -> Option<Result<u64, String>> {
        if self.is_over {
            return None;
        }
        let read = match self.reader.read_record(&mut self.record) {
            Ok(read) => read,
            Err(error) => {
                self.is_over = !matches!(error.kind(), ErrorKind::Utf8 { .. });
                let line = error.position().map_or(0, csv::Position::line) + self.lines_ahead;
                return Some(Err(match error.kind() {
                    ErrorKind::Utf8 { err, .. } => {
                        format!("line {line}, column {}: this is not UTF-8", err.field() + 1)
                    }
                    _ => format!("line {line}: {error}"),
                }));
            }
        };
        let watched = self.reader.get_ref();
        if watched.state == Quotes::Quoted && (!read || self.reader.is_done()) {
            self.is_over = true;
            let (line, column) = watched.opened;
            return Some(Err(format!("line {line}, column {column}: this quote is never closed")));
        }
        if !read {
            self.is_over = true;
            return None;
        }
        let line = self.record.position().map_or(0, csv::Position::line) + self.lines_ahead;
        let (fields, columns) = (self.record.len(), self.header.len());
        if fields != columns {
            let column = fields.min(columns) + 1;
            return Some(Err(format!(
                "line {line}, column {column}: {fields} fields under {columns} columns"
            )));
        }
        Some(Ok(line))
    }

    /// The text in a column of the line, by its place among the columns that were asked for; empty if the table does not
    /// have the column.
    pub fn get(&self, column: usize) -> &str {
        let place = self.places.get(column).copied().flatten();
        place.and_then(|place| self.record.get(place)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<(u64, String, String), String>> {
        let mut table = Table::open(text.as_bytes(), &["a", "b", "c"], 2, false).unwrap();
        let mut all = Vec::new();
        while let Some(line) = table.advance() {
            all.push(line.map(|line| (line, table.get(0).to_owned(), table.get(1).to_owned())));
        }
        all
    }

    #[test]
    fn separators_are_recognised() {
        for text in ["a,b\n1,\"x;y\"\n", "\u{feff}b;A\n\"x;y\";1\n", "#a\tb\r\n1\tx;y\r\n"] {
            assert_eq!(read(text), [Ok((2, "1".to_owned(), "x;y".to_owned()))], "{text:?}");
        }
    }

    #[test]
    fn faults_have_their_line_and_column() {
        let first = |text: &str| read(text).into_iter().find_map(Result::err).unwrap_or_default();
        assert_eq!(first("a,b\n1,2\n1\n"), "line 3, column 2: 1 fields under 2 columns");
        assert_eq!(first("a,b\n1,2,3\n"), "line 2, column 3: 3 fields under 2 columns");
        assert_eq!(first("a,b\n1,2\n3,\"4\n5,6\n"), "line 3, column 3: this quote is never closed");
        assert_eq!(first("a,b\n1,\"2 \"\"x\"\"\"\n5\",6\n"), "");
        let open = |text: &str| {
            Table::open(text.as_bytes(), &["a", "b"], 2, false).map(drop).unwrap_err().to_string()
        };
        assert!(open("a,x\n").contains("no column 'b'; there are: a, x"));
        assert!(open("a,b,x\n").starts_with("line 1, column 3: 'x' is no column"));
        assert!(open("a,b,a\n").starts_with("line 1, column 3: the column 'a' comes twice"));
        let mut table = Table::open(&b"a,b\n1,\xff\n3,4\n"[..], &["a", "b"], 2, false).unwrap();
        assert_eq!(table.advance(), Some(Err("line 2, column 2: this is not UTF-8".into())));
        assert_eq!(table.advance(), Some(Ok(3)));
    }
}
