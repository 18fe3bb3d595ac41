//! The rules of `plan`, one by one, and all of them together in a world of random events: a book that changes, instances
//! that come, go, crash and are slow, leaders that die between any two writes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::plan::{Change, Moment, Plan, Step, plan, suspects};
use super::view::{Alloc, Book, Place, Presence, Shown, Stand, View};
use super::words::Said;
use crate::coordination::Version;
use crate::store::{AccountRow, ModuleRow};

const NOW: u64 = 1_000_000;
const BARRIER: u64 = 10_000;
const LONGEST: u64 = 60_000;

fn place(instance: &str) -> Place {
    Place { dir: "/resource/d/m".into(), instance: instance.into() }
}

fn present(created: i64, introduced: bool) -> Presence {
    Presence { created, version: Version::FIRST, introduced }
}

fn alloc() -> Alloc {
    Alloc { created: 1, version: Version::FIRST, said: Said::default() }
}

fn dealt(epoch: u64) -> Shown {
    Shown { epoch, revoked: None, until: None, version: Version::FIRST }
}

fn revoked(epoch: u64, since: u64) -> Shown {
    Shown { revoked: Some(since), ..dealt(epoch) }
}

/// An instance that is there and was told where its accounts are.
fn stand(accounts: &[(&str, Shown)]) -> Stand {
    let accounts = accounts.iter().map(|(name, shown)| ((*name).to_owned(), *shown)).collect();
    Stand { present: Some(present(1, true)), alloc: Some(alloc()), accounts }
}

fn row(account: &str, instance: Option<&str>, state: &str, epoch: u64) -> AccountRow {
    AccountRow {
        account: account.into(),
        module: "m".into(),
        instance: instance.map(str::to_owned),
        state: state.into(),
        epoch,
    }
}

fn book(attached: &[(&str, &str)], accounts: Vec<AccountRow>) -> Book {
    let attached = attached.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect();
    let module = ModuleRow { module: "m".into(), department: "d".into(), attached };
    Book::new(vec![module], accounts, |department, module| format!("/resource/{department}/{module}"))
}

fn view(stands: Vec<(&str, Stand)>) -> View {
    View { places: stands.into_iter().map(|(name, stand)| (place(name), stand)).collect() }
}

fn planned(view: &View, book: &Book) -> Plan {
    with(view, book, None, &[])
}

fn with(view: &View, book: &Book, barrier: Option<u64>, unknown: &[(&str, u64)]) -> Plan {
    let unknown = unknown.iter().map(|(name, epoch)| ((*name).to_owned(), *epoch)).collect();
    let attached = BTreeMap::new();
    plan(view, book, &Moment { now: NOW, attached: &attached, unknown: &unknown, longest: LONGEST, barrier })
}

fn said(released: &[(&str, u64)], unusable: &[(&str, u64)]) -> Said {
    let of = |list: &[(&str, u64)]| list.iter().map(|(name, epoch)| ((*name).to_owned(), *epoch)).collect();
    Said { released: of(released), unusable: of(unusable) }
}

fn says(mut stand: Stand, words: Said) -> Stand {
    stand.alloc.as_mut().unwrap().said = words;
    stand
}

#[test]
fn an_instance_that_comes_is_attached_then_introduced_and_then_shown_its_accounts() {
    let new = Stand { present: Some(present(7, false)), ..Stand::default() };
    let mut tree = view(vec![("a", new)]);
    let first = planned(&tree, &book(&[], vec![row("p", None, "free", 0)]));
    let attach = Change::Attach { module: "m".into(), place: place("a"), created: 7 };
    assert_eq!((first.changes, first.places.len(), first.shows.len()), (vec![attach], 0, 0));

    let full = book(&[("a", "active")], vec![row("p", Some("a"), "dealt", 5)]);
    let attached = BTreeMap::from([(place("a"), 7)]);
    let moment =
        Moment { now: NOW, attached: &attached, unknown: &BTreeSet::new(), longest: 1, barrier: None };
    let second = plan(&tree, &full, &moment);
    assert_eq!(second.places, [Step::Introduce { place: place("a") }]);
    assert!(second.changes.is_empty() && second.shows.is_empty());

    tree.at(&place("a")).present = Some(present(7, true));
    tree.at(&place("a")).alloc = Some(alloc());
    let third = plan(&tree, &full, &moment);
    assert_eq!(third.shows, [Step::Show { place: place("a"), account: "p".into(), epoch: 5 }]);
}

