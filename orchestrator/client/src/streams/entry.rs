//! Entries of streams, as they come over the wire, and as messages: `event`, `e164`, `cmu`, `epoch`, and more.

use redis::Value;

use crate::connection;
use crate::error::Error;

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Id of the entry.
    pub id: String,
    /// Fields of the entry in their order; none if the entry was trimmed.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Entry {
    /// A field as text; empty if the field is absent. Bytes that are not UTF-8 are replaced.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }

    /// A field as bytes; empty if the field is absent.
    pub fn bytes(&self, name: &str) -> &[u8] {
        field_of(&self.fields, name).unwrap_or_default()
    }

    /// A field as a number; 0 if the field is absent or no number.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }
}

/// The first field of that name.
fn field_of<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|(field, _)| field == name.as_bytes()).map(|(_, value)| value.as_slice())
}

/// The entries in a reply of `XREAD` or `XREADGROUP` for one stream; none if the time limit passed without entries.
pub(crate) fn read_reply(reply: Value) -> Result<Vec<Entry>, Error> {
    let streams = match reply {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(streams) => streams,
        // RESP3.
        Value::Map(streams) => {
            return streams.into_iter().next().map_or(Ok(Vec::new()), |(_, entries)| read_list(entries));
        }
        other => return Err(odd(&other)),
    };
    match streams.into_iter().next() {
        None => Ok(Vec::new()),
        Some(Value::Array(mut stream)) if stream.len() == 2 => stream.pop().map_or(Ok(Vec::new()), read_list),
        Some(other) => Err(odd(&other)),
    }
}

/// The entries in a reply of `XRANGE` or `XREVRANGE`.
///
/// # Errors
/// [`Error::Shape`] if the reply is no list of entries.
pub fn read_list(list: Value) -> Result<Vec<Entry>, Error> {
    match list {
        Value::Array(entries) => entries.into_iter().map(read).collect(),
        other => Err(odd(&other)),
    }
}

fn read(entry: Value) -> Result<Entry, Error> {
    let Value::Array(parts) = entry else { return Err(odd(&entry)) };
    let mut parts = parts.into_iter();
    let (Some(id), Some(fields)) = (parts.next(), parts.next()) else {
        return Err(Error::Shape("an entry of a stream without id or fields".to_owned()));
    };
    let id = connection::read(id)?;
    let fields = match fields {
        Value::Nil => Vec::new(),
        Value::Array(words) => pairs(words)?,
        fields => connection::read(fields)?,
    };
    Ok(Entry { id, fields })
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Fields and values by turns. Most of what a reader of streams gets is this, so no word is copied.
fn pairs(words: Vec<Value>) -> Result<Fields, Error> {
    let mut pairs = Vec::with_capacity(words.len() / 2);
    let mut words = words.into_iter();
    while let Some(field) = words.next() {
        match (field, words.next()) {
            (Value::BulkString(field), Some(Value::BulkString(value))) => pairs.push((field, value)),
            (field, value) => return Err(Error::Shape(format!("no field and value: {field:?}, {value:?}"))),
        }
    }
    Ok(pairs)
}

fn odd(value: &Value) -> Error {
    Error::Shape(format!("expected entries of a stream, got {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn entries_read_alike_in_both_protocols() {
        let fields = Value::Array(vec![bulk("event"), bulk("CREATE"), bulk("epoch"), bulk("7")]);
        let entries = Value::Array(vec![Value::Array(vec![bulk("1-0"), fields])]);
        let old = Value::Array(vec![Value::Array(vec![bulk("s"), entries.clone()])]);
        let new = Value::Map(vec![(bulk("s"), entries)]);
        let read = read_reply(old).unwrap();
        assert_eq!(read, read_reply(new).unwrap());
        let [entry] = read.as_slice() else { panic!("one entry") };
        assert_eq!(
            (entry.text("event").as_str(), entry.number("epoch"), entry.number("old")),
            ("CREATE", 7, 0)
        );
        assert_eq!(read_reply(Value::Nil).unwrap(), []);
    }

    #[test]
    fn invalid_entry_is_refused_and_a_trimmed_one_is_empty() {
        assert!(read_reply(Value::Int(1)).is_err());
        assert!(read_reply(Value::Array(vec![Value::Int(1)])).is_err());
        assert!(read_list(Value::Array(vec![Value::Array(vec![bulk("1-0")])])).is_err());
        for odd in [vec![bulk("event")], vec![bulk("epoch"), Value::Int(7)]] {
            let entry = Value::Array(vec![bulk("1-0"), Value::Array(odd)]);
            assert!(read_list(Value::Array(vec![entry])).is_err());
        }
        let trimmed = Value::Array(vec![Value::Array(vec![bulk("1-0"), Value::Nil])]);
        assert_eq!(read_list(trimmed).unwrap(), [Entry { id: "1-0".into(), fields: Vec::new() }]);
    }
}
