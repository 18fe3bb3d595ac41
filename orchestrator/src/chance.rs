//! What is left to chance: how long to wait lest all wait as long, which of many free ones to take, names that nobody
//! else has. In one place, so that a simulation can seed it.

use std::ops::Range;

use rand::Rng as _;
use rand::distr::uniform::SampleUniform;
use rand::distr::{Distribution, StandardUniform};

#[cfg(test)]
thread_local! {
    static SEEDED: std::cell::RefCell<Option<rand::rngs::StdRng>> = const { std::cell::RefCell::new(None) };
}

/// From here on, what this thread is given follows from the seed, or from none.
#[cfg(test)]
pub(crate) fn seed(seed: Option<u64>) {
    SEEDED.set(seed.map(rand::SeedableRng::seed_from_u64));
}

/// Any value of a type.
pub(crate) fn any<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(test)]
    if let Some(value) = SEEDED.with_borrow_mut(|seeded| Some(seeded.as_mut()?.random())) {
        return value;
    }
    rand::rng().random()
}

/// A value of a range that is not empty.
pub(crate) fn within<T: SampleUniform + PartialOrd>(range: Range<T>) -> T {
    #[cfg(test)]
    if let Some(mut seeded) = SEEDED.take() {
        let value = seeded.random_range(range);
        SEEDED.set(Some(seeded));
        return value;
    }
    rand::rng().random_range(range)
}
