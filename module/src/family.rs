//! What every family of commands is to the module: a deterministic state machine behind a key. The steps that
//! all of them share are here, once: find the value, apply what is due, decide, apply, replicate, publish.

use allot_core::shared::codec::{Damaged, Writer};
use allot_core::shared::outbox::{Fields, Outbox};
use allot_core::shared::refusal::{Code, Refusal};
use redis_module::raw::RedisModuleType;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, AtomicPtr};

use crate::deadlines;
use crate::outbox;
use crate::sys::context::{Key, Mode};
use crate::sys::value::{Found, Value};
use crate::sys::{Context, KeyName};

/// A deadline that never comes.
pub(crate) const NEVER: i64 = i64::MAX;

/// First byte of an internal command's payload that is a snapshot, and no list of events.
const SNAPSHOT: u8 = 0;

/// A family's state machine, as the shared parts see it.
pub(crate) trait Family: Clone + Send + Sized + 'static {
    /// What happens to a state.
    type Event;
    /// Name of the value type, nine characters.
    const TYPE: &'static CStr;
    /// Version of the encoding of a value.
    const ENCODING: i32;
    /// The internal command that carries events to replicas and the AOF.
    const APPLY: &'static CStr;
    /// How many messages a step may send; what is left is sent by the timer.
    const SENT_AT_ONCE: usize = usize::MAX;
    /// How many due events a request applies before it is decided; what is left is applied by the timer.
    const DUE_AT_ONCE: usize = usize::MAX;
    /// When a key is first seen to beside its deadlines (`upkeep`).
    const UPKEEP_FROM: i64 = NEVER;

    fn type_slot() -> &'static AtomicPtr<RedisModuleType>;
    /// Sum of `gauge` over all keys of this process.
    fn gauge_sum() -> &'static AtomicI64;
    /// What of this state is counted in `INFO`: its live holds, leases and the like.
    fn gauge(&self) -> i64;

    fn decode(bytes: &[u8]) -> Result<Self, Damaged>;
    fn encode(&self) -> Vec<u8>;
    fn allocated(&self) -> usize;
    fn free_effort(&self) -> usize;

    /// *Now* of this key: the greater of the clock and the last time applied.
    fn now(&self, clock: i64) -> i64;
    /// When something is due that nobody asks for.
    fn next_due(&self) -> Option<i64>;
    /// What is due, at most `limit` events.
    fn due(&self, now: i64, limit: usize) -> SmallVec<[Self::Event; 1]>;
    /// What of it a command does that comes first; the rest is left to the timer.
    fn due_before_all(&self, now: i64, limit: usize) -> SmallVec<[Self::Event; 1]> {
        self.due(now, limit)
    }

    /// The state that the first event of a key makes; `None` for any other event.
    fn open(event: &Self::Event, at: i64) -> Option<Result<Self, Refusal>>;
    fn admits(&self, event: &Self::Event) -> Result<(), Damaged>;
    fn apply(&mut self, at: i64, event: &Self::Event);

    fn encode_event(event: &Self::Event, out: &mut Writer);
    fn decode_events(payload: &[u8]) -> Result<SmallVec<[Self::Event; 1]>, Damaged>;
    /// Counts the event in `INFO`; its notification, if it has one.
    fn announce(event: &Self::Event) -> Option<&'static CStr>;

    /// Messages owed to streams; `None` for a family that tells by notifications alone.
    fn outbox(&self) -> Option<&Outbox> {
        None
    }
    /// How many entries the stream beside the key keeps.
    fn stream_length(&self, _stream: &[u8]) -> u32 {
        0
    }
    /// The event that messages are in their streams: how many of each stream, in order.
    fn flushed(_sent: Vec<(Vec<u8>, u32)>, _last_id: (u64, u64)) -> Option<Self::Event> {
        None
    }

    /// Delivers a message that is for no stream; whether that is done for good. `None` for all others.
    fn deliver(_ctx: Context<'_>, _lane: &[u8], _message: &Fields) -> Option<bool> {
        None
    }

    /// What the master sees to now and then beside the state, and comes of it; when it wants to do so again.
    /// `place` is kept from one time to the next.
    fn upkeep(
        &self,
        _ctx: Context<'_>,
        _name: KeyName<'_>,
        _now: i64,
        _place: &mut usize,
    ) -> (SmallVec<[Self::Event; 1]>, i64) {
        (SmallVec::new(), NEVER)
    }
}

