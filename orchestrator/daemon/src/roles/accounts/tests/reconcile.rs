//! Tests of each rule of `plan`. `reconcile_simulation` tests all of them together.

use std::collections::{BTreeMap, BTreeSet};

use super::super::observed_tree::{ObservedInstance, PublishedAccount};
use super::super::protocol::ClientReport;
use super::super::reconcile::{Action, Change, ReconcileInput, plan, unverified_assignments};
use super::super::write_backoff::WriteBackoff;
use super::fixtures::{
    BARRIER, LAST_EPOCH, LONGEST, NOW, alloc, assigned, attached, book, id, observed, planned, present,
    report_of, revoked, row, tree_of, with, with_report, with_use,
};
use allot_client::AccountRow;

#[test]
fn new_instance_is_attached_then_introduced_then_given_accounts() {
    let new = ObservedInstance { present: Some(present(7, false)), ..ObservedInstance::default() };
    let mut tree = tree_of(vec![("a", new)]);
    let first = planned(&tree, &book(&[], vec![row("p", None, "free", 0)]));
    let attach = Change::Attach { module: "m".into(), id: id("a"), created: 7 };
    assert_eq!((first.changes, first.placements.len(), first.assignments.len()), (vec![attach], 0, 0));

    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 5)]);
    let second = attached(&tree, &full, "a", 7);
    assert_eq!(second.placements, [Action::Introduce { id: id("a") }]);
    assert!(second.changes.is_empty() && second.assignments.is_empty());

    tree.at(&id("a")).present = Some(present(7, true));
    tree.at(&id("a")).alloc = Some(alloc());
    let third = attached(&tree, &full, "a", 7);
    assert_eq!(third.assignments, [Action::Publish { id: id("a"), account: "p".into(), epoch: 5 }]);
}

#[test]
fn account_is_revoked_then_released_then_published_to_the_next() {
    let full = book(&[("a", "active"), ("b", "active")], vec![row("p", Some("b"), "assigned", 6)]);
    let before = planned(&tree_of(vec![("a", observed(&[("p", assigned(5))])), ("b", observed(&[]))]), &full);
    assert_eq!(before.revocations, [Action::Revoke { id: id("a"), account: "p".into(), until: None }]);
    assert!(before.assignments.is_empty());

    let revoked_at_a = observed(&[("p", revoked(5, NOW - 99_999))]);
    let waiting = planned(&tree_of(vec![("a", revoked_at_a.clone()), ("b", observed(&[]))]), &full);
    assert!(waiting.is_empty());
    assert_eq!(waiting.pending, 1);

    let gives = with_report(revoked_at_a, report_of(&[("p", 5)], &[]));
    let given = planned(&tree_of(vec![("a", gives), ("b", observed(&[]))]), &full);
    assert_eq!(given.revocations, [Action::Withdraw { id: id("a"), account: "p".into() }]);
    assert!(given.assignments.is_empty(), "the old node is still in the tree");
    let after = planned(&tree_of(vec![("a", observed(&[])), ("b", observed(&[]))]), &full);
    assert_eq!(after.assignments, [Action::Publish { id: id("b"), account: "p".into(), epoch: 6 }]);
}

#[test]
fn report_about_another_epoch_is_ignored() {
    let full = book(&[("a", "active")], vec![row("p", None, "free", 6)]);
    let late = with_report(observed(&[("p", revoked(5, NOW))]), report_of(&[("p", 4)], &[]));
    assert!(planned(&tree_of(vec![("a", late)]), &full).revocations.is_empty());
    // An assignment that the instance has ended is published under a later epoch, and the report then changes nothing.
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 5)]);
    let late = with_report(observed(&[]), report_of(&[("p", 5)], &[]));
    let again = planned(&tree_of(vec![("a", late.clone())]), &full);
    assert_eq!(again.changes, [Change::Raise { epoch: 5, account: Some("p".into()) }]);
    assert!(again.assignments.is_empty());
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 6)]);
    let publish = Action::Publish { id: id("a"), account: "p".into(), epoch: 6 };
    assert_eq!(planned(&tree_of(vec![("a", late)]), &full).assignments, [publish]);
}

