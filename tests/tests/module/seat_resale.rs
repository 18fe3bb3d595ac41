//! Sold seats that change places and hands on a live server, as its event stream tells it.

use allot_tests::shows::{create, no_internal_errors, sample_venue, with_events};
use allot_tests::{RedisServer, Reply};

/// Two rows of five seats; Ann has bought two seats of the first row.
fn show(server: &RedisServer) {
    create(server, "show", &with_events(&sample_venue(2, 5), 50));
    for line in
        ["SEAT.PICK show ann TTL 60000 TOKEN ann SEATS 2 a-1-1 a-1-2", "SEAT.CONFIRM show ann ORDER o1"]
    {
        server.raw().words(line);
    }
}

/// The last entries of the stream, without the tokens that the server has made.
fn last_entries(server: &RedisServer, count: usize) -> Vec<String> {
    let entries = server.raw().words(&format!("XREVRANGE show:evt + - COUNT {count}"));
    let fields =
        |entry: &Reply| -> Vec<String> { entry.array()[1].array().iter().map(Reply::text).collect() };
    let line = |fields: Vec<String>| {
        let pairs = fields.chunks(2).filter(|pair| pair[0] != "new-token").map(|pair| pair.join("="));
        pairs.collect::<Vec<_>>().join(" ")
    };
    entries.array().iter().rev().map(|entry| line(fields(entry))).collect()
}

#[test]
fn move_and_transfer_keep_order_and_are_told_in_the_stream() {
    let server = RedisServer::start();
    show(&server);
    let mut client = server.raw();
    assert_eq!(client.words("SEAT.MOVE show 2 a-1-1 a-1-2 a-1-2 a-1-4"), Reply::Int(2));
    assert_eq!(client.words("SEAT.TRANSFER show bob TO ORDER o2 ORDER o1 SEATS 1 a-1-4"), Reply::Int(1));
    assert_eq!(
        last_entries(&server, 2),
        [
            r#"event=moved token=ann user=ann order=o1 seats=["a-1-2","a-1-4"] from=["a-1-1","a-1-2"]"#,
            r#"event=transferred token=ann user=ann order=o1 seats=["a-1-4"] new-user=bob new-order=o2"#,
        ]
    );
    assert_eq!(client.words("SEAT.ORDER show o2").array(), [Reply::bulk("a-1-4")]);
    for (line, expected) in [
        ("SEAT.MOVE show 1 a-1-2 a-1-4", "BADSTATE seat 'a-1-4' is sold, not free"),
        ("SEAT.MOVE show 1 a-1-1 a-1-3", "BADSTATE seat 'a-1-1' is free, not sold"),
        ("SEAT.MOVE show 2 a-1-2 a-1-3", "ERR 'n': 2 rows are announced and 1 follow"),
        ("SEAT.TRANSFER show bob TO o2 SEATS 1 a-1-2", "ERR ORDER is missing"),
        ("SEAT.TRANSFER show bob SEATS 2 a-1-2 a-1-4", "ERR the seats are of several orders: name TO ORDER"),
        ("SEAT.REFUND show", "ERR name the seats to refund, or an ORDER"),
        ("SEAT.REFUND show ORDER o3", "NOTFOUND there is no order 'o3'"),
        ("SEAT.BLOCK show HOLD none", "NOTFOUND there is no hold 'none'; it may have expired"),
    ] {
        assert_eq!(client.words(line).error(), expected, "{line}");
    }
    no_internal_errors(&server);
}

#[test]
fn seats_that_go_into_a_block_are_offered_to_nobody() {
    let server = RedisServer::start();
    show(&server);
    let mut client = server.raw();
    client.words("SEAT.BLOCK show 3 a-1-3 a-1-4 a-1-5");
    client.words("SEAT.PICK show eve TTL 60000 TOKEN eve SEATS 5 a-2-1 a-2-2 a-2-3 a-2-4 a-2-5");
    client.words("SEAT.WAIT show bob 1 TTL 60000 OFFER 60000 TOKEN bob");
    assert_eq!(client.words("SEAT.REFUND show ORDER o1 INTO kept 1 a-1-1"), Reply::Int(1));
    assert_eq!(client.words("SEAT.RELEASE show eve SEATS 1 a-2-5 INTO kept"), Reply::Int(1));
    assert_eq!(client.words("SEAT.BLOCK show NAME kept HOLD eve"), Reply::Int(4));
    assert_eq!(client.words("SEAT.WAITING show bob").field("state"), Reply::bulk("waiting"));
    assert_eq!(
        last_entries(&server, 2),
        [
            r#"event=released token=eve user=eve seats=["a-2-1","a-2-2","a-2-3","a-2-4"]"#,
            r#"event=blocked seats=["a-2-1","a-2-2","a-2-3","a-2-4"] block=kept"#,
        ]
    );
    assert_eq!(client.words("SEAT.REFUND show ORDER o1"), Reply::Int(1));
    assert_eq!(client.words("SEAT.WAITING show bob").field("state"), Reply::bulk("offered"));
    no_internal_errors(&server);
}
