//! What follows a book: its stream of events alone makes its very bytes; replicas, reloads and append-only files hold
//! what their master holds; a failover gives no epoch out twice and leaves no two logins live.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use std::collections::BTreeSet;

use allot_core::account::{Book as State, Event};
use allot_core::shared::codec::Reader;
use allot_core::shared::machine::MachineEvent;
use allot_tests::books::{BOOK, Book, BookStorm};
use allot_tests::shows::no_internal_errors;
use allot_tests::stream::readable;
use allot_tests::wait::GENEROUS;
use allot_tests::{RedisServer, ReplicationStream, Reply, eventually, soak};

/// Waits until nothing happens by itself any more.
fn settled(server: &RedisServer) {
    let mut book = Book::of(server);
    eventually("all to be dealt, and no login to be short", GENEROUS, || {
        let digest = || {
            std::thread::sleep(std::time::Duration::from_millis(150));
            server.digest_value(BOOK)
        };
        // A server that was kept waiting answers once more before its timer comes.
        let first = digest();
        book.total("accounts") >= 0 && first == digest() && first == digest()
    });
}

fn storm(server: &RedisServer, seed: u64, steps: usize) {
    Book::create(server, 2).ok("MODULE n DEPARTMENT d INSTANCES 2");
    BookStorm::new(server, seed).run(steps);
}

#[test]
fn the_stream_alone_makes_the_very_bytes_of_the_master() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut stream = ReplicationStream::attach(&server);
    storm(&server, 91, soak(1500, 15_000));
    settled(&server);
    let mut state: Option<State> = None;
    let mut dealt = 0;
    for command in stream.drain() {
        if matches!(&command[0][..], b"MULTI" | b"EXEC") {
            continue;
        }
        assert_eq!((command.len(), &command[0][..]), (3, &b"ACCOUNT.APPLY"[..]));
        let mut reader = Reader::new(&command[2]);
        assert_eq!(reader.unsigned(), Ok(1), "the version of the payload");
        let at = reader.signed().expect("a time");
        for event in Event::decode_all(reader.rest()).expect("events") {
            if let Event::Dealt { accounts, .. } = &event {
                dealt += accounts.len();
            }
            match &mut state {
                None => {
                    let Event::Opened(settings) = event else { panic!("{event:?} came first") };
                    state = Some(State::open(settings, at));
                }
                Some(state) => {
                    state.admits(&event).unwrap();
                    state.apply(at, &event);
                }
            }
        }
    }
    assert!(dealt > 100, "little happened");
    let (bytes, dump) = (state.unwrap().encode(), server.raw().call(&["DUMP", BOOK]));
    let Reply::Bulk(dump) = dump else { panic!("{dump:?}") };
    assert!(dump.windows(bytes.len()).any(|part| part == bytes), "the events make another book");
    no_internal_errors(&server);
}

#[test]
fn refused_requests_and_repeated_ones_replicate_nothing() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 2);
    book.add("m", 0..4);
    book.ok("ATTACH m a");
    let epoch = book.ok("LOGIN p1 a t TTL 3600000").field("epoch").int();
    let mut stream = ReplicationStream::attach(&server);
    for line in [
        "BOOK",
        "MODULE m DEPARTMENT d INSTANCES 2",
        "ADD m QUOTA 100 ACCOUNTS 2 new p1",
        "DEL 2 p0 nobody",
        "MOVE m 1 p0",
        "ATTACH m a",
        "ATTACH nowhere a",
        "DETACH m b",
        "LOGIN p1 a other TTL 1000",
        "LOGIN p0 b t TTL 1000",
        "LOGOUT p1 5",
        "RENEW p1 5 TTL 1000",
        "USE p1 5",
        "PICK m a",
        "REBALANCE",
        "REBALANCE DRYRUN",
        "ATTACH m c TERM 9",
        "FREEZE p1 OFF",
        "INFO",
        "LIST",
        "USAGE BY account",
    ] {
        book.call(line);
    }
    assert_eq!(readable(&stream.drain()), "");
    assert_eq!(book.code(&format!("USE p1 {epoch}")), "OK");
}

#[test]
fn replicas_reloads_and_append_only_files_hold_what_their_master_holds() {
    for preamble in ["yes", "no"] {
        let master = RedisServer::builder()
            .arg("appendonly", "yes")
            .arg("appendfsync", "always")
            .arg("aof-use-rdb-preamble", preamble)
            .start();
        let strict = || RedisServer::builder().arg("propagation-error-behavior", "panic").start();
        let (replica, late) = (strict(), strict());
        replica.replica_of(&master);
        storm(&master, 92, soak(800, 8000));
        late.replica_of(&master);
        settled(&master);
        master.wait_offset_equal(&replica);
        master.wait_offset_equal(&late);
        let digest = master.digest();
        assert_eq!((replica.digest(), late.digest()), (digest.clone(), digest.clone()));
        for server in [&replica, &late] {
            assert_eq!(server.info_field("stats", "unexpected_error_replies"), "0", "{}", server.log());
            no_internal_errors(server);
        }
        assert_eq!(master.command("DEBUG RELOAD"), redis::Value::Okay);
        assert_eq!(master.digest(), digest, "after DEBUG RELOAD");
        master.kill9();
        master.restart();
        assert_eq!(master.digest(), digest, "from the file, preamble {preamble}");
        master.command("BGREWRITEAOF");
        eventually("the rewrite to end", GENEROUS, || {
            let info = master.info("persistence");
            info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
        });
        master.kill9();
        master.restart();
        assert_eq!(master.digest(), digest, "after a rewrite, preamble {preamble}");
        no_internal_errors(&master);
    }
}

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
