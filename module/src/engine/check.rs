//! `ALLOT.CHECK` and `ALLOT.CLOCK`: commands of operators for values of any family.

use allot_core::shared::invariant::Checked;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use std::sync::{Mutex, PoisonError};

use super::argument::Argument;
use super::command::{Call, Command, Done, command};
use super::family::Family;
use super::parameter::Parameter;
use super::step::{no_key, snapshot_payload, watch, wrong_type};
use super::value::{Value, uptime};
use crate::ffi::command::{ACCESS, RO, RW, UPDATE};
use crate::ffi::context::Mode;
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName};

/// Checks a key; `None` if it does not hold a value of the family.
type Check = fn(Context<'_>, KeyName<'_>) -> Option<Checked>;

/// Returns the time of a key and of the clock. If the argument is true, the key follows the clock again. `None` if the
/// key does not hold a value of the family.
type Clock = fn(Context<'_>, KeyName<'_>, bool) -> Option<(i64, i64)>;

/// The two functions of each family.
static FAMILIES: Mutex<Vec<(Check, Clock)>> = Mutex::new(Vec::new());

/// Registers a family, so that the commands reach its values; once, at load.
pub(crate) fn add_family<F: Family>() {
    // A panic elsewhere while the list was locked does it no harm.
    FAMILIES.lock().unwrap_or_else(PoisonError::into_inner).push((check_value::<F>, clock_of_value::<F>));
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

/// The time of a key and of the clock. With `set_back` a key whose time is ahead of the clock follows the clock again;
/// its deadlines stay as they are. `None` if the key holds another type.
fn clock_of_value<F: Family>(ctx: Context<'_>, name: KeyName<'_>, set_back: bool) -> Option<(i64, i64)> {
    let clock = ctx.clock();
    let mut key = ctx.open(name, if set_back { Mode::Write } else { Mode::Read });
    let Found::Value(value) = key.value::<Value<F>>() else { return None };
    // The time of a key that is idle may be ahead although its last change no longer is.
    if set_back && value.now(clock) > clock {
        value.state.set_back(clock);
        value.recount(uptime());
        // The next maintenance was planned by the time that was ahead.
        value.maintenance_at = F::MAINTENANCE_FROM;
        watch(value, || (ctx.selected_db(), name.as_bytes()), clock, clock);
        ctx.replicate_payload(F::APPLY, name, &snapshot_payload(name.as_bytes(), &value.state));
        ctx.signal_modified(name);
    }
    Some((value.now(clock), clock))
}

/// Checks all cross-references and sums of a value. O(size of the value). `None` if the key holds another type.
fn check_value<F: Family>(ctx: Context<'_>, name: KeyName<'_>) -> Option<Checked> {
    let mut key = ctx.open(name, Mode::Read);
    match key.value::<Value<F>>() {
        Found::Value(value) => Some(name.during(F::TYPE, || value.state.check())),
        Found::Nothing | Found::OtherType => None,
    }
}
