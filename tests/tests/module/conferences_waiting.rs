//! Creations that wait for room, on live servers: order, the ends of a wait, connections that die, a failover.

use allot_tests::raw::RawClient;
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

const UNIT: &str = "a:1:1";

fn blocked(server: &RedisServer) -> i64 {
    let info = server.raw().words("INFO clients").text();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap();
    line.trim().parse().unwrap()
}

/// Sends a creation that waits, and returns when it does.
fn wait(server: &RedisServer, line: &str) -> RawClient {
    let before = blocked(server);
    let mut client = server.raw();
    let line = format!("CONF.CREATE {REALM} {line}");
    client.send(&line.split(' ').collect::<Vec<_>>());
    eventually("the creation to wait", TIMEOUT, || blocked(server) == before + 1);
    client
}

/// A realm with one unit, which has room for one conference, and has it.
fn full(server: &RedisServer) -> (Realm, i64) {
    let mut realm = Realm::of(server);
    realm.ok("CONF.REALM");
    realm.ok(&format!("CMU.JOIN {UNIT} CAPACITY 1 LEASE 3600000"));
    realm.ok(&format!("CMU.REPORT {UNIT} HIGHEST 0"));
    let (_, epoch) = realm.open("1");
    (realm, epoch)
}

fn end(realm: &mut Realm, e164: &str) {
    let (cmu, epoch, _) = realm.place(e164);
    realm.ok(&format!("CONF.ENDED {e164} {cmu} {epoch}"));
}

#[test]
fn creations_are_served_by_priority_when_there_is_room() {
    let server = RedisServer::start();
    let (mut realm, _) = full(&server);
    assert_eq!(realm.code("CONF.CREATE 9"), "LIMIT");
    let mut low = wait(&server, "2 WAIT 0");
    let mut high = wait(&server, "3 PRIORITY 5 WAIT 0");
    end(&mut realm, "1");
    let reply = high.read();
    assert_eq!((reply.field("e164").text(), reply.field("cmu").text()), ("3".into(), UNIT.into()));
    assert_eq!((reply.field("state").text(), reply.field("priority").int()), ("creating".into(), 5));
    assert!(!reply.field("evt").is_null());
    // The same fields as without a wait.
    let names = |reply: &Reply| reply.record().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let waited = names(&reply);
    end(&mut realm, "3");
    assert_eq!(low.read().field("e164").text(), "2");
    end(&mut realm, "2");
    assert_eq!(names(&realm.ok("CONF.CREATE 4")), waited);
    no_internal_errors(&server);
}

#[test]
fn wait_ends_with_its_time_its_key_or_its_client() {
    let server = RedisServer::start();
    let (mut realm, _) = full(&server);
    assert!(realm.ok("CONF.CREATE 2 WAIT 30").is_null());
    assert_eq!(realm.code("CONF.CREATE 2 WAIT -1"), "ERR");
    assert_eq!(realm.code("CONF.CREATE * FROM {r}:pool WAIT 1"), "ERR");
    let mut client = server.raw();
    client.words("MULTI");
    client.words(&format!("CONF.CREATE {REALM} 2 WAIT 0"));
    assert!(matches!(&client.words("EXEC").array()[0], Reply::Error(line) if line.starts_with("LIMIT")));
    // A client that is gone gets nothing, and the next one does.
    drop(wait(&server, "2 WAIT 0"));
    eventually("the connection to be gone", TIMEOUT, || blocked(&server) == 0);
    let mut next = wait(&server, "3 WAIT 0");
    end(&mut realm, "1");
    assert_eq!(next.read().field("e164").text(), "3");
    assert_eq!(realm.code("CONF.INFO 2"), "NOTFOUND");
    let mut last = wait(&server, "4 WAIT 0");
    server.raw().words(&format!("DEL {REALM}"));
    assert!(matches!(last.read(), Reply::Error(line) if line.starts_with("UNBLOCKED")));
    no_internal_errors(&server);
}

#[test]
fn other_conference_on_the_number_is_told_when_the_turn_comes() {
    let server = RedisServer::start();
    let (mut realm, _) = full(&server);
    let mut first = wait(&server, "2 REQUEST r WAIT 0");
    let mut again = wait(&server, "2 REQUEST r WAIT 0");
    let mut other = wait(&server, "2 REQUEST s WAIT 0");
    end(&mut realm, "1");
    let epoch = first.read().field("epoch").int();
    assert_eq!(again.read().field("epoch").int(), epoch, "a repeated request has the same conference");
    // There is no room yet, so its turn comes later.
    realm.ok("CMU.JOIN b:1:1 CAPACITY 1 LEASE 3600000");
    realm.ok("CMU.REPORT b:1:1 HIGHEST 0");
    assert!(matches!(other.read(), Reply::Error(line) if line.starts_with("EXISTS")));
    no_internal_errors(&server);
}

#[test]
fn waiting_creation_is_told_of_a_failover() {
    let server = RedisServer::start();
    let (mut realm, _) = full(&server);
    let mut client = wait(&server, "2 WAIT 0");
    realm.client.words("REPLICAOF 127.0.0.1 1");
    assert!(matches!(client.read(), Reply::Error(line) if line.starts_with("UNBLOCKED")));
    realm.client.words("REPLICAOF NO ONE");
    end(&mut realm, "1");
    assert_eq!(realm.ok("CONF.CREATE 3").field("e164").text(), "3");
    no_internal_errors(&server);
}
