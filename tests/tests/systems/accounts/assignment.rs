//! Accounts assigned to client systems: real servers, daemons as processes, clients that know nothing but ZooKeeper. Each has
//! a platform before it that notices a second login.

use std::time::{SystemTime, UNIX_EPOCH};

use allot_coordination::{Op, Tree};
use allot_tests::books::Book;
use allot_tests::proxy::Proxy;
use allot_tests::wait::TIMEOUT;
use allot_tests::zookeeper::patient;
use allot_tests::{AccountsSystem, eventually};

#[test]
fn clients_that_come_and_go_share_the_accounts_of_their_module() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    // The first start, and an empty tree.
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 2 SHARE PRESENT RESERVE 1");
    book.add("billing", 0..9);
    let first = system.add_clients(&[], &["finance/billing/web1:8080"]);
    system.healthy("one instance to have all");
    assert_eq!(book.shares("billing"), [8]);

    let second = system.add_clients(&[], &["finance/billing/web2:8080"]);
    eventually("the second to be attached", TIMEOUT, || book.shares("billing").len() == 2);
    system.healthy("two instances to share");
    assert_eq!(book.shares("billing"), [4, 4]);

    // A third stands by, and is promoted when a place falls free.
    let third = system.add_clients(&[], &["finance/billing/web3:8080"]);
    eventually("the third to be attached", TIMEOUT, || book.shares("billing").len() == 3);
    system.healthy("the third to stand by");
    let mut shares = book.shares("billing");
    shares.sort_unstable();
    assert_eq!(shares, [0, 4, 4]);
    system.clients[first].say("go finance/billing/web1:8080");
    eventually("the first to be gone", TIMEOUT, || book.shares("billing").len() == 2);
    system.healthy("the third to have the place of the first");
    assert_eq!(book.shares("billing"), [4, 4]);

    // One that dies is missed after its session and the grace.
    system.clients[second].kill9();
    system.clients.remove(second);
    eventually("the second to be gone", TIMEOUT, || book.shares("billing").len() == 1);
    system.healthy("the third to have all");
    assert_eq!(book.shares("billing"), [8]);
    let _ = third;
}

#[test]
fn accounts_of_an_instance_that_leaves_for_good_are_free_at_once() {
    let mut system = AccountsSystem::start(0);
    system.add_daemon(&[("ALLOT_ACCOUNTS_GRACE", "1h")]);
    system.until_led();
    let mut book = system.book();
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 1 SHARE PLACES");
    book.add("billing", 0..4);
    let clients = system.add_clients(&[], &["finance/billing/old:8080"]);
    eventually("the instance to be attached", TIMEOUT, || book.shares("billing") == [4]);
    system.healthy("it to have all");
    system.clients[clients].say("leave finance/billing/old:8080");
    system.clients[clients].say("come finance/billing/new:8080");
    eventually("the other name to have all", TIMEOUT, || system.has("billing/new:8080").len() == 4);
    system.healthy("the other name to use all");
}

