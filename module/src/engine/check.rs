//! `ALLOT.CHECK` and `ALLOT.CLOCK`: commands of operators for values of any family.

use allot_core::shared::invariant::Checked;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use std::sync::{Mutex, PoisonError};

use super::argument::Argument;
use super::command::{Call, Command, Done, command};
use super::parameter::Parameter;
use super::step::{no_key, wrong_type};
use crate::ffi::command::{ACCESS, RO, RW, UPDATE};
use crate::ffi::context::Mode;
use crate::ffi::{Context, KeyName};

/// Checks a key; `None` if it does not hold a value of the family.
pub(crate) type Check = fn(Context<'_>, KeyName<'_>) -> Option<Checked>;

/// Returns the time of a key and of the clock. If the argument is true, the key follows the clock again. `None` if the
/// key does not hold a value of the family.
pub(crate) type Clock = fn(Context<'_>, KeyName<'_>, bool) -> Option<(i64, i64)>;

/// The two functions of each family.
static FAMILIES: Mutex<Vec<(Check, Clock)>> = Mutex::new(Vec::new());

/// Registers a family, so that the commands reach its values; once, at load.
pub(crate) fn add_family(check: Check, clock: Clock) {
    // A panic elsewhere while the list was locked does it no harm.
    FAMILIES.lock().unwrap_or_else(PoisonError::into_inner).push((check, clock));
}

fn families() -> Vec<(Check, Clock)> {
    FAMILIES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A refusal because no family has a value under the key.
fn no_value(call: &Call<'_>, name: KeyName<'_>) -> Refusal {
    if call.ctx.open(name, Mode::Read).exists() { wrong_type() } else { no_key(name) }
}

/// The commands that all families share.
pub(crate) static COMMANDS: &[Command] = &[
    command! {
        name: c"ALLOT.CHECK",
        run: self::check,
        flags: "readonly admin",
        also: "admin dangerous",
        keys: RO | ACCESS,
        summary: "Checks all cross-references and sums of a value; an error names what contradicts what",
        complexity: "O(N) with N the size of the value",
        parameters: [Parameter::key("key")],
    },
    command! {
        name: c"ALLOT.CLOCK",
        run: self::clock,
        flags: "write admin",
        also: "admin dangerous",
        keys: RW | ACCESS | UPDATE,
        summary: "The time of a value and of the clock; RESET has a value that is ahead follow the clock again",
        complexity: "O(1); O(N) with RESET, with N the size of the value",
        parameters: [Parameter::key("key"), Parameter::word("reset", "RESET").optional()],
    },
];

fn clock(call: &Call<'_>, [_key, reset]: &[Argument<'_>; 2]) -> Done {
    let name = call.key()?;
    let found = families().into_iter().find_map(|(_, clock)| clock(call.ctx, name, reset.is_given()));
    let (time, clock) = found.ok_or_else(|| no_value(call, name))?;
    call.ctx.reply_map(3);
    for (field, value) in [("time", time), ("clock", clock), ("ahead", time - clock)] {
        call.ctx.reply_string(field.as_bytes());
        call.ctx.reply_integer(value);
    }
    Ok(())
}

fn check(call: &Call<'_>, [_key]: &[Argument<'_>; 1]) -> Done {
    let name = call.key()?;
    match families().into_iter().find_map(|(check, _)| check(call.ctx, name)) {
        Some(Ok(())) => {
            call.ctx.reply_ok();
            Ok(())
        }
        Some(Err(contradiction)) => {
            let text = format!("key {} contradicts itself: {contradiction}", quoted(name.as_bytes()));
            Err(Refusal::new(Code::Err, text))
        }
        None => Err(no_value(call, name)),
    }
}
