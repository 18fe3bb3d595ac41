//! Holds that fall due while a server must not write, is no master, or has just become one: nothing happens by
//! itself on a replica, nothing is lost after a failover, and nothing crashes.

use std::thread;
use std::time::Duration;

use allot_core::seat::Event;
use allot_tests::seat_workload::events_of;
use allot_tests::shows::{
    allot_info, books, clock, create, hold, no_internal_errors, sample_venue, state_of,
};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, Reply, eventually};

/// A master with a replica that dies of a replicated command that fails.
fn pair() -> (RedisServer, RedisServer) {
    let strict = || RedisServer::builder().arg("propagation-error-behavior", "panic").start();
    let (master, replica) = (strict(), strict());
    replica.replica_of(&master);
    create(&master, "show", &sample_venue(10, 20));
    (master, replica)
}

fn hold_many(server: &RedisServer, holds: usize, ttl: i64) {
    let mut client = server.raw();
    for number in 0..holds {
        hold(&mut client, "show", &format!("user{number}"), 2, ttl, &format!("t{number}"));
    }
}

fn held(server: &RedisServer) -> i64 {
    books(&mut server.raw(), b"show").held
}

/// Waits until the clock of the server has passed the deadlines of holds of that life by far.
fn pass(server: &RedisServer, start: i64, ttl: i64) {
    eventually("the deadlines to pass", TIMEOUT, || clock(&mut server.raw()) > start + ttl + 300);
}

#[test]
fn holds_due_during_a_write_pause_expire_after_the_pause() {
    let (master, replica) = pair();
    // Before there are holds, for it begins with a snapshot, which may take longer than they live.
    let mut stream = ReplicationStream::attach(&master);
    let mut client = master.raw();
    let start = clock(&mut client);
    // In one transaction, so that nothing falls due before the pause.
    client.words("MULTI");
    for number in 0..50 {
        client.words(&format!("SEAT.HOLD show user{number} 2 TTL 1000 TOKEN t{number}"));
    }
    client.words("CLIENT PAUSE 5000 WRITE");
    assert_eq!(client.words("EXEC").array().len(), 51);
    // The pause lasts longer than this, for it began later.
    let end = start + 5000;
    let paused = clock(&mut client);
    pass(&master, paused, 1000);
    let (count, now) = (held(&master), clock(&mut client));
    // A machine that slept through the whole pause has nothing to show.
    if now < end {
        assert_eq!(count, 100, "something expired while nothing may be written");
    }
    eventually("the holds to expire after the pause", TIMEOUT, || held(&master) == 0);
    master.wait_offset_equal(&replica);
    assert_eq!(master.digest(), replica.digest());
    let commands = stream.drain();
    let mut expired = 0;
    for (at, events) in commands.iter().filter(|command| command[0] == b"SEAT.APPLY").map(events_of) {
        let count = events.iter().filter(|event| matches!(event, Event::Expired { .. })).count();
        assert!(count == 0 || at >= end, "a hold expired at {at}, within the pause until {end}");
        expired += count;
    }
    assert_eq!(expired, 50);
    no_internal_errors(&master);
}

#[test]
fn nothing_expires_by_itself_on_a_replica() {
    let (master, replica) = pair();
    // Long enough for a replica that gets its first stream late.
    hold_many(&master, 20, 3000);
    let (start, seat) = (clock(&mut master.raw()), "a-1-1");
    master.wait_offset_equal(&replica);
    // First, so that all it says of deadlines is said before the replica is looked at.
    master.pause();
    let full = held(&replica) == 40;
    let digest = replica.digest();
    pass(&replica, start, 3000);
    // Long past the deadlines, several runs of the replica's timer later.
    thread::sleep(Duration::from_millis(500));
    // Where some had expired before their master stood still there is nothing to show.
    if full {
        assert_eq!(replica.digest(), digest);
        assert_eq!(held(&replica), 40);
        assert_eq!(state_of(&mut replica.raw(), "show", seat), "held");
        assert_eq!(replica.raw().words("SEAT.HOLDS show user0").array().len(), 1);
        assert!(allot_info(&replica, "keys_waiting_for_timer") >= 1);
    }
    master.resume();
    eventually("the holds to expire on the replica, too", TIMEOUT, || held(&replica) == 0);
    assert_eq!(allot_info(&replica, "seat_expired"), 20);
    no_internal_errors(&replica);
}

