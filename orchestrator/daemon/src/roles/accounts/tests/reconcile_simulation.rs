//! All rules of `plan` together, in a simulation of random events: the book changes, instances come, go, crash and
//! are slow, and leaders die between any two writes. Instances `a` and `b` also log in to the book; `c` and `d` report
//! their use. A process that is gone may only seem dead: it uses its logins until their deadlines. Processes leave old
//! entries in their reports, and a failover may bring back an assignment that was over.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::observed_tree::{Alloc, Book, InstanceId, ObservedTree, PublishedAccount};
use super::super::protocol::{ClientReport, Totals};
use super::super::reconcile::{Action, Change, ReconcileInput, plan, unverified_assignments};
use super::super::write_backoff::WriteBackoff;
use super::fixtures::{BARRIER, LONGEST, NOW, assigned, book, id, present, row};
use allot_client::AccountRow;
use allot_coordination::Version;

const INSTANCES: [&str; 4] = ["a", "b", "c", "d"];
const ACCOUNTS: [&str; 4] = ["p", "q", "r", "s"];
/// Lifetime of a login, in milliseconds.
const LOGIN: u64 = LONGEST / 3;

/// Whether an instance reports its use, and does not log in to the book.
fn is_plain(instance: &str) -> bool {
    matches!(instance, "c" | "d")
}

/// A process of a client system, with the accounts that it believes it may use.
#[derive(Debug, Clone, Default)]
struct Process {
    /// Distinguishes processes of the same name.
    id: u64,
    holds: BTreeMap<String, u64>,
    /// The releases that it has reported.
    said: BTreeMap<String, u64>,
    /// Its use of each account that it sees since the last assignments.
    used: BTreeMap<String, Totals>,
}

/// A login of a process, and its deadline.
#[derive(Debug, Clone, Copy)]
struct Login {
    process: u64,
    until: u64,
}

/// Book, tree and processes, without Redis and ZooKeeper.
#[derive(Debug, Default)]
struct Simulation {
    now: u64,
    counter: u64,
    accounts: BTreeMap<String, AccountRow>,
    known: BTreeSet<(String, u64)>,
    /// Earlier rows of each account.
    history: BTreeMap<String, Vec<AccountRow>>,
    /// The greatest epoch of each account that was ever published.
    published: BTreeMap<String, u64>,
    /// The greatest epoch of each account that was published and withdrawn again. A failover does not bring it back:
    /// here, replicas have what caused the withdrawal.
    withdrawn: BTreeMap<String, u64>,
    /// The use that was counted, by account and assignment.
    totals: BTreeMap<(String, u64), u64>,
    /// The use that was reported.
    reported: u64,
    /// Whether a failover has forgotten an assignment. It may have forgotten counts and the end of a count as well.
    forgot: bool,
    /// Whether processes use their accounts no more.
    resting: bool,
    /// As the leader's: what it has counted.
    counted: BTreeMap<String, Totals>,
    /// Live logins by account.
    logins: BTreeMap<String, Login>,
    /// The next instance of each revoked account; `None` if it becomes free.
    goals: BTreeMap<String, Option<String>>,
    /// Logins (account, deadline) of processes that seem to be dead.
    ghosts: Vec<(String, u64)>,
    attached: BTreeMap<String, String>,
    tree: ObservedTree,
    processes: BTreeMap<String, Process>,
    /// The instances that this leader has attached.
    told: BTreeMap<InstanceId, i64>,
    barrier: bool,
    began: u64,
}

impl Simulation {
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

    /// The book assigns an account to an instance, or frees it, as soon as nobody is logged in.
    fn assign(&mut self, account: usize, to: Option<usize>) {
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
        let state = if to.is_some() { "assigned" } else { "free" };
        self.known.insert((account.to_owned(), epoch));
        let before = self.accounts.insert(account.to_owned(), row(account, to, state, epoch));
        self.history.entry(account.to_owned()).or_default().extend(before);
    }

    /// A login ends, and a revoked account moves to its next instance.
    fn log_out(&mut self, account: &str) {
        self.logins.remove(account);
        if let Some(to) = self.goals.remove(account) {
            self.arrive(account, to.as_deref());
        }
    }

    /// A process logs in or renews its login, if the book allows it.
    fn log_in(&mut self, instance: &str, process: u64, account: &str) -> bool {
        let ours = |row: &AccountRow| row.state == "assigned" && row.instance.as_deref() == Some(instance);
        let free = self.logins.get(account).is_none_or(|login| login.process == process);
        let may = free && self.accounts.get(account).is_some_and(ours);
        if may {
            self.logins.insert(account.to_owned(), Login { process, until: self.now + LOGIN });
        }
        may
    }

    /// Advances the time and ends expired logins.
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

