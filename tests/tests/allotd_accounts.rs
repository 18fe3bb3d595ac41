//! Accounts dealt to client systems: real servers, daemons as processes, clients that know nothing but ZooKeeper. Each has
//! a platform before it that notices a second login.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use std::collections::BTreeMap;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use allot_orchestrator::coordination::{Kind, Op, Tree};
use allot_tests::dealing::Looking;
use allot_tests::module::repository;
use allot_tests::proxy::Proxy;
use allot_tests::wait::GENEROUS;
use allot_tests::zookeeper::patient;
use allot_tests::{Dealing, RedisServer, Reply, eventually};

#[test]
fn clients_that_come_and_go_share_the_accounts_of_their_module() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    // The first start, and an empty tree.
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 2 RESERVE 1");
    book.add("billing", 0..9);
    let first = system.add_clients(&[], &["finance/billing/web1:8080"]);
    system.healthy("one instance to have all");
    assert_eq!(book.shares("billing"), [8]);

    let second = system.add_clients(&[], &["finance/billing/web2:8080"]);
    eventually("the second to be attached", GENEROUS, || book.shares("billing").len() == 2);
    system.healthy("two instances to share");
    assert_eq!(book.shares("billing"), [4, 4]);

    // A third stands by, and is promoted when a place falls free.
    let third = system.add_clients(&[], &["finance/billing/web3:8080"]);
    eventually("the third to be attached", GENEROUS, || book.shares("billing").len() == 3);
    system.healthy("the third to stand by");
    let mut shares = book.shares("billing");
    shares.sort_unstable();
    assert_eq!(shares, [0, 4, 4]);
    system.clients[first].say("go finance/billing/web1:8080");
    eventually("the first to be gone", GENEROUS, || book.shares("billing").len() == 2);
    system.healthy("the third to have the place of the first");
    assert_eq!(book.shares("billing"), [4, 4]);

    // One that dies is missed after its session and the grace.
    system.clients[second].kill9();
    system.clients.remove(second);
    eventually("the second to be gone", GENEROUS, || book.shares("billing").len() == 1);
    system.healthy("the third to have all");
    assert_eq!(book.shares("billing"), [8]);
    let _ = third;
}

/// The names of a module's accounts that an instance has by the book.
fn has(system: &Dealing, place: &str) -> Vec<String> {
    let held = system.held().unwrap_or_default().into_iter();
    held.filter(|(_, one)| one.place.as_deref() == Some(place)).map(|(account, _)| account).collect()
}

#[test]
fn what_an_instance_gives_back_or_cannot_use_goes_elsewhere() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 2");
    book.add("billing", 0..8);
    let web = "finance/billing/web1:8080";
    let clients = system.add_clients(&[], &[web, "finance/billing/web2:8080"]);
    eventually("both to be attached", GENEROUS, || book.shares("billing").len() == 2);
    system.healthy("two instances to share");

    let ours = has(&system, "billing/web1:8080");
    system.clients[clients].say(&format!("unusable {web} {}", ours[0]));
    eventually("the account to be frozen", GENEROUS, || book.account(&ours[0], "state").text() == "frozen");
    let epoch = book.account(&ours[1], "epoch").int();
    system.clients[clients].say(&format!("return {web} {}", ours[1]));
    eventually("the account to be dealt anew", GENEROUS, || book.account(&ours[1], "epoch").int() > epoch);
    system.healthy("the rest to be shared");
    assert!(system.shown().values().all(|shown| !shown.contains_key(&ours[0])));

    // What the operator freezes is taken as well, and comes back.
    book.ok(&format!("FREEZE {}", ours[2]));
    system.healthy("a frozen account to be gone");
    book.ok(&format!("FREEZE {} OFF", ours[2]));
    book.ok(&format!("FREEZE {} OFF", ours[0]));
    system.healthy("all to be shared again");
    assert_eq!(book.shares("billing"), [4, 4]);
}

