//! The event stream of a book: what happens to accounts is written once, the same on a replica, and later if the stream
//! cannot be written.

use allot_tests::books::{BOOK, Book};
use allot_tests::raw::RawClient;
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

use crate::events::{entries, texts};

const STREAM: &str = "{allot}:accounts:evt";
/// How many messages wait for a stream that cannot be written.
const KEPT: usize = 65_536;

/// The entries of the stream, without epochs and deadlines.
fn told(client: &mut RawClient) -> Vec<String> {
    let changes = |field: &&str| !field.starts_with("epoch=") && !field.starts_with("until=");
    let stable = |text: String| text.split(' ').filter(changes).collect::<Vec<_>>().join(" ");
    texts(client, STREAM).into_iter().map(stable).collect()
}

#[test]
fn stream_tells_each_change_of_an_account_once() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    let mut book = Book::create(&server, 2);
    book.ok("MODULE n DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.ok("ATTACH n x");
    book.add("m", 0..3);
    book.ok("BOOK EVENTS 1000");
    book.ok("ATTACH m a");
    let epoch = book.ok("LOGIN p0 a t TTL 3600000").field("epoch").int();
    book.ok(&format!("USE p0 {epoch} COUNT 120"));
    // x has no account and gets one.
    let moves = book.ok("REBALANCE");
    assert_eq!(moves.array()[0].field("to_instance").text(), "x");
    book.ok("MOVE n 1 p0");
    book.ok(&format!("LOGOUT p0 {epoch}"));
    book.ok("FREEZE p0");
    // Instance b gets two of five accounts, and asks for one more when it is logged in with both.
    book.add("m", 3..6);
    book.ok("ATTACH m b");
    for terminal in ["t1", "t2"] {
        let account = book.ok("PICK m b").array()[0].field("account").text();
        book.ok(&format!("LOGIN {account} b {terminal} TTL 3600000"));
    }
    book.ok("PICK m b");
    let expected = [
        "assigned account=p0 module=m instance=a",
        "assigned account=p1 module=m instance=a",
        "assigned account=p2 module=m instance=a",
        "login account=p0 module=m instance=a terminal=t",
        "step account=p0 module=m instance=a step=1 used=120 cost=2",
        "moved account=p2 module=m instance=a to_module=n to_instance=x",
        "assigned account=p2 module=n instance=x",
        "moved account=p0 module=m instance=a to_module=n",
        "revoked account=p0 module=m instance=a",
        "logout account=p0 module=m instance=a terminal=t",
        "assigned account=p0 module=n instance=x",
        "frozen account=p0 module=n",
        "assigned account=p3 module=m instance=a",
        "assigned account=p4 module=m instance=a",
        "assigned account=p5 module=m instance=a",
        "assigned account=p5 module=m instance=b",
        "assigned account=p4 module=m instance=b",
        "login account=p5 module=m instance=b terminal=t1",
        "login account=p4 module=m instance=b terminal=t2",
        "moved account=p3 module=m instance=a to_module=m to_instance=b",
        "assigned account=p3 module=m instance=b",
    ];
    let expected = expected.map(|text| format!("event={text}"));
    assert_eq!(told(&mut book.client), expected);
    server.wait_offset_equal(&replica);
    assert_eq!(entries(&mut replica.raw(), STREAM), entries(&mut book.client, STREAM));
    assert_eq!(server.digest(), replica.digest());
    no_internal_errors(&server);
    no_internal_errors(&replica);
}

#[test]
fn messages_that_were_lost_are_replaced_by_a_resync() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    let mut book = Book::create(&server, 1);
    book.ok("BOOK EVENTS 1000000");
    book.client.words(&format!("SET {STREAM} in-the-way"));
    // Each of them is assigned: more messages than are kept.
    for batch in 0..18 {
        book.add("m", batch * 4000..(batch + 1) * 4000);
    }
    book.ok("ATTACH m a");
    eventually("all to be assigned", TIMEOUT, || book.total("assigned") == 72_000);
    assert!(allot_info(&server, "outbox_failures") >= 1);
    assert_eq!(book.client.words(&format!("GET {STREAM}")), Reply::bulk("in-the-way"));
    book.client.words(&format!("DEL {STREAM}"));
    eventually("the messages to come", TIMEOUT, || {
        book.client.words(&format!("XLEN {STREAM}")).int() >= KEPT as i64
    });
    let entries_there = texts(&mut book.client, STREAM);
    let lost = 72_000 - (KEPT - 1);
    assert_eq!((entries_there.len(), &*entries_there[0]), (KEPT, &*format!("event=RESYNC lost={lost}")));
    assert!(entries_there[1..].iter().all(|text| text.starts_with("event=assigned account=p")));
    // What happens next follows.
    book.ok("FREEZE p0");
    assert_eq!(told(&mut book.client).last().unwrap(), "event=frozen account=p0 module=m");
    server.wait_offset_equal(&replica);
    assert_eq!(entries(&mut replica.raw(), STREAM), entries(&mut book.client, STREAM));
    assert_eq!(server.digest_value(BOOK), replica.digest_value(BOOK));
    no_internal_errors(&server);
    no_internal_errors(&replica);
}
