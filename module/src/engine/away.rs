//! The times in which this server did not decide: before it had loaded a value or was the master, and while it stood
//! still. Clients could not be heard then, so no deadline that they keep alive ends for that.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// The server looks at its clock about ten times a second, at least once. A longer gap means that it stood still: a
/// command took as long, the process or its machine was stopped, or the clock was set forward.
const GAP_MS: i64 = 1500;

/// How often this server became the master, or went on after it had stood still. A count that wraps around still tells
/// two times apart.
static RETURNS: AtomicU32 = AtomicU32::new(0);

/// When this server last looked at its clock.
static LOOKED: AtomicI64 = AtomicI64::new(0);

/// This server has become the master.
pub(crate) fn promoted() {
    RETURNS.fetch_add(1, Ordering::Relaxed);
}

/// This server looks at its clock. Returns how often it was away.
pub(crate) fn returns(clock: i64) -> u32 {
    let before = LOOKED.load(Ordering::Relaxed);
    LOOKED.store(clock, Ordering::Relaxed);
    if clock - before > GAP_MS {
        RETURNS.fetch_add(1, Ordering::Relaxed);
    }
    RETURNS.load(Ordering::Relaxed)
}
