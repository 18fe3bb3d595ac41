//! Caps, the rate, causes and quarantine on live servers: they end on time without any request, and they are the same after a
//! reload, a restart, a failover and a copy.

use allot_tests::pools::{fill, number, pool_info};
use allot_tests::raw::RawClient;
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

const POOL: &str = "pool";
const NUMBERS: usize = 4;

#[track_caller]
fn ok(client: &mut RawClient, line: &str) -> Reply {
    let reply = client.words(line);
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    reply
}

/// A call of a number that ends at once, with a cause or without.
fn call(client: &mut RawClient, key: &str, number: &str, cause: Option<&str>) {
    ok(client, &format!("NUMPOOL.CALL {key} {number}"));
    let cause = cause.map(|word| format!(" CAUSE {word}")).unwrap_or_default();
    assert_eq!(ok(client, &format!("NUMPOOL.HANGUP {key} {number}{cause}")), Reply::Int(1));
}

/// A pool in which the number 0 has reached a cap, the number 1 is in quarantine, one more call that ends busy sends the
/// number 2 into quarantine, and the number 3 can be called once more. Two more calls reach the rate.
fn restricted_pool(client: &mut RawClient) {
    fill(client, POOL, NUMBERS);
    for line in [
        "NUMPOOL.CONFIG pool CAPS 2 600000 2 3600000 5 RATE 7 600000 DAYSTART 0 316224000000",
        "NUMPOOL.CAPS pool 13800000003 2 DAY 2 600000 5",
        "NUMPOOL.CAUSE pool spam COOLDOWN 600000",
        "NUMPOOL.CAUSE pool busy COOLDOWN 600000 AFTER 2 WITHIN 600000",
    ] {
        ok(client, line);
    }
    for (place, cause) in
        [(0, None), (0, Some("gone")), (1, Some("spam")), (2, Some("busy")), (3, Some("gone"))]
    {
        call(client, POOL, &number(place), cause);
    }
}

/// What clients can see of the numbers and of the pool.
fn observed(client: &mut RawClient, key: &str) -> Vec<Reply> {
    let get = |client: &mut RawClient, place| client.call(&["NUMPOOL.GET", key, &number(place)]);
    let mut seen: Vec<Reply> = (0..NUMBERS).map(|place| get(client, place)).collect();
    assert!(seen[0].field("limit_until").int() > 0 && seen[1].field("quarantine_until").int() > 0);
    seen.push(client.call(&["NUMPOOL.INFO", key]));
    seen.push(client.call(&["NUMPOOL.SCAN", key, "0", "COUNT", "100", "STATE", "quarantined"]));
    seen
}

/// Calls numbers of a restricted pool: what happened before counts.
#[track_caller]
fn restrictions_hold(server: &RedisServer, key: &str) {
    let mut client = server.raw();
    let refusal = |client: &mut RawClient, place| {
        client.call(&["NUMPOOL.CALL", key, &number(place)]).error().to_owned()
    };
    assert!(refusal(&mut client, 0).starts_with("LIMIT "));
    assert!(refusal(&mut client, 1).starts_with("BADSTATE "));
    call(&mut client, key, &number(2), Some("busy"));
    let record = client.call(&["NUMPOOL.GET", key, &number(2)]);
    assert!(record.field("quarantine_until").int() > 0, "the first busy call does not count any more");
    let record = client.call(&["NUMPOOL.CALL", key]);
    assert_eq!(record.field("number").text(), number(3));
    client.call(&["NUMPOOL.HANGUP", key, &number(3)]);
    assert!(refusal(&mut client, 3).starts_with("LIMIT "), "an earlier call does not count any more");
    assert!(client.call(&["NUMPOOL.CALL", key]).is_null());
    let until = client.call(&["NUMPOOL.INFO", key]).field("rate_until").int();
    assert!(until > 0, "an earlier call does not count for the rate any more");
    assert_eq!((pool_info(&mut client, key, "limited"), pool_info(&mut client, key, "quarantined")), (2, 2));
    no_internal_errors(server);
}

