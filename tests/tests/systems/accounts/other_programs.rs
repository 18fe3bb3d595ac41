//! Other programs write where only the leader may write, or use names that cannot be published.

use allot_coordination::{Kind, Op};
use allot_tests::wait::TIMEOUT;
use allot_tests::zookeeper::patient;
use allot_tests::{AccountsSystem, eventually};

#[test]
fn account_nodes_that_another_program_changed_are_repaired() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.ok("MODULE n DEPARTMENT d INSTANCES 1");
    book.add("m", 0..4);
    let client = system.add_clients(&[], &["d/m/one:1", "d/n/two:2"]);
    eventually("both to be attached", TIMEOUT, || book.total("instances") == 2);
    system.healthy("the first to have all");
    // It does not read what happens, as one that is slow.
    system.clients[client].say("mute d/m/one:1");
    let alloc = "/resource/d/m/one:1-alloc";
    system.with_tree(async |tree| {
        let delete = Op::Delete { path: format!("{alloc}/p0"), version: None };
        patient(async || tree.multi(vec![delete.clone()]).await).await.unwrap();
        let path = format!("{alloc}/p1");
        let node = tree.get(&path).await.unwrap().unwrap();
        let older = br#"{"account":"p1","epoch":5,"state":"assigned"}"#;
        tree.set(&path, older, node.version).await.unwrap();
        tree.create(&format!("{alloc}/p99"), b"?", Kind::Persistent).await.unwrap();
    });
    eventually("the leader to say so", TIMEOUT, || {
        system.daemons[0].log().contains("another program changed account nodes")
    });
    let whole = |system: &mut AccountsSystem| {
        let shown = system.shown().remove("d/m/one:1").unwrap_or_default();
        ["p0", "p1"].iter().all(|name| shown.get(*name).is_some_and(|word| word["epoch"].as_u64() > Some(5)))
    };
    eventually("both to be shown again", TIMEOUT, || whole(&mut system));
    // What was deleted is still with the first, which is asked for it.
    system.with_tree(async |tree| {
        let delete = Op::Delete { path: format!("{alloc}/p0"), version: None };
        patient(async || tree.multi(vec![delete.clone()]).await).await.unwrap();
    });
    book.ok("MOVE n 1 p0");
    eventually("it to be asked for", TIMEOUT, || {
        let shown = system.shown();
        assert!(!shown["d/n/two:2"].contains_key("p0"), "another was shown it, and nobody had released it");
        shown["d/m/one:1"].get("p0").is_some_and(|word| word["state"] == "revoke")
    });
    system.clients[client].say("speak d/m/one:1");
    system.healthy("all to be as the book says");
    assert_eq!(system.has("n/two:2"), ["p0"]);
}

#[test]
fn names_that_cannot_be_published_are_logged() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.add("m", 0..2);
    let mut connection = system.redis.connection();
    let mut add = redis::cmd("ACCOUNT.ADD");
    add.arg(allot_tests::books::BOOK).arg("m").arg("QUOTA").arg(5).arg("ACCOUNTS").arg(1);
    add.arg(&b"caf\xe9"[..]).exec(&mut connection).unwrap();
    system.add_clients(&[], &["d/m/one:1"]);
    system.with_tree(async |tree| {
        while patient(async || tree.get("/resource/d/m").await).await.unwrap().is_none() {}
        let long = format!("/resource/d/m/{}", "x".repeat(300));
        tree.create(&long, b"", Kind::Ephemeral).await.unwrap();
        tree.ensure("/resource/d/m/gone:4-alloc/p%31").await.unwrap();
    });
    eventually("the accounts with a name to be shown", TIMEOUT, || {
        system.shown().get("d/m/one:1").is_some_and(|shown| shown.len() == 2)
    });
    let says = |system: &AccountsSystem, words: &str| system.daemons[0].log().contains(words);
    eventually("the account to be named", TIMEOUT, || says(&system, "whose names are not UTF-8"));
    eventually("the long name to be named", TIMEOUT, || says(&system, "whose name is longer than 256 bytes"));
    system.daemons[0].kill9();
    system.daemons[0].start();
    eventually("the odd name to be named", TIMEOUT, || says(&system, "no account has its name"));
    // It is said once, not at every read of the book.
    let log = system.daemons[0].log();
    assert!(log.matches("whose names are not UTF-8").count() <= 2, "{log}");
}
