//! The accounts of a simulation: which instance is logged in to which, and what must always hold for them. No account is
//! used by two instances or published to two, the epochs of an account in the tree only grow, and the book counts no
//! instruction that was not sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use allot_coordination::in_process::InProcess;
use allot_coordination::random;
use allot_core::account::Book;
use allot_core::account::place::{Module, Presence};
use allot_core::account::record::AccountState;
use serde_json::Value;

use super::invariants::Observer;

/// The directory of departments.
pub(super) const ROOT: &str = "/resource";
/// The modules, whose department is `finance`.
pub(super) const MODULES: [&str; 2] = ["audit", "billing"];
/// How many accounts there are.
pub(super) const ACCOUNTS: usize = 8;
/// The most instructions that an instance sends with an account at once.
const INSTRUCTIONS: u64 = 5;

/// The directory of a module.
pub(super) fn dir(module: &str) -> String {
    format!("{ROOT}/finance/{module}")
}

/// The module of an instance: its name without the number.
pub(super) fn module_of(instance: &str) -> &str {
    instance.split_once('-').map_or(instance, |(module, _)| module)
}

/// What is known of accounts. Clones share it.
#[derive(Clone)]
pub(super) struct Accounts {
    known: Arc<Mutex<Known>>,
    tree: InProcess,
    observer: Observer,
}

#[derive(Default)]
struct Known {
    /// How many processes have run.
    processes: u64,
    /// The processes that are logged in to an account: number and name.
    logins: BTreeMap<String, BTreeSet<(u64, String)>>,
    /// The greatest epoch of each account that was published.
    epochs: BTreeMap<String, u64>,
    /// How many instructions were sent with each account.
    sent: BTreeMap<String, u64>,
}

impl Accounts {
    pub(super) fn new(tree: InProcess, observer: Observer) -> Self {
        Self { known: Arc::default(), tree, observer }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Known) -> T) -> T {
        act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A process of an instance, which is logged in to nothing.
    pub(super) fn holder(&self, name: &str) -> Holder {
        let number = self.with(|known| {
            known.processes += 1;
            known.processes
        });
        Holder { number, name: name.to_owned(), accounts: self.clone() }
    }

    /// An instance sends instructions with an account: how many.
    pub(super) fn sends(&self, account: &str) -> u64 {
        let count = random::within(0..INSTRUCTIONS);
        self.with(|known| *known.sent.entry(account.to_owned()).or_default() += count);
        count
    }

    /// The published accounts: account, instance, epoch, and whether it is revoked.
    fn published(&self) -> Vec<(String, String, u64, bool)> {
        let nodes = self.tree.nodes(&format!("{ROOT}/finance/")).into_iter();
        let read = |(path, data): (String, Vec<u8>)| {
            let (alloc, account) = path.rsplit_once('/')?;
            let instance = alloc.rsplit_once('/')?.1.strip_suffix("-alloc")?.to_owned();
            let node: Value = serde_json::from_slice(&data).unwrap();
            let is_revoked = node["state"] == "revoke";
            Some((account.to_owned(), instance, node["epoch"].as_u64().unwrap(), is_revoked))
        };
        nodes.filter_map(read).collect()
    }

    /// Checks what is published.
    pub(super) fn check_tree(&self) {
        let mut at = BTreeMap::<String, String>::new();
        for (account, instance, epoch, _) in self.published() {
            let known = self.with(|known| {
                let known = known.epochs.entry(account.clone()).or_default();
                std::mem::replace(known, epoch.max(*known))
            });
            if epoch < known {
                self.observer.violated(format!("{account} is published at {epoch}, after {known}"));
            }
            if let Some(other) = at.insert(account.clone(), instance.clone()) {
                self.observer.violated(format!("{account} is published to {other} and to {instance}"));
            }
        }
    }

    /// Checks that the book has counted no more than was sent.
    pub(super) fn check_use(&self, book: &Book) {
        let (counted, _) = book.list(None, None, None, 0, ACCOUNTS);
        for account in counted {
            let name = String::from_utf8_lossy(&account.name).into_owned();
            let sent = self.with(|known| known.sent.get(&name).copied().unwrap_or_default());
            let counted = account.used_in(book.month());
            if counted > sent {
                self.observer.violated(format!("{counted} instructions of {name} are counted, of {sent}"));
            }
        }
    }

    /// What is still to be done until each of these instances is attached, and tree, logins and book are equal.
    pub(super) fn unsettled(&self, book: &Book, instances: &BTreeSet<String>) -> Vec<String> {
        let mut unsettled = Vec::new();
        let attached = book.modules().flat_map(Module::instances);
        let attached = attached.filter_map(|id| book.instance(id));
        let active = attached.filter(|instance| instance.presence == Presence::Active);
        let active: BTreeSet<String> =
            active.map(|instance| String::from_utf8_lossy(&instance.name).into_owned()).collect();
        if active != *instances {
            unsettled.push(format!("the instances {active:?} are active, and {instances:?} run"));
        }
        let (accounts, _) = book.list(None, None, None, 0, ACCOUNTS);
        let mut assigned = BTreeSet::new();
        for account in accounts {
            let name = String::from_utf8_lossy(&account.name).into_owned();
            match account.state {
                AccountState::Assigned => {
                    let instance =
                        String::from_utf8_lossy(&book.instance_name(account.instance)).into_owned();
                    assigned.insert((name, instance, account.epoch, false));
                }
                state => unsettled.push(format!("{name} is {}", state.word())),
            }
        }
        let published: BTreeSet<_> = self.published().into_iter().collect();
        if published != assigned {
            unsettled.push(format!("published are {published:?}, and not {assigned:?}"));
        }
        let logins = self.with(|known| known.logins.clone()).into_iter();
        let logins: BTreeSet<(String, String)> = logins
            .flat_map(|(account, who)| who.into_iter().map(move |(_, name)| (account.clone(), name)))
            .collect();
        let expected: BTreeSet<(String, String)> =
            assigned.into_iter().map(|(account, instance, ..)| (account, instance)).collect();
        if logins != expected {
            unsettled.push(format!("logged in are {logins:?}, and not {expected:?}"));
        }
        unsettled
    }
}

/// The logins of one process. They end when it is dropped.
pub(super) struct Holder {
    number: u64,
    name: String,
    accounts: Accounts,
}

impl Holder {
    /// The accounts that the process is logged in to.
    pub(super) fn accounts(&self) -> Vec<String> {
        let own = (self.number, self.name.clone());
        self.accounts.with(|known| {
            let logins = known.logins.iter().filter(|(_, who)| who.contains(&own));
            logins.map(|(account, _)| account.clone()).collect()
        })
    }

    pub(super) fn log_in(&self, account: &str) {
        let own = (self.number, self.name.clone());
        let other = self.accounts.with(|known| {
            let who = known.logins.entry(account.to_owned()).or_default();
            let other = who.iter().find(|who| **who != own).map(|(_, name)| name.clone());
            who.insert(own);
            other
        });
        if let Some(other) = other {
            let line = format!("{account} is used by {other} and by {}", self.name);
            self.accounts.observer.violated(line);
        }
    }

    pub(super) fn log_out(&self, account: &str) {
        let own = (self.number, self.name.clone());
        self.accounts.with(|known| known.logins.get_mut(account).map(|who| who.remove(&own)));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.accounts().iter().for_each(|account| self.log_out(account));
    }
}