#[test]
fn restrictions_survive_a_reload_and_a_restart() {
    let server = RedisServer::builder().arg("save", "3600 1").start();
    restricted_pool(&mut server.raw());
    let (before, digest) = (observed(&mut server.raw(), POOL), server.digest_value(POOL));
    server.command("DEBUG RELOAD");
    assert_eq!(
        (observed(&mut server.raw(), POOL), server.digest_value(POOL)),
        (before.clone(), digest.clone())
    );
    server.shutdown();
    server.restart();
    assert_eq!((observed(&mut server.raw(), POOL), server.digest_value(POOL)), (before, digest));
    restrictions_hold(&server, POOL);
}

#[test]
fn restrictions_survive_in_the_append_only_file() {
    for (preamble, is_rewritten) in [("no", false), ("no", true), ("yes", true)] {
        let server = RedisServer::builder()
            .arg("appendonly", "yes")
            .arg("appendfsync", "always")
            .arg("aof-use-rdb-preamble", preamble)
            .start();
        restricted_pool(&mut server.raw());
        if is_rewritten {
            server.command("BGREWRITEAOF");
            eventually("the rewrite to end", TIMEOUT, || {
                let info = server.info("persistence");
                info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
            });
        }
        let (before, digest) = (observed(&mut server.raw(), POOL), server.digest_value(POOL));
        server.kill9();
        server.restart();
        assert_eq!(observed(&mut server.raw(), POOL), before, "preamble {preamble}, {is_rewritten}");
        assert_eq!(server.digest_value(POOL), digest, "preamble {preamble}, {is_rewritten}");
        restrictions_hold(&server, POOL);
    }
}

#[test]
fn restrictions_hold_at_a_promoted_replica() {
    let (master, replica, late) =
        (RedisServer::start(), RedisServer::strict().start(), RedisServer::strict().start());
    replica.replica_of(&master);
    restricted_pool(&mut master.raw());
    late.replica_of(&master);
    let before = observed(&mut master.raw(), POOL);
    for follower in [&replica, &late] {
        master.wait_offset_equal(follower);
        assert_eq!(follower.digest(), master.digest());
        assert_eq!(observed(&mut follower.raw(), POOL), before);
        assert_eq!(follower.command("REPLICAOF NO ONE"), redis::Value::Okay);
        restrictions_hold(follower, POOL);
    }
    restrictions_hold(&master, POOL);
}

#[test]
fn restrictions_go_with_a_copy_and_a_dump() {
    let server = RedisServer::start();
    let mut client = server.raw();
    restricted_pool(&mut client);
    let before = observed(&mut client, POOL);
    let Reply::Bulk(dump) = client.words("DUMP pool") else { panic!("no dump") };
    let restore: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", &dump];
    assert_eq!(client.call(&restore), Reply::Simple("OK".into()));
    assert_eq!(client.words("COPY pool copied"), Reply::Int(1));
    for key in ["restored", "copied"] {
        assert_eq!(observed(&mut client, key), before, "{key}");
        restrictions_hold(&server, key);
    }
    restrictions_hold(&server, POOL);
}

/// When the live call of the pool began, by the clock of the server.
fn began_at(client: &mut RawClient) -> i64 {
    let leases = client.words("NUMPOOL.LEASES pool COUNT 100");
    leases.array()[1].array()[0].field("since").int()
}

/// The machine may be busy, so it is enough that one of many is on time: a timer that is late never is.
#[track_caller]
fn are_on_time(late: &[i64]) {
    assert!(late.iter().all(|&late| late >= 0), "one was early: {late:?}");
    assert!(late.iter().any(|&late| late <= 100), "all were late: {late:?}");
}

