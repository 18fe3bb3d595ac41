//! What requests of all families say in the same way: tokens, identifiers, times to live.

use super::refusal::{Code, Refusal};
use super::{MAX_IDENTIFIER, Millis};

/// The longest time to live of anything: ten years.
pub const MAX_TTL: Millis = 10 * 366 * 24 * 3600 * 1000;

/// How a token came about.
#[derive(Clone, Copy, Debug)]
pub struct TokenChoice<'a> {
    /// The token.
    pub token: &'a [u8],
    /// Whether the caller chose it: then an equal request is a retry.
    pub chosen: bool,
}

/// Checks an identifier of a caller's.
///
/// # Errors
/// `ERR` for one that has not 1 to 256 bytes.
pub fn check_identifier(what: &str, bytes: &[u8]) -> Result<(), Refusal> {
    if (1..=MAX_IDENTIFIER).contains(&bytes.len()) {
        return Ok(());
    }
    Err(Refusal::new(Code::Err, format!("{what} must have 1 to {MAX_IDENTIFIER} bytes, not {}", bytes.len())))
}

/// Checks a time to live.
///
/// # Errors
/// `ERR` for one that is not 1 ms to ten years.
pub fn check_ttl(ttl: Millis) -> Result<(), Refusal> {
    check_time("TTL", ttl)
}

/// Checks a time of this name after which something ends.
///
/// # Errors
/// `ERR` for one that is not 1 ms to ten years.
pub fn check_time(what: &str, time: Millis) -> Result<(), Refusal> {
    if (1..=MAX_TTL).contains(&time) {
        return Ok(());
    }
    Err(Refusal::new(Code::Err, format!("{what} must be 1 to {MAX_TTL} ms, not {time}")))
}
