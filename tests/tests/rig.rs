//! The rig itself, tried on plain Redis: what the other tests lean on must bear.

use std::time::Duration;

use allot_core::conf::{ConferenceEvent, Event};
use allot_core::shared::codec::Writer;
use allot_tests::stream::readable;
use allot_tests::wait::TIMEOUT;
use allot_tests::writes::Assignments;
use allot_tests::{Cluster, RedisServer, ReplicationStream, Reply, allot, allotd, eventually, liballot};

fn plain() -> RedisServer {
    RedisServer::builder().module(false).start()
}

#[test]
fn a_server_starts_and_answers_in_both_protocols() {
    let server = plain();
    let mut resp2 = server.raw();
    assert_eq!(resp2.words("PING"), Reply::Simple("PONG".into()));
    assert_eq!(resp2.words("GET absent"), Reply::NullBulk);
    assert_eq!(resp2.words("BLPOP absent 0.01"), Reply::NullArray);
    assert_eq!(resp2.words("CONFIG GET maxmemory").array().len(), 2);
    let mut resp3 = server.raw();
    resp3.hello3();
    assert_eq!(resp3.words("GET absent"), Reply::Null);
    assert_eq!(resp3.words("CONFIG GET maxmemory").field("maxmemory").text(), "0");
    assert!(matches!(resp3.words("CONFIG GET maxmemory"), Reply::Map(_)));
    let binary = [0u8, 13, 10, 255];
    assert_eq!(resp3.call(&[b"SET".as_slice(), b"bin", &binary]), Reply::Simple("OK".into()));
    assert_eq!(resp3.words("GET bin"), Reply::bulk(binary));
    assert!(resp3.words("HGETALL bin").error().starts_with("WRONGTYPE "));
    let pong: String = redis::cmd("PING").query(&mut server.connection_resp3()).unwrap();
    assert_eq!(pong, "PONG");
}

#[test]
fn killed_server_comes_back_from_its_append_only_file() {
    let server =
        RedisServer::builder().module(false).arg("appendonly", "yes").arg("appendfsync", "always").start();
    server.command("SET kept 1");
    let (port, digest, pid) = (server.port(), server.digest(), server.pid());
    server.kill9();
    assert!(!server.is_running());
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.digest(), digest);
    assert_eq!(server.raw().words("GET kept"), Reply::bulk("1"));
}

#[test]
fn an_orderly_shutdown_saves_and_a_restart_loads() {
    let server = RedisServer::builder().module(false).arg("save", "3600 1").start();
    server.command("SET kept 1");
    server.shutdown();
    assert!(server.dir().join("dump.rdb").is_file());
    server.restart();
    assert_eq!(server.raw().words("GET kept"), Reply::bulk("1"));
}

