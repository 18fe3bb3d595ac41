//! `allot seats load`: creates a show on the server from a file or from caches.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use redis::cmd;

use super::draft::Draft;
use super::summary::{Summary, notes, problems};
use super::{caches, csv, plan, pretix, side};
use crate::outcome::Outcome;
use crate::progress;
use crate::sources::RedisSource;
use crate::terminal::{errln, out, outln};
use allot_client::{Connection, PickRequest, SeatStore, query};
use allot_core::seat::plan::Limits;

/// Order reference of the seats that were sold before the import.
const IMPORTED: &str = "imported";
/// A hold has at most this many seats.
const MAX_COUNT: usize = 100;
/// Seconds until a half-prepared show expires, in case this process is killed.
const PREPARATION_S: u64 = 3600;

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

/// A format of seating plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The module's own, JSON.
    Plan,
    /// A seating plan of pretix, JSON.
    Pretix,
    /// A table: area,row,seat,tier and perhaps break_after and id.
    Csv,
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
    let sold = draft.sold();
    if sold.is_empty() {
        SeatStore::new(connection, &arguments.key).create(&text).await?;
    } else {
        let chunk = seats_per_hold(draft.limits);
        open_with_sold(connection, &arguments.key, &text, &sold, chunk, hold_ms(draft.limits)).await?;
    }
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
        return caches::read(&mut connection, &arguments.caches).await;
    }
    let Some(path) = &arguments.file else { bail!("name a file, or --from-redis") };
    let text = read_file(path)?;
    let format = arguments.format.map_or_else(|| guess(path, &text), Ok)?;
    let draft = match format {
        Format::Plan => plan::read(&text),
        Format::Pretix => pretix::read(&text),
        Format::Csv => csv::read(&text),
    };
    draft.with_context(|| path.display().to_string())
}

fn read_file(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The format of a file: by its extension, and of JSON by its first level.
fn guess(path: &Path, text: &str) -> Result<Format> {
    let extension = path.extension().map(OsStr::to_ascii_lowercase);
    if extension.is_some_and(|extension| extension == "csv") {
        return Ok(Format::Csv);
    }
    if !text.trim_start().starts_with('{') {
        let header = text.lines().next().unwrap_or_default().to_ascii_lowercase();
        if header.contains("area") && header.contains(',') {
            return Ok(Format::Csv);
        }
        bail!("{}: neither JSON nor a table; --format says what it is", path.display());
    }
    let json: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).with_context(|| format!("{}: not JSON", path.display()))?;
    if json.contains_key("zones") {
        Ok(Format::Pretix)
    } else if json.contains_key("areas") || json.contains_key("plan") {
        Ok(Format::Plan)
    } else {
        bail!("{}: JSON without 'areas' (a plan) or 'zones' (pretix)", path.display())
    }
}

/// The most seats of a hold under the show's own limits.
fn seats_per_hold(limits: Limits) -> usize {
    let limit = limits.seats_per_user as usize;
    if limit == 0 { MAX_COUNT } else { limit.min(MAX_COUNT) }
}

/// The longest time to live of a hold under the show's own limits.
fn hold_ms(limits: Limits) -> u64 {
    if limits.max_hold_ms == 0 { 60_000 } else { limits.max_hold_ms.min(60_000) }
}

