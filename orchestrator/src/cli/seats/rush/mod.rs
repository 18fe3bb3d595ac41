//! `allotd seats rush`: sells a show out under load, and checks that no seat is ever given to two.

mod buyer;
mod ledger;
mod report;
mod tally;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::buyer::{Ends, Market};
use self::ledger::Ledger;
use self::report::{Books, Report};
use self::tally::Tally;
use crate::cli::outcome::Outcome;
use crate::cli::terminal::{out, outln};
use crate::config::RedisSource;
use allot_client::{self, SeatStore};

/// Holds that were neither bought nor released expire by the server's timer, which may take this long on a busy server.
const SETTLING: Duration = Duration::from_secs(10);
const MAX_PARTY: u32 = 100;

/// Who buys, what, and until when.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the show.
    key: String,
    /// Buyers at a time; each has one request under way.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    buyers: u64,
    /// Connections that they share.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,
    /// Size of a party, `N` or `N-M`.
    #[arg(long, default_value = "1-6", value_parser = party, value_name = "N-M")]
    seats: (u32, u32),
    /// Buy of this tier only.
    #[arg(long)]
    tier: Option<String>,
    /// Share of the holds that are bought.
    #[arg(long, default_value_t = 0.8, value_parser = share)]
    confirm: f64,
    /// Share of the holds that are given back; the rest is left to expire.
    #[arg(long, default_value_t = 0.1, value_parser = share)]
    release: f64,
    /// How long a hold lasts, in milliseconds.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    ttl: u64,
    /// Go on until nothing is free and nothing can come back; without this and --duration every buyer
    /// makes one purchase.
    #[arg(long, conflicts_with = "duration")]
    until_sold_out: bool,
    /// Go on for so many seconds.
    #[arg(long, value_name = "S")]
    duration: Option<u64>,
    /// Makes the buyers' choices the same from run to run.
    #[arg(long)]
    seed: Option<u64>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisSource,
}

fn party(text: &str) -> Result<(u32, u32), String> {
    let (smallest, largest) = text.split_once('-').unwrap_or((text, text));
    match (smallest.parse(), largest.parse()) {
        (Ok(smallest), Ok(largest)) if (1..=largest).contains(&smallest) && largest <= MAX_PARTY => {
            Ok((smallest, largest))
        }
        _ => Err(format!("'{text}' is no size of a party; write 4, or 1-6 ({MAX_PARTY} at most)")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("'{text}' is no share between 0 and 1"))
}

/// Runs the buyers.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let ends = ends(&arguments)?;
    let mut shows = Vec::new();
    for _ in 0..arguments.connections {
        shows.push(SeatStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key));
    }
    let office = shows.first().cloned().context("there is one connection at least")?;
    // Books of all tiers: a seat of another tier that changes hands is a fault, too.
    let before = Books::of(&office.stat(None, None).await?);
    let market = Arc::new(Market {
        party: arguments.seats,
        tier: arguments.tier.clone(),
        ttl: Duration::from_millis(arguments.ttl),
        confirm: arguments.confirm,
        release: arguments.release,
        ends,
        seed: arguments.seed.unwrap_or_else(rand::random),
        run: rand::random(),
        ledger: Ledger::new(),
        tally: Tally::new(),
        outstanding: AtomicU64::new(0),
        purchases: AtomicU64::new(0),
        broken: AtomicBool::new(false),
    });
    rush(&market, &shows, arguments.buyers).await;
    let after = settle(&office, before, market.ttl).await?;
    let connections = usize::from(arguments.connections);
    let report = Report::new(&arguments.key, (arguments.buyers, connections), &market.tally, (before, after));
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{}", report.text());
    }
    match market.tally.first_error() {
        _ if !report.holds() => Ok(Outcome::CheckFailed),
        Some(error) => Err(allot_client::Error::Stopped(error).into()),
        None => Ok(Outcome::Done),
    }
}

fn ends(arguments: &Arguments) -> Result<Ends> {
    if arguments.confirm + arguments.release > 1.0 + f64::EPSILON {
        bail!("--confirm {} and --release {} are more than all holds", arguments.confirm, arguments.release);
    }
    if arguments.until_sold_out && arguments.confirm <= 0.0 {
        bail!("--until-sold-out would never end with --confirm 0");
    }
    Ok(match arguments.duration {
        _ if arguments.until_sold_out => Ends::SoldOut,
        Some(seconds) => Ends::At(Instant::now() + Duration::from_secs(seconds)),
        None => Ends::Once,
    })
}

/// Starts all buyers at once and waits for the last.
async fn rush(market: &Arc<Market>, shows: &[SeatStore], buyers: u64) {
    let (open, doors) = watch::channel(false);
    let mut crowd = JoinSet::new();
    for (number, show) in (0..buyers).zip(shows.iter().cycle()) {
        let (market, show, mut doors) = (Arc::clone(market), show.clone(), doors.clone());
        crowd.spawn(async move {
            // The doors are opened, not torn down, so there is no error to wait for.
            let _ = doors.wait_for(|open| *open).await;
            buyer::run(&market, &show, number).await;
        });
    }
    let _ = open.send(true);
    while let Some(ended) = crowd.join_next().await {
        if let Err(error) = ended {
            market.tally.error(&allot_client::Error::Shape(format!("a buyer failed: {error}")));
        }
    }
}

/// The books when the last hold is over; of a show that others use, too, as they are then.
async fn settle(office: &SeatStore, before: Books, ttl: Duration) -> Result<Books> {
    let limit = Instant::now() + ttl + SETTLING;
    loop {
        let books = Books::of(&office.stat(None, None).await?);
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
        assert_eq!(party("4"), Ok((4, 4)));
        assert_eq!(party("1-6"), Ok((1, 6)));
        for bad in ["0", "6-1", "1-101", "a", "1-", ""] {
            assert!(party(bad).is_err(), "{bad}");
        }
        assert_eq!(share("0.5"), Ok(0.5));
        for bad in ["1.1", "-0.1", "NaN", "x"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