#[test]
fn account_returned_voluntarily_is_assigned_again() {
    let full = book(
        &[("a", "active")],
        vec![row("p", Some("a"), "assigned", 5), row("q", Some("a"), "assigned", 6)],
    );
    let gives =
        with_report(observed(&[("p", assigned(5)), ("q", assigned(6))]), report_of(&[("p", 5)], &[("q", 6)]));
    let back = planned(&tree_of(vec![("a", gives)]), &full);
    let expected = [Change::Return { account: "p".into(), epoch: 5 }, Change::Freeze { account: "q".into() }];
    assert_eq!((back.changes.as_slice(), back.revocations.len()), (&expected[..], 0));
    // The exception: an earlier process may still be logged in.
    let mut later = with_report(observed(&[("p", assigned(5))]), report_of(&[("p", 5)], &[]));
    later.set_present(present(9, true));
    let later = tree_of(vec![("a", later)]);
    assert_eq!(planned(&later, &full).changes, expected[..1]);
    let live = AccountRow { login: true, ..row("p", Some("a"), "assigned", 5) };
    assert!(planned(&later, &book(&[("a", "active")], vec![live])).is_empty());
}

#[test]
fn revoked_account_is_logged_out_by_its_epoch() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "revoking", 5)]);
    let gives = with_report(observed(&[("p", revoked(5, NOW))]), report_of(&[("p", 5)], &[]));
    let back = planned(&tree_of(vec![("a", gives)]), &full);
    assert_eq!(back.changes, [Change::Logout { account: "p".into(), epoch: 5 }]);
    assert_eq!(back.revocations, [Action::Withdraw { id: id("a"), account: "p".into() }]);
}

#[test]
fn gone_instance_is_detached_and_keeps_accounts_until_freed() {
    let gone = ObservedInstance { present: None, ..observed(&[("p", assigned(5))]) };
    let here = [row("p", Some("a"), "assigned", 5)];
    let first = planned(&tree_of(vec![("a", gone.clone())]), &book(&[("a", "active")], here.to_vec()));
    assert_eq!(first.changes, [Change::Detach { module: "m".into(), instance: "a".into(), leaves: false }]);
    let away = planned(&tree_of(vec![("a", gone.clone())]), &book(&[("a", "away")], here.to_vec()));
    assert!(away.is_empty(), "its accounts wait for it");
    // A client is still logged in.
    let late = book(&[("a", "leaving")], vec![row("p", Some("a"), "revoking", 5)]);
    assert!(planned(&tree_of(vec![("a", gone.clone())]), &late).is_empty());
    let free = book(&[], vec![row("p", None, "free", 5)]);
    let next = planned(&tree_of(vec![("a", gone)]), &free);
    assert_eq!(next.revocations, [Action::Withdraw { id: id("a"), account: "p".into() }]);
    let empty = ObservedInstance { present: None, ..observed(&[]) };
    let last = planned(&tree_of(vec![("a", empty)]), &free);
    assert_eq!(last.placements, [Action::Clear { id: id("a") }]);
}

#[test]
fn new_process_of_same_name_is_reattached_without_old_accounts() {
    let full = book(&[("a", "active")], vec![row("p", None, "free", 5), row("q", Some("a"), "assigned", 6)]);
    let other = ObservedInstance {
        present: Some(present(9, false)),
        ..observed(&[("p", revoked(5, 1)), ("q", assigned(6))])
    };
    let first = planned(&tree_of(vec![("a", other.clone())]), &full);
    let detach = Change::Detach { module: "m".into(), instance: "a".into(), leaves: false };
    let attach = Change::Attach { module: "m".into(), id: id("a"), created: 9 };
    assert_eq!(first.changes, [detach, attach]);
    assert_eq!(first.revocations, [Action::Withdraw { id: id("a"), account: "p".into() }]);
    let second = attached(&tree_of(vec![("a", other)]), &full, "a", 9);
    assert!(second.placements.is_empty(), "the old account must be withdrawn first");
}

