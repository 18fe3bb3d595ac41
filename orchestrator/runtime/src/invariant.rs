//! Conditions that hold unless the code is wrong: `invariant!`. In debug builds and tests a broken invariant panics. In a
//! release build it is logged, and the caller takes its safe branch.

use std::panic::Location;

/// Whether a condition holds. Reports if it does not.
///
/// # Panics
/// The condition does not hold, in builds with debug assertions.
#[track_caller]
pub fn check(condition: bool, what: &'static str) -> bool {
    let place = Location::caller();
    debug_assert!(condition, "broken invariant at {place}: {what}");
    if !condition {
        tracing::error!(%place, what, "broken invariant: this is a bug, please report it");
    }
    condition
}

/// States what must hold unless the code is wrong.
///
/// - `invariant!(condition, "what must hold")` checks the condition, and is true if it holds.
/// - `invariant!("what must hold")` stands in a branch that is reached only when the invariant is broken.
#[macro_export]
macro_rules! invariant {
    ($what:literal) => {
        let _ = $crate::invariant::check(false, $what);
    };
    ($condition:expr, $what:literal) => {
        $crate::invariant::check($condition, $what)
    };
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two and two are four")]
    fn broken_invariant_panics_in_debug_builds() {
        invariant!(2 + 2 == 5, "two and two are four");
    }

    #[test]
    fn invariant_that_holds_is_true() {
        assert!(invariant!(2 + 2 == 4, "two and two are four"));
    }
}
