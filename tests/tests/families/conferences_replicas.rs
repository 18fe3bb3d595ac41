//! What only realms promise to replicas: messages and results are one transaction, and nothing is lost in a failover.

use std::collections::BTreeSet;

use allot_core::conf::{ConferenceEvent, Event};
use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::shows::{allot_info, clock};
use allot_tests::stream::{Command, readable};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, Reply, eventually};

use crate::conferences::Conferences;
use crate::family::decode_apply;

fn words(command: &Command) -> Vec<String> {
    command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[test]
fn a_creation_is_one_transaction_of_its_messages_and_its_result() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let mut stream = ReplicationStream::attach(&server);
    let (_, epoch) = realm.begin("7", "SIZE 2");
    let commands = stream.drain();
    let names: Vec<String> = commands.iter().map(|command| words(command)[0].clone()).collect();
    assert_eq!(
        names,
        ["MULTI", "CONF.APPLY", "XADD", "XADD", "CONF.APPLY", "EXEC"],
        "{}",
        readable(&commands)
    );
    let create = words(&commands[2]);
    assert_eq!((create[1].as_str(), create[4].as_str()), (&*format!("{REALM}:cmd:a:1:1"), "CREATE"));
    assert_eq!(words(&commands[3])[1], format!("{REALM}:evt"));
    let (at, events) = decode_apply::<Conferences>(&commands[1]);
    let [Event::Created(created)] = &events[..] else { panic!("{events:?}") };
    let (_, events) = decode_apply::<Conferences>(&commands[4]);
    let [Event::Flushed { sent, last_id }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&created.e164[..], created.epoch as i64, created.size), (&b"7"[..], epoch, 2));
    assert_eq!(sent, &[(b"cmd:a:1:1".to_vec(), 1), (b"evt".to_vec(), 1)]);
    assert!(last_id.0 as i64 >= at);
    // A write of details says nothing to anybody, and is as small as can be.
    realm.ok(&format!("CONF.SET 7 a:1:1 {epoch} 1 members 3"));
    let commands = stream.drain();
    assert_eq!(commands.len(), 1, "{}", readable(&commands));
    let (_, events) = decode_apply::<Conferences>(&commands[0]);
    assert!(
        matches!(&events[..], [Event::Conference { event: ConferenceEvent::Set { seq: 1, .. }, .. }]),
        "{events:?}"
    );
    assert!(commands[0][2].len() < 40);
}

#[test]
fn waiting_watching_and_listening_clients_hear_of_each_entry() {
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
    eventually("two clients to wait", TIMEOUT, || server.info_field("clients", "blocked_clients") == "2");
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
fn entries_wait_when_the_operator_has_renamed_xadd() {
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
        eventually("the roles to change", TIMEOUT, || {
            old.role().as_deref() == Some("slave") && new.role().as_deref() == Some("master")
        });
        old.wait_replica_synced();
    }
    let mut realm = Realm::of(&one);
    assert_eq!(realm.stat("creating"), 200);
    eventually("all messages to be sent", TIMEOUT, || realm.stat("unsent") == 0);
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
        eventually("the time-outs to pass", TIMEOUT, || clock(&mut replica.raw()) > created + 3500);
        assert_eq!(creating(&replica), 20);
    }
    replica.command("REPLICAOF NO ONE");
    eventually("the creations to be given up", TIMEOUT, || creating(&replica) == 0);
    let mut realm = Realm::of(&replica);
    eventually("all to be told", TIMEOUT, || realm.stat("unsent") == 0);
    assert_eq!(realm.entries("cmd:a:1:1").len(), 40, "a CREATE and a RELEASE each");
    assert_eq!(allot_info(&replica, "conf_ended"), 20);
}
