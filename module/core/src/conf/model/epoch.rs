//! The numbers of assignments.

use crate::shared::Millis;

/// The number of an assignment: unique in its realm, and greater than all earlier ones.
pub type Epoch = u64;

/// The greatest epoch that a clock can cause: the year 2112, in microseconds. Even if a clock or the time of a
/// snapshot is far ahead, enough epochs are left.
pub(in crate::conf) const LAST_OF_CLOCK: Epoch = 1 << 52;

/// How far ahead of the clock the highest epoch of a report may be, in microseconds: one day. A higher epoch is
/// ignored, because it would use up the epochs that are left.
const BELIEVED: Epoch = 24 * 3600 * 1_000_000;

/// The first epoch that may be given out at this time (milliseconds since 1970).
pub(in crate::conf) fn epoch_of(now: Millis) -> Epoch {
    (now.max(0) as u64).saturating_mul(1000).min(LAST_OF_CLOCK)
}

/// Whether a master can have given out this epoch: it is at most a day ahead of the clock.
pub(in crate::conf) fn is_plausible(epoch: Epoch, now: Millis) -> bool {
    epoch <= epoch_of(now) + BELIEVED
}
