//! The leader's knowledge of the tree and of the book, on which it bases its decisions: plain data, no clock, no I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::protocol::ClientReport;
use allot_client::{AccountRow, ModuleRow};
use allot_coordination::Version;

/// Identifies an instance: its module's directory, and its name in that directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InstanceId {
    pub(super) dir: String,
    pub(super) instance: String,
}

/// The node that an instance created for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Presence {
    /// The creation transaction; it differs for each node of the same name.
    pub(super) created: i64,
    /// The version of the node's data.
    pub(super) version: Version,
    /// Whether a leader has written the path of the `-alloc` node into this node. Before that, the process knows of
    /// no accounts.
    pub(super) introduced: bool,
}

/// The `-alloc` node, which holds an instance's accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alloc {
    /// The creation transaction; it differs for each node of the same name.
    pub(super) created: i64,
    /// The version of the node's data.
    pub(super) version: Version,
    /// The instance's report in the node's data.
    pub(super) report: ClientReport,
}

/// An account that is published to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PublishedAccount {
    /// The epoch of the assignment; 0 if the node's data are not a leader's.
    pub(super) epoch: u64,
    /// The time at which the account was revoked, in milliseconds since 1970; `None` if the instance may use the
    /// account.
    pub(super) revoked: Option<u64>,
    /// The time until which the node stays after its instance has gone, in milliseconds since 1970.
    pub(super) until: Option<u64>,
    /// The version of the node's data.
    pub(super) version: Version,
    /// Whether the account was published to an earlier process of this name, which may still be logged in.
    pub(super) from_previous_session: bool,
    /// What another program did to the node. The leader repairs it before it does anything else with the account.
    pub(super) damage: Option<Damage>,
}

/// What another program did to a node that only the leader may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// It deleted the node.
    Deleted,
    /// It wrote an earlier state into the node.
    Rewritten,
}

/// Everything in the tree that belongs to one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedInstance {
    pub(super) present: Option<Presence>,
    pub(super) alloc: Option<Alloc>,
    pub(super) accounts: BTreeMap<String, PublishedAccount>,
    /// Whether there are nodes among the accounts whose names no leader writes.
    pub(super) foreign_nodes: bool,
}

impl ObservedInstance {
    /// Records the process that is present. Accounts that were published to an earlier process of this name are
    /// marked `from_previous_session`.
    pub(super) fn set_present(&mut self, present: Presence) {
        if self.present.is_none_or(|known| known.created != present.created) {
            self.accounts.values_mut().for_each(|shown| shown.from_previous_session = true);
        }
        self.present = Some(present);
    }

    /// Takes over the account nodes as they were read, except what no leader does: the instance may use an account
    /// whose node was deleted, and an end that it reports is of the latest assignment that it saw. `withdrawn` tells
    /// whether this leader may have deleted the node of an account. Returns the accounts that another program
    /// certainly changed.
    pub(super) fn take_over(
        &mut self,
        mut read: BTreeMap<String, PublishedAccount>,
        withdrawn: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut changed = Vec::new();
        let introduced = self.is_introduced();
        for (account, known) in std::mem::take(&mut self.accounts) {
            let Some(now) = read.get_mut(&account) else {
                if introduced && !withdrawn(&account) {
                    changed.push(account.clone());
                    read.insert(account, PublishedAccount { damage: Some(Damage::Deleted), ..known });
                }
                continue;
            };
            now.from_previous_session = known.from_previous_session;
            let unrevoked = known.revoked.is_some() && now.revoked.is_none() && now.epoch <= known.epoch;
            if now.epoch < known.epoch || unrevoked {
                changed.push(account);
                *now = PublishedAccount { version: now.version, damage: Some(Damage::Rewritten), ..known };
            }
        }
        self.accounts = read;
        changed
    }

    /// Whether the instance has said that it will not come back, or has released all its accounts. The book may have
    /// assigned a released account to the instance again, by an epoch that the last report does not know.
    pub(super) fn leaves(&self) -> bool {
        let Some(report) = self.alloc.as_ref().map(|alloc| &alloc.report) else { return false };
        let has_released = |account: &String| report.last_ended(account).is_some();
        report.leaves || !self.accounts.is_empty() && self.accounts.keys().all(has_released)
    }

    /// Whether the `-alloc` node has no children.
    pub(super) fn has_no_children(&self) -> bool {
        self.accounts.is_empty() && !self.foreign_nodes
    }

    /// Whether a process is present that knows where its accounts are, and so may use what is published.
    pub(super) fn is_introduced(&self) -> bool {
        self.present.is_some_and(|present| present.introduced)
    }

    /// Whether the tree has no node of this instance.
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_none() && self.alloc.is_none() && self.accounts.is_empty()
    }
}

/// The tree as the leader has last read or written it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedTree {
    pub(super) instances: BTreeMap<InstanceId, ObservedInstance>,
}

impl ObservedTree {
    /// The entry of an instance, created empty if it is missing.
    pub(super) fn at(&mut self, id: &InstanceId) -> &mut ObservedInstance {
        self.instances.entry(id.clone()).or_default()
    }

