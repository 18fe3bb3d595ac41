//! What only books of accounts promise when a master fails.

use std::collections::BTreeSet;

use allot_core::shared::codec::LAST_COUNT;
use allot_core::shared::codec::Writer;
use allot_tests::RedisServer;
use allot_tests::books::{BOOK, Book};
use allot_tests::damage::Dump;
use allot_tests::raw::{RawClient, Reply};
use allot_tests::shows::no_internal_errors;

#[test]
fn a_failover_gives_no_epoch_out_twice_and_ends_the_logins_that_it_forgot() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    new.replica_of(&old);
    let mut book = Book::create(&old, 1);
    book.add("m", 0..20);
    book.ok("ATTACH m a");
    let login = |book: &mut Book, number: usize| {
        book.ok(&format!("LOGIN p{number} a t TTL 3600000")).field("epoch").int()
    };
    let mut epochs: Vec<i64> = (0..10).map(|number| login(&mut book, number)).collect();
    old.wait_offset_equal(&new);
    new.command("REPLICAOF 127.0.0.1 1");
    let forgotten: Vec<i64> = (0..10).map(|number| login(&mut book, number)).collect();
    old.pause();
    new.command("REPLICAOF NO ONE");
    let mut book = Book::of(&new);
    for (number, epoch) in forgotten.iter().enumerate() {
        assert_eq!(
            book.code(&format!("USE p{number} {epoch}")),
            "STALE",
            "who has what is forgotten is told so"
        );
        epochs.push(login(&mut book, number));
    }
    epochs.extend(&forgotten);
    assert_eq!(epochs.iter().collect::<BTreeSet<_>>().len(), epochs.len(), "an epoch was given out twice");
    old.resume();
    old.replica_of(&new);
    assert_eq!(old.digest_value(BOOK), new.digest_value(BOOK));
    no_internal_errors(&new);
}

/// A book with one module and one instance, whose count of arrivals is the highest that a snapshot may have.
fn book_at_its_last_arrival(client: &mut RawClient) -> Vec<u8> {
    for line in ["ACCOUNT.BOOK book", "ACCOUNT.MODULE book m DEPARTMENT d INSTANCES 2 SHARE PRESENT"] {
        assert!(!matches!(client.words(line), Reply::Error(_)), "{line}");
    }
    let dump = Dump::of(client, "book");
    let book = allot_core::account::Book::decode(&dump.value).expect("a book");
    assert_eq!(book.encode(), dump.value);
    // After the arrivals come the numbers of lines of the ledger, of deleted accounts and of modules, each of one byte,
    // and then the module's name.
    let name = dump.value.windows(2).position(|pair| pair == [1, b'm']).expect("the module's name");
    let mut writer = Writer { bytes: dump.value[..name - 4].to_vec() };
    writer.unsigned(LAST_COUNT);
    writer.bytes.extend_from_slice(&dump.value[name - 3..]);
    client.words("DEL book");
    dump.with(&writer.bytes)
}

#[test]
fn book_at_its_last_arrival_refuses_changes_and_is_loaded_again() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    let payload = book_at_its_last_arrival(&mut client);
    assert_eq!(client.call(&[&b"RESTORE"[..], b"book", b"0", &payload]), Reply::Simple("OK".into()));
    let refused = client.words("ACCOUNT.ATTACH book m a");
    assert!(refused.error().starts_with("ERR the number of arrivals of this key is"), "{refused:?}");
    assert_eq!(client.words("SAVE"), Reply::Simple("OK".into()));
    let before = server.digest();
    drop(client);
    server.restart();
    assert_eq!(server.digest(), before);
    assert_eq!(server.raw().words("DEL book"), Reply::Int(1));
    no_internal_errors(&server);
}
