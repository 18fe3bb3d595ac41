//! The rules of `plan`, one by one. `plan_world` has all of them together.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Change, Moment, Plan, Step, plan, suspects};
use super::stuck::Stuck;
use super::view::{Alloc, Book, Place, Presence, Shown, Stand, View};
use super::words::Said;
use allot_client::{AccountRow, ModuleRow};
use allot_coordination::Version;

pub(super) const NOW: u64 = 1_000_000;
pub(super) const BARRIER: u64 = 10_000;
pub(super) const LONGEST: u64 = 60_000;

pub(super) fn place(instance: &str) -> Place {
    Place { dir: "/resource/d/m".into(), instance: instance.into() }
}

pub(super) fn present(created: i64, introduced: bool) -> Presence {
    Presence { created, version: Version::FIRST, introduced }
}

fn alloc() -> Alloc {
    Alloc { created: 1, version: Version::FIRST, said: Said::default() }
}

pub(super) fn dealt(epoch: u64) -> Shown {
    Shown { epoch, revoked: None, until: None, version: Version::FIRST, inherited: false }
}

fn revoked(epoch: u64, since: u64) -> Shown {
    Shown { revoked: Some(since), ..dealt(epoch) }
}

/// An instance that is there and was told where its accounts are.
fn stand(accounts: &[(&str, Shown)]) -> Stand {
    let accounts = accounts.iter().map(|(name, shown)| ((*name).to_owned(), *shown)).collect();
    Stand { present: Some(present(1, true)), alloc: Some(alloc()), accounts, strangers: false }
}

pub(super) fn row(account: &str, instance: Option<&str>, state: &str, epoch: u64) -> AccountRow {
    AccountRow {
        account: account.into(),
        module: "m".into(),
        instance: instance.map(str::to_owned),
        state: state.into(),
        epoch,
        login: false,
    }
}

pub(super) fn book(attached: &[(&str, &str)], accounts: Vec<AccountRow>) -> Book {
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
    let (attached, stuck) = (BTreeMap::new(), Stuck::new(BARRIER));
    let moment = Moment {
        now: NOW,
        attached: &attached,
        unknown: &unknown,
        longest: LONGEST,
        barrier,
        began: NOW,
        stuck: &stuck,
    };
    plan(view, book, &moment)
}

/// When this leader has attached the process of one instance already.
fn attached(view: &View, book: &Book, instance: &str, created: i64) -> Plan {
    let (attached, unknown) = (BTreeMap::from([(place(instance), created)]), BTreeSet::new());
    let (longest, barrier, stuck) = (LONGEST, None, &Stuck::new(BARRIER));
    let (attached, unknown) = (&attached, &unknown);
    plan(view, book, &Moment { now: NOW, attached, unknown, longest, barrier, began: NOW, stuck })
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
    let second = attached(&tree, &full, "a", 7);
    assert_eq!(second.places, [Step::Introduce { place: place("a") }]);
    assert!(second.changes.is_empty() && second.shows.is_empty());

    tree.at(&place("a")).present = Some(present(7, true));
    tree.at(&place("a")).alloc = Some(alloc());
    let third = attached(&tree, &full, "a", 7);
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
    let expected =
        [Change::GiveBack { account: "p".into(), epoch: 5 }, Change::Freeze { account: "q".into() }];
    assert_eq!((back.changes.as_slice(), back.takes.len()), (&expected[..], 0));
    // Unless the process before it may be logged in.
    let mut later = says(stand(&[("p", dealt(5))]), said(&[("p", 5)], &[]));
    later.come(present(9, true));
    let later = view(vec![("a", later)]);
    assert_eq!(planned(&later, &full).changes, expected[..1]);
    let live = AccountRow { login: true, ..row("p", Some("a"), "dealt", 5) };
    assert!(planned(&later, &book(&[("a", "active")], vec![live])).is_empty());
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
    let second = attached(&view(vec![("a", other)]), &full, "a", 9);
    assert!(second.places.is_empty(), "not before that is hidden");
}

#[test]
fn another_process_of_the_same_name_does_not_speak_for_who_may_be_logged_in_still() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "revoking", 5)]);
    let mut other = says(stand(&[("p", revoked(5, NOW))]), said(&[("p", 5)], &[]));
    other.come(present(9, true));
    assert!(planned(&view(vec![("a", other.clone())]), &full).is_empty(), "the login ends by itself");
    let over = book(&[("a", "active")], vec![row("p", None, "free", 5)]);
    let hidden = planned(&view(vec![("a", other.clone())]), &over);
    assert_eq!(hidden.takes, [Step::Hide { place: place("a"), account: "p".into() }]);
    // Nor for a login that the book has forgotten with its deal.
    let forgot = book(&[("a", "active")], vec![row("p", Some("a"), "dealt", 6)]);
    let mut tree = view(vec![("a", other)]);
    assert_eq!(suspects(&tree, &forgot), BTreeSet::from([("p".to_owned(), 5)]));
    let until = Some(NOW + LONGEST);
    let first = with(&tree, &forgot, None, &[("p", 5)]);
    assert_eq!(first.takes, [Step::Revoke { place: place("a"), account: "p".into(), until }]);
    tree.at(&place("a")).accounts.get_mut("p").unwrap().until = until;
    let waiting = with(&tree, &forgot, None, &[("p", 5)]);
    assert_eq!((waiting.is_empty(), waiting.next), (true, until));
}