#[test]
fn returned_and_unusable_accounts_go_to_another_instance() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 2 SHARE PRESENT");
    book.add("billing", 0..8);
    let web = "finance/billing/web1:8080";
    let clients = system.add_clients(&[], &[web, "finance/billing/web2:8080"]);
    eventually("both to be attached", TIMEOUT, || book.shares("billing").len() == 2);
    system.healthy("two instances to share");

    let ours = system.has("billing/web1:8080");
    system.clients[clients].say(&format!("unusable {web} {}", ours[0]));
    eventually("the account to be frozen", TIMEOUT, || book.account(&ours[0], "state").text() == "frozen");
    let epoch = book.account(&ours[1], "epoch").int();
    system.clients[clients].say(&format!("return {web} {}", ours[1]));
    eventually("the account to be assigned again", TIMEOUT, || book.account(&ours[1], "epoch").int() > epoch);
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
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE a DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.ok("MODULE b DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.add("a", 0..4);
    // It is not to be missed, lest what it has be another's by right.
    let silent = system.add_clients(&["--session", "15"], &["d/a/one:1"]);
    system.add_clients(&[], &["d/b/two:2"]);
    eventually("both to be attached", TIMEOUT, || book.shares("a").len() + book.shares("b").len() == 2);
    system.healthy("four accounts to be with the first");

    system.clients[silent].say("mute d/a/one:1");
    book.ok("MOVE b 2 p0 p1");
    let asked = |system: &mut AccountsSystem| {
        let shown = system.shown();
        let of = |name: &str| shown.get("d/a/one:1")?.get(name).map(|word| word["state"] == "revoke");
        of("p0") == Some(true) && of("p1") == Some(true)
    };
    eventually("both to be asked for", TIMEOUT, || asked(&mut system));
    // The leader dies; the next one waits for the silent one as long as the barrier stands, and then assigns the rest.
    system.daemons[0].kill9();
    book.add("b", 4..6);
    let next = system.add_daemon(&[]);
    eventually("another to lead", TIMEOUT, || system.leader() == Some(next));
    eventually("the others to be assigned", TIMEOUT, || {
        let shown = system.shown();
        shown.get("d/b/two:2").is_some_and(|all| all.len() == 2 && all.contains_key("p4"))
    });
    eventually("what the silent one has still to be asked for", TIMEOUT, || asked(&mut system));
    system.check_tree();
    assert_eq!(system.violations(), "");
    system.clients[silent].say("speak d/a/one:1");
    system.healthy("what it gives back to be assigned");
    assert_eq!(system.has("b/two:2").len(), 4);
}

#[test]
fn instance_cut_off_logs_out_before_its_accounts_are_reassigned() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2 SHARE PRESENT");
    book.add("m", 0..6);
    let port = system.zookeeper.address().rsplit(':').next().unwrap().parse().unwrap();
    let wire = Proxy::to(port);
    let behind = format!("127.0.0.1:{}", wire.port());
    system.add_clients(&[], &["d/m/one:1"]);
    let cut = system.add_clients(&["--zookeeper", &behind], &["d/m/two:2"]);
    eventually("both to be attached", TIMEOUT, || book.shares("m").len() == 2);
    system.healthy("two to share");
    // Its thread that talks to ZooKeeper hangs as well; another one keeps time.
    system.clients[cut].say("hang d/m/two:2");
    wire.cut();
    eventually("the one that is cut off to be given up", TIMEOUT, || book.shares("m").len() == 1);
    let mut lone = system.clients.remove(cut);
    system.healthy("the other to have all");
    assert!(lone.uses().values().all(Vec::is_empty), "it uses what is another's");
    wire.heal();
    lone.say("wake d/m/two:2");
    system.clients.push(lone);
    eventually("it to be back", TIMEOUT, || book.shares("m").len() == 2);
    system.healthy("two to share again");
}

#[test]
fn another_process_of_the_same_name_takes_its_place() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.add("m", 0..5);
    let first = system.add_clients(&[], &["d/m/one:1"]);
    system.healthy("one to have all");
    let owner = |system: &mut AccountsSystem| {
        system.with_tree(async |tree| tree.get("/resource/d/m/one:1").await.ok().flatten()?.owner)
    };
    let mut before: Option<i64> = None;
    eventually("the node to be somebody's", TIMEOUT, || {
        before = owner(&mut system);
        before.is_some()
    });
    // It dies, and is started again before its session is over: it knows that the older node is a dead one's.
    system.clients[first].kill9();
    system.clients.remove(first);
    system.add_clients(&["--replace"], &["d/m/one:1"]);
    // Between the two it is nobody's for a moment.
    eventually("the node to be another's", TIMEOUT, || {
        owner(&mut system).is_some_and(|now| Some(now) != before)
    });
    system.healthy("the new one to have all");
    assert_eq!(book.shares("m"), [5]);
}

