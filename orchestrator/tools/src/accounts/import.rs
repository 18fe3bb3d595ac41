//! Compares a table with a book, and makes the book equal to the table. Each step is one command that succeeds or is refused
//! as a whole, so an interrupted import can simply be repeated.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use allot_client::{BookStore, Error, Record};
use allot_coordination::{Coordinator, Kind};
use redis::Value;
use xxhash_rust::xxh3::Xxh3;

use super::file::{self, Contents, Limits, Tariff};
use super::module_settings::ModuleSettings;

/// Most accounts in one command.
const CHUNK: usize = 1000;
/// Most accounts that are named in a line for people; further ones are only counted.
pub const SHOWN: usize = 20;

/// What becomes of modules or accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fate {
    Created,
    Changed,
    /// They are in the book and not in the table, and go only if that is wanted.
    Deleted,
    /// Rebalancing has lent them to another module of their department; they stay there.
    Lent,
}

/// A change of modules or accounts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Change {
    fate: Fate,
    /// What becomes of them, for people.
    said: String,
    /// Names of accounts.
    names: Vec<String>,
    /// The words of each command that makes the change, and how many it changes.
    commands: Vec<(Vec<String>, usize)>,
}

impl Change {
    /// A change of a module, by a command with its settings.
    fn module(fate: Fate, said: String, module: &str, department: &str, settings: &ModuleSettings) -> Self {
        let words = ["ACCOUNT.MODULE", module, "DEPARTMENT", department].map(str::to_owned);
        let words = words.into_iter().chain(settings.arguments()).collect();
        Self { fate, said, names: Vec::new(), commands: vec![(words, 1)] }
    }

    /// A change of accounts, by commands that begin with these words and name the accounts.
    fn accounts(fate: Fate, said: &str, words: &[String], accounts: &[String]) -> Self {
        let command = |some: &[String]| ([words, &[some.len().to_string()], some].concat(), some.len());
        Self {
            fate,
            said: format!("{} accounts {said}", accounts.len()).trim_end().to_owned(),
            names: accounts.to_vec(),
            commands: accounts.chunks(CHUNK).map(command).collect(),
        }
    }

    /// Names of at most so many accounts, after a colon, and how many more there are.
    fn named(&self, most: usize) -> String {
        if self.names.is_empty() {
            return String::new();
        }
        let names = self.names.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(" ");
        match self.names.len().saturating_sub(most) {
            0 => format!(": {names}"),
            more => format!(": {names} and {more} more"),
        }
    }

    fn count(&self) -> usize {
        self.commands.iter().map(|(_, count)| count).sum()
    }
}

