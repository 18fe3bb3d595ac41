//! Reads the counters of the module once a minute, whether somebody looks or not: `INFO` is all that it sends.

use std::sync::Arc;
use std::time::Duration;

use allot_client::Error;
use allot_runtime::time::now_ms;
use redis::cmd;
use tokio::time::sleep;
use tracing::debug;

use crate::feed::{REFUSALS, parse_info};
use crate::history::{MINUTE, Sample};
use crate::state::Console;

/// Adds a sample each minute, at its begin, and one at the start if the last one is older than a minute.
pub(crate) async fn record(console: Arc<Console>) {
    let is_recent = |last: Sample| now_ms().saturating_sub(last.at) < MINUTE;
    if !console.history.newest().is_some_and(is_recent) {
        add_sample(&console).await;
    }
    loop {
        sleep(Duration::from_millis(MINUTE - now_ms() % MINUTE)).await;
        add_sample(&console).await;
    }
}

async fn add_sample(console: &Console) {
    match sample(console).await {
        Ok(sample) => console.history.add(sample),
        // The next sample has what this one would have had.
        Err(error) => debug!(%error, "the counters of this minute were not read"),
    }
}

/// The counters of now.
pub(crate) async fn sample(console: &Console) -> Result<Sample, Error> {
    let (info, _) = console.viewer.send(&console.keys.realm, cmd("INFO").arg("server").arg("allot")).await?;
    let info = parse_info(info);
    let number = |name: &str| info.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or_default();
    Ok(Sample {
        waiting: number("allot_conf_pending"),
        at: now_ms(),
        run: info.get("run_id").cloned().unwrap_or_default(),
        up: number("uptime_in_seconds") * 1000,
        holds: number("allot_seat_held"),
        calls: number("allot_numpool_called"),
        recoveries: number("allot_conf_granted"),
        refusals: REFUSALS.iter().map(|name| number(name)).sum(),
    })
}