#[test]
fn second_process_of_a_name_does_not_end_the_first_ones_login() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE a DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.ok("MODULE b DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.add("a", 0..2);
    system.add_clients(&[], &["d/b/two:2"]);
    let first = system.add_clients(&[], &["d/a/one:1"]);
    eventually("both to be attached", TIMEOUT, || book.shares("a").len() + book.shares("b").len() == 2);
    system.healthy("all to be with the first");
    // It is logged in by the book, is asked for the account, and hangs.
    let until = book.ok("LOGIN p0 one:1 t TTL 8000").field("until").int();
    system.clients[first].say("mute d/a/one:1");
    book.ok("MOVE b 1 p0");
    eventually("the account to be asked for", TIMEOUT, || {
        system
            .shown()
            .get("d/a/one:1")
            .is_some_and(|shown| shown.get("p0").is_some_and(|word| word["state"] == "revoke"))
    });
    system.clients[first].kill9();
    system.clients.remove(first);
    system.add_clients(&["--replace"], &["d/a/one:1"]);
    eventually("the account to go on", TIMEOUT, || book.account("p0", "state").text() != "revoking");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!(now >= until, "it went on {} ms before the login was over", until - now);
    system.healthy("it to be with the other");
    assert_eq!(system.has("b/two:2"), ["p0"]);
}

#[test]
fn a_module_s_directory_that_others_delete_is_made_again() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.add("m", 0..2);
    let made = |system: &mut AccountsSystem| {
        system.with_tree(async |tree| tree.get("/resource/d/m").await.ok().flatten().is_some())
    };
    eventually("the directory to be there", TIMEOUT, || made(&mut system));
    system.with_tree(async |tree| {
        let path = "/resource/d/m".to_owned();
        patient(async || tree.multi(vec![Op::Delete { path: path.clone(), version: None }]).await)
            .await
            .unwrap();
    });
    eventually("it to be there again", TIMEOUT, || made(&mut system));
    system.add_clients(&[], &["d/m/one:1"]);
    system.healthy("who comes to have all");
    assert_eq!(book.shares("m"), [2]);
}

#[test]
fn assignment_waits_for_a_login_to_end() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE a DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.ok("MODULE b DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.add("a", 0..6);
    let url = system.redis.url();
    let url = ["--redis", &url];
    system.add_clients(&url, &["d/a/one:1"]);
    system.add_clients(&url, &["d/b/two:2"]);
    eventually("both to be attached", TIMEOUT, || book.shares("a").len() + book.shares("b").len() == 2);
    system.healthy("all to be with the first");
    eventually("all to be logged in", TIMEOUT, || book.total("logins") == 6);
    book.ok("MOVE b 3 p0 p1 p2");
    system.healthy("three to have gone on");
    assert_eq!(system.has("b/two:2"), ["p0", "p1", "p2"]);
    eventually("all to be logged in again", TIMEOUT, || book.total("logins") == 6);
}

#[test]
fn changes_of_modules_apply_with_and_without_a_leader() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    // Accounts that were added and never assigned: nobody is there.
    book.add("m", 0..6);
    let first = system.add_clients(&[], &["d/m/one:1", "d/m/two:2"]);
    eventually("both to be attached", TIMEOUT, || book.shares("m").len() == 2);
    system.healthy("one to have all, and one to stand by");
    book.ok("MODULE m DEPARTMENT d INSTANCES 2 SHARE PRESENT");
    system.healthy("two to share");
    assert_eq!(book.shares("m"), [3, 3]);
    book.ok("MODULE m DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    system.healthy("one to have all again");

    // While nobody leads one goes, one comes, and one dies and is back.
    system.daemons[0].kill9();
    system.clients[first].say("go d/m/one:1");
    let third = system.add_clients(&[], &["d/m/three:3"]);
    book.ok("MODULE n DEPARTMENT e INSTANCES 1 SHARE PRESENT");
    book.add("n", 6..9);
    let fourth = system.add_clients(&[], &["e/n/four:4"]);
    book.ok("DEL 1 p0");
    system.daemons[0].start();
    system.until_led();
    eventually("all to be attached", TIMEOUT, || book.shares("m").len() == 2 && book.shares("n").len() == 1);
    system.healthy("the new leader to have made all of it so");
    assert_eq!((book.shares("n"), book.total("accounts")), (vec![3], 8));

    // A module that goes to another department is looked for there.
    book.ok("MODULE n DEPARTMENT f INSTANCES 1 SHARE PRESENT");
    system.clients[fourth].say("go e/n/four:4");
    system.clients[fourth].say("come f/n/four:4");
    system.healthy("a module to be where it went");
    system.clients[third].say("go d/m/three:3");
    system.healthy("what a standby leaves behind to be gone");
}

