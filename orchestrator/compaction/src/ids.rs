//! Names of tasks: `<CRC-32 of the submitting unit's name>.<microseconds, 8 digits>.<8 digits>.<number>`. A main
//! task ends in `.0`, its subtasks in `.1`, `.2` and so on.

use std::fmt;
use std::str::FromStr;

/// The name of a main task or of one of its subtasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// Submission of the task, in microseconds since 1970, with 16 digits. The first field, so that older tasks sort
    /// first.
    time: u64,
    unit: u32,
    /// 0 for the main task.
    pub number: u64,
}

impl TaskId {
    /// The id of the main task that `unit` submits at `time` (microseconds since 1970).
    pub fn main(unit: &str, time: u64) -> Self {
        Self { time: time % 10_000_000_000_000_000, unit: crc32fast::hash(unit.as_bytes()), number: 0 }
    }

    /// The id of the main task of this subtask.
    #[must_use]
    pub fn of_main(self) -> Self {
        Self { number: 0, ..self }
    }

    /// The id of this task's subtask by its number, from 1.
    #[must_use]
    pub fn subtask(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Submission of the task, in milliseconds since 1970.
    pub(crate) fn submitted(self) -> u64 {
        self.time / 1000
    }

    /// Whether this is the id of a main task.
    pub fn is_main(self) -> bool {
        self.number == 0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (high, low) = (self.time / 100_000_000, self.time % 100_000_000);
        write!(f, "{:08x}.{high:08}.{low:08}.{}", self.unit, self.number)
    }
}

impl FromStr for TaskId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no task; one looks like aaaaffff.16176931.56000000.0");
        let parts: Vec<&str> = text.split('.').collect();
        let [unit, high, low, number] = parts.as_slice() else { return Err(wrong()) };
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if unit.len() != 8 || high.len() != 8 || low.len() != 8 || !digits(high) || !digits(low) {
            return Err(wrong());
        }
        let high: u64 = high.parse().map_err(|_| wrong())?;
        let low: u64 = low.parse().map_err(|_| wrong())?;
        let id = Self {
            time: high * 100_000_000 + low,
            unit: u32::from_str_radix(unit, 16).map_err(|_| wrong())?,
            number: number.parse().map_err(|_| wrong())?,
        };
        // Each id has exactly one text form.
        if id.to_string() == text { Ok(id) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_has_two_time_groups_and_round_trips() {
        let id = TaskId::main("xcloud24_9876", 1_617_693_156_000_000);
        assert_eq!(id.to_string(), format!("{:08x}.16176931.56000000.0", crc32fast::hash(b"xcloud24_9876")));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.subtask(7).to_string().rsplit('.').next(), Some("7"));
        assert_eq!(id.subtask(7).of_main(), id);
        assert!(id < TaskId::main("a", 1_617_693_156_000_001));
    }

    #[test]
    fn malformed_ids_are_rejected() {
        assert!("aaaaffff.16176931.56000000.0".parse::<TaskId>().is_ok());
        for text in [
            "",
            "aaaaffff",
            "aaaaffff.16176931.56000000",
            "aaaaffff.16176931.56000000.x",
            "aaaaffff.+6176931.56000000.0",
            "AAAAFFFF.16176931.56000000.0",
            "aaaaffff.16176931.56000000.00",
            "Compress",
        ] {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
    }
}
