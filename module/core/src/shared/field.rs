//! The encoding of values by their types. Events and snapshots consist of such values.
//!
//! A type has one encoding. Its bounds are checked when a value is read, because the bytes may be damaged or forged. A value
//! that is written is within them, unless the code is wrong: no server could load a file with another value.

use super::codec::{Damaged, LAST_COUNT, Reader, Writer, ensure};
use super::{Bytes, MAX_IDENTIFIER};
use crate::invariant;
use std::collections::{BTreeMap, VecDeque};
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
        invariant!(*self <= LAST_COUNT, "a count that is written is in its range");
        out.unsigned(*self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.count()
    }
}

/// A sum: its lower 64 bits, and its upper 64 bits.
impl Field for u128 {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(*self as u64);
        out.unsigned((*self >> 64) as u64);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (lower, upper) = (reader.unsigned()?, reader.unsigned()?);
        Ok((Self::from(upper) << 64) | Self::from(lower))
    }
}

/// The bits as those of a `u128`.
impl Field for i128 {
    fn encode(&self, out: &mut Writer) {
        self.cast_unsigned().encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        u128::decode(reader).map(u128::cast_signed)
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
        invariant!((0..=LAST_COUNT as Self).contains(self), "a time that is written is in its range");
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

fn encode_identifier(identifier: &[u8], out: &mut Writer) {
    let fits = (1..=MAX_IDENTIFIER).contains(&identifier.len());
    invariant!(fits, "an identifier that is written has 1 to 256 bytes");
    out.string(identifier);
}

/// An identifier: 1 to 256 bytes.
impl Field for Bytes {
    fn encode(&self, out: &mut Writer) {
        encode_identifier(self, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.identifier()
    }
}

/// An identifier that many records share.
impl Field for Arc<[u8]> {
    fn encode(&self, out: &mut Writer) {
        encode_identifier(self, out);
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
    #[inline]
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

/// The number of entries, then each key with its value. The keys rise.
impl<K: Field + Ord, V: Field> Field for BTreeMap<K, V> {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.len() as u64);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut map = Self::new();
        for _ in 0..reader.unsigned()? {
            let (key, value) = (K::decode(reader)?, V::decode(reader)?);
            let rises = map.last_key_value().is_none_or(|(last, _)| *last < key);
            ensure(rises, "the keys of a map do not rise")?;
            map.insert(key, value);
        }
        Ok(map)
    }
}

/// So many values as the type says, without their number.
impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    fn encode(&self, out: &mut Writer) {
        self.iter().for_each(|value| value.encode(out));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::decode(reader)?;
        }
        Ok(values)
    }
}

macro_rules! pair_fields {
    ($($(#[$attribute:meta])* ($First:ty, $Second:ty),)+) => {$(
        $(#[$attribute])*
        impl Field for ($First, $Second) {
            fn encode(&self, out: &mut Writer) {
                self.0.encode(out);
                self.1.encode(out);
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
                Ok((Field::decode(reader)?, Field::decode(reader)?))
            }
        }
    )+};
}

pair_fields! {
    /// A stream, and how many of its messages.
    (Vec<u8>, u32),
    /// A month or another number, and a count.
    (u32, u64),
    /// A day, and a number.
    (i32, u32),
    /// A count, and the time over which it was counted.
    (u64, i64),
}

/// A value without bounds: a hash, a measurement of a client, a byte string of any length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Any<T>(pub T);

impl Field for Any<Bytes> {
    fn encode(&self, out: &mut Writer) {
        out.string(&self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        reader.string().map(|bytes| Self(Bytes::from_slice(bytes)))
    }
}

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

/// Defines structs whose encoding is that of their fields, in their order. Fields in a block `computed` are not encoded:
/// they follow from others, and begin with their default when a struct is decoded. `checked by` names a function that
/// refuses a decoded struct whose fields are out of range or contradict each other. Where one text says what is wrong, a
/// struct `pub struct Name if is_sound else "what is wrong"` is refused if `is_sound` does not hold.
///
/// ```
/// use allot_core::fields;
/// use allot_core::shared::codec::{Damaged, Reader, Writer, ensure};
///
/// fields! {
///     /// A span of numbers.
///     #[derive(Debug, PartialEq)]
///     pub struct Span {
///         /// The first number.
///         pub first: u32,
///         /// The last number.
///         pub last: u32,
///     } computed {
///         /// Whether the span is in use.
///         pub used: bool,
///     } checked by Span::check;
/// }
///
/// impl Span {
///     fn check(&self) -> Result<(), Damaged> {
///         ensure(self.first <= self.last, "a span ends before it begins")
///     }
/// }
///
/// let mut out = Writer::default();
/// out.field(&Span { first: 3, last: 5, used: true });
/// assert_eq!(out.bytes, [3, 5]);
/// assert_eq!(Reader::new(&[3, 5]).field(), Ok(Span { first: 3, last: 5, used: false }));
/// assert_eq!(Reader::new(&[5, 3]).field::<Span>(), Err(Damaged("a span ends before it begins")));
/// ```
#[macro_export]
macro_rules! fields {
    ($(
        $(#[$attribute:meta])*
        $(pub $(($($scope:tt)+))?)? struct $Struct:ident $(if $is_sound:ident else $damaged:literal)? {
            $($(#[$field_attribute:meta])* $visible:vis $field:ident: $Type:ty,)+
        }
        $(computed {
            $($(#[$computed_attribute:meta])* $computed_visible:vis $computed:ident: $Computed:ty,)+
        })?
        $(checked by $check:path;)?
    )+) => {$(
        $(#[$attribute])*
        $(pub $(($($scope)+))?)? struct $Struct {
            $($(#[$field_attribute])* $visible $field: $Type,)+
            $($($(#[$computed_attribute])* $computed_visible $computed: $Computed,)+)?
        }

        impl $crate::shared::field::Field for $Struct {
            fn encode(&self, out: &mut $crate::shared::codec::Writer) {
                $(out.field(&self.$field);)+
            }

            fn decode(
                reader: &mut $crate::shared::codec::Reader<'_>,
            ) -> Result<Self, $crate::shared::codec::Damaged> {
                let read = Self {
                    $($field: reader.field()?,)+
                    $($($computed: Default::default(),)+)?
                };
                $(if !read.$is_sound() {
                    return Err($crate::shared::codec::Damaged($damaged));
                })?
                $($check(&read)?;)?
                Ok(read)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_written(value: &impl Field) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Writer::default().field(value))).is_ok()
    }

    #[test]
    fn value_that_could_not_be_read_is_not_written() {
        assert!(is_written(&LAST_COUNT) && !is_written(&(LAST_COUNT + 1)));
        assert!(is_written(&0i64) && !is_written(&-1i64) && !is_written(&(1i64 << 53)));
        for len in [0, 1, MAX_IDENTIFIER, MAX_IDENTIFIER + 1] {
            let fits = (1..=MAX_IDENTIFIER).contains(&len);
            let name = vec![b'a'; len];
            assert_eq!(is_written(&Bytes::from_slice(&name)), fits);
            assert_eq!(is_written(&Arc::<[u8]>::from(name)), fits);
        }
    }
}
