//! Memory that is said to be used is used, and comes back; settings and what `INFO` says.

use allot_tests::raw::RawClient;
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{allot_info, create, hold, no_internal_errors, sample_venue};
use allot_tests::usage::{quiet, usage, usage_is_true, used};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Holds so many seats, ten at a time, and sells every second hold.
fn fill(client: &mut RawClient, key: &str, seats: usize) {
    for number in 0..seats / 10 {
        let (user, token) = (format!("user{number}"), format!("token{number}"));
        hold(client, key, &user, 10, LONG_TTL_MS, &token);
        if number % 2 == 0 {
            client.call(&["SEAT.CONFIRM", key, &token, "ORDER", &format!("order{number}")]);
        }
    }
}

#[test]
fn memory_usage_of_small_shows_is_true_within_a_fifth() {
    let server = quiet();
    let mut client = server.raw();
    create(&server, "warm", &sample_venue(20, 50));
    fill(&mut client, "warm", 100);
    let before = used(&server);
    let keys: Vec<String> = (0..200).map(|number| format!("show{number}")).collect();
    for key in &keys {
        create(&server, key, &sample_venue(20, 50));
    }
    usage_is_true(&server, before, &keys);
    for key in &keys {
        fill(&mut client, key, 200);
    }
    usage_is_true(&server, before, &keys);
}

#[test]
fn memory_usage_of_a_big_show_is_true_within_a_fifth() {
    let server = quiet();
    let mut client = server.raw();
    create(&server, "warm", &sample_venue(20, 50));
    fill(&mut client, "warm", 100);
    let before = used(&server);
    let keys = ["show".to_owned()];
    create(&server, "show", &sample_venue(1000, 100));
    usage_is_true(&server, before, &keys);
    assert!(usage(&mut client, "show") <= 8 * 100_000, "more than 8 bytes a seat");
    fill(&mut client, "show", 20_000);
    usage_is_true(&server, before, &keys);
    // All of it comes back, and a show of this size is freed in the background.
    client.words("UNLINK show");
    eventually("the memory to come back", TIMEOUT, || used(&server) - before < 200_000);
    assert_ne!(server.info_field("memory", "lazyfreed_objects"), "0");
    assert_eq!(allot_info(&server, "seat_live_holds"), 5);
    no_internal_errors(&server);
}

#[test]
fn shows_that_come_and_go_leave_no_memory_behind() {
    let server = quiet();
    let mut client = server.raw();
    let mut round = |key: &str| {
        create(&server, key, &sample_venue(20, 50));
        fill(&mut client, key, 300);
        for line in ["COPY show copy", "RENAME copy other", "DEBUG RELOAD", "UNLINK show", "DEL other"] {
            client.words(line);
        }
    };
    (0..3).for_each(|_| round("show"));
    let before = used(&server);
    (0..60).for_each(|_| round("show"));
    eventually("the memory to be what it was", TIMEOUT, || used(&server) - before < 100_000);
    assert_eq!(server.command("DBSIZE"), redis::Value::Int(0));
}

#[test]
fn active_defragmentation_does_no_harm() {
    let server = RedisServer::start();
    let mut client = server.raw();
    if let Reply::Error(why) = client.words("CONFIG SET activedefrag yes") {
        eprintln!("SKIPPED: this server cannot defragment: {why}");
        return;
    }
    for line in [
        "CONFIG SET active-defrag-ignore-bytes 1",
        "CONFIG SET active-defrag-threshold-lower 0",
        "CONFIG SET active-defrag-cycle-min 50",
        "CONFIG SET hz 100",
    ] {
        client.words(line);
    }
    for number in 0..300 {
        create(&server, &format!("show{number}"), &sample_venue(10, 20));
        fill(&mut client, &format!("show{number}"), 50);
    }
    let digests: Vec<String> =
        (0..300).step_by(2).map(|n| server.digest_value(&format!("show{n}"))).collect();
    (1..300).step_by(2).for_each(|number| drop(client.words(&format!("DEL show{number}"))));
    eventually("the defragmenter to have looked", TIMEOUT, || {
        let stats = server.info("stats");
        stats["active_defrag_key_misses"] != "0" || stats["active_defrag_key_hits"] != "0"
    });
    let after: Vec<String> = (0..300).step_by(2).map(|n| server.digest_value(&format!("show{n}"))).collect();
    assert_eq!(digests, after);
    assert_eq!(client.words("SEAT.RELEASE show0 token1"), Reply::Int(10));
    no_internal_errors(&server);
}

fn setting(client: &mut RawClient, name: &str) -> String {
    client.call(&["CONFIG", "GET", name]).array()[1].text()
}

