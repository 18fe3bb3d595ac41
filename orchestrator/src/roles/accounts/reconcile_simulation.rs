//! All rules of `plan` together in a world of random events: a book that changes, instances that come, go, crash and are
//! slow, leaders that die between any two writes. Instances `a` and `b` log in by the book besides, and whoever dies may
//! only seem to: what it was logged in with it uses until that login's deadline.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::observed_tree::{Alloc, Book, InstanceId, ObservedTree, Shown};
use super::protocol::Said;
use super::reconcile::{Action, Change, ReconcileInput, plan, suspects};
use super::reconcile_tests::{BARRIER, LONGEST, NOW, book, dealt, id, present, row};
use super::write_backoff::WriteBackoff;
use allot_client::AccountRow;
use allot_coordination::Version;

const INSTANCES: [&str; 3] = ["a", "b", "c"];
const ACCOUNTS: [&str; 4] = ["p", "q", "r", "s"];
/// How long a login lasts.
const LOGIN: u64 = LONGEST / 3;

/// A process of a client system: what it believes that it may use.
#[derive(Debug, Clone, Default)]
struct Process {
    /// Tells it from others of its name.
    id: u64,
    holds: BTreeMap<String, u64>,
    /// What it has written.
    said: BTreeMap<String, u64>,
}

/// A login of a process, and its deadline.
#[derive(Debug, Clone, Copy)]
struct Login {
    process: u64,
    until: u64,
}

/// Book, tree and processes, without any of the machinery.
#[derive(Debug, Default)]
struct World {
    now: u64,
    counter: u64,
    accounts: BTreeMap<String, AccountRow>,
    known: BTreeSet<(String, u64)>,
    /// Live logins, by account, and whom those go to next that are revoked.
    logins: BTreeMap<String, Login>,
    goals: BTreeMap<String, Option<String>>,
    /// Logins of processes that seem to be dead.
    ghosts: Vec<(String, u64)>,
    attached: BTreeMap<String, String>,
    tree: ObservedTree,
    processes: BTreeMap<String, Process>,
    /// What this leader remembers.
    told: BTreeMap<InstanceId, i64>,
    barrier: bool,
    began: u64,
}

impl World {
    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn book(&self) -> Book {
        let attached: Vec<(&str, &str)> =
            self.attached.iter().map(|(name, state)| (name.as_str(), state.as_str())).collect();
        let login = |row: &AccountRow| self.logins.contains_key(&row.account);
        let rows = self.accounts.values().map(|row| AccountRow { login: login(row), ..row.clone() });
        book(&attached, rows.collect())
    }

    /// The book deals, or takes, an account, to whoever it likes, as soon as nobody is logged in.
    fn deal(&mut self, account: usize, to: Option<usize>) {
        let active: Vec<String> = self.attached.keys().cloned().collect();
        let to = to.and_then(|to| active.get(to % active.len().max(1)).cloned());
        let account = ACCOUNTS[account].to_owned();
        if self.logins.contains_key(&account) {
            self.accounts.get_mut(&account).unwrap().state = "revoking".into();
            self.goals.insert(account, to);
        } else {
            self.arrive(&account, to.as_deref());
        }
    }

    fn arrive(&mut self, account: &str, to: Option<&str>) {
        let epoch = self.next();
        let state = if to.is_some() { "dealt" } else { "free" };
        self.known.insert((account.to_owned(), epoch));
        self.accounts.insert(account.to_owned(), row(account, to, state, epoch));
    }

    /// A login is over, and an account that is revoked goes on.
    fn log_out(&mut self, account: &str) {
        self.logins.remove(account);
        if let Some(to) = self.goals.remove(account) {
            self.arrive(account, to.as_deref());
        }
    }

    /// A process logs in, or goes on being logged in, if the book lets it.
    fn log_in(&mut self, instance: &str, process: u64, account: &str) -> bool {
        let ours = |row: &AccountRow| row.state == "dealt" && row.instance.as_deref() == Some(instance);
        let free = self.logins.get(account).is_none_or(|login| login.process == process);
        let may = free && self.accounts.get(account).is_some_and(ours);
        if may {
            self.logins.insert(account.to_owned(), Login { process, until: self.now + LOGIN });
        }
        may
    }

    /// Time goes by, and deadlines with it.
    fn pass(&mut self, time: u64) {
        self.now += time;
        self.ghosts.retain(|(_, until)| *until > self.now);
        let over = self.logins.iter().filter(|(_, login)| login.until <= self.now);
        let over: Vec<String> = over.map(|(account, _)| account.clone()).collect();
        for account in over {
            let whose = self.logins[&account].process;
            for process in self.processes.values_mut().filter(|process| process.id == whose) {
                process.holds.remove(&account);
            }
            self.log_out(&account);
        }
    }

