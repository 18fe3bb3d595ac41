//! A load test that sells seats of a show, and checks that no seat is given to two buyers at
//! once.

mod buyer;
mod ledger;
mod report;
mod tally;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::buyer::{LoadTest, StopCondition};
use self::report::Books;
pub use self::report::Report;
use self::tally::Tally;
use crate::Progress;
use allot_client::{self, SeatStore};
use allot_runtime::settings::Span;

/// Time limit for a busy server to expire the holds that were neither bought nor released.
const SETTLING: Duration = Duration::from_secs(10);
/// Interval at which the progress is told.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
const MAX_GROUP: u32 = 100;

/// The buyers, and what they do.
#[derive(Debug, Args)]
pub struct Options {
    /// Buyers at a time; each has one request under way.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    buyers: u64,
    /// Connections that the buyers share.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub connections: u16,
    /// Seats of a purchase, `N` or `N-M`.
    #[arg(long, default_value = "1-6", value_parser = group_size, value_name = "N-M")]
    seats: (u32, u32),
    /// Buy seats of this tier only.
    #[arg(long)]
    tier: Option<String>,
    /// Share of the holds that are bought.
    #[arg(long, default_value_t = 0.8, value_parser = share)]
    confirm: f64,
    /// Share of the holds that are released; the other holds expire.
    #[arg(long, default_value_t = 0.1, value_parser = share)]
    release: f64,
    /// Time to live of a hold.
    #[arg(long, default_value = "2s", value_name = "TIME")]
    ttl: Span,
    /// Go on until no seat is free and no hold is left that could free one; without this and --duration every
    /// buyer makes one purchase.
    #[arg(long, conflicts_with = "duration")]
    until_sold_out: bool,
    /// Go on for this time.
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// Makes the buyers' choices the same from run to run.
    #[arg(long)]
    seed: Option<u64>,
}

fn group_size(text: &str) -> Result<(u32, u32), String> {
    let (smallest, largest) = text.split_once('-').unwrap_or((text, text));
    match (smallest.parse(), largest.parse()) {
        (Ok(smallest), Ok(largest)) if (1..=largest).contains(&smallest) && largest <= MAX_GROUP => {
            Ok((smallest, largest))
        }
        _ => Err(format!("'{text}' is no size of a party; write 4, or 1-6 ({MAX_GROUP} at most)")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("'{text}' is no share between 0 and 1"))
}

/// Runs the buyers over these connections to one show.
pub async fn run(
    shows: &[SeatStore],
    key: &str,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Report> {
    let stop = stop_condition(options)?;
    let control = shows.first().context("there is one connection at least")?;
    // Totals of all tiers: a seat of another tier that changes its state is a fault as well.
    let before = Books::of(&control.stat(None, None).await?);
    let test = Arc::new(LoadTest {
        group_size: options.seats,
        tier: options.tier.clone(),
        ttl: options.ttl.0,
        confirm: options.confirm,
        release: options.release,
        stop,
        seed: options.seed.unwrap_or_else(rand::random),
        run: rand::random(),
        ledger: Mutex::default(),
        tally: Mutex::new(Tally::new()),
        outstanding: AtomicU64::new(0),
        purchases: AtomicU64::new(0),
        broken: AtomicBool::new(false),
    });
    run_buyers(&test, shows, options.buyers, before.free, progress).await;
    let after = settle(control, before, test.ttl).await?;
    Ok(Report::new(key, (options.buyers, shows.len()), &test.tally(), (before, after)))
}

fn stop_condition(options: &Options) -> Result<StopCondition> {
    if options.confirm + options.release > 1.0 + f64::EPSILON {
        bail!("--confirm {} and --release {} are more than all holds", options.confirm, options.release);
    }
    if options.until_sold_out && options.confirm <= 0.0 {
        bail!("--until-sold-out would never end with --confirm 0");
    }
    Ok(match options.duration {
        _ if options.until_sold_out => StopCondition::SoldOut,
        Some(time) => StopCondition::At(Instant::now() + time.0),
        None => StopCondition::Once,
    })
}

/// Starts all buyers at the same time, and waits until all have stopped.
async fn run_buyers(
    test: &Arc<LoadTest>,
    shows: &[SeatStore],
    buyers: u64,
    free: u64,
    progress: Progress<'_>,
) {
    let (start, started) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for (number, show) in (0..buyers).zip(shows.iter().cycle()) {
        let (test, show, mut started) = (Arc::clone(test), show.clone(), started.clone());
        tasks.spawn(async move {
            // The sender lives until all buyers have stopped, so waiting cannot fail.
            let _ = started.wait_for(|start| *start).await;
            buyer::run(&test, &show, number).await;
        });
    }
    let _ = start.send(true);
    let mut tick = tokio::time::interval(LOOK_INTERVAL);
    while !tasks.is_empty() {
        let ended = tokio::select! {
            Some(ended) = tasks.join_next() => ended,
            _ = tick.tick() => {
                progress(test.tally().counts.seats_confirmed, free);
                continue;
            }
        };
        if let Err(error) = ended {
            test.tally().error.get_or_insert_with(|| format!("a buyer failed: {error}"));
        }
    }
}

/// The totals when the last hold has ended. If others use the show as well, their holds may remain: the totals are
/// then those at the time limit.
async fn settle(control: &SeatStore, before: Books, ttl: Duration) -> Result<Books> {
    let limit = Instant::now() + ttl + SETTLING;
    loop {
        let books = Books::of(&control.stat(None, None).await?);
        if books.held == 0 || !before.fresh() || Instant::now() >= limit {
            return Ok(books);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_parties_and_shares_are_checked() {
        assert_eq!(group_size("4"), Ok((4, 4)));
        assert_eq!(group_size("1-6"), Ok((1, 6)));
        for bad in ["0", "6-1", "1-101", "a", "1-", ""] {
            assert!(group_size(bad).is_err(), "{bad}");
        }
        assert_eq!(share("0.5"), Ok(0.5));
        for bad in ["1.1", "-0.1", "NaN", "x"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
