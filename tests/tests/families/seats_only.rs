//! What only shows promise: sales through scripts and functions, and the order of work when memory is full.

use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{create, hold, no_internal_errors, sample_venue};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

#[test]
fn show_is_sold_by_transactions_scripts_and_functions() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    create(&server, "show", &sample_venue(4, 10));
    let mut client = server.raw();
    for line in [
        "MULTI",
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN t",
        "SEAT.GET show a-1-1",
        "SEAT.CONFIRM show t",
        "SEAT.CONFIRM show none",
    ] {
        client.words(line);
    }
    let replies = client.words("EXEC");
    let replies = replies.array();
    assert_eq!(replies[0].field("token"), Reply::bulk("t"));
    assert_eq!(replies[1].field("state"), Reply::bulk("held"));
    assert_eq!(replies[2], Reply::Int(2));
    assert!(replies[3].error().starts_with("NOTFOUND "));

    let script = "local h = redis.call('SEAT.HOLD', KEYS[1], 'bob', 3, 'TTL', 60000)
        local null = redis.call('SEAT.HOLD', KEYS[1], 'bob', 99, 'TTL', 60000)
        local refused = redis.pcall('SEAT.CONFIRM', KEYS[1], 'none')
        return {redis.call('SEAT.CONFIRM', KEYS[1], h[2]), null == false, refused.err}";
    let reply = client.call(&["EVAL", script, "1", "show"]);
    assert_eq!(reply.array()[..2], [Reply::Int(3), Reply::Int(1)]);
    assert!(reply.array()[2].text().starts_with("NOTFOUND "), "{reply:?}");
    let read = "return redis.call('SEAT.HOLD', KEYS[1], 'u', 1, 'TTL', 5)";
    assert!(client.call(&["EVAL_RO", read, "1", "show"]).error().contains("Write commands are not allowed"));
    let library = "#!lua name=l
        redis.register_function('buy', function(keys, args)
          local h = redis.call('SEAT.HOLD', keys[1], args[1], args[2], 'TTL', 60000)
          return redis.call('SEAT.CONFIRM', keys[1], h[2], 'ORDER', args[1])
        end)
        redis.register_function{function_name='see', flags={'no-writes'}, callback=function(keys)
          redis.setresp(3)
          return redis.call('SEAT.STAT', keys[1])[1].map.sold
        end}";
    client.call(&["FUNCTION", "LOAD", library]);
    assert_eq!(client.words("FCALL buy 1 show cid 4"), Reply::Int(4));
    assert_eq!(client.words("FCALL_RO see 1 show"), Reply::Int(9));
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
    no_internal_errors(&server);
}

#[test]
fn full_memory_stops_new_holds_but_no_sale_and_no_release() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(4, 10));
    let mut client = server.raw();
    for token in ["a", "b", "c", "d"] {
        hold(&mut client, "show", "ann", 2, LONG_TTL_MS, token);
    }
    hold(&mut client, "show", "ann", 1, 1000, "short");
    client.words("SEAT.CONFIRM show d ORDER o");
    client.words("SEAT.BLOCK show 1 a-4-10");
    client.words("ZADD set 1 a 2 b");
    let sold = client.words("SEAT.ORDER show o").array()[0].text();
    client.words("CONFIG SET maxmemory 1");
    for line in [
        "SEAT.HOLD show bob 1 TTL 5",
        "SEAT.PICK show bob TTL 5 SEATS 1 a-4-1",
        "SEAT.BLOCK show 1 a-4-1",
        "SEAT.CREATE new {}",
        "SEAT.ALTER show {}",
    ] {
        assert!(client.words(line).error().starts_with("OOM "), "{line}");
    }
    assert!(matches!(client.words("SEAT.EXTEND show a TTL 60000"), Reply::Int(_)));
    for (line, count) in [
        ("SEAT.CONFIRM show a ORDER p", 2),
        ("SEAT.RELEASE show b", 2),
        ("SEAT.CONFIRM show c", 2),
        (&format!("SEAT.REFUND show ORDER o 1 {sold}"), 1),
        ("SEAT.UNBLOCK show 1 a-4-10", 1),
    ] {
        assert_eq!(client.words(line), Reply::Int(count), "{line}");
    }
    assert_eq!(client.words("SEAT.ZMPOP 1 set MIN ADJACENT COUNT 2").array()[0], Reply::bulk("set"));
    assert!(matches!(client.words("SEAT.STAT show"), Reply::Array(_)));
    eventually("the short hold to expire", TIMEOUT, || {
        client.words("SEAT.STAT show").array()[0].field("held") == Reply::Int(0)
    });
    no_internal_errors(&server);
}
