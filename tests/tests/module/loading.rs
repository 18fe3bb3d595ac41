//! How the module is loaded, and what CONFIG REWRITE and Sentinel make of it.

use std::fs;

use allot_tests::module::liballot;
use allot_tests::shows::{allot_info, create, hold, sample_venue};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, Sentinel, eventually};

const LOADED_TWICE: &str = "allot: this server has loaded the module already";

fn load_lines(server: &RedisServer) -> usize {
    let text = fs::read_to_string(server.dir().join("redis.conf")).expect("the configuration can be read");
    text.lines().filter(|line| line.starts_with("loadmodule ")).count()
}

#[test]
fn server_starts_after_config_rewrite() {
    let server = RedisServer::builder().module_arg("seat-max-count 7").start();
    for count in ["7", "9"] {
        server.command("CONFIG REWRITE");
        server.command("CONFIG REWRITE");
        assert_eq!(load_lines(&server), 1);
        server.shutdown();
        server.restart();
        let setting: Vec<String> = redis::cmd("CONFIG")
            .arg("GET")
            .arg("allot.seat-max-count")
            .query(&mut server.connection())
            .unwrap();
        assert_eq!(setting[1], count);
        server.command("CONFIG SET allot.seat-max-count 9");
    }
}

#[test]
fn both_servers_start_after_a_failover_by_sentinel() {
    let master = RedisServer::start();
    let replica = RedisServer::start();
    replica.replica_of(&master);
    let sentinel = Sentinel::of(&master);
    sentinel.knows_replicas(1);
    eventually("the failover to begin", TIMEOUT, || {
        sentinel.ask("FAILOVER") == Some(Reply::Simple("OK".into()))
    });
    for (server, role) in [(&replica, "master"), (&master, "slave")] {
        eventually("the roles to change", TIMEOUT, || server.role().as_deref() == Some(role));
    }
    drop(sentinel);
    for server in [&replica, &master] {
        server.kill9();
        server.restart();
        assert_eq!(load_lines(server), 1);
    }
    master.wait_replica_synced();
}

#[test]
fn log_names_the_line_to_remove_if_the_module_is_loaded_twice() {
    let folder = tempfile::tempdir().unwrap();
    let included = folder.path().join("allot.conf");
    fs::write(&included, format!("loadmodule {}\n", liballot().display())).unwrap();
    let server = RedisServer::builder().module(false).arg("include", &included.display().to_string()).start();
    // The server does not know that the line is in the included file, and writes one into its main file.
    server.command("CONFIG REWRITE");
    assert_eq!(load_lines(&server), 1);
    server.shutdown();
    let why = server.try_restart().expect_err("the server has started with the module twice");
    assert!(why.contains(LOADED_TWICE), "{why}");
    fs::remove_file(&included).unwrap();
    fs::write(&included, "").unwrap();
    server.restart();
}

#[test]
fn settings_that_may_lose_shows_are_named_in_the_log_and_counted() {
    let server =
        RedisServer::builder().arg("maxmemory", "1gb").arg("maxmemory-policy", "allkeys-lru").start();
    let warnings = |count| {
        eventually("the settings to be looked at", TIMEOUT, || allot_info(&server, "warnings") == count);
    };
    warnings(2);
    assert!(server.log().contains("allot: maxmemory-policy may evict shows"), "{}", server.log());
    assert!(server.log().contains("allot: neither save nor appendonly is set"), "{}", server.log());
    server.command("CONFIG SET maxmemory-policy noeviction");
    server.command("CONFIG SET appendonly yes");
    warnings(0);
}

#[test]
fn server_whose_settings_nobody_may_read_gets_no_warning() {
    let settings =
        [("rename-command", "CONFIG \"\""), ("maxmemory", "1gb"), ("maxmemory-policy", "allkeys-lru")];
    let server =
        settings.iter().fold(RedisServer::builder(), |server, (name, value)| server.arg(name, value)).start();
    let mut client = server.raw();
    // A hold ends by the timer, which has looked at the settings by then.
    create(&server, "show", &sample_venue(1, 5));
    hold(&mut client, "show", "ann", 1, 100, "a");
    eventually("the hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 1);
    assert_eq!(allot_info(&server, "warnings"), 0);
    assert!(!server.log().contains("neither save nor appendonly"), "{}", server.log());
}

#[test]
fn replica_without_the_module_is_named_in_the_log_and_counted() {
    let master = RedisServer::builder().arg("appendonly", "yes").start();
    let warnings = |count| {
        eventually("the replicas to be asked", TIMEOUT, || allot_info(&master, "warnings") == count);
    };
    let bare = RedisServer::builder().module(false).start();
    let loaded = RedisServer::start();
    bare.replica_of(&master);
    loaded.replica_of(&master);
    warnings(1);
    assert!(master.log().contains("does not load this module"), "{}", master.log());
    bare.shutdown();
    warnings(0);
}
