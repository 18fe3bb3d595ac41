//! Accounts are assigned over servers that fail, that forget, that others write into, and that allow no more than they must.

use std::collections::BTreeMap;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use allot_coordination::Kind;
use allot_tests::accounts_system::Looking;
use allot_tests::module::repository;
use allot_tests::proxy::Proxy;
use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, RedisServer, Reply, eventually};

#[test]
fn assignment_is_published_when_a_replica_has_it() {
    let mut system = AccountsSystem::start(0);
    let replica = RedisServer::start();
    // What is on its way when the wire is cut never arrives.
    let wire = Proxy::to(system.redis.port());
    replica.command(&format!("REPLICAOF 127.0.0.1 {}", wire.port()));
    replica.wait_replica_synced();
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2 SHARE PRESENT");
    book.add("m", 0..6);
    system.redis.wait_offset_equal(&replica);
    let daemon = system.add_daemon(&[]);
    system.until_led();

    // The replica hears nothing: accounts are assigned, and shown to nobody.
    wire.cut();
    let first = system.add_clients(&[], &["d/m/one:1"]);
    eventually("all to be assigned", TIMEOUT, || book.shares("m") == [6]);
    eventually("the leader to be refused", TIMEOUT, || {
        system.daemons[daemon].metric("allot_accounts_unconfirmed_total").is_some_and(|count| count > 1.0)
    });
    assert!(system.shown().values().all(BTreeMap::is_empty), "an assignment was shown that no replica has");
    wire.heal();
    system.healthy("all to be shown");

    // It is gone altogether: for a while it may be what a failover leaves.
    replica.command("REPLICAOF NO ONE");
    eventually("the master to be alone", TIMEOUT, || {
        system.redis.info_field("replication", "connected_slaves") == "0"
    });
    let refused = |system: &AccountsSystem| {
        system.daemons[daemon].metric("allot_accounts_unconfirmed_total").unwrap_or_default()
    };
    let before = refused(&system);
    book.add("m", 6..7);
    eventually("the leader to be refused again", TIMEOUT, || refused(&system) > before + 1.0);
    assert!(!system.shown()["d/m/one:1"].contains_key("p6"), "an assignment was shown that no replica has");
    replica.command(&format!("REPLICAOF 127.0.0.1 {}", wire.port()));
    replica.wait_replica_synced();
    system.healthy("the new one to be shown");

    // The operator takes the risk: assignments are shown that only the master has, and are lost with it.
    system.daemons[daemon].kill9();
    let daemon = system.add_daemon(&[("ALLOT_ACCOUNTS_WAIT_REPLICAS", "0")]);
    system.until_led();
    system.redis.wait_offset_equal(&replica);
    wire.cut();
    system.add_clients(&[], &["d/m/two:2"]);
    eventually("the second to be attached", TIMEOUT, || book.shares("m").len() == 2);
    system.healthy("two to share");
    let lost = system.has("m/two:2");
    // With the master the second instance dies as well, and the leader, so that nobody is told of it before its session
    // is over. Nobody knows then who may be logged in with what it had.
    system.daemons[daemon].kill9();
    let second = system.clients.pop().unwrap();
    second.kill9();
    system.redis.kill9();
    replica.command("REPLICAOF NO ONE");
    system.daemons[daemon].redis.iter().for_each(|wire| wire.lead_to(replica.port()));
    system.redis = replica;
    eventually("its session to be over", TIMEOUT, || {
        system.with_tree(async |tree| matches!(tree.get("/resource/d/m/two:2").await, Ok(None)))
    });
    system.daemons[daemon].start();
    let mut waits = false;
    eventually("what was forgotten to be waited for", TIMEOUT, || {
        let shown = system.shown();
        let left = shown.get("d/m/two:2").cloned().unwrap_or_default();
        waits = !left.is_empty() && left.values().all(|word| word["until"].is_u64());
        waits && lost.iter().all(|account| left.contains_key(account))
    });
    system.healthy("all to be with the first, after the longest login");
    assert_eq!(system.book().shares("m"), [7]);
    let _ = first;
}

