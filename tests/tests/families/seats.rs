//! Shows and seats.

use std::collections::BTreeMap;

use allot_core::seat::{Event, Show};
use allot_tests::damage::Dump;
use allot_tests::garbage::Garbage;
use allot_tests::raw::{RawClient, Reply};
use allot_tests::seat_workload::{LONG_TTL_MS, told};
use allot_tests::shows::{THEATRE, books, create, hold, sample_venue, with_events};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, SeatWorkload, eventually};

use crate::family::{Family, Lines, lines, send_all, send_ok, state};

/// The family of `SEAT` commands.
pub(crate) struct Seats;

/// A workload on a show that it created.
pub(crate) struct Run {
    key: String,
    workload: SeatWorkload,
}

/// What the replicated events of a show say.
#[derive(Default)]
pub(crate) struct Log {
    heard: Vec<String>,
    deadlines: BTreeMap<Vec<u8>, i64>,
    expired: usize,
}

state!(Show, Event, |first, at| {
    let Event::Created { plan } = first else { panic!("{first:?} came first") };
    Show::open(plan, at).expect("a plan that the master accepted")
});

impl Family for Seats {
    const TYPE: &'static str = "allotseat";
    const APPLY: &'static str = "SEAT.APPLY";
    const ENDED: &'static str = "seat_expired";
    const LIVE: Option<&'static str> = Some("seat_live_holds");
    const DAMAGED: usize = 100_000;
    const GARBAGE: Garbage<'static> = GARBAGE;

    type State = Show;
    type Workload = Run;
    type Log = Log;

