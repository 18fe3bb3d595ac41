//! What a master tells its replicas are results, and whoever hears or reads them has the same state: replicas,
//! replicas of replicas, and servers that were loaded from a snapshot or an append-only file.

use std::collections::BTreeMap;

use allot_core::seat::{Event, Show};
use allot_tests::seat_workload::{LONG_TTL_MS, events_of, told};
use allot_tests::shows::{THEATRE, books, create, hold, no_internal_errors};
use allot_tests::stream::readable;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, Reply, SeatWorkload, eventually, soak};

fn with_events() -> String {
    THEATRE.replacen("{\"areas\"", "{\"events\":50,\"areas\"", 1)
}

/// Waits until all that was to expire has expired, so that no more happens by itself.
fn settled(server: &RedisServer, workload: &SeatWorkload, key: &str) {
    let lasting: usize = workload.lasting().map(|(_, seats)| seats.len()).sum();
    eventually("all short holds to expire", TIMEOUT, || {
        books(&mut server.raw(), key.as_bytes()).held == lasting as i64
    });
}

fn workload(server: &RedisServer, key: &str, seed: u64, steps: usize) -> SeatWorkload {
    create(server, key, &with_events());
    let mut workload = SeatWorkload::new(server.raw(), key, seed);
    workload.run(steps);
    settled(server, &workload, key);
    workload
}

fn no_replica_errors(replica: &RedisServer) {
    assert!(replica.is_running(), "{}", replica.log());
    assert_eq!(replica.info_field("stats", "unexpected_error_replies"), "0", "{}", replica.log());
    no_internal_errors(replica);
}

#[test]
fn replicas_of_replicas_and_late_ones_hold_what_their_master_holds() {
    let (master, replica, sub, late) = (
        RedisServer::start(),
        RedisServer::strict().start(),
        RedisServer::strict().start(),
        RedisServer::strict().start(),
    );
    replica.replica_of(&master);
    sub.replica_of(&replica);
    workload(&master, "show", 1, soak(1500, 20_000));
    late.replica_of(&master);
    let more = workload(&master, "other", 2, 300);
    settled(&master, &more, "other");
    master.wait_offset_equal(&replica);
    replica.wait_offset_equal(&sub);
    master.wait_offset_equal(&late);
    let digest = master.digest();
    for follower in [&replica, &sub, &late] {
        assert_eq!(follower.digest(), digest);
        assert_eq!(follower.digest_value("show"), master.digest_value("show"));
        no_replica_errors(follower);
    }
}

#[test]
fn a_broken_link_is_mended_from_the_backlog() {
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut run = workload(&master, "show", 3, 200);
    let partial = || master.info_field("stats", "sync_partial_ok").parse::<u64>().unwrap();
    for round in 1..=3 {
        run.run(100);
        assert_eq!(master.raw().words("CLIENT KILL TYPE replica"), Reply::Int(1));
        run.run(100);
        eventually("a partial resync", TIMEOUT, || partial() >= round);
        replica.wait_replica_synced();
    }
    settled(&master, &run, "show");
    master.wait_offset_equal(&replica);
    assert_eq!(master.info_field("stats", "sync_full"), "1");
    assert_eq!(master.digest(), replica.digest());
    no_replica_errors(&replica);
}

#[test]
fn a_reloaded_server_and_one_restarted_from_its_snapshot_are_the_same() {
    let server = RedisServer::builder().arg("save", "3600 1").start();
    let run = workload(&server, "show", 4, soak(1000, 20_000));
    let digest = server.digest();
    server.command("DEBUG RELOAD");
    assert_eq!(server.digest(), digest);
    server.shutdown();
    server.restart();
    assert_eq!(server.digest(), digest);
    for (token, seats) in run.lasting() {
        let sold = server.raw().call(&["SEAT.CONFIRM", "show", token]);
        assert_eq!(sold, Reply::Int(seats.len() as i64), "{token}");
    }
    no_internal_errors(&server);
}

#[test]
fn a_server_restarted_from_its_append_only_file_is_the_same_with_and_without_a_preamble() {
    for preamble in ["yes", "no"] {
        let server = RedisServer::builder()
            .arg("appendonly", "yes")
            .arg("appendfsync", "always")
            .arg("aof-use-rdb-preamble", preamble)
            .start();
        workload(&server, "show", 5, soak(600, 10_000));
        let digest = server.digest();
        server.kill9();
        server.restart();
        assert_eq!(server.digest(), digest, "after a restart, preamble {preamble}");
        server.command("BGREWRITEAOF");
        eventually("the rewrite to end", TIMEOUT, || {
            let info = server.info("persistence");
            info["aof_rewrite_in_progress"] == "0"
                && info["aof_rewrite_scheduled"] == "0"
                && info["aof_last_bgrewrite_status"] == "ok"
        });
        server.kill9();
        server.restart();
        assert_eq!(server.digest(), digest, "after a rewrite, preamble {preamble}");
        workload(&server, "second", 7, 200);
        let digest = server.digest();
        server.kill9();
        server.restart();
        assert_eq!(server.digest(), digest, "what came after the rewrite, preamble {preamble}");
        no_internal_errors(&server);
    }
}

