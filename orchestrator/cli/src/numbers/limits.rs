//! `allot numbers caps` and `allot numbers cause`: how often a number is called, and after which calls it rests.

use anyhow::Result;
use clap::Args;

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use allot_client::{Cap, NumberStore};
use allot_runtime::settings::Span;

/// Arguments of `allot numbers caps`.
#[derive(Debug, Args)]
pub(crate) struct CapsArguments {
    /// Key of the pool.
    key: String,
    /// The most calls that a number begins within any such time, as TIME=CALLS, for example 1h=20; may be given several
    /// times. These caps replace those of the pool.
    #[arg(value_name = "TIME=CALLS", value_parser = cap)]
    caps: Vec<Cap>,
    /// Remove all caps.
    #[arg(long, conflicts_with = "caps", required_unless_present = "caps")]
    none: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// Arguments of `allot numbers cause`.
#[derive(Debug, Args)]
pub(crate) struct CauseArguments {
    /// Key of the pool.
    key: String,
    /// The cause of a hangup.
    cause: String,
    /// How long a number is in quarantine after a call that ended with this cause; 0s removes the rule.
    #[arg(long, value_name = "TIME")]
    cooldown: Span,
    /// Only after so many calls that ended with this cause within `--within`.
    #[arg(long, value_name = "CALLS", requires = "within")]
    after: Option<u32>,
    /// The time in which `--after` calls end.
    #[arg(long, value_name = "TIME", requires = "after")]
    within: Option<Span>,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs `allot numbers caps`.
pub(crate) async fn set_caps(arguments: CapsArguments) -> Result<Outcome> {
    let pool = NumberStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    pool.set_caps(&arguments.caps).await?;
    Ok(Outcome::Done)
}

/// Runs `allot numbers cause`.
pub(crate) async fn set_cause(arguments: CauseArguments) -> Result<Outcome> {
    let pool = NumberStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let after = arguments.after.zip(arguments.within).map(|(calls, within)| (calls, milliseconds(within)));
    pool.set_cause(&arguments.cause, milliseconds(arguments.cooldown), after).await?;
    Ok(Outcome::Done)
}

/// Reads `TIME=CALLS`.
fn cap(text: &str) -> Result<Cap, String> {
    let parts = text.split_once('=').and_then(|(window, count)| Some((window, count.parse().ok()?)));
    let (window, count) = parts.ok_or_else(|| format!("'{text}' is not TIME=CALLS, for example 1h=20"))?;
    Ok(Cap { window: milliseconds(window.parse()?), count })
}

fn milliseconds(span: Span) -> i64 {
    i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX)
}
