//! `ALLOT.CHECK`: checks a live value for contradictions.

use allot_core::shared::invariant::Checked;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use std::sync::{Mutex, PoisonError};

use super::command::{Call, Command, Done, Parameter, command};
use super::parse::Argument;
use super::step::{no_key, wrong_type};
use crate::ffi::command::{ACCESS, RO};
use crate::ffi::context::Mode;
use crate::ffi::{Context, KeyName};

/// Checks a key; `None` if it does not hold a value of the family.
pub(crate) type Check = fn(Context<'_>, KeyName<'_>) -> Option<Checked>;

/// One for each family.
static CHECKS: Mutex<Vec<Check>> = Mutex::new(Vec::new());

/// Has the values of a family checked by the command; once, at load.
pub(crate) fn add_family(check: Check) {
    // A panic elsewhere while the list was locked does it no harm.
    CHECKS.lock().unwrap_or_else(PoisonError::into_inner).push(check);
}

/// The commands that all families share.
pub(crate) static COMMANDS: &[Command] = &[command! {
    name: c"ALLOT.CHECK",
    run: self::check,
    flags: "readonly admin",
    also: "admin dangerous",
    keys: RO | ACCESS,
    summary: "Checks all cross-references and sums of a value; an error names what contradicts what",
    complexity: "O(N) with N the size of the value",
    parameters: [Parameter::key("key")],
}];

fn check(call: &Call<'_>, [_key]: [Argument<'_>; 1]) -> Done {
    let name = call.key()?;
    let checks = CHECKS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match checks.into_iter().find_map(|check| check(call.ctx, name)) {
        Some(Ok(())) => {
            call.ctx.reply_ok();
            Ok(())
        }
        Some(Err(contradiction)) => {
            let text = format!("key {} contradicts itself: {contradiction}", quoted(name.as_bytes()));
            Err(Refusal::new(Code::Err, text))
        }
        None if call.ctx.open(name, Mode::Read).exists() => Err(wrong_type()),
        None => Err(no_key(name)),
    }
}
