//! Numbers among the arguments of several families: epochs, sequence numbers and terms.

use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use crate::command::{Arguments, integer};

/// An epoch, a sequence number or a term: 0 or more.
pub(crate) fn number(arguments: &mut Arguments<'_>, what: &str) -> Result<u64, Refusal> {
    natural(what, arguments.any()?)
}

/// As `number`, of an argument at hand.
pub(crate) fn natural(what: &str, argument: &[u8]) -> Result<u64, Refusal> {
    // No time and no count is greater (docs/replication.md).
    let value = integer(argument).and_then(|value| u64::try_from(value).ok());
    value.filter(|&value| value < 1 << 53).ok_or_else(|| {
        Refusal::new(
            Code::Err,
            format!("{what} must be a whole number from 0 to 2^53, not {}", quoted(argument)),
        )
    })
}

/// `TERM t`, if the option is that.
pub(crate) fn term(arguments: &mut Arguments<'_>, option: &[u8]) -> Result<Option<u64>, Refusal> {
    arguments.once(31, option)?;
    natural("TERM", arguments.value(option)?).map(Some)
}