#[test]
fn a_promoted_replica_expires_what_is_due_and_what_falls_due() {
    let (master, replica) = pair();
    hold_many(&master, 20, 300);
    let mut client = master.raw();
    let until = hold(&mut client, "show", "late", 3, 3000, "late").field("until").int();
    hold(&mut client, "show", "long", 3, 3_600_000, "long");
    master.wait_offset_equal(&replica);
    master.kill9();
    replica.command("REPLICAOF NO ONE");
    eventually("the overdue holds to expire", TIMEOUT, || held(&replica) <= 6);
    eventually("the late hold to expire", TIMEOUT, || held(&replica) == 3);
    assert!(clock(&mut replica.raw()) >= until, "it expired early");
    assert_eq!(replica.raw().words("SEAT.CONFIRM show long USER long"), Reply::Int(3));
    no_internal_errors(&replica);
}

#[test]
fn a_replica_promoted_and_demoted_while_holds_fall_due_does_not_crash() {
    let (master, replica) = pair();
    for round in 0..5 {
        create(&master, &format!("show{round}"), &sample_venue(5, 20));
        let mut client = master.raw();
        for number in 0..40 {
            let ttl = 1 + number * 5;
            hold(&mut client, &format!("show{round}"), &format!("u{number}"), 1, ttl, &format!("t{number}"));
        }
        replica.command("REPLICAOF NO ONE");
        thread::sleep(Duration::from_millis(20 * round));
        replica.replica_of(&master);
    }
    for round in 0..5 {
        eventually("all to expire", TIMEOUT, || {
            books(&mut master.raw(), format!("show{round}").as_bytes()).held == 0
        });
    }
    master.wait_offset_equal(&replica);
    assert_eq!(master.digest(), replica.digest());
    no_internal_errors(&master);
    no_internal_errors(&replica);
}

#[test]
fn a_failover_while_holds_fall_due_loses_nothing() {
    let (master, replica) = pair();
    for round in 0..4 {
        let (old, new) = if round % 2 == 0 { (&master, &replica) } else { (&replica, &master) };
        let mut client = old.raw();
        for number in 0..60 {
            let (user, token) = (format!("u{number}"), format!("r{round}-{number}"));
            hold(&mut client, "show", &user, 1, 20 + number, &token);
        }
        let kept = format!("kept{round}");
        hold(&mut client, "show", &kept, 2, 3_600_000, &kept);
        old.command("FAILOVER");
        eventually("the roles to change", TIMEOUT, || {
            old.role().as_deref() == Some("slave") && new.role().as_deref() == Some("master")
        });
        old.wait_replica_synced();
        eventually("the short holds to expire", TIMEOUT, || held(new) == 2 * (round + 1));
        new.wait_offset_equal(old);
        assert_eq!(old.digest(), new.digest());
    }
    for round in 0..4 {
        assert_eq!(master.raw().words(&format!("SEAT.CONFIRM show kept{round}")), Reply::Int(2));
    }
    no_internal_errors(&master);
    no_internal_errors(&replica);
}

#[test]
fn a_paused_failover_target_keeps_deadlines_waiting_and_not_the_server() {
    let (master, replica) = pair();
    let start = clock(&mut master.raw());
    hold_many(&master, 30, 200);
    replica.pause();
    // The replica never catches up, so the master stays paused until it gives up.
    hold(&mut master.raw(), "show", "last", 2, 200, "last");
    master.command("FAILOVER TIMEOUT 1500");
    pass(&master, start, 200);
    replica.resume();
    eventually("one master in the end", TIMEOUT, || {
        [&master, &replica].iter().filter(|s| s.role().as_deref() == Some("master")).count() == 1
            && master.info_field("replication", "master_failover_state") == "no-failover"
    });
    let winner = if master.role().as_deref() == Some("master") { &master } else { &replica };
    eventually("the holds to expire", TIMEOUT, || held(winner) == 0);
    no_internal_errors(winner);
    assert!(master.is_running() && replica.is_running(), "{}\n{}", master.log(), replica.log());
}
