//! The table of families, and the commands of operators for values of any family. Registration, `INFO`, the timer and
//! these commands follow from the table.

use allot_core::account::Book;
use allot_core::conf::Realm;
use allot_core::numpool::Pool;
use allot_core::seat::Show;
use allot_core::shared::event::MachineEvent;
use allot_core::shared::invariant::Checked;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use allot_core::shared::words::Words;
use std::ffi::CString;
use std::sync::atomic::Ordering;

use crate::engine::argument::Argument;
use crate::engine::command::{Call, Command, Done, command};
use crate::engine::entry::FamilyEntry;
use crate::engine::family::{Family, MAX_GAUGES};
use crate::engine::info::write_counters;
use crate::engine::parameter::Parameter;
use crate::engine::step::{no_key, wrong_type};
use crate::engine::tick::tick;
use crate::engine::value::{Value, uptime};
use crate::ffi::context::Mode;
use crate::ffi::guard::AbortOnUnwind;
use crate::ffi::info::InfoWriter;
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName, fault};
use crate::{account, conf, numpool, seat};

/// The families. The number of each is its place here.
pub(crate) static FAMILIES: [FamilyEntry; 4] = [
    entry_of::<Show>(&[seat::COMMANDS]),
    entry_of::<Pool>(&[numpool::COMMANDS]),
    entry_of::<Realm>(&[conf::CONF_COMMANDS, conf::CMU_COMMANDS]),
    entry_of::<Book>(&[account::COMMANDS]),
];

const _: () = {
    let numbers = [Show::NUMBER, Pool::NUMBER, Realm::NUMBER, Book::NUMBER];
    assert!(matches!(numbers, [0, 1, 2, 3]), "the number of a family is its place in the table");
};

/// The row of a family that has these commands.
const fn entry_of<F: Family>(commands: &'static [&'static [Command]]) -> FamilyEntry {
    const { assert!(F::GAUGES.len() <= MAX_GAUGES) };
    FamilyEntry {
        commands,
        register: |server| server.value_type::<Value<F>>(),
        tick: tick::<F>,
        write_counters: write_counters_of::<F>,
        write_gauges: write_gauges::<F>,
        check: check_value::<F>,
        clock: clock_of_value::<F>,
    }
}

fn write_counters_of<F: Family>(info: &InfoWriter) {
    let counters = <F::Event as MachineEvent>::Counter::MEMBERS.iter();
    for (counter, count) in counters.zip(&F::statics().events) {
        // No word of the module contains a zero byte.
        info.unsigned(&CString::new(counter.word()).unwrap_or_default(), count.get());
    }
    write_counters(info, F::COUNTERS);
}

fn write_gauges<F: Family>(info: &InfoWriter) {
    for (gauge, sum) in F::GAUGES.iter().zip(&F::statics().gauges) {
        info.signed(gauge.field, sum.load(Ordering::Relaxed));
    }
}

/// A refusal because no family has a value under the key.
fn no_value(call: &Call<'_>, name: KeyName<'_>) -> Refusal {
    if call.ctx.open(name, Mode::Read).exists() { wrong_type() } else { no_key(name) }
}

/// The commands for values of any family.
pub(crate) static COMMANDS: &[Command] = &[
    command! {
        name: c"ALLOT.CHECK",
        run: self::check,
        flags: "readonly admin",
        also: "admin dangerous",
        summary: "Checks all cross-references and sums of a value; an error names what contradicts what",
        complexity: "O(N) with N the size of the value",
        parameters: [Parameter::key("key")],
    },
    command! {
        name: c"ALLOT.CLOCK",
        run: self::clock,
        flags: "write admin",
        also: "admin dangerous",
        summary: "The time of a value and of the clock; RESET has a value that is ahead follow the clock again",
        complexity: "O(1); O(N) with RESET, with N the size of the value",
        parameters: [Parameter::key("key"), Parameter::word("reset", "RESET").optional()],
    },
];

fn clock(call: &Call<'_>, [_key, reset]: &[Argument<'_>; 2]) -> Done {
    let name = call.key()?;
    let found = FAMILIES.iter().find_map(|family| (family.clock)(call.ctx, name, reset.is_given()));
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
    match FAMILIES.iter().find_map(|family| (family.check)(call.ctx, name)) {
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
        let _abort_on_unwind = AbortOnUnwind;
        value.state.set_back(clock);
        fault::here("clock");
        value.recount(uptime());
        // The next maintenance was planned by the time that was ahead.
        value.maintenance_at = F::MAINTENANCE_FROM;
        value.watch(|| (ctx.selected_db(), name.as_bytes()), clock, clock);
        ctx.replicate_payload(F::APPLY, name, &value.snapshot_payload(name.as_bytes()));
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
