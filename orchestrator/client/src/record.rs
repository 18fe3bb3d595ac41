//! Records of the module: maps in RESP3, flat arrays in RESP2, read here and nowhere else.

use redis::{FromRedisValue, ParsingError, Value};

use crate::connection;
use crate::error::Error;

/// Defines structs that are read from records: each field from the record's field of the same name.
macro_rules! records {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$about:meta])* pub $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        pub struct $name {
            $($(#[$about])* pub $field: $type,)*
        }

        impl redis::FromRedisValue for $name {
            fn from_redis_value(value: redis::Value) -> Result<Self, redis::ParsingError> {
                let record = <$crate::record::Record as redis::FromRedisValue>::from_redis_value(value)?;
                Ok(Self { $($field: record.field(stringify!($field))?,)* })
            }
        }
    )*};
}
pub(crate) use records;

/// A record's fields by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Record(Vec<(String, Value)>);

impl FromRedisValue for Record {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let pairs = match value {
            Value::Map(pairs) => pairs,
            Value::Array(flat) if flat.len() % 2 == 0 => {
                let mut values = flat.into_iter();
                let mut pairs = Vec::new();
                while let (Some(name), Some(value)) = (values.next(), values.next()) {
                    pairs.push((name, value));
                }
                pairs
            }
            other => return Err(format!("expected a record, got {other:?}").into()),
        };
        let named = |(name, value)| Ok((String::from_redis_value(name)?, value));
        Ok(Self(pairs.into_iter().map(named).collect::<Result<_, ParsingError>>()?))
    }
}

impl Record {
    /// Reads a record of either protocol.
    pub fn read(value: Value) -> Result<Self, Error> {
        connection::read(value)
    }

    /// Reads a record; a null is `None`.
    pub fn read_nullable(value: Value) -> Result<Option<Self>, Error> {
        connection::read(value)
    }

    /// Reads a list of records.
    pub fn read_list(value: Value) -> Result<Vec<Self>, Error> {
        connection::read(value)
    }

    /// The value of a field.
    pub fn get<T: FromRedisValue>(&self, field: &str) -> Result<T, Error> {
        self.field(field).map_err(|error| Error::Shape(error.to_string()))
    }

    /// As `get`, within the reading of a reply.
    pub(crate) fn field<T: FromRedisValue>(&self, field: &str) -> Result<T, ParsingError> {
        let value = self.0.iter().find(|(name, _)| name == field).map(|(_, value)| value.clone());
        let value = value.ok_or_else(|| format!("a record without the field '{field}'"))?;
        T::from_redis_value(value).map_err(|error| format!("field '{field}': {error}").into())
    }

    /// The record as JSON.
    pub fn json(&self) -> serde_json::Value {
        self.clone().into_json()
    }

    /// The record as JSON, in the place of the record: lists of many records take less time.
    pub fn into_json(self) -> serde_json::Value {
        let fields = self.0.into_iter().map(|(name, value)| (name, json_of(value)));
        fields.collect::<serde_json::Map<_, _>>().into()
    }

    /// A field as text for people; `-` if the field is null or absent.
    pub fn text(&self, field: &str) -> String {
        match self.0.iter().find(|(name, _)| name == field).map(|(_, value)| to_json(value)) {
            None | Some(serde_json::Value::Null) => "-".to_owned(),
            Some(serde_json::Value::String(text)) => text,
            Some(serde_json::Value::Array(items)) if items.is_empty() => "-".to_owned(),
            Some(other) => other.to_string(),
        }
    }

    /// The fields' names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// A reply as JSON: a record is an object, and bytes that are no text are replaced.
pub fn to_json(value: &Value) -> serde_json::Value {
    json_of(value.clone())
}

fn json_of(value: Value) -> serde_json::Value {
    match value {
        Value::Int(number) => number.into(),
        Value::Double(number) => number.into(),
        Value::Boolean(is_true) => is_true.into(),
        Value::BulkString(bytes) => match String::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned().into(),
        },
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.into(),
        Value::Okay => "OK".into(),
        Value::Array(items) | Value::Set(items) => items.into_iter().map(json_of).collect::<Vec<_>>().into(),
        Value::Map(pairs) => {
            let name = |name| match json_of(name) {
                serde_json::Value::String(name) => name,
                other => other.to_string(),
            };
            let pairs = pairs.into_iter().map(|(field, value)| (name(field), json_of(value)));
            pairs.collect::<serde_json::Map<_, _>>().into()
        }
        _ => serde_json::Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_record_reads_alike_in_both_protocols() {
        let flat = Value::Array(vec![bulk("free"), Value::Int(3), bulk("token"), Value::Nil]);
        let map = Value::Map(vec![(bulk("free"), Value::Int(3)), (bulk("token"), Value::Nil)]);
        let (flat, map) = (Record::read(flat).unwrap(), Record::read(map).unwrap());
        assert_eq!(flat, map);
        assert_eq!(map.get::<u64>("free").unwrap(), 3);
        assert_eq!(map.get::<Option<String>>("token").unwrap(), None);
    }

    #[test]
    fn reply_of_another_shape_is_refused() {
        assert!(Record::read(Value::Int(1)).is_err());
        assert!(Record::read(Value::Array(vec![bulk("odd")])).is_err());
        assert!(Record::read_list(Value::Int(1)).is_err());
        let record = Record::read(Value::Array(vec![bulk("a"), bulk("x")])).unwrap();
        assert!(record.get::<u64>("a").is_err());
        assert!(record.get::<u64>("b").unwrap_err().to_string().contains("'b'"));
        assert_eq!(Record::read_nullable(Value::Nil).unwrap(), None);
    }
}
