//! What is known of the tree and of the book when it is decided what to do: no clock, no I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::protocol::Said;
use allot_client::{AccountRow, ModuleRow};
use allot_coordination::Version;

/// An instance: its module's directory, and its name in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InstanceId {
    pub(super) dir: String,
    pub(super) instance: String,
}

/// An instance's own node, as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Presence {
    /// Tells it from an earlier one of the same name.
    pub(super) created: i64,
    /// Of its data.
    pub(super) version: Version,
    /// Whether a leader has written into it where its accounts are. Whoever made it knows of none before.
    pub(super) introduced: bool,
}

/// The node that has an instance's accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alloc {
    /// Tells it from an earlier one of the same name.
    pub(super) created: i64,
    /// Of its data.
    pub(super) version: Version,
    /// What the instance says.
    pub(super) said: Said,
}

/// An account as it is shown to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// By which deal.
    pub(super) epoch: u64,
    /// Since when it is to be given back.
    pub(super) revoked: Option<u64>,
    /// Until when it stays so after its instance went.
    pub(super) until: Option<u64>,
    /// Of the node's data.
    pub(super) version: Version,
    /// Whether it was shown before the process came that is there now, and an earlier one of its name may be logged in.
    pub(super) from_previous_session: bool,
}

/// All that stands in the tree of one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedInstance {
    pub(super) present: Option<Presence>,
    pub(super) alloc: Option<Alloc>,
    pub(super) accounts: BTreeMap<String, Shown>,
    /// Whether others have put something among the accounts whose name no leader writes.
    pub(super) foreign_nodes: bool,
}

impl ObservedInstance {
    /// A process is there. What an earlier one of its name was shown is not of its own.
    pub(super) fn come(&mut self, present: Presence) {
        if self.present.is_none_or(|known| known.created != present.created) {
            self.accounts.values_mut().for_each(|shown| shown.from_previous_session = true);
        }
        self.present = Some(present);
    }

    /// Whether nothing stands among its accounts.
    pub(super) fn is_bare(&self) -> bool {
        self.accounts.is_empty() && !self.foreign_nodes
    }

    /// Whether somebody is there who may use what is shown to it.
    pub(super) fn is_held(&self) -> bool {
        self.present.is_some_and(|present| present.introduced)
    }

    /// Whether there is nothing to know of it.
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_none() && self.alloc.is_none() && self.accounts.is_empty()
    }
}

/// The tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedTree {
    pub(super) instances: BTreeMap<InstanceId, ObservedInstance>,
}

impl ObservedTree {
    /// What stands of an instance.
    pub(super) fn at(&mut self, id: &InstanceId) -> &mut ObservedInstance {
        self.instances.entry(id.clone()).or_default()
    }

    /// Follows a book that was read since these processes came: with what it has dealt to their name, and has no login
    /// of, no earlier one can be logged in.
    pub(super) fn settle(&mut self, book: &Book) {
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

    /// The accounts that are shown to anybody.
    pub(super) fn shown(&self) -> BTreeSet<&str> {
        self.instances.values().flat_map(|observed| observed.accounts.keys().map(String::as_str)).collect()
    }
}

/// The book.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Book {
    /// Modules by their directories.
    pub(super) modules: BTreeMap<String, Module>,
    pub(super) accounts: BTreeMap<String, AccountRow>,
    /// Directories by their modules' names.
    dirs: BTreeMap<String, String>,
}

/// A module of the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    /// Its instances, with their states.
    pub(super) instances: BTreeMap<String, String>,
}

impl Book {
    /// Of these rows, in the directories that `dir` names for a department and a module.
    pub(super) fn new(
        modules: Vec<ModuleRow>,
        accounts: Vec<AccountRow>,
        dir: impl Fn(&str, &str) -> String,
    ) -> Self {
        let mut book = Self::default();
        for row in modules {
            let dir = dir(&row.department, &row.module);
            book.dirs.insert(row.module.clone(), dir.clone());
            let instances = row.attached.into_iter().collect();
            book.modules.insert(dir, Module { name: row.module, instances });
        }
        book.accounts = accounts.into_iter().map(|row| (row.account.clone(), row)).collect();
        book
    }

    /// The instance that an account is with by the book.
    pub(super) fn id(&self, row: &AccountRow) -> Option<InstanceId> {
        let (dir, instance) = (self.dirs.get(&row.module)?, row.instance.as_ref()?);
        Some(InstanceId { dir: dir.clone(), instance: instance.clone() })
    }
}
