//! Realms of conferences.

use std::collections::BTreeSet;

use allot_core::conf::{ConferenceEvent, Event, Realm as State};
use allot_tests::damage::Dump;
use allot_tests::garbage::Garbage;
use allot_tests::raw::{RawClient, Reply};
use allot_tests::realms::{REALM, Realm, RealmWorkload, UNITS};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};

use crate::family::{Family, Lines, lines, send_all, send_ok, state};

/// The family of `CONF` and `CMU` commands.
pub(crate) struct Conferences;

/// What the replicated events of a realm say.
#[derive(Default)]
pub(crate) struct Log {
    epochs: BTreeSet<u64>,
    sent: usize,
}

state!(State, Event, |first, at| {
    let Event::Opened { settings } = first else { panic!("{first:?} came first") };
    State::open(*settings, at)
});

impl Family for Conferences {
    const TYPE: &'static str = "allotconf";
    const APPLY: &'static str = "CONF.APPLY";
    const ENDED: &'static str = "cmu_lapsed";
    const LIVE: Option<&'static str> = None;
    const DAMAGED: usize = 40_000;
    const GARBAGE: Garbage<'static> = GARBAGE;

    type State = State;
    type Workload = ();
    type Log = Log;

    fn create(client: &mut RawClient, key: &str) -> Lines {
        send_ok(client, "CONF.REALM @", key);
        send_ok(client, "CONF.REALM @ CREATETIMEOUT 3600000", key);
        for cmu in ["a:1:1", "b:1:1"] {
            send_ok(client, &format!("CMU.JOIN @ {cmu} CAPACITY 100000 LEASE 3600000000"), key);
        }
        let created = send_ok(client, "CONF.CREATE @ 7", key);
        let (a, epoch) = (created.field("cmu").text(), created.field("epoch").int());
        send_ok(client, &format!("CONF.ACK @ 7 {a} {epoch}"), key);
        send_ok(client, "CONF.CREATE @ 8 REQUEST r", key);
        send_ok(client, &format!("CONF.SET @ 7 {a} {epoch} 5 members 3"), key);
        Lines {
            reads: lines(&[
                "CONF.INFO @ 7",
                "CONF.HISTORY @ 8",
                "CONF.GET @ 7",
                "CONF.LIST @",
                "CONF.LIST @ STATE pending",
                "CONF.STAT @",
                "CONF.PLAN @",
                "CONF.PLAN @ DOWN a:1:1",
                "CMU.LIST @",
            ]),
            writes: lines(&[
                "CONF.REALM @",
                "CONF.TERM @ 1 l",
                "CONF.CREATE @ 10",
                &format!("CONF.ACK @ 7 {a} {epoch}"),
                &format!("CONF.NACK @ 7 {a} {epoch}"),
                &format!("CONF.FAILED @ 7 {a} {epoch}"),
                &format!("CONF.ENDED @ 7 {a} {epoch}"),
                &format!("CONF.SET @ 7 {a} {epoch} 9 members 4"),
                "CONF.RELEASE @ 7",
                "CONF.EXTEND @ 7 END 4000000000000",
                "CONF.RECOVER @",
                "CONF.RESTART @ LIVE 0",
                "CONF.MOVE @ 7",
                "CMU.JOIN @ d:1:1 CAPACITY 1",
                "CMU.BEAT @ a:1:1",
                "CMU.REPORT @ a:1:1 HIGHEST 0",
                "CMU.ASK @ LIST",
                "CMU.DRAIN @ a:1:1",
                "CMU.DRAIN @ HOST c",
                "CMU.LEAVE @ a:1:1",
                "CMU.DOWN @ a:1:1",
            ]),
            unchanged: lines(&[
                "CONF.CREATE @ 7",
                "CONF.CREATE @ 8 REQUEST r",
                "CONF.CREATE @ 9 SIZE 1000000",
                &format!("CONF.ACK @ 7 {a} {epoch}"),
                &format!("CONF.NACK @ 7 {a} {epoch}"),
                "CONF.ENDED @ 7 a:1:1 1000000",
                &format!("CONF.SET @ 7 {a} {epoch} 5 members 4"),
                "CONF.SET @ 7 a:1:1 1000000 1 a b",
                &format!("CONF.SET @ 7 b:1:1 {epoch} 6 members 4"),
                "CONF.RELEASE @ nothing",
                "CONF.MOVE @ nothing",
                "CONF.RECOVER @",
                "CONF.RECOVER @ TERM 5",
                "CMU.BEAT @ nobody",
                "CMU.DRAIN @ HOST nobody OFF",
                "CMU.DOWN @ nobody",
                "CONF.REALM @",
                "CONF.REALM @ CREATETIMEOUT 3600000",
                "CONF.LIST @",
                "CONF.PLAN @ DOWN a:1:1",
                "CMU.LIST @",
            ]),
            changes: lines(&[
                "CONF.CREATE @ 9 NORECOVER",
                &format!("CONF.SET @ 7 {a} {epoch} 6 members 4"),
                "CMU.BEAT @ a:1:1",
                "CMU.ASK @ a:1:1 LIST",
                "CONF.MOVE @ 7",
                "CONF.RELEASE @ 7",
                "CMU.DOWN @ b:1:1",
                "CONF.REALM @ RETRY 3500000",
            ]),
            toggle: ["CMU.BEAT @ a:1:1 LOAD 1".into(), "CMU.BEAT @ a:1:1 LOAD 2".into()],
        }
    }

