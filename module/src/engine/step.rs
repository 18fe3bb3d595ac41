//! The path of every request to a key: find the value, apply due events, decide, apply, replicate, publish.

use allot_core::invariant;
use allot_core::shared::codec::Writer;
use allot_core::shared::decision::{Decided, Decision};
use allot_core::shared::invariant::Expected;
use allot_core::shared::machine::{Events, MachineEvent};
use allot_core::shared::outbox::FLUSH_AT;
use allot_core::shared::payload;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::CStr;
use std::time::{Duration, Instant};

use super::command::{Call, Done};
use super::deadlines::{self, NEVER};
use super::family::Family;
use super::value::{Value, lead, uptime};
use super::waiting::{self, Grant};
use super::{info, outbox};
use crate::ffi::context::{Key, Mode};
use crate::ffi::guard::AbortOnUnwind;
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName};

/// A refusal because the key holds another type.
pub(crate) fn wrong_type() -> Refusal {
    Refusal::new(Code::WrongType, "Operation against a key holding the wrong kind of value")
}

/// A refusal because there is no key.
pub(crate) fn no_key(name: KeyName<'_>) -> Refusal {
    let name = quoted(name.as_bytes());
    Refusal::new(Code::NoKey, format!("there is no key {name}"))
}

/// Reads a state without changing it.
pub(crate) fn read<F: Family>(call: &Call<'_>, look: impl FnOnce(&F, i64) -> Done) -> Done {
    let (ctx, name) = (call.ctx, call.key()?);
    let mut key = ctx.open(name, Mode::Read);
    let value = existing::<F>(&mut key, name)?;
    // On a replica the master decides when events are due.
    let now = if ctx.is_master() { value.now(ctx.clock()) } else { value.state.now(0) };
    name.during(F::TYPE, || look(&value.state, now))
}

