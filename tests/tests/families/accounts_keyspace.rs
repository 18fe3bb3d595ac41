//! A book is a key like any other: copied, renamed and swapped with its deadlines, read on replicas, measured, counted, and
//! each of its changes told.

use allot_tests::books::{BOOK, Book};
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::usage::{quiet, usage_is_true, used};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// A book of ten accounts at two instances.
fn dealt(server: &RedisServer) -> Book {
    let mut book = Book::create(server, 2);
    book.add("m", 0..10);
    book.ok("ATTACH m a");
    book.ok("ATTACH m b");
    book
}

/// Some account of an instance.
fn one_of(book: &mut Book, instance: &str) -> String {
    book.ok(&format!("PICK m {instance}")).array()[0].field("account").text()
}

#[test]
fn what_is_copied_renamed_or_swapped_keeps_its_logins_and_their_deadlines() {
    let server = RedisServer::start();
    let mut book = dealt(&server);
    let account = one_of(&mut book, "a");
    let login = book.ok(&format!("LOGIN {account} a t TTL 4000"));
    let epoch = login.field("epoch").int();
    let mut client = server.raw();
    assert_eq!(client.words(&format!("COPY {BOOK} {{acme}}:twin")), Reply::Int(1));
    assert_eq!(allot_info(&server, "account_live_logins"), 2);
    // Each is its own from now on.
    assert_eq!(client.words(&format!("ACCOUNT.LOGOUT {{acme}}:twin {account} {epoch}")), Reply::Int(1));
    assert_eq!(book.ok(&format!("USE {account} {epoch}")).field("used").int(), 1);
    let there = |client: &mut allot_tests::raw::RawClient, key: &str| {
        client.words(&format!("ACCOUNT.INFO {key} ACCOUNT {account}")).field("used").int()
    };
    assert_eq!(there(&mut client, "{acme}:twin"), 0);
    client.words(&format!("RENAME {BOOK} {{acme}}:other"));
    assert_eq!(there(&mut client, "{acme}:other"), 1);
    client.words("SWAPDB 0 5");
    client.words("SELECT 5");
    assert_eq!(there(&mut client, "{acme}:other"), 1);
    // Nobody calls: the timer finds it under its other name, in the other database.
    eventually("the login to lapse", TIMEOUT, || allot_info(&server, "account_lapsed") == 1);
    assert_eq!(allot_info(&server, "account_live_logins"), 0);
    no_internal_errors(&server);
}

#[test]
fn a_read_only_replica_answers_reads_and_refuses_the_rest() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    let mut book = dealt(&server);
    replica.replica_of(&server);
    let account = one_of(&mut book, "a");
    let epoch = book.ok(&format!("LOGIN {account} a t TTL 600000")).field("epoch").int();
    book.ok(&format!("USE {account} {epoch} COUNT 120"));
    server.wait_offset_equal(&replica);
    let mut there = Book::of(&replica);
    for line in [
        "INFO",
        "INFO MODULE m",
        &format!("INFO ACCOUNT {account}"),
        "LIST",
        "USAGE BY account",
        &format!("HISTORY {account}"),
        "PICK m b COUNT 3",
    ] {
        assert_eq!(there.ok(line), book.ok(line), "{line}");
    }
    // What is projected depends on the moment.
    for line in ["USAGE", "USAGE BY module"] {
        assert_eq!(there.ok(line).array()[1].array().len(), 1, "{line}");
    }
    for line in [
        "ATTACH m c",
        "DETACH m a",
        "ADD m QUOTA 1 ACCOUNTS 1 x",
        "DEL 1 p0",
        "FREEZE p0",
        &format!("LOGIN {account} a t TTL 1000"),
        &format!("RENEW {account} {epoch} TTL 1000"),
        &format!("LOGOUT {account} {epoch}"),
        &format!("USE {account} {epoch}"),
        "REBALANCE",
        "TERM 1 l",
    ] {
        assert_eq!(there.code(line), "READONLY", "{line}");
    }
}

#[test]
fn memory_usage_of_a_book_is_true_within_a_fifth() {
    const COUNT: usize = 200_000;
    let server = quiet();
    let before = used(&server);
    let mut book = Book::create(&server, 10);
    for first in (0..COUNT).step_by(1000) {
        book.add("m", first..first + 1000);
    }
    for instance in ["a", "b", "c"] {
        book.ok(&format!("ATTACH m {instance}"));
    }
    eventually("all to be dealt", TIMEOUT, || book.total("dealt") == COUNT as i64);
    usage_is_true(&server, before, &[BOOK]);
}

#[test]
fn every_event_is_a_keyspace_notification_and_counts() {
    let server = RedisServer::start();
    let mut book = Book::of(&server);
    book.client.words("CONFIG SET notify-keyspace-events Ed$");
    let mut listener = server.raw();
    listener.words("PSUBSCRIBE __keyevent@0__:*");
    let mut ender = server.raw();
    // All up to a change of another kind.
    let mut heard = || {
        ender.words("SET end 1");
        let mut told = Vec::new();
        loop {
            let message = listener.read();
            let event = message.array()[2].text();
            let Some(event) = event.strip_prefix("__keyevent@0__:allot.account.") else { return told };
            assert_eq!(message.array()[3], Reply::bulk(BOOK));
            told.push(event.to_owned());
        }
    };
    for (line, events) in [
        ("BOOK CAP 5", vec!["book-opened"]),
        ("BOOK CAP 3", vec!["book-configured"]),
        ("TERM 1 l", vec!["claimed"]),
        ("MODULE m DEPARTMENT d INSTANCES 1", vec!["module-defined"]),
        ("ATTACH m a", vec!["attached"]),
        ("ADD m QUOTA 2 ACCOUNTS 2 p q", vec!["added", "dealt"]),
        ("ATTACH m b", vec!["attached"]),
        ("FREEZE q", vec!["frozen"]),
        ("FREEZE q OFF", vec!["thawed", "dealt"]),
        ("DEL 1 q", vec!["deleted"]),
    ] {
        book.ok(line);
        assert_eq!(heard(), events, "{line}");
    }
    let epoch = book.ok("LOGIN p a t TTL 600000").field("epoch").int();
    book.ok(&format!("RENEW p {epoch} TTL 600000"));
    book.ok(&format!("USE p {epoch} COUNT 3"));
    assert_eq!(book.code(&format!("USE p {epoch}")), "LIMIT");
    assert_eq!(heard(), ["login", "renewed", "used"]);
    book.ok("MODULE n DEPARTMENT d INSTANCES 1");
    book.ok("MOVE n 1 p");
    book.ok(&format!("LOGOUT p {epoch}"));
    assert_eq!(book.code(&format!("LOGOUT p {epoch}")), "OK", "a late one changes nothing");
    assert_eq!(book.code(&format!("USE p {epoch}")), "STALE");
    for (field, value) in [
        ("account_logins", 1),
        ("account_used", 3),
        ("account_capped", 1),
        ("account_stale", 1),
        ("account_refused", 2),
        ("account_lapsed", 0),
        ("account_live_logins", 0),
    ] {
        assert_eq!(allot_info(&server, field), value, "{field}");
    }
    assert!(allot_info(&server, "account_dealt") >= 2);
}
