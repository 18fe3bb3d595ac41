//! Compares a table with a book, and makes the book equal to the table. Each step is one command that succeeds or is refused
//! as a whole, so an interrupted import can simply be repeated.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use allot_client::{BookStore, Error, Record};
use allot_coordination::{Coordinator, Kind};
use redis::Value;
use xxhash_rust::xxh3::Xxh3;

use super::file::{self, Contents, Tariff};
use super::module_settings::ModuleSettings;

/// Most accounts in one command.
const CHUNK: usize = 1000;
/// Most accounts that are named in a line; further ones are only counted.
const SHOWN: usize = 20;

/// The difference between a table and a book.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Difference {
    /// Whether the book does not exist yet.
    creates: bool,
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
    /// Accounts that are not in the table.
    absent: Vec<String>,
    /// Accounts that get another tariff, by that tariff.
    repriced: BTreeMap<Tariff, Vec<String>>,
}

/// A module as the table has it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ModuleChange {
    module: String,
    department: String,
    /// Whether the book has the module in another department.
    moves: bool,
    /// The settings that the table names, and the places.
    settings: ModuleSettings,
}

impl Difference {
    /// The difference from a book. `places` is for new modules that name none. Creates nothing, not even the book.
    pub async fn from_book(book: &BookStore, contents: &Contents, places: u32) -> Result<Self, Error> {
        let exists = book.ask::<u64>(&book.begin("EXISTS")).await? > 0;
        let (modules, accounts) = if exists {
            (book.modules().await?, book.accounts(None).await?)
        } else {
            (Vec::new(), Vec::new())
        };
        Ok(Self { creates: !exists, ..compare(contents, &modules, &accounts, places)? })
    }

    /// A digest of what an import would change.
    pub fn digest(&self, delete: bool) -> String {
        let mut hasher = Xxh3::new();
        (self, delete).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// How many accounts the book has and the table has not.
    pub fn absent(&self) -> usize {
        self.absent.len()
    }

    /// How many modules and accounts are created, and how many are changed.
    pub fn counts(&self) -> (u64, u64) {
        let count = |accounts: &Vec<String>| accounts.len() as u64;
        let created = self.new_modules.len() as u64 + self.added.values().map(count).sum::<u64>();
        (created, self.changes(false) - created)
    }

    /// How many modules and accounts an import changes. `delete` also deletes accounts that the table does not have.
    pub fn changes(&self, delete: bool) -> u64 {
        let count = |accounts: &Vec<String>| accounts.len() as u64;
        let modules = self.new_modules.len() + self.changed_modules.len();
        let absent = if delete { self.absent.len() } else { 0 };
        modules as u64
            + self.added.values().map(count).sum::<u64>()
            + self.moved.values().map(count).sum::<u64>()
            + self.repriced.values().map(count).sum::<u64>()
            + absent as u64
    }

    /// The difference in words, one line for each kind of change.
    pub fn lines(&self, delete: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for ModuleChange { module, department, settings, .. } in &self.new_modules {
            lines.push(format!("+ module {module} of {department}, {} places", settings.places()));
        }
        for ModuleChange { module, department, moves, settings } in &self.changed_modules {
            if *moves {
                lines.push(format!("~ module {module} goes to {department}"));
            } else {
                lines.push(format!("~ module {module} gets {}", settings.arguments().join(" ")));
            }
        }
        for ((module, tariff), accounts) in &self.added {
            let (count, some) = (accounts.len(), some(accounts));
            let (quota, tiers) = (tariff.quota, tiers(tariff));
            lines.push(format!("+ {count} accounts for {module}, quota {quota}{tiers}: {some}"));
        }
        for (module, accounts) in &self.moved {
            lines.push(format!("~ {} accounts go to {module}: {}", accounts.len(), some(accounts)));
        }
        for (tariff, accounts) in &self.repriced {
            let (count, some) = (accounts.len(), some(accounts));
            lines.push(format!("~ {count} accounts get quota {}{}: {some}", tariff.quota, tiers(tariff)));
        }
        if !self.lent.is_empty() {
            lines.push(format!(
                "  {} accounts are with another module of their department and stay there, since rebalancing moves them: {}",
                self.lent.len(),
                some(&self.lent)
            ));
        }
        let (count, absent) = (self.absent.len(), some(&self.absent));
        if count > 0 && delete {
            lines.push(format!("- {count} accounts are deleted: {absent}"));
        } else if count > 0 {
            lines.push(format!(
                "  {count} accounts are not in the file and stay (--prune deletes them): {absent}"
            ));
        }
        lines
    }

    /// Makes the changes, and creates the book if it does not exist. Tells `done` how many changes each command has made, and
    /// returns how many were made.
    pub async fn apply(
        &self,
        book: &BookStore,
        delete: bool,
        done: impl Fn(u64) + Send,
    ) -> Result<u64, Error> {
        if self.creates {
            book.book().await?;
        }
        let absent = if delete { self.absent.as_slice() } else { &[] };
        for change in self.new_modules.iter().chain(&self.changed_modules) {
            let mut command = book.begin("ACCOUNT.MODULE");
            command.arg(&change.module).arg("DEPARTMENT").arg(&change.department);
            command.arg(change.settings.arguments());
            book.ask::<Value>(&command).await?;
            done(1);
        }
        for ((module, tariff), accounts) in &self.added {
            for some in accounts.chunks(CHUNK) {
                let mut command = book.begin("ACCOUNT.ADD");
                priced(command.arg(module), tariff);
                book.ask::<Value>(command.arg("ACCOUNTS").arg(some.len()).arg(some)).await?;
                done(some.len() as u64);
            }
        }
        for (module, accounts) in &self.moved {
            for some in accounts.chunks(CHUNK) {
                book.ask::<Value>(book.begin("ACCOUNT.MOVE").arg(module).arg(some.len()).arg(some)).await?;
                done(some.len() as u64);
            }
        }
        for (tariff, accounts) in &self.repriced {
            for some in accounts.chunks(CHUNK) {
                let mut command = book.begin("ACCOUNT.TARIFF");
                priced(&mut command, tariff);
                book.ask::<Value>(command.arg("ACCOUNTS").arg(some.len()).arg(some)).await?;
                done(some.len() as u64);
            }
        }
        for some in absent.chunks(CHUNK) {
            book.ask::<Value>(book.begin("ACCOUNT.DEL").arg(some.len()).arg(some)).await?;
            done(some.len() as u64);
        }
        Ok(self.changes(delete))
    }
}

/// Compares a table with a book. `places` is for new modules that name none.
fn compare(
    contents: &Contents,
    modules: &[Record],
    accounts: &[Record],
    places: u32,
) -> Result<Difference, Error> {
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
                    difference.repriced.entry(line.tariff.clone()).or_default().push(account.clone());
                }
            }
        }
    }
    difference.absent = there.into_keys().collect();
    Ok(difference)
}