    fn create(client: &mut RawClient, key: &str) -> Lines {
        let plan: String = THEATRE.split_ascii_whitespace().collect();
        for line in [
            &format!("SEAT.CREATE @ {plan}"),
            "SEAT.HOLD @ ann 2 TTL 3600000 TOKEN t",
            "SEAT.PICK @ cid TTL 3600000 TOKEN p SEATS 2 back-1-1 back-1-2",
            "SEAT.PICK @ dan TTL 3600000 TOKEN s SEATS 2 back-1-3 back-1-4",
            "SEAT.CONFIRM @ s ORDER o",
            "SEAT.BLOCK @ 1 back-2-20",
            "SEAT.WAIT @ gus 74 TTL 3600000 OFFER 60000 PRIORITY 2 TOKEN g",
        ] {
            send_ok(client, line, key);
        }
        let create_again = format!("SEAT.CREATE @ {plan}");
        Lines {
            reads: lines(&[
                "SEAT.GET @ left-A-6",
                "SEAT.HOLDS @ ann",
                "SEAT.STAT @",
                "SEAT.MAP @ left",
                "SEAT.PLAN @",
                "SEAT.ORDER @ o",
                "SEAT.FIND @ 2 BEST 3",
                "SEAT.LIST @ SEATS COUNT 20",
                "SEAT.LIST @ HOLDS",
                "SEAT.LIST @ ORDERS",
                "SEAT.LIST @ WAITING",
                "SEAT.WAITING @ g",
            ]),
            writes: lines(&[
                "SEAT.HOLD @ bob 1 TTL 1000",
                "SEAT.PICK @ bob TTL 1000 SEATS 1 back-1-5",
                "SEAT.WAIT @ bob 1 TTL 1000 OFFER 1000",
                "SEAT.UNWAIT @ g",
                "SEAT.EXTEND @ t TTL 60000",
                "SEAT.CONFIRM @ t",
                "SEAT.RELEASE @ p",
                "SEAT.REFUND @ 1 back-1-3",
                "SEAT.MOVE @ 1 back-1-3 back-1-6",
                "SEAT.TRANSFER @ bob SEATS 1 back-1-3",
                "SEAT.BLOCK @ 1 left-A-1",
                "SEAT.UNBLOCK @ 1 left-A-1",
                "SEAT.ALTER @ {}",
                "SEAT.CREATE @ {}",
                "SEAT.ZMPOP 1 z MIN",
            ]),
            unchanged: lines(&[
                "SEAT.HOLD @ ann 2 TTL 5 TOKEN t",
                "SEAT.HOLD @ ann 2 TTL 3600000 TOKEN t",
                "SEAT.HOLD @ bob 100 TTL 1000",
                "SEAT.HOLD @ bob 100 TTL 1000 TIER gold",
                "SEAT.HOLD @ bob 1 TTL 1000 TIER x",
                "SEAT.HOLD @ bob 1 TTL 1000 TOKEN t",
                "SEAT.PICK @ bob TTL 1000 SEATS 1 back-1-1",
                "SEAT.PICK @ bob TTL 1000 SEATS 1 nowhere",
                "SEAT.PICK @ cid TTL 1000 TOKEN p ADD SEATS 1 back-1-1",
                "SEAT.PICK @ bob TTL 1000 TOKEN p ADD SEATS 1 back-1-9",
                "SEAT.HOLD @ bob 1 TTL 1000 ONCE x",
                "SEAT.WAIT @ gus 74 TTL 9 OFFER 60000 PRIORITY 2 TOKEN g",
                "SEAT.WAIT @ gus 74 TTL 9 OFFER 60000",
                "SEAT.UNWAIT @ none",
                "SEAT.WAITING @ none",
                "SEAT.CONFIRM @ none",
                "SEAT.RELEASE @ none",
                "SEAT.RELEASE @ t SEATS 1 back-1-1",
                "SEAT.REFUND @ 1 left-A-1",
                "SEAT.REFUND @",
                "SEAT.MOVE @ 1 back-1-3 back-1-1",
                "SEAT.TRANSFER @ dan SEATS 1 back-1-3",
                "SEAT.BLOCK @ HOLD none",
                "SEAT.UNBLOCK @ 1 left-A-1",
                "SEAT.EXTEND @ none TTL 10",
                "SEAT.ALTER @ {}",
                &create_again,
                "SEAT.GET @ left-A-1",
                "SEAT.PLAN @",
                "SEAT.STAT @",
            ]),
            changes: lines(&[
                "SEAT.HOLD @ bob 1 TTL 3600000 TOKEN u",
                "SEAT.EXTEND @ u TTL 3700000",
                "SEAT.CONFIRM @ u",
                "SEAT.PICK @ bob TTL 3600000 TOKEN w SEATS 1 back-1-9",
                "SEAT.PICK @ bob TTL 3600000 TOKEN w ADD SEATS 1 back-1-10",
                "SEAT.HOLD @ bob 1 TTL 3600000 TOKEN w ADD ONCE x",
                "SEAT.RELEASE @ w",
                "SEAT.WAIT @ hal 25 TTL 3600000 OFFER 60000 TIER gold TOKEN h",
                "SEAT.UNWAIT @ h",
                "SEAT.WAIT @ hal 1 TTL 3600000 OFFER 60000 TOKEN offered",
                "SEAT.RELEASE @ offered",
                "SEAT.BLOCK @ 1 back-2-19",
                "SEAT.UNBLOCK @ 1 back-2-19",
                "SEAT.MOVE @ 2 back-1-3 back-1-4 back-1-4 back-1-6",
                "SEAT.MOVE @ ANYTIER 2 back-1-6 back-1-3 back-1-4 back-1-6",
                "SEAT.MOVE @ 2 back-1-3 back-1-4 back-1-6 back-1-3",
                "SEAT.PICK @ bob TTL 3600000 TOKEN kept SEATS 1 back-1-9",
                "SEAT.RELEASE @ kept INTO kept",
                "SEAT.PICK @ bob TTL 3600000 TOKEN kept SEATS 1 back-1-10",
                "SEAT.BLOCK @ NAME kept HOLD kept",
                "SEAT.UNBLOCK @ NAME kept",
                "SEAT.REFUND @ ORDER o 1 back-1-3",
                "SEAT.PICK @ bob TTL 3600000 TOKEN x SEATS 1 back-1-9",
                "SEAT.CONFIRM @ x ORDER o2",
                "SEAT.PICK @ bob TTL 3600000 TOKEN y SEATS 1 back-1-10",
                "SEAT.CONFIRM @ y ORDER o3 EXCHANGE o2 1 back-1-9",
                "SEAT.TRANSFER @ ann ORDER o3 TO ORDER o9 SEATS 1 back-1-10",
                "SEAT.REFUND @ ORDER o9 INTO kept",
                "SEAT.UNBLOCK @ NAME kept",
                "SEAT.HOLD @ bob 1 TTL 3600000 NEED 1 wheelchair TOKEN need",
                "SEAT.RELEASE @ need",
                "SEAT.RELEASE @ t",
                r#"SEAT.ALTER @ {"limits":{"seats_per_user":9}}"#,
                r#"SEAT.ALTER @ {"areas":[{"id":"back","rows":[{"label":"1","rank":3}],"put_rows":[{"label":"3","rank":0,"tier":"bronze","seats":"1-4"}]}]}"#,
                r#"SEAT.ALTER @ {"remove_seats":["back-2-20"],"add_areas":[{"id":"floor","standing":9,"tier":"pit"}]}"#,
            ]),
            toggle: ["SEAT.BLOCK @ 1 back-2-18".into(), "SEAT.UNBLOCK @ 1 back-2-18".into()],
        }
    }

