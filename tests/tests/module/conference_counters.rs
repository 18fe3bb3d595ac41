//! What `INFO allot` counts of conferences: each scenario moves its own counters, by how much is known, and no other.

use std::collections::BTreeMap;

use allot_core::conf::request::{
    AssignmentNotice, ClientRequest, Create, Request, SchedulerRequest, UnitRequest, WishesRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::{Realm as State, decide};
use allot_tests::damage::Dump;
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::{clock, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Counters and gauges, and what they were when they were last looked at.
struct Figures<'s> {
    server: &'s RedisServer,
    before: BTreeMap<String, i64>,
}

impl<'s> Figures<'s> {
    fn of(server: &'s RedisServer) -> Self {
        Self { server, before: Self::read(server) }
    }

    fn read(server: &RedisServer) -> BTreeMap<String, i64> {
        let info = server.info("allot");
        let figure = |(name, value): (&String, &String)| {
            Some((name.strip_prefix("allot_")?.to_owned(), value.parse().ok()?))
        };
        // When the timer has a key is its own affair.
        info.iter().filter_map(figure).filter(|(name, _)| name != "keys_waiting_for_timer").collect()
    }

    /// What has changed since the last time: this, and nothing else.
    #[track_caller]
    fn moved(&mut self, what: &str, expected: &[(&str, i64)]) {
        let now = Self::read(self.server);
        let changes: BTreeMap<&str, i64> = now
            .iter()
            .map(|(name, value)| (name.as_str(), value - self.before[name]))
            .filter(|(_, by)| *by != 0)
            .collect();
        assert_eq!(changes, expected.iter().copied().collect(), "{what}");
        self.before = now;
    }
}

#[test]
fn every_scenario_moves_its_counters_and_no_others() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.ok("CONF.REALM POLICY EARLIEST CREATETIMEOUT 3600000 RELEASETIMEOUT 3600000 RETRY 3600000");
    let mut figures = Figures::of(&server);
    assert!(figures.before.len() > 40, "{:?}", figures.before);
    let epochs: Vec<i64> = ["1", "2", "3", "4"].map(|e164| realm.begin(e164, "REQUEST r").1).to_vec();
    realm.ok("CONF.CREATE 1 REQUEST r");
    figures.moved("creations, and a repeated one", &[("conf_created", 4)]);
    for (e164, epoch) in ["1", "2", "3"].iter().zip(&epochs) {
        realm.ok(&format!("CONF.ACK {e164} a:1:1 {epoch}"));
        realm.ok(&format!("CONF.ACK {e164} a:1:1 {epoch}"));
    }
    figures.moved("openings, each said twice", &[("conf_opened", 3)]);
    realm.ok(&format!("CONF.NACK 4 a:1:1 {}", epochs[3]));
    figures.moved("a creation refused by its unit", &[("conf_ended", 1), ("cmu_failures", 1)]);
    for line in [
        "CONF.CREATE 1",
        "CONF.CREATE 9 SIZE 1000000",
        "CONF.RELEASE 9",
        "CMU.BEAT b:1:1",
        "CONF.RECOVER TERM 9",
        "CONF.EXTEND 1 END 5",
        "CONF.RESIZE 1 2",
    ] {
        realm.code(line);
    }
    figures.moved("refused requests", &[("conf_refused", 6)]);
    let first = epochs[0];
    realm.ok(&format!("CONF.SET 1 a:1:1 {first} 5 members 1 speaker ann"));
    realm.ok(&format!("CONF.SET 1 a:1:1 {first} 6 members 2"));
    figures.moved("writes", &[("conf_writes", 2)]);
    realm.code(&format!("CONF.SET 1 b:1:1 {first} 7 members 3"));
    figures.moved("another unit's write", &[("conf_writes_not_owner", 1)]);
    realm.code(&format!("CONF.SET 1 a:1:1 {} 7 members 3", first - 1));
    figures.moved("a write of another assignment", &[("conf_writes_stale_epoch", 1)]);
    for seq in [5, 6] {
        realm.code(&format!("CONF.SET 1 a:1:1 {first} {seq} members 3"));
    }
    figures.moved("late writes", &[("conf_writes_stale_seq", 2)]);
    realm.code(&format!("CONF.SET 4 a:1:1 {} 1 members 3", epochs[3]));
    realm.code(&format!("CONF.SET 9 a:1:1 {first} 1 members 3"));
    figures.moved("writes into what is over or never was", &[("conf_writes_ended", 2)]);
    realm.code(&format!("CONF.SET 1 a:1:1 {first} 7 members"));
    figures.moved("a write that is malformed", &[]);
    realm.ok("CMU.DOWN a:1:1");
    figures.moved("a unit's end", &[("cmu_down", 1), ("conf_pending", 3)]);
    realm.code(&format!("CONF.SET 1 a:1:1 {first} 7 members 3"));
    figures.moved("a write of the unit that lost it", &[("conf_writes_not_owner", 1)]);
    realm.ok("CONF.RELEASE 3");
    let ended = [("conf_ended", 1), ("conf_never_recovered", 1), ("conf_pending", -1)];
    figures.moved("the end of one that waits", &ended);
    realm.ok("CONF.RECOVER");
    figures.moved("a recovery without room", &[]);
    realm.join("b:1:1");
    let grants = realm.ok("CONF.RECOVER");
    let grants: BTreeMap<String, i64> =
        grants.array().iter().map(|grant| (grant.array()[0].text(), grant.array()[2].int())).collect();
    figures.moved("recoveries", &[("conf_granted", 2), ("conf_pending", -2)]);
    realm.ok(&format!("CONF.NACK 2 b:1:1 {}", grants["2"]));
    figures.moved("a recovery that fails", &[("conf_failed", 1), ("conf_pending", 1), ("cmu_failures", 1)]);
    let other = grants["1"];
    assert_eq!(realm.ok(&format!("CONF.ACK 3 a:1:1 {}", epochs[2])), Reply::bulk("RELEASE"));
    figures.moved("a word that comes late", &[("conf_disowned", 1)]);
    realm.join("a:1:1");
    // One is adopted while it waits, one from another unit, and one is over.
    let list = format!("1 {first} 2 {} 3 {}", epochs[1], epochs[2]);
    let waited = clock(&mut realm.client) - realm.ok("CONF.INFO 2").field("pending_since").int();
    realm.ok(&format!("CMU.REPORT a:1:1 HIGHEST {} {list}", epochs[3]));
    let now = Figures::read(&server);
    let since = now["conf_reopened_ms"] - figures.before["conf_reopened_ms"];
    assert!(since >= 2 * waited, "{since} ms of two that waited {waited} ms at least");
    // How long they waited is the machine's affair.
    for name in ["ms", "1s", "5s", "10s", "30s", "300s"].map(|end| format!("conf_reopened_{end}")) {
        figures.before.insert(name.clone(), now[&name]);
    }
    let adopted = [("conf_adopted", 2), ("conf_reopened", 2), ("conf_pending", -1), ("conf_disowned", 1)];
    figures.moved("copies that are heard again", &adopted);
    assert_eq!(realm.ok(&format!("CONF.ACK 1 b:1:1 {other}")), Reply::bulk("RELEASE"));
    figures.moved("a word of who was released", &[("conf_disowned", 1)]);
    realm.ok("CONF.MOVE 1 TO b:1:1");
    figures.moved("a move that begins", &[]);
    let epoch = realm.ok("CONF.INFO 1").field("moving_epoch").int();
    realm.ok(&format!("CONF.ACK 1 b:1:1 {epoch}"));
    figures.moved("and is done", &[("conf_moved", 1)]);
    realm.ok("CONF.RELEASE 1");
    figures.moved("an end that is asked for", &[]);
    realm.ok(&format!("CONF.ENDED 1 b:1:1 {epoch}"));
    figures.moved("and comes", &[("conf_ended", 1)]);
    realm.ok("CMU.JOIN c:1:1 CAPACITY 1 LEASE 4000");
    eventually("the lease to be over", TIMEOUT, || {
        realm.ok("CMU.LIST").array()[2].field("state") == Reply::bulk("unreachable")
    });
    figures.moved("a lease that is not renewed", &[("cmu_lapsed", 2)]);
    // The gauges follow the keys.
    realm.ok("CONF.CREATE later START 4000000000000 END 4000003600000");
    figures.moved("one that is scheduled", &[("conf_created", 1), ("conf_scheduled", 1)]);
    realm.ok("CMU.DOWN a:1:1");
    figures.moved("another end", &[("cmu_down", 1), ("conf_pending", 1)]);
    realm.client.words(&format!("COPY {REALM} {{r}}:twin"));
    figures.moved("a copy", &[("conf_pending", 1), ("conf_scheduled", 1)]);
    realm.client.words(&format!("DEL {REALM} {{r}}:twin"));
    figures.moved("no key any more", &[("conf_pending", -2), ("conf_scheduled", -2)]);
    no_internal_errors(&server);
}

