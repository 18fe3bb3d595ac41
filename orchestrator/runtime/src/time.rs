//! Points in time that all processes of one machine agree on. A duration would not do between processes: it would
//! start only when the receiver reads it, and the receiver may have been suspended until then.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

#[cfg(feature = "simulation")]
thread_local! {
    static SIMULATED: std::cell::Cell<Option<fn() -> u64>> = const { std::cell::Cell::new(None) };
}

/// Makes [`now_ms`] on this thread return what `clock` returns; `None` ends that.
#[cfg(feature = "simulation")]
pub fn simulate(clock: Option<fn() -> u64>) {
    SIMULATED.set(clock);
}

/// Whether a simulation provides the wall clock of this thread.
pub fn is_simulated() -> bool {
    #[cfg(feature = "simulation")]
    return SIMULATED.get().is_some();
    #[cfg(not(feature = "simulation"))]
    false
}

/// Wall-clock time in milliseconds since 1970.
pub fn now_ms() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(clock) = SIMULATED.get() {
        return clock();
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A point in time, in milliseconds of the machine's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MonotonicTime(u64);

impl MonotonicTime {
    /// The current time.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self((now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000))
    }

    /// The current time plus this duration.
    pub fn after(duration: Duration) -> Self {
        Self(Self::now().0.saturating_add(duration.as_millis() as u64))
    }

    /// This instant or slightly earlier, never later. An instant in the past becomes the current time.
    pub fn from_instant(instant: Instant) -> Self {
        // The monotonic clock is read first: a pause between the two reads makes the result earlier, never later.
        let now = Self::now();
        Self(now.0.saturating_add(instant.saturating_duration_since(Instant::now()).as_millis() as u64))
    }

    /// The same time as an instant of this process. A time in the past becomes the current instant.
    pub fn to_instant(self) -> Instant {
        Instant::now() + Duration::from_millis(self.0.saturating_sub(Self::now().0))
    }

    /// Whether this time has come.
    pub fn has_passed(self) -> bool {
        self <= Self::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reader_gets_the_same_point_in_time() {
        let began = Instant::now();
        let until = began + Duration::from_secs(60);
        let time = MonotonicTime::from_instant(until);
        assert!(!time.has_passed());
        std::thread::sleep(Duration::from_millis(20));
        // Never later, and earlier by no more than the time for which this machine was suspended.
        let read = time.to_instant();
        assert!(
            read <= until + Duration::from_millis(1)
                && read + began.elapsed() + Duration::from_millis(3) >= until
        );
        assert!(MonotonicTime::from_instant(Instant::now()).has_passed());
        assert!(MonotonicTime::now().to_instant() <= Instant::now());
    }
}