#[test]
fn new_process_cannot_report_for_the_login_of_its_predecessor() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "revoking", 5)]);
    let mut other = with_report(observed(&[("p", revoked(5, NOW))]), report_of(&[("p", 5)], &[]));
    other.set_present(present(9, true));
    assert!(planned(&tree_of(vec![("a", other.clone())]), &full).is_empty(), "the login ends by itself");
    let over = book(&[("a", "active")], vec![row("p", None, "free", 5)]);
    let hidden = planned(&tree_of(vec![("a", other.clone())]), &over);
    assert_eq!(hidden.revocations, [Action::Withdraw { id: id("a"), account: "p".into() }]);
    // The same holds for a login that the book has forgotten with its assignment.
    let forgot = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 6)]);
    let mut tree = tree_of(vec![("a", other)]);
    assert_eq!(unverified_assignments(&tree, &forgot), BTreeSet::from([("p".to_owned(), 5)]));
    let until = Some(NOW + LONGEST);
    let first = with(&tree, &forgot, None, &[("p", 5)]);
    assert_eq!(first.revocations, [Action::Revoke { id: id("a"), account: "p".into(), until }]);
    tree.at(&id("a")).accounts.get_mut("p").unwrap().until = until;
    let waiting = with(&tree, &forgot, None, &[("p", 5)]);
    assert_eq!((waiting.is_empty(), waiting.next), (true, until));
}

#[test]
fn account_without_old_login_belongs_to_the_new_process() {
    let shown = observed(&[("p", assigned(5)), ("q", assigned(6)), ("r", assigned(3))]);
    let mut tree = tree_of(vec![("a", with_report(shown, report_of(&[("p", 5), ("q", 6)], &[])))]);
    tree.at(&id("a")).set_present(present(9, true));
    let live = AccountRow { login: true, ..row("q", Some("a"), "assigned", 6) };
    // `p` has no login, the earlier process is logged in with `q`, and the book has another epoch for `r`.
    let rows = vec![row("p", Some("a"), "assigned", 5), live, row("r", Some("a"), "assigned", 4)];
    tree.refresh_previous_sessions(&book(&[("a", "active")], rows));
    let from_previous_session = |name| tree.instances[&id("a")].accounts[name].from_previous_session;
    assert_eq!(["p", "q", "r"].map(from_previous_session), [false, true, true]);
    // After the revocation the process can report for `p`, but not for `q`.
    let rows = ["p", "q"].map(|name| AccountRow {
        login: true,
        ..row(name, Some("a"), "revoking", if name == "p" { 5 } else { 6 })
    });
    let plan = planned(&tree, &book(&[("a", "active")], rows.to_vec()));
    assert_eq!(plan.changes, [Change::Logout { account: "p".into(), epoch: 5 }]);
}

#[test]
fn unknown_assignment_outlives_its_instance_by_the_longest_login() {
    let gone = |shown| tree_of(vec![("a", ObservedInstance { present: None, ..observed(&[("p", shown)]) })]);
    let full = book(&[], vec![row("p", None, "free", 4)]);
    assert_eq!(unverified_assignments(&gone(assigned(5)), &full), BTreeSet::from([("p".to_owned(), 5)]));
    let until = Some(NOW + LONGEST);
    let first = with(&gone(assigned(5)), &full, None, &[("p", 5)]);
    assert_eq!(first.revocations, [Action::Revoke { id: id("a"), account: "p".into(), until }]);
    let waiting = with(&gone(PublishedAccount { until, ..revoked(5, NOW) }), &full, None, &[("p", 5)]);
    assert!(waiting.is_empty());
    assert_eq!(waiting.next, until);
    let over = with(&gone(PublishedAccount { until: Some(NOW), ..revoked(5, 1) }), &full, None, &[("p", 5)]);
    assert_eq!(over.revocations, [Action::Withdraw { id: id("a"), account: "p".into() }]);
    // The report of a present instance is accepted.
    let there = with_report(observed(&[("p", revoked(5, NOW))]), report_of(&[("p", 5)], &[]));
    assert_eq!(with(&tree_of(vec![("a", there)]), &full, None, &[]).revocations.len(), 1);
}

