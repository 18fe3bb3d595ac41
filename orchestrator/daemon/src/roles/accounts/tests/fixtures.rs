//! Trees and books for the tests of `plan`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::observed_tree::{
    Alloc, Book, InstanceId, ObservedInstance, ObservedTree, Presence, PublishedAccount,
};
use super::super::protocol::ClientReport;
use super::super::reconcile::{Plan, ReconcileInput, plan};
use super::super::write_backoff::WriteBackoff;
use allot_client::{AccountRow, ModuleRow};
use allot_coordination::Version;

pub(in crate::roles::accounts) const NOW: u64 = 1_000_000;
pub(in crate::roles::accounts) const BARRIER: u64 = 10_000;
pub(in crate::roles::accounts) const LONGEST: u64 = 60_000;
/// The last epoch of the books of these tests.
pub(in crate::roles::accounts) const LAST_EPOCH: u64 = 1000;

pub(in crate::roles::accounts) fn id(instance: &str) -> InstanceId {
    InstanceId { dir: "/resource/d/m".into(), instance: instance.into() }
}

pub(in crate::roles::accounts) fn present(created: i64, introduced: bool) -> Presence {
    Presence { created, version: Version::FIRST, introduced }
}

pub(in crate::roles::accounts) fn alloc() -> Alloc {
    Alloc { created: 1, version: Version::FIRST, report: ClientReport::default() }
}

pub(in crate::roles::accounts) fn assigned(epoch: u64) -> PublishedAccount {
    PublishedAccount {
        epoch,
        revoked: None,
        until: None,
        version: Version::FIRST,
        from_previous_session: false,
        damage: None,
    }
}

pub(in crate::roles::accounts) fn revoked(epoch: u64, since: u64) -> PublishedAccount {
    PublishedAccount { revoked: Some(since), ..assigned(epoch) }
}

/// A present instance that knows where its accounts are.
pub(in crate::roles::accounts) fn observed(accounts: &[(&str, PublishedAccount)]) -> ObservedInstance {
    let accounts = accounts.iter().map(|(name, shown)| ((*name).to_owned(), *shown)).collect();
    ObservedInstance { present: Some(present(1, true)), alloc: Some(alloc()), accounts, foreign_nodes: false }
}

pub(in crate::roles::accounts) fn row(
    account: &str,
    instance: Option<&str>,
    state: &str,
    epoch: u64,
) -> AccountRow {
    AccountRow {
        account: account.into(),
        module: "m".into(),
        instance: instance.map(str::to_owned),
        state: state.into(),
        epoch,
        login: false,
    }
}

pub(in crate::roles::accounts) fn book(attached: &[(&str, &str)], accounts: Vec<AccountRow>) -> Book {
    let attached = attached.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect();
    let module = ModuleRow { module: "m".into(), department: "d".into(), attached };
    Book::new(vec![module], accounts, LAST_EPOCH, |department, module| {
        format!("/resource/{department}/{module}")
    })
}

pub(in crate::roles::accounts) fn tree_of(instances: Vec<(&str, ObservedInstance)>) -> ObservedTree {
    ObservedTree { instances: instances.into_iter().map(|(name, observed)| (id(name), observed)).collect() }
}

pub(in crate::roles::accounts) fn planned(tree: &ObservedTree, book: &Book) -> Plan {
    with(tree, book, None, &[])
}

pub(in crate::roles::accounts) fn with(
    tree: &ObservedTree,
    book: &Book,
    barrier: Option<u64>,
    unknown: &[(&str, u64)],
) -> Plan {
    let unknown = unknown.iter().map(|(name, epoch)| ((*name).to_owned(), *epoch)).collect();
    let (attached, write_backoff) = (BTreeMap::new(), WriteBackoff::new(BARRIER));
    let input = ReconcileInput {
        now: NOW,
        attached: &attached,
        counted: &BTreeMap::new(),
        unknown: &unknown,
        longest: LONGEST,
        barrier,
        began: NOW,
        write_backoff: &write_backoff,
    };
    plan(tree, book, &input)
}

/// The plan of a leader that has already attached the process of one instance.
pub(in crate::roles::accounts) fn attached(
    tree: &ObservedTree,
    book: &Book,
    instance: &str,
    created: i64,
) -> Plan {
    let (attached, unknown) = (BTreeMap::from([(id(instance), created)]), BTreeSet::new());
    let (longest, barrier, write_backoff) = (LONGEST, None, &WriteBackoff::new(BARRIER));
    let (attached, unknown) = (&attached, &unknown);
    plan(
        tree,
        book,
        &ReconcileInput {
            now: NOW,
            attached,
            counted: &BTreeMap::new(),
            unknown,
            longest,
            barrier,
            began: NOW,
            write_backoff,
        },
    )
}

pub(in crate::roles::accounts) fn report_of(
    released: &[(&str, u64)],
    unusable: &[(&str, u64)],
) -> ClientReport {
    let of = |list: &[(&str, u64)]| list.iter().map(|(name, epoch)| ((*name).to_owned(), *epoch)).collect();
    ClientReport { released: of(released), unusable: of(unusable), ..ClientReport::default() }
}

pub(in crate::roles::accounts) fn with_report(
    mut observed: ObservedInstance,
    report: ClientReport,
) -> ObservedInstance {
    observed.alloc.as_mut().unwrap().report = report;
    observed
}

pub(in crate::roles::accounts) fn with_use(
    observed: ObservedInstance,
    account: &str,
    used: (u64, u64),
) -> ObservedInstance {
    let mut report = observed.alloc.as_ref().unwrap().report.clone();
    report.used.entry(account.to_owned()).or_default().extend([used]);
    with_report(observed, report)
}
