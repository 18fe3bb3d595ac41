//! Realms on whoever hears or reads what a master decided: the exact stream of replication, replicas, restarts,
//! failovers that are asked for.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use std::collections::BTreeSet;

use allot_core::conf::{Event, Realm as State};
use allot_core::shared::codec::Reader;
use allot_core::shared::machine::MachineEvent;
use allot_tests::realms::{REALM, Realm, RealmStorm, UNITS};
use allot_tests::shows::{allot_info, clock, no_internal_errors};
use allot_tests::stream::{Command, readable};
use allot_tests::wait::GENEROUS;
use allot_tests::{RedisServer, ReplicationStream, Reply, eventually, soak};

/// A `CONF.APPLY` as it was replicated: its time, and its events.
fn events_of(command: &Command) -> (i64, Vec<Event>) {
    assert_eq!((command.len(), &command[0][..]), (3, &b"CONF.APPLY"[..]));
    let mut reader = Reader::new(&command[2]);
    assert_eq!(reader.unsigned(), Ok(1), "the version of the payload");
    let at = reader.signed().expect("a time");
    (at, Event::decode_all(reader.rest()).expect("events").into_vec())
}

fn words(command: &Command) -> Vec<String> {
    command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Waits until no more happens by itself for a while.
fn settled(server: &RedisServer) {
    let mut realm = Realm::of(server);
    // No more timeouts, and no more trimming while digests are compared.
    realm.ok("CONF.REALM RETRY 3600000 CREATETIMEOUT 3600000 RELEASETIMEOUT 3600000 WAITTIMEOUT 3600000");
    for host in 0..5 {
        let units = realm.ok("CMU.LIST");
        for unit in units.array() {
            let cmu = unit.field("cmu").text();
            if cmu.starts_with(&format!("h{host}:")) && unit.field("state").text() != "down" {
                realm.ok(&format!("CMU.JOIN {cmu} CAPACITY 12 LEASE 3600000"));
            }
        }
    }
    eventually("all to be sent", GENEROUS, || realm.stat("unsent") == 0 && realm.stat("dropped") == 0);
}

fn storm(server: &RedisServer, seed: u64, steps: usize) -> RealmStorm {
    let mut storm = RealmStorm::new(server, seed);
    storm.realm.ok("CONF.REALM RETRY 50 CREATETIMEOUT 200 RELEASETIMEOUT 100 WAITTIMEOUT 100");
    storm.run(steps);
    settled(server);
    storm
}

#[test]
fn a_creation_is_one_transaction_of_its_messages_and_its_result() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let mut stream = ReplicationStream::attach(&server);
    let (_, epoch) = realm.begin("7", "SIZE 2");
    let commands = stream.drain();
    let names: Vec<String> = commands.iter().map(|command| words(command)[0].clone()).collect();
    assert_eq!(names, ["MULTI", "XADD", "XADD", "CONF.APPLY", "EXEC"], "{}", readable(&commands));
    let create = words(&commands[1]);
    assert_eq!((create[1].as_str(), create[4].as_str()), (&*format!("{REALM}:cmd:a:1:1"), "CREATE"));
    assert_eq!(words(&commands[2])[1], format!("{REALM}:evt"));
    let (at, events) = events_of(&commands[3]);
    let [Event::Created(created), Event::Flushed { sent, last_id }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((&created.e164[..], created.epoch as i64, created.size), (&b"7"[..], epoch, 2));
    assert_eq!(sent, &[(b"cmd:a:1:1".to_vec(), 1), (b"evt".to_vec(), 1)]);
    assert!(last_id.0 as i64 >= at);
    // A write of details says nothing to anybody, and is as small as can be.
    realm.ok(&format!("CONF.SET 7 a:1:1 {epoch} 1 members 3"));
    let commands = stream.drain();
    assert_eq!(commands.len(), 1, "{}", readable(&commands));
    let (_, events) = events_of(&commands[0]);
    assert!(matches!(&events[..], [Event::Set { seq: 1, .. }]), "{events:?}");
    assert!(commands[0][2].len() < 40);
}

#[test]
fn whoever_waits_for_a_stream_watches_it_or_listens_hears_of_each_entry() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (commands, transitions) = (format!("{REALM}:cmd:a:1:1"), format!("{REALM}:evt"));
    realm.client.words("CONFIG SET notify-keyspace-events Et");
    let (mut listener, mut watcher) = (server.raw(), server.raw());
    listener.words("PSUBSCRIBE __keyevent@0__:*");
    watcher.words(&format!("WATCH {transitions}"));
    // One of them is there already, the other is not.
    assert_eq!(realm.client.words(&format!("EXISTS {commands} {transitions}")), Reply::Int(1));
    let waiting =
        [(&commands, "0", "CREATE"), (&transitions, "$", "created")].map(|(stream, from, event)| {
            let mut client = server.raw();
            client.send(&["XREAD", "BLOCK", "0", "STREAMS", stream, from]);
            (client, event)
        });
    eventually("two clients to wait", GENEROUS, || server.info_field("clients", "blocked_clients") == "2");
    realm.begin("7", "");
    for (mut client, event) in waiting {
        assert!(format!("{:?}", client.read()).contains(&format!("{:?}", Reply::bulk(event))), "{event}");
    }
    for stream in [&commands, &transitions] {
        let heard: Vec<String> = listener.read().array()[2..].iter().map(Reply::text).collect();
        assert_eq!(heard, ["__keyevent@0__:xadd", stream]);
    }
    watcher.words("MULTI");
    assert!(watcher.words("EXEC").is_null(), "nobody who watches the stream was told");
}