#[test]
fn barrier_holds_assignments_until_deletes_are_done_or_late() {
    let full = book(
        &[("a", "active"), ("b", "active")],
        vec![row("p", Some("b"), "assigned", 6), row("q", Some("b"), "assigned", 7)],
    );
    let at = |since| tree_of(vec![("a", observed(&[("p", revoked(5, since))])), ("b", observed(&[]))]);
    let held = with(&at(NOW - 1), &full, Some(BARRIER), &[]);
    assert!(held.held_up && held.assignments.is_empty());
    assert_eq!(held.next, Some(NOW - 1 + BARRIER));
    let late = with(&at(NOW - BARRIER), &full, Some(BARRIER), &[]);
    assert!(!late.held_up);
    assert_eq!(late.assignments, [Action::Publish { id: id("b"), account: "q".into(), epoch: 7 }]);
    // The clock of the leader that revoked the account is ahead.
    assert_eq!(with(&at(NOW + 3_600_000), &full, Some(BARRIER), &[]).next, Some(NOW + BARRIER));
    // A change of the book may cause further deletes.
    let mut tree = tree_of(vec![("b", observed(&[]))]);
    tree.at(&id("c")).present = Some(present(9, false));
    let comes = with(&tree, &full, Some(BARRIER), &[]);
    assert!(comes.held_up && comes.changes.len() == 2 && comes.assignments.is_empty(), "{comes:?}");
    assert_eq!(comes.next, Some(NOW + BARRIER));
    assert_eq!(with(&tree, &full, None, &[]).assignments.len(), 2);
    // A delete that is not done also holds the barrier.
    let free = book(&[("b", "active")], vec![row("q", Some("b"), "assigned", 7)]);
    let gone = ObservedInstance { present: None, ..observed(&[("p", assigned(5))]) };
    let deleting = with(&tree_of(vec![("a", gone), ("b", observed(&[]))]), &free, Some(BARRIER), &[]);
    assert!(deleting.held_up && deleting.assignments.is_empty());
}

#[test]
fn failing_delete_holds_the_barrier_no_longer_than_its_limit() {
    let full = book(&[("b", "active")], vec![row("q", Some("b"), "assigned", 7)]);
    let gone = ObservedInstance { present: None, ..observed(&[("p", assigned(5))]) };
    let tree = tree_of(vec![("a", gone), ("b", observed(&[]))]);
    let (attached, unknown, failed) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::from([id("a")]));
    let mut write_backoff = WriteBackoff::new(BARRIER);
    let mut at = |now| {
        write_backoff.note(&failed, now);
        let barrier = Some(BARRIER);
        let (longest, write_backoff) = (LONGEST, &write_backoff);
        plan(
            &tree,
            &full,
            &ReconcileInput {
                now,
                attached: &attached,
                counted: &BTreeMap::new(),
                unknown: &unknown,
                longest,
                barrier,
                began: NOW,
                write_backoff,
            },
        )
    };
    let held = at(NOW);
    assert!(held.held_up && held.assignments.is_empty() && !held.is_done());
    assert_eq!(held.next, Some(NOW + BARRIER));
    assert!(at(NOW + BARRIER - 1).held_up);
    let late = at(NOW + BARRIER);
    assert_eq!(
        (late.held_up, late.revocations.len(), late.assignments.len()),
        (false, 1, 1),
        "the delete is still tried"
    );
    let shown = observed(&[("q", assigned(7))]);
    let gone = ObservedInstance { present: None, ..observed(&[("p", assigned(5))]) };
    let tree = tree_of(vec![("a", gone), ("b", shown)]);
    let (now, barrier) = (NOW + BARRIER, None);
    let input = ReconcileInput {
        now,
        attached: &attached,
        counted: &BTreeMap::new(),
        unknown: &unknown,
        longest: LONGEST,
        barrier,
        began: NOW,
        write_backoff: &write_backoff,
    };
    assert!(plan(&tree, &full, &input).is_done(), "nothing else is left to do");
}

#[test]
fn failing_revocation_holds_the_barrier_no_longer_than_its_limit() {
    let full = book(&[("a", "active"), ("b", "active")], vec![row("q", Some("b"), "assigned", 7)]);
    let tree = tree_of(vec![("a", observed(&[("p", assigned(5))])), ("b", observed(&[]))]);
    let (attached, unknown, barrier) = (BTreeMap::new(), BTreeSet::new(), Some(BARRIER));
    let mut write_backoff = WriteBackoff::new(BARRIER);
    for (now, held_up) in [(NOW, true), (NOW + BARRIER - 1, true), (NOW + BARRIER, false)] {
        write_backoff.note(&BTreeSet::from([id("a")]), now);
        let (longest, write_backoff) = (LONGEST, &write_backoff);
        let input = ReconcileInput {
            now,
            attached: &attached,
            counted: &BTreeMap::new(),
            unknown: &unknown,
            longest,
            barrier,
            began: NOW,
            write_backoff,
        };
        assert_eq!(plan(&tree, &full, &input).held_up, held_up);
    }
}