#[test]
fn a_silent_instance_keeps_what_it_was_asked_for_and_holds_up_nobody_else() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE a DEPARTMENT d INSTANCES 1");
    book.ok("MODULE b DEPARTMENT d INSTANCES 1");
    book.add("a", 0..4);
    // It is not to be missed, lest what it has be another's by right.
    let silent = system.add_clients(&["--session", "15"], &["d/a/one:1"]);
    system.add_clients(&[], &["d/b/two:2"]);
    eventually("both to be attached", GENEROUS, || book.shares("a").len() + book.shares("b").len() == 2);
    system.healthy("four accounts to be with the first");

    system.clients[silent].say("mute d/a/one:1");
    book.ok("MOVE b 2 p0 p1");
    let asked = |system: &mut Dealing| {
        let shown = system.shown();
        let of = |name: &str| shown.get("d/a/one:1")?.get(name).map(|word| word["state"] == "revoke");
        of("p0") == Some(true) && of("p1") == Some(true)
    };
    eventually("both to be asked for", GENEROUS, || asked(&mut system));
    // The leader dies; the next one waits for the silent one as long as the barrier stands, and then deals the rest.
    system.dealers[0].kill9();
    book.add("b", 4..6);
    let next = system.add_dealer(&[]);
    eventually("another to lead", GENEROUS, || system.leader() == Some(next));
    eventually("the others to be dealt", GENEROUS, || {
        let shown = system.shown();
        shown.get("d/b/two:2").is_some_and(|all| all.len() == 2 && all.contains_key("p4"))
    });
    eventually("what the silent one has still to be asked for", GENEROUS, || asked(&mut system));
    system.check_tree();
    assert_eq!(system.violations(), "");
    system.clients[silent].say("speak d/a/one:1");
    system.healthy("what it gives back to be dealt");
    assert_eq!(has(&system, "b/two:2").len(), 4);
}

#[test]
fn whoever_is_cut_off_logs_out_by_itself_before_its_accounts_go_on() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2");
    book.add("m", 0..6);
    let port = system.zookeeper.address().rsplit(':').next().unwrap().parse().unwrap();
    let wire = Proxy::to(port);
    let behind = format!("127.0.0.1:{}", wire.port());
    system.add_clients(&[], &["d/m/one:1"]);
    let cut = system.add_clients(&["--zookeeper", &behind], &["d/m/two:2"]);
    eventually("both to be attached", GENEROUS, || book.shares("m").len() == 2);
    system.healthy("two to share");
    // Its thread that talks to ZooKeeper hangs besides; another one keeps time.
    system.clients[cut].say("hang d/m/two:2");
    wire.cut();
    eventually("the one that is cut off to be given up", GENEROUS, || book.shares("m").len() == 1);
    let mut lone = system.clients.remove(cut);
    system.healthy("the other to have all");
    assert!(lone.uses().values().all(Vec::is_empty), "it uses what is another's");
    wire.heal();
    lone.say("wake d/m/two:2");
    system.clients.push(lone);
    eventually("it to be back", GENEROUS, || book.shares("m").len() == 2);
    system.healthy("two to share again");
}

#[test]
fn another_process_of_the_same_name_takes_its_place() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.add("m", 0..5);
    let first = system.add_clients(&[], &["d/m/one:1"]);
    system.healthy("one to have all");
    let owner = |system: &mut Dealing| {
        system.with_tree(async |tree| tree.get("/resource/d/m/one:1").await.ok().flatten()?.owner)
    };
    let mut before: Option<i64> = None;
    eventually("the node to be somebody's", GENEROUS, || {
        before = owner(&mut system);
        before.is_some()
    });
    // It dies, and is started again before its session is over: it knows that the older node is a dead one's.
    system.clients[first].kill9();
    system.clients.remove(first);
    system.add_clients(&["--replace"], &["d/m/one:1"]);
    // Between the two it is nobody's for a moment.
    eventually("the node to be another's", GENEROUS, || {
        owner(&mut system).is_some_and(|now| Some(now) != before)
    });
    system.healthy("the new one to have all");
    assert_eq!(book.shares("m"), [5]);
}

