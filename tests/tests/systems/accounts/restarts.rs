//! Restarts of client systems, one instance after the other.

use std::collections::BTreeMap;

use allot_tests::books::Book;
use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, eventually};

const ACCOUNTS: usize = 10;

/// The instance and the epoch of the assignment of each account.
fn assignments(book: &mut Book) -> BTreeMap<String, (Option<String>, i64)> {
    let list = book.ok("LIST COUNT 1000");
    let records = list.array()[1].array();
    let assignment = |record: &allot_tests::raw::Reply| {
        let instance = record.field("instance");
        let instance = (!instance.is_null()).then(|| instance.text());
        (record.field("account").text(), (instance, record.field("epoch").int()))
    };
    records.iter().map(assignment).collect()
}

#[test]
fn rolling_restart_of_all_instances_moves_no_account() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 3 SHARE PLACES");
    book.add("billing", 0..ACCOUNTS);
    let paths = ["1", "2", "3"].map(|number| format!("finance/billing/web{number}:8080"));
    for (place, path) in paths.iter().enumerate() {
        system.add_clients(&[], &[path.as_str()]);
        eventually("the instance to be attached", TIMEOUT, || book.shares("billing").len() == place + 1);
    }
    system.healthy("three instances to share");
    assert_eq!(book.shares("billing"), [4, 3, 3]);
    let before = assignments(&mut book);
    let instances = |all: &BTreeMap<String, (Option<String>, i64)>| -> BTreeMap<String, Option<String>> {
        all.iter().map(|(account, (instance, _))| (account.clone(), instance.clone())).collect()
    };

    for path in &paths {
        // The process dies, and comes back only after its session, the grace of its place, and some time more.
        let name = path.rsplit('/').next().unwrap().to_owned();
        let gone = system.clients.remove(0);
        gone.kill9();
        let assigned = |book: &mut Book| {
            let all = assignments(book);
            all.values().filter(|(instance, _)| instance.as_ref() == Some(&name)).count()
        };
        eventually("the instance to be detached", TIMEOUT, || assigned(&mut book) == 0);
        for (account, (instance, epoch)) in assignments(&mut book) {
            let (had, earlier) = &before[&account];
            if had.as_ref() != Some(&name) {
                assert_eq!(&instance, had, "{account} moves while {name} is away");
                assert!(epoch >= *earlier);
            }
        }
        system.add_clients(&[], &[path.as_str()]);
        eventually("the instance to have accounts", TIMEOUT, || assigned(&mut book) > 0);
        system.healthy("all accounts to be with their instances again");
        assert_eq!(instances(&assignments(&mut book)), instances(&before), "after the restart of {name}");
    }
    // No account was with another instance in between.
    for (account, (instance, _)) in &before {
        let history = book.ok(&format!("HISTORY {account}"));
        let stays = history.array();
        assert!(stays.len() <= 2, "{account} was assigned {} times", stays.len());
        assert!(stays.iter().all(|stay| Some(stay.field("instance").text()) == *instance));
    }
}