/// When the timer must look at a key: for its earliest deadline, to send the rest of its outbox, to try it again, or
/// for its upkeep.
pub(crate) fn wake_at<F: Family>(value: &Value<F>, clock: i64) -> i64 {
    let due = value.state.next_due().unwrap_or(NEVER).min(value.upkeep_at);
    if value.state.outbox().is_none_or(Outbox::is_empty) {
        due
    } else if value.unsent {
        due.min(clock)
    } else {
        due.min(clock.saturating_add(outbox::RETRY_MS))
    }
}

/// A refusal because the key holds something else.
pub(crate) fn wrong_type() -> Refusal {
    Refusal::new(Code::WrongType, "Operation against a key holding the wrong kind of value")
}

/// A refusal because there is no key.
pub(crate) fn no_key(name: KeyName<'_>) -> Refusal {
    let name = allot_core::shared::text::quoted(name.as_bytes());
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
    match key.value::<F>() {
        Found::Nothing => Err(no_key(name)),
        Found::OtherType => Err(wrong_type()),
        Found::Value(value) => {
            // On a replica nothing is due before its master says so.
            let now = value.state.now(if ctx.is_master() { ctx.clock() } else { 0 });
            look(&value.state, now)
        }
    }
}

/// The largest payload whose buffer is kept for the next one.
const KEPT_BUFFER: usize = 16 * 1024;

thread_local! {
    /// The buffer in which payloads are written, kept from step to step.
    static PAYLOAD: Cell<Writer> = const { Cell::new(Writer { bytes: Vec::new() }) };
}