#[test]
fn another_process_of_the_same_name_does_not_end_the_login_of_the_one_before() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE a DEPARTMENT d INSTANCES 1");
    book.ok("MODULE b DEPARTMENT d INSTANCES 1");
    book.add("a", 0..2);
    system.add_clients(&[], &["d/b/two:2"]);
    let first = system.add_clients(&[], &["d/a/one:1"]);
    eventually("both to be attached", GENEROUS, || book.shares("a").len() + book.shares("b").len() == 2);
    system.healthy("all to be with the first");
    // It is logged in by the book, is asked for the account, and hangs.
    let until = book.ok("LOGIN p0 one:1 t TTL 8000").field("until").int();
    system.clients[first].say("mute d/a/one:1");
    book.ok("MOVE b 1 p0");
    eventually("the account to be asked for", GENEROUS, || {
        system
            .shown()
            .get("d/a/one:1")
            .is_some_and(|shown| shown.get("p0").is_some_and(|word| word["state"] == "revoke"))
    });
    system.clients[first].kill9();
    system.clients.remove(first);
    system.add_clients(&["--replace"], &["d/a/one:1"]);
    eventually("the account to go on", GENEROUS, || book.account("p0", "state").text() != "revoking");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!(now >= until, "it went on {} ms before the login was over", until - now);
    system.healthy("it to be with the other");
    assert_eq!(has(&system, "b/two:2"), ["p0"]);
}

#[test]
fn a_module_s_directory_that_others_delete_is_made_again() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.add("m", 0..2);
    let made = |system: &mut Dealing| {
        system.with_tree(async |tree| tree.get("/resource/d/m").await.ok().flatten().is_some())
    };
    eventually("the directory to be there", GENEROUS, || made(&mut system));
    system.with_tree(async |tree| {
        let path = "/resource/d/m".to_owned();
        patient(async || tree.multi(vec![Op::Delete { path: path.clone(), version: None }]).await)
            .await
            .unwrap();
    });
    eventually("it to be there again", GENEROUS, || made(&mut system));
    system.add_clients(&[], &["d/m/one:1"]);
    system.healthy("who comes to have all");
    assert_eq!(book.shares("m"), [2]);
}

#[test]
fn who_also_logs_in_is_waited_for_by_the_book() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE a DEPARTMENT d INSTANCES 1");
    book.ok("MODULE b DEPARTMENT d INSTANCES 1");
    book.add("a", 0..6);
    let url = system.redis.url();
    let url = ["--redis", &url];
    system.add_clients(&url, &["d/a/one:1"]);
    system.add_clients(&url, &["d/b/two:2"]);
    eventually("both to be attached", GENEROUS, || book.shares("a").len() + book.shares("b").len() == 2);
    system.healthy("all to be with the first");
    eventually("all to be logged in", GENEROUS, || book.total("logins") == 6);
    book.ok("MOVE b 3 p0 p1 p2");
    system.healthy("three to have gone on");
    assert_eq!(has(&system, "b/two:2"), ["p0", "p1", "p2"]);
    eventually("all to be logged in again", GENEROUS, || book.total("logins") == 6);
}

#[test]
fn a_module_may_change_and_so_may_what_nobody_led() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    // Accounts that were added and never dealt: nobody is there.
    book.add("m", 0..6);
    let first = system.add_clients(&[], &["d/m/one:1", "d/m/two:2"]);
    eventually("both to be attached", GENEROUS, || book.shares("m").len() == 2);
    system.healthy("one to have all, and one to stand by");
    book.ok("MODULE m DEPARTMENT d INSTANCES 2");
    system.healthy("two to share");
    assert_eq!(book.shares("m"), [3, 3]);
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    system.healthy("one to have all again");

    // While nobody leads one goes, one comes, and one dies and is back.
    system.dealers[0].kill9();
    system.clients[first].say("go d/m/one:1");
    let third = system.add_clients(&[], &["d/m/three:3"]);
    book.ok("MODULE n DEPARTMENT e INSTANCES 1");
    book.add("n", 6..9);
    let fourth = system.add_clients(&[], &["e/n/four:4"]);
    book.ok("DEL 1 p0");
    system.dealers[0].start();
    system.until_led();
    eventually("all to be attached", GENEROUS, || book.shares("m").len() == 2 && book.shares("n").len() == 1);
    system.healthy("the new leader to have made all of it so");
    assert_eq!((book.shares("n"), book.total("accounts")), (vec![3], 8));

    // A module that goes to another department is looked for there.
    book.ok("MODULE n DEPARTMENT f INSTANCES 1");
    system.clients[fourth].say("go e/n/four:4");
    system.clients[fourth].say("come f/n/four:4");
    system.healthy("a module to be where it went");
    system.clients[third].say("go d/m/three:3");
    system.healthy("what a standby leaves behind to be gone");
}

