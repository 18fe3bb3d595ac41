//! Every event is a keyspace notification of its value's key.

use allot_tests::books::{BOOK, Book};
use allot_tests::raw::{RawClient, Reply};
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::{allot_info, create, no_internal_errors, sample_venue, state_of};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};

/// A listener for the events of one key, and a client that marks the end of what was asked for.
struct Listener {
    subscriber: RawClient,
    marker: RawClient,
    key: &'static str,
    family: &'static str,
}

impl Listener {
    fn new(server: &RedisServer, family: &'static str, key: &'static str) -> Self {
        let (mut subscriber, mut marker) = (server.raw(), server.raw());
        marker.words("CONFIG SET notify-keyspace-events Ed$");
        subscriber.words("PSUBSCRIBE __keyevent@0__:*");
        Self { subscriber, marker, key, family }
    }

    /// The next event, without the family's prefix; nothing where it is the marker's.
    fn next(&mut self) -> Option<String> {
        let message = self.subscriber.read();
        let event = message.array()[2].text();
        let event = event.strip_prefix(&format!("__keyevent@0__:allot.{}", self.family)).map(str::to_owned);
        assert_eq!(message.array()[3], Reply::bulk(if event.is_some() { self.key } else { "end" }));
        event
    }

    /// All events so far.
    fn heard(&mut self) -> Vec<String> {
        self.marker.words("SET end 1");
        std::iter::from_fn(|| self.next()).collect()
    }
}