/// The arguments of a tariff.
fn priced(command: &mut redis::Cmd, tariff: &Tariff) {
    command.arg("QUOTA").arg(tariff.quota);
    let steps = tariff.step_arguments();
    if !steps.is_empty() {
        command.arg("TIERS").arg(steps.len() / 2).arg(&steps);
    }
}

fn tiers(tariff: &Tariff) -> String {
    let tiers = file::tiers_of(&tariff.tiers);
    if tiers.is_empty() { String::new() } else { format!(", tiers {tiers}") }
}

fn some(accounts: &[String]) -> String {
    let names = accounts.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    if accounts.len() > SHOWN { format!("{names} ...") } else { names }
}

/// Notifies the leader, by the node that it watches, that the inventory has changed. Without the notification the leader
/// notices some seconds later.
pub async fn notify(
    coordinator: &Coordinator,
    node: &str,
    limit: Duration,
) -> Result<(), allot_coordination::Error> {
    use allot_coordination::Error::{BadVersion, Exists, NoNode, Offline};
    let raised = async {
        coordinator.up_within(limit).await?;
        let tree = coordinator.tree();
        loop {
            let raised = if let Some(found) = tree.get(node).await? {
                tree.set(node, &found.data, found.version).await.map(drop)
            } else {
                tree.ensure(node.rsplit_once('/').map_or("", |(parent, _)| parent)).await?;
                tree.create(node, b"", Kind::Persistent).await
            };
            match raised {
                // Another process has changed the node at the same time.
                Err(BadVersion(_) | Exists(_) | NoNode(_)) => {}
                raised => return raised,
            }
        }
    };
    tokio::time::timeout(limit, raised).await.unwrap_or(Err(Offline))
}
