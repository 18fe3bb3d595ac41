//! `allot seats rush`: a load test that sells seats of a show, and checks that no seat is given to two buyers at once.

use allot_client::SeatStore;
use allot_tools::rush::{self, Options};
use anyhow::Result;
use clap::Args;

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::terminal::{out, outln};

/// Arguments of `allot seats rush`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the show.
    key: String,
    #[command(flatten)]
    options: Options,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the buyers.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let Arguments { key, options, json, redis } = &arguments;
    let mut shows = Vec::new();
    for _ in 0..options.connections {
        shows.push(SeatStore::new(redis.connect(key).await?, key));
    }
    let (report, error) = rush::run(&shows, key, options).await?;
    if *json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{}", report.text());
    }
    match error {
        _ if !report.holds() => Ok(Outcome::CheckFailed),
        Some(error) => Err(allot_client::Error::Stopped(error).into()),
        None => Ok(Outcome::Done),
    }
}