#[test]
fn every_seat_event_is_a_keyspace_notification() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let mut listener = Listener::new(&server, "seat.", "show");
    create(&server, "show", &sample_venue(2, 5));
    for line in [
        r#"SEAT.ALTER show {"events":0,"limits":{"seats_per_user":10}}"#,
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN t",
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN t",
        "SEAT.EXTEND show t TTL 60000",
        "SEAT.CONFIRM show t",
        "SEAT.CONFIRM show t",
        "SEAT.MOVE show 1 a-1-2 a-1-4",
        "SEAT.TRANSFER show bob SEATS 1 a-1-4",
        "SEAT.REFUND show 1 a-1-1",
        "SEAT.PICK show ann TTL 60000 TOKEN u SEATS 1 a-2-1",
        "SEAT.PICK show ann TTL 60000 TOKEN u ADD SEATS 1 a-2-3",
        "SEAT.RELEASE show u",
        "SEAT.BLOCK show 1 a-2-2",
        "SEAT.UNBLOCK show 1 a-2-2",
        "SEAT.WAIT show bob 1 TTL 60000 OFFER 60000 TOKEN o",
        "SEAT.RELEASE show o",
        "SEAT.WAIT show cid 10 TTL 60000 OFFER 60000 TOKEN w",
        "SEAT.UNWAIT show w",
        "SEAT.HOLD show ann 1 TTL 20 TOKEN v",
    ] {
        client.words(line);
    }
    for event in [
        "created",
        "altered",
        "held",
        "extended",
        "confirmed",
        "moved",
        "transferred",
        "refunded",
        "held",
        "added",
        "released",
        "blocked",
        "unblocked",
        "offered",
        "released",
        "waiting",
        "unwaited",
        "held",
        "expired",
    ] {
        assert_eq!(listener.next().as_deref(), Some(event));
    }
    assert_eq!(state_of(&mut client, "show", "a-2-2"), "free");
}
#[test]
fn every_account_event_is_a_keyspace_notification_and_counted() {
    let server = RedisServer::start();
    let mut book = Book::of(&server);
    let mut listener = Listener::new(&server, "account.", BOOK);
    for (line, events) in [
        ("BOOK CAP 5", vec!["book-opened"]),
        ("BOOK CAP 3", vec!["book-configured"]),
        ("TERM 1 l", vec!["claimed"]),
        ("MODULE m DEPARTMENT d INSTANCES 1 SHARE PRESENT", vec!["module-defined"]),
        ("ATTACH m a", vec!["attached"]),
        ("ADD m QUOTA 2 ACCOUNTS 2 p q", vec!["added", "assigned"]),
        ("ATTACH m b", vec!["attached"]),
        ("FREEZE q", vec!["frozen"]),
        ("FREEZE q OFF", vec!["thawed", "assigned"]),
        ("TARIFF QUOTA 3 ACCOUNTS 1 q", vec!["repriced"]),
        ("LIMIT CAP 9 ACCOUNTS 1 q", vec!["limited"]),
        ("DEL 1 q", vec!["deleted"]),
        ("DEPARTMENT d CAP 500", vec!["department-capped"]),
        ("BOOK MARGIN 1", vec!["book-configured"]),
        ("MODULE m DEPARTMENT d INSTANCES 1 MIN 0", vec!["module-defined"]),
        ("MODULE x DEPARTMENT d INSTANCES 1", vec!["module-defined"]),
        ("DELMODULE x", vec!["module-removed"]),
    ] {
        book.ok(line);
        assert_eq!(listener.heard(), events, "{line}");
    }
    let epoch = book.ok("LOGIN p a t TTL 600000").field("epoch").int();
    book.ok(&format!("RENEW p {epoch} TTL 600000"));
    book.ok(&format!("USE p {epoch} COUNT 3"));
    assert_eq!(book.code(&format!("USE p {epoch}")), "LIMIT");
    assert_eq!(listener.heard(), ["login", "renewed", "used"]);
    book.ok("MODULE n DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.ok("MOVE n 1 p");
    book.ok(&format!("LOGOUT p {epoch}"));
    assert_eq!(book.code(&format!("LOGOUT p {epoch}")), "OK", "a late one changes nothing");
    assert_eq!(book.code(&format!("USE p {epoch}")), "STALE");
    for (field, value) in [
        ("account_logins", 1),
        ("account_used", 3),
        ("account_capped", 1),
        ("account_stale", 1),
        ("account_refused", 2),
        ("account_lapsed", 0),
        ("account_live_logins", 0),
    ] {
        assert_eq!(allot_info(&server, field), value, "{field}");
    }
    assert!(allot_info(&server, "account_assigned") >= 2);
}
#[test]
fn every_conference_event_is_a_keyspace_notification() {
    let server = RedisServer::start();
    let mut realm = Realm::of(&server);
    let mut listener = Listener::new(&server, "", REALM);
    let mut tell = |realm: &mut Realm, line: &str, events: &[&str]| {
        let reply = realm.ok(line);
        assert_eq!(listener.heard(), events, "{line}");
        reply
    };
    let epoch_of = |realm: &mut Realm, e164: &str| realm.place(e164).1;
    tell(&mut realm, "CONF.REALM", &["conf.realm-opened"]);
    let settings = "RETRY 1 POLICY EARLIEST CREATETIMEOUT 3600000 RELEASETIMEOUT 3600000 WAITTIMEOUT 3600000";
    tell(&mut realm, &format!("CONF.REALM {settings}"), &["conf.realm-configured"]);
    tell(&mut realm, "CONF.TERM 1 css", &["conf.claimed"]);
    for cmu in ["a:1:1", "b:1:1"] {
        tell(&mut realm, &format!("CMU.JOIN {cmu} CAPACITY 9 LEASE 3600000000"), &["cmu.joined"]);
    }
    tell(&mut realm, "CMU.BEAT a:1:1 LOAD 3", &["cmu.beat"]);
    tell(&mut realm, "CMU.ASK LIST", &["cmu.asked"]);
    // A life.
    tell(&mut realm, "CONF.CREATE 7 REQUEST r", &["conf.created"]);
    tell(&mut realm, "CONF.CREATE 7 REQUEST r", &[]);
    let first = epoch_of(&mut realm, "7");
    tell(&mut realm, &format!("CONF.ACK 7 a:1:1 {first}"), &["conf.opened"]);
    tell(&mut realm, &format!("CONF.SET 7 a:1:1 {first} 1 members 3"), &["conf.set"]);
    tell(&mut realm, "CONF.EXTEND 7 END 4000000000000", &["conf.extended"]);
    // A loss, a recovery that fails and one that does not.
    tell(&mut realm, "CMU.DOWN a:1:1", &["cmu.down"]);
    tell(&mut realm, "CONF.RECOVER", &["conf.granted"]);
    let failed = epoch_of(&mut realm, "7");
    tell(
        &mut realm,
        &format!("CONF.NACK 7 b:1:1 {failed} full"),
        &["conf.refused", "conf.failed", "cmu.failed"],
    );
    tell(&mut realm, "CMU.JOIN c:1:1 CAPACITY 9 LEASE 3600000000", &["cmu.joined"]);
    eventually("its time to come", TIMEOUT, || {
        realm.ok("CONF.PLAN").array()[0].field("why") == Reply::bulk("due")
    });
    tell(&mut realm, "CONF.RECOVER", &["conf.granted"]);
    let (cmu, second, _) = realm.place("7");
    tell(&mut realm, &format!("CONF.ACK 7 {cmu} {second}"), &["conf.opened"]);
    tell(&mut realm, &format!("CONF.ACK 7 {cmu} {failed}"), &["conf.disowned"]);
    // The first is heard again, and has missed what it was told.
    tell(&mut realm, "CMU.JOIN a:1:1 CAPACITY 9 LEASE 3600000000", &["cmu.joined"]);
    let report = format!("CMU.REPORT a:1:1 HIGHEST {first} 7 {first}");
    tell(&mut realm, &report, &["cmu.reported", "conf.adopted"]);
    tell(&mut realm, &report, &["cmu.reported", "conf.epoch-again"]);
    // Moves.
    tell(&mut realm, "CONF.MOVE 7 TO b:1:1", &["conf.moving"]);
    let moving = |realm: &mut Realm| realm.ok("CONF.INFO 7").field("moving_epoch").int();
    let epoch = moving(&mut realm);
    tell(&mut realm, &format!("CONF.NACK 7 b:1:1 {epoch}"), &["conf.move-failed", "cmu.failed"]);
    tell(&mut realm, "CONF.MOVE 7 TO c:1:1", &["conf.moving"]);
    let epoch = moving(&mut realm);
    tell(&mut realm, &format!("CONF.ACK 7 c:1:1 {epoch}"), &["conf.moved"]);
    tell(&mut realm, "CMU.DRAIN b:1:1", &["cmu.drained"]);
    tell(&mut realm, "CMU.LEAVE b:1:1", &["cmu.leaving"]);
    // A creation that is tried again.
    tell(&mut realm, "CONF.CREATE 8", &["conf.created"]);
    let (cmu, refused, _) = realm.place("8");
    tell(&mut realm, &format!("CONF.NACK 8 {cmu} {refused}"), &["conf.retried", "cmu.failed"]);
    let (cmu, retried, _) = realm.place("8");
    tell(&mut realm, &format!("CONF.ACK 8 {cmu} {retried}"), &["conf.opened"]);
    tell(&mut realm, &format!("CONF.ENDED 8 {cmu} {retried}"), &["conf.ended"]);
    // A new scheduler, and the end.
    tell(&mut realm, "CONF.RESTART LIVE 2 a:1:1 c:1:1", &["conf.restarted"]);
    tell(
        &mut realm,
        &format!("CMU.REPORT c:1:1 HIGHEST {epoch} 7 {epoch}"),
        &["cmu.reported", "conf.opened"],
    );
    tell(&mut realm, "CONF.RELEASE 7", &["conf.ending"]);
    tell(&mut realm, &format!("CONF.ENDED 7 c:1:1 {epoch}"), &["conf.ended"]);
    // Copies of assignments that the realm has lost, of a conference that is on record and of one that is not.
    tell(&mut realm, "CONF.CREATE 9", &["conf.created"]);
    let (cmu, epoch, _) = realm.place("9");
    tell(&mut realm, &format!("CONF.ACK 9 {cmu} {epoch}"), &["conf.opened"]);
    let lost = epoch + 3_600_000_000;
    let report = format!("CMU.REPORT c:1:1 HIGHEST {lost} 9 {lost} 10 {}", lost - 1);
    tell(&mut realm, &report, &["cmu.reported", "conf.found", "conf.adopted"]);
    tell(&mut realm, "CONF.REALM DROP", &["conf.ending", "conf.ending", "conf.dropped"]);
    // And what the timer does, which comes when it comes.
    realm.ok("CMU.JOIN d:1:1 CAPACITY 9 LEASE 4000");
    realm.ok("CMU.DOWN a:1:1");
    realm.ok("CONF.REALM TOMBSTONE 50");
    let mut missing = vec!["conf.removed", "cmu.lapsed", "cmu.lapsed", "cmu.forgotten"];
    while !missing.is_empty() {
        let event = listener.next().expect("an event");
        if let Some(at) = missing.iter().position(|name| *name == event) {
            missing.remove(at);
        }
    }
    no_internal_errors(&server);
}
