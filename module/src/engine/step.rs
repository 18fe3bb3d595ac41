//! The path of every request to a key: find the value, apply due events, decide, apply, replicate, publish.
//!
//! Another module may listen to notifications, and change or delete any key while it does. Therefore a step ends in two
//! parts: `replicate` is the last that uses the value; then the key is closed; and only then `Effects::publish` writes
//! streams and sends notifications.

use allot_core::shared::codec::Writer;
use allot_core::shared::decision::{Decided, Decision};
use allot_core::shared::invariant::Expected;
use allot_core::shared::machine::{Events, FollowUp, MachineEvent};
use allot_core::shared::payload;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use super::command::{Call, Done};
use super::family::Family;
use super::outbox::Unsent;
use super::value::{Value, lead, uptime};
use super::waiting::{self, Grant};
use super::{info, outbox};
use crate::ffi::context::{Key, Mode};
use crate::ffi::guard::AbortOnUnwind;
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName, fault};

/// A refusal because the key holds another type.
pub(crate) fn wrong_type() -> Refusal {
    Refusal::new(Code::WrongType, "Operation against a key holding the wrong kind of value")
}

/// A refusal because there is no key.
pub(crate) fn no_key(name: KeyName<'_>) -> Refusal {
    let name = quoted(name.as_bytes());
    Refusal::new(Code::NoKey, format!("there is no key {name}"))
}

