//! Moments that all processes of this machine understand. A span would begin only when its reader has read it, which may
//! have stood still meanwhile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A moment: milliseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment(u64);

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self((now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000))
    }

    /// So long from now.
    pub fn after(span: Duration) -> Self {
        Self(Self::now().0.saturating_add(span.as_millis() as u64))
    }

    /// This instant, or a little before; one that is over is now.
    pub fn of(instant: Instant) -> Self {
        // In this order: whoever stands still between the two says a moment before, not one behind it.
        let now = Self::now();
        Self(now.0.saturating_add(instant.saturating_duration_since(Instant::now()).as_millis() as u64))
    }

    /// As an instant of ours; one that is over is now.
    pub fn instant(self) -> Instant {
        Instant::now() + Duration::from_millis(self.0.saturating_sub(Self::now().0))
    }

    /// Whether it has come.
    pub fn is_over(self) -> bool {
        self <= Self::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_however_late_it_is_read() {
        let began = Instant::now();
        let until = began + Duration::from_secs(60);
        let moment = Moment::of(until);
        assert!(!moment.is_over());
        std::thread::sleep(Duration::from_millis(20));
        // Never later, and before only by as much as this machine stood still.
        let read = moment.instant();
        assert!(
            read <= until + Duration::from_millis(1)
                && read + began.elapsed() + Duration::from_millis(3) >= until
        );
        assert!(Moment::of(Instant::now()).is_over());
        assert!(Moment::now().instant() <= Instant::now());
    }
}
