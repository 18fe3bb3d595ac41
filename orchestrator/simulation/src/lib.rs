//! What simulations in several crates need: the connection of a simulated process to the coordination within this process,
//! and runs with many seeds. Only tests depend on this crate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests use this crate"
)]

pub mod line;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `run` for each seed, on all processors. The results come in no order. A run that panics ends all of them.
pub fn with_each_seed<T: Send>(seeds: Range<u64>, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    /// Leaves no seed to the other threads when this one panics.
    struct Rest<'a>(&'a AtomicU64, u64);
    impl Drop for Rest<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.store(self.1, Ordering::Relaxed);
            }
        }
    }

    let next = AtomicU64::new(seeds.start);
    let work = || {
        let _rest = Rest(&next, seeds.end);
        let taken = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&seed| seed < seeds.end);
        std::iter::from_fn(taken).map(&run).collect::<Vec<T>>()
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        results.flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_is_run_once_and_a_panic_is_passed_on() {
        let mut seeds = with_each_seed(3..50, |seed| seed);
        seeds.sort_unstable();
        assert_eq!(seeds, (3..50).collect::<Vec<u64>>());
        let fails = || with_each_seed(0..1_000_000, |seed| assert!(seed != 7, "seed 7 fails"));
        assert!(std::panic::catch_unwind(fails).is_err());
    }
}
