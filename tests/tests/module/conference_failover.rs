//! Grants while a master dies, or is paused and wakes as one of two: no epoch is given out twice where it lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Grants that a server makes until there are no more, or so many: each conference's epoch.
fn grants(server: &RedisServer, calls: usize) -> Vec<i64> {
    let mut realm = Realm::of(server);
    let grants = (0..calls).flat_map(|_| realm.ok("CONF.RECOVER COUNT 10").array().to_vec());
    grants.map(|grant| grant.array()[2].int()).collect()
}

#[test]
fn a_failover_in_the_middle_of_grants_gives_no_epoch_out_twice() {
    let (old, new) = (RedisServer::strict().start(), RedisServer::strict().start());
    new.replica_of(&old);
    let mut realm = Realm::create(&old, &UNITS[..1]);
    // What is granted stays so to the end of the test.
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    let mut epochs: Vec<i64> = (0..300).map(|number| realm.open(&number.to_string()).1).collect();
    realm.join("b:1:1");
    realm.ok("CMU.DOWN a:1:1");
    epochs.extend(grants(&old, 10));
    old.wait_offset_equal(&new);
    // Cut off, the replica hears nothing of these, and then becomes the master.
    new.command("REPLICAOF 127.0.0.1 1");
    let lost = grants(&old, 3);
    assert_eq!(lost.len(), 30);
    old.pause();
    new.command("REPLICAOF NO ONE");
    let more = grants(&new, 30);
    assert_eq!(more.len(), 200, "what the old one granted to nobody's knowledge is granted again");
    epochs.extend(&lost);
    epochs.extend(&more);
    let all: BTreeSet<i64> = epochs.iter().copied().collect();
    assert_eq!(all.len(), epochs.len(), "an epoch was given out twice");
    // The old one wakes, and follows. A unit that acts on its grants is behind.
    old.resume();
    old.replica_of(&new);
    assert_eq!(old.digest_value(REALM), new.digest_value(REALM));
    let mut realm = Realm::of(&new);
    for number in 0..300 {
        let (cmu, epoch, state) = realm.place(&number.to_string());
        assert_eq!((cmu.as_str(), state.as_str()), ("b:1:1", "creating"));
        assert!(!lost.contains(&epoch), "a lost grant is in force");
    }
    for epoch in lost {
        assert_eq!(realm.ok(&format!("CONF.ACK 1 b:1:1 {epoch}")), Reply::bulk("RELEASE"));
    }
    no_internal_errors(&new);
}

/// A former master gave the conference to another unit, where people ended it; no replica heard of that.
#[test]
fn lost_end_by_people_counts_whatever_epochs_were_given_out_since() {
    let server = RedisServer::strict().start();
    let mut realm = Realm::create(&server, &UNITS);
    let (owner, epoch) = realm.open("7");
    let (other, third) = ("b:1:1", "c:1:1");
    assert_eq!(owner, "a:1:1");
    let (lost, later) = (epoch + 3_600_000_000, epoch + 3_600_000_001);
    // Another unit had handled a later epoch of the former master, and the realm gives out epochs above that.
    realm.ok(&format!("CMU.REPORT {third} HIGHEST {later}"));
    assert_eq!(realm.ok(&format!("CONF.ENDED 7 {other} {lost}")), Reply::Simple("OK".into()));
    assert_eq!(realm.place("7").2, "ended");
    let (_, epoch) = realm.begin("8", "");
    assert_eq!(realm.place("8").2, "creating");
    let lost = epoch + 20_000;
    assert_eq!(realm.ok(&format!("CONF.ENDED 8 {other} {lost}")), Reply::Simple("OK".into()));
    assert_eq!(realm.place("8").2, "ended");
    assert_eq!(realm.ok("CONF.RECOVER COUNT 10").array().len(), 0);
    no_internal_errors(&server);
}

