//! How the program of a conference says that people can join.

use std::str::FromStr;

use allot_runtime::settings::Setting;
use serde::Deserialize;

/// How a program says that it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Ready {
    /// By the line `READY` on its standard output.
    Line,
    /// Not at all: it is ready as soon as it runs.
    Spawn,
    /// By this shell command, which exits with code 0 when the program is ready.
    Exec(String),
}

impl FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("exec:")) {
            ("line", _) => Ok(Self::Line),
            ("spawn", _) => Ok(Self::Spawn),
            (_, Some(command)) if !command.is_empty() => Ok(Self::Exec(command.to_owned())),
            _ => Err(format!("'{text}': write line, spawn or exec:COMMAND")),
        }
    }
}

impl TryFrom<String> for Ready {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Setting for Ready {
    type Value = Self;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn value(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_has_one_of_three_forms() {
        assert_eq!("line".parse(), Ok(Ready::Line));
        assert_eq!("spawn".parse(), Ok(Ready::Spawn));
        assert_eq!("exec:curl -f http://x".parse(), Ok(Ready::Exec("curl -f http://x".to_owned())));
        for text in ["exec:", "LINE", ""] {
            assert!(text.parse::<Ready>().unwrap_err().contains("exec:COMMAND"), "{text}");
        }
    }
}
