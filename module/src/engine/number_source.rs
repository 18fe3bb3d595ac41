//! Numbers that one family gives out for things of another, without either of them knowing the other: a conference
//! may be created on a number that is called from a pool.

use allot_core::invariant;
use allot_core::shared::refusal::{Code, Refusal};
use std::sync::OnceLock;

use crate::ffi::{Context, KeyName};

/// A function that takes a number, given as text, or refuses it. It refuses with `EXISTS` if another number may do.
pub(crate) type Take<'t> = dyn FnMut(&[u8]) -> Result<(), Refusal> + 't;

/// Calls a number of a pool under a lease without a deadline, unless `take` refuses: both happen, or neither. If `take`
/// refuses a number with `EXISTS`, other numbers are tried.
pub(crate) type CallNumber = fn(Context<'_>, KeyName<'_>, &[u8], &mut Take<'_>) -> Result<(), Refusal>;

static SOURCE: OnceLock<CallNumber> = OnceLock::new();

/// Sets the source of numbers; once, at load.
pub(crate) fn provide(source: CallNumber) {
    invariant!(SOURCE.set(source).is_ok(), "numbers come from one family");
}

/// Calls a number of `pool` for a caller that hangs it up later.
pub(crate) fn call_number<T>(
    ctx: Context<'_>,
    pool: KeyName<'_>,
    lease: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let internal = || Refusal::new(Code::Err, "internal: no number was called");
    let Some(source) = SOURCE.get() else {
        invariant!("a family that gives out numbers is registered");
        return Err(internal());
    };
    let mut taken = None;
    source(ctx, pool, lease, &mut |number| {
        taken = Some(take(number)?);
        Ok(())
    })?;
    taken.ok_or_else(internal)
}
