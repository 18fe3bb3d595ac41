//! The settings of a module in a file: optional columns, which `book export` writes and `book apply` reads.

use std::collections::BTreeMap;

use allot_client::Record;

/// The columns, in their order. The places, which are how many instances hold a share at once, come first.
pub const COLUMNS: [&str; 8] = [PLACES, "weight", "reserve", "min", SHARE, "lend", "cap", "need"];
const PLACES: &str = "places";
const SHARE: &str = "share";

/// The field of a column in the record of a module; in capitals, the word before its value in `ACCOUNT.MODULE`.
fn field(column: &str) -> &str {
    if column == PLACES { "instances" } else { column }
}

/// Values of settings by column, as text. A column that is missing or empty says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ModuleSettings(BTreeMap<&'static str, String>);

impl ModuleSettings {
    /// Takes over the values of a line, in the order of the columns: all of them, or none.
    ///
    /// # Errors
    /// A value that is no value of its setting, or differs from that of an earlier line.
    pub(super) fn take(&mut self, values: &[&str]) -> Result<(), String> {
        let given = || COLUMNS.into_iter().zip(values).filter(|(_, value)| !value.is_empty());
        for (column, &value) in given() {
            // The words of `share` are the server's to know.
            if column != SHARE && value.parse::<u64>().is_err() {
                return Err(format!("{column} '{value}' is no number"));
            }
            if let Some(before) = self.get(column).filter(|before| *before != value) {
                return Err(format!("{column} is {value} here, and {before} in an earlier line"));
            }
        }
        self.0.extend(given().map(|(column, &value)| (column, value.to_owned())));
        Ok(())
    }

    /// The settings in the record of a module.
    pub fn of(record: &Record) -> Self {
        let values = COLUMNS.map(|column| (column, record.text(field(column))));
        Self(values.into_iter().filter(|(_, value)| value != "-").collect())
    }

    /// The value of a column; `None` if the column says nothing.
    pub fn get(&self, column: &str) -> Option<&str> {
        self.0.get(column).map(String::as_str)
    }

    /// The number in a column; `None` if there is none.
    pub fn number(&self, column: &str) -> Option<i64> {
        self.get(column)?.parse().ok()
    }

    /// The value of `share`.
    pub fn share(&self) -> Option<&str> {
        self.get(SHARE)
    }

    /// How many instances hold a share at once; empty if that is not said.
    pub fn places(&self) -> &str {
        self.get(PLACES).unwrap_or_default()
    }

    /// Whether each of these values is among `others`.
    pub(super) fn is_part_of(&self, others: &Self) -> bool {
        let same = |(column, value): (&&str, &String)| {
            others.get(column).is_some_and(|other| value.eq_ignore_ascii_case(other))
        };
        self.0.iter().all(same)
    }

    /// These values, with these places if the values do not name them: `ACCOUNT.MODULE` always needs them.
    pub(super) fn with_places(mut self, places: &str) -> Self {
        self.0.entry(PLACES).or_insert_with(|| places.to_owned());
        self
    }

    /// The arguments of `ACCOUNT.MODULE`: each word with its value.
    pub(super) fn arguments(&self) -> Vec<String> {
        let given = COLUMNS.into_iter().filter_map(|column| Some((column, self.get(column)?)));
        given.flat_map(|(column, value)| [field(column).to_ascii_uppercase(), value.to_owned()]).collect()
    }
}
