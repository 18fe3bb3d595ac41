//! The timer: a deadline is applied within 100 ms after it has passed, even if no client sends a command.
//!
//! A key's deadlines are part of its value. The timer knows only when to look at which name; it looks by name,
//! checks what it finds, and forgets keys that are gone or have another name. Nothing here is saved or replicated: it
//! is filled again as keys are loaded, written, copied and renamed.

use allot_core::shared::invariant::Expected;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::config;
use super::entry::FamilyEntry;
use crate::ffi::timer::Timer;
use crate::ffi::{Context, OwnedString};

/// A deadline that never comes.
pub(crate) const NEVER: i64 = i64::MAX;

/// How long a server that may not change keys now waits before it looks again.
const WAIT_MS: i64 = 25;

/// How long one run of the timer may delay clients; the next run does the remaining work.
const BUDGET: Duration = Duration::from_millis(4);

/// The longest time for which a key is watched. After it the timer looks at the key and watches it again, or forgets a
/// key that no longer exists.
const HORIZON_MS: i64 = 3_600_000;

/// A key at which the timer will look.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: i64,
    db: i32,
    name: Box<[u8]>,
    /// Number of the family.
    family: u8,
}

#[derive(Default)]
struct Registry {
    entries: BTreeSet<Entry>,
    timer: Option<(i64, Timer)>,
    /// A server that may not apply deadlines now (a replica, or a master that refuses writes) looks again then, and not
    /// before.
    not_before: i64,
}

thread_local! {
    // Only the server's thread uses it.
    static REGISTRY: RefCell<Registry> = RefCell::default();
}

/// Has the timer look at a key at `due`, unless it does so earlier; `watched` is the time for which it knows the key.
pub(crate) fn watch(watched: &mut i64, due: i64, db: i32, name: &[u8], family: u8) {
    if due >= *watched {
        return;
    }
    let before = std::mem::replace(watched, due);
    REGISTRY.with_borrow_mut(|registry| {
        let mut entry = Entry { due: before, db, name: name.into(), family };
        if before != NEVER {
            registry.entries.remove(&entry);
        }
        entry.due = due;
        registry.entries.insert(entry);
        registry.arm();
    });
}

/// Forgets a key that was deleted or overwritten, or that is about to be renamed.
pub(crate) fn forget(watched: i64, db: i32, name: &[u8], family: u8) {
    if watched == NEVER {
        return;
    }
    REGISTRY.with_borrow_mut(|registry| {
        registry.entries.remove(&Entry { due: watched, db, name: name.into(), family });
    });
}

/// Forgets all keys of a database that was emptied, or of all of them.
pub(crate) fn flushed(db: Option<i32>) {
    REGISTRY.with_borrow_mut(|registry| {
        registry.entries.retain(|entry| db.is_some_and(|db| entry.db != db));
    });
}

/// A time at which to look at a key, limited to the longest time for which a key is watched.
pub(crate) fn capped(due: i64, clock: i64) -> i64 {
    if due == NEVER { due } else { due.min(clock.saturating_add(HORIZON_MS)) }
}

/// Number of keys that wait for the timer.
pub(crate) fn waiting() -> usize {
    REGISTRY.with_borrow(|registry| registry.entries.len())
}

/// Two databases changed places, and their keys with them.
pub(crate) fn swapped(first: i32, second: i32) {
    REGISTRY.with_borrow_mut(|registry| {
        for mut entry in std::mem::take(&mut registry.entries) {
            if entry.db == first {
                entry.db = second;
            } else if entry.db == second {
                entry.db = first;
            }
            registry.entries.insert(entry);
        }
    });
}

/// Runs when the timer fires: looks at the keys that are due, the earliest first, until its time is used up.
pub(crate) fn run(ctx: Context<'_>, families: &[FamilyEntry]) {
    let now = ctx.clock();
    // A master that refuses the commands of clients must not give anything out by itself either.
    let waits = !ctx.may_change_keys();
    let slice = config::TIMER_SLICE.get() as usize;
    let start = Instant::now();
    REGISTRY.with_borrow_mut(|registry| {
        if let Some((_, timer)) = registry.timer.take() {
            timer.forget_fired();
        }
        // There may be many entries: a server that may not apply deadlines now keeps them unchanged.
        registry.not_before = if waits { now + WAIT_MS } else { 0 };
    });
    while !waits
        && start.elapsed() < BUDGET
        && let Some(mut entry) = REGISTRY.with_borrow_mut(|registry| registry.take_due(now))
    {
        let Some(family) =
            families.get(usize::from(entry.family)).expected("a watched key is of a family of the table")
        else {
            continue;
        };
        if !ctx.select_db(entry.db) {
            continue;
        }
        let name = OwnedString::new(&entry.name);
        if let Some(next) = (family.tick)(ctx, name.name(), entry.due, slice) {
            entry.due = next;
            REGISTRY.with_borrow_mut(|registry| registry.entries.insert(entry));
        }
    }
    REGISTRY.with_borrow_mut(Registry::arm);
}

/// Sets the timer again if it should have fired: a timer waits for a span of time, and the clock may have been set
/// forward since then.
pub(crate) fn catch_up(ctx: Context<'_>) {
    let now = ctx.clock();
    REGISTRY.with_borrow_mut(|registry| {
        // The clock was set back since the wait began.
        registry.not_before = registry.not_before.min(now + WAIT_MS);
        // A bug has kept the timer from setting itself again.
        if registry.timer.is_none() {
            registry.arm();
        }
        let is_late = registry.timer.as_ref().is_some_and(|&(at, _)| at < now - WAIT_MS);
        let is_early = registry.entries.first().is_some_and(|entry| {
            registry.timer.as_ref().is_some_and(|&(at, _)| at > entry.due.max(registry.not_before))
        });
        if is_late || is_early {
            registry.timer = None;
            registry.arm();
        }
    });
}

impl Registry {
    /// Takes out the earliest entry, if it is due.
    fn take_due(&mut self, now: i64) -> Option<Entry> {
        self.entries.first().filter(|entry| entry.due <= now)?;
        self.entries.pop_first()
    }

    /// Sets the server's timer to the earliest entry.
    fn arm(&mut self) {
        let Some(due) = self.entries.first().map(|entry| entry.due.max(self.not_before)) else { return };
        match &self.timer {
            Some((at, _)) if *at <= due => {}
            _ => self.timer = Some((due, Timer::at(due))),
        }
    }
}
