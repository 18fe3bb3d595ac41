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