/// Two modules of ten accounts each, numbered from 0 on, and the program of the instances that come and go.
fn two_modules() -> (AccountsSystem, Book, usize) {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    for module in ["a", "b"] {
        book.ok(&format!("MODULE {module} DEPARTMENT d INSTANCES 2 SHARE PRESENT"));
    }
    book.add("a", 0..10);
    book.add("b", 10..20);
    system.add_clients(&[], &["d/a/one:1", "d/b/two:2"]);
    let clients = system.add_clients(&[], &["d/a/three:3", "d/b/four:4", "d/b/five:5"]);
    eventually("all to be attached", TIMEOUT, || book.shares("a").len() + book.shares("b").len() == 5);
    system.healthy("all to be assigned");
    (system, book, clients)
}

/// One leader after the other dies at these steps, and the next finishes its work. While nobody leads, the test moves
/// accounts, adds accounts, and lets two instances leave or return, in alternation.
#[track_caller]
fn leaders_die_at(points: &[&str]) {
    let (mut system, mut book, clients) = two_modules();
    let (mut next, mut there) = (20, true);
    for point in points {
        let leader = system.until_led();
        system.daemons[leader].kill9();
        let (from, to) = if there { ("a", "b") } else { ("b", "a") };
        let some: Vec<String> = system.has(&format!("{from}/one:1")).into_iter().take(2).collect();
        let mut others = Vec::new();
        eventually("the other to have two", TIMEOUT, || {
            others = system.has("b/two:2");
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
        let dies = system.add_daemon(&[("ALLOT_FAULT_POINT", &fault), ("ALLOT_FAULT_BATCH", batch)]);
        system.daemons[dies].wait_for_end();
        let log = system.daemons[dies].log();
        assert!(log.contains("dying here"), "{point} was not reached:\n{log}");
        system.check_tree();
        system.daemons.remove(dies);
        system.daemons[0].start();
        let places = if there { 2 } else { 1 };
        eventually("who is there to be attached", TIMEOUT, || book.shares("a").len() == places);
        let took = system.healthy(point);
        println!("a leader that died at '{point}': well again after {took:.1?}");
    }
    notify_is_recorded(&mut system);
}

/// Waits until the version of the `notify` node that the leader assigned with is on record.
#[track_caller]
fn notify_is_recorded(system: &mut AccountsSystem) {
    let recorded = async |tree: Tree| {
        let notify = tree.get("/resource/notify").await.ok().flatten()?.version;
        let node = tree.get("/resource/notify/processed").await.ok().flatten()?;
        Some(notify.0.to_string() == String::from_utf8(node.data).unwrap())
    };
    eventually("the version that was assigned with to be on record", TIMEOUT, || {
        system.with_tree(recorded) == Some(true)
    });
}

#[test]
fn a_leader_may_die_at_its_first_steps() {
    leaders_die_at(&["claimed", "read", "changed", "taken", "barrier", "introduced"]);
}

#[test]
fn a_leader_may_die_at_its_last_steps_and_between_two_batches() {
    // Two instances return in every second round, also in the round of `half-introduced`.
    leaders_die_at(&["shown", "half-introduced", "half-shown", "half-taken", "settled", "recorded"]);
}

#[test]
fn a_leader_that_wakes_up_after_its_replacement_changes_nothing() {
    let (mut system, mut book, _) = two_modules();
    eventually("the first to lead", TIMEOUT, || {
        system.daemons[0].metric("allot_accounts_leading") == Some(1.0)
    });
    let other = system.add_daemon(&[]);
    system.daemons[0].pause();
    eventually("another to lead", TIMEOUT, || {
        system.daemons[other].metric("allot_accounts_leading") == Some(1.0)
    });
    book.add("b", 20..25);
    system.healthy("the other to assign");
    let before = system.versions();
    system.daemons[0].resume();
    eventually("the first to know", TIMEOUT, || {
        system.daemons[0].metric("allot_accounts_leading") == Some(0.0)
    });
    assert_eq!(system.versions(), before, "who was replaced wrote");
    system.healthy("all to be as it was");
    notify_is_recorded(&mut system);
}