    /// Clears `from_previous_session` where a book that was read after the present process came allows it. If the
    /// book has assigned an account to the instance under the same epoch and knows of no login, no earlier process
    /// can be logged in.
    pub(super) fn refresh_previous_sessions(&mut self, book: &Book) {
        for (id, observed) in self.instances.iter_mut().filter(|(_, observed)| observed.present.is_some()) {
            for (account, shown) in
                observed.accounts.iter_mut().filter(|(_, shown)| shown.from_previous_session)
            {
                let row = book.accounts.get(account);
                let ours = row.filter(|row| row.epoch == shown.epoch && book.id(row).as_ref() == Some(id));
                shown.from_previous_session = ours.is_none_or(|row| row.login);
            }
        }
    }

    /// The latest assignment that is published or reported, up to `limit`.
    pub(super) fn latest_epoch(&self, limit: u64) -> u64 {
        let epochs = self.instances.values().flat_map(|observed| {
            let published = observed.accounts.values().map(|shown| shown.epoch);
            let reported = observed.alloc.iter().map(|alloc| alloc.report.latest_epoch(limit));
            published.chain(reported)
        });
        epochs.filter(|epoch| *epoch <= limit).max().unwrap_or(0)
    }

    /// The accounts that are published to any instance.
    pub(super) fn published_accounts(&self) -> BTreeSet<&str> {
        self.instances.values().flat_map(|observed| observed.accounts.keys().map(String::as_str)).collect()
    }
}

/// The account book as it was last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Book {
    /// Modules by their directories.
    pub(super) modules: BTreeMap<String, Module>,
    pub(super) accounts: BTreeMap<String, AccountRow>,
    /// The latest epoch that the book gave out.
    pub(super) last_epoch: u64,
    /// Directories by their modules' names.
    dirs: BTreeMap<String, String>,
}

/// A module of the book, with its instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    /// The states of the module's instances, by instance name.
    pub(super) instances: BTreeMap<String, String>,
}

impl Book {
    /// Builds the book from its rows and its last epoch. `dir` gives the directory of a department's module.
    pub(super) fn new(
        modules: Vec<ModuleRow>,
        accounts: Vec<AccountRow>,
        last_epoch: u64,
        dir: impl Fn(&str, &str) -> String,
    ) -> Self {
        let mut book = Self::default();
        for row in modules {
            let dir = dir(&row.department, &row.module);
            book.dirs.insert(row.module.clone(), dir.clone());
            let instances = row.attached.into_iter().collect();
            book.modules.insert(dir, Module { name: row.module, instances });
        }
        // An assignment may have been made between the two reads.
        book.last_epoch = accounts.iter().map(|row| row.epoch).fold(last_epoch, u64::max);
        book.accounts = accounts.into_iter().map(|row| (row.account.clone(), row)).collect();
        book
    }

    /// The instance to which the book has assigned an account.
    pub(super) fn id(&self, row: &AccountRow) -> Option<InstanceId> {
        let (dir, instance) = (self.dirs.get(&row.module)?, row.instance.as_ref()?);
        Some(InstanceId { dir: dir.clone(), instance: instance.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::accounts::tests::fixtures::{assigned, present};

    #[test]
    fn change_that_no_leader_makes_is_not_taken_over() {
        let revoked = |epoch| PublishedAccount { revoked: Some(1), ..assigned(epoch) };
        let version = |shown: PublishedAccount| PublishedAccount { version: Version(9), ..shown };
        let mut observed = ObservedInstance { present: Some(present(1, true)), ..Default::default() };
        let all =
            [("same", assigned(5)), ("fallen", assigned(5)), ("kept", revoked(5)), ("lost", assigned(5))];
        let named = |all: &[(&str, PublishedAccount)]| -> BTreeMap<String, PublishedAccount> {
            all.iter().map(|(name, shown)| ((*name).to_owned(), *shown)).collect()
        };
        observed.accounts = named(&[&all[..], &[("withdrawn", revoked(5)), ("later", assigned(5))]].concat());
        let read = named(&[
            ("same", version(revoked(5))),
            ("fallen", version(assigned(4))),
            ("kept", version(assigned(5))),
            ("later", version(assigned(6))),
            ("new", assigned(7)),
        ]);
        let changed = observed.take_over(read.clone(), |account| account == "withdrawn");
        assert_eq!(changed, ["fallen", "kept", "lost"]);
        let rewritten = |shown| PublishedAccount { damage: Some(Damage::Rewritten), ..version(shown) };
        let expected = named(&[
            ("same", version(revoked(5))),
            ("fallen", rewritten(assigned(5))),
            ("kept", rewritten(revoked(5))),
            ("lost", PublishedAccount { damage: Some(Damage::Deleted), ..assigned(5) }),
            ("later", version(assigned(6))),
            ("new", assigned(7)),
        ]);
        assert_eq!(observed.accounts, expected);
        // Nobody uses what was published to a process that is gone.
        observed.present = None;
        assert_eq!(observed.take_over(read, |_| false).len(), 2);
        assert!(!observed.accounts.contains_key("lost"));
    }
}
