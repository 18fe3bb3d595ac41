//! `allot numbers load`: puts the numbers of a file into a pool on the server.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::outcome::Outcome;
use crate::progress;
use crate::sources::RedisSource;
use crate::terminal::{errln, outln};
use allot_client::{self, NumberStore};
use allot_tools::numbers::file::{self, Format};

/// Numbers in one request: enough to be fast, and few enough not to delay other clients.
const CHUNK: usize = 1000;
/// Problems beyond this many are only counted.
const SHOWN: usize = 20;

/// Arguments of `allot numbers load`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The file of numbers.
    file: PathBuf,
    /// Key of the pool, which is created if it does not exist.
    #[arg(long)]
    key: String,
    /// Format of the file; a table if its name ends in .csv, else a text of one number a line.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The column of a table that has the numbers.
    #[arg(long, default_value = "number")]
    column: String,
    /// Leave out spaces, dots, dashes, slashes and parentheses inside of numbers.
    #[arg(long)]
    strip: bool,
    /// Register the numbers as well, so that they can be called at once.
    #[arg(long)]
    register: bool,
    /// With --register: the switch that they are registered by.
    #[arg(long, requires = "register", value_name = "ID")]
    switch: Option<String>,
    /// Print what would be loaded, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let path = &arguments.file;
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let csv = path.extension().map(OsStr::to_ascii_lowercase).is_some_and(|extension| extension == "csv");
    let format = arguments.format.unwrap_or(if csv { Format::Csv } else { Format::Text });
    let found = file::read(&text, format, &arguments.column, arguments.strip)
        .with_context(|| path.display().to_string())?;
    if !found.problems.is_empty() {
        let count = found.problems.len();
        errln!("{count} {}:", if count == 1 { "problem" } else { "problems" });
        found.problems.iter().take(SHOWN).for_each(|problem| errln!("  {problem}"));
        if count > SHOWN {
            errln!("  ... and {} more", count - SHOWN);
        }
        errln!("a number has 1 to 32 characters of 0-9 + * #; --strip leaves punctuation out");
        return Ok(Outcome::InputRefused);
    }
    outln!("{}: {} numbers, {} repeated", path.display(), found.numbers.len(), found.repeated);
    if arguments.dry_run {
        outln!("dry run: nothing was changed");
        return Ok(Outcome::Done);
    }
    let pool = NumberStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let bar = progress::bar(found.numbers.len() as u64, "loading");
    let (mut new, mut came_up) = (0, 0);
    for numbers in found.numbers.chunks(CHUNK) {
        new += pool.add(numbers).await?;
        if arguments.register {
            came_up += pool.register(numbers, arguments.switch.as_deref()).await?.done;
        }
        bar.inc(numbers.len() as u64);
    }
    bar.finish_and_clear();
    let there = found.numbers.len() as u64 - new;
    outln!("loaded into '{}': {new} new, {there} were there", arguments.key);
    if arguments.register {
        outln!("registered: {came_up} came up");
    }
    Ok(Outcome::Done)
}