#[test]
fn a_leader_may_die_at_any_step_and_wake_up_when_it_was_replaced() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    for module in ["a", "b"] {
        book.ok(&format!("MODULE {module} DEPARTMENT d INSTANCES 2"));
    }
    book.add("a", 0..10);
    book.add("b", 10..20);
    system.add_clients(&[], &["d/a/one:1", "d/b/two:2"]);
    let clients = system.add_clients(&[], &["d/a/three:3", "d/b/four:4", "d/b/five:5"]);
    eventually("all to be attached", GENEROUS, || book.shares("a").len() + book.shares("b").len() == 5);
    system.healthy("all to be dealt");
    // Two come at once in every other turn, among them that of `half-introduced`.
    let points = [
        "claimed",
        "read",
        "changed",
        "taken",
        "barrier",
        "introduced",
        "shown",
        "half-introduced",
        "half-shown",
        "half-taken",
        "settled",
        "recorded",
    ];
    let (mut next, mut there) = (20, true);
    for point in points {
        // While nobody leads: accounts that move and are new, and an instance that comes or goes.
        let leader = system.until_led();
        system.dealers[leader].kill9();
        let (from, to) = if there { ("a", "b") } else { ("b", "a") };
        let some: Vec<String> = has(&system, &format!("{from}/one:1")).into_iter().take(2).collect();
        let mut others = Vec::new();
        eventually("the other to have two", GENEROUS, || {
            others = has(&system, "b/two:2");
            some.len() == 2 || others.len() >= 2
        });
        let some = if some.is_empty() { &others[..2] } else { &some[..] };
        book.ok(&format!("MOVE {to} {} {}", some.len(), some.join(" ")));
        book.add(to, next..next + 2);
        next += 2;
        for instance in ["d/a/three:3", "d/b/five:5"] {
            let word = if there { "go" } else { "come" };
            system.clients[clients].say(&format!("{word} {instance}"));
        }
        there = !there;
        system.with_tree(async |tree| {
            let node = tree.get("/resource/notify").await.unwrap().unwrap();
            tree.set("/resource/notify", b"", node.version).await.unwrap();
        });
        let fault = format!("accounts:{point}");
        // Half of it is done only where it is not done in one multi.
        let batch = if point.starts_with("half") { "1" } else { "400" };
        let dies = system.add_dealer(&[("ALLOT_FAULT_POINT", &fault), ("ALLOT_FAULT_BATCH", batch)]);
        system.dealers[dies].ended();
        let log = system.dealers[dies].log();
        assert!(log.contains("dying here"), "{point} was not reached:\n{log}");
        system.check_tree();
        system.dealers.remove(dies);
        system.dealers[0].start();
        let places = if there { 2 } else { 1 };
        eventually("who is there to be attached", GENEROUS, || book.shares("a").len() == places);
        let took = system.healthy(point);
        println!("a leader that died at '{point}': well again after {took:.1?}");
    }

    // One that slept through its own replacement changes nothing when it wakes.
    eventually("the first to lead", GENEROUS, || {
        system.dealers[0].metric("allot_accounts_leading") == Some(1.0)
    });
    let other = system.add_dealer(&[]);
    system.dealers[0].pause();
    eventually("another to lead", GENEROUS, || {
        system.dealers[other].metric("allot_accounts_leading") == Some(1.0)
    });
    book.add("b", next..next + 5);
    system.healthy("the other to deal");
    let before = system.versions();
    system.dealers[0].resume();
    eventually("the first to know", GENEROUS, || {
        system.dealers[0].metric("allot_accounts_leading") == Some(0.0)
    });
    assert_eq!(system.versions(), before, "who was replaced wrote");
    system.healthy("all to be as it was");
    let recorded = async |tree: Tree| {
        let notify = tree.get("/resource/notify").await.ok().flatten()?.version;
        let node = tree.get("/allot/{acme}:accounts/notified").await.ok().flatten()?;
        Some(notify.0.to_string() == String::from_utf8(node.data).unwrap())
    };
    eventually("the version that was dealt with to be on record", GENEROUS, || {
        system.with_tree(recorded) == Some(true)
    });
}