/// Creates a show in which some seats are sold before any client can see it: the show is prepared under another
/// name in the same slot, and renamed when all these seats are sold.
async fn open_with_sold(
    mut connection: Connection,
    key: &str,
    plan: &str,
    sold: &[String],
    chunk: usize,
    ttl_ms: u64,
) -> Result<()> {
    let exists: bool = query(&mut connection, cmd("EXISTS").arg(key)).await?;
    if exists {
        bail!("key '{key}' exists already; caches are loaded into a new show only");
    }
    let draft_key = format!("{{{}}}:load:{:016x}", hash_tag(key), rand::random::<u64>());
    let show = SeatStore::new(connection.clone(), &draft_key);
    let prepared = prepare(&mut connection, &show, &draft_key, plan, sold, chunk, ttl_ms).await;
    let renamed = match prepared {
        Ok(()) => {
            // In one step, so that the finished show cannot keep the expiry of the one in preparation.
            let mut step = redis::pipe();
            step.atomic().cmd("PERSIST").arg(&draft_key).ignore();
            step.cmd("RENAMENX").arg(&draft_key).arg(key);
            let outcome: redis::RedisResult<(bool,)> = step.query_async(&mut connection).await;
            outcome
                .map(|(renamed,)| renamed)
                .map_err(|error| allot_client::Error::of(&cmd("RENAMENX"), error).into())
        }
        Err(error) => Err(error),
    };
    if !matches!(renamed, Ok(true)) {
        let removed: Result<u64, allot_client::Error> =
            query(&mut connection, cmd("UNLINK").arg(&draft_key)).await;
        if let Err(error) = removed {
            tracing::warn!(%error, key = draft_key, "the half-prepared show could not be removed");
        }
    }
    if renamed? {
        Ok(())
    } else {
        bail!("key '{key}' was created by another client meanwhile; nothing was changed")
    }
}

async fn prepare(
    connection: &mut Connection,
    show: &SeatStore,
    key: &str,
    plan: &str,
    sold: &[String],
    chunk: usize,
    ttl_ms: u64,
) -> Result<()> {
    show.create(plan).await?;
    let _: u64 = query(connection, cmd("EXPIRE").arg(key).arg(PREPARATION_S)).await?;
    let bar = progress::bar(sold.len() as u64, "marking sold seats");
    for (seats, number) in sold.chunks(chunk.max(1)).zip(1..) {
        // Each hold has a user of its own, so that limits per user do not apply.
        let user = format!("{IMPORTED}-{number}");
        let orphans = Some("ALLOW");
        let request = PickRequest { user: &user, ttl_ms, seats, orphans, ..PickRequest::default() };
        let hold = show.pick(&request).await?;
        show.confirm(&hold.token, Some(IMPORTED)).await?;
        bar.inc(seats.len() as u64);
    }
    bar.finish_and_clear();
    let counted: u64 = show.stat(None, None).await?.iter().map(|bucket| bucket.sold).sum();
    if counted != sold.len() as u64 {
        bail!("{} seats were to be sold and {counted} are; nothing was opened", sold.len());
    }
    Ok(())
}

/// The part of a key that determines its slot.
fn hash_tag(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_guessed_from_name_and_content() {
        let guess = |name: &str, text: &str| super::guess(Path::new(name), text).map_err(|e| e.to_string());
        assert_eq!(guess("a.CSV", ""), Ok(Format::Csv));
        assert_eq!(guess("a", "Area,row\n"), Ok(Format::Csv));
        assert_eq!(guess("a.json", r#" {"zones":[]}"#), Ok(Format::Pretix));
        assert_eq!(guess("a.txt", r#"{"areas":[]}"#), Ok(Format::Plan));
        assert!(guess("a.json", "{}").unwrap_err().contains("'zones'"));
        assert!(guess("a.json", "{").unwrap_err().contains("not JSON"));
        assert!(guess("a.txt", "hello").unwrap_err().contains("--format"));
    }

    #[test]
    fn a_show_in_preparation_lives_in_the_slot_of_its_key() {
        assert_eq!(hash_tag("show"), "show");
        assert_eq!(hash_tag("{tour}:7"), "tour");
        assert_eq!(hash_tag("{}:7"), "{}:7");
        assert_eq!(hash_tag("a{b"), "a{b");
    }

    #[test]
    fn holds_for_import_keep_the_limits_of_the_show() {
        let free = Limits::default();
        assert_eq!((seats_per_hold(free), hold_ms(free)), (100, 60_000));
        let tight = Limits { seats_per_user: 6, max_hold_ms: 500, ..free };
        assert_eq!((seats_per_hold(tight), hold_ms(tight)), (6, 500));
    }
}
