//! Blocks with a name or an end on a live server: the timer ends them, replicas and files keep them.

use allot_tests::shows::{clock, create, no_internal_errors, sample_venue, state_of, with_events};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Names and values of the newest entry of the event stream.
fn newest_event(server: &RedisServer) -> Vec<String> {
    let entries = server.raw().words("XREVRANGE show:evt + - COUNT 1");
    entries.array()[0].array()[1].array().iter().map(Reply::text).collect()
}

/// The states of the seats of the block `press`.
fn states_of_press(server: &RedisServer) -> Vec<String> {
    let listed = server.raw().words("SEAT.LIST show SEATS BLOCK press");
    listed.field("items").array().iter().map(|seat| seat.field("state").text()).collect()
}

#[test]
fn user_is_limited_in_a_block_on_every_replica_and_after_a_reload() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let replica = RedisServer::start();
    create(&server, "show", &with_events(&sample_venue(1, 5), 50));
    replica.replica_of(&server);
    replica.wait_replica_synced();
    let mut client = server.raw();
    assert_eq!(client.words("SEAT.BLOCK show NAME press PERUSER 2 3 a-1-1 a-1-2 a-1-3"), Reply::Int(3));
    let event = newest_event(&server);
    assert_eq!(event[event.len() - 4..], ["block", "press", "per_user", "2"]);
    client.words("SEAT.HOLD show ann 1 TTL 600000 FROM press TOKEN ann");
    client.words("SEAT.CONFIRM show ann");
    let refused = "LIMIT user 'ann' may have 2 seats of block 'press' and has 1";
    assert_eq!(client.words("SEAT.HOLD show ann 2 TTL 600000 FROM press").error(), refused);
    for odd in ["PERUSER 2 1 a-1-4", "NAME press PERUSER -1 1 a-1-4", "NAME press PERUSER 20001 1 a-1-4"] {
        let reply = client.words(&format!("SEAT.BLOCK show {odd}"));
        assert!(reply.error().starts_with("ERR PERUSER"), "{odd}: {reply:?}");
    }
    let end = clock(&mut client) + 600_000;
    client.words(&format!("SEAT.BLOCK show UNTIL {end} 1 a-1-4"));
    let listed = |server: &RedisServer| server.raw().words("SEAT.BLOCKS show").array().to_vec();
    let blocks = listed(&server);
    let number = |place: usize, field| blocks[place].field(field).int();
    assert_eq!(blocks[0].field("block"), Reply::bulk("press"));
    assert_eq!((number(0, "seats"), number(0, "left"), number(0, "per_user")), (3, 2, 2));
    assert_eq!((number(1, "seats"), number(1, "until")), (1, end));
    assert!(blocks[0].field("until").is_null() && blocks[1].field("block").is_null());
    assert!(blocks[1].field("per_user").is_null());
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    assert_eq!(listed(&replica), blocks);
    for reload in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        client.words(reload);
        assert_eq!(listed(&server), blocks, "{reload}");
    }
    assert_eq!(client.words("SEAT.HOLD show ann 2 TTL 600000 FROM press").error(), refused);
    no_internal_errors(&server);
    no_internal_errors(&replica);
}

#[test]
fn block_ends_by_itself_and_replica_reload_and_append_only_file_agree() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let replica = RedisServer::start();
    create(&server, "show", &with_events(&sample_venue(2, 5), 50));
    replica.replica_of(&server);
    replica.wait_replica_synced();
    let mut client = server.raw();
    let end = clock(&mut client) + 1500;
    assert_eq!(client.words("SEAT.BLOCK show NAME press 3 a-1-1 a-1-2 a-1-3"), Reply::Int(3));
    assert_eq!(client.words(&format!("SEAT.BLOCK show UNTIL {end} 2 a-2-1 a-2-2")), Reply::Int(2));
    let held = client.words("SEAT.HOLD show ann 2 TTL 600000 FROM press TOKEN ann");
    assert_eq!(held.field("token"), Reply::bulk("ann"));
    client.words("SEAT.CONFIRM show ann ORDER o");
    client.words("SEAT.WAIT show bob 2 TTL 600000 OFFER 60000 FROM press TOKEN bob");
    let waiters = client.words("SEAT.LIST show WAITING");
    assert_eq!(waiters.field("items").array()[0].field("from"), Reply::bulk("press"));
    assert_eq!(states_of_press(&server), ["sold", "sold", "blocked"]);
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    // Nobody sends a command that changes the show.
    eventually("the block to end", TIMEOUT, || {
        newest_event(&server).ends_with(&["reason".into(), "expired".into()])
    });
    assert!(clock(&mut client) >= end, "it ended early");
    // The refunded seat is blocked again, and offered to the user who waits for seats of the block.
    assert_eq!(client.words("SEAT.REFUND show 1 a-1-1"), Reply::Int(1));
    assert_eq!(client.words("SEAT.HOLDS show bob").array().len(), 1);
    assert_eq!(client.words("SEAT.GET show a-1-1").field("block"), Reply::bulk("press"));
    server.wait_offset_equal(&replica);
    let digest = server.digest();
    assert_eq!(replica.digest(), digest);
    assert_eq!(state_of(&mut replica.raw(), "show", "a-2-2"), "free");
    assert_eq!(states_of_press(&replica), ["held", "sold", "held"]);
    for reload in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        client.words(reload);
        assert_eq!(server.digest(), digest, "{reload}");
        // The digest is that of a snapshot, and cannot tell what a snapshot leaves out.
        assert_eq!(states_of_press(&server), ["held", "sold", "held"], "{reload}");
    }
    assert_eq!(client.words("SEAT.UNBLOCK show NAME press"), Reply::Int(0));
    assert_eq!(newest_event(&server), ["event", "unblocked", "block", "press", "reason", "ended"]);
    no_internal_errors(&server);
    no_internal_errors(&replica);
}