#[test]
fn alloc_node_with_a_foreign_child_is_not_deleted() {
    let bare = ObservedInstance { present: None, ..observed(&[]) };
    let full = book(&[], vec![]);
    assert_eq!(
        planned(&tree_of(vec![("a", bare.clone())]), &full).placements,
        [Action::Clear { id: id("a") }]
    );
    let shared = ObservedInstance { foreign_nodes: true, ..bare };
    assert!(planned(&tree_of(vec![("a", shared)]), &full).is_empty());
}

#[test]
fn new_epoch_for_the_same_instance_is_written() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 9)]);
    let told = planned(&tree_of(vec![("a", observed(&[("p", assigned(5))]))]), &full);
    assert_eq!(told.reassignments, [Action::Reassign { id: id("a"), account: "p".into(), epoch: 9 }]);
}

#[test]
fn published_epoch_never_falls() {
    // The book has forgotten the assignment 5, and believes 4; the old report says that 4 was released.
    let raise = Change::Raise { epoch: 5, account: Some("p".into()) };
    let shown = with_report(observed(&[("p", assigned(5))]), report_of(&[("p", 4)], &[]));
    for (instance, state) in [("a", "active"), ("b", "standby")] {
        let full = book(&[("a", "active"), ("b", state)], vec![row("p", Some(instance), "assigned", 4)]);
        let kept = planned(&tree_of(vec![("a", shown.clone()), ("b", observed(&[]))]), &full);
        assert_eq!(kept.changes, std::slice::from_ref(&raise), "{instance}");
        assert!(kept.reassignments.is_empty() && kept.assignments.is_empty());
    }
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 7)]);
    let later = planned(&tree_of(vec![("a", shown)]), &full);
    assert_eq!(later.reassignments, [Action::Reassign { id: id("a"), account: "p".into(), epoch: 7 }]);
    assert!(later.changes.is_empty(), "the report of 4 says nothing about 5 and 7");
}

#[test]
fn later_epochs_of_the_book_are_above_all_that_are_published_or_reported() {
    let full = book(&[("a", "active")], vec![row("p", None, "free", 4)]);
    let of = |shown: ObservedInstance| planned(&tree_of(vec![("a", shown)]), &full).changes;
    assert_eq!(of(observed(&[("p", revoked(LAST_EPOCH, NOW))])), []);
    let raise = |epoch| Change::Raise { epoch, account: None };
    assert_eq!(of(observed(&[("p", revoked(LAST_EPOCH + 1, NOW))])), [raise(LAST_EPOCH + 1)]);
    let report = report_of(&[("q", LAST_EPOCH + 2)], &[("r", u64::MAX)]);
    assert_eq!(of(with_report(observed(&[]), report)), [raise(LAST_EPOCH + 2)]);
}

#[test]
fn epoch_that_no_book_gave_out_is_replaced() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 4)]);
    let written = planned(&tree_of(vec![("a", observed(&[("p", assigned(u64::MAX))]))]), &full);
    assert_eq!(written.reassignments, [Action::Reassign { id: id("a"), account: "p".into(), epoch: 4 }]);
    assert!(written.changes.is_empty());
}

#[test]
fn every_step_that_shows_something_waits_for_the_confirmation_of_replicas() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 9)]);
    assert!(planned(&tree_of(vec![("a", observed(&[("p", assigned(5))]))]), &full).publishes());
    assert!(planned(&tree_of(vec![("a", observed(&[]))]), &full).publishes());
    let new = ObservedInstance { present: Some(present(7, false)), ..observed(&[("p", assigned(9))]) };
    assert!(attached(&tree_of(vec![("a", new)]), &full, "a", 7).publishes());
    let free = book(&[("a", "active")], vec![row("p", None, "free", 9)]);
    assert!(!planned(&tree_of(vec![("a", observed(&[("p", assigned(5))]))]), &free).publishes());
}

