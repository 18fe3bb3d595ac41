//! Calls that wait for a number, on live servers: order, the ends of a wait, connections that die, failover.

use allot_tests::pools::{fill, number, pool_info, state_of};
use allot_tests::raw::RawClient;
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RedisServer, Reply, eventually, soak};

/// A pool of so many numbers, all of which carry calls; the token of a call is its number.
fn busy_pool(client: &mut RawClient, key: &str, count: usize) {
    fill(client, key, count);
    for place in 0..count {
        let number = number(place);
        client.call(&["NUMPOOL.CALL", key, &number, "LEASE", &number]);
    }
}

/// Sends a call that waits, and returns when it waits.
fn wait(server: &RedisServer, key: &str, line: &str) -> RawClient {
    let mut control = server.raw();
    let before = pool_info(&mut control, key, "waiting");
    let mut client = server.raw();
    send(&mut client, key, line);
    eventually("the call to wait", TIMEOUT, || pool_info(&mut control, key, "waiting") == before + 1);
    client
}

fn send(client: &mut RawClient, key: &str, line: &str) {
    let words: Vec<&str> = ["NUMPOOL.CALL", key].into_iter().chain(line.split_ascii_whitespace()).collect();
    client.send(&words);
}

fn is_idle(client: &mut RawClient, key: &str) -> bool {
    pool_info(client, key, "waiting") == 0
}

#[test]
fn waiting_calls_are_served_by_priority_and_then_in_their_order() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    let mut clients: Vec<RawClient> = [("a", 0), ("b", 5), ("c", 0), ("d", 5)]
        .map(|(token, priority)| {
            wait(&server, "pool", &format!("LEASE {token} WAIT 0 TTL 60000 PRIORITY {priority}"))
        })
        .into();
    for (at, token) in [(1, "b"), (3, "d"), (0, "a"), (2, "c")] {
        assert_eq!(control.words("NUMPOOL.HANGUP pool 13800000000"), Reply::Int(1));
        // The number has its next call before anybody else can ask for it.
        assert!(control.words("NUMPOOL.CALL pool").is_null());
        let reply = clients[at].read();
        assert_eq!((reply.field("number").text(), reply.field("lease").text()), (number(0), token.into()));
        assert!(reply.field("until").int() > 0);
        assert_eq!(clients[at].words("PING"), Reply::Simple("PONG".into()));
    }
    assert!(is_idle(&mut control, "pool"));
    no_internal_errors(&server);
}

#[test]
fn wait_ends_with_null_and_leaves_nothing_behind() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    let mut client = server.raw();
    assert!(client.words("NUMPOOL.CALL pool WAIT 30").is_null());
    assert!(client.words("NUMPOOL.CALL pool 13800000000 WAIT 30").is_null());
    client.hello3();
    assert!(client.words("NUMPOOL.CALL pool PREFIX 1 138 WAIT 30").is_null());
    assert_eq!(allot_info(&server, "numpool_none_free"), 3, "a wait that ends in vain counts");
    assert!(is_idle(&mut control, "pool"));
    control.words("NUMPOOL.HANGUP pool 13800000000");
    assert_eq!(state_of(&mut control, "pool", &number(0)), "idle+up");
    for (line, why) in [
        ("NUMPOOL.CALL pool WAIT -1", "ERR WAIT"),
        ("NUMPOOL.CALL pool WAIT x", "ERR"),
        ("NUMPOOL.CALL pool PRIORITY 1", "ERR PRIORITY"),
        ("NUMPOOL.CALL pool WAIT 5 PRIORITY 1000001", "ERR PRIORITY"),
        ("NUMPOOL.CALL pool 99 WAIT 5", "NOTFOUND"),
        ("NUMPOOL.CALL nopool WAIT 5", "NOKEY"),
    ] {
        assert!(client.words(line).error().starts_with(why), "{line}");
    }
    no_internal_errors(&server);
}

