//! Each daemon with the role answers reads by HTTP, whether it leads or not.

use allot_tests::process::Process;
use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, eventually};
use serde_json::Value;

#[track_caller]
fn read(daemon: &Process, path: &str) -> Value {
    let (status, body) = daemon.http(path).expect("an answer");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn daemon_without_the_lead_reads_book_and_tree_and_names_the_leader() {
    let mut system = AccountsSystem::start(0);
    for _ in 0..2 {
        system.add_daemon(&[("ALLOT_ACCOUNTS_READS", "true")]);
    }
    let silent = system.add_daemon(&[]);
    let leader = system.until_led();
    let mut book = system.book();
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 1");
    book.ok("ADD billing QUOTA 100 ACCOUNTS 2 p1 p2");
    system.add_clients(&[], &["finance/billing/web1:1"]);
    eventually("two published accounts", TIMEOUT, || {
        system.shown().values().map(std::collections::BTreeMap::len).sum::<usize>() == 2
    });
    let name = &system.daemons[leader].name;
    for (number, daemon) in system.daemons.iter().enumerate().filter(|(number, _)| *number != silent) {
        let role = read(daemon, "/accounts");
        assert_eq!(
            (role["leader"].as_str(), role["leads"].as_bool()),
            (Some(name.as_str()), Some(number == leader))
        );
        let book = read(daemon, "/accounts/book");
        assert_eq!(
            (&book["book"]["accounts"], &book["modules"][0]["module"]),
            (&2.into(), &"billing".into())
        );
        let accounts = read(daemon, "/accounts/book/accounts");
        assert_eq!(
            (&accounts["cursor"], accounts["accounts"].as_array().map(Vec::len)),
            (&0.into(), Some(2))
        );
        assert_eq!(read(daemon, "/accounts/tree")["finance"][0], "billing");
        let instance = &read(daemon, "/accounts/tree/finance/billing")["web1:1"];
        assert_eq!(instance["present"], true);
        for account in ["p1", "p2"] {
            assert_eq!(instance["accounts"][account]["state"], "assigned", "{instance}");
        }
        for method in ["POST", "PUT", "DELETE"] {
            let (status, body) = daemon.request(method, "/accounts/book").expect("an answer");
            assert!(status == 405 && body.contains(name.as_str()), "{status} {body}");
        }
        for absent in ["/accounts/tree/finance/nothing", "/accounts/what", "/accounts/book/accounts?cursor=x"]
        {
            assert_eq!(daemon.http(absent).expect("an answer").0, 404, "{absent}");
        }
    }
    // Without the setting, there is nothing to read.
    assert_eq!(system.daemons[silent].http("/accounts").expect("an answer").0, 404);

    // Without Redis, the reason is told, and the tree is read nevertheless.
    let follower = usize::from(leader == 0);
    let daemon = &system.daemons[follower];
    daemon.cut_redis();
    eventually("the fault to be told", TIMEOUT, || {
        daemon.http("/accounts/book").is_some_and(|(status, body)| status == 503 && body.contains("Redis"))
    });
    assert_eq!(daemon.http("/accounts/tree").expect("an answer").0, 200);
}
