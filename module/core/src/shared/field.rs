//! The encoding of values by their types. Events and snapshots consist of such values.
//!
//! A type has one encoding. Its bounds are checked when a value is read, because the bytes may be damaged or forged.

use super::Bytes;
use super::codec::{Damaged, Reader, Writer};
use std::collections::VecDeque;
use std::sync::Arc;

/// A value with an encoding.
pub trait Field: Sized {
    /// Appends the value's bytes.
    fn encode(&self, out: &mut Writer);

    /// Reads a value.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged>;
}

impl Writer {
    /// A value, as its type is encoded.
    pub fn field(&mut self, value: &impl Field) {
        value.encode(self);
    }
}

impl Reader<'_> {
    /// A value, as its type is encoded.
    ///
    /// # Errors
    /// Bytes that are no value of the type.
    pub fn field<T: Field>(&mut self) -> Result<T, Damaged> {
        T::decode(self)
    }
}

/// A flag: 0 or 1.
impl Field for bool {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(u64::from(*self));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        match reader.unsigned()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged("a flag is neither set nor not")),
        }
    }
}

/// An unsigned number of 32 bits.
impl Field for u32 {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(u64::from(*self));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.number()
    }
}

/// A count, an epoch or a term: below 2^53.
impl Field for u64 {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(*self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.count()
    }
}

/// A signed number of 32 bits.
impl Field for i32 {
    fn encode(&self, out: &mut Writer) {
        out.signed(i64::from(*self));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Self::try_from(reader.signed()?).map_err(|_| Damaged("a number is out of range"))
    }
}

/// A time or a span of time (`Millis`): 0 to 2^53 - 1.
impl Field for i64 {
    fn encode(&self, out: &mut Writer) {
        out.signed(*self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.time()
    }
}

/// The id of a stream's entry: milliseconds and sequence, each any unsigned number.
impl Field for (u64, u64) {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.0);
        out.unsigned(self.1);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok((reader.unsigned()?, reader.unsigned()?))
    }
}

/// An identifier: 1 to 256 bytes.
impl Field for Bytes {
    fn encode(&self, out: &mut Writer) {
        out.string(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.identifier()
    }
}

/// An identifier that many records share.
impl Field for Arc<[u8]> {
    fn encode(&self, out: &mut Writer) {
        out.string(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self::from(&reader.identifier()?[..]))
    }
}

/// A byte string of any length.
impl Field for Vec<u8> {
    fn encode(&self, out: &mut Writer) {
        out.string(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(reader.string()?.to_vec())
    }
}

/// A text.
impl Field for String {
    fn encode(&self, out: &mut Writer) {
        out.string(self.as_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Self::from_utf8(reader.string()?.to_vec()).map_err(|_| Damaged("a text is not UTF-8"))
    }
}

/// 0 for none; 1 and the value.
impl<T: Field> Field for Option<T> {
    fn encode(&self, out: &mut Writer) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        if bool::decode(reader)? { T::decode(reader).map(Some) } else { Ok(None) }
    }
}

impl<T: Field> Field for Box<T> {
    fn encode(&self, out: &mut Writer) {
        self.as_ref().encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        T::decode(reader).map(Self::new)
    }
}

/// The number of values, then each value. Memory is reserved only as values are read, because the number may be forged.
impl<T: Field> Field for Vec<T> {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.len() as u64);
        self.iter().for_each(|value| value.encode(out));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut values = Self::new();
        for _ in 0..reader.unsigned()? {
            values.push(T::decode(reader)?);
        }
        Ok(values)
    }
}

/// As a list.
impl<T: Field> Field for VecDeque<T> {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.len() as u64);
        self.iter().for_each(|value| value.encode(out));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Vec::decode(reader).map(Self::from)
    }
}

/// A stream, and how many of its messages.
impl Field for (Vec<u8>, u32) {
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok((Field::decode(reader)?, Field::decode(reader)?))
    }
}

/// A number without bounds: a hash, or a measurement of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any<T>(pub T);

impl Field for Any<u64> {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.unsigned().map(Self)
    }
}

impl Field for Any<i64> {
    fn encode(&self, out: &mut Writer) {
        out.signed(self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.signed().map(Self)
    }
}

/// Defines structs whose encoding is that of their fields, in their order. Of a struct `pub struct Name if is_sound else
/// "what is wrong"`, values for which `is_sound` does not hold are refused.
#[macro_export]
macro_rules! fields {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $Struct:ident $(if $is_sound:ident else $damaged:literal)? {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $Type:ty,)+
        }
    )+) => {$(
        $(#[$attribute])*
        $visibility struct $Struct {
            $($(#[$field_attribute])* $field_visibility $field: $Type,)+
        }

        impl $crate::shared::field::Field for $Struct {
            fn encode(&self, out: &mut $crate::shared::codec::Writer) {
                $(out.field(&self.$field);)+
            }

            fn decode(
                reader: &mut $crate::shared::codec::Reader<'_>,
            ) -> Result<Self, $crate::shared::codec::Damaged> {
                let read = Self { $($field: reader.field()?,)+ };
                $(if !read.$is_sound() {
                    return Err($crate::shared::codec::Damaged($damaged));
                })?
                Ok(read)
            }
        }
    )+};
}
