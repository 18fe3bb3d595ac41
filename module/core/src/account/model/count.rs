//! Counts of the indexes, which change by one at a time.

use crate::invariant;

/// A count that changes by one at a time.
pub(super) trait Count: Copy {
    fn next(self, up: bool) -> Option<Self>;
}

impl Count for u32 {
    fn next(self, up: bool) -> Option<Self> {
        if up { self.checked_add(1) } else { self.checked_sub(1) }
    }
}

impl Count for usize {
    fn next(self, up: bool) -> Option<Self> {
        if up { self.checked_add(1) } else { self.checked_sub(1) }
    }
}

/// One more, or one less.
pub(super) fn step(count: &mut impl Count, up: bool) {
    match count.next(up) {
        Some(next) => *count = next,
        None => invariant!("a count is that of what is there"),
    }
}
