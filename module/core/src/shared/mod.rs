//! What the families have in common: refusals, printable text, codec, tables, columns, lists, names,
//! tokens, deadlines, outbox, and `machine`, which each of them is.

pub mod bytes;
pub mod codec;
pub mod column;
pub mod counter;
pub mod deadlines;
pub mod decision;
pub mod event;
pub mod fence;
pub mod field;
pub mod index;
pub mod invariant;
pub mod list;
pub mod machine;
pub mod names;
pub mod outbox;
pub mod parts;
pub mod payload;
pub mod refusal;
pub mod table;
pub mod text;
pub mod token;
pub mod words;

pub use bytes::Bytes;

/// A copy of a short list, byte for byte. The `clone` of such a list goes item by item.
#[inline]
pub(crate) fn copied<A>(list: &smallvec::SmallVec<A>) -> smallvec::SmallVec<A>
where
    A: smallvec::Array<Item: Copy>,
{
    smallvec::SmallVec::from_slice(list)
}

/// Bytes that a short list has allocated: none while it fits into itself.
pub(crate) fn spilled<A: smallvec::Array>(list: &smallvec::SmallVec<A>) -> usize {
    if list.spilled() { list.capacity() * size_of::<A::Item>() } else { 0 }
}

/// The longest identifier a client may use, in bytes.
pub const MAX_IDENTIFIER: usize = 256;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;