/// Notifications of a step.
pub(super) type Notices = SmallVec<[&'static CStr; 4]>;

/// The most events that follow from others in one go.
const FOLLOW_UPS_AT_ONCE: usize = 250;
/// How long a step looks for them. The timer goes on.
const FOLLOW_UP_TIME: Duration = Duration::from_millis(5);

/// The largest payload whose buffer is kept for the next one.
const KEPT_BUFFER: usize = 16 * 1024;

thread_local! {
    /// The buffer in which payloads are written, kept from step to step.
    static PAYLOAD: Cell<Writer> = const { Cell::new(Writer { bytes: Vec::new() }) };
}

/// How many clients one step serves, which takes about as many times five microseconds.
const SERVED_AT_ONCE: usize = 500;

/// One step of a state: events applied at one time, then replicated and published together.
pub(crate) struct Step<'c, 'k, F: Family> {
    ctx: Context<'c>,
    name: KeyName<'k>,
    value: &'k mut Value<F>,
    /// The time of the state.
    now: i64,
    /// The clock when the step began.
    clock: i64,
    /// The uptime when the step began.
    uptime: i64,
    /// Whether a deadline had passed when the step began. Then some may be left after those that were carried out.
    was_due: bool,
    payload: Writer,
    notices: Notices,
    /// How many messages may still be sent.
    to_send: usize,
    /// Clients that waited for the key and are answered at the end of the step; `None` without any, as in most steps.
    grants: Option<Vec<Grant<Events<F::Event>>>>,
    /// Set from the first event applied until all of them are replicated and published.
    abort_on_unwind: Option<AbortOnUnwind>,
}

impl<'c, 'k, F: Family> Step<'c, 'k, F> {
    fn begin(ctx: Context<'c>, name: KeyName<'k>, value: &'k mut Value<F>, clock: i64) -> Self {
        value.forget_earlier_waiters();
        let uptime = uptime();
        let now = value.now_at(clock, uptime);
        if lead(now, clock) > 0 {
            info::STEPS_AHEAD.add(1);
        }
        let mut payload = PAYLOAD.take();
        payload.bytes.clear();
        Self {
            ctx,
            name,
            value,
            now,
            clock,
            uptime,
            was_due: false,
            payload,
            notices: Notices::new(),
            to_send: F::SENT_AT_ONCE,
            grants: None,
            abort_on_unwind: None,
        }
    }

    /// Applies the due events that must come before a request.
    #[inline(never)]
    fn apply_due_before_request(&mut self) {
        self.was_due = self.value.state.next_due().is_some_and(|due| due <= self.now);
        if self.was_due {
            self.apply_due(F::DUE_AT_ONCE);
        }
        self.apply_follow_ups();
    }

    /// The state as it is in this step.
    pub(crate) fn state(&self) -> &F {
        &self.value.state
    }

    /// The state, for building indexes that do not change its meaning.
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
        // A step of thousands of events must not exceed the capacity of the outbox.
        if self.value.state.outbox().len() >= FLUSH_AT {
            self.flush();
        }
    }

    /// Sends the messages of the outbox whose streams can be written.
    fn flush(&mut self) {
        if self.value.state.outbox().is_empty() || self.to_send == 0 {
            return;
        }
        let sent = outbox::flush(self.ctx, self.name, &self.value.state, self.now, self.to_send);
        self.to_send -= (sent.count() as usize).min(self.to_send);
        if sent.count() > 0 {
            let flushed = F::flushed(sent);
            self.value.state.apply(self.now, &flushed);
            self.write(&flushed);
        }
    }

    /// Adds an event that was applied to the payload.
    fn write(&mut self, event: &F::Event) {
        if self.payload.bytes.is_empty() {
            payload::begin_events(self.now, &mut self.payload);
        }
        event.encode(&mut self.payload);
        if let Some(notice) = F::announce(event) {
            self.notices.push(notice);
        }
    }

    /// Applies due events, at most `limit`.
    fn apply_due(&mut self, limit: usize) {
        for event in self.value.state.due(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Goes on with the work that is carried out in slices.
    fn continue_work(&mut self, limit: usize) {
        for event in self.value.state.continue_work(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Decides a request.
    pub(crate) fn decide(&mut self, request: &F::Request<'_>) -> Decided<F::Event, F::Reply> {
        let (state, now) = (&mut self.value.state, self.now);
        state.prepare(request);
        if self.was_due { state.decide_or_try_again(now, request) } else { state.decide(now, request) }
    }

    /// Applies the events of a decision. The reply is true only after that.
    pub(crate) fn apply_decision(&mut self, decision: &Decision<F::Event, F::Reply>) {
        for event in &decision.events {
            self.apply(event);
        }
        F::count_decision(decision);
    }

    /// Decides a request, applies its events and replies.
    pub(crate) fn answer(&mut self, request: &F::Request<'_>) -> Done {
        let work = self.value.state.work_with(request);
        let decision = self.decide(request)?;
        self.apply_decision(&decision);
        if work > 0 {
            self.continue_work(work);
        }
        self.reply(request, &decision.reply);
        Ok(())
    }

    /// Writes the reply to a request whose decision was applied.
    pub(crate) fn reply(&self, request: &F::Request<'_>, reply: &F::Reply) {
        self.value.state.reply(self.ctx, self.name, self.now, request, reply);
    }

    /// Serves clients that wait for the key, as long as there is something for them. The timer serves those that are
    /// too many for one step.
    #[inline]
    pub(crate) fn serve(&mut self) {
        if self.value.state.has_pending_grants() {
            self.serve_waiting();
        }
    }

    #[cold]
    fn serve_waiting(&mut self) {
        while self.grants.as_ref().map_or(0, Vec::len) < SERVED_AT_ONCE {
            let Some(mut grant) = self.value.state.grant(self.now) else { return };
            for event in std::mem::take(&mut grant.events) {
                self.apply(&event);
            }
            self.grants.get_or_insert_default().push(grant);
        }
    }

    /// Applies the events that follow from the changes of this step; the timer applies those beyond a bound.
    #[inline]
    pub(crate) fn apply_follow_ups(&mut self) {
        if let Some(first) = self.value.state.follow_up(self.now) {
            self.follow(&first);
        }
    }

    /// Applies an event that follows from others, and those after it.
    #[cold]
    fn follow(&mut self, first: &F::Event) {
        let begun = Instant::now();
        self.apply(first);
        for _ in 1..FOLLOW_UPS_AT_ONCE {
            if begun.elapsed() > FOLLOW_UP_TIME {
                return;
            }
            let Some(event) = self.value.state.follow_up(self.now) else { return };
            self.apply(&event);
        }
    }

    /// Has the key's maintenance be due at this time, if it would be later.
    pub(crate) fn maintain_from(&mut self, at: i64) {
        self.value.maintenance_at = self.value.maintenance_at.min(at);
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

    /// Replicates, notifies, sends the outbox, and has the timer watch the next deadline.
    fn finish(mut self) {
        self.apply_follow_ups();
        self.serve();
        self.flush();
        self.value.unsent = self.to_send == 0;
        if !self.payload.bytes.is_empty() {
            self.value.recount(self.uptime);
            payload::seal(self.name.as_bytes(), &mut self.payload);
        }
        let (ctx, name) = (self.ctx, self.name);
        self.value.watch(|| (ctx.selected_db(), name.as_bytes()), self.now, self.clock);
        if !self.payload.bytes.is_empty() {
            self.ctx.replicate_payload(F::APPLY, self.name, &self.payload.bytes);
            self.ctx.signal_modified(self.name);
        }
        if let Some(grants) = self.grants.take() {
            waiting::deliver(self.ctx, self.name, grants);
        }
        if !self.payload.bytes.is_empty() {
            // Last, because a listener may call commands of this module.
            for notice in &self.notices {
                self.ctx.notify(notice, self.name);
            }
        }
        self.abort_on_unwind = None;
        // The payload of a plan may take megabytes. Such a buffer is not kept for the small payloads that follow.
        if self.payload.bytes.capacity() <= KEPT_BUFFER {
            PAYLOAD.set(std::mem::take(&mut self.payload));
        }
    }
}

/// Changes a state: applies due events, then calls `decide` with the step. The due events remain applied if `decide`
/// refuses.
pub(crate) fn change<F: Family, T>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    decide: impl FnOnce(&mut Step<'_, '_, F>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut key = ctx.open(name, Mode::Write);
    let value = existing::<F>(&mut key, name)?;
    name.during(F::TYPE, || {
        let mut step = Step::begin(ctx, name, value, ctx.clock());
        step.apply_due_before_request();
        let decided = decide(&mut step);
        step.finish();
        decided
    })
}

/// Answers a call: decides its request, applies the events and replies.
pub(crate) fn answer<F: Family>(call: &Call<'_>, request: &F::Request<'_>) -> Done {
    count_refused::<F>(change::<F, _>(call.ctx, call.key()?, |step| step.answer(request)))
}

/// As `answer`. If the key does not exist, `first` creates it, unless the request is refused.
pub(crate) fn answer_or_create<F: Family>(
    call: &Call<'_>,
    first: &F::Event,
    request: &F::Request<'_>,
) -> Done {
    count_refused::<F>(change_or_create::<F, _>(call.ctx, call.key()?, first, |step| step.answer(request)))
}

/// Counts a refusal.
pub(crate) fn count_refused<F: Family>(done: Done) -> Done {
    done.inspect_err(F::count_refusal)
}

/// The value of a key that is open.
// Not inlined, like all that requests share: the processor's instruction cache is the limit of a request.
#[inline(never)]
fn existing<'a, F: Family>(key: &'a mut Key<'_>, name: KeyName<'_>) -> Result<&'a mut Value<F>, Refusal> {
    match key.value::<Value<F>>() {
        Found::Nothing => Err(no_key(name)),
        Found::OtherType => Err(wrong_type()),
        Found::Value(value) => Ok(value),
    }
}

/// Whether there is a value of the family under a key.
pub(crate) fn exists<F: Family>(ctx: Context<'_>, name: KeyName<'_>) -> Result<bool, Refusal> {
    match ctx.open(name, Mode::Read).value::<Value<F>>() {
        Found::Nothing => Ok(false),
        Found::OtherType => Err(wrong_type()),
        Found::Value(_) => Ok(true),
    }
}

/// Creates a key by its first event.
pub(crate) fn create<F: Family>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    event: &F::Event,
) -> Result<(), Refusal> {
    change_or_create::<F, ()>(ctx, name, event, |_| Ok(()))
}

/// As `change`. If the key does not exist, `first` creates it in the same step, unless `decide` refuses.
pub(crate) fn change_or_create<F: Family, T>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    first: &F::Event,
    decide: impl FnOnce(&mut Step<'_, '_, F>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    if ctx.open(name, Mode::Write).exists() {
        return change(ctx, name, decide);
    }
    name.during(F::TYPE, || {
        let now = ctx.clock();
        let Some(opened) = F::open(first, now).expected("the first event of a key opens it") else {
            return Err(Refusal::new(Code::Err, "internal: this event opens nothing"));
        };
        begin_key(ctx, name, first, opened?, now, decide)
    })
}

/// Creates a key, which does not exist, by its first event; `opened` is the state that this event opens at `now`.
pub(crate) fn create_opened<F: Family>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    first: &F::Event,
    opened: F,
    now: i64,
) -> Result<(), Refusal> {
    name.during(F::TYPE, || begin_key(ctx, name, first, opened, now, |_| Ok(())))
}

/// The first step of a key. Unless `decide` refuses, the key is there after it.
fn begin_key<F: Family, T>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    first: &F::Event,
    opened: F,
    now: i64,
    decide: impl FnOnce(&mut Step<'_, '_, F>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut key = ctx.open(name, Mode::Write);
    let stored = key.store(Value::new(opened));
    let Found::Value(value) = key.value::<Value<F>>() else {
        invariant!("a value is under its key once it is stored");
        return Err(Refusal::new(Code::Err, "internal: the key could not be made"));
    };
    invariant!(stored, "a key that is open for writing takes a value");
    // The time of the step is the time at which the state was opened.
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

/// The work of the timer for a key: applies at most `slice` due events, and a slice of each request that is carried out in
/// slices. Returns the next deadline, if there is one.
pub(crate) fn tick<F: Family>(ctx: Context<'_>, name: KeyName<'_>, due: i64, slice: usize) -> Option<i64> {
    let mut key = ctx.open(name, Mode::Write);
    // The timer forgets a key that no longer exists.
    let Found::Value(value) = key.value::<Value<F>>() else { return None };
    // The key is now watched for another time, or it is another key with the same name.
    if value.watched != due {
        return None;
    }
    let now = ctx.clock();
    name.during(F::TYPE, || {
        let mut step = Step::begin(ctx, name, value, now);
        // `finish` must not watch the key, because this function returns its next deadline.
        step.value.watched = i64::MIN;
        step.apply_due(slice);
        step.continue_work(slice);
        step.maintain();
        step.finish();
    });
    // A module that receives a notification may have deleted the key.
    let Found::Value(value) = key.value::<Value<F>>() else { return None };
    // The remaining events of this key wait until the timer has served the keys that were due before now.
    value.watched = deadlines::capped(value.wake_at(value.now(now), now), now).max(now);
    (value.watched != NEVER).then_some(value.watched)
}

/// Takes a client that no longer waits out of the state of its key.
pub(crate) fn forget_waiter<F: Family>(ctx: Context<'_>, name: KeyName<'_>, waiter: u64) {
    if let Found::Value(value) = ctx.open(name, Mode::Read).value::<Value<F>>() {
        value.state.forget_waiters(Some(waiter));
    }
}
