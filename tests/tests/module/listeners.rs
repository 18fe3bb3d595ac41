//! Another module that listens to notifications may change, rename or delete any key, the one that was just changed
//! included. The server goes on, nothing that was freed is used, and a replica has the same data.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use allot_tests::launch::redis_server_binary;
use allot_tests::preload::listener;
use allot_tests::raw::RawClient;
use allot_tests::shows::{no_internal_errors, sample_venue, with_events};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

const SHOW: &str = "{l}show";
const POOL: &str = "{l}pool";
const REALM: &str = "{l}realm";
const BOOK: &str = "{l}book";

/// Notifications at which the listener acts, with the keys that it acts on.
const EVENTS: [(&str, &[&str]); 11] = [
    ("new", &["%"]),
    ("xadd", &[SHOW, POOL, REALM, BOOK]),
    ("allot.seat.held", &["%"]),
    ("allot.seat.expired", &["%"]),
    ("allot.numpool.called", &["%", REALM]),
    ("allot.numpool.expired", &["%"]),
    ("allot.conf.created", &["%", POOL]),
    ("allot.cmu.down", &["%"]),
    ("allot.account.login", &["%"]),
    ("allot.account.attached", &["%"]),
    ("expired", &[SHOW, POOL, REALM, BOOK]),
];

/// What the listener does to a key. A command that does not fit the type of the key is refused.
const ACTIONS: [&[&str]; 6] = [
    &["DEL KEY"],
    &["UNLINK KEY"],
    &["RENAME KEY {l}other"],
    &["SET KEY text"],
    // Reads and other keys.
    &["SEAT.STAT KEY", "NUMPOOL.INFO KEY", "CONF.STAT KEY", "ACCOUNT.INFO KEY", "INCR {l}counter"],
    // Changes of the same key.
    &[
        "SEAT.HOLD KEY eve 1 TTL 60000",
        "NUMPOOL.ADD KEY 1999",
        "NUMPOOL.HANGUP KEY 1000",
        "CONF.CREATE KEY 99",
        "CONF.RELEASE KEY 7",
        "ACCOUNT.LOGOUT KEY a1 i:1 t 1",
        "ACCOUNT.DETACH KEY m i:1",
    ],
];

/// Uses all families for a moment. Errors are expected: the listener deletes keys.
fn work(client: &mut RawClient) {
    client.call(&["SEAT.CREATE", SHOW, &with_events(&sample_venue(2, 5), 50)]);
    for line in [
        "SEAT.HOLD {l}show ann 2 TTL 60000 TOKEN a",
        "SEAT.CONFIRM {l}show a",
        "SEAT.HOLD {l}show bob 2 TTL 20 TOKEN b",
        "NUMPOOL.CONFIG {l}pool EVENTS 50",
        "NUMPOOL.ADD {l}pool 1000 1001 1002 1003",
        "NUMPOOL.REG {l}pool 1000 1001 1002 1003",
        "NUMPOOL.CALL {l}pool TTL 20 LEASE x",
        "NUMPOOL.CALL {l}pool LEASE y",
        "CONF.REALM {l}realm",
        "CMU.JOIN {l}realm u:1:1 CAPACITY 100 LEASE 3600000",
        "CONF.CREATE {l}realm 7",
        "CONF.CREATE {l}realm * FROM {l}pool NORECOVER",
        "CMU.DOWN {l}realm u:1:1",
        "ACCOUNT.BOOK {l}book EVENTS 50",
        "ACCOUNT.MODULE {l}book m DEPARTMENT d INSTANCES 1",
        "ACCOUNT.ADD {l}book m QUOTA 100 ACCOUNTS 2 a1 a2",
        "ACCOUNT.ATTACH {l}book m i:1",
        "ACCOUNT.LOGIN {l}book a1 i:1 t TTL 20",
        // The next entry of the stream finds a stream that has expired.
        "PEXPIRE {l}show:evt 1",
        "SEAT.HOLD {l}show cid 1 TTL 60000",
    ] {
        client.words(line);
    }
    // The timer ends what has a deadline of 20 ms.
    thread::sleep(Duration::from_millis(130));
}

/// Has the listener act in all ways at all events.
fn run(server: &RedisServer) {
    let mut client = server.raw();
    let mut runs = 0;
    for (event, keys) in EVENTS {
        // The server itself ends if a new key is deleted or renamed before it has told everybody of it.
        let actions = if event == "new" { &ACTIONS[4..] } else { &ACTIONS[..] };
        for action in actions {
            client.words("FLUSHALL");
            client.words("LISTENER.OFF");
            for (key, line) in keys.iter().flat_map(|key| action.iter().map(move |line| (key, line))) {
                let line = line.replace("KEY", key);
                assert!(client.words(&format!("LISTENER.ON {event} {line}")).int() > 0);
            }
            work(&mut client);
            let before = std::mem::replace(&mut runs, client.words("LISTENER.RUNS").int());
            assert!(runs > before, "nothing was run at {event}");
            assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
        }
    }
    client.words("LISTENER.OFF");
}

fn server(program: Option<&Path>) -> RedisServer {
    let load = listener().display().to_string();
    let builder = RedisServer::builder().arg("loadmodule", &load).arg("notify-keyspace-events", "");
    program.map_or(builder.clone(), |program| builder.server(program)).start()
}

#[test]
fn listeners_may_change_every_key() {
    let (master, replica) = (server(None), RedisServer::strict().start());
    replica.replica_of(&master);
    run(&master);
    no_internal_errors(&master);
    // The server tells the replica of a key that expired after what a listener did at `expired`, so the replica deletes the
    // entries that the listener had added to the stream. The stream that expires is not compared.
    master.command(&format!("DEL {SHOW}:evt"));
    // The timer may change a value between two looks.
    eventually("the replica to have the same data", TIMEOUT, || master.digest() == replica.digest());
}

#[test]
fn listeners_let_nothing_be_used_that_was_freed() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("there is no valgrind: `scripts/deps.sh --valgrind` installs it");
        assert!(std::env::var_os("CI").is_none(), "CI has valgrind");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (program, log) = (folder.path().join("server"), folder.path().join("valgrind"));
    let text = format!(
        "#!/bin/sh\nexec valgrind --quiet --undef-value-errors=no --soname-synonyms=somalloc=*jemalloc* \
         --log-file={} {} \"$@\"\n",
        log.display(),
        redis_server_binary().display()
    );
    fs::write(&program, text).expect("the temporary folder is writable");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let server = server(Some(&program));
    run(&server);
    server.kill9();
    let report = fs::read_to_string(&log).expect("valgrind writes its log");
    assert!(!report.contains("Invalid"), "{report}");
}