#[test]
fn settings_are_read_and_set_and_hold_for_the_next_command() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 50));
    let mut client = server.raw();
    let all = client.words("CONFIG GET allot.*");
    let mut names: Vec<String> = all.array().chunks(2).map(|pair| pair[0].text()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "allot.account-max-ttl",
            "allot.conf-stream-age",
            "allot.max-clock-lead",
            "allot.numpool-max-ttl",
            "allot.seat-max-count",
            "allot.seat-max-ttl",
            "allot.timer-slice"
        ]
    );
    assert_eq!(setting(&mut client, "allot.seat-max-count"), "500");
    assert_eq!(
        client.words("CONFIG SET allot.seat-max-count 3 allot.seat-max-ttl 1000"),
        Reply::Simple("OK".into())
    );
    assert_eq!(
        client.words("SEAT.HOLD show ann 4 TTL 10").error(),
        "ERR count must be 1 to 3 (allot.seat-max-count), not 4"
    );
    assert_eq!(
        client.words("SEAT.HOLD show ann 3 TTL 1001").error(),
        "ERR TTL must be 1 to 1000 ms (allot.seat-max-ttl), not 1001"
    );
    assert!(matches!(client.words("SEAT.HOLD show ann 3 TTL 1000"), Reply::Array(_)));
    for bad in
        ["seat-max-count 0", "seat-max-count 501", "seat-max-count x", "seat-max-ttl 0", "timer-slice 0"]
    {
        assert!(matches!(client.words(&format!("CONFIG SET allot.{bad}")), Reply::Error(_)), "{bad}");
    }
    assert_eq!(setting(&mut client, "allot.seat-max-count"), "3");
    assert!(matches!(client.words("CONFIG SET allot.none 1"), Reply::Error(_)));
}

#[test]
fn bad_arguments_of_loadmodule_stop_the_module_from_loading() {
    let server =
        RedisServer::builder().module_arg("seat-max-count 7").module_arg("allot.timer-slice 9").start();
    let mut client = server.raw();
    assert_eq!(setting(&mut client, "allot.seat-max-count"), "7");
    assert_eq!(setting(&mut client, "allot.timer-slice"), "9");
    for (argument, why) in [
        (
            "colour 3",
            "there is no setting 'colour'; there are: seat-max-count, seat-max-ttl, numpool-max-ttl, account-max-ttl, \
             conf-stream-age, max-clock-lead, timer-slice",
        ),
        ("seat-max-count 0", "'seat-max-count' takes a whole number from 1 to 500"),
        ("seat-max-count many", "'seat-max-count' takes a whole number from 1 to 500"),
        ("seat-max-count", "names and values come by turns, and the last value is missing"),
    ] {
        let failed = std::panic::catch_unwind(|| {
            RedisServer::builder().module_arg(argument).start();
        });
        let message = *failed.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains(&format!("allot: loadmodule arguments: {why}")), "{argument}: {message}");
    }
}

#[test]
fn info_counts_what_happens_and_what_is() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 10));
    let mut client = server.raw();
    for line in [
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN a",
        "SEAT.PICK show bob TTL 60000 TOKEN b SEATS 1 a-2-1",
        "SEAT.HOLD show cid 1 TTL 60000 TOKEN c",
        "SEAT.HOLD show dan 1 TTL 60000 TOKEN d",
        "SEAT.CONFIRM show a",
        "SEAT.RELEASE show b",
        "SEAT.REFUND show 1 a-1-1",
        "SEAT.HOLD show ann 100 TTL 1000",
        "SEAT.HOLD show ann 1 TTL 1000 TIER x",
        "SEAT.CONFIRM show none",
        "SEAT.HOLD show eve 1 TTL 20 TOKEN e",
        "SEAT.WAIT show fay 1 TTL 60000 OFFER 60000 TOKEN f",
        "SEAT.WAIT show gus 20 TTL 60000 OFFER 60000 TOKEN g",
        "SEAT.WAIT show hal 20 TTL 60000 OFFER 60000 TOKEN h",
        "SEAT.WAIT show ivy 20 TTL 20 OFFER 60000 TOKEN i",
        "SEAT.UNWAIT show h",
    ] {
        client.words(line);
    }
    eventually("the short hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 1);
    eventually("the short wait to expire", TIMEOUT, || allot_info(&server, "seat_unwaited") == 2);
    for (field, value) in [
        ("seat_held", 5),
        ("seat_confirmed", 1),
        ("seat_released", 1),
        ("seat_refunded", 1),
        ("seat_waited", 3),
        ("seat_offered", 1),
        ("seat_unwaited", 2),
        ("seat_sold_out", 1),
        ("seat_refused", 2),
        ("outbox_failures", 0),
        ("internal_errors", 0),
        ("seat_live_holds", 3),
        ("seat_waiting", 1),
        ("keys_waiting_for_timer", 1),
    ] {
        assert_eq!(allot_info(&server, field), value, "{field}");
    }
    let gauges = || (allot_info(&server, "seat_live_holds"), allot_info(&server, "seat_waiting"));
    client.words("DEBUG RELOAD");
    assert_eq!(gauges(), (3, 1));
    client.words("COPY show twin");
    assert_eq!(gauges(), (6, 2));
    client.words("FLUSHALL");
    eventually("the gauges to fall", TIMEOUT, || gauges() == (0, 0));
}
