//! The settings of a module in a file: optional columns, which `export` writes and `import` reads.

use std::collections::BTreeMap;

use allot_client::Record;

/// A setting of a module.
#[derive(Debug)]
pub struct Setting {
    /// The column of a file.
    pub column: &'static str,
    /// The field in the record of a module.
    field: &'static str,
    /// The word before the value in `ACCOUNT.MODULE`.
    keyword: &'static str,
}

const fn setting(column: &'static str, field: &'static str, keyword: &'static str) -> Setting {
    Setting { column, field, keyword }
}

/// All settings, in the order of the columns.
pub const SETTINGS: [Setting; 7] = [
    PLACES,
    setting("weight", "weight", "WEIGHT"),
    setting("reserve", "reserve", "RESERVE"),
    setting("min", "min", "MIN"),
    setting("share", "share", "SHARE"),
    setting("lend", "lend", "LEND"),
    setting("cap", "cap", "CAP"),
];

/// How many instances hold a share at once. `ACCOUNT.MODULE` always needs it.
const PLACES: Setting = setting("places", "instances", "INSTANCES");

/// Values of settings by column, as text. A column that is missing or empty says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ModuleSettings(BTreeMap<&'static str, String>);

impl ModuleSettings {
    /// Takes over the values of a line. `value` gives the text of a column.
    ///
    /// # Errors
    /// A value that is no value of its setting, or differs from that of an earlier line.
    pub(super) fn take<'a>(&mut self, value: impl Fn(&Setting) -> &'a str) -> Result<(), String> {
        for setting in &SETTINGS {
            let (column, value) = (setting.column, value(setting));
            if value.is_empty() {
                continue;
            }
            // The words of `share` are the server's to know.
            if column != "share" && value.parse::<u64>().is_err() {
                return Err(format!("{column} '{value}' is no number"));
            }
            match self.0.get(column) {
                Some(before) if before != value => {
                    return Err(format!("{column} is {value} here, and {before} in an earlier line"));
                }
                _ => drop(self.0.insert(column, value.to_owned())),
            }
        }
        Ok(())
    }

    /// The settings in the record of a module.
    pub fn of(record: &Record) -> Self {
        let values = SETTINGS.iter().map(|setting| (setting.column, record.text(setting.field)));
        // A server of an earlier version has fewer settings.
        Self(values.filter(|(_, value)| value != "-").collect())
    }

    /// The value of a column; empty if there is none.
    pub fn value(&self, setting: &Setting) -> &str {
        self.0.get(setting.column).map_or("", String::as_str)
    }

    /// The number in a column; `None` if there is none.
    pub fn number(&self, column: &str) -> Option<i64> {
        self.0.get(column)?.parse().ok()
    }

    /// The value of `share`.
    pub fn share(&self) -> Option<&str> {
        self.0.get("share").map(String::as_str)
    }

    /// Whether each of these values is among `others`.
    pub(super) fn is_part_of(&self, others: &Self) -> bool {
        let same = |column, value: &String| {
            others.0.get(column).is_some_and(|other| value.eq_ignore_ascii_case(other))
        };
        self.0.iter().all(|(column, value)| same(column, value))
    }

    /// These values, and those of `others` for the places if these do not name them.
    pub(super) fn with_places(mut self, places: &str) -> Self {
        self.0.entry(PLACES.column).or_insert_with(|| places.to_owned());
        self
    }

    /// How many instances hold a share at once; empty if that is not said.
    pub fn places(&self) -> &str {
        self.value(&PLACES)
    }

    /// The arguments of `ACCOUNT.MODULE`: each keyword with its value.
    pub(super) fn arguments(&self) -> Vec<&str> {
        let given = SETTINGS.iter().filter_map(|setting| Some((setting, self.0.get(setting.column)?)));
        given.flat_map(|(setting, value)| [setting.keyword, value]).collect()
    }
}
