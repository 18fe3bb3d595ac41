//! The clocks of a simulation: tokio's paused clock, and wall clocks that follow it. The wall clock of each process differs
//! by a few seconds. A task belongs to the process whose task has spawned it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use allot_coordination::random;
use tokio::runtime::Builder;
use tokio::time::Instant;

/// When simulations begin, in milliseconds since 1970.
const BEGIN_MS: u64 = 1_800_000_000_000;
/// How far the clock of a program differs from the first server's at most, in milliseconds.
const PROGRAM_AHEAD_MS: i64 = 2000;

thread_local! {
    /// When the simulation on this thread began.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// How far the clock of the second server is ahead of the first one's, in milliseconds.
    static SERVER_AHEAD_MS: Cell<i64> = const { Cell::new(0) };
    /// How far the clock of the running task's process is ahead of the first server's, in milliseconds.
    static AHEAD_MS: Cell<i64> = const { Cell::new(0) };
    /// The same, of all tasks.
    static TASKS: RefCell<HashMap<tokio::task::Id, i64, BuildHasherDefault<IdHasher>>> = RefCell::default();
}

/// Hashes the numbers of tasks, which are looked up at each step of each task.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("the number of a task is one integer")
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio: numbers that follow each other get hashes that differ at both ends.
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Begins a simulation on this thread, whose runtime has paused its clock.
pub(super) fn begin() {
    BEGAN.set(Some(Instant::now()));
    SERVER_AHEAD_MS.set(0);
    allot_runtime::time::simulate(Some(program_ms));
}

/// Makes the tasks of a runtime have the clocks of their processes.
pub(super) fn follow_tasks(builder: &mut Builder) {
    TASKS.with_borrow_mut(HashMap::clear);
    AHEAD_MS.set(0);
    #[cfg(tokio_unstable)]
    builder
        .on_task_spawn(|task| {
            TASKS.with_borrow_mut(|tasks| tasks.insert(task.id(), AHEAD_MS.get()));
        })
        .on_before_task_poll(|task| {
            AHEAD_MS.set(TASKS.with_borrow(|tasks| tasks.get(&task.id()).copied().unwrap_or_default()));
        })
        .on_after_task_poll(|_| AHEAD_MS.set(0))
        .on_task_terminate(|task| {
            TASKS.with_borrow_mut(|tasks| tasks.remove(&task.id()));
        });
    #[cfg(not(tokio_unstable))]
    let _ = builder;
}

/// Starts the tasks of a process, whose clock differs from others.
pub(super) fn start_process<T>(start: impl FnOnce() -> T) -> T {
    AHEAD_MS.set(random::within(-PROGRAM_AHEAD_MS..PROGRAM_AHEAD_MS));
    let started = start();
    AHEAD_MS.set(0);
    started
}

/// How long the simulation has run, in milliseconds.
pub(super) fn elapsed_ms() -> u64 {
    let elapsed = BEGAN.get().map_or(Duration::ZERO, |began| began.elapsed());
    // Faster than to divide 128 bits.
    1000 * elapsed.as_secs() + u64::from(elapsed.subsec_millis())
}

/// The wall clock of the running task's process.
fn program_ms() -> u64 {
    (BEGIN_MS + elapsed_ms()).saturating_add_signed(AHEAD_MS.get())
}

/// Sets how far the clock of the second server is ahead of the first one's.
pub(super) fn set_server_ahead_ms(ahead: i64) {
    SERVER_AHEAD_MS.set(ahead);
}

/// The wall clock of a server.
pub(super) fn server_ms(server: usize) -> i64 {
    server_ms_at(elapsed_ms(), server)
}

/// The wall clock of a server when the simulation has run for so long.
pub(super) fn server_ms_at(elapsed_ms: u64, server: usize) -> i64 {
    (BEGIN_MS + elapsed_ms) as i64 + if server == 0 { 0 } else { SERVER_AHEAD_MS.get() }
}
