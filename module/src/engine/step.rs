//! The path of every request to a key: find the value, apply what is due, decide, apply, replicate, publish.

use allot_core::invariant;
use allot_core::shared::codec::{Damaged, Reader, Writer};
use allot_core::shared::invariant::Checked;
use allot_core::shared::machine::{Events, MachineEvent};
use allot_core::shared::outbox::Outbox;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::CStr;

use super::argument::Argument;
use super::command::{Call, Done};
use super::deadlines::{self, NEVER};
use super::family::Family;
use super::value::Value;
use super::{faults, outbox};
use crate::ffi::context::{Key, Mode};
use crate::ffi::guard::AbortOnUnwind;
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName};

/// First byte of an internal command's payload that is a snapshot, and no list of events.
const SNAPSHOT: u8 = 0;

/// When the timer must look at a key: for its earliest deadline, to send the rest of its outbox or to try it again, or
/// for its maintenance.
fn wake_at<F: Family>(value: &Value<F>, clock: i64) -> i64 {
    let due = value.state.next_due().unwrap_or(NEVER).min(value.maintenance_at);
    if value.state.outbox().is_none_or(Outbox::is_empty) {
        due
    } else if value.unsent {
        due.min(clock)
    } else {
        due.min(clock.saturating_add(outbox::RETRY_MS))
    }
}

/// Has the timer look at a key when it is due.
pub(super) fn watch<F: Family>(value: &mut Value<F>, db: i32, name: &[u8], clock: i64) {
    let due = deadlines::capped(wake_at(value, clock), clock);
    deadlines::watch(&mut value.watched, due, db, name, tick::<F>);
}

/// A refusal because the key holds something else.
pub(crate) fn wrong_type() -> Refusal {
    Refusal::new(Code::WrongType, "Operation against a key holding the wrong kind of value")
}

/// A refusal because there is no key.
pub(crate) fn no_key(name: KeyName<'_>) -> Refusal {
    let name = quoted(name.as_bytes());
    Refusal::new(Code::NoKey, format!("there is no key {name}"))
}

/// The payload of an internal command that makes a whole state.
pub(crate) fn snapshot_payload<F: Family>(state: &F) -> Vec<u8> {
    let mut payload = vec![SNAPSHOT];
    payload.extend_from_slice(&state.encode());
    payload
}

/// Reads a state without changing it.
pub(crate) fn read<F: Family, T>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    look: impl FnOnce(&F, i64) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut key = ctx.open(name, Mode::Read);
    match key.value::<Value<F>>() {
        Found::Nothing => Err(no_key(name)),
        Found::OtherType => Err(wrong_type()),
        Found::Value(value) => {
            // On a replica nothing is due before its master says so.
            let now = value.state.now(if ctx.is_master() { ctx.clock() } else { 0 });
            name.during(F::TYPE, || look(&value.state, now))
        }
    }
}

