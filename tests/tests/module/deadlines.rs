//! Holds end by themselves, and on time, wherever their key went: copied, renamed, moved, swapped, restored; and
//! what is gone is forgotten.

use std::time::{Duration, Instant};

use allot_tests::raw::RawClient;
use allot_tests::realms::{REALM, Realm};
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{
    allot_info, books, clock, create, hold, no_internal_errors, sample_venue, seats_of, state_of,
};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Watches a seat of a hold until it is free without anybody asking for more than totals, which only the timer
/// changes; it must not be free before its deadline.
#[track_caller]
fn expires_by_itself(client: &mut RawClient, key: &str, until: i64) {
    eventually("the hold to expire", TIMEOUT, || {
        let before = clock(client);
        let held = books(client, key.as_bytes()).held;
        let after = clock(client);
        assert!(held > 0 || after >= until, "{key}: free at {before}, {} ms early", until - after);
        held == 0
    });
}

fn until(record: &Reply) -> i64 {
    record.field("until").int()
}

#[test]
fn a_hold_expires_within_a_tenth_of_a_second_on_a_quiet_machine() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    let mut client = server.raw();
    // The machine may be busy, so it is enough that one of many is on time; a timer that is late never is.
    let mut latest = Vec::new();
    for round in 0..20 {
        let until = until(&hold(&mut client, "show", "ann", 1, 40, &format!("t{round}")));
        eventually("the hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == round + 1);
        latest.push(clock(&mut client) - until);
    }
    assert!(latest.iter().any(|&late| late <= 100), "all were late: {latest:?}");
}

#[test]
fn both_copies_live_on_and_both_expire_on_time() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    let mut client = server.raw();
    // In one transaction, so that the short hold is copied before it expires.
    for line in [
        "MULTI",
        &format!("SEAT.HOLD show bob 1 TTL {LONG_TTL_MS} TOKEN u"),
        "SEAT.HOLD show ann 2 TTL 400 TOKEN t",
        "COPY show twin",
        "COPY show far DB 3",
    ] {
        client.words(line);
    }
    let replies = client.words("EXEC");
    let kept = seats_of(&replies.array()[0]);
    let deadline = until(&replies.array()[1]);
    assert_eq!(replies.array()[2..], [Reply::Int(1), Reply::Int(1)]);
    assert_eq!(client.words("SEAT.CONFIRM twin u"), Reply::Int(1));
    assert_eq!(state_of(&mut client, "show", &kept[0]), "held");
    let mut far = server.raw();
    far.words("SELECT 3");
    for (client, key, left) in [(&mut client, "show", 1), (&mut far, "far", 1)] {
        eventually("all but the long hold to expire", TIMEOUT, || books(client, key.as_bytes()).held == left);
        assert!(clock(client) >= deadline);
    }
    expires_by_itself(&mut client, "twin", deadline);
    assert_eq!(allot_info(&server, "seat_expired"), 3);
    no_internal_errors(&server);
}

#[test]
fn holds_expire_by_themselves_after_rename_move_and_swapdb() {
    let server = RedisServer::start();
    let mut client = server.raw();
    for key in ["renamed", "moved", "swapped", "both"] {
        create(&server, key, &sample_venue(2, 5));
    }
    create(&server, "target", &sample_venue(9, 9));
    hold(&mut client, "target", "old", 3, 300, "old");
    let deadlines =
        ["renamed", "moved", "swapped", "both"].map(|key| until(&hold(&mut client, key, "ann", 2, 400, "t")));
    assert_eq!(client.words("RENAME renamed target"), Reply::Simple("OK".into()));
    assert_eq!(client.words("MOVE moved 1"), Reply::Int(1));
    assert_eq!(client.words("RENAMENX both both2"), Reply::Int(1));
    assert_eq!(client.words("SWAPDB 0 2"), Reply::Simple("OK".into()));
    assert_eq!(client.words("EXISTS target swapped both2"), Reply::Int(0));
    let mut places = [("target", 2), ("moved", 1), ("swapped", 2), ("both2", 2)].map(|(key, db)| {
        let mut client = server.raw();
        client.words(&format!("SELECT {db}"));
        (client, key)
    });
    for ((client, key), deadline) in places.iter_mut().zip(deadlines) {
        expires_by_itself(client, key, deadline);
    }
    no_internal_errors(&server);
}

#[test]
fn holds_expire_by_themselves_after_restore_and_on_the_way_back() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    let mut client = server.raw();
    let deadline = until(&hold(&mut client, "show", "ann", 2, 400, "t"));
    let Reply::Bulk(dump) = client.words("DUMP show") else { panic!("no dump") };
    client.words("DEL show");
    assert_eq!(client.call(&[&b"RESTORE"[..], b"again", b"0", &dump]), Reply::Simple("OK".into()));
    expires_by_itself(&mut client, "again", deadline);
    // Overdue from the start.
    assert_eq!(client.call(&[&b"RESTORE"[..], b"late", b"0", &dump]), Reply::Simple("OK".into()));
    expires_by_itself(&mut client, "late", deadline);
    client.words("DEBUG RELOAD");
    assert_eq!(books(&mut client, b"again").free, 10);
}

