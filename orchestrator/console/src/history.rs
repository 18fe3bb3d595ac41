//! What the module has done by the minute, for 24 hours, from samples of its counters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Milliseconds of a minute.
pub(crate) const MINUTE: u64 = 60_000;
/// Minutes that the console keeps.
const MINUTES: u64 = 24 * 60;
/// Most samples: one for each minute, one at its end, and one at a start of the console.
pub(crate) const SAMPLES: usize = MINUTES as usize + 2;
/// Time by which clocks of server and console may differ, in milliseconds.
const SLACK: u64 = 2000;

/// The counters of a server at one instant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The console's clock, in milliseconds since 1970.
    pub(crate) at: u64,
    /// The `run_id` of the server: counters of another process begin at another value.
    pub(crate) run: String,
    /// Time since the start of the server, in milliseconds.
    pub(crate) up: u64,
    pub(crate) holds: u64,
    pub(crate) calls: u64,
    pub(crate) recoveries: u64,
    pub(crate) refusals: u64,
    /// Conferences that wait for recovery.
    pub(crate) waiting: u64,
}

/// What has happened by the minute.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Minutes {
    /// When the first minute begins, in milliseconds since 1970.
    from: u64,
    /// Holds of seats granted in each minute; null if that is not known.
    holds: Vec<Option<f64>>,
    /// Numbers given for calls.
    calls: Vec<Option<f64>>,
    /// Conferences placed on another unit.
    recoveries: Vec<Option<f64>>,
    /// Requests that were refused, or found nothing free.
    refusals: Vec<Option<f64>>,
}

/// The minutes of the last 24 hours, from the samples. What happened between two samples is spread evenly over the time
/// between them.
pub(crate) fn minutes(samples: &[Sample], now: u64) -> Minutes {
    let oldest = now.saturating_sub(MINUTES * MINUTE);
    let recent: Vec<&Sample> = samples.iter().filter(|sample| (oldest..=now).contains(&sample.at)).collect();
    let (Some(first), Some(last)) = (recent.first(), recent.last()) else { return Minutes::default() };
    let from = first.at / MINUTE;
    // A minute that has just begun would end the curve at nothing.
    let has_begun = last.at % MINUTE >= MINUTE / 10;
    let count = (last.at / MINUTE + u64::from(has_begun)).saturating_sub(from) as usize;
    let line = |of: fn(&Sample) -> u64| {
        let mut line = vec![None; count];
        for (before, after) in recent.iter().zip(recent.iter().skip(1)) {
            let Some(done) = done(before, after, of) else { continue };
            for minute in before.at / MINUTE..after.at.div_ceil(MINUTE) {
                let part = after.at.min((minute + 1) * MINUTE) - before.at.max(minute * MINUTE);
                if let Some(value) = minute.checked_sub(from).and_then(|at| line.get_mut(at as usize)) {
                    *value = Some(
                        value.unwrap_or_default() + done as f64 * part as f64 / (after.at - before.at) as f64,
                    );
                }
            }
        }
        line
    };
    Minutes {
        from: from * MINUTE,
        holds: line(|sample| sample.holds),
        calls: line(|sample| sample.calls),
        recoveries: line(|sample| sample.recoveries),
        refusals: line(|sample| sample.refusals),
    }
}

/// How much was done between two samples; `None` if another server has answered meanwhile, whose counters began earlier.
pub(crate) fn done(before: &Sample, after: &Sample, of: fn(&Sample) -> u64) -> Option<u64> {
    let time = after.at.checked_sub(before.at).filter(|time| *time > 0)?;
    if before.run == after.run {
        return Some(of(after).saturating_sub(of(before)));
    }
    // Since its start, a server counts from zero.
    (after.up <= time + SLACK).then(|| of(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, run: &str, up: u64, calls: u64) -> Sample {
        Sample { at, run: run.to_owned(), up, holds: 0, calls, recoveries: 0, refusals: 0, waiting: 0 }
    }

    #[test]
    fn counters_become_minutes_across_restarts_and_failovers() {
        let day = 24 * 60 * MINUTE;
        let samples = [
            sample(day - 90_000, "a", 1_000_000, 3),
            sample(day, "a", 1_000_000, 9),
            // Nothing was read for two minutes.
            sample(day + 2 * MINUTE, "a", 1_000_000, 13),
            // Another server took over, which has been there for a long time.
            sample(day + 3 * MINUTE, "b", 1_000_000, 700),
            sample(day + 4 * MINUTE, "b", 1_000_000, 701),
            // It was started again.
            sample(day + 5 * MINUTE, "c", 20_000, 5),
        ];
        let found = minutes(&samples, day + 6 * MINUTE);
        assert_eq!(found.from, day - 2 * MINUTE);
        assert_eq!(found.calls, [Some(2.0), Some(4.0), Some(2.0), Some(2.0), None, Some(1.0), Some(5.0)]);
        // The last sample is taken a little after its minute has begun.
        let late = [sample(day, "a", 1_000_000, 0), sample(day + MINUTE + 5, "a", 1_000_000, 1)];
        assert_eq!(minutes(&late, 2 * day).calls.len(), 1);
        // What is older than a day, and what a clock says that was wrong, is left out.
        assert_eq!(minutes(&samples, 2 * day).calls, [Some(2.0), Some(2.0), None, Some(1.0), Some(5.0)]);
        assert!(minutes(&samples, 1000).calls.is_empty());
    }
}