    /// A failover forgets the last assignment of an account, unless a login with the account is live: logins wait for a
    /// replica.
    fn forget(&mut self, account: usize) {
        let name = ACCOUNTS[account];
        if self.logins.contains_key(name) {
            return;
        }
        let kept = self.withdrawn.get(name).copied().unwrap_or(0);
        let before = self.history.get_mut(name).and_then(|rows| rows.pop_if(|row| row.epoch > kept));
        if before.is_none() && kept > 0 {
            return;
        }
        if let Some(row) = self.accounts.get_mut(name) {
            self.forgot = true;
            self.known.remove(&(name.to_owned(), row.epoch));
            *row = before.unwrap_or_else(|| self::row(name, None, "free", 0));
            // Its instance may have left meanwhile.
            let there = row.instance.as_ref().is_some_and(|instance| self.attached.contains_key(instance));
            if row.state != "assigned" || !there {
                *row = self::row(name, None, "free", row.epoch);
            }
        }
    }

    fn come(&mut self, instance: &str) {
        let created = self.next() as i64;
        self.processes.insert(instance.into(), Process { id: self.counter, ..Process::default() });
        self.tree.at(&id(instance)).set_present(present(created, false));
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

    /// A process reads its accounts and answers. `reaches_book` tells whether its logouts reach the book.
    fn answer(&mut self, instance: &str, reaches_book: bool) {
        let Some(mut process) = self.processes.remove(instance) else { return };
        let id = id(instance);
        let observed = self.tree.instances.get(&id).filter(|observed| observed.is_introduced());
        if let Some(accounts) = observed.map(|observed| observed.accounts.clone()) {
            // A lazy process keeps entries about accounts that it no longer sees.
            if reaches_book {
                process.said.retain(|account, _| accounts.contains_key(account));
            }
            let ends = |shown: Option<&PublishedAccount>| shown.is_none_or(|shown| shown.revoked.is_some());
            let held: Vec<String> = process.holds.keys().cloned().collect();
            for account in held.iter().filter(|account| ends(accounts.get(*account))) {
                process.holds.remove(account);
                let ours = self.logins.get(account).is_some_and(|login| login.process == process.id);
                if reaches_book && ours {
                    self.log_out(account);
                }
            }
            for (account, shown) in &accounts {
                if shown.revoked.is_some() {
                    process.said.insert(account.clone(), shown.epoch);
                } else {
                    if process.said.get(account) != Some(&shown.epoch) {
                        process.said.remove(account);
                    }
                    if is_plain(instance) || self.log_in(instance, process.id, account) {
                        process.holds.insert(account.clone(), shown.epoch);
                    } else {
                        process.holds.remove(account);
                    }
                }
            }
            let used = self.count(instance, &mut process, &accounts);
            if let Some(alloc) = &mut self.tree.at(&id).alloc {
                let released = process.said.clone();
                alloc.report = ClientReport { released, used, ..ClientReport::default() };
            }
        }
        self.processes.insert(instance.into(), process);
    }

    /// A process uses each of its accounts once, and reports its use of those that it sees.
    fn count(
        &mut self,
        instance: &str,
        process: &mut Process,
        accounts: &BTreeMap<String, PublishedAccount>,
    ) -> BTreeMap<String, Totals> {
        if !is_plain(instance) {
            return BTreeMap::new();
        }
        process.used.retain(|account, _| accounts.contains_key(account));
        for (account, epoch) in process.holds.iter().filter(|_| !self.resting) {
            *process.used.entry(account.clone()).or_default().entry(*epoch).or_default() += 1;
            self.reported += 1;
        }
        process.used.clone()
    }

    /// A leader compares and dies after `writes` writes. Returns whether nothing was left to do.
    fn lead(&mut self, writes: usize) -> bool {
        let book = self.book();
        self.tree.refresh_previous_sessions(&book);
        let unknown: BTreeSet<_> = unverified_assignments(&self.tree, &book)
            .into_iter()
            .filter(|assignment| !self.known.contains(assignment))
            .collect();
        let input = ReconcileInput {
            now: self.now,
            attached: &self.told,
            counted: &self.counted,
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
        for action in plan.revocations.iter().chain(&plan.reassignments).chain(&plan.placements) {
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
            Change::Raise { epoch, account } => {
                let row = account.as_ref().and_then(|account| self.accounts.get(account)).cloned();
                if let Some(row) = row.filter(|row| row.state == "assigned" && row.epoch <= *epoch) {
                    self.arrive(&row.account, row.instance.as_deref());
                }
            }
            Change::Report { account, epoch, total } => {
                let counted = self.totals.entry((account.clone(), *epoch)).or_default();
                *counted = (*counted).max(*total);
                self.counted.entry(account.clone()).or_default().insert(*epoch, *total);
            }
            Change::Return { account, .. } => {
                self.log_out(account);
                let account = ACCOUNTS.iter().position(|name| name == account).unwrap();
                self.assign(account, Some(account));
            }
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Revoke { id, account, until } => {
                let now = self.now;
                let shown = self.tree.at(id).accounts.get_mut(account).unwrap();
                *shown = PublishedAccount {
                    revoked: shown.revoked.or(Some(now)),
                    until: until.or(shown.until),
                    ..*shown
                };
            }
            Action::Restore { .. } => unreachable!("no other program writes here"),
            Action::Withdraw { id, account } => {
                let shown = self.tree.at(id).accounts.remove(account).unwrap();
                let comes_back = |row: &&AccountRow| {
                    row.state == "assigned" && row.instance.as_deref() == Some(&id.instance)
                };
                // Replicas have confirmed the epoch by which the account comes back to the same instance.
                let next = self.accounts.get(account).filter(comes_back).map_or(0, |row| row.epoch);
                let last = self.withdrawn.entry(account.clone()).or_default();
                *last = (*last).max(shown.epoch).max(next.saturating_sub(1));
            }
            Action::Reassign { id, account, epoch } => {
                self.publish(account, *epoch);
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
                observed.alloc =
                    Some(Alloc { created, version: Version::FIRST, report: ClientReport::default() });
            }
            Action::Publish { id, account, epoch } => {
                self.publish(account, *epoch);
                assert!(self.tree.at(id).accounts.insert(account.clone(), assigned(*epoch)).is_none());
            }
        }
    }

    /// Checks that the published epochs of an account grow.
    fn publish(&mut self, account: &str, epoch: u64) {
        let last = self.published.insert(account.to_owned(), epoch).unwrap_or(0);
        assert!(epoch >= last, "the epoch of {account} falls from {last} to {epoch}");
    }

    /// Checks that no account is published to two instances or used by two processes.
    fn check(&self) {
        let mut shown = BTreeMap::new();
        for (id, observed) in &self.tree.instances {
            for account in observed.accounts.keys() {
                let before = shown.insert(account.clone(), id.clone());
                assert!(before.is_none(), "{account} is published to {before:?} and {id:?}");
            }
        }
        let mut used = BTreeMap::new();
        for (name, process) in &self.processes {
            for account in process.holds.keys() {
                let before = used.insert(account.clone(), name.clone());
                assert!(before.is_none(), "{account} is used by {before:?} and {name}");
                let ghost = self.ghosts.iter().any(|(other, _)| other == account);
                assert!(!ghost, "{account} is used by {name} and by a process that seems to be dead");
            }
        }
    }

    fn apply_event(&mut self, (what, who, which, writes): (u8, usize, usize, usize)) {
        let instance = INSTANCES[who % INSTANCES.len()];
        match what % 12 {
            0 if !self.processes.contains_key(instance) => self.come(instance),
            1 => self.go(instance),
            // The process crashes and restarts before any other process notices.
            2 if self.processes.contains_key(instance) => {
                self.go(instance);
                self.come(instance);
            }
            3 | 4 => self.assign(which % ACCOUNTS.len(), Some(who)),
            5 => self.assign(which % ACCOUNTS.len(), None),
            6 => self.forget(which % ACCOUNTS.len()),
            7 => self.attached.retain(|name, state| state != "away" || name != instance),
            8 => self.answer(instance, which % 2 == 0),
            9 => self.pass(5000),
            // The leader dies, and the next one takes over.
            10 => {
                self.lead(1 + writes);
                (self.told, self.barrier, self.began) = (BTreeMap::new(), true, self.now);
                self.counted.clear();
            }
            _ => drop(self.lead(usize::MAX)),
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_account_is_at_two_instances_and_the_tree_converges(
        events in prop::collection::vec((any::<u8>(), 0usize..4, 0usize..4, 0usize..6), 1..120),
    ) {
        let mut simulation = Simulation { now: NOW, barrier: true, began: NOW, ..Simulation::default() };
        for event in events {
            simulation.apply_event(event);
        }
        // Afterwards all instances answer and time passes.
        simulation.resting = true;
        let mut quiet = 0;
        for _ in 0..200 {
            quiet = if simulation.lead(usize::MAX) { quiet + 1 } else { 0 };
            simulation.check();
            INSTANCES.iter().for_each(|instance| simulation.answer(instance, true));
            simulation.check();
            simulation.pass(LONGEST / 4);
            simulation.attached.retain(|_, state| state != "away");
            for name in ACCOUNTS {
                let gone = simulation.accounts.get(name).and_then(|row| row.instance.clone())
                    .is_some_and(|instance| !simulation.attached.contains_key(&instance));
                if gone {
                    simulation.assign(ACCOUNTS.iter().position(|other| *other == name).unwrap(), Some(0));
                }
            }
            if quiet > 10 {
                break;
            }
        }
        prop_assert!(quiet > 10, "the tree never converges: {simulation:#?}");
        let counted: u64 = simulation.totals.values().sum();
        if !simulation.forgot {
            prop_assert_eq!(counted, simulation.reported, "use is not counted once");
        }
        for (name, row) in &simulation.accounts {
            let shown: Vec<&InstanceId> = simulation.tree.instances.iter()
                .filter(|(_, observed)| observed.accounts.contains_key(name)).map(|(id, _)| id).collect();
            let there = row.instance.as_ref().filter(|_| row.state == "assigned").map(|instance| id(instance));
            prop_assert_eq!(shown, there.iter().collect::<Vec<_>>(), "{}", name);
        }
    }
}
