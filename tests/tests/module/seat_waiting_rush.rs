//! A rush with a waiting list, cut by `kill -9`: freed seats go to the waiters in the step that frees them, in the order
//! of arrival, and no acknowledged place in the list is lost.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use allot_core::seat::Event;
use allot_tests::raw::{RawClient, encode, read_reply};
use allot_tests::seat_workload::steps_of;
use allot_tests::shows::{Books, books, create, listed, no_internal_errors, sample_venue, with_events};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RedisServer, Reply, eventually, soak};

const CONNECTIONS: usize = 16;

/// Seats that each buyer asks for.
const PARTY: usize = 2;

fn try_call(stream: &mut BufReader<TcpStream>, words: &[&str]) -> Option<Reply> {
    stream.get_mut().write_all(&encode(words)).ok()?;
    read_reply(stream).ok()
}

/// The tokens of acknowledged waits, until all buyers of a connection have asked or the server is gone.
fn ask(port: u16, buyers: std::ops::Range<usize>, asked: &AtomicUsize) -> Vec<String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (mut stream, mut random) = (BufReader::new(stream), Random::new(buyers.start as u64));
    let mut acknowledged = Vec::new();
    for buyer in buyers {
        let (token, user, count) = (format!("t{buyer}"), format!("u{buyer}"), PARTY.to_string());
        let offer = if random.once_in(4) { "60" } else { "3600000" };
        let wait = ["SEAT.WAIT", "show", &user, &count, "TTL", "3600000", "OFFER", offer, "TOKEN", &token];
        let Some(reply) = try_call(&mut stream, &wait) else { break };
        acknowledged.push(token.clone());
        asked.fetch_add(1, Ordering::Relaxed);
        if reply.field("state") == Reply::bulk("offered") && offer != "60" {
            let ending = if random.once_in(3) { "SEAT.RELEASE" } else { "SEAT.CONFIRM" };
            if try_call(&mut stream, &[ending, "show", &token]).is_none() {
                break;
            }
        }
    }
    acknowledged
}

/// The event stream: event and token of each entry.
fn told(client: &mut RawClient) -> Vec<(String, String)> {
    let (mut all, mut from) = (Vec::new(), "-".to_owned());
    loop {
        let part = client.call(&["XRANGE", "show:evt", &from, "+", "COUNT", "5000"]);
        for entry in part.array() {
            let fields: Vec<String> = entry.array()[1].array().iter().map(Reply::text).collect();
            all.push((fields[1].clone(), fields.get(3).cloned().unwrap_or_default()));
            from = format!("({}", entry.array()[0].text());
        }
        if part.array().len() < 5000 {
            return all;
        }
    }
}

/// Follows the steps: who waits in which order, and how many seats are free. Each step offers what it freed; after a
/// step of many expiries the timer goes on, and each step in between offers as well.
fn check_order(steps: &[(i64, Vec<Event>)], seats: usize) -> usize {
    let (mut queue, mut free) = (VecDeque::new(), seats);
    for (_, step) in steps {
        let mut offers = 0;
        for event in step {
            match event {
                Event::Waited(waited) => queue.push_back(waited.token.clone()),
                Event::Offered { held, .. } => {
                    offers += 1;
                    free -= held.seats.len();
                    // Without a place in the list the seats are an answer to SEAT.WAIT.
                    if queue.front() == Some(&held.token) {
                        queue.pop_front();
                    } else {
                        assert!(queue.is_empty(), "{held:?} passed over {:?}", queue.front());
                    }
                }
                Event::Released { seats, .. } => free += seats.len(),
                Event::Expired { .. } => free += PARTY,
                Event::Created { .. } | Event::Confirmed { .. } | Event::Passed | Event::Flushed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(queue.is_empty() || free < PARTY || offers > 0, "{free} seats are free after {step:?}");
    }
    queue.len()
}

#[test]
fn rush_with_a_waiting_list_loses_no_place_by_a_kill() {
    let (rows, buyers) = (soak(10, 600), soak(3000, 100_000));
    let server = RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always");
    let server = server.arg("auto-aof-rewrite-percentage", "0").start();
    create(&server, "show", &with_events(&sample_venue(rows, 100), 2_000_000));
    let asked = AtomicUsize::new(0);
    let share = buyers / CONNECTIONS;
    let acknowledged: Vec<String> = thread::scope(|scope| {
        let (asked, port) = (&asked, server.port());
        let asking: Vec<_> = (0..CONNECTIONS)
            .map(|number| scope.spawn(move || ask(port, number * share..(number + 1) * share, asked)))
            .collect();
        eventually("most buyers to have asked", TIMEOUT * 10, || {
            asked.load(Ordering::Relaxed) > share * CONNECTIONS * 9 / 10
        });
        server.kill9();
        asking.into_iter().flat_map(|asking| asking.join().unwrap()).collect()
    });
    server.restart();
    let mut client = server.raw();
    // Nothing that was acknowledged is lost: who was not offered seats still waits.
    let still = listed(&mut client, "show", "WAITING");
    let events = told(&mut client);
    let offered: HashSet<&String> =
        events.iter().filter(|(event, _)| event == "offered").map(|(_, token)| token).collect();
    for token in &acknowledged {
        assert!(still.contains(token) || offered.contains(token), "{token} lost its place");
    }
    assert!(still.len() > buyers / 10, "{} still wait", still.len());
    // All holds are released until nobody waits: the list empties in the order of arrival.
    let mut released = HashMap::new();
    eventually("nobody to wait", TIMEOUT * 10, || {
        let tokens = listed(&mut client, "show", "HOLDS");
        // All at once: the server writes to its disk before it answers.
        tokens.iter().for_each(|token| client.send(&["SEAT.RELEASE", "show", token]));
        for token in tokens {
            // A hold with a short life may expire meanwhile.
            let reply = client.read();
            *released.entry(token).or_insert(0) += i64::from(matches!(reply, Reply::Int(_)));
        }
        listed(&mut client, "show", "WAITING").is_empty()
    });
    assert!(released.values().all(|&times| times <= 1), "a hold was released twice");
    assert_eq!(
        check_order(&steps_of(&server), rows * 100),
        0,
        "users wait by the events, and not by the list"
    );
    eventually("the last offers to be over", TIMEOUT, || {
        let tokens = listed(&mut client, "show", "HOLDS");
        tokens.iter().for_each(|token| drop(client.call(&["SEAT.RELEASE", "show", token])));
        books(&mut client, b"show").held == 0
    });
    let Books { free, sold, .. } = books(&mut client, b"show");
    assert_eq!(free + sold, rows as i64 * 100);
    no_internal_errors(&server);
}