#[test]
fn many_holds_of_many_keys_that_fall_due_at_once_all_expire() {
    let server = RedisServer::builder().module_arg("timer-slice 7").start();
    let mut client = server.raw();
    for key in 0..150 {
        let key = format!("show{key}");
        create(&server, &key, &sample_venue(2, 10));
        for number in 0..20 {
            hold(&mut client, &key, &format!("u{number}"), 1, 300, &format!("t{number}"));
        }
    }
    eventually("all to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 3000);
    assert_eq!(allot_info(&server, "seat_live_holds"), 0);
    assert_eq!(books(&mut client, b"show149").free, 20);
    no_internal_errors(&server);
}

#[test]
fn read_of_a_seat_or_user_includes_due_expiries() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    let mut client = server.raw();
    // The timer cannot run between the commands of a transaction.
    for line in [
        "MULTI",
        "SEAT.HOLD show ann 1 TTL 500 TOKEN t",
        "SEAT.GET show a-1-1",
        "DEBUG SLEEP 0.6",
        "SEAT.GET show a-1-1",
        "SEAT.HOLDS show ann",
        "SEAT.CONFIRM show t",
    ] {
        client.words(line);
    }
    let replies = client.words("EXEC");
    let states = [1, 3].map(|place| replies.array()[place].field("state").text());
    assert_eq!(states, ["held", "free"]);
    assert_eq!(replies.array()[4], Reply::Array(vec![]));
    assert!(replies.array()[5].error().starts_with("NOTFOUND "), "{replies:?}");
}

#[test]
fn names_that_are_gone_are_not_kept_until_their_deadline() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let ten_years = 10 * 365 * 24 * 3_600_000_i64;
    let ways: [&[&str]; 6] = [
        &["DEL show"],
        &["UNLINK show"],
        &["SET show text", "DEL show"],
        &["RENAME show other", "DEL other"],
        &["PEXPIRE show 0"],
        &["FLUSHDB"],
    ];
    for ways in ways {
        for round in 0..20 {
            create(&server, "show", &sample_venue(1, 5));
            for number in 0..3 {
                let (user, token) = (format!("u{number}"), format!("t{number}"));
                hold(&mut client, "show", &user, 1, ten_years - number - round, &token);
            }
            assert_eq!(allot_info(&server, "keys_waiting_for_timer"), 1, "{ways:?}");
            for way in ways {
                drop(client.words(way));
            }
            assert_eq!(client.words("EXISTS show"), Reply::Int(0));
            assert_eq!(allot_info(&server, "keys_waiting_for_timer"), 0, "after {ways:?}");
            assert_eq!(allot_info(&server, "seat_live_holds"), 0, "after {ways:?}");
        }
    }
    no_internal_errors(&server);
}

#[test]
fn flushed_shows_and_expired_keys_leave_nothing_behind_that_rings() {
    let server = RedisServer::start();
    let mut client = server.raw();
    for line in ["FLUSHALL", "FLUSHALL ASYNC", "PEXPIRE show 1"] {
        create(&server, "show", &sample_venue(2, 5));
        let before = allot_info(&server, "seat_expired");
        // In one transaction, so that it does not expire before the key goes.
        for step in ["MULTI", "SEAT.HOLD show ann 2 TTL 50 TOKEN t", line] {
            client.words(step);
        }
        let deadline = until(&client.words("EXEC").array()[0]);
        eventually("the key to go", TIMEOUT, || client.words("EXISTS show") == Reply::Int(0));
        // The same name again: the old deadline must not ring for it.
        create(&server, "show", &sample_venue(2, 5));
        hold(&mut client, "show", "ann", 2, LONG_TTL_MS, "t");
        eventually("the old deadline to pass", TIMEOUT, || clock(&mut client) > deadline + 100);
        assert_eq!(books(&mut client, b"show").held, 2, "after {line}");
        assert_eq!(allot_info(&server, "seat_expired"), before, "after {line}");
        client.words("DEL show");
    }
    no_internal_errors(&server);
}

