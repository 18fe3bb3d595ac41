//! What is on the disk comes back: snapshots, append-only files, and what is left of one that was cut anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use allot_core::seat::{Event, Show, decide_due};
use allot_core::shared::machine::FollowUp;
use allot_tests::raw::read_reply;
use allot_tests::seat_workload::{LONG_TTL_MS, events_of};
use allot_tests::shows::{
    THEATRE, books, clock, create, hold, no_internal_errors, sample_venue, seats_of, state_of,
};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, Reply, SeatWorkload, eventually, soak};

#[test]
fn snapshot_keeps_holds_deadlines_sales_and_the_search_order() {
    let server = RedisServer::builder().arg("save", "3600 1").start();
    create(&server, "show", THEATRE);
    let mut client = server.raw();
    let kept = hold(&mut client, "show", "ann", 3, LONG_TTL_MS, "kept");
    let short = hold(&mut client, "show", "bob", 2, 700, "short");
    hold(&mut client, "show", "cid", 2, LONG_TTL_MS, "sold");
    client.words("SEAT.CONFIRM show sold ORDER o1");
    client.words("SEAT.BLOCK show 1 back-2-20");
    let order = client.words("SEAT.ORDER show o1");
    let mut twin = RedisServer::start();
    server.shutdown();
    server.restart();
    let mut client = server.raw();
    assert_eq!(client.words("SEAT.HOLDS show ann"), Reply::Array(vec![kept]));
    assert_eq!(client.words("SEAT.ORDER show o1"), order);
    assert_eq!(state_of(&mut client, "show", "back-2-20"), "blocked");
    let until = short.field("until").int();
    eventually("the short hold to expire", TIMEOUT, || books(&mut server.raw(), b"show").held == 3);
    assert!(clock(&mut client) >= until, "it expired early");
    // The next hold goes where it would have gone without the restart.
    fs::copy(server.dir().join("dump.rdb"), twin.dir().join("dump.rdb")).unwrap();
    twin.restart();
    eventually("the short hold to expire", TIMEOUT, || books(&mut twin.raw(), b"show").held == 3);
    let next =
        |server: &RedisServer| seats_of(&hold(&mut server.raw(), "show", "dan", 4, LONG_TTL_MS, "next"));
    assert_eq!(next(&server), next(&twin));
    twin = RedisServer::start();
    no_internal_errors(&twin);
    no_internal_errors(&server);
}

#[test]
fn a_show_of_a_hundred_thousand_seats_with_its_holds_and_sales_comes_back() {
    let server = RedisServer::builder().arg("save", "3600 1").start();
    create(&server, "show", &sample_venue(1000, 100));
    let mut client = server.raw();
    for number in 0..2000 {
        hold(&mut client, "show", &format!("u{number}"), 1 + number % 6, LONG_TTL_MS, &format!("t{number}"));
        if number % 2 == 0 {
            client.call(&["SEAT.CONFIRM", "show", &format!("t{number}"), "ORDER", &format!("o{number}")]);
        }
    }
    let (digest, count) = (server.digest(), books(&mut client, b"show"));
    assert_eq!(count.all(), 100_000);
    server.shutdown();
    server.restart();
    assert_eq!(server.digest(), digest);
    assert_eq!(books(&mut server.raw(), b"show"), count);
    assert_eq!(server.raw().words("SEAT.CONFIRM show t1"), Reply::Int(2));
    no_internal_errors(&server);
}

