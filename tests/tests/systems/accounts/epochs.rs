//! A book that forgets assignments which are published, as after a failover to a replica that lagged. The tests bring
//! back an earlier state of the book with `RESTORE`.

use allot_tests::proxy::Proxy;
use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, RedisServer, eventually};
use redis::Value;

/// The book as `DUMP` gives it.
fn dump(redis: &RedisServer) -> Vec<u8> {
    let mut connection = redis.connection();
    redis::cmd("DUMP").arg(allot_tests::books::BOOK).query(&mut connection).unwrap()
}

/// The book is as it was.
fn forget(redis: &RedisServer, dump: &[u8]) {
    let mut connection = redis.connection();
    let mut restore = redis::cmd("RESTORE");
    restore.arg(allot_tests::books::BOOK).arg(0).arg(dump).arg("REPLACE");
    restore.exec(&mut connection).unwrap();
}

/// The epoch by which an account is published to an instance; 0 if it is not.
fn published(system: &mut AccountsSystem, instance: &str, account: &str) -> u64 {
    let shown = system.shown();
    let word = shown.get(instance).and_then(|all| all.get(account));
    word.and_then(|word| word["epoch"].as_u64()).unwrap_or(0)
}

#[test]
fn published_epoch_never_falls_when_an_assignment_is_forgotten() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2");
    book.add("m", 0..4);
    let one = "d/m/one:1";
    let client = system.add_clients(&[], &[one, "d/m/two:2"]);
    eventually("both to be attached", TIMEOUT, || book.shares("m").len() == 2);
    system.healthy("two to share");
    let account = system.has("m/one:1").remove(0);
    // The instance never removes an entry from its report. It returns the account, and gets it back.
    system.clients[client].say(&format!("lazy {one}"));
    let before = dump(&system.redis);
    let first = published(&mut system, one, &account);
    system.clients[client].say(&format!("return {one} {account}"));
    let mut last = 0;
    eventually("the account to be back under a new epoch", TIMEOUT, || {
        last = published(&mut system, one, &account);
        last > first
    });
    system.healthy("the account to be in use again");

    forget(&system.redis, &before);
    eventually("the account to have a later epoch than the forgotten one", TIMEOUT, || {
        let now = published(&mut system, one, &account);
        assert!(now >= last, "the published epoch fell from {last} to {now}");
        now > last
    });
    system.healthy("all to be as the book says");
    assert!(system.has("m/one:1").contains(&account), "nobody has asked for it");
}

#[test]
fn account_whose_old_release_is_still_reported_is_published() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.ok("MODULE n DEPARTMENT d INSTANCES 1");
    book.add("m", 0..2);
    let one = "d/m/one:1";
    let client = system.add_clients(&[], &[one, "d/n/two:2"]);
    eventually("both to be attached", TIMEOUT, || book.shares("m").len() + book.shares("n").len() == 2);
    system.healthy("the first to have all");
    system.clients[client].say(&format!("lazy {one}"));
    let before = dump(&system.redis);
    book.ok("MOVE n 1 p0");
    system.healthy("one to have gone on");
    let last = published(&mut system, "d/n/two:2", "p0");
    assert!(last > 0);
    // The book knows nothing of that, and the first still reports that it released what the book believes.
    forget(&system.redis, &before);
    eventually("the first to be shown the account", TIMEOUT, || published(&mut system, one, "p0") > last);
    system.healthy("the first to have all again");
}

#[test]
fn new_epoch_of_the_same_instance_waits_for_a_replica() {
    let mut system = AccountsSystem::start(0);
    let replica = RedisServer::start();
    let wire = Proxy::to(system.redis.port());
    replica.command(&format!("REPLICAOF 127.0.0.1 {}", wire.port()));
    replica.wait_replica_synced();
    // The master counts a replica from the replica's first confirmation on, and the leader reads how many there are.
    eventually("the master to have a replica", TIMEOUT, || {
        system.redis.command("WAIT 1 100") == Value::Int(1)
    });
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.add("m", 0..2);
    let daemon = system.add_daemon(&[]);
    system.until_led();
    let client = system.add_clients(&[], &["d/m/one:1"]);
    system.healthy("one to have all");
    let first = published(&mut system, "d/m/one:1", "p0");

    wire.cut();
    let refused = |system: &AccountsSystem| {
        system.daemons[daemon].metric("allot_accounts_unconfirmed_total").unwrap_or_default()
    };
    let before = refused(&system);
    system.clients[client].say("return d/m/one:1 p0");
    eventually("the account to be assigned again", TIMEOUT, || {
        book.account("p0", "epoch").int() > first as i64
    });
    eventually("the leader to be refused", TIMEOUT, || refused(&system) > before + 1.0);
    assert_eq!(published(&mut system, "d/m/one:1", "p0"), first, "an epoch was shown that no replica has");
    wire.heal();
    system.healthy("the new epoch to be shown");
}