#[test]
fn call_tries_its_prefixes_in_their_order_and_waits_for_all_of_them() {
    let server = RedisServer::start();
    let mut control = server.raw();
    for line in ["NUMPOOL.ADD pool 331 441 442 491", "NUMPOOL.REG pool 331 441 442 491"] {
        control.words(line);
    }
    for number in ["441", "442", "331"] {
        let reply = control.words("NUMPOOL.CALL pool PREFIX 3 44 7 33");
        assert_eq!(reply.field("number").text(), number);
    }
    assert!(control.words("NUMPOOL.CALL pool PREFIX 3 44 7 33").is_null());
    let mut first = wait(&server, "pool", "PREFIX 2 33 44 WAIT 0");
    let mut second = wait(&server, "pool", "PREFIX 2 7 44 WAIT 0");
    assert_eq!(control.words("NUMPOOL.HANGUP pool 442"), Reply::Int(1));
    assert_eq!(first.read().field("number").text(), "442", "it came first");
    assert_eq!(control.words("NUMPOOL.HANGUP pool 331"), Reply::Int(1));
    assert_eq!(control.words("NUMPOOL.HANGUP pool 441"), Reply::Int(1));
    assert_eq!(second.read().field("number").text(), "441");
    assert!(is_idle(&mut control, "pool"));
    let seventeen = format!("NUMPOOL.CALL pool PREFIX 17{}", " 44".repeat(17));
    for (line, why) in [
        (&*seventeen, "ERR PREFIX takes at most 16 prefixes"),
        ("NUMPOOL.CALL pool PREFIX 2 44", "ERR"),
        ("NUMPOOL.CALL pool PREFIX 44", "ERR"),
        ("NUMPOOL.CALL pool PREFIX 0", "ERR"),
        ("NUMPOOL.CALL pool PREFIX 1 x", "ERR number 'x' is not"),
    ] {
        assert!(control.words(line).error().starts_with(why), "{line}");
    }
    no_internal_errors(&server);
}

#[test]
fn transactions_and_scripts_do_not_wait() {
    let server = RedisServer::start();
    let mut client = server.raw();
    busy_pool(&mut client, "pool", 1);
    client.words("MULTI");
    client.words("NUMPOOL.CALL pool WAIT 0");
    client.words("NUMPOOL.CALL pool 13800000000 WAIT 0");
    let replies = client.words("EXEC");
    assert!(replies.array().iter().all(Reply::is_null), "{replies:?}");
    let script = "return redis.call('NUMPOOL.CALL', KEYS[1], 'WAIT', 0)";
    assert!(client.call(&["EVAL", script, "1", "pool"]).is_null());
    assert!(is_idle(&mut client, "pool"));
    // A hangup inside of a transaction serves a waiter at once.
    let mut waiter = wait(&server, "pool", "WAIT 0");
    client.words("MULTI");
    client.words("NUMPOOL.HANGUP pool 13800000000");
    client.words("NUMPOOL.CALL pool");
    assert!(client.words("EXEC").array()[1].is_null());
    assert_eq!(waiter.read().field("number").text(), number(0));
    no_internal_errors(&server);
}

#[test]
fn waiting_client_can_be_unblocked_and_killed() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    let id = |client: &mut RawClient| client.words("CLIENT ID").int();
    for (how, check) in [("TIMEOUT", ""), ("ERROR", "UNBLOCKED")] {
        let mut client = server.raw();
        let id = id(&mut client);
        send(&mut client, "pool", "WAIT 0");
        eventually("the call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") == 1);
        assert_eq!(control.words(&format!("CLIENT UNBLOCK {id} {how}")), Reply::Int(1));
        let reply = client.read();
        assert!(
            if check.is_empty() { reply.is_null() } else { reply.error().starts_with(check) },
            "{reply:?}"
        );
        assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
        assert!(is_idle(&mut control, "pool"));
    }
    let mut client = server.raw();
    let id = id(&mut client);
    send(&mut client, "pool", "WAIT 0");
    eventually("the call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") == 1);
    control.words(&format!("CLIENT KILL ID {id}"));
    assert!(is_idle(&mut control, "pool"));
    assert_eq!(control.words("NUMPOOL.HANGUP pool 13800000000"), Reply::Int(1));
    assert_eq!(state_of(&mut control, "pool", &number(0)), "idle+up");
    no_internal_errors(&server);
}

#[test]
fn waiting_calls_are_told_when_their_key_goes() {
    let server = RedisServer::start();
    let mut control = server.raw();
    for line in [
        "DEL pool",
        "UNLINK pool",
        "RENAME pool other",
        "MOVE pool 3",
        "SET pool x",
        "PEXPIRE pool 1",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 0 5",
        "DEBUG RELOAD",
    ] {
        control.words("FLUSHALL");
        busy_pool(&mut control, "pool", 1);
        let mut first = wait(&server, "pool", "WAIT 0");
        let mut second = wait(&server, "pool", "13800000000 WAIT 0");
        control.words(line);
        for client in [&mut first, &mut second] {
            assert!(client.read().error().starts_with("UNBLOCKED "), "{line}");
            assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
        }
        for (db, key) in [(0, "other"), (3, "pool"), (5, "pool"), (0, "pool")] {
            control.words(&format!("SELECT {db}"));
            if !matches!(control.call(&["NUMPOOL.INFO", key]), Reply::Error(_)) {
                assert!(is_idle(&mut control, key), "{line}");
                control.call(&["NUMPOOL.HANGUP", key, &number(0)]);
                assert_eq!(state_of(&mut control, key, &number(0)), "idle+up", "{line}");
            }
        }
    }
    no_internal_errors(&server);
}