    fn start_short(client: &mut RawClient, key: &str, ttl_ms: u64) {
        send_ok(client, &format!("SEAT.HOLD @ eve 1 TTL {ttl_ms} TOKEN short"), key);
    }

    fn workload_key(seed: u64) -> String {
        format!("show{seed}")
    }

    fn run_workload(server: &RedisServer, seed: u64, steps: usize) -> Run {
        let key = Self::workload_key(seed);
        create(server, &key, &with_events(THEATRE, 50));
        let mut workload = SeatWorkload::new(server.raw(), &key, seed);
        workload.run(steps);
        Run { key, workload }
    }

    fn continue_workload(server: &RedisServer, run: &mut Run, _seed: u64, steps: usize) {
        run.workload.reconnect(server.raw());
        run.workload.run(steps);
    }

    fn may_replicate(command: &str, stream: &str) -> bool {
        command == "XADD" && stream == "evt"
    }

    fn observe(log: &mut Log, at: i64, event: &Event, before: Option<&Show>) {
        let Some(show) = before else { return };
        log.heard.extend(told(show, event));
        match event {
            Event::Held(held) | Event::Offered { held, .. } => {
                held.replaced.as_ref().map(|token| log.deadlines.remove(&token[..]));
                log.deadlines.insert(held.token.to_vec(), held.until);
            }
            Event::Extended { token, until } => drop(log.deadlines.insert(token.to_vec(), *until)),
            Event::Expired { token } => {
                let until = log.deadlines.remove(&token[..]).expect("a hold expires once");
                assert!(until <= at, "{token:?} expired early");
                log.expired += 1;
            }
            Event::Confirmed { token, .. } => drop(log.deadlines.remove(&token[..])),
            Event::Released { token, seats } => {
                let claim = show.claims().get(show.claims().find(token).expect("a live hold"));
                if claim.seats == *seats {
                    log.deadlines.remove(&token[..]);
                }
            }
            _ => {}
        }
    }

    fn compare(log: Log, run: &Run, entries: usize) {
        eprintln!("{} events, {} expiries, {entries} stream entries", log.heard.len(), log.expired);
        assert!(log.heard.len() > 500 && log.expired > 5, "little happened");
        assert_eq!(log.heard, run.workload.done, "what was replicated, and what the replies said");
        let lasting: Vec<&[u8]> = run.workload.lasting().map(|(token, _)| token.as_bytes()).collect();
        assert_eq!(log.deadlines.keys().map(|token| &token[..]).collect::<Vec<_>>(), lasting);
    }

    fn keeps_promises(server: &RedisServer, run: &Run) {
        let mut client = server.raw();
        for (token, seats) in run.workload.lasting() {
            for seat in seats {
                let record = client.call(&["SEAT.GET", &run.key, seat]);
                assert_eq!(record.field("token"), Reply::bulk(token), "{seat}");
            }
        }
    }

    fn redeem_promises(server: &RedisServer, run: &Run) {
        let mut client = server.raw();
        for (token, seats) in run.workload.lasting() {
            let sold = client.call(&["SEAT.CONFIRM", &run.key, token]);
            assert_eq!(sold, Reply::Int(seats.len() as i64), "{token}");
        }
    }

    fn dumps(server: &RedisServer) -> Vec<Dump> {
        let mut client = server.raw();
        create(server, "busy", &with_events(THEATRE, 9));
        // Messages that could not be sent stay in the value.
        client.words("SET busy:evt 1");
        SeatWorkload::new(server.raw(), "busy", 30).run(60);
        create(server, "small", &sample_venue(2, 5));
        for number in 0..3 {
            hold(&mut client, "small", &format!("u{number}"), 2, LONG_TTL_MS, &format!("t{number}"));
        }
        client.words("SEAT.CONFIRM small t1 ORDER o");
        client.words("SEAT.BLOCK small 1 a-2-5");
        let small = Dump::of(&mut client, "small");
        vec![Dump::of(&mut client, "busy"), small.clone(), small]
    }

