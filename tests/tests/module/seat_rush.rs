//! A rush from many connections at once: no seat is ever held by two, nobody is refused while enough is free,
//! the books balance, and what was acknowledged survives a `kill -9`.

use std::collections::HashSet;
use std::io::{BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allot_tests::raw::{encode, read_reply};
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{Books, books, create, no_internal_errors, sample_venue, seats_of, state_of};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RedisServer, Reply, eventually, soak};

const BUYERS: usize = 64;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// That a seat was certainly somebody's from one time to another, by what the clients were told.
struct Had {
    seat: String,
    from: i64,
    to: i64,
    token: String,
}

/// Fails where a seat was two people's at a time.
fn check_holders(mut all: Vec<Had>) {
    all.sort_by(|a, b| (&a.seat, a.from, a.to).cmp(&(&b.seat, b.from, b.to)));
    for pair in all.windows(2) {
        let (first, then) = (&pair[0], &pair[1]);
        assert!(
            first.seat != then.seat || first.to <= then.from,
            "seat {} was {}'s until {} and {}'s from {}",
            first.seat,
            first.token,
            first.to,
            then.token,
            then.from
        );
    }
}

/// Holds, releases, confirms and lets expire; what it had, and how many seats it bought.
fn buy(server: &RedisServer, buyer: usize) -> (Vec<Had>, i64) {
    let (mut random, mut client) = (Random::new(buyer as u64), server.raw());
    if buyer % 2 == 1 {
        client.hello3();
    }
    let (mut had, mut bought, user) = (Vec::new(), 0, format!("u{buyer}"));
    for round in 0..soak(60, 2000) {
        let (token, count) = (format!("{buyer}-{round}"), random.within(1, 6));
        let ttl = if random.once_in(3) { random.within(1, 40) as i64 } else { LONG_TTL_MS };
        let (count_text, ttl_text) = (count.to_string(), ttl.to_string());
        let reply =
            client.call(&["SEAT.HOLD", "show", &user, &count_text, "TTL", &ttl_text, "TOKEN", &token]);
        if reply.is_null() {
            continue;
        }
        let (seats, until) = (seats_of(&reply), reply.field("until").int());
        assert_eq!(seats.iter().collect::<HashSet<_>>().len(), count, "{seats:?}");
        let mut to = until;
        if ttl == LONG_TTL_MS {
            to = now();
            let sells = random.once_in(8) && bought < 18;
            let command = if sells { "SEAT.CONFIRM" } else { "SEAT.RELEASE" };
            assert_eq!(client.call(&[command, "show", &token]), Reply::Int(count as i64));
            if sells {
                bought += count as i64;
                to = i64::MAX;
            }
        }
        had.extend(seats.into_iter().map(|seat| Had { seat, from: until - ttl, to, token: token.clone() }));
    }
    (had, bought)
}

#[test]
fn no_seat_has_two_holders_and_the_books_balance() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(36, 40));
    let all: Vec<_> = thread::scope(|scope| {
        let server = &server;
        let buyers: Vec<_> = (0..BUYERS).map(|buyer| scope.spawn(move || buy(server, buyer))).collect();
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).collect()
    });
    let mut client = server.raw();
    eventually("the last holds to expire", TIMEOUT, || books(&mut client, b"show").held == 0);
    let sold = all.iter().map(|(_, bought)| bought).sum();
    assert_eq!(books(&mut client, b"show"), Books { free: 1440 - sold, held: 0, sold, blocked: 0 });
    assert!(sold > 0 && all.iter().all(|(had, _)| !had.is_empty()));
    check_holders(all.into_iter().flat_map(|(had, _)| had).collect());
    no_internal_errors(&server);
}

#[test]
#[should_panic(expected = "seat a-1-1 was one's until 10 and two's from 9")]
fn two_holders_of_a_seat_would_be_noticed() {
    let had = |from, to, token: &str| Had { seat: "a-1-1".into(), from, to, token: token.into() };
    check_holders(vec![had(9, 20, "two"), had(5, 10, "one"), had(1, 5, "zero")]);
}

#[test]
fn nobody_is_refused_while_enough_is_free() {
    let server = RedisServer::start();
    // Every buyer has at most six seats at a time, and there are six for each of them.
    create(&server, "show", &sample_venue(BUYERS / 4, 24));
    thread::scope(|scope| {
        for buyer in 0..BUYERS {
            let server = &server;
            scope.spawn(move || {
                let (mut random, mut client) = (Random::new(1000 + buyer as u64), server.raw());
                for round in 0..soak(60, 2000) {
                    let (token, count) = (format!("{buyer}-{round}"), random.within(1, 6).to_string());
                    let user = format!("u{buyer}");
                    let hold = ["SEAT.HOLD", "show", &user, &count, "TTL", "3600000", "TOKEN", &token];
                    let reply = client.call(&hold);
                    assert!(matches!(reply, Reply::Array(_)), "{count} seats were refused: {reply:?}");
                    assert_eq!(
                        client.call(&["SEAT.RELEASE", "show", &token]).int(),
                        seats_of(&reply).len() as i64
                    );
                }
            });
        }
    });
    assert_eq!(books(&mut server.raw(), b"show").free, (BUYERS * 6) as i64);
}

#[test]
fn buyers_of_the_last_seats_get_different_seats_or_null() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(1, 100));
    let taken = Mutex::new(HashSet::new());
    let nothing = AtomicUsize::new(0);
    thread::scope(|scope| {
        for buyer in 0..BUYERS {
            let (server, taken, nothing) = (&server, &taken, &nothing);
            scope.spawn(move || {
                let user = format!("u{buyer}");
                match server.raw().call(&["SEAT.HOLD", "show", &user, "2", "TTL", "3600000"]) {
                    Reply::NullArray => drop(nothing.fetch_add(1, Ordering::Relaxed)),
                    record => {
                        for seat in seats_of(&record) {
                            assert!(taken.lock().unwrap().insert(seat.clone()), "{seat} was held twice");
                        }
                    }
                }
            });
        }
    });
    assert_eq!((taken.into_inner().unwrap().len(), nothing.into_inner()), (100, BUYERS - 50));
}

