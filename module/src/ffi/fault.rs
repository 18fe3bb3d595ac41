//! Panics that tests ask for. The shipped module has none: they are built only with the feature `inject-panics`.

/// Panics if the file that `ALLOT_PANIC_FILE` names has the name of this place.
#[cfg(feature = "inject-panics")]
pub(crate) fn here(place: &str) {
    let armed = std::env::var_os("ALLOT_PANIC_FILE").and_then(|file| std::fs::read_to_string(file).ok());
    assert!(armed.is_none_or(|armed| armed != place), "a test asked for a panic at {place}");
}

#[cfg(not(feature = "inject-panics"))]
#[inline(always)]
#[allow(clippy::inline_always, reason = "nothing is left of it")]
pub(crate) fn here(_: &str) {}
