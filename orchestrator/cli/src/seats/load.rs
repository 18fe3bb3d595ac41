//! `allot seats load`: creates a show on the server from a file or from caches.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::summary::{Summary, notes, problems};
use crate::outcome::Outcome;
use crate::progress;
use crate::sources::RedisSource;
use crate::terminal::{errln, out, outln};
use allot_tools::seats::draft::Draft;
use allot_tools::seats::{self, Format, caches, side};

/// Arguments of `allot seats load`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The seating plan.
    #[arg(required_unless_present = "from_redis")]
    file: Option<PathBuf>,
    /// Key of the show to create.
    #[arg(long)]
    key: String,
    /// Format of the file; guessed from its name and content when absent.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// JSON file with priorities, rules and names of areas, corrections of seats, and limits.
    #[arg(long, value_name = "FILE")]
    side: Option<PathBuf>,
    /// Number rows (and seats in a row) of one name instead of refusing them.
    #[arg(long)]
    disambiguate: bool,
    /// Print areas, tiers, counts and problems, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Build the show from the caches of an existing system, on the same server or on another.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "",
          conflicts_with_all = ["file", "format"])]
    from_redis: Option<String>,
    #[command(flatten)]
    caches: caches::Names,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let mut draft = read(&arguments).await?;
    if arguments.disambiguate {
        draft.disambiguate();
    }
    if let Some(path) = &arguments.side {
        let text = read_file(path)?;
        side::read(&text)
            .and_then(|side| side.apply(&mut draft))
            .with_context(|| path.display().to_string())?;
    }
    let built = draft.build();
    if arguments.dry_run || built.is_err() {
        out!("{}", Summary(&draft));
    }
    let show = match built {
        Ok(show) => show,
        Err(found) => {
            errln!("{}", problems(&found).trim_end());
            return Ok(Outcome::InputRefused);
        }
    };
    if !draft.notes.is_empty() {
        errln!("{}", notes(&draft.notes).trim_end());
    }
    if arguments.dry_run {
        outln!("dry run: nothing was changed");
        return Ok(Outcome::Done);
    }
    let text = show.plan_json();
    let connection = arguments.redis.connect(&arguments.key).await?;
    let bar = progress::unknown("marking sold seats");
    seats::create(connection, &arguments.key, &text, &draft, &mut |done, all| progress::at(&bar, done, all))
        .await?;
    bar.finish_and_clear();
    out!("{}", Summary(&draft));
    outln!("loaded as '{}'", arguments.key);
    Ok(Outcome::Done)
}

async fn read(arguments: &Arguments) -> Result<Draft> {
    if let Some(url) = &arguments.from_redis {
        let mut connection = if url.is_empty() {
            arguments.redis.connect(arguments.caches.first_key()).await?
        } else {
            allot_client::connect(url).await?
        };
        let bar = progress::unknown("reading the caches");
        let mut draw = |done, all| progress::at(&bar, done, all);
        let draft = caches::read(&mut connection, &arguments.caches, &mut draw).await;
        bar.finish_and_clear();
        return draft;
    }
    let Some(path) = &arguments.file else { bail!("name a file, or --from-redis") };
    let text = read_file(path)?;
    let format = arguments.format.map_or_else(|| Format::guess(path, &text), Ok)?;
    format.read(&text).with_context(|| path.display().to_string())
}

fn read_file(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