/// The difference between a table and a book.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Difference {
    /// Whether the book does not exist yet.
    creates: bool,
    changes: Vec<Change>,
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
        Ok(Self { creates: !exists, changes: compare(contents, &modules, &accounts, places)? })
    }

    /// A digest of what an import would change.
    pub fn digest(&self, delete: bool) -> String {
        let mut hasher = Xxh3::new();
        (self, delete).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    fn count(&self, fate: Fate) -> u64 {
        self.changes.iter().filter(|change| change.fate == fate).map(|change| change.count() as u64).sum()
    }

    /// How many accounts the book has and the table has not.
    pub fn absent(&self) -> usize {
        self.count(Fate::Deleted) as usize
    }

    /// How many modules and accounts are created, and how many are changed.
    pub fn counts(&self) -> (u64, u64) {
        (self.count(Fate::Created), self.count(Fate::Changed))
    }

    /// The changes that an import makes. `delete` also deletes accounts that the table does not have.
    fn made(&self, delete: bool) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| match change.fate {
            Fate::Created | Fate::Changed => true,
            Fate::Deleted => delete,
            Fate::Lent => false,
        })
    }

    /// How many modules and accounts an import changes.
    pub fn changes(&self, delete: bool) -> u64 {
        self.made(delete).map(|change| change.count() as u64).sum()
    }

    /// The difference in words, one line for each kind of change, which names at most `most` accounts.
    pub fn lines(&self, delete: bool, most: usize) -> Vec<String> {
        let line = |change: &Change| {
            let (said, names) = (&change.said, change.named(most));
            match change.fate {
                Fate::Created => format!("+ {said}{names}"),
                Fate::Changed => format!("~ {said}{names}"),
                Fate::Deleted if delete => format!("- {said} to delete{names}"),
                Fate::Deleted => {
                    format!("  {said} are not in the file and stay (--prune deletes them){names}")
                }
                Fate::Lent => format!("  {said}{names}"),
            }
        };
        self.changes.iter().map(line).collect()
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
        for (words, count) in self.made(delete).flat_map(|change| &change.commands) {
            let Some((name, arguments)) = words.split_first() else { continue };
            book.ask::<Value>(book.begin(name).arg(arguments)).await?;
            done(*count as u64);
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
) -> Result<Vec<Change>, Error> {
    let mut known = BTreeMap::new();
    for record in modules {
        let (name, department): (String, String) = (record.get("module")?, record.get("department")?);
        // Within a department, rebalancing moves accounts between modules that have a weight.
        let shares = record.get::<u32>("weight")? > 0;
        known.insert(name, (department, ModuleSettings::of(record), shares));
    }
    let (mut created, mut changed) = (Vec::new(), Vec::new());
    for (module, line) in &contents.modules {
        let department = &line.department;
        match known.get(module) {
            None => {
                let settings = line.settings.clone().with_places(&places.to_string());
                let said = format!("module {module} of {department}, {} places", settings.places());
                created.push(Change::module(Fate::Created, said, module, department, &settings));
            }
            Some((before, current, _)) => {
                let settings = line.settings.clone().with_places(current.places());
                let said = if before != department {
                    format!("module {module} goes to {department}")
                } else if !line.settings.is_part_of(current) {
                    format!("module {module} gets {}", settings.arguments().join(" "))
                } else {
                    continue;
                };
                changed.push(Change::module(Fate::Changed, said, module, department, &settings));
            }
        }
    }
    let mut there = BTreeMap::new();
    for record in accounts {
        let tariff = Tariff { quota: record.get("quota")?, tiers: record.get("tiers")? };
        let limits = Limits { cap: Some(record.get("cap")?), turn: Some(record.get("turn")?) };
        there.insert(record.get::<String>("account")?, (record.get::<String>("module")?, tariff, limits));
    }
    let mut added: BTreeMap<(&str, &Tariff), Vec<String>> = BTreeMap::new();
    let mut moved: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut repriced: BTreeMap<&Tariff, Vec<String>> = BTreeMap::new();
    // Whether the accounts are new, and what they get.
    let mut limited: BTreeMap<(bool, Limits), Vec<String>> = BTreeMap::new();
    let mut lent = Vec::new();
    for (account, line) in &contents.accounts {
        let Some((module, tariff, limits)) = there.remove(account) else {
            added.entry((&line.module, &line.tariff)).or_default().push(account.clone());
            if line.limits != Limits::default() {
                limited.entry((true, line.limits)).or_default().push(account.clone());
            }
            continue;
        };
        let other = |wanted: Option<u64>, is: Option<u64>| wanted.filter(|_| wanted != is);
        let Limits { cap, turn } = line.limits;
        let limits = Limits { cap: other(cap, limits.cap), turn: other(turn, limits.turn) };
        if limits != Limits::default() {
            limited.entry((false, limits)).or_default().push(account.clone());
        }
        let department = contents.modules.get(&line.module).map(|line| &line.department);
        let shares = |module: &String| {
            known.get(module).is_some_and(|(of, _, shares)| *shares && Some(of) == department)
        };
        if module != line.module && shares(&module) && shares(&line.module) {
            lent.push(account.clone());
        } else if module != line.module {
            moved.entry(&line.module).or_default().push(account.clone());
        }
        if tariff != line.tariff {
            repriced.entry(&line.tariff).or_default().push(account.clone());
        }
    }
    let mut changes: Vec<Change> = created.into_iter().chain(changed).collect();
    for ((module, tariff), accounts) in &added {
        let words = [vec!["ACCOUNT.ADD".to_owned(), (*module).to_owned()], priced(tariff)].concat();
        let said = format!("for {module}, {}", tariff_text(tariff));
        changes.push(Change::accounts(Fate::Created, &said, &words, accounts));
    }
    for (module, accounts) in &moved {
        let words = ["ACCOUNT.MOVE", module].map(str::to_owned);
        changes.push(Change::accounts(Fate::Changed, &format!("go to {module}"), &words, accounts));
    }
    for (tariff, accounts) in &repriced {
        let words = [vec!["ACCOUNT.TARIFF".to_owned()], priced(tariff)].concat();
        let said = format!("get {}", tariff_text(tariff));
        changes.push(Change::accounts(Fate::Changed, &said, &words, accounts));
    }
    for ((new, limits), accounts) in &limited {
        let (arguments, fate) = (limits.arguments(), if *new { Fate::Created } else { Fate::Changed });
        let words =
            [vec!["ACCOUNT.LIMIT".to_owned()], arguments.clone(), vec!["ACCOUNTS".to_owned()]].concat();
        let mut change = Change::accounts(fate, &format!("get {}", arguments.join(" ")), &words, accounts);
        if *new {
            // They are counted as added already.
            change.commands.iter_mut().for_each(|(_, count)| *count = 0);
        }
        changes.push(change);
    }
    if !lent.is_empty() {
        let said = "are with another module of their department and stay there, since rebalancing moves them";
        changes.push(Change::accounts(Fate::Lent, said, &[], &lent));
    }
    let absent: Vec<String> = there.into_keys().collect();
    if !absent.is_empty() {
        changes.push(Change::accounts(Fate::Deleted, "", &["ACCOUNT.DEL".to_owned()], &absent));
    }
    Ok(changes)
}

/// The words of a tariff, before the accounts that get it.
fn priced(tariff: &Tariff) -> Vec<String> {
    let steps = tariff.step_arguments();
    let mut words = vec!["QUOTA".to_owned(), tariff.quota.to_string()];
    if !steps.is_empty() {
        words.extend(["TIERS".to_owned(), (steps.len() / 2).to_string()]);
        words.extend(steps.into_iter().map(str::to_owned));
    }
    words.push("ACCOUNTS".to_owned());
    words
}

fn tariff_text(tariff: &Tariff) -> String {
    let tiers = file::tiers_of(&tariff.tiers);
    let tiers = if tiers.is_empty() { String::new() } else { format!(", tiers {tiers}") };
    format!("quota {}{tiers}", tariff.quota)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &[(&str, &str)]) -> Record {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Record::read(Value::Map(fields.iter().map(|(name, value)| (text(name), text(value))).collect()))
            .unwrap()
    }

    fn account(name: &str, cap: &str, turn: &str) -> Record {
        let tariff = [("quota", "100"), ("tiers", "")];
        let fields = [("account", name), ("module", "m"), ("cap", cap), ("turn", turn)];
        record(&[fields.as_slice(), &tariff].concat())
    }

    fn compared(table: &str, accounts: &[Record]) -> Difference {
        let contents = file::read(table.as_bytes()).unwrap();
        let modules = [record(&[("module", "m"), ("department", "d"), ("weight", "1"), ("instances", "1")])];
        Difference { creates: false, changes: compare(&contents, &modules, accounts, 1).unwrap() }
    }

    #[test]
    fn accounts_get_the_limits_of_the_table_and_keep_what_it_does_not_say() {
        let table = "department,module,account,quota,account_cap,turn\n\
                     d,m,same,100,5,2\nd,m,silent,100,,\nd,m,other,100,6,2\nd,m,both,100,0,1\n\
                     d,m,new,100,7,\nd,m,plain,100,,\n";
        let there = ["same", "silent", "other", "both"].map(|name| account(name, "5", "2"));
        let difference = compared(table, &there);
        let expected = [
            "+ 2 accounts for m, quota 100: new plain",
            "~ 1 accounts get CAP 0 TURN 1: both",
            "~ 1 accounts get CAP 6: other",
            "+ 1 accounts get CAP 7: new",
        ];
        assert_eq!(difference.lines(false, SHOWN), expected);
        assert_eq!(difference.counts(), (2, 2), "a new account is counted once");
        let words = &difference.changes[2].commands[0].0;
        assert_eq!(words.join(" "), "ACCOUNT.LIMIT CAP 6 ACCOUNTS 1 other");
    }

    #[test]
    fn a_line_for_people_names_some_accounts_and_one_for_programs_all() {
        let there: Vec<Record> = (0..30).map(|number| account(&format!("p{number}"), "0", "1")).collect();
        let difference = compared("department,module,account,quota\n", &there);
        let names = |most| difference.lines(true, most)[0].matches(" p").count();
        assert_eq!((names(SHOWN), names(usize::MAX)), (20, 30));
        assert!(difference.lines(true, SHOWN)[0].ends_with(" and 10 more"));
        assert!(!difference.lines(true, usize::MAX)[0].contains("..."));
    }
}
