//! How much one call may ask for, so that no other client waits longer than about 10 ms for it.

use allot_core::shared::refusal::{Code, Refusal};

use super::argument::Argument;

/// The most seats or numbers that one call may name.
pub(crate) const LISTED_AT_ONCE: usize = 20_000;

/// The most places that one call of a listing may read (`COUNT`), and the most records of a list without a cursor.
pub(crate) const READ_AT_ONCE: u32 = 10_000;

/// Refuses a list of more than `most` words. `what` names the words in the plural.
pub(crate) fn check_list(what: &str, list: &Argument<'_>, most: usize) -> Result<(), Refusal> {
    let listed = list.words().len();
    if listed <= most {
        return Ok(());
    }
    Err(Refusal::new(Code::Err, format!("one call may name at most {most} {what}, not {listed}")))
}

/// The places that one call of a listing reads: `COUNT`, or `usual` without one.
pub(crate) fn count_of(count: &Argument<'_>, usual: u32) -> Result<u32, Refusal> {
    let Some(count) = count.optional_integer() else { return Ok(usual) };
    u32::try_from(count)
        .ok()
        .filter(|count| (1..=READ_AT_ONCE).contains(count))
        .ok_or_else(|| Refusal::new(Code::Err, format!("COUNT must be 1 to {READ_AT_ONCE}, not {count}")))
}
