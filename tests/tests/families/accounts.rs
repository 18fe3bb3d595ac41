//! Books of accounts.

use allot_core::account::{Book as State, Event, InstanceEvent};
use allot_tests::books::{BOOK, Book, BookWorkload};
use allot_tests::damage::Dump;
use allot_tests::garbage::Garbage;
use allot_tests::raw::{RawClient, Reply};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};

use crate::family::{Family, Lines, lines, send_all, send_ok, state};

/// The family of `ACCOUNT` commands.
pub(crate) struct Accounts;

state!(State, Event, |first, at| {
    let Event::Opened(settings) = first else { panic!("{first:?} came first") };
    State::open(settings.clone(), at)
});

impl Family for Accounts {
    const TYPE: &'static str = "allotacct";
    const APPLY: &'static str = "ACCOUNT.APPLY";
    const ENDED: &'static str = "account_lapsed";
    const LIVE: Option<&'static str> = Some("account_live_logins");
    const DAMAGED: usize = 40_000;
    const GARBAGE: Garbage<'static> = GARBAGE;

    type State = State;
    type Workload = ();
    /// How many accounts were assigned.
    type Log = usize;

    fn create(client: &mut RawClient, key: &str) -> Lines {
        for line in [
            "ACCOUNT.BOOK @ EVENTS 100",
            "ACCOUNT.MODULE @ m DEPARTMENT d INSTANCES 2 SHARE PRESENT",
            "ACCOUNT.ADD @ m QUOTA 100 TIERS 2 150 0.1 1000 0.5 ACCOUNTS 4 p0 p1 p2 p3",
            "ACCOUNT.ATTACH @ m a",
        ] {
            send_ok(client, line, key);
        }
        let epoch = send_ok(client, "ACCOUNT.LOGIN @ p1 a t TTL 3600000", key).field("epoch").int();
        send_ok(client, &format!("ACCOUNT.USE @ p1 {epoch} COUNT 120"), key);
        let assignment = send_ok(client, "ACCOUNT.INFO @ ACCOUNT p1", key).field("epoch").int();
        Lines {
            reads: lines(&[
                "ACCOUNT.INFO @",
                "ACCOUNT.INFO @ MODULE m",
                "ACCOUNT.INFO @ ACCOUNT p1",
                "ACCOUNT.LIST @",
                "ACCOUNT.USAGE @",
                "ACCOUNT.USAGE @ BY module",
                "ACCOUNT.USAGE @ BY account",
                "ACCOUNT.HISTORY @ p1",
            ]),
            writes: lines(&[
                "ACCOUNT.BOOK @ CAP 5",
                "ACCOUNT.MODULE @ m DEPARTMENT d INSTANCES 3 SHARE PRESENT",
                "ACCOUNT.ATTACH @ m c",
                "ACCOUNT.DETACH @ m a",
                "ACCOUNT.ADD @ m QUOTA 1 ACCOUNTS 1 x",
                "ACCOUNT.DEL @ 1 p0",
                "ACCOUNT.MOVE @ m 1 p0",
                "ACCOUNT.FREEZE @ p0",
                "ACCOUNT.LIMIT @ CAP 5 ACCOUNTS 1 p0",
                "ACCOUNT.LOGIN @ p2 a t TTL 1000",
                &format!("ACCOUNT.RENEW @ p1 {epoch} TTL 1000"),
                &format!("ACCOUNT.LOGOUT @ p1 {epoch}"),
                &format!("ACCOUNT.USE @ p1 {epoch}"),
                "ACCOUNT.REPORT @ p1 5 9",
                "ACCOUNT.RAISE @ 5",
                "ACCOUNT.REBALANCE @",
                "ACCOUNT.PICK @ m a COUNT 3",
                "ACCOUNT.DELMODULE @ m",
                "ACCOUNT.DEPARTMENT @ d CAP 5",
                "ACCOUNT.TARIFF @ QUOTA 7 ACCOUNTS 1 p0",
                "ACCOUNT.TERM @ 1 l",
            ]),
            unchanged: lines(&[
                "ACCOUNT.BOOK @",
                "ACCOUNT.MODULE @ m DEPARTMENT d INSTANCES 2 SHARE PRESENT",
                "ACCOUNT.ADD @ m QUOTA 100 ACCOUNTS 2 new p1",
                "ACCOUNT.DEL @ 2 p0 nobody",
                "ACCOUNT.MOVE @ m 1 p0",
                "ACCOUNT.ATTACH @ m a",
                "ACCOUNT.ATTACH @ nowhere a",
                "ACCOUNT.DETACH @ m b",
                "ACCOUNT.LOGIN @ p1 a other TTL 1000",
                "ACCOUNT.LOGIN @ p0 b t TTL 1000",
                "ACCOUNT.LOGOUT @ p1 5000000",
                "ACCOUNT.RENEW @ p1 5000000 TTL 1000",
                "ACCOUNT.USE @ p1 5000000",
                "ACCOUNT.REPORT @ p1 5000000 0",
                "ACCOUNT.RAISE @ 5 ACCOUNT p1",
                "ACCOUNT.PICK @ m a",
                "ACCOUNT.REBALANCE @",
                "ACCOUNT.REBALANCE @ DRYRUN",
                "ACCOUNT.ATTACH @ m c TERM 9",
                "ACCOUNT.FREEZE @ p1 OFF",
                "ACCOUNT.LIMIT @ CAP 0 ACCOUNTS 1 p1",
                "ACCOUNT.INFO @",
                "ACCOUNT.LIST @",
                "ACCOUNT.USAGE @ BY account",
            ]),
            changes: lines(&[
                "ACCOUNT.ATTACH @ m b",
                &format!("ACCOUNT.RENEW @ p1 {epoch} TTL 3700000"),
                &format!("ACCOUNT.USE @ p1 {epoch} COUNT 7"),
                &format!("ACCOUNT.REPORT @ p1 {assignment} 9"),
                &format!("ACCOUNT.RAISE @ {epoch} ACCOUNT p1"),
                &format!("ACCOUNT.LOGOUT @ p1 {epoch}"),
                "ACCOUNT.FREEZE @ p2",
                "ACCOUNT.FREEZE @ p2 OFF",
                "ACCOUNT.FREEZE @ p2 UNTIL 4102444800000",
                "ACCOUNT.LIMIT @ CAP 500 ACCOUNTS 1 p1",
                "ACCOUNT.BOOK @ TURNS 4102444800000",
                "ACCOUNT.BOOK @ MONTHS",
                "ACCOUNT.MODULE @ n DEPARTMENT d INSTANCES 1 SHARE PRESENT",
                "ACCOUNT.ADD @ n QUOTA 1 ACCOUNTS 1 x",
                "ACCOUNT.TARIFF @ QUOTA 7 ACCOUNTS 1 x",
                "ACCOUNT.DEL @ 1 x",
                "ACCOUNT.DELMODULE @ n",
                "ACCOUNT.DEPARTMENT @ d CAP 5000",
                "ACCOUNT.MODULE @ m DEPARTMENT d INSTANCES 2 MIN 0",
                "ACCOUNT.BOOK @ CAP 9",
                "ACCOUNT.BOOK @ EVENTS 0",
                "ACCOUNT.BOOK @ EVENTS 50",
                "ACCOUNT.TERM @ 1 l",
                "ACCOUNT.DETACH @ m b TERM 1",
            ]),
            toggle: ["ACCOUNT.FREEZE @ p3".into(), "ACCOUNT.FREEZE @ p3 OFF".into()],
        }
    }