#[test]
fn role_change_unblocks_waiting_calls() {
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut control = master.raw();
    busy_pool(&mut control, "pool", 2);
    let mut client = wait(&master, "pool", "LEASE mine WAIT 0");
    let mut granted = wait(&master, "pool", "LEASE granted WAIT 0 PRIORITY 1");
    control.words("NUMPOOL.HANGUP pool 13800000001");
    assert_eq!(granted.read().field("number").text(), number(1));
    master.wait_offset_equal(&replica);
    assert_eq!(replica.command("REPLICAOF NO ONE"), redis::Value::Okay);
    master.replica_of(&replica);
    assert!(client.read().error().starts_with("UNBLOCKED "));
    // At the new master the granted lease is found again, and the other one waits again.
    let mut control = replica.raw();
    assert_eq!(control.words("NUMPOOL.CALL pool LEASE granted WAIT 0").field("number").text(), number(1));
    let mut client = wait(&replica, "pool", "LEASE mine WAIT 0");
    control.words("NUMPOOL.HANGUP pool 13800000000");
    assert_eq!(client.read().field("number").text(), number(0));
    replica.wait_offset_equal(&master);
    assert_eq!(master.digest(), replica.digest());
    no_internal_errors(&replica);
}

#[test]
fn calls_that_wait_get_numbers_that_come_back_by_themselves() {
    let server = RedisServer::start();
    let mut control = server.raw();
    fill(&mut control, "pool", 1);
    control.words("NUMPOOL.CALL pool TTL 40");
    let mut client = wait(&server, "pool", "WAIT 0 TTL 40");
    let mut second = wait(&server, "pool", "13800000000 WAIT 0 TTL 60000");
    assert_eq!(client.read().field("number").text(), number(0));
    assert_eq!(second.read().field("number").text(), number(0), "after the deadline of the first");
    control.words("NUMPOOL.HANGUP pool 13800000000 COOLDOWN 40");
    let mut third = wait(&server, "pool", "WAIT 0");
    assert_eq!(third.read().field("number").text(), number(0), "after the cool-down");
    let mut fourth = wait(&server, "pool", "WAIT 0");
    control.words("NUMPOOL.ADD pool 77");
    control.words("NUMPOOL.REG pool 77 SWITCH new");
    assert_eq!(fourth.read().field("number").text(), "77");
    let mut fifth = wait(&server, "pool", "77 WAIT 0");
    control.words("NUMPOOL.DEL pool 77");
    assert!(fifth.read().error().starts_with("NOTFOUND "));
    no_internal_errors(&server);
}

#[test]
fn retry_of_a_waiting_call_takes_its_place_and_finds_its_grant() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    let mut first = wait(&server, "pool", "LEASE mine WAIT 0 TTL 60000");
    let mut other = wait(&server, "pool", "LEASE other WAIT 0");
    let mut again = server.raw();
    send(&mut again, "pool", "LEASE mine WAIT 0 TTL 60000");
    assert!(first.read().error().starts_with("UNBLOCKED another call waits"));
    control.words("NUMPOOL.HANGUP pool 13800000000");
    let record = again.read();
    assert_eq!(record.field("lease").text(), "mine");
    assert_eq!(control.words("NUMPOOL.CALL pool LEASE mine WAIT 0"), record);
    control.words("NUMPOOL.HANGUP pool 13800000000");
    assert_eq!(other.read().field("lease").text(), "other");
    no_internal_errors(&server);
}

/// The server stands still while clients die, so that it hears of their ends and of a hangup at once.
#[test]
fn dead_connections_get_no_number() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    for round in 0..20 {
        let dead: Vec<RawClient> =
            (0..5).map(|at| wait(&server, "pool", &format!("LEASE dead{round}-{at} WAIT 0"))).collect();
        let mut alive = wait(&server, "pool", &format!("LEASE alive{round} WAIT 0"));
        server.pause();
        control.send(&["NUMPOOL.HANGUP", "pool", &number(0)]);
        drop(dead);
        server.resume();
        assert_eq!(control.read(), Reply::Int(1));
        assert_eq!(alive.read().field("lease").text(), format!("alive{round}"));
    }
    assert_eq!(allot_info(&server, "numpool_called"), 21, "no dead client was called for");
    no_internal_errors(&server);
}

