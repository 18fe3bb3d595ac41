//! What only books of accounts promise when a master fails.

use std::collections::BTreeSet;

use allot_tests::RedisServer;
use allot_tests::books::{BOOK, Book};
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
