//! The work of the timer for a key: due events, requests in slices, the maintenance of streams.

use super::deadlines::{self, NEVER};
use super::family::{Family, Maintained};
use super::step::Step;
use super::value::Value;
use crate::ffi::context::Mode;
use crate::ffi::guard::guard;
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName, fault};

/// How long the timer leaves a key alone at which it met a bug.
const AFTER_PANIC_MS: i64 = 1000;

/// `Value::watched` while the timer works on the key. `watch` leaves it as it is, since `tick` returns the next time.
const IN_TICK: i64 = i64::MIN;

/// The work of the timer for a key: applies at most `slice` due events, and a slice of each request that is carried out in
/// slices. Returns the next deadline, if there is one.
pub(crate) fn tick<F: Family>(ctx: Context<'_>, name: KeyName<'_>, due: i64, slice: usize) -> Option<i64> {
    let done = guard(None, || Some(tick_once::<F>(ctx, name, due, slice)));
    if done == Some(false) {
        return None;
    }
    let clock = ctx.clock();
    let mut key = ctx.open(name, Mode::Write);
    let Found::Value(value) = key.value::<Value<F>>() else { return None };
    // A listener has put another value there, which is watched.
    if value.watched != IN_TICK {
        return None;
    }
    // The remaining events of this key wait until the timer has served the keys that were due before now.
    let next = if done.is_some() { value.wake_at(value.now(clock), clock) } else { clock + AFTER_PANIC_MS };
    value.watched = deadlines::capped(next, clock).max(clock);
    (value.watched != NEVER).then_some(value.watched)
}

/// Returns whether the key is there and is watched for this time.
fn tick_once<F: Family>(ctx: Context<'_>, name: KeyName<'_>, due: i64, slice: usize) -> bool {
    name.during(F::TYPE, || {
        let mut key = ctx.open(name, Mode::Write);
        // The timer forgets a key that no longer exists.
        let Found::Value(value) = key.value::<Value<F>>() else { return false };
        // The key is now watched for another time, or it is another key with the same name.
        if value.watched != due {
            return false;
        }
        value.watched = IN_TICK;
        fault::here("tick");
        let mut step = Step::begin(ctx, name, value, ctx.clock());
        step.apply_due(slice);
        step.continue_work(slice);
        let (now, streams) = (step.now, step.value.streams_to_maintain(step.now));
        let effects = step.replicate();
        drop(key);
        effects.publish();
        if let Some(streams) = streams {
            maintain::<F>(ctx, name, &streams, now);
        }
        true
    })
}

/// Maintains some streams of a key, which is closed meanwhile.
fn maintain<F: Family>(ctx: Context<'_>, name: KeyName<'_>, streams: &[Vec<u8>], now: i64) {
    let maintained: Vec<Maintained<F::Event>> =
        streams.iter().map(|stream| F::maintain(ctx, name, stream, now)).collect();
    let mut key = ctx.open(name, Mode::Write);
    let Found::Value(value) = key.value::<Value<F>>() else { return };
    value.has_maintained(now, maintained.iter().map(|stream| stream.again_at).min());
    let mut step = Step::begin(ctx, name, value, ctx.clock());
    for event in maintained.into_iter().flat_map(|stream| stream.events) {
        // A listener may have changed the value.
        if step.state().admits(&event).is_ok() {
            step.apply(&event);
        }
    }
    let effects = step.replicate();
    drop(key);
    effects.publish();
}
