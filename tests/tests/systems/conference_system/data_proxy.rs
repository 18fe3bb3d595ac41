//! The data proxy by itself: units that are written by the test tell each thing once, so that what is lost stays lost.

use allot_tests::realms::{REALM, Realm};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Process, RedisServer, Reply, allotd, eventually};

const CONFERENCES: usize = 200;
/// Messages that are told at a time.
const ROUND: usize = 1000;

/// One that takes little at a time, so that it can die between any two steps.
fn proxy(server: &RedisServer, name: &str) -> Process {
    let url = server.url();
    let arguments = ["--roles", "data-proxy", "--name", name, "--realm", REALM, "--redis-url", &url];
    let process = Process::new(name, &arguments)
        .with("ALLOT_DATA_PROXY_BATCH", "8")
        .with("ALLOT_DATA_PROXY_CLAIM_AFTER", "1s");
    process.start();
    process
}

/// Tells these messages, each a field of its own.
fn tell(server: &RedisServer, owners: &[(String, String, i64)], messages: std::ops::Range<usize>) {
    let (mut connection, mut pipe) = (server.connection(), redis::pipe());
    for number in messages {
        let (e164, cmu, epoch) = &owners[number % owners.len()];
        let field = format!("f{}", number / owners.len());
        pipe.cmd("XADD").arg(format!("{REALM}:info")).arg("*").arg("event").arg("SET").arg("e164").arg(e164);
        pipe.arg("cmu").arg(cmu).arg("epoch").arg(epoch).arg("seq").arg(number + 1);
        pipe.arg(field).arg(number).ignore();
    }
    pipe.exec(&mut connection).unwrap();
}

/// Messages that a proxy has taken and not acknowledged.
fn pending(client: &mut Realm) -> i64 {
    client.client.words(&format!("XPENDING {REALM}:info proxies")).array()[0].int()
}

/// Up to where messages were taken, if there is a group.
fn taken(client: &mut Realm) -> Option<String> {
    let groups = client.client.words(&format!("XINFO GROUPS {REALM}:info"));
    let Reply::Array(groups) = groups else { return None };
    groups.first().map(|group| group.field("last-delivered-id").text())
}

#[test]
fn details_are_written_although_proxies_die() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &["a:1:1"]);
    let owners: Vec<_> = (0..CONFERENCES)
        .map(|number| {
            let e164 = format!("49{number:03}");
            let (cmu, epoch) = client.open(&e164);
            (e164, cmu, epoch)
        })
        .collect();
    // Built before time counts.
    allotd();
    // The last of them must have died with something that only another can finish.
    let (mut told, mut rounds) = (0, 0);
    eventually("a proxy to die with messages that it has taken", TIMEOUT, || {
        tell(&server, &owners, told..told + ROUND);
        told += ROUND;
        rounds += 1;
        let before = taken(&mut client);
        let dying = proxy(&server, &format!("proxy-{rounds}"));
        eventually("it to take messages", TIMEOUT, || taken(&mut client) != before);
        dying.kill9();
        rounds >= 6 && pending(&mut client) > 0 && pending(&mut client) > 0
    });
    tell(&server, &owners, told..told + ROUND);
    told += ROUND;
    let last = proxy(&server, "last");
    let missing = |client: &mut Realm| {
        (0..told).find(|number| {
            let (e164, field) = (&owners[number % owners.len()].0, number / owners.len());
            let value = client.ok(&format!("CONF.GET {e164} f{field}")).array()[0].clone();
            value != Reply::bulk(number.to_string())
        })
    };
    eventually("all to be decided on", TIMEOUT, || {
        taken(&mut client) == Some(newest(&mut client)) && pending(&mut client) == 0
    });
    assert_eq!(missing(&mut client), None, "of {told}");
    assert!(last.metric("allot_proxy_claimed_total").unwrap_or_default() > 0.0, "nothing was taken over");
    assert_eq!(last.metric("allot_proxy_messages_total{outcome=\"malformed\"}"), Some(0.0));
}

/// The stream's last message.
fn newest(client: &mut Realm) -> String {
    let stream = client.client.words(&format!("XINFO STREAM {REALM}:info"));
    stream.field("last-generated-id").text()
}

#[test]
fn a_proxy_that_is_asked_to_end_finishes_what_it_has_taken() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &["a:1:1"]);
    let (cmu, epoch) = client.open("49");
    let owners = [("49".to_owned(), cmu, epoch)];
    allotd();
    for round in 0..5 {
        // All into a few fields: it is not what they say that counts.
        for _ in 0..20 {
            tell(&server, &owners, 0..100);
        }
        let before = taken(&mut client);
        let proxy = proxy(&server, &format!("proxy-{round}"));
        eventually("it to take messages", TIMEOUT, || taken(&mut client) != before);
        assert!(proxy.terminate().success());
        assert_eq!(pending(&mut client), 0, "in round {round}");
    }
}

#[test]
fn refused_details_are_dropped_and_create_nothing() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &["a:1:1"]);
    let proxy = proxy(&server, "proxy");
    eventually("the proxy to be ready", TIMEOUT, || proxy.is_ready());
    let tell = |client: &mut Realm, e164: &str, epoch: i64| {
        let message = format!("event SET e164 {e164} cmu a:1:1 epoch {epoch} seq 1 members 2");
        client.client.words(&format!("XADD {REALM}:info * {message}"));
    };
    tell(&mut client, "nobody", 5);
    let of = |outcome: &str| {
        proxy.metric(&format!("allot_proxy_messages_total{{outcome=\"{outcome}\"}}")).unwrap_or_default()
    };
    eventually("it to be refused", TIMEOUT, || of("refused") >= 1.0);
    eventually("it to be done with", TIMEOUT, || pending(&mut client) == 0);
    assert_eq!(client.code("CONF.INFO nobody"), "NOTFOUND");
    // It holds nothing up, and is not tried again.
    let (_, epoch) = client.open("49");
    tell(&mut client, "49", epoch);
    eventually("the next one to be written", TIMEOUT, || {
        client.ok("CONF.GET 49 members").array()[0] == Reply::bulk("2")
    });
    eventually("it to be counted", TIMEOUT, || of("written") >= 1.0);
    assert_eq!((of("refused"), of("written"), pending(&mut client)), (1.0, 1.0, 0));
}
