//! Conditions that hold unless the code is wrong.

use std::panic::Location;

/// Whether a condition holds, which only a bug can break. `false` for the condition stands in a branch that is reached only
/// then. A release build logs a broken invariant, and the caller takes its safe branch.
///
/// # Panics
/// The condition does not hold, in builds with debug assertions.
#[track_caller]
pub fn invariant(condition: bool, what: &'static str) -> bool {
    let place = Location::caller();
    debug_assert!(condition, "broken invariant at {place}: {what}");
    if !condition {
        tracing::error!(%place, what, "broken invariant: this is a bug, please report it");
    }
    condition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two and two are four")]
    fn broken_invariant_panics_in_debug_builds() {
        invariant(2 + 2 == 5, "two and two are four");
    }

    #[test]
    fn invariant_that_holds_is_true() {
        assert!(invariant(2 + 2 == 4, "two and two are four"));
    }
}