#[test]
fn foreign_nodes_in_the_tree_delay_nobody() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2 SHARE PRESENT");
    book.add("m", 0..6);
    let clients = system.add_clients(&[], &["d/m/one:1"]);
    system.healthy("one to have all");
    let garbage = Looking::at(&system.zookeeper.address());
    garbage.run(async |tree| {
        let long = format!("/resource/d/m/{}", "x".repeat(300));
        tree.create(&long, b"", Kind::Ephemeral).await.unwrap();
        tree.create("/resource/d/m/leftover", b"?", Kind::Persistent).await.unwrap();
        tree.ensure("/resource/nobody/knows/this-alloc/p9").await.unwrap();
        tree.ensure("/resource/d/m/late:9-alloc/p3").await.unwrap();
        let alloc = "/resource/d/m/one:1-alloc";
        let node = tree.get(alloc).await.unwrap().unwrap();
        tree.set(alloc, b"bye", node.version).await.unwrap();
        // Only the leader writes here, but this one does as well.
        tree.ensure(&format!("{alloc}/p77")).await.unwrap();
    });
    // The next leader finds it, and makes of it what can be made of it.
    system.daemons[0].kill9();
    system.daemons[0].start();
    system.until_led();
    system.add_clients(&[], &["d/m/two:2"]);
    eventually("the second to be attached", TIMEOUT, || book.shares("m").len() == 2);
    eventually("what was in the way to be gone", TIMEOUT, || {
        let shown = system.shown();
        !shown.contains_key("d/m/late:9") && !shown.contains_key("nobody/knows/this")
    });
    system.healthy("two to share");
    assert_eq!(book.shares("m"), [3, 3]);
    let _ = clients;

    // What cannot be done for one is done for all others.
    book.ok("MODULE n DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.ok("MODULE o DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.add("n", 10..12);
    garbage.run(async |tree| {
        // What is to be hidden has a child of its own, or a name that reads like another's.
        tree.ensure("/resource/d/m/gone:3-alloc/p50/x").await.unwrap();
        tree.ensure("/resource/d/m/gone:4-alloc/p%31").await.unwrap();
        tree.ensure("/resource/d/m/gone:8-alloc").await.unwrap();
        // The node that the leader is to make is there, and can have no children.
        tree.ensure("/resource/d/o").await.unwrap();
        tree.create("/resource/d/o/odd:5", b"", Kind::Ephemeral).await.unwrap();
        tree.create("/resource/d/o/odd:5-alloc", b"", Kind::Ephemeral).await.unwrap();
    });
    // And what nobody else may read.
    let hidden = Looking::alone_at(&system.zookeeper.address(), "somebody");
    hidden.run(async |tree| {
        tree.create("/resource/d/m/hidden:6", b"", Kind::Ephemeral).await.unwrap();
        tree.ensure("/resource/d/m/hidden:7-alloc/p9").await.unwrap();
        tree.ensure("/resource/d/m/gone:8-alloc/p51").await.unwrap();
    });
    let restart = |system: &mut AccountsSystem| {
        system.daemons[0].kill9();
        system.daemons[0].start();
        system.until_led();
    };
    restart(&mut system);
    system.add_clients(&[], &["d/n/three:3"]);
    eventually("the third to have two", TIMEOUT, || system.has("n/three:3").len() == 2);
    let sees = |system: &mut AccountsSystem, account: &str| {
        system.shown().get("d/n/three:3").is_some_and(|shown| shown.contains_key(account))
    };
    eventually("the third to be shown them", TIMEOUT, || {
        sees(&mut system, "p10") && sees(&mut system, "p11")
    });
    // An assignment that nobody knows is shown no more, if that can be, when the longest login is over.
    let until = |system: &mut AccountsSystem| system.shown()["d/m/gone:3"]["p50"]["until"].as_u64();
    eventually("the leader to wait for what is not its own", TIMEOUT, || until(&mut system).is_some());
    let over = until(&mut system).unwrap() + 500;
    eventually("that to be over", TIMEOUT, || {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64 > over
    });
    book.ok("MOVE n 1 p0");
    eventually("one more to go to the third", TIMEOUT, || sees(&mut system, "p0"));
    // The barrier of a take-over falls, too.
    restart(&mut system);
    book.add("n", 12..13);
    eventually("and one that is new", TIMEOUT, || sees(&mut system, "p12"));
    system.check_tree();
    assert_eq!(system.violations(), "");
    assert!(system.shown()["d/m/gone:3"].contains_key("p50"), "it is not the leader's to take away");
}

#[test]
fn the_dealer_needs_no_more_rights_than_its_rules_say() {
    let mut system = AccountsSystem::start(0);
    let text = fs::read_to_string(repository().join("docs/deploy.md")).unwrap();
    let rule = text.lines().find_map(|line| line.trim().strip_prefix("user accounts ")).unwrap();
    let (root, selector) = rule.split_once(" (").unwrap();
    let root = root.replace("<secret>", "secret");
    let selector = format!("({selector}");
    let words =
        [&["ACL", "SETUSER", "accounts"][..], &root.split(' ').collect::<Vec<_>>(), &[&selector]].concat();
    assert_eq!(system.redis.raw().call(&words), Reply::Simple("OK".into()));
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2 SHARE PRESENT");
    book.ok("BOOK DWELL 0");
    book.add("m", 0..6);
    let clients = system.add_clients(&[], &["d/m/one:1", "d/m/two:2"]);
    system.add_daemon(&[
        ("ALLOT_REDIS_USER", "accounts"),
        ("ALLOT_REDIS_PASSWORD", "secret"),
        ("ALLOT_ACCOUNTS_REBALANCE", "2s"),
        ("ALLOT_ACCOUNTS_TIME_ZONE", "Europe/Berlin"),
    ]);
    eventually("both to be attached", TIMEOUT, || book.shares("m").len() == 2);
    system.healthy("two to share");
    // The months of the place are told.
    assert_eq!(book.ok("INFO").field("turns").array().len(), 13);
    // It gives back, and cannot use.
    let ours = system.has("m/one:1");
    system.clients[clients].say(&format!("unusable d/m/one:1 {}", ours[0]));
    eventually("the account to be frozen", TIMEOUT, || book.account(&ours[0], "state").text() == "frozen");
    let epoch = book.account(&ours[1], "epoch").int();
    system.clients[clients].say(&format!("return d/m/one:1 {}", ours[1]));
    eventually("the account to be assigned again", TIMEOUT, || book.account(&ours[1], "epoch").int() > epoch);
    system.healthy("the rest to be shared");
    // An instance of another module comes, and has nothing. Rebalancing gives it one.
    book.ok("MODULE n DEPARTMENT d INSTANCES 1 MIN 1");
    system.add_clients(&[], &["d/n/three:3"]);
    eventually("an account to be shifted", TIMEOUT, || system.has("n/three:3").len() == 1);
    system.healthy("what was evened out to be shown");
    // Its rights are what keeps it from all else.
    let mut client = system.redis.raw();
    client.words("AUTH accounts secret");
    for line in ["ACCOUNT.DEL {allot}:accounts 1 p1", "DEL {allot}:accounts", "ACCOUNT.INFO other", "KEYS *"]
    {
        assert!(client.words(line).error().starts_with("NOPERM"), "{line}");
    }
}
