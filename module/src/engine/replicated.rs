//! The path of a replicated payload: what a master decided, or an AOF file has, is applied without a decision.

use allot_core::invariant;
use allot_core::shared::codec::Damaged;
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::payload::Payload;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::argument::Argument;
use super::command::{Call, Done};
use super::family::Family;
use super::info;
use super::step::Notices;
use super::value::{Value, uptime};
use crate::ffi::context::{Key, Mode};
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName};

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
    name.during(F::TYPE, || {
        let mut key = ctx.open(name, Mode::Write);
        let notices = match apply_payload::<F>(&mut key, name.as_bytes(), payload) {
            Ok(notices) => notices,
            Err(damaged) => info::end_process(&cannot_apply(ctx, name, damaged)),
        };
        if let Found::Value(value) = key.value::<Value<F>>() {
            value.recount(uptime());
            let clock = ctx.clock();
            let now = value.now(clock);
            value.watch(|| (ctx.selected_db(), name.as_bytes()), now, clock);
        }
        ctx.replicate_verbatim();
        ctx.signal_modified(name);
        for notice in notices {
            ctx.notify(notice, name);
        }
        Ok(())
    })
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
        "an event of key {name} from the master cannot be applied: {damaged}. Start this server again to synchronise it with \
         its master; it must not be older than its master"
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

/// Applies a snapshot or a list of events. Returns their notifications.
fn apply_payload<F: Family>(key: &mut Key<'_>, name: &[u8], payload: &[u8]) -> Result<Notices, Damaged> {
    match Payload::read(name, payload)? {
        Payload::Events { at, events } => apply_events::<F>(key, at, events),
        Payload::Snapshot(snapshot) => {
            let state = F::decode(snapshot)?;
            if key.exists() {
                key.delete();
            }
            invariant!(key.store(Value::new(state)), "a key that is open for writing takes a value");
            Ok(Notices::new())
        }
    }
}

/// Applies a list of events. Returns their notifications.
fn apply_events<F: Family>(key: &mut Key<'_>, at: i64, events: &[u8]) -> Result<Notices, Damaged> {
    let mut notices = Notices::new();
    let mut events = F::Event::decode_all(events)?.into_iter();
    if !key.exists() {
        let first = events.next().ok_or(Damaged("there is no event"))?;
        let opened = F::open(&first, at).ok_or(Damaged("there is no such key"))?;
        let state = opened.map_err(|_| Damaged("the first event opens nothing"))?;
        invariant!(key.store(Value::new(state)), "a key that is open for writing takes a value");
        notices.extend(F::announce(&first));
    }
    let Found::Value(value) = key.value::<Value<F>>() else {
        return Err(Damaged("the key holds another type"));
    };
    value.forget_earlier_waiters();
    for event in events {
        value.state.admits(&event)?;
        value.state.observe(at, &event);
        value.state.apply(at, &event);
        notices.extend(F::announce(&event));
    }
    Ok(notices)
}
