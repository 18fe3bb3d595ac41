//! The path of a replicated payload: what a master decided, or an AOF file has, is applied without a decision.

use allot_core::shared::codec::Damaged;
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::payload::Payload;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::argument::Argument;
use super::command::{Call, Done};
use super::family::Family;
use super::info;
use super::step::{Notices, store};
use super::value::{Value, uptime};
use crate::ffi::context::Mode;
use crate::ffi::guard::AbortOnUnwind;
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName, fault};

/// The internal command: applies the events of a master or an AOF file, without a clock and without limits. At events
/// that are damaged, unknown, or do not fit the state, the process ends: the value would differ from what was answered,
/// and a seat that was sold could be sold again.
fn apply_replicated<F: Family>(ctx: Context<'_>, name: KeyName<'_>, payload: &[u8]) -> Result<(), Refusal> {
    if !ctx.is_replicated_or_loading() {
        return Err(Refusal::new(
            Code::Err,
            "this command carries what a master decided; it is not for clients",
        ));
    }
    // A payload that is skipped, even before its first event, would make this server differ from its master in silence.
    let abort_on_unwind = AbortOnUnwind;
    let notices = name.during(F::TYPE, || match apply_payload::<F>(ctx, name, payload) {
        Ok(notices) => notices,
        Err(damaged) => info::end_process(&cannot_apply(ctx, name, damaged)),
    });
    drop(abort_on_unwind);
    for notice in notices {
        ctx.notify(notice, name);
    }
    Ok(())
}

/// The log line when a server stops at an event: the reason, and the action to take.
fn cannot_apply(ctx: Context<'_>, name: KeyName<'_>, damaged: Damaged) -> String {
    let name = quoted(name.as_bytes());
    if ctx.is_loading() {
        return format!(
            "an event of key {name} in the append-only file cannot be applied: {damaged}. Load the file with the version that \
             wrote it, or replace it by that of a replica or a backup"
        );
    }
    format!(
        "an event of key {name} from the master cannot be applied: {damaged}. Delete the RDB and append-only files of this \
         server, and start it again: it then takes all data from its master. It must not be older than its master"
    )
}

/// The handler of a family's internal command, `APPLY key payload`.
pub(crate) fn apply<F: Family>(call: &Call<'_>, [_, payload]: &[Argument<'_>; 2]) -> Done {
    apply_replicated::<F>(call.ctx, call.key()?, payload.text())?;
    call.ctx.reply_ok();
    Ok(())
}

/// The table entry of a family's internal command.
macro_rules! apply_command {
    ($name:literal, $Family:ty) => {
        $crate::engine::command::command! {
            name: $name,
            run: $crate::engine::replicated::apply::<$Family>,
            flags: "write",
            also: "dangerous",
            keys: $crate::ffi::command::RW | $crate::ffi::command::UPDATE,
            summary: "Internal: replicates what a master decided to replicas and the append-only file",
            complexity: "O(N log M) with N the size of the events and M that of the value",
            parameters: [
                $crate::engine::parameter::Parameter::key("key"),
                $crate::engine::parameter::Parameter::text("payload"),
            ],
        }
    };
}
pub(crate) use apply_command;

/// Applies a snapshot or a list of events, and replicates it further. The key is closed after that. Returns the
/// notifications.
fn apply_payload<F: Family>(ctx: Context<'_>, name: KeyName<'_>, payload: &[u8]) -> Result<Notices, Damaged> {
    let (at, events) = match Payload::read(name.as_bytes(), payload)? {
        Payload::Events { at, events } => (at, F::Event::decode_all(events)?),
        Payload::Snapshot(snapshot) => {
            create(ctx, name, Value::new(F::decode(snapshot)?));
            return Ok(Notices::new());
        }
    };
    let mut key = ctx.open(name, Mode::Write);
    match key.value::<Value<F>>() {
        Found::OtherType => Err(Damaged("the key holds another type")),
        Found::Value(value) => {
            let notices = apply_events(value, at, &events)?;
            has_applied(ctx, name, value);
            Ok(notices)
        }
        Found::Nothing => {
            drop(key);
            let (first, events) = events.split_first().ok_or(Damaged("there is no event"))?;
            let opened = F::open(first, at).ok_or(Damaged("there is no such key"))?;
            let mut value = Value::new(opened.map_err(|_| Damaged("the first event opens nothing"))?);
            let mut notices: Notices = F::announce(first).into_iter().collect();
            notices.extend(apply_events(&mut value, at, events)?);
            create(ctx, name, value);
            Ok(notices)
        }
    }
}

/// Applies a list of events. Returns their notifications.
fn apply_events<F: Family>(value: &mut Value<F>, at: i64, events: &[F::Event]) -> Result<Notices, Damaged> {
    let mut notices = Notices::new();
    value.forget_earlier_waiters();
    // A replica maintains nothing, and these events may bring something to maintain once it is the master.
    value.maintenance_at = value.maintenance_at.min(F::MAINTENANCE_FROM);
    for event in events {
        value.state.admits(event)?;
        value.state.observe(at, event);
        value.state.apply(at, event);
        fault::here("replicated");
        notices.extend(F::announce(event));
    }
    Ok(notices)
}

/// Puts a value under its key, instead of another one that may be there.
fn create<F: Family>(ctx: Context<'_>, name: KeyName<'_>, mut value: Value<F>) {
    // Before the new value is watched under the name.
    let key = ctx.open(name, Mode::Write);
    if key.exists() {
        key.delete();
    }
    has_applied(ctx, name, &mut value);
    store(ctx, name, value);
}

/// Has the timer watch a value that has changed, and replicates the running command.
fn has_applied<F: Family>(ctx: Context<'_>, name: KeyName<'_>, value: &mut Value<F>) {
    value.recount(uptime());
    let clock = ctx.clock();
    let now = value.now(clock);
    value.watch(|| (ctx.selected_db(), name.as_bytes()), now, clock);
    ctx.replicate_verbatim();
    ctx.signal_modified(name);
}
