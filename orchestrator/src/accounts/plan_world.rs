//! All rules of `plan` together in a world of random events: a book that changes, instances that come, go, crash and are
//! slow, leaders that die between any two writes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::plan::{Change, Moment, Step, plan, suspects};
use super::plan_tests::{BARRIER, LONGEST, NOW, book, dealt, place, present, row};
use super::stuck::Stuck;
use super::view::{Alloc, Book, Place, Shown, View};
use super::words::Said;
use crate::coordination::Version;
use crate::store::AccountRow;

const INSTANCES: [&str; 3] = ["a", "b", "c"];
const ACCOUNTS: [&str; 4] = ["p", "q", "r", "s"];

/// A process of a client system: what it believes that it may use.
#[derive(Debug, Clone, Default)]
struct Process {
    holds: BTreeMap<String, u64>,
    /// What it has written.
    said: BTreeMap<String, u64>,
}

/// Book, tree and processes, without any of the machinery.
#[derive(Debug, Default)]
struct World {
    now: u64,
    counter: u64,
    accounts: BTreeMap<String, AccountRow>,
    known: BTreeSet<(String, u64)>,
    attached: BTreeMap<String, String>,
    tree: View,
    processes: BTreeMap<String, Process>,
    /// What this leader remembers.
    told: BTreeMap<Place, i64>,
    barrier: bool,
}

impl World {
    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn book(&self) -> Book {
        let attached: Vec<(&str, &str)> =
            self.attached.iter().map(|(name, state)| (name.as_str(), state.as_str())).collect();
        book(&attached, self.accounts.values().cloned().collect())
    }

    /// The book deals, or takes, an account, to whoever it likes.
    fn deal(&mut self, account: usize, to: Option<usize>) {
        let active: Vec<String> = self.attached.keys().cloned().collect();
        let to = to.and_then(|to| active.get(to % active.len().max(1)).cloned());
        let (account, epoch) = (ACCOUNTS[account].to_owned(), self.next());
        let state = if to.is_some() { "dealt" } else { "free" };
        self.known.insert((account.clone(), epoch));
        self.accounts.insert(account.clone(), row(&account, to.as_deref(), state, epoch));
    }

    /// A failover forgets the last deal of an account.
    fn forget(&mut self, account: usize) {
        let name = ACCOUNTS[account];
        if let Some(row) = self.accounts.get_mut(name) {
            self.known.remove(&(name.to_owned(), row.epoch));
            *row = self::row(name, None, "free", 0);
        }
    }

    fn come(&mut self, instance: &str) {
        let created = self.next() as i64;
        self.processes.insert(instance.into(), Process::default());
        self.tree.at(&place(instance)).present = Some(present(created, false));
    }

    fn go(&mut self, instance: &str) {
        self.processes.remove(instance);
        let stand = self.tree.at(&place(instance));
        stand.present = None;
        if stand.is_empty() {
            self.tree.places.remove(&place(instance));
        }
    }

    /// A process looks at what it is shown, and answers.
    fn look(&mut self, instance: &str, answers: bool) {
        let Some(process) = self.processes.get_mut(instance) else { return };
        let Some(stand) = self.tree.places.get_mut(&place(instance)) else { return };
        if !stand.is_held() || !answers {
            return;
        }
        process.holds.retain(|account, _| stand.accounts.contains_key(account));
        process.said.retain(|account, _| stand.accounts.contains_key(account));
        for (account, shown) in &stand.accounts {
            if shown.revoked.is_some() {
                process.holds.remove(account);
                process.said.insert(account.clone(), shown.epoch);
            } else {
                process.holds.insert(account.clone(), shown.epoch);
                process.said.remove(account);
            }
        }
        if let Some(alloc) = &mut stand.alloc {
            alloc.said = Said { released: process.said.clone(), ..Said::default() };
        }
    }

    /// A leader compares, and dies after so many of its writes.
    fn lead(&mut self, writes: usize) -> bool {
        let book = self.book();
        let unknown: BTreeSet<_> =
            suspects(&self.tree, &book).into_iter().filter(|deal| !self.known.contains(deal)).collect();
        let moment = Moment {
            now: self.now,
            attached: &self.told,
            unknown: &unknown,
            longest: LONGEST,
            barrier: self.barrier.then_some(BARRIER),
            stuck: &Stuck::new(BARRIER),
        };
        let plan = plan(&self.tree, &book, &moment);
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
        for step in plan.takes.iter().chain(&plan.places) {
            if !may() {
                return false;
            }
            self.step(step);
        }
        self.barrier &= plan.held_up;
        for step in &plan.shows {
            if !may() {
                return false;
            }
            self.step(step);
        }
        plan.is_empty() && !plan.held_up
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Detach { instance, .. } => drop(self.attached.insert(instance.clone(), "away".into())),
            Change::Attach { place, created, .. } => {
                self.attached.insert(place.instance.clone(), "active".into());
                self.told.insert(place.clone(), *created);
            }
            Change::Logout { .. } | Change::Freeze { .. } => {}
            Change::GiveBack { account } => {
                let account = ACCOUNTS.iter().position(|name| name == account).unwrap();
                self.deal(account, Some(account));
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Revoke { place, account, until } => {
                let now = self.now;
                let shown = self.tree.at(place).accounts.get_mut(account).unwrap();
                *shown =
                    Shown { revoked: shown.revoked.or(Some(now)), until: until.or(shown.until), ..*shown };
            }
            Step::Hide { place, account } => {
                assert!(self.tree.at(place).accounts.remove(account).is_some());
            }
            Step::Redeal { place, account, epoch } => {
                self.tree.at(place).accounts.get_mut(account).unwrap().epoch = *epoch;
            }
            Step::Clear { place } => {
                assert!(self.tree.at(place).accounts.is_empty());
                self.tree.places.remove(place);
            }
            Step::Introduce { place } => {
                let created = self.next() as i64;
                let stand = self.tree.at(place);
                stand.present.as_mut().unwrap().introduced = true;
                stand.alloc = Some(Alloc { created, version: Version::FIRST, said: Said::default() });
            }
            Step::Show { place, account, epoch } => {
                assert!(self.tree.at(place).accounts.insert(account.clone(), dealt(*epoch)).is_none());
            }
        }
    }

    /// No account is shown to two, or used by two.
    fn check(&self) {
        let mut shown = BTreeMap::new();
        for (place, stand) in &self.tree.places {
            for account in stand.accounts.keys() {
                let before = shown.insert(account.clone(), place.clone());
                assert!(before.is_none(), "{account} is shown to {before:?} and {place:?}");
            }
        }
        let mut used = BTreeMap::new();
        for (name, process) in &self.processes {
            for account in process.holds.keys() {
                let before = used.insert(account.clone(), name.clone());
                assert!(before.is_none(), "{account} is used by {before:?} and {name}");
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
            8 => self.look(instance, true),
            9 => self.now += 5000,
            // The leader dies, and the next one takes over.
            10 => {
                self.lead(1 + writes);
                (self.told, self.barrier) = (BTreeMap::new(), true);
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
        let mut world = World { now: NOW, barrier: true, ..World::default() };
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
            world.now += LONGEST / 4;
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
            let shown: Vec<&Place> = world.tree.places.iter()
                .filter(|(_, stand)| stand.accounts.contains_key(name)).map(|(place, _)| place).collect();
            let there = row.instance.as_ref().filter(|_| row.state == "dealt").map(|instance| place(instance));
            prop_assert_eq!(shown, there.iter().collect::<Vec<_>>(), "{}", name);
        }
    }
}
