//! The planned accidents of a unit: before or after a call to the tree is carried out, the unit dies, or is cut off for a
//! while, with or without loss of its session. A call in flight is then carried out but never answered.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::Trace;
use allot_simulation::line::{Accident, Step, Steps};

/// At which of a unit's calls an accident happens, and whether that call is still carried out.
pub(super) type Due = (u64, bool, Accident);

/// The planned accidents of a unit, and the delay of its answers.
pub(super) struct Fate {
    name: String,
    random: Mutex<(StdRng, u64, VecDeque<Due>)>,
    trace: Trace,
}

impl Fate {
    /// A unit with these accidents, in the order of their calls.
    pub(super) fn new(name: &str, seed: u64, accidents: Vec<Due>, trace: Trace) -> Self {
        let random = Mutex::new((StdRng::seed_from_u64(seed), 0, accidents.into()));
        Self { name: name.to_owned(), random, trace }
    }
}

impl Steps for Fate {
    fn next(&self, what: &str, path: &str) -> Step {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let (random, calls, accidents) = &mut *random;
        *calls += 1;
        self.trace.note(|| format!("{} {calls}: {what} {path}", self.name));
        match accidents.front() {
            Some(&(at, carried_out, accident)) if at <= *calls => {
                accidents.pop_front();
                self.trace
                    .note(|| format!("{} {calls}: {accident:?}, carried out: {carried_out}", self.name));
                Step::Hit { carried_out, accident }
            }
            _ => Step::Answered(Duration::from_micros(random.random_range(0..1500))),
        }
    }

    fn lifetime(&self) -> f64 {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        random.0.random_range(0.875..1.3)
    }
}