/// A realm in which conferences wait for recovery since then, made by the state machine itself. Its time has come to
/// `now` and stands still there while the server's clock is behind it.
fn waiting_since(now: i64, waits: &[i64]) -> State {
    let mut state = State::open(Settings::default(), 1000);
    let mut ask = |at: i64, request: &Request<'_>| {
        let events = decide(&state, at, request).expect("it is allowed").events;
        events.iter().for_each(|event| state.apply(at, event));
    };
    for (number, wait) in waits.iter().enumerate() {
        let (at, e164, cmu) = (now - wait, number.to_string(), format!("lost{number}:1:1"));
        let (e164, cmu) = (e164.as_bytes(), cmu.as_bytes());
        ask(
            at,
            &Request::Unit(UnitRequest::Join {
                cmu,
                capacity: 10,
                zone: None,
                tags: &[],
                lease: 3_600_000_000,
                machine: None,
            }),
        );
        let create = Create {
            e164,
            start: None,
            end: None,
            size: 1,
            licences: 1,
            priority: 0,
            wishes: WishesRequest::default(),
            recoverable: true,
            waits: false,
            request: None,
            called_from: None,
        };
        ask(at, &Request::Client(ClientRequest::Create(create)));
        ask(at, &Request::Unit(UnitRequest::Ack(AssignmentNotice { e164, cmu, epoch: at as u64 * 1000 })));
        ask(at, &Request::Scheduler { term: None, request: SchedulerRequest::Down { cmu } });
    }
    ask(
        now,
        &Request::Unit(UnitRequest::Join {
            cmu: b"new:1:1",
            capacity: 100,
            zone: None,
            tags: &[],
            lease: 3_600_000_000,
            machine: None,
        }),
    );
    state
}