#[test]
fn number_with_a_cap_is_called_again_as_soon_as_its_window_has_passed() {
    const WINDOW: i64 = 60;
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, POOL, 1);
    ok(&mut client, &format!("NUMPOOL.CONFIG pool CAPS 1 {WINDOW} 1"));
    ok(&mut client, "NUMPOOL.CALL pool");
    let mut late = Vec::new();
    for _ in 0..10 {
        let before = began_at(&mut client);
        assert_eq!(client.call(&["NUMPOOL.HANGUP", POOL, &number(0)]), Reply::Int(1));
        // A registration of the number does not shorten its rest.
        client.call(&["NUMPOOL.UNREG", POOL, &number(0)]);
        client.call(&["NUMPOOL.REG", POOL, &number(0)]);
        assert_eq!(ok(&mut client, "NUMPOOL.CALL pool WAIT 60000").field("number").text(), number(0));
        late.push(began_at(&mut client) - before - WINDOW);
    }
    are_on_time(&late);
    no_internal_errors(&server);
}

#[test]
fn number_is_warmed_up_by_caps_of_its_own_until_the_day_is_over() {
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, POOL, 2);
    // A day of the server's clock that ends soon.
    let time = client.words("TIME");
    let now: i64 = time.array()[0].text().parse::<i64>().unwrap() * 1000;
    ok(&mut client, "NUMPOOL.CONFIG pool CAPS 1 600000 9");
    for line in [
        "NUMPOOL.CAPS pool 13800000000 1 DAY 1".into(),
        format!("NUMPOOL.CONFIG pool DAYSTART {now} 3600000"),
    ] {
        ok(&mut client, &line);
    }
    call(&mut client, POOL, &number(0), None);
    let until = client.call(&["NUMPOOL.GET", POOL, &number(0)]);
    assert_eq!(until.field("limit_until").int(), now + 3_600_000);
    let caps = until.field("caps");
    assert!(caps.array()[0].field("window").is_null(), "{caps:?}");
    assert!(client.call(&["NUMPOOL.CALL", POOL, &number(0)]).error().starts_with("LIMIT "));
    call(&mut client, POOL, &number(1), None);
    call(&mut client, POOL, &number(1), None);
    // The operator moves the days, so that the next one begins at once.
    let soon = now + 3_000;
    ok(&mut client, &format!("NUMPOOL.CONFIG pool DAYSTART {soon} 3600000"));
    let reply = client.call(&["NUMPOOL.CALL", POOL, &number(0), "WAIT", "60000"]);
    assert_eq!(reply.field("number").text(), number(0));
    assert!(began_at(&mut client) >= soon);
    for (line, why) in [
        ("NUMPOOL.CAPS pool 99 1 DAY 5", "NOTFOUND"),
        ("NUMPOOL.CAPS pool 13800000000 2 DAY 5", "ERR"),
        ("NUMPOOL.CAPS pool 13800000000 1 0 5", "ERR CAPS: a window is 1 ms or more"),
        ("NUMPOOL.CAPS pool 13800000000 1 week 5", "ERR CAPS takes whole numbers"),
        ("NUMPOOL.CAPS pool 13800000000 1 DAY 10001", "ERR CAPS: a window is"),
        ("NUMPOOL.CONFIG pool DAYSTART 0 0", "ERR DAYSTART"),
        ("NUMPOOL.CONFIG pool RATE 5 DAY", "ERR"),
    ] {
        assert!(client.words(line).error().starts_with(why), "{line}");
    }
    no_internal_errors(&server);
}