    fn start_short(client: &mut RawClient, key: &str, ttl_ms: u64) {
        send_ok(client, &format!("ACCOUNT.LOGIN @ p0 a t TTL {ttl_ms}"), key);
    }

    fn workload_key(_seed: u64) -> String {
        BOOK.to_owned()
    }

    fn run_workload(server: &RedisServer, seed: u64, steps: usize) {
        let mut book = Book::create(server, 2);
        book.ok("MODULE n DEPARTMENT d INSTANCES 2 SHARE PRESENT");
        book.ok("BOOK EVENTS 1000");
        BookWorkload::new(server, seed).run(steps);
    }

    fn may_replicate(command: &str, stream: &str) -> bool {
        command == "XADD" && stream == "evt"
    }

    fn observe(assigned: &mut usize, _at: i64, event: &Event, _before: Option<&State>) {
        if let Event::Instance { event: InstanceEvent::Assigned { accounts }, .. } = event {
            *assigned += accounts.len();
        }
    }

    fn compare(assigned: usize, (): &(), entries: usize) {
        assert!(assigned > 100, "little happened");
        assert!(entries > assigned, "{entries} entries tell of {assigned} assignments");
    }

    fn dumps(server: &RedisServer) -> Vec<Dump> {
        let mut client = server.raw();
        let mut small = Book::create(server, 2);
        small.add("m", 0..6);
        small.ok("ATTACH m a");
        small.ok("ATTACH m b");
        let holder = small.account("p1", "instance").text();
        small.ok(&format!("LOGIN p1 {holder} t TTL 3600000"));
        let epoch = small.account("p1", "login_epoch").int();
        small.ok(&format!("USE p1 {epoch} COUNT 20"));
        let mut dumps = vec![Dump::of(&mut client, BOOK)];
        BookWorkload::new(server, 81).run(400);
        dumps.push(Dump::of(&mut client, BOOK));
        dumps
    }