/// The refusal of one of several keys, which names the key.
fn of_key(name: KeyName<'_>, refusal: Refusal) -> Refusal {
    match refusal.code {
        Code::WrongType => {
            Refusal::new(refusal.code, format!("{}: {}", quoted(name.as_bytes()), refusal.text))
        }
        _ => refusal,
    }
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
/// How long a step looks for them, before and after its request together. The timer goes on.
const FOLLOW_UP_TIME: Duration = Duration::from_millis(2);

/// The largest payload whose buffer is kept for the next one.
const KEPT_BUFFER: usize = 16 * 1024;

thread_local! {
    /// The buffer in which payloads are written, kept from step to step.
    static PAYLOAD: Cell<Writer> = const { Cell::new(Writer { bytes: Vec::new() }) };
}

/// How many clients one step serves, which takes about as many times five microseconds.
const SERVED_AT_ONCE: usize = 500;

/// One step of a state: events applied at one time, then replicated and published together.
pub(crate) struct Step<'c, 'v, F: Family> {
    ctx: Context<'c>,
    name: KeyName<'c>,
    pub(super) value: &'v mut Value<F>,
    /// The time of the state.
    pub(super) now: i64,
    /// The clock when the step began.
    clock: i64,
    /// The uptime when the step began.
    uptime: i64,
    /// Whether a deadline had passed when the step began. Then some may be left after those that were carried out.
    was_due: bool,
    /// When the step stops looking for events that follow from others; `None` before the first.
    follow_until: Option<Instant>,
    payload: Writer,
    notices: Notices,
    /// Clients that waited for the key and are answered at the end of the step; `None` without any, as in most steps.
    grants: Option<Vec<Grant<Events<F::Event>>>>,
    /// Set from the first event applied until all of them are replicated and published.
    abort_on_unwind: Option<AbortOnUnwind>,
}

impl<'c, 'v, F: Family> Step<'c, 'v, F> {
    pub(super) fn begin(ctx: Context<'c>, name: KeyName<'c>, value: &'v mut Value<F>, clock: i64) -> Self {
        value.forget_earlier_waiters();
        let uptime = uptime();
        let now = value.now_at(clock, uptime);
        if lead(now, clock) > 0 {
            info::STEPS_AHEAD.add(1);
        }
        let mut payload = PAYLOAD.take();
        payload.bytes.clear();
        let was_away = value.was_away(clock);
        let mut step = Self {
            ctx,
            name,
            value,
            now,
            clock,
            uptime,
            was_due: false,
            follow_until: None,
            payload,
            notices: Notices::new(),
            grants: None,
            abort_on_unwind: None,
        };
        if was_away {
            step.take_over();
        }
        step
    }

    /// Applies what follows from the time in which this server was away.
    #[cold]
    fn take_over(&mut self) {
        for event in self.value.state.take_over() {
            self.apply(&event);
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
        fault::here("apply");
        self.write(event);
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
    pub(super) fn apply_due(&mut self, limit: usize) {
        for event in self.value.state.due(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Goes on with the work that is carried out in slices.
    pub(super) fn continue_work(&mut self, limit: usize) {
        for event in self.value.state.continue_work(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Builds the indexes that the decision of a request needs.
    pub(crate) fn prepare(&mut self, request: &F::Request<'_>) {
        self.value.state.prepare(request);
    }

    /// Decides a request.
    pub(crate) fn decide(&mut self, request: &F::Request<'_>) -> Decided<F::Event, F::Reply> {
        let (state, now) = (&mut self.value.state, self.now);
        fault::here("decide");
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
            self.value.state.complete(&mut grant);
            self.grants.get_or_insert_default().push(grant);
        }
    }

    /// Applies the events that follow from the changes of this step; the timer applies those beyond a bound.
    #[inline]
    pub(crate) fn apply_follow_ups(&mut self) {
        match self.value.state.follow_up(self.now) {
            FollowUp::Done => {}
            first => self.follow(first),
        }
    }

    /// Applies an event that follows from others, and those after it.
    #[cold]
    fn follow(&mut self, first: FollowUp<F::Event>) {
        let until = *self.follow_until.get_or_insert_with(|| Instant::now() + FOLLOW_UP_TIME);
        let (mut next, mut events) = (first, 0);
        loop {
            match next {
                FollowUp::Event(event) => {
                    self.apply(&event);
                    events += 1;
                }
                FollowUp::Continue => {}
                FollowUp::Done => return,
            }
            if events >= FOLLOW_UPS_AT_ONCE || Instant::now() >= until {
                return;
            }
            next = self.value.state.follow_up(self.now);
        }
    }

    /// Has the key's maintenance be due at this time, if it would be later.
    pub(crate) fn maintain_from(&mut self, at: i64) {
        self.value.maintenance_at = self.value.maintenance_at.min(at);
    }

    /// Replicates what the step has done, and has the timer watch the next deadline. Nothing uses the value after this.
    #[inline]
    pub(super) fn replicate(mut self) -> Effects<'c, F> {
        self.apply_follow_ups();
        self.serve();
        let unsent = outbox::gather(self.ctx, self.name, self.value);
        self.commit();
        if let Some(grants) = self.grants.take() {
            waiting::deliver(self.ctx, self.name, grants);
        }
        let Self { ctx, name, now, notices, abort_on_unwind, .. } = self;
        Effects { ctx, name, now, unsent, notices, abort_on_unwind, family: PhantomData }
    }

    /// Replicates the payload. No listener of another module runs meanwhile.
    fn commit(&mut self) {
        let (ctx, name) = (self.ctx, self.name);
        let changed = !self.payload.bytes.is_empty();
        if changed {
            self.value.recount(self.uptime);
            self.value.has_changed(self.now);
            payload::seal(name.as_bytes(), &mut self.payload);
        }
        self.value.watch(|| (ctx.selected_db(), name.as_bytes()), self.now, self.clock);
        if changed {
            ctx.replicate_payload(F::APPLY, name, &self.payload.bytes);
            ctx.signal_modified(name);
        }
        // The payload of a plan may take megabytes. Such a buffer is not kept for the small payloads that follow.
        if self.payload.bytes.capacity() <= KEPT_BUFFER {
            PAYLOAD.set(std::mem::take(&mut self.payload));
        }
    }
}

/// What is left of a step once its key is closed: entries of streams, and notifications.
#[must_use = "entries and notifications are published"]
pub(crate) struct Effects<'c, F: Family> {
    ctx: Context<'c>,
    name: KeyName<'c>,
    /// The time of the step.
    now: i64,
    unsent: Option<Unsent>,
    notices: Notices,
    abort_on_unwind: Option<AbortOnUnwind>,
    family: PhantomData<F>,
}

impl<F: Family> Effects<'_, F> {
    /// Writes the entries and sends the notifications. No key of the module may be open: listeners may change any.
    #[inline]
    pub(crate) fn publish(mut self) {
        if let Some(unsent) = self.unsent.take() {
            self.send(&unsent);
        }
        self.abort_on_unwind = None;
        for notice in &self.notices {
            self.ctx.notify(notice, self.name);
        }
    }

    /// Writes entries, and records which of them were written, unless a listener has meanwhile deleted or renamed the key,
    /// or put another value there.
    #[inline(never)]
    fn send(&self, unsent: &Unsent) {
        let (ctx, name) = (self.ctx, self.name);
        let (sent, failed) = outbox::send::<F>(ctx, name, self.now, unsent);
        let mut key = ctx.open(name, Mode::Write);
        let Found::Value(value) = key.value::<Value<F>>() else { return };
        if value.sending != unsent.sending {
            return;
        }
        value.sending = 0;
        fault::here("send");
        name.during(F::TYPE, || {
            let mut step = Step::begin(ctx, name, value, ctx.clock());
            if sent.count() > 0 {
                step.apply(&F::flushed(sent));
            }
            let outbox = step.state().outbox();
            let stuck: usize = failed.iter().map(|stream| outbox.len_of(stream)).sum();
            step.value.unsent = outbox.len() > stuck;
            step.commit();
        });
    }
}

/// Changes a state: applies due events, then calls `decide` with the step. The due events remain applied if `decide`
/// refuses.
pub(crate) fn change<F: Family, T>(
    ctx: Context<'_>,
    name: KeyName<'_>,
    decide: impl FnOnce(&mut Step<'_, '_, F>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    name.during(F::TYPE, || {
        let mut key = ctx.open(name, Mode::Write);
        let value = existing::<F>(&mut key, name)?;
        let mut step = Step::begin(ctx, name, value, ctx.clock());
        step.apply_due_before_request();
        let decided = decide(&mut step);
        let effects = step.replicate();
        drop(key);
        effects.publish();
        decided
    })
}

/// As `change`, for a caller who changes another key as well: the caller publishes the effects after both keys are closed.
/// An error if there is no such key.
pub(crate) fn change_within<'c, F: Family, T>(
    ctx: Context<'c>,
    name: KeyName<'c>,
    decide: impl FnOnce(&mut Step<'_, '_, F>) -> Result<T, Refusal>,
) -> Result<(Result<T, Refusal>, Effects<'c, F>), Refusal> {
    name.during(F::TYPE, || {
        let mut key = ctx.open(name, Mode::Write);
        let value = existing::<F>(&mut key, name)?;
        let mut step = Step::begin(ctx, name, value, ctx.clock());
        step.apply_due_before_request();
        let decided = decide(&mut step);
        Ok((decided, step.replicate()))
    })
}

/// Changes several states in one step, or none of them: applies due events, then calls `decide` with a step for each key.
/// The due events remain applied if `decide` refuses. No key is named twice.
pub(crate) fn change_all<'c, F: Family, T>(
    ctx: Context<'c>,
    names: &[KeyName<'c>],
    decide: impl FnOnce(&mut [Step<'_, '_, F>]) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut keys: Vec<Key<'_>> = names.iter().map(|&name| ctx.open(name, Mode::Write)).collect();
    let mut steps = Vec::with_capacity(names.len());
    for (key, &name) in keys.iter_mut().zip(names) {
        let value = existing::<F>(key, name).map_err(|refusal| of_key(name, refusal))?;
        steps.push(Step::begin(ctx, name, value, ctx.clock()));
    }
    // All keys together have the time of one.
    let follow_until = Instant::now() + FOLLOW_UP_TIME;
    for step in &mut steps {
        step.follow_until = Some(follow_until);
        step.name.during(F::TYPE, || step.apply_due_before_request());
    }
    let decided = decide(&mut steps);
    let mut effects: Vec<Effects<'c, F>> = Vec::with_capacity(steps.len());
    for step in steps {
        effects.push(step.name.during(F::TYPE, || step.replicate()));
    }
    drop(keys);
    effects.into_iter().for_each(Effects::publish);
    decided
}

/// Reads several states without changing them. No key is named twice.
pub(crate) fn read_all<F: Family, T>(
    ctx: Context<'_>,
    names: &[KeyName<'_>],
    look: impl FnOnce(&[(&F, i64)]) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut keys: Vec<Key<'_>> = names.iter().map(|&name| ctx.open(name, Mode::Read)).collect();
    let mut states = Vec::with_capacity(names.len());
    for (key, &name) in keys.iter_mut().zip(names) {
        let value = existing::<F>(key, name).map_err(|refusal| of_key(name, refusal))?;
        let now = if ctx.is_master() { value.now(ctx.clock()) } else { value.state.now(0) };
        states.push((&value.state, now));
    }
    look(&states)
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
    let mut value = Value::new(opened);
    // The time of the step is the time at which the state was opened.
    let mut step = Step::begin(ctx, name, &mut value, now);
    step.write(first);
    let done = decide(&mut step)?;
    fault::here("create");
    step.abort_on_unwind = Some(AbortOnUnwind);
    let effects = step.replicate();
    store(ctx, name, value);
    effects.publish();
    Ok(done)
}

/// Puts a value that was replicated under its key.
pub(super) fn store<F: Family>(ctx: Context<'_>, name: KeyName<'_>, value: Value<F>) {
    fault::here("store");
    // A listener may learn of the new key before this returns, and delete it: the open key is not used any more then.
    if !ctx.open(name, Mode::Write).store(value) {
        info::end_process("the server takes no value under a key that is open for writing");
    }
}

/// Takes a client that no longer waits out of the state of its key.
pub(crate) fn forget_waiter<F: Family>(ctx: Context<'_>, name: KeyName<'_>, waiter: u64) {
    if let Found::Value(value) = ctx.open(name, Mode::Read).value::<Value<F>>() {
        value.state.forget_waiters(Some(waiter));
    }
}
