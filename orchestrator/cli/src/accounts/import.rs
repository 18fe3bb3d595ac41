//! `allot accounts import`: compares a file with a book, prints the difference, and makes the book equal to the
//! file. Each step is one command that succeeds or is refused as a whole, so an interrupted import can simply be
//! repeated.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use indicatif::ProgressBar;
use redis::Value;
use xxhash_rust::xxh3::Xxh3;

use crate::outcome::Outcome;
use crate::progress;
use crate::sources::BookSource;
use crate::terminal::{errln, outln};
use allot_client::{BookStore, Record};
use allot_console::{Import, Imported, Refusal};
use allot_coordination::Coordinator;
use allot_tools::accounts::file::{self, Contents, Problems, Tariff};
use allot_tools::accounts::module_settings::ModuleSettings;
use allotd::config::Config;

/// Most accounts in one command.
const CHUNK: usize = 1000;
/// Most accounts that are printed; further ones are only counted.
const SHOWN: usize = 20;
/// Time limit for the console to notify the leader: a person waits for the answer.
const NOTIFY_LIMIT: Duration = Duration::from_secs(2);

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

/// The difference between file and book.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Difference {
    /// New modules.
    new_modules: Vec<ModuleChange>,
    /// Modules that move to another department, or have other settings.
    changed_modules: Vec<ModuleChange>,
    /// New accounts, by module and tariff.
    added: BTreeMap<(String, Tariff), Vec<String>>,
    /// Accounts that move to another module, by that module.
    moved: BTreeMap<String, Vec<String>>,
    /// Accounts that rebalancing has lent to another module of their department; they stay there.
    lent: Vec<String>,
    /// Accounts that are not in the file.
    absent: Vec<String>,
    /// Accounts whose tariff in the book differs from the file.
    differ: Vec<String>,
}

/// A module as the file has it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ModuleChange {
    module: String,
    department: String,
    /// Whether the book has the module in another department.
    moves: bool,
    /// The settings that the file names, and the places.
    settings: ModuleSettings,
}

/// Runs an import.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let path = arguments.file.display();
    let text = fs::read_to_string(&arguments.file).with_context(|| format!("cannot read {path}"))?;
    let contents = file::read(&text).with_context(|| path.to_string())?;
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
    let (exists, difference) = compare_with_book(&book, &contents, arguments.instances).await?;
    describe(&difference, arguments.delete).iter().for_each(|line| outln!("{line}"));
    if arguments.dry_run {
        outln!("dry run: nothing was changed");
        return Ok(Outcome::Done);
    }
    let bar = progress::bar(changes(&difference, arguments.delete), "importing");
    let applied = apply(&book, exists, &difference, arguments.delete, &bar).await;
    bar.finish_and_clear();
    if applied? > 0 {
        super::session::notify(&config).await?;
    }
    outln!("done");
    Ok(if difference.differ.is_empty() { Outcome::Done } else { Outcome::CheckFailed })
}

/// Imports a table for the console, or says what would change. The book of `config` has a leader, which is notified by
/// this session.
pub(crate) async fn import_table(
    config: &Config,
    coordinator: &Coordinator,
    book: &BookStore,
    key: &str,
    wanted: &Import,
) -> Result<Imported> {
    let contents = file::read(&wanted.table).map_err(|error| Refusal::Wrong(format!("{error:#}")))?;
    let Problems { first, count } = &contents.problems;
    if *count > 0 {
        let why = format!("{count} problems in the table: {}", first.join("; "));
        return Err(Refusal::Wrong(why).into());
    }
    let (exists, difference) = compare_with_book(book, &contents, wanted.instances).await?;
    let mut imported = Imported {
        lines: describe(&difference, wanted.delete),
        changes: changes(&difference, wanted.delete),
        applied: false,
        comparison: digest(&difference, wanted.delete),
        warning: None,
    };
    if wanted.dry_run {
        return Ok(imported);
    }
    // Among the changes may be accounts to delete, which the operator has not seen.
    if wanted.seen.as_ref().is_some_and(|seen| *seen != imported.comparison) {
        let why = "the book has changed since the comparison, and nothing was imported; compare again";
        return Err(Refusal::Conflict(why.to_owned()).into());
    }
    imported.changes = apply(book, exists, &difference, wanted.delete, &ProgressBar::hidden())
        .await
        .context("the import was interrupted, and a part of the changes may be made; repeat it")?;
    imported.applied = true;
    if imported.changes > 0 && key == config.accounts.book {
        // The changes are made: what fails from here on is no failure of the import.
        let notified = super::session::notify_by(coordinator, config, NOTIFY_LIMIT).await;
        imported.warning = notified.err().map(|error| format!("{error:#}"));
    }
    Ok(imported)
}