/// Notifications of a step.
type Notices = SmallVec<[&'static CStr; 4]>;

/// The largest payload whose buffer is kept for the next one.
const KEPT_BUFFER: usize = 16 * 1024;

thread_local! {
    /// The buffer in which payloads are written, kept from step to step.
    static PAYLOAD: Cell<Writer> = const { Cell::new(Writer { bytes: Vec::new() }) };
}

/// One step of a state: events applied at one time, then replicated and published together.
pub(crate) struct Step<'c, 'k, F: Family> {
    ctx: Context<'c>,
    name: KeyName<'k>,
    value: &'k mut Value<F>,
    now: i64,
    payload: Writer,
    notices: Notices,
    /// How many messages may still be sent.
    to_send: usize,
    /// Set from the first event applied until all of them are replicated and published.
    abort_on_unwind: Option<AbortOnUnwind>,
}

impl<'c, 'k, F: Family> Step<'c, 'k, F> {
    fn begin(ctx: Context<'c>, name: KeyName<'k>, value: &'k mut Value<F>, clock: i64) -> Self {
        let now = value.state.now(clock);
        let mut payload = PAYLOAD.take();
        payload.bytes.clear();
        Self {
            ctx,
            name,
            value,
            now,
            payload,
            notices: Notices::new(),
            to_send: F::SENT_AT_ONCE,
            abort_on_unwind: None,
        }
    }

    /// The state as it is in this step.
    pub(crate) fn state(&self) -> &F {
        &self.value.state
    }

    /// The state, for building indexes that are no part of its meaning.
    pub(crate) fn state_mut(&mut self) -> &mut F {
        &mut self.value.state
    }

    /// The time of this step.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Applies an event.
    pub(crate) fn apply(&mut self, event: &F::Event) {
        self.abort_on_unwind = Some(AbortOnUnwind);
        self.value.state.observe(self.now, event);
        self.value.state.apply(self.now, event);
        self.write(event);
        // A step of thousands of events must not overfill the outbox.
        if self.value.state.outbox().is_some_and(|outbox| outbox.len() >= outbox::FLUSH_AT) {
            self.flush();
        }
    }

    /// Sends what the outbox holds, if its streams can be written.
    fn flush(&mut self) {
        let Some(waiting) = self.value.state.outbox() else { return };
        if waiting.is_empty() || self.to_send == 0 {
            return;
        }
        let sent = outbox::flush(self.ctx, self.name, &self.value.state, waiting, self.now, self.to_send);
        self.to_send -= sent.messages.min(self.to_send);
        if let Some(flushed) = sent.event {
            self.value.state.apply(self.now, &flushed);
            self.write(&flushed);
        }
    }

    /// Writes down an event that was applied.
    fn write(&mut self, event: &F::Event) {
        if self.payload.bytes.is_empty() {
            self.payload.unsigned(1);
            self.payload.signed(self.now);
        }
        event.encode(&mut self.payload);
        self.notices.extend(F::announce(event));
    }

    /// Applies what is due, at most `limit` events.
    fn apply_due(&mut self, limit: usize) {
        for event in self.value.state.due(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Applies the overdue deadlines on which a request depends, as long as `overdue` finds some.
    pub(crate) fn apply_overdue(&mut self, overdue: impl Fn(&F, i64) -> Events<F::Event>) {
        loop {
            let events = overdue(&self.value.state, self.now);
            if events.is_empty() {
                return;
            }
            for event in &events {
                self.apply(event);
            }
        }
    }

    /// Applies what is due before a command, at most `limit` events.
    fn apply_due_before_all(&mut self, limit: usize) {
        for event in self.value.state.due_before_all(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Does the key's maintenance, if it is due.
    fn maintain(&mut self) {
        if self.value.maintenance_at > self.now {
            return;
        }
        let mut place = self.value.maintenance_place;
        let (events, next) = self.value.state.maintain(self.ctx, self.name, self.now, &mut place);
        (self.value.maintenance_place, self.value.maintenance_at) = (place, next);
        for event in events {
            self.apply(&event);
        }
    }

    /// Replicates, notifies, sends the outbox, and sees to the next deadline.
    fn finish(mut self) {
        self.flush();
        self.value.unsent = self.to_send == 0;
        watch(self.value, self.ctx.selected_db(), self.name.as_bytes(), self.now);
        if !self.payload.bytes.is_empty() {
            self.value.recount();
            self.ctx.replicate_payload(F::APPLY, self.name, &self.payload.bytes);
            self.ctx.signal_modified(self.name);
            // Last, since a listener may call commands of ours.
            for notice in &self.notices {
                self.ctx.notify(notice, self.name);
            }
        }
        self.abort_on_unwind = None;
        // A plan may take megabytes; they are not kept for the small payloads that come after it.
        if self.payload.bytes.capacity() <= KEPT_BUFFER {
            PAYLOAD.set(std::mem::take(&mut self.payload));
        }
    }
}

/// Changes a state: applies what is due, then what `decide` does with the step. What was due stays done where
/// `decide` refuses.
pub(crate) fn change<F: Family, T>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    decide: impl FnOnce(&mut Step<'_, '_, F>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut key = ctx.open(name, Mode::Write);
    match key.value::<Value<F>>() {
        Found::Nothing => Err(no_key(name)),
        Found::OtherType => Err(wrong_type()),
        Found::Value(value) => name.during(F::TYPE, || {
            let mut step = Step::begin(ctx, name, value, ctx.clock());
            step.apply_due_before_all(F::DUE_AT_ONCE);
            let decided = decide(&mut step);
            step.finish();
            decided
        }),
    }
}

/// Makes a key by its first event.
pub(crate) fn create<F: Family>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    event: &F::Event,
) -> Result<(), Refusal> {
    change_or_create::<F, ()>(ctx, name, event, |_| Ok(()))
}

/// As `change`; a key that is not there is made by `first` in the same step, unless `decide` refuses.
pub(crate) fn change_or_create<F: Family, T>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    first: &F::Event,
    decide: impl FnOnce(&mut Step<'_, '_, F>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut key = ctx.open(name, Mode::Write);
    if key.exists() {
        return change(ctx, name, decide);
    }
    name.during(F::TYPE, || {
        let now = ctx.clock();
        let Some(opened) = F::open(first, now) else {
            invariant!("the first event of a key opens it");
            return Err(Refusal::new(Code::Err, "internal: this event opens nothing"));
        };
        let stored = key.store(Value::new(opened?));
        let Found::Value(value) = key.value::<Value<F>>() else {
            invariant!("a value is under its key once it is stored");
            return Err(Refusal::new(Code::Err, "internal: the key could not be made"));
        };
        invariant!(stored, "a key that is open for writing takes a value");
        // At the very time at which the state was opened.
        let mut step = Step::begin(ctx, name, value, now);
        step.write(first);
        match decide(&mut step) {
            Ok(done) => {
                step.finish();
                Ok(done)
            }
            Err(refusal) => {
                drop(step);
                key.delete();
                Err(refusal)
            }
        }
    })
}

/// What the timer does for a key: applies at most `slice` of what is due. The next deadline, if there is one.
pub(crate) fn tick<F: Family>(ctx: Context<'_>, name: KeyName<'_>, due: i64, slice: usize) -> Option<i64> {
    let mut key = ctx.open(name, Mode::Write);
    // A key that is gone is forgotten.
    let Found::Value(value) = key.value::<Value<F>>() else { return None };
    // The key is watched for another time by now, or is another key under the same name.
    if value.watched != due {
        return None;
    }
    let now = ctx.clock();
    name.during(F::TYPE, || {
        let mut step = Step::begin(ctx, name, value, now);
        // `finish` must not watch the key: its next deadline is what we return.
        step.value.watched = i64::MIN;
        step.apply_due(slice);
        step.maintain();
        step.finish();
    });
    // A module that hears a notification may have deleted the key.
    let Found::Value(value) = key.value::<Value<F>>() else { return None };
    // What is left of this key waits its turn behind all that was due before now.
    value.watched = deadlines::capped(wake_at(value, now), now).max(now);
    (value.watched != NEVER).then_some(value.watched)
}

/// The internal command: applies the events of a master or an AOF file, without a clock and without limits. Events that
/// do not fit the state are an error, which is counted and logged.
fn apply_replicated<F: Family>(ctx: Context<'_>, name: KeyName<'_>, payload: &[u8]) -> Result<(), Refusal> {
    if !ctx.is_replicated_or_loading() {
        return Err(Refusal::new(
            Code::Err,
            "this command carries what a master decided; it is not for clients",
        ));
    }
    name.during(F::TYPE, || {
        let mut key = ctx.open(name, Mode::Write);
        let notices = apply_payload::<F>(&mut key, payload).map_err(|damaged| {
            let name = quoted(name.as_bytes());
            let refusal = Refusal::new(Code::Err, format!("key {name} differs from its master's: {damaged}"));
            faults::replication_error(&refusal.text);
            refusal
        })?;
        if let Found::Value(value) = key.value::<Value<F>>() {
            value.recount();
            watch(value, ctx.selected_db(), name.as_bytes(), ctx.clock());
        }
        ctx.replicate_verbatim();
        ctx.signal_modified(name);
        for notice in notices {
            ctx.notify(notice, name);
        }
        Ok(())
    })
}

/// The handler of a family's internal command, `APPLY key payload`.
pub(crate) fn apply<F: Family>(call: &Call<'_>, [_, payload]: &[Argument<'_>; 2]) -> Done {
    apply_replicated::<F>(call.ctx, call.key()?, payload.text())?;
    call.ctx.reply_ok();
    Ok(())
}

/// Applies a snapshot or a list of events; their notifications.
fn apply_payload<F: Family>(key: &mut Key<'_>, payload: &[u8]) -> Result<Notices, Damaged> {
    let Some((&SNAPSHOT, snapshot)) = payload.split_first() else {
        return apply_events::<F>(key, payload);
    };
    let state = F::decode(snapshot)?;
    if key.exists() {
        key.delete();
    }
    invariant!(key.store(Value::new(state)), "a key that is open for writing takes a value");
    Ok(Notices::new())
}

/// Applies a list of events; their notifications.
fn apply_events<F: Family>(key: &mut Key<'_>, payload: &[u8]) -> Result<Notices, Damaged> {
    let mut reader = Reader::new(payload);
    if reader.unsigned()? != 1 {
        return Err(Damaged("the version of the payload is unknown"));
    }
    let at = reader.reached()?;
    let mut notices = Notices::new();
    let mut events = F::Event::decode_all(reader.rest())?.into_iter();
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
    for event in events {
        value.state.admits(&event)?;
        value.state.observe(at, &event);
        value.state.apply(at, &event);
        notices.extend(F::announce(&event));
    }
    Ok(notices)
}

/// Checks all cross-references and sums of a value. O(size of the value). `None` if the key holds another type.
pub(crate) fn check<F: Family>(ctx: Context<'_>, name: KeyName<'_>) -> Option<Checked> {
    let mut key = ctx.open(name, Mode::Read);
    match key.value::<Value<F>>() {
        Found::Value(value) => Some(name.during(F::TYPE, || value.state.check())),
        Found::Nothing | Found::OtherType => None,
    }
}
