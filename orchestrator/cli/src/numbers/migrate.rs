//! `allot numbers migrate`: converts the list and the hash of an existing system to a pool, in one step on the server.

use allot_tools::numbers::migrate::{self, Options};
use anyhow::Result;
use clap::Args;

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::terminal::{out, outln};

/// Arguments of `allot numbers migrate`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let Arguments { options, redis } = &arguments;
    let report = migrate::run(&mut redis.connect(&options.key).await?, options).await?;
    out!("{}", report.text());
    if options.dry_run {
        outln!("dry run: nothing was changed");
        return Ok(Outcome::Done);
    }
    outln!("taken over into '{}'", options.key);
    if !options.keep {
        let [list, hash] = options.sources();
        outln!("'{list}' and '{hash}' are gone");
    }
    Ok(Outcome::Done)
}