    fn start_short(client: &mut RawClient, key: &str, ttl_ms: u64) {
        send_ok(client, &format!("CMU.JOIN @ z:1:1 CAPACITY 1 LEASE {ttl_ms}"), key);
    }

    fn workload_key(_seed: u64) -> String {
        REALM.to_owned()
    }

    fn run_workload(server: &RedisServer, seed: u64, steps: usize) {
        let mut workload = RealmWorkload::new(server, seed);
        workload.realm.ok("CONF.REALM RETRY 50 CREATETIMEOUT 200 RELEASETIMEOUT 100 WAITTIMEOUT 100");
        workload.run(steps);
    }

    fn settle(server: &RedisServer, _seed: u64) {
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
        eventually("all to be sent", TIMEOUT, || realm.stat("unsent") == 0 && realm.stat("dropped") == 0);
    }

    fn digest(server: &RedisServer) -> String {
        // A master's timer trims the streams, so only the realm itself stays the same.
        server.digest_value(REALM)
    }

    fn may_replicate(command: &str, stream: &str) -> bool {
        ["XADD", "UNLINK", "XTRIM"].contains(&command) && (stream == "evt" || stream.starts_with("cmd:"))
    }

    fn observe(log: &mut Log, _at: i64, event: &Event, _before: Option<&State>) {
        let epoch = match event {
            Event::Created(created) => Some(created.epoch),
            Event::Conference {
                event:
                    ConferenceEvent::Granted { epoch, .. }
                    | ConferenceEvent::Adopted { epoch, .. }
                    | ConferenceEvent::Moving { epoch, .. },
                ..
            } => Some(*epoch),
            _ => None,
        };
        assert!(epoch.is_none_or(|epoch| log.epochs.insert(epoch)), "an epoch was given out twice");
        if let Event::Flushed { sent, .. } = event {
            log.sent += sent.iter().map(|(_, count)| *count as usize).sum::<usize>();
        }
    }

    fn compare(log: Log, (): &(), entries: usize) {
        eprintln!("{} assignments, {entries} entries", log.epochs.len());
        assert!(log.epochs.len() > 100 && entries > 500, "little happened");
        assert!(log.sent >= entries, "each entry is one message; the others end streams");
    }