/// A digest of what an import would change.
fn digest(difference: &Difference, delete: bool) -> String {
    let mut hasher = Xxh3::new();
    (difference, delete).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether the book exists, and its difference from a file. Creates nothing, not even the book.
async fn compare_with_book(book: &BookStore, contents: &Contents, places: u32) -> Result<(bool, Difference)> {
    let exists = book.ask::<u64>(&book.begin("EXISTS")).await? > 0;
    let (modules, accounts) =
        if exists { (book.modules().await?, book.accounts(None).await?) } else { (Vec::new(), Vec::new()) };
    Ok((exists, compare(contents, &modules, &accounts, places)?))
}

/// Compares a file with a book. `places` is for new modules that name none.
fn compare(contents: &Contents, modules: &[Record], accounts: &[Record], places: u32) -> Result<Difference> {
    let mut difference = Difference::default();
    let mut known = BTreeMap::new();
    for record in modules {
        let (name, department): (String, String) = (record.get("module")?, record.get("department")?);
        // Within a department, rebalancing moves accounts between modules that have a weight.
        let shares = record.get::<u32>("weight")? > 0;
        known.insert(name, (department, ModuleSettings::of(record), shares));
    }
    for (module, line) in &contents.modules {
        let change = |places: &str, moves| ModuleChange {
            module: module.clone(),
            department: line.department.clone(),
            moves,
            settings: line.settings.clone().with_places(places),
        };
        match known.get(module) {
            None => difference.new_modules.push(change(&places.to_string(), false)),
            Some((department, settings, _)) => {
                let moves = *department != line.department;
                if moves || !line.settings.is_part_of(settings) {
                    difference.changed_modules.push(change(settings.places(), moves));
                }
            }
        }
    }
    let mut there = BTreeMap::new();
    for record in accounts {
        let tariff = Tariff { quota: record.get("quota")?, tiers: record.get("tiers")? };
        there.insert(record.get::<String>("account")?, (record.get::<String>("module")?, tariff));
    }
    for (account, line) in &contents.accounts {
        match there.remove(account) {
            None => {
                let tariff = (line.module.clone(), line.tariff.clone());
                difference.added.entry(tariff).or_default().push(account.clone());
            }
            Some((module, tariff)) => {
                let department = contents.modules.get(&line.module).map(|line| &line.department);
                let shares = |module: &String| {
                    known.get(module).is_some_and(|(of, _, shares)| *shares && Some(of) == department)
                };
                if module != line.module && shares(&module) && shares(&line.module) {
                    difference.lent.push(account.clone());
                } else if module != line.module {
                    difference.moved.entry(line.module.clone()).or_default().push(account.clone());
                }
                if tariff != line.tariff {
                    difference.differ.push(account.clone());
                }
            }
        }
    }
    difference.absent = there.into_keys().collect();
    Ok(difference)
}

/// The difference in words, one line for each kind of change.
fn describe(difference: &Difference, delete: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for ModuleChange { module, department, settings, .. } in &difference.new_modules {
        lines.push(format!("+ module {module} of {department}, {} places", settings.places()));
    }
    for ModuleChange { module, department, moves, settings } in &difference.changed_modules {
        if *moves {
            lines.push(format!("~ module {module} goes to {department}"));
        } else {
            lines.push(format!("~ module {module} gets {}", settings.arguments().join(" ")));
        }
    }
    for ((module, tariff), accounts) in &difference.added {
        let tiers = file::tiers_of(&tariff.tiers);
        let tiers = if tiers.is_empty() { String::new() } else { format!(", tiers {tiers}") };
        lines.push(format!(
            "+ {} accounts for {module}, quota {}{tiers}: {}",
            accounts.len(),
            tariff.quota,
            some(accounts)
        ));
    }
    for (module, accounts) in &difference.moved {
        lines.push(format!("~ {} accounts go to {module}: {}", accounts.len(), some(accounts)));
    }
    if !difference.lent.is_empty() {
        lines.push(format!(
            "  {} accounts are with another module of their department and stay there, since rebalancing moves them: {}",
            difference.lent.len(),
            some(&difference.lent)
        ));
    }
    let (count, absent) = (difference.absent.len(), some(&difference.absent));
    if count > 0 && delete {
        lines.push(format!("- {count} accounts are deleted: {absent}"));
    } else if count > 0 {
        lines.push(format!(
            "  {count} accounts are not in the file and stay (--delete takes them away): {absent}"
        ));
    }
    if !difference.differ.is_empty() {
        lines.push(format!(
            "! {} accounts are there with another quota or other tiers, which `allot accounts tariff` changes: {}",
            difference.differ.len(),
            some(&difference.differ)
        ));
    }
    lines
}

fn some(accounts: &[String]) -> String {
    let names = accounts.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    if accounts.len() > SHOWN { format!("{names} ...") } else { names }
}

/// How many modules and accounts an import changes.
fn changes(difference: &Difference, delete: bool) -> u64 {
    let count = |accounts: &Vec<String>| accounts.len() as u64;
    let modules = difference.new_modules.len() + difference.changed_modules.len();
    let absent = if delete { difference.absent.len() } else { 0 };
    modules as u64
        + difference.added.values().map(count).sum::<u64>()
        + difference.moved.values().map(count).sum::<u64>()
        + absent as u64
}

/// Applies the difference, and creates the book if it does not exist. Returns how many changes were made.
async fn apply(
    book: &BookStore,
    exists: bool,
    difference: &Difference,
    delete: bool,
    bar: &ProgressBar,
) -> Result<u64> {
    if !exists {
        book.book().await?;
    }
    let absent = if delete { difference.absent.as_slice() } else { &[] };
    for change in difference.new_modules.iter().chain(&difference.changed_modules) {
        let mut command = book.begin("ACCOUNT.MODULE");
        command.arg(&change.module).arg("DEPARTMENT").arg(&change.department);
        command.arg(change.settings.arguments());
        book.ask::<Value>(&command).await?;
        bar.inc(1);
    }
    for ((module, tariff), accounts) in &difference.added {
        let steps = tariff.step_arguments();
        for some in accounts.chunks(CHUNK) {
            let mut command = book.begin("ACCOUNT.ADD");
            command.arg(module).arg("QUOTA").arg(tariff.quota);
            if !steps.is_empty() {
                command.arg("TIERS").arg(steps.len() / 2).arg(&steps);
            }
            book.ask::<Value>(command.arg("ACCOUNTS").arg(some.len()).arg(some)).await?;
            bar.inc(some.len() as u64);
        }
    }
    for (module, accounts) in &difference.moved {
        for some in accounts.chunks(CHUNK) {
            book.ask::<Value>(book.begin("ACCOUNT.MOVE").arg(module).arg(some.len()).arg(some)).await?;
            bar.inc(some.len() as u64);
        }
    }
    for some in absent.chunks(CHUNK) {
        book.ask::<Value>(book.begin("ACCOUNT.DEL").arg(some.len()).arg(some)).await?;
        bar.inc(some.len() as u64);
    }
    Ok(changes(difference, delete))
}