/// The server may answer a client itself in the same turn in which the module grants it a number.
#[test]
fn client_that_is_unblocked_in_the_turn_of_its_grant_gets_one_answer() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    for how in ["ERROR", "TIMEOUT"] {
        let mut client = server.raw();
        let id = client.words("CLIENT ID").int();
        send(&mut client, "pool", "WAIT 0 LEASE mine");
        eventually("the call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") == 1);
        control.words("MULTI");
        control.words("NUMPOOL.HANGUP pool 13800000000");
        control.words(&format!("CLIENT UNBLOCK {id} {how}"));
        assert_eq!(control.words("EXEC"), Reply::Array(vec![Reply::Int(1), Reply::Int(1)]));
        let reply = client.read();
        assert_eq!(client.words("PING"), Reply::Simple("PONG".into()), "{how}: {reply:?}");
        let hangup = "NUMPOOL.HANGUP pool 13800000000 LEASE mine";
        if how == "ERROR" {
            assert!(reply.error().starts_with("UNBLOCKED"), "{reply:?}");
            assert_eq!(control.words(hangup), Reply::Int(0), "nobody knows of the grant");
        } else {
            assert_eq!(reply.field("lease").text(), "mine");
            assert_eq!(control.words(hangup), Reply::Int(1));
        }
        control.words("NUMPOOL.CALL pool 13800000000");
    }
    no_internal_errors(&server);
}

#[test]
fn retry_keeps_the_grant_of_a_connection_that_is_gone() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    let mut first = server.raw();
    let id = first.words("CLIENT ID").int();
    send(&mut first, "pool", "LEASE mine WAIT 0");
    eventually("the call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") == 1);
    let mut other = wait(&server, "pool", "LEASE other WAIT 0");
    control.words("MULTI");
    control.words("NUMPOOL.HANGUP pool 13800000000");
    control.words(&format!("CLIENT KILL ID {id}"));
    control.words("NUMPOOL.CALL pool LEASE mine");
    let done = control.words("EXEC");
    let replies = done.array();
    assert_eq!(replies[2].field("lease").text(), "mine");
    assert_eq!(pool_info(&mut control, "pool", "waiting"), 1);
    assert_eq!(control.words("NUMPOOL.CALL pool LEASE mine").field("number").text(), number(0));
    assert_eq!(control.words("NUMPOOL.HANGUP pool 13800000000 LEASE mine"), Reply::Int(1));
    assert_eq!(other.read().field("lease").text(), "other");
    no_internal_errors(&server);
}

/// A client that is killed in the same turn of the server in which it is granted a number never reads the answer.
#[test]
fn grant_to_a_client_that_is_killed_before_the_answer_is_taken_back() {
    let server = RedisServer::start();
    let mut control = server.raw();
    busy_pool(&mut control, "pool", 1);
    for round in 0..20 {
        let mut client = server.raw();
        let id = client.words("CLIENT ID").int();
        send(&mut client, "pool", "WAIT 0");
        eventually("the call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") == 1);
        let mut next = wait(&server, "pool", &format!("LEASE next{round} WAIT 0"));
        // In one transaction, so that the server does not send the answer between the two.
        control.words("MULTI");
        control.words("NUMPOOL.HANGUP pool 13800000000");
        control.words(&format!("CLIENT KILL ID {id}"));
        assert_eq!(control.words("EXEC"), Reply::Array(vec![Reply::Int(1), Reply::Int(1)]));
        assert_eq!(next.read().field("lease").text(), format!("next{round}"));
    }
    no_internal_errors(&server);
}