    fn dumps(server: &RedisServer) -> Vec<Dump> {
        let mut client = server.raw();
        let mut small = Realm::create(server, &UNITS);
        small.open("1");
        small.begin("2", "SIZE 3 END 4000000000000 REQUEST r");
        let (cmu, epoch) = small.open("3");
        small.ok(&format!("CONF.SET 3 {cmu} {epoch} 1 members 3 speaker ann"));
        small.ok("CONF.MOVE 3");
        small.ok("CMU.DOWN a:1:1");
        // Messages that could not be sent stay in the value.
        client.words(&format!("DEL {REALM}:evt"));
        client.words(&format!("SET {REALM}:evt text"));
        small.join("b:1:2");
        let mut dumps = vec![Dump::of(&mut client, REALM)];
        client.words(&format!("DEL {REALM}"));
        small.ok("CONF.REALM");
        RealmWorkload::new(server, 71).run(300);
        dumps.push(Dump::of(&mut client, REALM));
        dumps
    }

    fn use_value(client: &mut RawClient, key: &str) {
        let lines = [
            "CONF.STAT @",
            "CMU.LIST @",
            "CONF.LIST @ COUNT 1000",
            "CONF.PLAN @",
            "CMU.JOIN @ new:1:1 CAPACITY 5",
            "CONF.CREATE @ mine REQUEST m",
            "CONF.RECOVER @",
            "CONF.RESTART @ LIVE 1 h1:1:1",
            "CMU.DRAIN @ new:1:1 MOVE",
            "CMU.LEAVE @ new:1:1",
            "CONF.REALM @ RETRY 50",
            "CMU.DOWN @ h0:1:1",
            "CMU.DOWN @ h1:1:1",
            "CONF.RECOVER @",
            "CMU.JOIN @ h0:1:2 CAPACITY 3",
            "CONF.RELEASE @ 491",
            "CMU.REPORT @ new:1:1 HIGHEST 9000000000000000",
            "CONF.LIST @ STATE ended",
            "CONF.PLAN @",
        ];
        let codes = ["LIMIT", "EXISTS", "STALE", "NOTFOUND", "BADSTATE", "ERR"];
        for (line, reply) in lines.iter().zip(send_all(client, &lines, key)) {
            if let Reply::Error(text) = reply {
                let code = text.split(' ').next().unwrap_or_default();
                assert!(codes.contains(&code) && !text.contains("internal"), "{line}: {text}");
            }
        }
    }

    fn begin_garbage(client: &mut RawClient) {
        client.words("CONF.REALM k");
        client.words("CMU.JOIN k a:1:1 CAPACITY 10");
    }

    fn fill(server: &RedisServer) -> String {
        const COUNT: usize = 50_000;
        let mut realm = Realm::create(server, &UNITS);
        realm.ok("CONF.REALM CREATETIMEOUT 3600000");
        for first in (0..COUNT).step_by(1000) {
            for number in first..first + 1000 {
                let (e164, request) = (format!("4930{number:08}"), format!("r{number:08}"));
                realm.client.send(&["CONF.CREATE", REALM, &e164, "REQUEST", &request]);
            }
            for _ in 0..1000 {
                assert!(matches!(realm.client.read(), Reply::Array(_)));
            }
        }
        eventually("all to be sent", TIMEOUT, || realm.stat("unsent") == 0);
        // Its streams are keys of their own.
        for stream in ["evt", "cmd:a:1:1", "cmd:b:1:1", "cmd:c:1:1"] {
            realm.client.words(&format!("DEL {REALM}:{stream}"));
        }
        REALM.into()
    }
}

