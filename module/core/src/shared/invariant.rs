//! Conditions that hold unless the code is wrong: `invariant!`.
//!
//! A condition that only a bug can break is stated where the code relies on it. In debug builds and tests a broken
//! invariant panics. In a release build it is reported (the module counts it as `allot_internal_errors` in `INFO` and
//! logs it once per place), and the caller takes its safe branch: half a step must never end the server.
//!
//! ```
//! use allot_core::invariant;
//!
//! fn seats_of(counts: &[u32], bucket: usize) -> u32 {
//!     let Some(count) = counts.get(bucket) else {
//!         invariant!("a bucket has a count");
//!         return 0;
//!     };
//!     invariant!(*count <= 1_000_000, "a bucket has at most 1,000,000 seats");
//!     *count
//! }
//! # assert_eq!(seats_of(&[3], 0), 3);
//! ```

use std::panic::Location;
use std::sync::OnceLock;

/// Receives each broken invariant of a release build: what must hold, and where that is stated.
pub type Reporter = fn(what: &'static str, place: &'static Location<'static>);

static REPORTER: OnceLock<Reporter> = OnceLock::new();

/// Sets who receives broken invariants in release builds. The first call wins; until then they are not reported.
pub fn set_reporter(reporter: Reporter) {
    let _ = REPORTER.set(reporter);
}

/// Handles a broken invariant: panics in debug builds, and reports it in release builds. O(1).
///
/// # Panics
/// In builds with debug assertions.
#[cold]
#[track_caller]
#[allow(
    clippy::panic,
    unreachable_code,
    reason = "a broken invariant ends a test, and never a release build"
)]
pub fn broken(what: &'static str) {
    let place = Location::caller();
    #[cfg(debug_assertions)]
    panic!("broken invariant at {place}: {what}");
    #[cfg(not(debug_assertions))]
    if let Some(report) = REPORTER.get() {
        report(what, place);
    }
}

/// States what must hold unless the code is wrong.
///
/// - `invariant!(condition, "what must hold")` checks the condition, and is true if it holds.
/// - `invariant!("what must hold")` stands in a branch that is reached only when the invariant is broken.
#[macro_export]
macro_rules! invariant {
    ($what:literal) => {
        $crate::shared::invariant::broken($what)
    };
    ($condition:expr, $what:literal) => {{
        let holds: bool = $condition;
        if !holds {
            $crate::shared::invariant::broken($what);
        }
        holds
    }};
}

/// An option that has a value unless the code is wrong.
pub trait Expected {
    /// The same option. `None` is a broken invariant, reported at the caller's line.
    #[must_use]
    fn expected(self, what: &'static str) -> Self;
}

impl<T> Expected for Option<T> {
    #[inline]
    #[track_caller]
    fn expected(self, what: &'static str) -> Self {
        if self.is_none() {
            broken(what);
        }
        self
    }
}

/// Why a value contradicts itself: the result of `check()` of an index or a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction(pub String);

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Contradiction {}

/// What `check()` of an index or a state returns.
pub type Checked = Result<(), Contradiction>;

/// Checks of one thing: a condition that does not hold is a contradiction, which begins with the thing's name.
pub fn checks_of<N: std::fmt::Display>(name: impl Fn() -> N) -> impl Fn(bool, &str) -> Checked {
    move |holds, otherwise| {
        if holds { Ok(()) } else { Err(Contradiction(format!("{} {otherwise}", name()))) }
    }
}

/// Returns a [`Contradiction`] from a `check()` unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::shared::invariant::Contradiction(format!($($text)+)));
        }
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