/// An assignment that a master gave out.
struct Granted {
    e164: String,
    cmu: String,
    epoch: i64,
    /// Whether a replica had heard of it by then.
    confirmed: bool,
}

/// Grants, creations and words of units on one server, round after round, until it is told to stop.
fn burst(mut realm: Realm, done: &AtomicUsize, stop: &AtomicBool) -> Vec<Granted> {
    let mut all = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let round = done.load(Ordering::SeqCst);
        let mut given: Vec<(String, String, i64)> = Vec::new();
        for grant in realm.ok("CONF.RECOVER COUNT 5").array() {
            let grant = grant.array();
            given.push((grant[0].text(), grant[1].text(), grant[2].int()));
        }
        let e164 = format!("new{round}");
        let (cmu, epoch) = realm.begin(&e164, "");
        given.push((e164, cmu, epoch));
        for (e164, cmu, epoch) in given.iter().skip(round % 2) {
            assert_eq!(realm.ok(&format!("CONF.ACK {e164} {cmu} {epoch}")), Reply::Simple("OK".into()));
        }
        let confirmed = realm.client.words("WAIT 1 100").int() >= 1;
        all.extend(given.into_iter().map(|(e164, cmu, epoch)| Granted { e164, cmu, epoch, confirmed }));
        done.fetch_add(1, Ordering::SeqCst);
    }
    all
}

