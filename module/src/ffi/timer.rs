//! One-shot timers of the server.

use redis_module::raw::{RedisModuleCtx, RedisModuleTimerID};
use std::os::raw::c_void;
use std::ptr::null_mut;

use super::api::api;
use super::context::{Context, detached_context};
use super::guard::with_hooks;

/// The longest time for which a timer is set. Redis 7.0 computes in an `int` for how many microseconds it may sleep when
/// a timer has fired and another is set. From 36 minutes on, this overflows, and the event loop polls without sleeping
/// (redis/redis#12474).
const LONGEST_WAIT_MS: i64 = 1_800_000;

/// A timer that has not fired yet. It is stopped when it is dropped.
pub(crate) struct Timer {
    id: RedisModuleTimerID,
}

impl Timer {
    /// Calls the `timer` hook at that time, or as soon as possible after it.
    pub(crate) fn at(due: i64) -> Self {
        // SAFETY: the detached context lives as long as the module.
        unsafe {
            // A timer that fires early does no harm.
            let wait = due.saturating_sub(api!(RedisModule_Milliseconds())).clamp(1, LONGEST_WAIT_MS);
            Self { id: api!(RedisModule_CreateTimer(detached_context(), wait, Some(ring), null_mut())) }
        }
    }

    /// Forgets the timer that is firing. The server frees it after its callback, so a timer that is stopped during the
    /// callback would be freed twice.
    pub(crate) fn forget_fired(self) {
        std::mem::forget(self);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer has not fired, or `forget_fired` was called; the detached context lives as long as the module.
        unsafe { api!(RedisModule_StopTimer(detached_context(), self.id, null_mut())) };
    }
}

unsafe extern "C" fn ring(ctx: *mut RedisModuleCtx, _: *mut c_void) {
    // SAFETY: the server lends its context for this call.
    with_hooks(|hooks| (hooks.timer)(unsafe { Context::lent(ctx) }));
}