/// What a client was told and the server must not forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Held,
    Sold,
    Free,
    /// A request was on its way when the server died.
    Unsure,
}

/// A call that may fail because the server died.
fn try_call(stream: &mut BufReader<TcpStream>, words: &[&str]) -> Option<Reply> {
    stream.get_mut().write_all(&encode(words)).ok()?;
    match read_reply(stream) {
        Ok(reply) => Some(reply),
        Err(error) => {
            assert!(
                !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "{error}"
            );
            None
        }
    }
}

/// For how many parties a buyer keeps seats in one round: the show is not to be sold out, however long it takes until
/// the server is killed.
const KEPT: usize = 5;

/// Buys until the server is gone: what is known of each token, with its seats.
fn buy_until_the_end(
    port: u16,
    round: usize,
    buyer: usize,
    acknowledged: &AtomicUsize,
) -> Vec<(String, Vec<String>, Known)> {
    let (mut known, mut kept) = (Vec::new(), 0);
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { return known };
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut stream = BufReader::new(stream);
    let mut random = Random::new((round * 1000 + buyer) as u64);
    for number in 0.. {
        let (token, user) = (format!("{round}-{buyer}-{number}"), format!("u{buyer}"));
        let count = random.within(1, 6).to_string();
        let ttl = if random.once_in(5) { "30" } else { "3600000" };
        let hold = ["SEAT.HOLD", "show", &user, &count, "TTL", ttl, "TOKEN", &token];
        let Some(reply) = try_call(&mut stream, &hold) else {
            known.push((token, Vec::new(), Known::Unsure));
            return known;
        };
        if reply.is_null() {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let seats = seats_of(&reply);
        acknowledged.fetch_add(1, Ordering::Relaxed);
        if ttl == "30" {
            known.push((token, seats, Known::Unsure));
            continue;
        }
        let (ending, then) = match random.below(6) {
            0 if kept < KEPT => ("", Known::Held),
            1 if kept < KEPT => ("SEAT.CONFIRM", Known::Sold),
            _ => ("SEAT.RELEASE", Known::Free),
        };
        kept += usize::from(then != Known::Free);
        if ending.is_empty() {
            known.push((token, seats, Known::Held));
            continue;
        }
        match try_call(&mut stream, &[ending, "show", &token]) {
            Some(Reply::Int(done)) => assert_eq!(done, seats.len() as i64),
            Some(other) => panic!("{ending} {token}: {other:?}"),
            None => {
                known.push((token, seats, Known::Unsure));
                return known;
            }
        }
        known.push((token, seats, then));
    }
    known
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill_in_the_middle_of_a_rush() {
    let server = RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always").start();
    // Large enough not to be sold out by all of the rounds, whatever is held for a moment beside.
    let rows = soak(200, 600);
    create(&server, "show", &sample_venue(rows, 100));
    let mut all: Vec<(String, Vec<String>, Known)> = Vec::new();
    for round in 0..soak(3, 15) {
        let acknowledged = AtomicUsize::new(0);
        let known: Vec<_> = thread::scope(|scope| {
            let buyers: Vec<_> = (0..BUYERS)
                .map(|buyer| {
                    let (server, acknowledged) = (&server, &acknowledged);
                    scope.spawn(move || buy_until_the_end(server.port(), round, buyer, acknowledged))
                })
                .collect();
            eventually("the rush to be well under way", TIMEOUT, || {
                acknowledged.load(Ordering::Relaxed) > 400
            });
            server.kill9();
            buyers.into_iter().flat_map(|buyer| buyer.join().unwrap()).collect()
        });
        server.restart();
        all.extend(known);
        check_what_is_known(&server, rows, &all);
    }
    no_internal_errors(&server);
}

fn check_what_is_known(server: &RedisServer, rows: usize, all: &[(String, Vec<String>, Known)]) {
    let mut client = server.raw();
    let (mut held, mut sold, mut unsure) = (0, 0, 0);
    let mut owned = HashSet::new();
    for (token, seats, known) in all {
        match known {
            Known::Held | Known::Sold => {
                let state = if *known == Known::Held { "held" } else { "sold" };
                for seat in seats {
                    assert!(owned.insert(seat), "{seat} belongs to two");
                    let record = client.call(&["SEAT.GET", "show", seat]);
                    assert_eq!(record.field("state"), Reply::bulk(state), "{token} {record:?}");
                    assert_eq!(record.field("token"), Reply::bulk(token), "{record:?}");
                }
                if *known == Known::Held { held += seats.len() } else { sold += seats.len() }
            }
            Known::Free => {
                let other = client.call(&["SEAT.EXTEND", "show", token, "TTL", "1000"]);
                assert!(other.error().starts_with("NOTFOUND "), "{token} was released: {other:?}");
            }
            Known::Unsure => unsure += 6,
        }
    }
    let all = books(&mut client, b"show");
    assert_eq!(all.all(), rows as i64 * 100);
    let between = |count: i64, known: usize| (known as i64..=(known + unsure) as i64).contains(&count);
    assert!(between(all.held, held) && between(all.sold, sold), "{all:?}: {held} held, {sold} sold");
    assert_eq!(state_of(&mut client, "show", &format!("a-{rows}-100")), "free");
}