#[test]
fn where_the_operator_took_the_command_away_entries_wait_and_are_nowhere() {
    let server = RedisServer::builder().arg("rename-command", "XADD hidden").start();
    let mut stream = ReplicationStream::attach(&server);
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.begin("7", "");
    // The unit that joined, the conference's creation, and the unit's order.
    assert_eq!(realm.stat("unsent"), 3);
    assert_eq!(realm.client.words(&format!("EXISTS {REALM}:evt {REALM}:cmd:a:1:1")), Reply::Int(0));
    assert!(stream.drain().iter().all(|command| command[0] == b"CONF.APPLY"));
}

#[test]
fn refused_requests_and_repeated_ones_replicate_nothing() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (_, epoch) = realm.begin("7", "REQUEST r");
    realm.ok(&format!("CONF.ACK 7 a:1:1 {epoch}"));
    let mut stream = ReplicationStream::attach(&server);
    for line in [
        "CONF.CREATE 7 REQUEST r",
        "CONF.CREATE 7",
        "CONF.CREATE 8 SIZE 1000000",
        &format!("CONF.ACK 7 a:1:1 {epoch}"),
        &format!("CONF.NACK 7 a:1:1 {epoch}"),
        "CONF.ENDED 7 a:1:1 1",
        "CONF.SET 7 a:1:1 1 1 a b",
        "CONF.SET 7 b:1:1 1 1 a b",
        "CONF.RELEASE 8",
        "CONF.MOVE 7",
        "CONF.RECOVER",
        "CONF.RECOVER TERM 3",
        "CMU.BEAT b:1:1",
        "CONF.REALM",
        "CONF.REALM RETRY 300000",
        "CONF.LIST",
        "CONF.PLAN DOWN a:1:1",
    ] {
        realm.call(line);
    }
    assert_eq!(readable(&stream.drain()), "");
}

#[test]
fn the_stream_alone_makes_the_very_bytes_of_the_master() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut stream = ReplicationStream::attach(&server);
    storm(&server, 61, soak(1500, 15_000));
    let mut state: Option<State> = None;
    let (mut epochs, mut entries, mut told) = (BTreeSet::new(), 0, 0);
    for command in stream.drain() {
        match &command[0][..] {
            b"MULTI" | b"EXEC" | b"UNLINK" | b"XTRIM" => continue,
            b"XADD" => {
                entries += 1;
                continue;
            }
            _ => {}
        }
        let (at, events) = events_of(&command);
        for event in events {
            let Some(state) = &mut state else {
                let Event::Opened { settings } = event else { panic!("{event:?} came first") };
                state = Some(State::open(settings, at));
                continue;
            };
            let epoch = match &event {
                Event::Created(created) => Some(created.epoch),
                Event::Granted { epoch, .. } | Event::Adopted { epoch, .. } | Event::Moving { epoch, .. } => {
                    Some(*epoch)
                }
                _ => None,
            };
            assert!(epoch.is_none_or(|epoch| epochs.insert(epoch)), "an epoch was given out twice");
            if let Event::Flushed { sent, .. } = &event {
                told += sent.iter().map(|(_, count)| *count as usize).sum::<usize>();
            }
            state.admits(&event).unwrap();
            state.apply(at, &event);
        }
    }
    eprintln!("{} assignments, {entries} entries", epochs.len());
    assert!(epochs.len() > 100 && entries > 500, "little happened");
    assert!(told >= entries, "each entry is one message; the others end streams");
    let (bytes, dump) = (state.unwrap().encode(), server.raw().call(&["DUMP", REALM]));
    let Reply::Bulk(dump) = dump else { panic!("{dump:?}") };
    assert!(dump.windows(bytes.len()).any(|part| part == bytes), "the events make another realm");
    no_internal_errors(&server);
}

