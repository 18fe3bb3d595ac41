//! Optional arguments of commands.

use std::time::Duration;

use redis::{Cmd, ToRedisArgs};

/// Adds a keyword and its value, if there is one.
pub(crate) fn option(command: &mut Cmd, keyword: &str, value: Option<impl ToRedisArgs>) {
    if let Some(value) = value {
        command.arg(keyword).arg(value);
    }
}

pub(crate) fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
