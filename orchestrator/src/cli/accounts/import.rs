//! `allotd accounts import`: compares a file with a book, prints the difference, and makes the book equal to the
//! file. Each step is one command that succeeds or is refused as a whole, so an interrupted import can simply be
//! repeated.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use redis::Value;

use super::file::{self, Contents, Tariff};
use crate::cli::outcome::Outcome;
use crate::cli::progress;
use crate::cli::terminal::{errln, outln};
use crate::config::BookSource;
use allot_client::{BookStore, Record};

/// Most accounts in one command.
const CHUNK: usize = 1000;
/// Most problems and accounts that are printed; further ones are only counted.
const SHOWN: usize = 20;

/// The options of an import.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A table (CSV) with the columns department, module, account, quota and tiers (`UPTO:PRICE ...`).
    file: PathBuf,
    #[command(flatten)]
    source: BookSource,
    /// Print the difference, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Also delete accounts that the file does not have.
    #[arg(long)]
    delete: bool,
    /// Places of modules that are new: how many of their instances hold a share at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    instances: u32,
}

/// The difference between file and book.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// New modules, each with its department.
    new_modules: Vec<(String, String)>,
    /// Modules that move to another department, each with that department and its number of places.
    moved_modules: Vec<(String, String, u32)>,
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

/// Runs an import.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let path = arguments.file.display();
    let text = fs::read_to_string(&arguments.file).with_context(|| format!("cannot read {path}"))?;
    let contents = file::read(&text).with_context(|| path.to_string())?;
    if !contents.problems.is_empty() {
        let count = contents.problems.len();
        errln!("{count} {} in {path}:", if count == 1 { "problem" } else { "problems" });
        contents.problems.iter().take(SHOWN).for_each(|problem| errln!("  {problem}"));
        if count > SHOWN {
            errln!("  ... and {} more", count - SHOWN);
        }
        return Ok(Outcome::InputRefused);
    }
    let (config, book) = super::session::open(&arguments.source).await?;
    // A dry run creates nothing, not even the book.
    let exists: u64 = book.ask(&book.begin("EXISTS")).await?;
    let (modules, accounts) = if exists == 0 {
        (Vec::new(), Vec::new())
    } else {
        (book.modules().await?, book.accounts(None).await?)
    };
    let difference = compare(&contents, &modules, &accounts)?;
    print(&difference, &arguments);
    if arguments.dry_run {
        outln!("dry run: nothing was changed");
        return Ok(Outcome::Done);
    }
    if exists == 0 {
        book.book().await?;
    }
    if apply(&book, &difference, &arguments).await? > 0 {
        super::session::notify(&config).await?;
    }
    outln!("done");
    Ok(if difference.differ.is_empty() { Outcome::Done } else { Outcome::CheckFailed })
}

fn compare(contents: &Contents, modules: &[Record], accounts: &[Record]) -> Result<Difference> {
    let mut difference = Difference::default();
    let mut known = BTreeMap::new();
    for record in modules {
        let (name, department): (String, String) = (record.get("module")?, record.get("department")?);
        // Within a department, rebalancing moves accounts between modules that have a weight.
        let shares = record.get::<u32>("weight")? > 0;
        known.insert(name, (department, record.get::<u32>("instances")?, shares));
    }
    for (module, (department, _)) in &contents.modules {
        match known.get(module) {
            None => difference.new_modules.push((module.clone(), department.clone())),
            Some((other, places, _)) if other != department => {
                difference.moved_modules.push((module.clone(), department.clone(), *places));
            }
            Some(_) => {}
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
                let department = contents.modules.get(&line.module).map(|(department, _)| department);
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

fn print(difference: &Difference, arguments: &Arguments) {
    for (module, department) in &difference.new_modules {
        outln!("+ module {module} of {department}, {} places", arguments.instances);
    }
    for (module, department, _) in &difference.moved_modules {
        outln!("~ module {module} goes to {department}");
    }
    for ((module, tariff), accounts) in &difference.added {
        let tiers = file::tiers_of(&tariff.tiers);
        let tiers = if tiers.is_empty() { String::new() } else { format!(", tiers {tiers}") };
        outln!(
            "+ {} accounts for {module}, quota {}{tiers}: {}",
            accounts.len(),
            tariff.quota,
            some(accounts)
        );
    }
    for (module, accounts) in &difference.moved {
        outln!("~ {} accounts go to {module}: {}", accounts.len(), some(accounts));
    }
    if !difference.lent.is_empty() {
        outln!(
            "  {} accounts are with another module of their department and stay there, since rebalancing moves them: {}",
            difference.lent.len(),
            some(&difference.lent)
        );
    }
    let (count, absent) = (difference.absent.len(), some(&difference.absent));
    if count > 0 && arguments.delete {
        outln!("- {count} accounts are deleted: {absent}");
    } else if count > 0 {
        outln!("  {count} accounts are not in the file and stay (--delete takes them away): {absent}");
    }
    if !difference.differ.is_empty() {
        outln!(
            "! {} accounts are there with another quota or other tiers, which cannot be changed while they are there: {}",
            difference.differ.len(),
            some(&difference.differ)
        );
    }
}

fn some(accounts: &[String]) -> String {
    let names = accounts.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    if accounts.len() > SHOWN { format!("{names} ...") } else { names }
}

/// Applies the difference. Returns how many changes were made.
async fn apply(book: &BookStore, difference: &Difference, arguments: &Arguments) -> Result<u64> {
    let count = |accounts: &Vec<String>| accounts.len() as u64;
    let absent = if arguments.delete { difference.absent.as_slice() } else { &[] };
    let modules = difference.new_modules.len() + difference.moved_modules.len();
    let total = modules as u64
        + difference.added.values().map(count).sum::<u64>()
        + difference.moved.values().map(count).sum::<u64>()
        + absent.len() as u64;
    let bar = progress::bar(total, "importing");
    let new =
        difference.new_modules.iter().map(|(module, department)| (module, department, arguments.instances));
    let moved =
        difference.moved_modules.iter().map(|(module, department, places)| (module, department, *places));
    for (module, department, places) in new.chain(moved) {
        let mut command = book.begin("ACCOUNT.MODULE");
        command.arg(module).arg("DEPARTMENT").arg(department).arg("INSTANCES").arg(places);
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
    bar.finish_and_clear();
    Ok(total)
}