    fn use_value(client: &mut RawClient, key: &str) {
        let lines = [
            "ACCOUNT.INFO @",
            "ACCOUNT.LIST @ COUNT 1000",
            "ACCOUNT.USAGE @ BY module",
            "ACCOUNT.USAGE @ BY account",
            "ACCOUNT.MODULE @ new DEPARTMENT d INSTANCES 2 SHARE PRESENT",
            "ACCOUNT.ADD @ new QUOTA 5 ACCOUNTS 2 q1 q2",
            "ACCOUNT.ATTACH @ new i",
            "ACCOUNT.ATTACH @ m a",
            "ACCOUNT.LOGIN @ q1 i t TTL 1000",
            "ACCOUNT.PICK @ m a COUNT 5",
            "ACCOUNT.FREEZE @ p1",
            "ACCOUNT.REBALANCE @",
            "ACCOUNT.MODULE @ m DEPARTMENT d INSTANCES 1 SHARE PRESENT",
            "ACCOUNT.MOVE @ new 1 p2",
            "ACCOUNT.DETACH @ m b",
            "ACCOUNT.DEL @ 2 p3 q1",
            "ACCOUNT.INFO @ m",
        ];
        let codes = ["LIMIT", "EXISTS", "STALE", "NOTFOUND", "BADSTATE", "NOTOWNER", "ERR"];
        for (line, reply) in lines.iter().zip(send_all(client, &lines, key)) {
            if let Reply::Error(text) = reply {
                let code = text.split(' ').next().unwrap_or_default();
                assert!(codes.contains(&code) && !text.contains("internal"), "{line}: {text}");
            }
        }
    }

    fn begin_garbage(client: &mut RawClient) {
        client.words("ACCOUNT.BOOK k");
        client.words("ACCOUNT.MODULE k m DEPARTMENT d INSTANCES 2 SHARE PRESENT");
        client.words("ACCOUNT.MODULE k n DEPARTMENT d INSTANCES 2 SHARE PRESENT");
    }

    fn fill(server: &RedisServer) -> String {
        const COUNT: usize = 200_000;
        let mut book = Book::create(server, 10);
        for first in (0..COUNT).step_by(1000) {
            book.add("m", first..first + 1000);
        }
        for instance in ["a", "b", "c"] {
            book.ok(&format!("ATTACH m {instance}"));
        }
        eventually("all to be assigned", TIMEOUT, || book.total("assigned") == COUNT as i64);
        BOOK.into()
    }
}

