//! `allot accounts import`: compares a file with a book, prints the difference, and makes the book equal to the file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::outcome::Outcome;
use crate::progress;
use crate::sources::BookSource;
use crate::terminal::{errln, outln};
use allot_tools::accounts::file::{Problems, read};
use allot_tools::accounts::import::Difference;

/// The options of an import.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A table (CSV) with the columns department, module, account, quota and tiers (`UPTO:PRICE ...`), and settings of
    /// modules.
    file: PathBuf,
    #[command(flatten)]
    source: BookSource,
    /// Print the difference, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Also delete accounts that the file does not have.
    #[arg(long)]
    delete: bool,
    /// Places of new modules for which the file names none: how many of their instances hold a share at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    instances: u32,
}

/// Runs an import.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let path = arguments.file.display();
    let text = fs::read_to_string(&arguments.file).with_context(|| format!("cannot read {path}"))?;
    let contents = read(&text).with_context(|| path.to_string())?;
    let Problems { first, count } = &contents.problems;
    if *count > 0 {
        errln!("{count} {} in {path}:", if *count == 1 { "problem" } else { "problems" });
        first.iter().for_each(|problem| errln!("  {problem}"));
        if *count > first.len() {
            errln!("  ... and {} more", count - first.len());
        }
        return Ok(Outcome::InputRefused);
    }
    let (config, book) = super::session::open(&arguments.source).await?;
    let difference = Difference::from_book(&book, &contents, arguments.instances).await?;
    difference.lines(arguments.delete).iter().for_each(|line| outln!("{line}"));
    if arguments.dry_run {
        outln!("dry run: nothing was changed");
        return Ok(Outcome::Done);
    }
    let bar = progress::bar(difference.changes(arguments.delete), "importing");
    let applied = difference.apply(&book, arguments.delete, |done| bar.inc(done)).await;
    bar.finish_and_clear();
    if applied? > 0 {
        super::session::notify(&config).await?;
    }
    outln!("done");
    Ok(if difference.has_other_tariffs() { Outcome::CheckFailed } else { Outcome::Done })
}