#[test]
fn replicas_reloads_and_append_only_files_hold_what_their_master_holds() {
    for preamble in ["yes", "no"] {
        let master = RedisServer::builder()
            .arg("appendonly", "yes")
            .arg("appendfsync", "always")
            .arg("aof-use-rdb-preamble", preamble)
            .start();
        let replica = RedisServer::strict().start();
        replica.replica_of(&master);
        storm(&master, 62, soak(800, 8000));
        let late = RedisServer::strict().start();
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
        replica.kill9();
        late.kill9();
        // The timer of a master trims its streams, so only the realm itself stays as it is from here on.
        let value = master.digest_value(REALM);
        assert_eq!(master.command("DEBUG RELOAD"), redis::Value::Okay);
        assert_eq!(master.digest_value(REALM), value, "after DEBUG RELOAD");
        master.kill9();
        master.restart();
        assert_eq!(master.digest_value(REALM), value, "from the file, preamble {preamble}");
        master.command("BGREWRITEAOF");
        eventually("the rewrite to end", GENEROUS, || {
            let info = master.info("persistence");
            info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
        });
        master.kill9();
        master.restart();
        assert_eq!(master.digest_value(REALM), value, "after a rewrite, preamble {preamble}");
        no_internal_errors(&master);
    }
}

#[test]
fn coordinated_failovers_lose_no_conference_and_no_message() {
    let (one, other) = (RedisServer::strict().start(), RedisServer::strict().start());
    other.replica_of(&one);
    let mut realm = Realm::create(&one, &UNITS);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    let mut epochs = Vec::new();
    for round in 0..4 {
        let (old, new) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let mut realm = Realm::of(old);
        for number in 0..50 {
            epochs.push(realm.begin(&format!("{round}-{number}"), "").1);
        }
        old.command("FAILOVER");
        eventually("the roles to change", GENEROUS, || {
            old.info_field("replication", "role") == "slave"
                && new.info_field("replication", "role") == "master"
        });
        old.wait_replica_synced();
    }
    let mut realm = Realm::of(&one);
    assert_eq!(realm.stat("creating"), 200);
    eventually("all messages to be sent", GENEROUS, || realm.stat("unsent") == 0);
    let told: Vec<String> =
        realm.entries("evt").into_iter().filter(|line| line.starts_with("created")).collect();
    assert_eq!(told.len(), 200);
    let commands: usize = UNITS.iter().map(|cmu| realm.entries(&format!("cmd:{cmu}")).len()).sum();
    assert_eq!(commands, 200);
    let all: BTreeSet<i64> = epochs.iter().copied().collect();
    assert_eq!(all.len(), epochs.len(), "an epoch was given out twice");
    one.wait_offset_equal(&other);
    assert_eq!(one.digest(), other.digest());
}

#[test]
fn nothing_is_timed_out_on_a_replica_and_all_of_it_once_it_is_master() {
    let (master, replica) = (RedisServer::strict().start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut realm = Realm::create(&master, &["a:1:1"]);
    realm.ok("CONF.REALM CREATETIMEOUT 3000");
    for number in 0..20 {
        realm.begin(&number.to_string(), "");
    }
    let created = clock(&mut realm.client);
    let all_there = realm.stat("creating") == 20;
    master.wait_offset_equal(&replica);
    master.kill9();
    let creating = |server: &RedisServer| Realm::of(server).stat("creating");
    if all_there && creating(&replica) == 20 {
        eventually("the time-outs to pass", GENEROUS, || clock(&mut replica.raw()) > created + 3500);
        assert_eq!(creating(&replica), 20);
    }
    replica.command("REPLICAOF NO ONE");
    eventually("the creations to be given up", GENEROUS, || creating(&replica) == 0);
    let mut realm = Realm::of(&replica);
    eventually("all to be told", GENEROUS, || realm.stat("unsent") == 0);
    assert_eq!(realm.entries("cmd:a:1:1").len(), 40, "a CREATE and a RELEASE each");
    assert_eq!(allot_info(&replica, "conf_ended"), 20);
}
