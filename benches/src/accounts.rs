//! Accounts: use, picks and logins in a book of a million accounts beside `PING`, and the time for which the server is
//! busy while the accounts are assigned to a thousand instances and one more instance joins.

use allot_tests::RedisServer;
use allot_tests::books::{BOOK, Book};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bench::{Bench, Case};
use crate::load::{CONNECTIONS, PIPELINE, encode};

/// Accounts of the book.
const ACCOUNTS: usize = 1_000_000;
/// Instances to which the accounts are assigned.
const INSTANCES: usize = 1000;
/// Different accounts that one connection works with.
const SPREAD: usize = 64;

/// Measures the family.
pub(crate) fn measure(bench: &Bench, server: &RedisServer) {
    let names = ["ACCOUNT.USE", "ACCOUNT.PICK", "ACCOUNT.LOGIN", "ACCOUNT assignment"];
    if !names.iter().any(|name| bench.wants(name)) {
        return;
    }
    let () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
    let mut book = Book::create(server, 2 * INSTANCES);
    // The book assigns no account until all instances are there.
    keep_back(&mut book, ACCOUNTS);
    for batch in 0..ACCOUNTS / 10_000 {
        book.add("m", batch * 10_000..(batch + 1) * 10_000);
    }
    assign(server, &mut book);
    lives(bench, server, &mut book);
    let () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
}

/// Does `work` and waits until the assignment is even. Returns the time for both, and the longest wait of another
/// client meanwhile.
fn timed(server: &RedisServer, book: &mut Book, work: impl FnOnce(&mut Book)) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let watcher = threads.spawn(|| {
            let (mut worst, mut client) = (Duration::ZERO, server.raw());
            while !done.load(Ordering::Relaxed) {
                let asked = Instant::now();
                client.words("PING");
                worst = worst.max(asked.elapsed());
            }
            worst
        });
        let start = Instant::now();
        work(book);
        // Polls rarely, since a record of a thousand instances takes the server time as well.
        while book.total("assigned") < ACCOUNTS as i64 || !is_even(&book.shares("m")) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let took = start.elapsed();
        done.store(true, Ordering::Relaxed);
        (took, watcher.join().expect("the watcher"))
    })
}

fn is_even(shares: &[i64]) -> bool {
    shares.iter().max().zip(shares.iter().min()).is_some_and(|(most, least)| most - least <= 1)
}

fn keep_back(book: &mut Book, accounts: usize) {
    book.ok(&format!("MODULE m DEPARTMENT d INSTANCES {} SHARE PRESENT RESERVE {accounts}", 2 * INSTANCES));
}

fn assign(server: &RedisServer, book: &mut Book) {
    for instance in 0..INSTANCES {
        book.ok(&format!("ATTACH m i{instance}"));
    }
    let (took, worst) = timed(server, book, |book| keep_back(book, 0));
    println!(
        "\nassignment of {ACCOUNTS} accounts to {INSTANCES} instances: {took:.1?}; another client waits {worst:.2?} at most"
    );
    let before = allot_tests::shows::allot_info(server, "account_assigned");
    let (took, worst) = timed(server, book, |book| drop(book.ok("ATTACH m late")));
    let moved = allot_tests::shows::allot_info(server, "account_assigned") - before;
    let least = ACCOUNTS / (INSTANCES + 1);
    println!(
        "one more joins: {moved} accounts move, {least} at least; {took:.2?}; another client waits {worst:.2?} at most\n"
    );
}

/// An account of the measured requests.
struct Known {
    name: String,
    instance: String,
    /// Epoch of the assignment.
    epoch: String,
}

fn lives(bench: &Bench, server: &RedisServer, book: &mut Book) {
    let requests = 200_000;
    let rounds = requests / CONNECTIONS / PIPELINE;
    let ping = Case::repeated("PING", 400_000, &["PING"]);
    let number = |connection: usize, place: usize| (connection * 19_991 + place * 311) % ACCOUNTS;
    let mut known = Vec::new();
    for connection in 0..CONNECTIONS {
        for place in 0..SPREAD {
            let name = format!("p{}", number(connection, place));
            let record = book.ok(&format!("INFO ACCOUNT {name}"));
            let (instance, epoch) =
                (record.field("instance").text(), record.field("epoch").int().to_string());
            known.push(Known { name, instance, epoch });
        }
    }
    let account = |connection: usize, place: usize| &known[connection * SPREAD + place % SPREAD];
    let case = |name: &str, request: &dyn Fn(&Known) -> Vec<u8>| {
        let batches: Vec<Vec<Vec<u8>>> = (0..CONNECTIONS)
            .map(|connection| {
                let batch = |round: usize| {
                    (0..PIPELINE)
                        .flat_map(|place| request(account(connection, round * PIPELINE + place)))
                        .collect()
                };
                (0..rounds).map(batch).collect()
            })
            .collect();
        Case::new(name, requests, move |connection| batches[connection].clone())
    };
    let usage = case("ACCOUNT.USE", &|known| encode(&["ACCOUNT.USE", BOOK, &known.name, &known.epoch]));
    bench.measure(server, &usage, &ping);
    let pick = case("ACCOUNT.PICK", &|known| encode(&["ACCOUNT.PICK", BOOK, "m", &known.instance]));
    bench.measure(server, &pick, &ping);
    let login = case("ACCOUNT.LOGIN", &|known| {
        encode(&["ACCOUNT.LOGIN", BOOK, &known.name, &known.instance, "t", "TTL", "3600000"])
    });
    bench.measure(server, &login, &ping);
}