#[test]
fn a_paused_server_holds_its_answers_back_until_it_is_resumed() {
    let server = plain();
    let mut connection = server.connection();
    connection.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    server.pause();
    assert!(redis::cmd("PING").query::<String>(&mut connection).is_err());
    server.resume();
    assert_eq!(server.raw().words("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn a_replica_gets_in_step_and_holds_the_same_data() {
    let (master, replica) = (plain(), plain());
    master.command("SET before 1");
    replica.replica_of(&master);
    master.command("SET after 2");
    master.wait_offset_equal(&replica);
    assert_eq!(master.digest(), replica.digest());
    assert_ne!(master.digest(), "0".repeat(40));
    assert_eq!(master.digest_value("after"), replica.digest_value("after"));
    assert_ne!(master.digest_value("after"), master.digest_value("before"));
}

#[test]
fn a_captured_stream_shows_exactly_what_was_replicated() {
    let server = plain();
    server.command("SET snapshot 1");
    let mut stream = ReplicationStream::attach(&server);
    server.command("SET a 1");
    server.command("GET a");
    server.command("INCR a");
    server.command("SET end 1");
    assert_eq!(readable(&stream.commands_until("end")), "SET a 1\nINCR a");
    server.command("DEL a");
    assert_eq!(readable(&stream.drain()), "DEL a");
    assert!(stream.drain().is_empty());
}

#[test]
fn a_cluster_of_three_with_replicas_comes_up_and_routes_keys() {
    let cluster = Cluster::start_with(3, 1, &RedisServer::builder().module(false));
    assert_eq!(cluster.nodes().count(), 6);
    for key in ["a", "b", "c", "{tag}:x"] {
        let node = cluster.master_for(key);
        assert_eq!(node.raw().call(&["SET", key, "1"]), Reply::Simple("OK".into()));
    }
    let index = cluster.masters().iter().position(|m| std::ptr::eq(m, cluster.master_for("a"))).unwrap();
    let (master, replica) = (&cluster.masters()[index], &cluster.replicas()[index]);
    master.wait_offset_equal(replica);
    assert_eq!(master.digest(), replica.digest());
    let other = cluster.masters().iter().find(|m| m.port() != cluster.master_for("a").port()).unwrap();
    assert!(other.raw().words("GET a").error().starts_with("MOVED "));
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let failed = std::panic::catch_unwind(|| {
        RedisServer::builder().module(false).arg("no-such-setting", "1").start();
    });
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("no-such-setting"), "{message}");
}

#[test]
fn dropping_a_server_ends_its_process() {
    let server = plain();
    let process = std::path::PathBuf::from(format!("/proc/{}", server.pid()));
    assert!(process.exists());
    drop(server);
    assert!(!process.exists());
}

#[test]
fn server_that_counted_an_error_fails_its_test_unless_expected() {
    let with_a_bad_command = |builder: allot_tests::redis_server::Builder| {
        let server = builder.module(false).arg("appendonly", "yes").arg("appendfsync", "always").start();
        server.command("SET text a");
        server.kill9();
        let files = std::fs::read_dir(server.dir().join("appendonlydir")).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let file = files.find(|file| file.to_str().unwrap().ends_with(".incr.aof")).unwrap();
        let bytes = [std::fs::read(&file).unwrap(), allot_tests::raw::encode(&["INCR", "text"])].concat();
        std::fs::write(&file, bytes).unwrap();
        server.restart();
        server
    };
    let server = with_a_bad_command(RedisServer::builder());
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(server)));
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("unexpected_error_replies is 1\n"), "{message}");
    drop(with_a_bad_command(RedisServer::builder().expect_errors()));
}

#[test]
fn wait_that_times_out_names_its_condition() {
    let failed = std::panic::catch_unwind(|| eventually("pigs to fly", Duration::ZERO, || false));
    assert!(failed.unwrap_err().downcast::<String>().unwrap().contains("pigs to fly"));
    let mut calls = 0;
    eventually("the third call", TIMEOUT, || {
        calls += 1;
        calls == 3
    });
}

#[test]
fn the_module_and_the_programs_are_built_and_found() {
    assert!(liballot().ends_with("liballot.so"), "{}", liballot().display());
    assert!(allotd().ends_with("allotd"), "{}", allotd().display());
    assert!(allot().ends_with("allot"), "{}", allot().display());
}

#[test]
fn a_write_of_an_older_assignment_after_a_newer_one_is_noticed() {
    let mut assignments = Assignments::default();
    let of = |event| Event::Conference { e164: b"49".as_slice().into(), event };
    let set = |epoch: u64| {
        let mut fields = Writer::default();
        for part in ["a", "b", "chatter", &format!("unit {epoch} 1 2")] {
            fields.string(part.as_bytes());
        }
        of(ConferenceEvent::Set { seq: 1, fields: fields.bytes })
    };
    let granted = |epoch| of(ConferenceEvent::Granted { cmu: b"unit".as_slice().into(), epoch });
    for (event, expected) in [
        (set(4), Some(Ok(()))),
        (granted(5), None),
        (set(5), Some(Ok(()))),
        (set(6), Some(Ok(()))),
        (granted(7), None),
    ] {
        assert_eq!(assignments.judge(&event), expected, "{event:?}");
    }
    let verdict = assignments.judge(&set(6));
    assert_eq!(verdict, Some(Err("49: a write of unit at 6 was accepted after 7".to_owned())));
}