/// One step of a state: events applied at one time, and then told to everybody at once.
pub(crate) struct Step<'c, 'k, F: Family> {
    ctx: Context<'c>,
    name: KeyName<'k>,
    value: &'k mut Value<F>,
    now: i64,
    payload: Writer,
    notices: SmallVec<[&'static CStr; 4]>,
    /// How many messages may still be sent.
    to_send: usize,
    /// Set from the first event applied until all of them are told.
    bomb: Option<Bomb>,
}

/// Ends the process when a panic unwinds through a step that has begun to change its state: half a change, told
/// to no replica, must not live on. The server writes its crash report, and a replica or the AOF takes over.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "allot: a bug struck while a change was being applied; the server stops rather than serve half of it"
            );
            std::process::abort();
        }
    }
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
            notices: SmallVec::new(),
            to_send: F::SENT_AT_ONCE,
            bomb: None,
        }
    }

    /// The state as it stands in this step.
    pub(crate) fn state(&self) -> &F {
        &self.value.state
    }

    /// The state, for preparing what is no part of it.
    pub(crate) fn state_mut(&mut self) -> &mut F {
        &mut self.value.state
    }

    /// The time of this step.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Applies an event.
    pub(crate) fn apply(&mut self, event: &F::Event) {
        self.bomb = Some(Bomb);
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
        F::encode_event(event, &mut self.payload);
        self.notices.extend(F::announce(event));
    }

    /// Applies what is due, at most `limit` events.
    fn apply_due(&mut self, limit: usize) {
        for event in self.value.state.due(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Applies what is due before a command, at most `limit` events.
    fn apply_due_before_all(&mut self, limit: usize) {
        for event in self.value.state.due_before_all(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Does what is to be done now and then beside the state.
    fn see_to_upkeep(&mut self) {
        if self.value.upkeep_at > self.now {
            return;
        }
        let mut place = self.value.upkeep_place;
        let (events, next) = self.value.state.upkeep(self.ctx, self.name, self.now, &mut place);
        (self.value.upkeep_place, self.value.upkeep_at) = (place, next);
        for event in events {
            self.apply(&event);
        }
    }

    /// Replicates, notifies, sends the outbox, and sees to the next deadline.
    fn finish(mut self) {
        self.flush();
        self.value.unsent = self.to_send == 0;
        deadlines::watch(self.value, self.ctx.selected_db(), self.name.as_bytes(), self.now);
        if !self.payload.bytes.is_empty() {
            self.value.recount();
            self.ctx.replicate_payload(F::APPLY, self.name, &self.payload.bytes);
            self.ctx.signal_modified(self.name);
            // Last, since whoever listens may call back.
            for notice in &self.notices {
                self.ctx.notify(notice, self.name);
            }
        }
        self.bomb = None;
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
    match key.value::<F>() {
        Found::Nothing => Err(no_key(name)),
        Found::OtherType => Err(wrong_type()),
        Found::Value(value) => {
            let mut step = Step::begin(ctx, name, value, ctx.clock());
            step.apply_due_before_all(F::DUE_AT_ONCE);
            let decided = decide(&mut step);
            step.finish();
            decided
        }
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
    let now = ctx.clock();
    let Some(opened) = F::open(first, now) else {
        return Err(Refusal::new(Code::Err, "internal: this event opens nothing"));
    };
    if !key.store(Value::new(opened?)) {
        return Err(Refusal::new(Code::Err, "internal: the key could not be made"));
    }
    let Found::Value(value) = key.value::<F>() else { return Err(wrong_type()) };
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
}

/// What the timer does for a key: applies at most `slice` of what is due. The next deadline, if there is one.
pub(crate) fn tick<F: Family>(ctx: Context<'_>, name: KeyName<'_>, due: i64, slice: usize) -> Option<i64> {
    let mut key = ctx.open(name, Mode::Write);
    let Found::Value(value) = key.value::<F>() else { return None };
    // The key was watched anew for another time, or is another key by now.
    if value.watched != due {
        return None;
    }
    let now = ctx.clock();
    let mut step = Step::begin(ctx, name, value, now);
    // `finish` must not watch the key: its next deadline is what we return.
    step.value.watched = i64::MIN;
    step.apply_due(slice);
    step.see_to_upkeep();
    step.finish();
    let Found::Value(value) = key.value::<F>() else { return None };
    // What is left of this key waits its turn behind all that was due before now.
    value.watched = deadlines::capped(wake_at(value, now), now).max(now);
    (value.watched != NEVER).then_some(value.watched)
}

/// The internal command: applies the events of a master or an AOF file, without a clock and without limits.
pub(crate) fn obey<F: Family>(ctx: Context<'_>, name: KeyName<'_>, payload: &[u8]) -> Result<(), Refusal> {
    if !ctx.obeys() {
        return Err(Refusal::new(
            Code::Err,
            "this command carries what a master decided; it is not for clients",
        ));
    }
    let damaged = |damaged: Damaged| {
        let name = allot_core::shared::text::quoted(name.as_bytes());
        Refusal::new(Code::Err, format!("key {name} differs from its master's: {damaged}"))
    };
    let mut key = ctx.open(name, Mode::Write);
    let mut notices = SmallVec::new();
    if let Some((&SNAPSHOT, snapshot)) = payload.split_first() {
        let state = F::decode(snapshot).map_err(damaged)?;
        if key.exists() {
            key.delete();
        }
        key.store(Value::new(state));
    } else {
        notices = obey_events::<F>(&mut key, payload).map_err(damaged)?;
    }
    if let Found::Value(value) = key.value::<F>() {
        value.recount();
        deadlines::watch(value, ctx.selected_db(), name.as_bytes(), ctx.clock());
    }
    ctx.replicate_verbatim();
    ctx.signal_modified(name);
    for notice in notices {
        ctx.notify(notice, name);
    }
    Ok(())
}

/// Applies a list of events; their notifications.
fn obey_events<F: Family>(
    key: &mut Key<'_>,
    payload: &[u8],
) -> Result<SmallVec<[&'static CStr; 4]>, Damaged> {
    let mut reader = allot_core::shared::codec::Reader::new(payload);
    if reader.unsigned()? != 1 {
        return Err(Damaged("the version of the payload is unknown"));
    }
    let at = reader.reached()?;
    let mut notices = SmallVec::new();
    let mut events = F::decode_events(reader.rest())?.into_iter();
    if !key.exists() {
        let first = events.next().ok_or(Damaged("there is no event"))?;
        let opened = F::open(&first, at).ok_or(Damaged("there is no such key"))?;
        let state = opened.map_err(|_| Damaged("the first event opens nothing"))?;
        key.store(Value::new(state));
        notices.extend(F::announce(&first));
    }
    let Found::Value(value) = key.value::<F>() else { return Err(Damaged("the key holds another type")) };
    for event in events {
        value.state.admits(&event)?;
        value.state.apply(at, &event);
        notices.extend(F::announce(&event));
    }
    Ok(notices)
}