/// The hostile calls of the family.
const GARBAGE: Garbage<'static> = Garbage {
    steps: 60_000,
    commands: &[
        "CONF.REALM",
        "CONF.TERM",
        "CONF.CREATE",
        "CONF.ACK",
        "CONF.NACK",
        "CONF.FAILED",
        "CONF.ENDED",
        "CONF.RELEASE",
        "CONF.EXTEND",
        "CONF.SET",
        "CONF.GET",
        "CONF.INFO",
        "CONF.HISTORY",
        "CONF.LIST",
        "CONF.STAT",
        "CONF.RECOVER",
        "CONF.RESTART",
        "CONF.MOVE",
        "CONF.PLAN",
        "CONF.APPLY",
        "CMU.JOIN",
        "CMU.BEAT",
        "CMU.REPORT",
        "CMU.ASK",
        "CMU.DRAIN",
        "CMU.LEAVE",
        "CMU.DOWN",
        "CMU.LIST",
    ],
    templates: &[
        "CONF.REALM k LICENCES 50 RETRY 100 WINDOW 5000 POLICY KEEP CREATETIMEOUT 50 RELEASETIMEOUT 50 WAITTIMEOUT 50",
        "CONF.REALM k TOMBSTONE 100 POLICY EARLIEST LICENCES 0",
        "CONF.TERM k 1 css FORCE",
        "CONF.CREATE k 7 END 4000000000000 SIZE 2 LICENCES 1 PRIORITY 3 ZONE z NORECOVER REQUEST r",
        "CONF.CREATE k 8",
        "CONF.CREATE k 9 SIZE 1",
        "CONF.ACK k 7 a:1:1 1",
        "CONF.NACK k 7 a:1:1 1 reason",
        "CONF.FAILED k 7 a:1:1 1 reason",
        "CONF.ENDED k 7 a:1:1 1",
        "CONF.RELEASE k 8",
        "CONF.EXTEND k 7 END 4000000000001",
        "CONF.SET k 8 a:1:1 1 1 members 3 speaker ann",
        "CONF.GET k 8 members",
        "CONF.INFO k 7",
        "CONF.HISTORY k 7",
        "CONF.LIST k STATE open CMU a:1:1 CURSOR 5 COUNT 10",
        "CONF.STAT k",
        "CONF.RECOVER k COUNT 5 TERM 1",
        "CONF.RESTART k LIVE 2 a:1:1 b:1:1 TERM 1",
        "CONF.MOVE k 8 TO b:1:1 TERM 1",
        "CONF.PLAN k DOWN a:1:1",
        "CONF.APPLY k payload",
        "CMU.JOIN k a:1:1 CAPACITY 10 ZONE z LEASE 1000",
        "CMU.JOIN k b:1:1 CAPACITY 10",
        "CMU.JOIN k a:1:2 CAPACITY 10",
        "CMU.BEAT k a:1:1 LOAD 5",
        "CMU.REPORT k a:1:1 HIGHEST 5 7 5 8 6",
        "CMU.REPORT k a:1:1 HIGHEST 5 ENDED 1 7 5 STARTING 1 8 6 9 1",
        "CMU.ASK k a:1:1 DETAILS",
        "CMU.DRAIN k a:1:1 MOVE TERM 1",
        "CMU.DRAIN k HOST a OFF",
        "CMU.LEAVE k a:1:1",
        "CMU.DOWN k b:1:1 TERM 1",
        "CMU.LIST k",
        "COPY k k2 REPLACE",
        "RENAME k2 k3",
    ],
    words: &[
        "7",
        "8",
        "9",
        "a:1:1",
        "a:1:2",
        "b:1:1",
        "a:1",
        "::",
        ":",
        "z",
        "END",
        "SIZE",
        "LICENCES",
        "TERM",
        "LIVE",
        "HIGHEST",
        "STARTING",
        "HOST",
        "CAPACITY",
        "ZONE",
        "LEASE",
        "MOVE",
        "OFF",
        "LIST",
        "DETAILS",
        "open",
        "STATE",
        "COUNT",
        "FORCE",
        "REQUEST",
        "NORECOVER",
        "POLICY",
        "KEEP",
    ],
    document: None,
};