    fn damage_from(value: &[u8]) -> usize {
        // The plan takes most of the room; what follows it is what deserves most of the damage.
        value.windows(2).rposition(|pair| pair == b"}}" || pair == b"0}").map_or(0, |at| at + 2)
    }

    fn use_value(client: &mut RawClient, key: &str) {
        let all = books(client, key.as_bytes()).all();
        let Reply::Bulk(plan) = client.call(&["SEAT.PLAN", key]) else { panic!("no plan") };
        assert_eq!(client.call(&[&b"SEAT.CREATE"[..], b"empty", &plan]), Reply::Simple("OK".into()));
        assert_eq!(books(client, b"empty").all(), all);
        let lines = ["SEAT.HOLD @ me 1 TTL 60000 TOKEN mine", "SEAT.CONFIRM @ mine", "DEL empty"];
        let replies = send_all(client, &lines, key);
        match &replies[0] {
            Reply::Array(_) => assert_eq!(replies[1], Reply::Int(1)),
            Reply::NullArray => {}
            Reply::Error(text) => {
                assert!(text.starts_with("LIMIT ") || text.starts_with("EXISTS "), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(books(client, key.as_bytes()).all(), all);
    }

    fn begin_garbage(client: &mut RawClient) {
        client.call(&["SEAT.CREATE", "k", THEATRE]);
    }

    fn check_sums(client: &mut RawClient, key: &str) {
        assert!(books(client, key.as_bytes()).all() > 0);
    }

    fn fill(server: &RedisServer) -> String {
        let mut client = server.raw();
        create(server, "show", &sample_venue(1000, 100));
        for number in 0..2000 {
            let (user, token) = (format!("user{number}"), format!("token{number}"));
            hold(&mut client, "show", &user, 10, LONG_TTL_MS, &token);
            if number % 2 == 0 {
                client.call(&["SEAT.CONFIRM", "show", &token, "ORDER", &format!("order{number}")]);
            }
        }
        eventually("all holds to be there", TIMEOUT, || books(&mut client, b"show").held == 10_000);
        "show".into()
    }
}

/// The hostile calls of the family.
const GARBAGE: Garbage<'static> = Garbage {
    steps: 60_000,
    commands: &[
        "SEAT.CREATE",
        "SEAT.ALTER",
        "SEAT.HOLD",
        "SEAT.PICK",
        "SEAT.EXTEND",
        "SEAT.CONFIRM",
        "SEAT.RELEASE",
        "SEAT.REFUND",
        "SEAT.MOVE",
        "SEAT.TRANSFER",
        "SEAT.ORDER",
        "SEAT.BLOCK",
        "SEAT.UNBLOCK",
        "SEAT.BLOCKS",
        "SEAT.GET",
        "SEAT.HOLDS",
        "SEAT.WAIT",
        "SEAT.UNWAIT",
        "SEAT.WAITING",
        "SEAT.FIND",
        "SEAT.LIST",
        "SEAT.STAT",
        "SEAT.MAP",
        "SEAT.PLAN",
        "SEAT.ZMPOP",
        "SEAT.APPLY",
    ],
    templates: &[
        "SEAT.HOLD k u 2 TTL 5000 TOKEN t",
        "SEAT.HOLD k u 3 TTL 50 TIER gold AREAS 2 left right ADJACENT AREA ORPHANS ALLOW FLAGS 1 wheelchair",
        "SEAT.HOLD k u 1 TTL 100000 ADJACENT IGNORE REPLACE t OTHER TOKEN t2",
        "SEAT.HOLD k v 6 TTL 3153600000 ADJACENT REQUIRE ORPHANS FORBID",
        "SEAT.HOLD k v 3 NEED 1 wheelchair TTL 5000 NEED 1 view",
        "SEAT.WAIT k v 3 TTL 5000 OFFER 50 NEED 2 wheelchair",
        "SEAT.FIND k 3 NEED 1 wheelchair BEST 2",
        "SEAT.PICK k u TTL 5000 TOKEN t SEATS 2 back-1-1 back-1-2",
        "SEAT.PICK k u TTL 5000 ORPHANS FORBID SEATS 1 back-1-2",
        "SEAT.PICK k u TTL 5000 TOKEN t ADD SEATS 1 back-1-2",
        "SEAT.HOLD k u 2 TTL 5000 TOKEN t ADD ONCE o",
        "SEAT.HOLD k u 2 TTL 5000 EXCHANGE 1 back-1-1 TOKEN t3",
        "SEAT.FIND k 2 ALSO 1 k2 BESIDE 1 k3",
        "SEAT.RELEASE k t ALSO 1 k2",
        "SEAT.EXTEND k t TTL 5000",
        "SEAT.CONFIRM k t USER u ORDER o",
        "SEAT.RELEASE k t SEATS 1 back-1-1",
        "SEAT.RELEASE k t2",
        "SEAT.REFUND k ORDER o 1 back-1-1",
        "SEAT.REFUND k 1 left-A-1",
        "SEAT.REFUND k ORDER o INTO b",
        "SEAT.MOVE k ANYTIER 2 back-1-1 back-1-2 back-1-2 left-A-1",
        "SEAT.TRANSFER k v ORDER o TO ORDER o2 SEATS 2 back-1-1 back-1-2",
        "SEAT.RELEASE k t INTO b",
        "SEAT.BLOCK k NAME b UNTIL 99999999999999 HOLD t",
        "SEAT.ORDER k o",
        "SEAT.BLOCK k 2 left-A-1 left-A-2",
        "SEAT.UNBLOCK k 1 left-A-1",
        "SEAT.GET k left-A-1",
        "SEAT.HOLDS k u",
        "SEAT.FIND k 2 TIER gold AREAS 1 left ADJACENT REQUIRE FLAGS 1 wheelchair BEST 3",
        "SEAT.LIST k SEATS STATE sold TIER gold AREA left USER u CURSOR 3 COUNT 9",
        "SEAT.LIST k HOLDS CURSOR 1",
        "SEAT.LIST k WAITING USER u",
        "SEAT.WAIT k u 9 TTL 5000 OFFER 50 TIER gold ADJACENT REQUIRE TOKEN t",
        "SEAT.WAIT k v 2 TTL 50 OFFER 50 PRIORITY 3 TOKEN t2",
        "SEAT.UNWAIT k t",
        "SEAT.WAITING k t",
        "SEAT.CONFIRM k t USER u ORDER o EXCHANGE o2 2 left-1-1 left-1-2",
        "SEAT.LIST k ORDERS USER u",
        "SEAT.STAT k TIER gold AREA left",
        "SEAT.MAP k left",
        "SEAT.PLAN k",
        "SEAT.ZMPOP 1 z MIN COUNT 2 ADJACENT STRIDE 100",
        "SEAT.ZMPOP 2 z k MAX COUNT 1",
        r#"SEAT.ALTER k {"events":3,"limits":{"holds_per_user":2}}"#,
        r#"SEAT.ALTER k {"areas":[{"id":"back","rows":[{"label":"1","tier":"gold"}]}]}"#,
        r#"SEAT.ALTER k {"remove_seats":["left-A-1"],"add_areas":[{"id":"u","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-3"}]}]}"#,
        r#"SEAT.ALTER k {"areas":[{"id":"back","remove_rows":["2"],"put_rows":[{"label":"o","rank":2,"tier":"gold","seats":"1-4"}]}]}"#,
        "SEAT.APPLY k payload",
        "ZADD z 1 a 2 b 3 c 100 d 101 e",
        "COPY k k2 REPLACE",
        "RENAME k2 k3",
    ],
    words: &[
        "t",
        "t2",
        "u",
        "o",
        "z",
        "left",
        "left-A-1",
        "back-2-20",
        "left-B-2",
        "gold",
        "TTL",
        "TIER",
        "AREAS",
        "SEATS",
        "TOKEN",
        "ADJACENT",
        "PREFER",
        "ORPHANS",
        "FORBID",
        "FLAGS",
        "REPLACE",
        "OTHER",
        "ORDER",
        "USER",
        "AREA",
        "MIN",
        "MAX",
        "COUNT",
        "STRIDE",
        "--",
        "-",
        "a--",
        "left-",
        "{}",
        "[]",
        "null",
    ],
    document: Some(THEATRE),
};