#[test]
fn what_no_earlier_process_is_logged_in_with_is_its_successor_s_own() {
    let shown = stand(&[("p", dealt(5)), ("q", dealt(6)), ("r", dealt(3))]);
    let mut tree = view(vec![("a", says(shown, said(&[("p", 5), ("q", 6)], &[])))]);
    tree.at(&place("a")).come(present(9, true));
    let live = AccountRow { login: true, ..row("q", Some("a"), "dealt", 6) };
    // One is free, with one the earlier process is logged in, and the book knows the last by another deal.
    let rows = vec![row("p", Some("a"), "dealt", 5), live, row("r", Some("a"), "dealt", 4)];
    tree.settle(&book(&[("a", "active")], rows));
    let inherited = |name| tree.places[&place("a")].accounts[name].inherited;
    assert_eq!(["p", "q", "r"].map(inherited), [false, true, true]);
    // Asked for, it speaks for the one login, and not for the other.
    let rows = ["p", "q"].map(|name| AccountRow {
        login: true,
        ..row(name, Some("a"), "revoking", if name == "p" { 5 } else { 6 })
    });
    let plan = planned(&tree, &book(&[("a", "active")], rows.to_vec()));
    assert_eq!(plan.changes, [Change::Logout { account: "p".into(), epoch: 5 }]);
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
    // The clock of who asked is ahead.
    assert_eq!(with(&at(NOW + 3_600_000), &full, Some(BARRIER), &[]).next, Some(NOW + BARRIER));
    // A change of the book may bring more of them.
    let mut tree = view(vec![("b", stand(&[]))]);
    tree.at(&place("c")).present = Some(present(9, false));
    let comes = with(&tree, &full, Some(BARRIER), &[]);
    assert!(comes.held_up && comes.changes.len() == 2 && comes.shows.is_empty(), "{comes:?}");
    assert_eq!(comes.next, Some(NOW + BARRIER));
    assert_eq!(with(&tree, &full, None, &[]).shows.len(), 2);
    // A delete that is not done holds as well.
    let free = book(&[("b", "active")], vec![row("q", Some("b"), "dealt", 7)]);
    let gone = Stand { present: None, ..stand(&[("p", dealt(5))]) };
    let deleting = with(&view(vec![("a", gone), ("b", stand(&[]))]), &free, Some(BARRIER), &[]);
    assert!(deleting.held_up && deleting.shows.is_empty());
}

#[test]
fn a_delete_that_cannot_be_done_is_waited_for_no_longer_than_an_instance_that_is_silent() {
    let full = book(&[("b", "active")], vec![row("q", Some("b"), "dealt", 7)]);
    let gone = Stand { present: None, ..stand(&[("p", dealt(5))]) };
    let tree = view(vec![("a", gone), ("b", stand(&[]))]);
    let (attached, unknown, failed) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::from([place("a")]));
    let mut stuck = Stuck::new(BARRIER);
    let mut at = |now| {
        stuck.note(&failed, now);
        let barrier = Some(BARRIER);
        let (longest, stuck) = (LONGEST, &stuck);
        plan(
            &tree,
            &full,
            &Moment { now, attached: &attached, unknown: &unknown, longest, barrier, began: NOW, stuck },
        )
    };
    let held = at(NOW);
    assert!(held.held_up && held.shows.is_empty() && !held.is_done());
    assert_eq!(held.next, Some(NOW + BARRIER));
    assert!(at(NOW + BARRIER - 1).held_up);
    let late = at(NOW + BARRIER);
    assert_eq!((late.held_up, late.takes.len(), late.shows.len()), (false, 1, 1), "it is tried all the same");
    let shown = stand(&[("q", dealt(7))]);
    let gone = Stand { present: None, ..stand(&[("p", dealt(5))]) };
    let tree = view(vec![("a", gone), ("b", shown)]);
    let (now, barrier) = (NOW + BARRIER, None);
    let moment = Moment {
        now,
        attached: &attached,
        unknown: &unknown,
        longest: LONGEST,
        barrier,
        began: NOW,
        stuck: &stuck,
    };
    assert!(plan(&tree, &full, &moment).is_done(), "all else is as it is to be");
}

#[test]
fn an_instance_that_cannot_even_be_asked_is_waited_for_no_longer_than_one_that_is_silent() {
    let full = book(&[("a", "active"), ("b", "active")], vec![row("q", Some("b"), "dealt", 7)]);
    let tree = view(vec![("a", stand(&[("p", dealt(5))])), ("b", stand(&[]))]);
    let (attached, unknown, barrier) = (BTreeMap::new(), BTreeSet::new(), Some(BARRIER));
    let mut stuck = Stuck::new(BARRIER);
    for (now, held_up) in [(NOW, true), (NOW + BARRIER - 1, true), (NOW + BARRIER, false)] {
        stuck.note(&BTreeSet::from([place("a")]), now);
        let (longest, stuck) = (LONGEST, &stuck);
        let moment =
            Moment { now, attached: &attached, unknown: &unknown, longest, barrier, began: NOW, stuck };
        assert_eq!(plan(&tree, &full, &moment).held_up, held_up);
    }
}

#[test]
fn a_node_with_a_stranger_s_child_is_not_taken_away() {
    let bare = Stand { present: None, ..stand(&[]) };
    let full = book(&[], vec![]);
    assert_eq!(planned(&view(vec![("a", bare.clone())]), &full).places, [Step::Clear { place: place("a") }]);
    let shared = Stand { strangers: true, ..bare };
    assert!(planned(&view(vec![("a", shared)]), &full).is_empty());
}

#[test]
fn a_new_deal_to_the_same_instance_is_told() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "dealt", 9)]);
    let told = planned(&view(vec![("a", stand(&[("p", dealt(5))]))]), &full);
    assert_eq!(told.takes, [Step::Redeal { place: place("a"), account: "p".into(), epoch: 9 }]);
}
