//! Replies, as the client hands them to programs.

use redis::Value;

use super::command::Fields;
use super::stream::Id;

/// A reply.
pub(super) type Reply = Value;

pub(super) fn text(text: impl AsRef<[u8]>) -> Reply {
    Value::BulkString(text.as_ref().to_vec())
}

pub(super) fn texts<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Reply {
    Value::Array(texts.into_iter().map(text).collect())
}

pub(super) fn number(number: impl TryInto<i64>) -> Reply {
    Value::Int(number.try_into().unwrap_or(i64::MAX))
}

/// Names and values by turns.
pub(super) fn record<const N: usize>(fields: [(&'static str, Reply); N]) -> Reply {
    Value::Array(fields.into_iter().flat_map(|(name, value)| [text(name), value]).collect())
}

/// An error of the server: its code, and behind a space its text.
pub(super) fn error(error: &str) -> Reply {
    redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap()
}

/// The id of an entry.
pub(super) fn id((ms, number): Id) -> Reply {
    let (mut before, mut behind) = (itoa::Buffer::new(), itoa::Buffer::new());
    Value::BulkString([before.format(ms), "-", behind.format(number)].concat().into())
}

/// The fields and values of an entry.
pub(super) fn fields(fields: &Fields) -> Reply {
    texts(fields.iter())
}