/// The one file of an append-only folder whose name has that ending.
fn aof_file(dir: &Path, ending: &str) -> PathBuf {
    let files = fs::read_dir(dir.join("appendonlydir")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.to_str().unwrap().ends_with(ending)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn an_append_only_file_cut_anywhere_gives_a_state_that_there_was() {
    let settings = || {
        RedisServer::builder()
            .arg("appendonly", "yes")
            .arg("aof-load-truncated", "yes")
            .arg("rdbcompression", "no")
    };
    let server = settings().start();
    let mut stream = ReplicationStream::attach(&server);
    create(&server, "show", &THEATRE.replacen("{\"areas\"", "{\"events\":10,\"areas\"", 1));
    let mut workload = SeatWorkload::new(server.raw(), "show", 21);
    workload.run(soak(120, 60)).end_blocks();
    let lasting: usize = workload.lasting().map(|(_, seats)| seats.len()).sum();
    eventually("all short holds to expire", TIMEOUT, || {
        books(&mut server.raw(), b"show").held == lasting as i64
    });
    // Every state that there was. Requests that wait for seats may end by themselves after the workload, and a server
    // whose disk is slow may write what it has answered a little later.
    let (mut states, mut whole): (Vec<Show>, _) = (Vec::new(), Vec::new());
    eventually("the file to have all that the stream has", TIMEOUT, || {
        for command in stream.drain().iter().filter(|command| command[0] == b"SEAT.APPLY") {
            let (at, events) = events_of(command);
            let mut show = states.last().cloned();
            for event in &events {
                match &mut show {
                    None => {
                        let Event::Created { plan } = event else { panic!("{event:?}") };
                        show = Some(Show::open(plan, at).unwrap());
                    }
                    Some(show) => show.apply(at, event),
                }
            }
            states.extend(show);
        }
        whole = fs::read(aof_file(server.dir(), ".incr.aof")).unwrap();
        whole_steps(&whole) == states.len()
    });
    server.kill9();
    let victim = settings().start();
    let file = aof_file(victim.dir(), ".incr.aof");
    let cuts = soak(60, whole.len());
    for number in 0..=cuts {
        let cut = whole.len() * number / cuts;
        victim.kill9();
        fs::write(&file, &whole[..cut]).unwrap();
        victim.restart();
        let mut client = victim.raw();
        let steps = whole_steps(&whole[..cut]);
        let Some(expected) = steps.checked_sub(1).map(|last| &states[last]) else {
            assert_eq!(client.words("EXISTS show"), Reply::Int(0), "cut at {cut}");
            continue;
        };
        assert_eq!(books(&mut client, b"show").all(), 75, "cut at {cut}");
        eventually("the state of then, without what is due since", TIMEOUT, || {
            let mut expected = expected.clone();
            let now = clock(&mut client);
            for event in decide_due(&expected, now, usize::MAX) {
                expected.apply(now, &event);
            }
            loop {
                match expected.follow_up(now) {
                    FollowUp::Event(event) => expected.apply(now, &event),
                    FollowUp::Continue => {}
                    FollowUp::Done => break,
                }
            }
            (0..).zip(expected.venue().areas()).all(|(number, area)| {
                let map = client.call(&["SEAT.MAP", "show", &area.id]);
                expected.venue().rows_in_plan(number).zip(map.array()).all(|(row, drawn)| {
                    let mut text = String::new();
                    expected.write_map_row(row, &mut text);
                    text == drawn.array()[1].text()
                })
            })
        });
        let free = client.words("SEAT.HOLD show fresh 1 TTL 1000 ADJACENT IGNORE");
        assert!(matches!(free, Reply::Array(_) | Reply::NullArray), "cut at {cut}: {free:?}");
        no_internal_errors(&victim);
    }
}

/// How many steps of the show a file has that are there to their ends, transactions whole.
fn whole_steps(mut file: &[u8]) -> usize {
    let (mut steps, mut open) = (0, None);
    while let Ok(Reply::Array(command)) = read_reply(&mut file) {
        match (command[0].text().as_str(), open) {
            ("MULTI", _) => open = Some(0),
            ("EXEC", inside) => {
                steps += inside.unwrap_or(0);
                open = None;
            }
            ("SEAT.APPLY", None) => steps += 1,
            ("SEAT.APPLY", Some(inside)) => open = Some(inside + 1),
            _ => {}
        }
    }
    steps
}