/// The hostile calls of the family.
const GARBAGE: Garbage<'static> = Garbage {
    steps: 60_000,
    commands: &[
        "ACCOUNT.BOOK",
        "ACCOUNT.TERM",
        "ACCOUNT.MODULE",
        "ACCOUNT.DELMODULE",
        "ACCOUNT.DEPARTMENT",
        "ACCOUNT.TARIFF",
        "ACCOUNT.ADD",
        "ACCOUNT.DEL",
        "ACCOUNT.MOVE",
        "ACCOUNT.FREEZE",
        "ACCOUNT.LIMIT",
        "ACCOUNT.ATTACH",
        "ACCOUNT.DETACH",
        "ACCOUNT.LOGIN",
        "ACCOUNT.RENEW",
        "ACCOUNT.LOGOUT",
        "ACCOUNT.USE",
        "ACCOUNT.REPORT",
        "ACCOUNT.RAISE",
        "ACCOUNT.PICK",
        "ACCOUNT.REBALANCE",
        "ACCOUNT.INFO",
        "ACCOUNT.LIST",
        "ACCOUNT.USAGE",
        "ACCOUNT.HISTORY",
        "ACCOUNT.APPLY",
    ],
    templates: &[
        "ACCOUNT.BOOK k CAP 1000 DWELL 0 MAXMOVES 3 MARGIN 0.5 LENDLEVEL 1 TURNS 4000000000000 4100000000000",
        "ACCOUNT.TERM k 3 css",
        "ACCOUNT.MODULE k m DEPARTMENT d INSTANCES 2 SHARE PRESENT WEIGHT 2 RESERVE 1 MIN 1 LEND 0 CAP 9000",
        "ACCOUNT.MODULE k n DEPARTMENT d INSTANCES 1 SHARE PRESENT",
        "ACCOUNT.ADD k m QUOTA 100 TIERS 2 150 0.1 1000 0.5 ACCOUNTS 3 p1 p2 p3",
        "ACCOUNT.ADD k * QUOTA 7 ACCOUNTS 2 q1 q2",
        "ACCOUNT.DELMODULE k n",
        "ACCOUNT.DEPARTMENT k d CAP 500",
        "ACCOUNT.TARIFF k QUOTA 50 TIERS 1 90 2 ACCOUNTS 2 p1 p2",
        "ACCOUNT.DEL k 1 p3",
        "ACCOUNT.MOVE k n 2 p1 p2",
        "ACCOUNT.FREEZE k p2",
        "ACCOUNT.FREEZE k p2 OFF",
        "ACCOUNT.FREEZE k p2 UNTIL 4000000000000",
        "ACCOUNT.LIMIT k CAP 90 ACCOUNTS 2 p1 p2",
        "ACCOUNT.ATTACH k m a",
        "ACCOUNT.ATTACH k n b",
        "ACCOUNT.DETACH k m a GRACE 5",
        "ACCOUNT.LOGIN k p1 a t TTL 1000",
        "ACCOUNT.RENEW k p1 5 TTL 1000",
        "ACCOUNT.LOGOUT k p1 5",
        "ACCOUNT.USE k p1 5 COUNT 3",
        "ACCOUNT.REPORT k p1 5 3",
        "ACCOUNT.RAISE k 5 ACCOUNT p1",
        "ACCOUNT.PICK k m a COUNT 2",
        "ACCOUNT.REBALANCE k DRYRUN MAXMOVES 5",
        "ACCOUNT.INFO k m",
        "ACCOUNT.LIST k MODULE m INSTANCE a STATE assigned COUNT 5",
        "ACCOUNT.USAGE k BY account AGO 0",
        "ACCOUNT.HISTORY k p1",
        "COPY k k2 REPLACE",
        "RENAME k2 k3",
    ],
    words: &[
        "m",
        "n",
        "a",
        "b",
        "p1",
        "p2",
        "p3",
        "q1",
        "t",
        "d",
        "*",
        "CAP",
        "DWELL",
        "MAXMOVES",
        "TURNS",
        "DEPARTMENT",
        "INSTANCES",
        "WEIGHT",
        "RESERVE",
        "QUOTA",
        "TIERS",
        "ACCOUNTS",
        "0.5",
        "1.",
        "GRACE",
        "TTL",
        "COUNT",
        "TERM",
        "FORCE",
        "OFF",
        "BY",
        "AGO",
        "CURSOR",
        "STATE",
        "assigned",
        "MODULE",
        "INSTANCE",
        "DRYRUN",
    ],
    document: None,
};