    /// A failover forgets the last deal of an account; not one that somebody is logged in by, since logins wait for a
    /// replica.
    fn forget(&mut self, account: usize) {
        let name = ACCOUNTS[account];
        if self.logins.contains_key(name) {
            return;
        }
        if let Some(row) = self.accounts.get_mut(name) {
            self.known.remove(&(name.to_owned(), row.epoch));
            *row = self::row(name, None, "free", 0);
        }
    }

    fn come(&mut self, instance: &str) {
        let created = self.next() as i64;
        self.processes.insert(instance.into(), Process { id: self.counter, ..Process::default() });
        self.tree.at(&id(instance)).come(present(created, false));
    }

    fn go(&mut self, instance: &str) {
        if let Some(process) = self.processes.remove(instance) {
            let held = process.holds.keys().filter_map(|account| {
                let until = self.logins.get(account).filter(|login| login.process == process.id)?.until;
                Some((account.clone(), until))
            });
            self.ghosts.extend(held);
        }
        let observed = self.tree.at(&id(instance));
        observed.present = None;
        if observed.is_empty() {
            self.tree.instances.remove(&id(instance));
        }
    }

    /// A process looks at what it is shown, and answers. Its logouts may not get through to the book.
    fn look(&mut self, instance: &str, heard: bool) {
        let Some(mut process) = self.processes.remove(instance) else { return };
        let id = id(instance);
        let observed = self.tree.instances.get(&id).filter(|observed| observed.is_held());
        if let Some(accounts) = observed.map(|observed| observed.accounts.clone()) {
            process.said.retain(|account, _| accounts.contains_key(account));
            let ends = |shown: Option<&Shown>| shown.is_none_or(|shown| shown.revoked.is_some());
            let held: Vec<String> = process.holds.keys().cloned().collect();
            for account in held.iter().filter(|account| ends(accounts.get(*account))) {
                process.holds.remove(account);
                let ours = self.logins.get(account).is_some_and(|login| login.process == process.id);
                if heard && ours {
                    self.log_out(account);
                }
            }
            for (account, shown) in &accounts {
                if shown.revoked.is_some() {
                    process.said.insert(account.clone(), shown.epoch);
                } else {
                    process.said.remove(account);
                    if instance == "c" || self.log_in(instance, process.id, account) {
                        process.holds.insert(account.clone(), shown.epoch);
                    } else {
                        process.holds.remove(account);
                    }
                }
            }
            if let Some(alloc) = &mut self.tree.at(&id).alloc {
                alloc.said = Said { released: process.said.clone(), ..Said::default() };
            }
        }
        self.processes.insert(instance.into(), process);
    }