#[test]
fn the_stream_carries_results_and_nothing_else() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut stream = ReplicationStream::attach(&server);
    let run = workload(&server, "show", 8, soak(1500, 20_000));
    let commands = stream.drain();
    let mut show: Option<Show> = None;
    let (mut heard, mut deadlines, mut expired, mut last) = (Vec::new(), BTreeMap::new(), 0, 0);
    for command in &commands {
        match &command[0][..] {
            b"MULTI" | b"EXEC" => continue,
            b"XADD" => {
                assert_eq!(command[1], b"show:evt");
                continue;
            }
            _ => assert_eq!(command[1], b"show", "{}", readable(std::slice::from_ref(command))),
        }
        let (at, events) = events_of(command);
        assert!(at >= last, "time went back");
        last = at;
        for event in &events {
            let Some(show) = &mut show else {
                let Event::Created { plan } = event else { panic!("{event:?} came first") };
                show = Some(Show::open(plan, at).unwrap());
                continue;
            };
            show.admits(event).unwrap();
            heard.extend(told(show, event));
            match event {
                Event::Held(held) => {
                    held.replaced.as_ref().map(|token| deadlines.remove(token));
                    deadlines.insert(held.token.clone(), held.until);
                }
                Event::Extended { token, until } => drop(deadlines.insert(token.clone(), *until)),
                Event::Expired { token } => {
                    let until = deadlines.remove(token).expect("a hold expires once");
                    assert!(until <= at, "{token:?} expired early");
                    expired += 1;
                }
                Event::Confirmed { token, .. } => drop(deadlines.remove(token)),
                Event::Released { token, seats } => {
                    let claim = show.claims().get(show.claims().find(token).unwrap());
                    if claim.seats == *seats {
                        deadlines.remove(token);
                    }
                }
                _ => {}
            }
            show.apply(at, event);
        }
    }
    eprintln!("{} events and {expired} expiries", heard.len());
    assert!(heard.len() > 500 && expired > 5, "little happened");
    assert_eq!(heard, run.done, "what was replicated, and what the replies said");
    let lasting: Vec<&[u8]> = run.lasting().map(|(token, _)| token.as_bytes()).collect();
    assert_eq!(deadlines.keys().map(|token| &token[..]).collect::<Vec<_>>(), lasting);
    // The events alone make the very bytes that the master would save.
    let (bytes, dump) = (show.unwrap().encode(), server.raw().words("DUMP show"));
    let Reply::Bulk(dump) = dump else { panic!("{dump:?}") };
    assert!(dump.windows(bytes.len()).any(|part| part == bytes), "the events make another show");
}

#[test]
fn refused_requests_and_repeated_ones_replicate_nothing() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    let mut client = server.raw();
    hold(&mut client, "show", "ann", 2, LONG_TTL_MS, "t");
    let mut stream = ReplicationStream::attach(&server);
    let same = "SEAT.HOLD show ann 2 TTL 5 TOKEN t";
    assert!(matches!(client.words(same), Reply::Array(_)));
    for line in [
        "SEAT.HOLD show bob 100 TTL 1000 TIER gold",
        "SEAT.HOLD show bob 1 TTL 1000 TOKEN t",
        "SEAT.PICK show bob TTL 1000 SEATS 1 nowhere",
        "SEAT.CONFIRM show nothing",
        "SEAT.RELEASE show t SEATS 1 back-1-1",
        "SEAT.REFUND show 1 left-A-1",
        "SEAT.UNBLOCK show 1 left-A-1",
        "SEAT.EXTEND show nothing TTL 10",
        "SEAT.ALTER show {}",
        "SEAT.STAT show",
    ] {
        client.words(line);
    }
    assert_eq!(client.call(&["SEAT.CREATE", "show", THEATRE]), Reply::Simple("OK".into()));
    assert_eq!(readable(&stream.drain()), "");
}

#[test]
fn the_internal_command_is_refused_to_every_client() {
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut stream = ReplicationStream::attach(&master);
    create(&master, "show", THEATRE);
    hold(&mut master.raw(), "show", "ann", 2, LONG_TTL_MS, "t");
    let mut commands = stream.drain();
    let payload = commands.pop().unwrap().pop().unwrap();
    let created = commands.pop().unwrap().pop().unwrap();
    master.wait_offset_equal(&replica);
    let digest = master.digest();
    let refused = "ERR this command carries what a master decided; it is not for clients";
    let try_all = |server: &RedisServer| {
        let mut client = server.raw();
        for (key, payload) in [("show", &payload), ("new", &created), ("new", &payload)] {
            let apply: [&[u8]; 3] = [b"SEAT.APPLY", key.as_bytes(), payload];
            assert_eq!(client.call(&apply).error(), refused);
            client.words("MULTI");
            client.call(&apply);
            assert_eq!(client.words("EXEC").array()[0].error(), refused);
            let script = b"return redis.call('SEAT.APPLY', KEYS[1], ARGV[1])";
            let eval: [&[u8]; 5] = [b"EVAL", script, b"1", key.as_bytes(), payload];
            assert!(client.call(&eval).error().starts_with(refused));
        }
    };
    try_all(&master);
    replica.command("CONFIG SET replica-read-only no");
    try_all(&replica);
    replica.command("CONFIG SET replica-read-only yes");
    let apply: [&[u8]; 3] = [b"SEAT.APPLY", b"show", &payload];
    assert!(replica.raw().call(&apply).error().starts_with("READONLY "));
    assert_eq!((master.digest(), replica.digest()), (digest.clone(), digest));
}