#[test]
fn a_deal_is_shown_when_a_replica_has_it_and_one_that_a_failover_forgot_is_waited_out() {
    let mut system = Dealing::start(0);
    let replica = RedisServer::start();
    // What is on its way when the wire is cut never arrives.
    let wire = Proxy::to(system.redis.port());
    replica.command(&format!("REPLICAOF 127.0.0.1 {}", wire.port()));
    replica.wait_replica_synced();
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2");
    book.add("m", 0..6);
    system.redis.wait_offset_equal(&replica);
    let dealer = system.add_dealer(&[]);
    system.until_led();

    // The replica hears nothing: accounts are dealt, and shown to nobody.
    wire.cut();
    let first = system.add_clients(&[], &["d/m/one:1"]);
    eventually("all to be dealt", GENEROUS, || book.shares("m") == [6]);
    eventually("the leader to be refused", GENEROUS, || {
        system.dealers[dealer].metric("allot_accounts_unconfirmed_total").is_some_and(|count| count > 1.0)
    });
    assert!(system.shown().values().all(BTreeMap::is_empty), "a deal was shown that no replica has");
    wire.heal();
    system.healthy("all to be shown");

    // It is gone altogether: for a while it may be what a failover leaves.
    replica.command("REPLICAOF NO ONE");
    eventually("the master to be alone", GENEROUS, || {
        system.redis.info_field("replication", "connected_slaves") == "0"
    });
    let refused = |system: &Dealing| {
        system.dealers[dealer].metric("allot_accounts_unconfirmed_total").unwrap_or_default()
    };
    let before = refused(&system);
    book.add("m", 6..7);
    eventually("the leader to be refused again", GENEROUS, || refused(&system) > before + 1.0);
    assert!(!system.shown()["d/m/one:1"].contains_key("p6"), "a deal was shown that no replica has");
    replica.command(&format!("REPLICAOF 127.0.0.1 {}", wire.port()));
    replica.wait_replica_synced();
    system.healthy("the new one to be shown");

    // The operator takes the risk: deals are shown that only the master has, and are lost with it.
    system.dealers[dealer].kill9();
    let dealer = system.add_dealer(&[("ALLOT_ACCOUNTS_WAIT_REPLICAS", "0")]);
    system.until_led();
    system.redis.wait_offset_equal(&replica);
    wire.cut();
    system.add_clients(&[], &["d/m/two:2"]);
    eventually("the second to be attached", GENEROUS, || book.shares("m").len() == 2);
    system.healthy("two to share");
    let lost = has(&system, "m/two:2");
    // With the master the second instance dies as well, and the leader, so that nobody is told of it before its session
    // is over. Nobody knows then who may be logged in with what it had.
    system.dealers[dealer].kill9();
    let mut second = system.clients.pop().unwrap();
    second.kill9();
    system.redis.kill9();
    replica.command("REPLICAOF NO ONE");
    system.dealers[dealer].redis.iter().for_each(|wire| wire.lead_to(replica.port()));
    system.redis = replica;
    eventually("its session to be over", GENEROUS, || {
        system.with_tree(async |tree| matches!(tree.get("/resource/d/m/two:2").await, Ok(None)))
    });
    system.dealers[dealer].start();
    let mut waits = false;
    eventually("what was forgotten to be waited for", GENEROUS, || {
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
fn what_others_leave_in_the_tree_holds_up_nobody() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2");
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
    system.dealers[0].kill9();
    system.dealers[0].start();
    system.until_led();
    system.add_clients(&[], &["d/m/two:2"]);
    eventually("the second to be attached", GENEROUS, || book.shares("m").len() == 2);
    eventually("what was in the way to be gone", GENEROUS, || {
        let shown = system.shown();
        !shown.contains_key("d/m/late:9") && !shown.contains_key("nobody/knows/this")
    });
    system.healthy("two to share");
    assert_eq!(book.shares("m"), [3, 3]);
    let _ = clients;

    // What cannot be done for one is done for all others.
    book.ok("MODULE n DEPARTMENT d INSTANCES 1");
    book.ok("MODULE o DEPARTMENT d INSTANCES 1");
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
    let restart = |system: &mut Dealing| {
        system.dealers[0].kill9();
        system.dealers[0].start();
        system.until_led();
    };
    restart(&mut system);
    system.add_clients(&[], &["d/n/three:3"]);
    eventually("the third to have two", GENEROUS, || has(&system, "n/three:3").len() == 2);
    let sees = |system: &mut Dealing, account: &str| {
        system.shown().get("d/n/three:3").is_some_and(|shown| shown.contains_key(account))
    };
    eventually("the third to be shown them", GENEROUS, || {
        sees(&mut system, "p10") && sees(&mut system, "p11")
    });
    // Of a deal that nobody knows it is shown no more, if that can be, when the longest login is over.
    let until = |system: &mut Dealing| system.shown()["d/m/gone:3"]["p50"]["until"].as_u64();
    eventually("the leader to wait for what is not its own", GENEROUS, || until(&mut system).is_some());
    let over = until(&mut system).unwrap() + 500;
    eventually("that to be over", GENEROUS, || {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64 > over
    });
    book.ok("MOVE n 1 p0");
    eventually("one more to go to the third", GENEROUS, || sees(&mut system, "p0"));
    // The barrier of a take-over falls, too.
    restart(&mut system);
    book.add("n", 12..13);
    eventually("and one that is new", GENEROUS, || sees(&mut system, "p12"));
    system.check_tree();
    assert_eq!(system.violations(), "");
    assert!(system.shown()["d/m/gone:3"].contains_key("p50"), "it is not the leader's to take away");
}

#[test]
fn the_dealer_needs_no_more_rights_than_its_rules_say() {
    let mut system = Dealing::start(0);
    let text = fs::read_to_string(repository().join("docs/allotd.md")).unwrap();
    let rule = text.lines().find_map(|line| line.trim().strip_prefix("user dealer ")).unwrap();
    let (root, selector) = rule.split_once(" (").unwrap();
    let root = root.replace("<secret>", "secret");
    let selector = format!("({selector}");
    let words =
        [&["ACL", "SETUSER", "dealer"][..], &root.split(' ').collect::<Vec<_>>(), &[&selector]].concat();
    assert_eq!(system.redis.raw().call(&words), Reply::Simple("OK".into()));
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2");
    book.ok("BOOK DWELL 0");
    book.add("m", 0..6);
    let clients = system.add_clients(&[], &["d/m/one:1", "d/m/two:2"]);
    system.add_dealer(&[
        ("ALLOT_REDIS_USER", "dealer"),
        ("ALLOT_REDIS_PASSWORD", "secret"),
        ("ALLOT_ACCOUNTS_REBALANCE", "2s"),
        ("ALLOT_ACCOUNTS_TIME_ZONE", "Europe/Berlin"),
    ]);
    eventually("both to be attached", GENEROUS, || book.shares("m").len() == 2);
    system.healthy("two to share");
    // The months of the place are told.
    assert_eq!(book.ok("INFO").field("turns").array().len(), 13);
    // It gives back, cannot use, and works so much that it lacks accounts.
    let ours = has(&system, "m/one:1");
    system.clients[clients].say(&format!("unusable d/m/one:1 {}", ours[0]));
    eventually("the account to be frozen", GENEROUS, || book.account(&ours[0], "state").text() == "frozen");
    let epoch = book.account(&ours[1], "epoch").int();
    system.clients[clients].say(&format!("return d/m/one:1 {}", ours[1]));
    eventually("the account to be dealt anew", GENEROUS, || book.account(&ours[1], "epoch").int() > epoch);
    system.healthy("the rest to be shared");
    for account in has(&system, "m/one:1") {
        let epoch = book.account(&account, "epoch").int();
        // One that was evened out meanwhile is another's.
        book.call(&format!("USE {account} {epoch} COUNT 99"));
    }
    eventually("use to be evened out", GENEROUS, || {
        let attached = book.ok("INFO MODULE m").field("attached");
        attached.array().iter().any(|one| one.field("target").int() > 0)
    });
    system.healthy("what was evened out to be shown");
    // Its rights are what keeps it from all else.
    let mut client = system.redis.raw();
    client.words("AUTH dealer secret");
    for line in ["ACCOUNT.DEL {acme}:accounts 1 p1", "DEL {acme}:accounts", "ACCOUNT.INFO other", "KEYS *"] {
        assert!(client.words(line).error().starts_with("NOPERM"), "{line}");
    }
}