#[test]
fn reported_use_is_counted_once() {
    let full = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 5)]);
    let tree = tree_of(vec![("a", with_use(observed(&[("p", assigned(5))]), "p", (5, 30)))]);
    let report = Change::Report { account: "p".into(), epoch: 5, total: 30 };
    assert_eq!(planned(&tree, &full).changes, std::slice::from_ref(&report));
    let counted = BTreeMap::from([("p".to_owned(), BTreeMap::from([(5, 30)]))]);
    let input = ReconcileInput {
        now: NOW,
        attached: &BTreeMap::new(),
        counted: &counted,
        unknown: &BTreeSet::new(),
        longest: LONGEST,
        barrier: None,
        began: NOW,
        write_backoff: &WriteBackoff::new(BARRIER),
    };
    assert!(plan(&tree, &full, &input).is_empty());
    // A process that is gone has left its report. What it released is counted before the node is deleted.
    let gone = ObservedInstance { present: None, ..tree.instances[&id("a")].clone() };
    assert_eq!(planned(&tree_of(vec![("a", gone)]), &full).changes.last(), Some(&report));
    // The barrier does not wait for a count.
    assert!(!with(&tree, &full, Some(BARRIER), &[]).held_up);
}

#[test]
fn use_is_counted_also_of_an_assignment_that_the_book_has_replaced() {
    let counting = |shown| with_use(observed(&[("p", shown)]), "p", (5, 30));
    let later = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 9)]);
    let plan = planned(&tree_of(vec![("a", counting(assigned(5)))]), &later);
    assert_eq!((plan.revocations.len(), plan.reassignments.len()), (0, 1));
    // The instance may not have seen the later epoch when it writes its report, or it has used the account since.
    let both = with_use(counting(assigned(9)), "p", (9, 2));
    let report = |epoch, total| Change::Report { account: "p".into(), epoch, total };
    assert_eq!(planned(&tree_of(vec![("a", both)]), &later).changes, [report(5, 30), report(9, 2)]);
    // The book has lost an assignment: it learns the epoch before it counts.
    let earlier = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 4)]);
    let plan = planned(&tree_of(vec![("a", counting(assigned(5)))]), &earlier);
    let raise = Change::Raise { epoch: 5, account: Some("p".into()) };
    assert_eq!(
        plan.changes.iter().filter(|change| **change == raise || **change == report(5, 30)).count(),
        2
    );
    assert_eq!(plan.changes.last(), Some(&report(5, 30)));
    // The next process of the name counts from 0: it gets a new epoch before it sees the account.
    let same = book(&[("a", "active")], vec![row("p", Some("a"), "assigned", 5)]);
    let next = ObservedInstance { present: Some(present(9, false)), ..counting(assigned(5)) };
    let plan = attached(&tree_of(vec![("a", next.clone())]), &same, "a", 9);
    assert!(plan.changes.contains(&raise), "{plan:?}");
    assert!(plan.placements.is_empty(), "it would see the epoch of the process before it");
    let plan = attached(&tree_of(vec![("a", next)]), &later, "a", 9);
    assert_eq!(plan.reassignments, [Action::Reassign { id: id("a"), account: "p".into(), epoch: 9 }]);
    // A count that names only an earlier assignment needs no further epoch.
    let named = with_use(observed(&[("p", assigned(5))]), "p", (4, 30));
    let named = ObservedInstance { present: Some(present(9, false)), ..named };
    assert_eq!(attached(&tree_of(vec![("a", named)]), &same, "a", 9).placements.len(), 1);
}

#[test]
fn instance_that_leaves_for_good_is_not_waited_for() {
    let detach = |leaves| Change::Detach { module: "m".into(), instance: "a".into(), leaves };
    let book = |state| book(&[("a", state)], vec![row("p", Some("a"), "assigned", 5)]);
    let gone = |report| {
        let gone = ObservedInstance { present: None, ..observed(&[("p", assigned(5))]) };
        tree_of(vec![("a", with_report(gone, report))])
    };
    let says = ClientReport { leaves: true, ..ClientReport::default() };
    let released = report_of(&[("p", 5)], &[]);
    // The book has assigned the released account to the instance again.
    let earlier = report_of(&[], &[("p", 4)]);
    for (report, leaves) in
        [(says, true), (released, true), (earlier, true), (report_of(&[("q", 5)], &[]), false)]
    {
        assert_eq!(planned(&gone(report.clone()), &book("active")).changes[..1], [detach(leaves)]);
        // The leader may have read the report after it detached the instance.
        let again = planned(&gone(report.clone()), &book("away")).changes.contains(&detach(true));
        assert_eq!(again, leaves);
        // As long as the node is there, the instance is.
        let there = with_report(observed(&[("p", assigned(5))]), report);
        let changes = planned(&tree_of(vec![("a", there)]), &book("active")).changes;
        assert!(!changes.iter().any(|change| matches!(change, Change::Detach { .. })), "{changes:?}");
    }
}
