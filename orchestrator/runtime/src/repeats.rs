//! Drops warnings that repeat an earlier one: a fault that lasts is tried again every few seconds, and must not fill the log.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

/// A warning that comes back sooner is a repetition; one that comes back later has a new cause.
const RETRY_GAP: Duration = Duration::from_secs(30);
/// A repeated warning is logged again after this time.
const INTERVAL: Duration = Duration::from_secs(60);
/// The most warnings that are remembered.
const MAX_REMEMBERED: usize = 1024;

/// Lets one of several warnings or errors with the same fields pass. Other events always pass.
pub(super) struct RepeatFilter {
    /// The warnings of the last time, by their hash.
    warnings: Mutex<HashMap<u64, Warning>>,
}

/// A warning that may come again.
struct Warning {
    /// When it last came.
    seen: Instant,
    /// When it was last logged.
    logged: Instant,
}

impl Warning {
    /// Whether this warning, if it comes again at `now`, is a repetition that is not logged.
    fn is_repeated(&self, now: Instant) -> bool {
        now.duration_since(self.seen) < RETRY_GAP && now.duration_since(self.logged) < INTERVAL
    }
}

impl RepeatFilter {
    pub(super) fn new() -> Self {
        Self { warnings: Mutex::default() }
    }

    /// Whether the event with that hash is to be logged at `now`. O(1), apart from a full memory.
    fn is_new(&self, hash: u64, now: Instant) -> bool {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warning) = warnings.get_mut(&hash).filter(|warning| warning.is_repeated(now)) {
            warning.seen = now;
            return false;
        }
        if warnings.len() >= MAX_REMEMBERED {
            warnings.retain(|_, warning| warning.is_repeated(now));
        }
        if warnings.len() >= MAX_REMEMBERED {
            // Many different warnings at once: better one too often than one that is missing.
            warnings.clear();
        }
        warnings.insert(hash, Warning { seen: now, logged: now });
        true
    }
}

impl<S> Filter<S> for RepeatFilter {
    fn enabled(&self, _metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _context: &Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::WARN {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        event.metadata().callsite().hash(&mut hasher);
        event.record(&mut FieldHasher(&mut hasher));
        self.is_new(hasher.finish(), Instant::now())
    }
}

/// Feeds the fields of an event to a hasher.
struct FieldHasher<'a>(&'a mut DefaultHasher);

impl Visit for FieldHasher<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        field.name().hash(self.0);
        // A value that cannot be formatted is told apart by the other fields.
        let _ = write!(HashText(self.0), "{value:?}");
    }
}

struct HashText<'a>(&'a mut DefaultHasher);

impl Write for HashText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::{info, warn};
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
    use tracing_subscriber::registry;

    use super::*;

    /// Collects the lines that are logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<String>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(run: impl Fn()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_target(false);
        let layer = layer.with_writer(move || writer.clone()).with_filter(RepeatFilter::new());
        tracing::subscriber::with_default(registry().with(layer), run);
        let text = lines.0.lock().unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn warning_with_the_same_fields_is_logged_once() {
        let lines = logged(|| {
            for _ in 0..5 {
                for node in ["a", "b"] {
                    warn!(node, "cannot be read");
                }
            }
        });
        assert_eq!(lines, [r#"WARN cannot be read node="a""#, r#"WARN cannot be read node="b""#]);
    }

    #[test]
    fn other_events_are_always_logged() {
        let lines = logged(|| {
            for _ in 0..3 {
                info!("alive");
            }
        });
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn warning_that_comes_back_later_is_logged_again() {
        let filter = RepeatFilter::new();
        let start = Instant::now();
        let logged = [0, 1, 30, 60, 61].map(|second| filter.is_new(7, start + Duration::from_secs(second)));
        assert_eq!(logged, [true, false, false, true, false]);
    }

    #[test]
    fn warning_of_every_second_is_logged_every_minute() {
        let filter = RepeatFilter::new();
        let start = Instant::now();
        let logged = (0..180).filter(|&second| filter.is_new(7, start + Duration::from_secs(second)));
        assert_eq!(logged.collect::<Vec<_>>(), [0, 60, 120]);
    }

    #[test]
    fn memory_is_bounded() {
        let filter = RepeatFilter::new();
        for hash in 0..10_000 {
            assert!(filter.is_new(hash, Instant::now()));
        }
        assert!(filter.warnings.lock().unwrap().len() <= MAX_REMEMBERED);
    }
}
