//! Random choices: jitter of waiting times, one of several equal candidates, unique names. All random choices are made
//! here, so that a simulation can seed them.

use std::ops::Range;

use rand::Rng as _;
use rand::distr::uniform::SampleUniform;
use rand::distr::{Distribution, StandardUniform};

#[cfg(feature = "simulation")]
thread_local! {
    static SEEDED: std::cell::RefCell<Option<rand::rngs::StdRng>> = const { std::cell::RefCell::new(None) };
}

/// Seeds the choices of this thread; `None` ends that.
#[cfg(feature = "simulation")]
pub fn seed(seed: Option<u64>) {
    SEEDED.set(seed.map(rand::SeedableRng::seed_from_u64));
}

/// Calls `run` for each seed, on all processors. The results come in no order. A run that panics ends all of them.
#[cfg(feature = "simulation")]
pub fn with_each_seed<T: Send>(seeds: Range<u64>, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    use std::sync::atomic::{AtomicU64, Ordering};

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

/// Any value of a type.
pub fn any<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(feature = "simulation")]
    if let Some(value) = SEEDED.with_borrow_mut(|seeded| Some(seeded.as_mut()?.random())) {
        return value;
    }
    rand::rng().random()
}

/// A value of a range that is not empty.
pub fn within<T: SampleUniform + PartialOrd>(range: Range<T>) -> T {
    #[cfg(feature = "simulation")]
    let range = match SEEDED.with_borrow_mut(|seeded| match seeded {
        Some(seeded) => Ok(seeded.random_range(range)),
        None => Err(range),
    }) {
        Ok(value) => return value,
        Err(range) => range,
    };
    rand::rng().random_range(range)
}

#[cfg(all(test, feature = "simulation"))]
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