#[test]
fn the_times_to_reopen_are_counted_to_the_millisecond() {
    /// Longest first: on both sides of each bound.
    const WAITS: [i64; 11] = [300_001, 300_000, 30_001, 30_000, 10_001, 10_000, 5001, 5000, 1001, 1000, 0];
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    // The realm is ahead of the clock, so that its time stands still.
    realm.client.words("CONFIG SET allot.max-clock-lead 3600000");
    let now = clock(&mut realm.client) + 1_800_000;
    let state = waiting_since(now, &WAITS);
    let dump = Dump::of(&mut realm.client, REALM);
    let mut figures = Figures::of(&server);
    let payload = dump.with(&state.encode());
    let restored = realm.client.call(&[&b"RESTORE"[..], REALM.as_bytes(), b"0", &payload, b"REPLACE"]);
    assert_eq!(restored, Reply::Simple("OK".into()));
    let waiting = WAITS.len() as i64;
    figures.moved("restored", &[("conf_pending", waiting)]);
    assert_eq!(realm.stat("pending"), waiting);
    let grants = realm.ok("CONF.RECOVER");
    figures.moved("placed", &[("conf_granted", waiting), ("conf_pending", -waiting)]);
    let (mut reopened, mut buckets) = (0, [0; 5]);
    for grant in grants.array() {
        let grant: Vec<String> =
            vec![grant.array()[0].text(), grant.array()[1].text(), grant.array()[2].int().to_string()];
        let wait = WAITS[grant[0].parse::<usize>().unwrap()];
        realm.ok(&format!("CONF.ACK {}", grant.join(" ")));
        let mut expected = vec![("conf_opened", 1), ("conf_reopened", 1), ("conf_reopened_ms", wait)];
        let names = ["1s", "5s", "10s", "30s", "300s"].map(|end| format!("conf_reopened_{end}"));
        for (at, most) in [1000, 5000, 10_000, 30_000, 300_000].into_iter().enumerate() {
            if wait <= most {
                buckets[at] += 1;
                expected.push((&names[at], 1));
            }
        }
        expected.retain(|(_, by)| *by != 0);
        figures.moved(&format!("one that waited {wait} ms"), &expected);
        reopened += 1;
    }
    assert_eq!((reopened, buckets), (11, [2, 4, 6, 8, 10]));
    no_internal_errors(&server);
}