#[test]
fn an_account_is_asked_for_waited_for_and_then_shown_to_the_other() {
    let full = book(&[("a", "active"), ("b", "active")], vec![row("p", Some("b"), "dealt", 6)]);
    let before = planned(&view(vec![("a", stand(&[("p", dealt(5))])), ("b", stand(&[]))]), &full);
    assert_eq!(before.takes, [Step::Revoke { place: place("a"), account: "p".into(), until: None }]);
    assert!(before.shows.is_empty());

    let asked = stand(&[("p", revoked(5, NOW - 99_999))]);
    let waiting = planned(&view(vec![("a", asked.clone()), ("b", stand(&[]))]), &full);
    assert!(waiting.is_empty());
    assert_eq!(waiting.pending, 1);

    let gives = says(asked, said(&[("p", 5)], &[]));
    let given = planned(&view(vec![("a", gives), ("b", stand(&[]))]), &full);
    assert_eq!(given.takes, [Step::Hide { place: place("a"), account: "p".into() }]);
    assert!(given.shows.is_empty(), "it is still in the tree");
    let after = planned(&view(vec![("a", stand(&[])), ("b", stand(&[]))]), &full);
    assert_eq!(after.shows, [Step::Show { place: place("b"), account: "p".into(), epoch: 6 }]);
}

#[test]
fn what_was_said_of_another_deal_is_not_believed() {
    let full = book(&[("a", "active")], vec![row("p", None, "free", 6)]);
    let late = says(stand(&[("p", revoked(5, NOW))]), said(&[("p", 4)], &[]));
    assert!(planned(&view(vec![("a", late)]), &full).takes.is_empty());
    // Nor is a deal shown again before its instance has seen that it was taken away.
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "dealt", 5)]);
    let late = says(stand(&[]), said(&[("p", 5)], &[]));
    assert!(planned(&view(vec![("a", late)]), &full).is_empty());
}

#[test]
fn what_an_instance_gives_back_by_its_own_wish_is_dealt_anew() {
    let full =
        book(&[("a", "active")], vec![row("p", Some("a"), "dealt", 5), row("q", Some("a"), "dealt", 6)]);
    let gives = says(stand(&[("p", dealt(5)), ("q", dealt(6))]), said(&[("p", 5)], &[("q", 6)]));
    let back = planned(&view(vec![("a", gives)]), &full);
    let expected = [Change::GiveBack { account: "p".into() }, Change::Freeze { account: "q".into() }];
    assert_eq!((back.changes.as_slice(), back.takes.len()), (&expected[..], 0));
}

#[test]
fn a_logged_in_account_is_given_back_by_its_deal() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "revoking", 5)]);
    let gives = says(stand(&[("p", revoked(5, NOW))]), said(&[("p", 5)], &[]));
    let back = planned(&view(vec![("a", gives)]), &full);
    assert_eq!(back.changes, [Change::Logout { account: "p".into(), epoch: 5 }]);
    assert_eq!(back.takes, [Step::Hide { place: place("a"), account: "p".into() }]);
}

#[test]
fn an_instance_that_went_is_detached_and_what_it_had_goes_on_when_the_book_says_so() {
    let gone = Stand { present: None, ..stand(&[("p", dealt(5))]) };
    let here = [row("p", Some("a"), "dealt", 5)];
    let first = planned(&view(vec![("a", gone.clone())]), &book(&[("a", "active")], here.to_vec()));
    assert_eq!(first.changes, [Change::Detach { module: "m".into(), instance: "a".into() }]);
    let away = planned(&view(vec![("a", gone.clone())]), &book(&[("a", "away")], here.to_vec()));
    assert!(away.is_empty(), "its accounts wait for it");
    // Somebody is logged in.
    let late = book(&[("a", "leaving")], vec![row("p", Some("a"), "revoking", 5)]);
    assert!(planned(&view(vec![("a", gone.clone())]), &late).is_empty());
    let free = book(&[], vec![row("p", None, "free", 5)]);
    let next = planned(&view(vec![("a", gone)]), &free);
    assert_eq!(next.takes, [Step::Hide { place: place("a"), account: "p".into() }]);
    let empty = Stand { present: None, ..stand(&[]) };
    let last = planned(&view(vec![("a", empty)]), &free);
    assert_eq!(last.places, [Step::Clear { place: place("a") }]);
}