#[test]
fn second_master_that_wakes_up_grants_nothing_that_lasts() {
    let (old, new) = (RedisServer::strict().start(), RedisServer::strict().start());
    new.replica_of(&old);
    let mut realm = Realm::create(&old, &UNITS[..1]);
    // What is granted stays so to the end of the test.
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    for number in 0..2000 {
        realm.open(&number.to_string());
    }
    realm.join("b:1:1");
    realm.join("c:1:1");
    realm.ok("CMU.DOWN a:1:1");
    let (done, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let client = Realm::of(&old);
    let thread = std::thread::spawn({
        let (done, stop) = (done.clone(), stop.clone());
        move || burst(client, &done, &stop)
    });
    let rounds = |more: usize| {
        let target = done.load(Ordering::SeqCst) + more;
        eventually("the burst to go on", TIMEOUT, || {
            done.load(Ordering::SeqCst) >= target || thread.is_finished()
        });
        assert!(!thread.is_finished(), "the burst has ended");
    };
    rounds(40);
    old.pause();
    new.command("REPLICAOF NO ONE");
    // The new one goes on, and what is on c is taken up there; b hears the old one alone.
    let mut there = Realm::of(&new);
    let mut fresh = Vec::new();
    let mut go_on = |there: &mut Realm, calls: usize| {
        for _ in 0..calls {
            let mut given: Vec<Reply> = there.ok("CONF.RECOVER COUNT 10").array().to_vec();
            let (cmu, epoch) = there.begin(&format!("there{}", fresh.len()), "");
            let e164 = Reply::bulk(format!("there{}", fresh.len()));
            given.push(Reply::Array(vec![e164, Reply::bulk(cmu), Reply::Int(epoch)]));
            for grant in given {
                let grant = grant.array();
                let (e164, cmu, epoch) = (grant[0].text(), grant[1].text(), grant[2].int());
                if cmu == "c:1:1" {
                    there.ok(&format!("CONF.ACK {e164} {cmu} {epoch}"));
                }
                fresh.push((e164, epoch));
            }
        }
    };
    go_on(&mut there, 20);
    // The old one wakes and knows of nothing: it answers its own clients for a while, as the new one answers its own.
    old.resume();
    rounds(15);
    go_on(&mut there, 20);
    rounds(15);
    stop.store(true, Ordering::SeqCst);
    let given = thread.join().expect("the burst ends well");
    assert_eq!(old.info_field("replication", "role"), "master");
    old.replica_of(&new);
    assert_eq!(old.digest_value(REALM), new.digest_value(REALM));

    // What a replica confirmed is on record, and its epoch nobody else's.
    let history = |realm: &mut Realm, e164: &str| -> Vec<(String, i64)> {
        let history = match realm.call(&format!("CONF.HISTORY {e164}")) {
            Reply::Error(text) if text.starts_with("NOTFOUND ") => return Vec::new(),
            history => history,
        };
        let entry = |entry: &Reply| (entry.field("cmu").text(), entry.field("epoch").int());
        history.array().iter().map(entry).collect()
    };
    let mut owners: BTreeMap<i64, (String, String)> = BTreeMap::new();
    let known: BTreeSet<String> =
        given.iter().map(|one| one.e164.clone()).chain(fresh.iter().map(|(e164, _)| e164.clone())).collect();
    for e164 in &known {
        let entries = history(&mut there, e164);
        assert!(entries.is_sorted_by(|one, next| one.1 < next.1), "{e164}: {entries:?}");
        for (cmu, epoch) in entries {
            let before = owners.insert(epoch, (e164.clone(), cmu));
            assert!(before.is_none(), "{epoch} is of {e164} and of {before:?}");
        }
    }
    let confirmed: Vec<&Granted> = given.iter().filter(|one| one.confirmed).collect();
    assert!(confirmed.len() > 100, "only {} were confirmed", confirmed.len());
    for one in &confirmed {
        assert_eq!(owners.get(&one.epoch), Some(&(one.e164.clone(), one.cmu.clone())), "{}", one.epoch);
        assert!(!fresh.iter().any(|(_, epoch)| *epoch == one.epoch), "{} was given out twice", one.epoch);
    }

    // Who acted on what was lost is told to end it, and gets nothing by it.
    let lost: Vec<&Granted> = given
        .iter()
        .filter(|one| owners.get(&one.epoch) != Some(&(one.e164.clone(), one.cmu.clone())))
        .collect();
    let on_both: Vec<&&Granted> =
        lost.iter().filter(|one| fresh.iter().any(|(e164, _)| *e164 == one.e164)).collect();
    assert!(lost.len() > 100 && on_both.len() > 20, "{} lost, {} of them twice", lost.len(), on_both.len());
    for cmu in ["b:1:1", "c:1:1"] {
        let copies: Vec<&&Granted> = lost.iter().filter(|one| one.cmu == cmu).collect();
        assert!(copies.len() > 20);
        let before: Vec<_> =
            copies.iter().map(|one| there.call(&format!("CONF.INFO {}", one.e164))).collect();
        let list: Vec<String> = copies.iter().map(|one| format!("{} {}", one.e164, one.epoch)).collect();
        // It reports before it has read what the new master had to say.
        let report = there.ok(&format!("CMU.REPORT {cmu} HIGHEST 0 {}", list.join(" ")));
        let released: BTreeSet<String> = report.field("released").array().iter().map(Reply::text).collect();
        let expected: BTreeSet<String> = copies.iter().map(|one| one.e164.clone()).collect();
        assert_eq!(released, expected);
        assert!(report.field("adopted").array().is_empty() && report.field("ended").array().is_empty());
        eventually("all to be told", TIMEOUT, || there.stat("unsent") == 0);
        let told: BTreeSet<String> = there.entries(&format!("cmd:{cmu}")).into_iter().collect();
        for one in &copies {
            assert!(told.contains(&format!("RELEASE {} {cmu} {} 0", one.e164, one.epoch)), "{}", one.e164);
        }
        for one in copies.iter().take(20) {
            let code = there.code(&format!("CONF.SET {} {cmu} {} 1 members 3", one.e164, one.epoch));
            assert!(["NOTOWNER", "STALE", "NOTFOUND"].contains(&&*code), "{code}");
        }
        let after: Vec<_> = copies.iter().map(|one| there.call(&format!("CONF.INFO {}", one.e164))).collect();
        assert_eq!(before, after, "a lost copy changed what is on record");
    }
    no_internal_errors(&new);
}