    /// A leader compares, and dies after so many of its writes.
    fn lead(&mut self, writes: usize) -> bool {
        let book = self.book();
        self.tree.settle(&book);
        let unknown: BTreeSet<_> =
            suspects(&self.tree, &book).into_iter().filter(|deal| !self.known.contains(deal)).collect();
        let input = ReconcileInput {
            now: self.now,
            attached: &self.told,
            unknown: &unknown,
            longest: LONGEST,
            barrier: self.barrier.then_some(BARRIER),
            began: self.began,
            write_backoff: &WriteBackoff::new(BARRIER),
        };
        let plan = plan(&self.tree, &book, &input);
        let mut left = writes;
        let mut may = || {
            left = left.saturating_sub(1);
            left > 0
        };
        for change in &plan.changes {
            if !may() {
                return false;
            }
            self.change(change);
        }
        for action in plan.revocations.iter().chain(&plan.placements) {
            if !may() {
                return false;
            }
            self.action(action);
        }
        self.barrier &= plan.held_up;
        for action in &plan.assignments {
            if !may() {
                return false;
            }
            self.action(action);
        }
        plan.is_empty() && !plan.held_up
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Detach { instance, .. } => drop(self.attached.insert(instance.clone(), "away".into())),
            Change::Attach { id, created, .. } => {
                self.attached.insert(id.instance.clone(), "active".into());
                self.told.insert(id.clone(), *created);
            }
            Change::Logout { account, epoch } => {
                if self.accounts[account].epoch == *epoch && self.goals.contains_key(account) {
                    self.log_out(account);
                }
            }
            Change::Freeze { .. } => {}
            Change::Return { account, .. } => {
                self.log_out(account);
                let account = ACCOUNTS.iter().position(|name| name == account).unwrap();
                self.deal(account, Some(account));
            }
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Revoke { id, account, until } => {
                let now = self.now;
                let shown = self.tree.at(id).accounts.get_mut(account).unwrap();
                *shown =
                    Shown { revoked: shown.revoked.or(Some(now)), until: until.or(shown.until), ..*shown };
            }
            Action::Withdraw { id, account } => {
                assert!(self.tree.at(id).accounts.remove(account).is_some());
            }
            Action::Reassign { id, account, epoch } => {
                self.tree.at(id).accounts.get_mut(account).unwrap().epoch = *epoch;
            }
            Action::Clear { id } => {
                assert!(self.tree.at(id).accounts.is_empty());
                self.tree.instances.remove(id);
            }
            Action::Introduce { id } => {
                let created = self.next() as i64;
                let observed = self.tree.at(id);
                observed.present.as_mut().unwrap().introduced = true;
                observed.alloc = Some(Alloc { created, version: Version::FIRST, said: Said::default() });
            }
            Action::Publish { id, account, epoch } => {
                assert!(self.tree.at(id).accounts.insert(account.clone(), dealt(*epoch)).is_none());
            }
        }
    }

    /// No account is shown to two, or used by two.
    fn check(&self) {
        let mut shown = BTreeMap::new();
        for (id, observed) in &self.tree.instances {
            for account in observed.accounts.keys() {
                let before = shown.insert(account.clone(), id.clone());
                assert!(before.is_none(), "{account} is shown to {before:?} and {id:?}");
            }
        }
        let mut used = BTreeMap::new();
        for (name, process) in &self.processes {
            for account in process.holds.keys() {
                let before = used.insert(account.clone(), name.clone());
                assert!(before.is_none(), "{account} is used by {before:?} and {name}");
                let ghost = self.ghosts.iter().any(|(other, _)| other == account);
                assert!(!ghost, "{account} is used by {name} and by one that seems to be dead");
            }
        }
    }

    fn happen(&mut self, (what, who, which, writes): (u8, usize, usize, usize)) {
        let instance = INSTANCES[who % INSTANCES.len()];
        match what % 12 {
            0 if !self.processes.contains_key(instance) => self.come(instance),
            1 => self.go(instance),
            // It crashes and is started again before anybody looks.
            2 if self.processes.contains_key(instance) => {
                self.go(instance);
                self.come(instance);
            }
            3 | 4 => self.deal(which % ACCOUNTS.len(), Some(who)),
            5 => self.deal(which % ACCOUNTS.len(), None),
            6 => self.forget(which % ACCOUNTS.len()),
            7 => self.attached.retain(|name, state| state != "away" || name != instance),
            8 => self.look(instance, which % 2 == 0),
            9 => self.pass(5000),
            // The leader dies, and the next one takes over.
            10 => {
                self.lead(1 + writes);
                (self.told, self.barrier, self.began) = (BTreeMap::new(), true, self.now);
            }
            _ => drop(self.lead(usize::MAX)),
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_happens_no_account_is_at_two_instances_and_in_the_end_the_tree_is_what_the_book_says(
        events in prop::collection::vec((any::<u8>(), 0usize..3, 0usize..4, 0usize..6), 1..120),
    ) {
        let mut world = World { now: NOW, barrier: true, began: NOW, ..World::default() };
        for event in events {
            world.happen(event);
        }
        // Then all answer, and time passes.
        let mut quiet = 0;
        for _ in 0..200 {
            quiet = if world.lead(usize::MAX) { quiet + 1 } else { 0 };
            world.check();
            INSTANCES.iter().for_each(|instance| world.look(instance, true));
            world.check();
            world.pass(LONGEST / 4);
            world.attached.retain(|_, state| state != "away");
            for name in ACCOUNTS {
                let gone = world.accounts.get(name).and_then(|row| row.instance.clone())
                    .is_some_and(|instance| !world.attached.contains_key(&instance));
                if gone {
                    world.deal(ACCOUNTS.iter().position(|other| *other == name).unwrap(), Some(0));
                }
            }
            if quiet > 10 {
                break;
            }
        }
        prop_assert!(quiet > 10, "it never comes to rest: {world:#?}");
        for (name, row) in &world.accounts {
            let shown: Vec<&InstanceId> = world.tree.instances.iter()
                .filter(|(_, observed)| observed.accounts.contains_key(name)).map(|(id, _)| id).collect();
            let there = row.instance.as_ref().filter(|_| row.state == "dealt").map(|instance| id(instance));
            prop_assert_eq!(shown, there.iter().collect::<Vec<_>>(), "{}", name);
        }
    }
}
