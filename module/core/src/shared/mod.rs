//! What the families have in common: refusals, printable text, codec, tables, names, deadlines, outbox.

pub mod codec;
pub mod deadlines;
pub mod names;
pub mod outbox;
pub mod refusal;
pub mod table;
pub mod text;

/// A byte string of a client's making: a user, a token, an order reference. 24 bytes fit without an
/// allocation, which is what tokens and user ids mostly are.
pub type Bytes = smallvec::SmallVec<[u8; 24]>;

/// The longest identifier a client may use, in bytes.
pub const MAX_IDENTIFIER: usize = 256;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;
