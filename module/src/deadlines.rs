//! The timer: what is due happens within 100 ms though nobody calls.
//!
//! A key's deadlines are part of its value. The timer knows only when to look at which name; it looks by name,
//! checks what it finds, and forgets what is gone or was named anew. Nothing here is saved or replicated: it is
//! filled again as keys are loaded, written, copied and renamed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::config;
use crate::family::{self, Family, NEVER};
use crate::sys::register::Timer;
use crate::sys::value::Value;
use crate::sys::{Context, KeyName, OwnedString};

/// How long a replica, or a server that must not replicate, waits before it looks again.
const WAIT_MS: i64 = 25;

/// How long one run of the timer may keep other clients waiting; what is left comes with the next.
const BUDGET: Duration = Duration::from_millis(4);

/// No key is watched for a time further off: it is looked at and watched anew, and a key that is gone meanwhile is
/// forgotten.
const HORIZON_MS: i64 = 3_600_000;

/// What a family does for one of its keys.
#[derive(Clone, Copy)]
struct Work {
    tick: fn(Context<'_>, KeyName<'_>, i64, usize) -> Option<i64>,
}

/// A key that is to be looked at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: i64,
    db: i32,
    name: Box<[u8]>,
    /// Place in `works`.
    work: usize,
}

#[derive(Default)]
struct Registry {
    entries: BTreeSet<Entry>,
    works: Vec<Work>,
    timer: Option<(i64, Timer)>,
    /// A server that may not do what is due looks again then, and not before.
    not_before: i64,
}

thread_local! {
    // The server's thread is the only one that touches it.
    static REGISTRY: RefCell<Registry> = RefCell::default();
}

/// Registers a family with the timer; once, at load. Its number.
fn work_of<F: Family>(registry: &mut Registry) -> usize {
    let work = Work { tick: family::tick::<F> };
    let known = registry.works.iter().position(|known| std::ptr::fn_addr_eq(known.tick, work.tick));
    known.unwrap_or_else(|| {
        registry.works.push(work);
        registry.works.len() - 1
    })
}

/// Has the timer look at a key when its next deadline comes.
pub(crate) fn watch<F: Family>(value: &mut Value<F>, db: i32, name: &[u8], clock: i64) {
    let due = capped(family::wake_at(value, clock), clock);
    if due >= value.watched {
        return;
    }
    let before = std::mem::replace(&mut value.watched, due);
    REGISTRY.with_borrow_mut(|registry| {
        let work = work_of::<F>(registry);
        let mut entry = Entry { due: before, db, name: name.into(), work };
        if before != NEVER {
            registry.entries.remove(&entry);
        }
        entry.due = due;
        registry.entries.insert(entry);
        registry.arm();
    });
}

/// Forgets a key that goes: deleted, overwritten, or about to come under another name.
pub(crate) fn forget<F: Family>(value: &Value<F>, db: i32, name: &[u8]) {
    if value.watched == NEVER {
        return;
    }
    REGISTRY.with_borrow_mut(|registry| {
        let work = work_of::<F>(registry);
        registry.entries.remove(&Entry { due: value.watched, db, name: name.into(), work });
    });
}

/// Forgets all keys of a database that was emptied, or of all of them.
pub(crate) fn flushed(db: Option<i32>) {
    REGISTRY.with_borrow_mut(|registry| {
        registry.entries.retain(|entry| db.is_some_and(|db| entry.db != db));
    });
}

/// A time at which to look at a key, brought near enough.
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

/// What the timer runs: looks at the keys that are due, the earliest first, until its time is up.
pub(crate) fn run(ctx: Context<'_>) {
    let now = ctx.clock();
    let waits = !ctx.is_master() || ctx.must_not_replicate();
    let slice = config::TIMER_SLICE.get() as usize;
    let start = Instant::now();
    REGISTRY.with_borrow_mut(|registry| {
        if let Some((_, timer)) = registry.timer.take() {
            timer.rang();
        }
        // Keys wait as they are: there may be many, and all that can be done is to look again.
        registry.not_before = if waits { now + WAIT_MS } else { 0 };
    });
    while !waits
        && start.elapsed() < BUDGET
        && let Some((mut entry, work)) = REGISTRY.with_borrow_mut(|registry| registry.take_due(now))
    {
        if !ctx.select_db(entry.db) {
            continue;
        }
        let name = OwnedString::new(&entry.name);
        if let Some(next) = (work.tick)(ctx, name.name(), entry.due, slice) {
            entry.due = next;
            REGISTRY.with_borrow_mut(|registry| registry.entries.insert(entry));
        }
    }
    REGISTRY.with_borrow_mut(Registry::arm);
}

impl Registry {
    /// Takes out the earliest entry, if it is due.
    fn take_due(&mut self, now: i64) -> Option<(Entry, Work)> {
        let first = self.entries.first().filter(|entry| entry.due <= now)?;
        let work = *self.works.get(first.work)?;
        self.entries.pop_first().map(|entry| (entry, work))
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