#[test]
fn another_process_of_the_same_name_is_detached_and_attached_and_inherits_nothing_it_was_not_shown() {
    let full = book(&[("a", "active")], vec![row("p", None, "free", 5), row("q", Some("a"), "dealt", 6)]);
    let other = Stand { present: Some(present(9, false)), ..stand(&[("p", revoked(5, 1)), ("q", dealt(6))]) };
    let first = planned(&view(vec![("a", other.clone())]), &full);
    let detach = Change::Detach { module: "m".into(), instance: "a".into() };
    let attach = Change::Attach { module: "m".into(), place: place("a"), created: 9 };
    assert_eq!(first.changes, [detach, attach]);
    assert_eq!(first.takes, [Step::Hide { place: place("a"), account: "p".into() }]);
    let attached = BTreeMap::from([(place("a"), 9)]);
    let moment =
        Moment { now: NOW, attached: &attached, unknown: &BTreeSet::new(), longest: 1, barrier: None };
    assert!(plan(&view(vec![("a", other)]), &full, &moment).places.is_empty(), "not before that is hidden");
}

#[test]
fn a_deal_that_the_book_does_not_know_outlives_its_instance_by_the_longest_login() {
    let gone = |shown| view(vec![("a", Stand { present: None, ..stand(&[("p", shown)]) })]);
    let full = book(&[], vec![row("p", None, "free", 4)]);
    assert_eq!(suspects(&gone(dealt(5)), &full), BTreeSet::from([("p".to_owned(), 5)]));
    let until = Some(NOW + LONGEST);
    let first = with(&gone(dealt(5)), &full, None, &[("p", 5)]);
    assert_eq!(first.takes, [Step::Revoke { place: place("a"), account: "p".into(), until }]);
    let waiting = with(&gone(Shown { until, ..revoked(5, NOW) }), &full, None, &[("p", 5)]);
    assert!(waiting.is_empty());
    assert_eq!(waiting.next, until);
    let over = with(&gone(Shown { until: Some(NOW), ..revoked(5, 1) }), &full, None, &[("p", 5)]);
    assert_eq!(over.takes, [Step::Hide { place: place("a"), account: "p".into() }]);
    // One that is there is believed.
    let there = says(stand(&[("p", revoked(5, NOW))]), said(&[("p", 5)], &[]));
    assert_eq!(with(&view(vec![("a", there)]), &full, None, &[]).takes.len(), 1);
}

#[test]
fn the_barrier_holds_all_adds_until_all_deletes_are_done_or_late() {
    let full = book(
        &[("a", "active"), ("b", "active")],
        vec![row("p", Some("b"), "dealt", 6), row("q", Some("b"), "dealt", 7)],
    );
    let at = |since| view(vec![("a", stand(&[("p", revoked(5, since))])), ("b", stand(&[]))]);
    let held = with(&at(NOW - 1), &full, Some(BARRIER), &[]);
    assert!(held.held_up && held.shows.is_empty());
    assert_eq!(held.next, Some(NOW - 1 + BARRIER));
    let late = with(&at(NOW - BARRIER), &full, Some(BARRIER), &[]);
    assert!(!late.held_up);
    assert_eq!(late.shows, [Step::Show { place: place("b"), account: "q".into(), epoch: 7 }]);
    // A delete that is not done holds as well.
    let free = book(&[("b", "active")], vec![row("q", Some("b"), "dealt", 7)]);
    let gone = Stand { present: None, ..stand(&[("p", dealt(5))]) };
    let deleting = with(&view(vec![("a", gone), ("b", stand(&[]))]), &free, Some(BARRIER), &[]);
    assert!(deleting.held_up && deleting.shows.is_empty());
}

#[test]
fn a_new_deal_to_the_same_instance_is_told() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "dealt", 9)]);
    let told = planned(&view(vec![("a", stand(&[("p", dealt(5))]))]), &full);
    assert_eq!(told.takes, [Step::Redeal { place: place("a"), account: "p".into(), epoch: 9 }]);
}

// --- all together

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