#[test]
fn clock_that_was_a_day_ahead_delays_no_deadline() {
    let server = RedisServer::builder().own_clock().arg("appendonly", "yes").start();
    let replica = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    replica.replica_of(&server);
    let mut client = server.raw();
    server.shift_clock(86_400);
    hold(&mut client, "show", "ann", 1, LONG_TTL_MS, "ahead");
    server.shift_clock(0);
    let before = allot_info(&server, "seat_expired");
    let start = Instant::now();
    hold(&mut client, "show", "bob", 1, 700, "short");
    eventually("the hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == before + 1);
    assert!(start.elapsed() >= Duration::from_millis(700), "it expired early");
    assert!(allot_info(&server, "steps_ahead") > 0);
    let ahead = client.words("ALLOT.CLOCK show").field("ahead").int();
    assert!((86_300_000..86_500_000).contains(&ahead), "{ahead}");
    // So it goes on after a restart.
    server.restart();
    let mut client = server.raw();
    hold(&mut client, "show", "bob", 1, 700, "short2");
    eventually("the hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 1);
    // The operator corrects it.
    let corrected = client.words("ALLOT.CLOCK show RESET");
    assert_eq!(corrected.field("ahead").int(), 0);
    let record = hold(&mut client, "show", "bob", 1, 60_000, "long");
    assert!((0..120_000).contains(&(until(&record) - clock(&mut client))), "{record:?}");
    // After the restart the replica synchronises again, and its offset says nothing until then.
    eventually("the replica to hold the same", TIMEOUT, || {
        server.digest_value("show") == replica.digest_value("show")
    });
    no_internal_errors(&server);
}

#[test]
fn idle_key_ahead_of_the_clock_keeps_its_lead() {
    let server = RedisServer::builder().own_clock().start();
    create(&server, "show", &sample_venue(2, 5));
    let mut client = server.raw();
    // A second more than a key may be ahead before its time continues with elapsed time.
    server.shift_clock(6);
    hold(&mut client, "show", "ann", 1, LONG_TTL_MS, "ahead");
    server.shift_clock(0);
    let start = Instant::now();
    hold(&mut client, "show", "bob", 1, 3000, "short");
    eventually("the hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 1);
    assert!((2900..6000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    let ahead = client.words("ALLOT.CLOCK show").field("ahead").int();
    assert!((5500..6500).contains(&ahead), "{ahead}");
    assert_eq!(client.words("ALLOT.CLOCK show RESET").field("ahead").int(), 0);
    no_internal_errors(&server);
}

#[test]
fn time_of_a_key_ahead_of_the_clock_continues_under_constant_load() {
    let server = RedisServer::builder().own_clock().start();
    create(&server, "show", &sample_venue(2, 5));
    let mut client = server.raw();
    server.shift_clock(86_400);
    hold(&mut client, "show", "ann", 1, LONG_TTL_MS, "ahead");
    server.shift_clock(0);
    hold(&mut client, "show", "bob", 1, 700, "short");
    // Much less than a millisecond lies between two changes.
    let changes = "for _ = 1, 5000 do redis.call('SEAT.BLOCK', KEYS[1], 1, 'a-2-5') \
                   redis.call('SEAT.UNBLOCK', KEYS[1], 1, 'a-2-5') end";
    eventually("the hold to expire under load", TIMEOUT, || {
        client.call(&["EVAL", changes, "1", "show"]);
        allot_info(&server, "seat_expired") == 1
    });
    no_internal_errors(&server);
}

#[test]
fn epochs_grow_though_the_clock_is_set_back() {
    let server = RedisServer::builder().own_clock().start();
    server.shift_clock(86_400);
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (_, ahead) = realm.begin("1", "");
    server.shift_clock(0);
    let (_, behind) = realm.begin("2", "");
    assert!(behind > ahead, "{behind} after {ahead}");
    assert_eq!(realm.client.words(&format!("ALLOT.CLOCK {REALM} RESET")).field("ahead").int(), 0);
    let (_, corrected) = realm.begin("3", "");
    assert!(corrected > behind, "{corrected} after {behind}");
    no_internal_errors(&server);
}

#[test]
fn streams_are_trimmed_after_the_clock_was_corrected() {
    let server = RedisServer::builder().own_clock().start();
    server.shift_clock(86_400);
    // The streams of a realm are looked at when it is created, and when its clock is corrected.
    let add = || server.raw().words(&format!("XADD {REALM}:info 1-1 event SET"));
    let is_trimmed = || {
        eventually("the stream to be trimmed", TIMEOUT, || {
            server.raw().words(&format!("XLEN {REALM}:info")).int() == 0
        });
        server.raw().words(&format!("DEL {REALM}:info"));
    };
    add();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    is_trimmed();
    server.shift_clock(0);
    add();
    realm.client.words(&format!("ALLOT.CLOCK {REALM} RESET"));
    is_trimmed();
    no_internal_errors(&server);
}

#[test]
fn deadlines_that_the_clock_has_jumped_over_expire() {
    let server = RedisServer::builder().own_clock().start();
    create(&server, "show", &sample_venue(2, 5));
    hold(&mut server.raw(), "show", "ann", 1, 1_800_000, "t");
    // Nobody calls meanwhile, so only the timer can see it.
    server.shift_clock(3600);
    eventually("the hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 1);
    no_internal_errors(&server);
}

/// Redis 7.0 computes in an `int` for how many microseconds it may sleep when a timer has fired and another is set. After
/// an overflow, its event loop does not sleep at all.
#[test]
fn server_sleeps_while_the_next_deadline_is_an_hour_away() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    let mut client = server.raw();
    hold(&mut client, "show", "ann", 1, LONG_TTL_MS, "long");
    hold(&mut client, "show", "bob", 1, 40, "short");
    eventually("the short hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 1);
    let slept = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = slept();
    eventually("the server to sleep ten times", TIMEOUT, || slept() >= before + 10);
}