#[test]
fn calls_beyond_the_rate_are_refused_or_wait_until_it_allows_them() {
    const WINDOW: i64 = 60;
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, POOL, NUMBERS);
    ok(&mut client, &format!("NUMPOOL.CONFIG pool RATE 1 {WINDOW}"));
    for line in ["MULTI", "NUMPOOL.CALL pool LEASE first", "NUMPOOL.CALL pool", "NUMPOOL.CALL pool WAIT 0"] {
        ok(&mut client, line);
    }
    let done = client.words("EXEC");
    assert!(done.array()[1].error().starts_with("LIMIT the pool "), "{done:?}");
    assert!(done.array()[2].is_null(), "a transaction waits: {done:?}");
    let mut before = began_at(&mut client);
    let mut late = Vec::new();
    for _ in 0..10 {
        ok(&mut client, "NUMPOOL.RECONCILE pool SWITCH sw0");
        ok(&mut client, "NUMPOOL.CALL pool WAIT 60000");
        let began = began_at(&mut client);
        late.push(began - before - WINDOW);
        before = began;
    }
    are_on_time(&late);
    // Of calls that wait, only the first may begin when a rate is set, and all when it is removed.
    let mut others = [server.raw(), server.raw()];
    ok(&mut client, "NUMPOOL.CONFIG pool RATE 1 600000");
    client.words("NUMPOOL.CALL pool");
    others.iter_mut().for_each(|other| other.send(&["NUMPOOL.CALL", "pool", "WAIT", "0"]));
    eventually("the calls to wait", TIMEOUT, || pool_info(&mut client, POOL, "waiting") == 2);
    ok(&mut client, "NUMPOOL.CONFIG pool RATE 0 0");
    others.iter_mut().for_each(|other| assert!(other.read().field("until").is_null()));
    for (line, why) in [
        ("NUMPOOL.CONFIG pool RATE 1", "ERR"),
        ("NUMPOOL.CONFIG pool RATE 1 0", "ERR RATE: a window is 1 to "),
        ("NUMPOOL.CONFIG pool RATE -1 50", "ERR RATE: a window has 1 to 10000 calls, not -1"),
        ("NUMPOOL.CONFIG pool RATE x 50", "ERR"),
    ] {
        assert!(client.words(line).error().starts_with(why), "{line}");
    }
    no_internal_errors(&server);
}

#[test]
fn quarantine_ends_by_itself_and_serves_a_call_that_waits() {
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, POOL, 1);
    ok(&mut client, "NUMPOOL.CAUSE pool spam COOLDOWN 60");
    let mut late = Vec::new();
    for _ in 0..10 {
        // The transaction shows the quarantine before it can end.
        for line in [
            "MULTI",
            "NUMPOOL.CALL pool",
            "NUMPOOL.HANGUP pool 13800000000 COOLDOWN 0 CAUSE spam",
            "NUMPOOL.GET pool 13800000000",
            "NUMPOOL.SCAN pool 0 STATE quarantined",
        ] {
            ok(&mut client, line);
        }
        let done = client.words("EXEC");
        let until = done.array()[2].field("quarantine_until").int();
        assert_eq!(done.array()[3].array()[1].array().len(), 1);
        assert_eq!(ok(&mut client, "NUMPOOL.CALL pool WAIT 60000").field("number").text(), number(0));
        late.push(began_at(&mut client) - until);
        client.call(&["NUMPOOL.HANGUP", POOL, &number(0)]);
    }
    are_on_time(&late);
    assert_eq!(pool_info(&mut client, POOL, "quarantined"), 0);
    no_internal_errors(&server);
}

#[test]
fn cause_with_a_count_sends_a_number_into_quarantine_at_that_count() {
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, POOL, 2);
    ok(&mut client, "NUMPOOL.CAUSE pool busy COOLDOWN 600000 AFTER 3 WITHIN 600000");
    let quarantined = |client: &mut RawClient| {
        let scan = ok(client, "NUMPOOL.SCAN pool 0 STATE quarantined");
        scan.array()[1].array().iter().map(Reply::text).collect::<Vec<_>>()
    };
    for round in 1..=3 {
        assert!(quarantined(&mut client).is_empty(), "round {round}");
        // Calls of another number, and ends with another cause, do not count.
        call(&mut client, POOL, &number(1), Some(if round == 1 { "busy" } else { "gone" }));
        call(&mut client, POOL, &number(0), Some("busy"));
    }
    assert_eq!(quarantined(&mut client), [number(0)]);
    let info = client.words("NUMPOOL.INFO pool");
    let causes = info.field("causes");
    let counts = causes.array().iter().map(|cause| (cause.field("cause").text(), cause.field("count").int()));
    assert_eq!(counts.collect::<Vec<_>>(), [("busy".into(), 4), ("gone".into(), 2)]);
    // Without the rule the quarantine goes on, and no further one begins.
    ok(&mut client, "NUMPOOL.CAUSE pool busy COOLDOWN 0");
    call(&mut client, POOL, &number(1), Some("busy"));
    assert_eq!(quarantined(&mut client), [number(0)]);
    no_internal_errors(&server);
}