/// A grant that nobody hears of leaves no trace, even if its pool goes elsewhere before it is taken back.
#[test]
fn grant_that_is_taken_back_does_not_count_and_follows_its_pool() {
    for (line, db, key) in [
        ("PING", 0, "pool"),
        ("RENAME pool other", 0, "other"),
        ("MOVE pool 3", 3, "pool"),
        ("SWAPDB 0 5", 5, "pool"),
        ("SWAPDB 5 0", 5, "pool"),
    ] {
        let (server, replica) = (RedisServer::start(), RedisServer::strict().start());
        replica.replica_of(&server);
        let mut control = server.raw();
        busy_pool(&mut control, "pool", 1);
        control.words("NUMPOOL.CONFIG pool CAPS 1 600000 1");
        let mut client = server.raw();
        let id = client.words("CLIENT ID").int();
        send(&mut client, "pool", "WAIT 0");
        eventually("the call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") == 1);
        control.words("MULTI");
        control.words("NUMPOOL.HANGUP pool 13800000000");
        control.words(line);
        control.words(&format!("CLIENT KILL ID {id}"));
        let done = control.words("EXEC");
        assert!(done.array().iter().all(|reply| !matches!(reply, Reply::Error(_))), "{line}: {done:?}");
        control.words(&format!("SELECT {db}"));
        assert_eq!(state_of(&mut control, key, &number(0)), "idle+up", "{line}");
        assert_eq!(pool_info(&mut control, key, "limited"), 0, "{line}");
        server.wait_offset_equal(&replica);
        assert_eq!(server.digest(), replica.digest(), "{line}");
        assert_eq!(control.call(&["NUMPOOL.CALL", key]).field("number").text(), number(0), "{line}");
        control.call(&["NUMPOOL.HANGUP", key, &number(0)]);
        assert_eq!(pool_info(&mut control, key, "limited"), 1, "{line}");
        no_internal_errors(&server);
    }
}

/// Thousands of callers on few numbers, of which some give up or die: the others are served in their order, and every
/// number is in use at the end.
#[test]
fn thousands_of_waiting_calls_are_served_in_their_order() {
    let (callers, numbers) = (soak(2_000, 10_000), 100);
    let server = RedisServer::builder().arg("maxclients", "20000").start();
    let mut control = server.raw();
    busy_pool(&mut control, "{p}", numbers);
    control.words("NUMPOOL.CONFIG {p} EVENTS 100000");
    let mut random = Random::new(7);
    let mut waiting: Vec<(i64, usize, RawClient)> = Vec::new();
    for place in 0..callers {
        let mut client = server.raw();
        let priority = random.below(3) as i64;
        if random.once_in(20) {
            send(&mut client, "{p}", "WAIT 1 PRIORITY 9");
            assert!(client.read().is_null());
            continue;
        }
        send(&mut client, "{p}", &format!("LEASE {place} WAIT 0 PRIORITY {priority}"));
        waiting.push((priority, place, client));
        let expected = waiting.len() as i64;
        // It has arrived before the next one is sent.
        while pool_info(&mut control, "{p}", "waiting") != expected {}
    }
    waiting.retain(|_| !random.once_in(10));
    let expected = waiting.len() as i64;
    eventually("dead callers to leave", TIMEOUT, || pool_info(&mut control, "{p}", "waiting") == expected);
    waiting.sort_by_key(|&(priority, place, _)| (-priority, place));
    for (_, place, client) in &mut waiting {
        let number = number(random.below(numbers));
        assert_eq!(control.call(&["NUMPOOL.HANGUP", "{p}", &number]), Reply::Int(1));
        let record = client.read();
        assert_eq!(record.field("lease").text(), place.to_string(), "a later call was served before");
        assert_eq!(record.field("number").text(), number);
    }
    assert!(is_idle(&mut control, "{p}"));
    assert_eq!(pool_info(&mut control, "{p}", "busy_up"), numbers as i64);
    assert_eq!(pool_info(&mut control, "{p}", "leases"), numbers as i64);
    no_internal_errors(&server);
}

/// A registration of many numbers serves many waiters, in more than one step.
#[test]
fn numbers_that_come_up_together_serve_all_waiting_calls() {
    let server = RedisServer::start();
    let mut control = server.raw();
    control.words("NUMPOOL.CONFIG pool");
    let numbers: Vec<String> = (0..1500).map(number).collect();
    let words = |command: &'static str| {
        let numbers = numbers.iter().map(String::as_str);
        [command, "pool"].into_iter().chain(numbers).collect::<Vec<&str>>()
    };
    control.call(&words("NUMPOOL.ADD"));
    let mut clients: Vec<RawClient> = Vec::new();
    for place in 0..1200 {
        let mut client = server.raw();
        send(&mut client, "pool", &format!("LEASE {place} WAIT 0"));
        clients.push(client);
        while pool_info(&mut control, "pool", "waiting") != place + 1 {}
    }
    control.send(&words("NUMPOOL.REG"));
    control.send(&["NUMPOOL.CALL", "pool", "WAIT", "0", "LEASE", "late"]);
    assert_eq!(control.read(), Reply::Int(1500));
    assert_eq!(control.read().field("number").text(), number(1200), "after all that came before");
    for (place, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read().field("number").text(), number(place));
    }
    no_internal_errors(&server);
}
