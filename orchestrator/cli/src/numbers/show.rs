//! `allot numbers show`: prints a pool in the terminal: totals, settings, and the live calls of each switch.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use clap::Args;

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::terminal;
use allot_client::{self, Cause, NumberStore, PoolInfo};

/// Leases asked for at a time.
const COUNT: u32 = 1000;

/// Arguments of `allot numbers show`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the pool.
    key: String,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let pool = NumberStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let info = pool.info().await?;
    // By switch: live calls, and since when the oldest of them.
    let mut carried: BTreeMap<Option<String>, (u64, i64)> = BTreeMap::new();
    let mut cursor = 0;
    loop {
        let (next, leases) = pool.leases(cursor, COUNT).await?;
        for lease in leases {
            let (count, oldest) = carried.entry(lease.switch).or_insert((0, lease.since));
            *count += 1;
            *oldest = lease.since.min(*oldest);
        }
        if next == 0 {
            break;
        }
        cursor = next;
    }
    let text = draw(&arguments.key, &info, &carried, pool.clock().await?);
    terminal::write(&text).map(|()| Outcome::Done)
}

fn draw(key: &str, info: &PoolInfo, carried: &BTreeMap<Option<String>, (u64, i64)>, now: i64) -> String {
    let mut text = format!("{key}: {} numbers\n", info.total);
    let rows = [
        ("idle+up", info.idle_up),
        ("idle+down", info.idle_down),
        ("busy+up", info.busy_up),
        ("busy+down", info.busy_down),
    ];
    for (state, count) in rows {
        let _ = writeln!(text, "  {state:<10} {count:>10}");
    }
    if info.cooling > 0 {
        let _ = writeln!(text, "  {} of the idle ones cool down", info.cooling);
    }
    if info.limited > 0 {
        let _ = writeln!(text, "  {} of the idle ones have reached a cap", info.limited);
    }
    if info.quarantined > 0 {
        let _ = writeln!(text, "  {} of the idle ones are in quarantine", info.quarantined);
    }
    if info.draining > 0 {
        let _ = writeln!(text, "  {} go when their call ends", info.draining);
    }
    let span = |ms: i64| if ms == 0 { "none".to_owned() } else { duration(ms) };
    let (lease, cooldown, regttl) = (span(info.lease), span(info.cooldown), span(info.regttl));
    let _ = writeln!(
        text,
        "lease {lease}, cool-down {cooldown}, registration time-out {regttl}, pick {}",
        info.pick
    );
    for cap in &info.caps {
        let _ = writeln!(text, "cap: {} calls in {}", cap.count, duration(cap.window));
    }
    for cause in &info.causes {
        let _ = writeln!(text, "{}", describe(cause));
    }
    if info.causes_other > 0 {
        let _ = writeln!(text, "other causes: {} calls", info.causes_other);
    }
    if info.waiting > 0 {
        let _ = writeln!(text, "{} calls wait for a number", info.waiting);
    }
    let _ = writeln!(text, "{} live calls", info.leases);
    for (switch, (count, oldest)) in carried {
        let switch = switch.as_deref().unwrap_or("(no switch)");
        let _ = writeln!(text, "  {switch}: {count}, the oldest for {}", duration((now - oldest).max(0)));
    }
    text
}

/// A cause, with its rule.
fn describe(cause: &Cause) -> String {
    let mut text = format!("cause {}: {} calls", cause.cause, cause.count);
    if let Some(cooldown) = cause.cooldown {
        let _ = write!(text, ", quarantine for {}", duration(cooldown));
    }
    if let (Some(after), Some(within)) = (cause.after, cause.within) {
        let _ = write!(text, " after {after} in {}", duration(within));
    }
    text
}

/// A length of time in milliseconds, as text for people.
fn duration(ms: i64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{:.1} s", ms as f64 / 1000.0),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{:.1} h", ms as f64 / 3_600_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allot_client::Cap;

    #[test]
    fn a_pool_is_drawn_with_all_that_matters() {
        let info = PoolInfo {
            total: 6,
            idle_up: 2,
            idle_down: 1,
            busy_up: 2,
            busy_down: 1,
            cooling: 1,
            leases: 3,
            draining: 1,
            lease: 60_000,
            cooldown: 0,
            regttl: 7_200_000,
            pick: "STICKY".into(),
            waiting: 7,
            limited: 1,
            suspended: 2,
            quarantined: 2,
            caps: vec![Cap { window: 60_000, count: 3 }],
            causes: vec![Cause {
                cause: "busy".into(),
                count: 9,
                cooldown: Some(3_600_000),
                after: Some(5),
                within: Some(600_000),
            }],
            causes_other: 4,
        };
        let carried = BTreeMap::from([(None, (1, 500)), (Some("sw1".to_owned()), (2, 1000))]);
        let text = draw("p", &info, &carried, 200_000);
        for part in [
            "p: 6 numbers\n",
            "idle+up             2\n",
            "  1 of the idle ones cool down\n",
            "  1 go when their call ends\n",
            "  1 of the idle ones have reached a cap\n  2 of the idle ones are in quarantine\n",
            "cap: 3 calls in 60.0 s\ncause busy: 9 calls, quarantine for 60 min after 5 in 10 min\nother causes: 4 calls\n",
            "7 calls wait for a number\n3 live calls\n",
            "lease 60.0 s, cool-down none, registration time-out 2.0 h, pick STICKY\n",
            "  (no switch): 1, the oldest for 3 min\n  sw1: 2,",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
    }
}
