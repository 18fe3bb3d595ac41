//! Waiting for a condition, so that no test takes the passing of time for a criterion.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a wait may take by default. This is far more than a healthy server needs, because the
/// machines that run the tests are shared and slow at times.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Polls `condition` until it holds; fails the test, naming `what`, when it does not within `limit`.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !condition() {
        let waited = start.elapsed();
        assert!(waited < limit, "waited {waited:.1?} in vain: {what}");
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
