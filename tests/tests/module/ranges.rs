//! What a command accepts, every form of storage can read: each number of each command is drawn at the bounds of numbers
//! and around them, and what the command accepts goes through DUMP, RDB, AOF and a replica.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use allot_tests::raw::RawClient;
use allot_tests::{RedisServer, Reply};

const SHOW: &[&str] = &[
    r#"SEAT.CREATE {k} {"events":9,"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"},{"label":"2","rank":2,"tier":"t","seats":[{"label":"1","flags":["f"]}]}]}]}"#,
    "SEAT.HOLD {k} ann 2 TTL 600000 TOKEN h",
];
const POOL: &[&str] = &[
    "NUMPOOL.CONFIG {k} EVENTS 9",
    "NUMPOOL.ADD {k} 1001 1002",
    "NUMPOOL.REG {k} 1001 1002",
    "NUMPOOL.CALL {k} 1001 LEASE c SWITCH s",
];
const REALM: &[&str] =
    &["CONF.REALM {k}", "CMU.JOIN {k} u:1:1 CAPACITY 100 LEASE 3600000", "CONF.CREATE {k} 7 REQUEST r"];
const BOOK: &[&str] = &[
    "ACCOUNT.BOOK {k} EVENTS 9",
    "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1",
    "ACCOUNT.ADD {k} m QUOTA 100 TIERS 1 500 3 ACCOUNTS 2 a1 a2",
    "ACCOUNT.ATTACH {k} m i:1",
    "ACCOUNT.LOGIN {k} a1 i:1 t TTL 600000",
];

/// Calls of each command that changes a value, with `#` for the number that is drawn. EPOCH is that of the conference or
/// the account.
const CALLS: &[(&[&str], &[&str])] = &[
    (
        &[],
        &[
            r#"SEAT.CREATE {k} {"events":#,"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#,
            r#"SEAT.CREATE {k} {"limits":{"holds_per_user":#},"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#,
            r#"SEAT.CREATE {k} {"limits":{"seats_per_user":#},"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#,
            r#"SEAT.CREATE {k} {"limits":{"max_hold_ms":#},"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#,
            r#"SEAT.CREATE {k} {"areas":[{"id":"a","priority":#,"rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#,
            r#"SEAT.CREATE {k} {"areas":[{"id":"a","capacity":#,"tier":"t"}]}"#,
            r#"SEAT.CREATE {k} {"areas":[{"id":"a","rows":[{"label":"1","rank":#,"tier":"t","seats":"1-9"}]}]}"#,
        ],
    ),
    (
        SHOW,
        &[
            "SEAT.HOLD {k} bob # TTL 60000 TOKEN x",
            "SEAT.HOLD {k} bob 1 TTL # TOKEN x",
            "SEAT.HOLD {k} bob 1 TTL 60000 TOKEN x NEED # f",
            "SEAT.PICK {k} bob TTL # TOKEN x SEATS 1 a-1-9",
            "SEAT.WAIT {k} bob # TTL 60000 OFFER 1000 TOKEN x",
            "SEAT.WAIT {k} bob 9 TTL # OFFER 1000 TOKEN x",
            "SEAT.WAIT {k} bob 9 TTL 60000 OFFER # TOKEN x",
            "SEAT.WAIT {k} bob 9 TTL 60000 OFFER 1000 PRIORITY # TOKEN x",
            "SEAT.WAIT {k} bob 1 TTL 60000 OFFER # TOKEN x",
            "SEAT.WAIT {k} bob 9 TTL 60000 OFFER 1000 TOKEN x NEED # f",
            "SEAT.EXTEND {k} h TTL #",
            "SEAT.MOVE {k} # a-1-1 a-1-9",
            "SEAT.BLOCK {k} NAME b UNTIL # 1 a-1-9",
            "SEAT.BLOCK {k} NAME b PERUSER # 1 a-1-9",
            r#"SEAT.ALTER {k} {"events":#}"#,
            r#"SEAT.ALTER {k} {"limits":{"holds_per_user":#}}"#,
            r#"SEAT.ALTER {k} {"limits":{"max_hold_ms":#}}"#,
        ],
    ),
    (
        POOL,
        &[
            "NUMPOOL.REG {k} 1002 TTL #",
            "NUMPOOL.CALL {k} TTL # LEASE x",
            "NUMPOOL.HANGUP {k} 1001 LEASE c COOLDOWN #",
            "NUMPOOL.RENEW {k} 1001 LEASE c TTL #",
            "NUMPOOL.RECONCILE {k} SWITCH s BEFORE #",
            "NUMPOOL.CONFIG {k} LEASE #",
            "NUMPOOL.CONFIG {k} COOLDOWN #",
            "NUMPOOL.CONFIG {k} REGTTL #",
            "NUMPOOL.CONFIG {k} EVENTS #",
            "NUMPOOL.CONFIG {k} CAPS 1 # 5",
            "NUMPOOL.CONFIG {k} CAPS 1 60000 #",
            "NUMPOOL.CONFIG {k} RATE # 60000",
            "NUMPOOL.CONFIG {k} RATE 5 #",
            "NUMPOOL.CONFIG {k} PEERS #",
            "NUMPOOL.CONFIG {k} PEERTTL #",
            "NUMPOOL.CONFIG {k} DAYSTART # 60000",
            "NUMPOOL.CONFIG {k} DAYSTART 5 #",
            "NUMPOOL.CAPS {k} 1002 1 # 5",
            "NUMPOOL.CAPS {k} 1002 1 60000 #",
            "NUMPOOL.BEAT {k} s TTL #",
            "NUMPOOL.SUSPEND {k} FOR # 1002",
            "NUMPOOL.CAUSE {k} w COOLDOWN #",
            "NUMPOOL.CAUSE {k} w COOLDOWN 5 AFTER # WITHIN 60000",
            "NUMPOOL.CAUSE {k} w COOLDOWN 5 AFTER 2 WITHIN #",
        ],
    ),
    (
        REALM,
        &[
            "CONF.REALM {k} LICENCES #",
            "CONF.REALM {k} RETRY #",
            "CONF.REALM {k} WINDOW #",
            "CONF.REALM {k} CREATETIMEOUT #",
            "CONF.REALM {k} RELEASETIMEOUT #",
            "CONF.REALM {k} WAITTIMEOUT #",
            "CONF.REALM {k} TOMBSTONE #",
            "CONF.REALM {k} WARN #",
            "CONF.TERM {k} # l",
            "CONF.CREATE {k} 8 END #",
            "CONF.CREATE {k} 8 SIZE #",
            "CONF.CREATE {k} 8 LICENCES #",
            "CONF.CREATE {k} 8 PRIORITY #",
            "CONF.CREATE {k} 8 ZONEFALL #",
            "CONF.EXTEND {k} 7 END #",
            "CONF.RESIZE {k} 7 #",
            "CONF.ALTER {k} 7 ZONEFALL #",
            "CMU.JOIN {k} v:1:1 CAPACITY #",
            "CMU.JOIN {k} v:1:1 CAPACITY 5 LEASE #",
            "CMU.BEAT {k} u:1:1 LOAD #",
            "CMU.REPORT {k} u:1:1 HIGHEST #",
            "CMU.REPORT {k} u:1:1 HIGHEST 5 7 #",
            "CMU.REPORT {k} u:1:1 HIGHEST 5 ENDED 1 7 #",
            "CMU.REPORT {k} u:1:1 HIGHEST 5 PARAMS 1 7 # 1 0 r",
            "CMU.REPORT {k} u:1:1 HIGHEST 5 PARAMS 1 7 1 # 0 r",
            "CMU.REPORT {k} u:1:1 HIGHEST 5 PARAMS 1 7 1 1 # r",
            "CONF.ACK {k} 7 u:1:1 #",
            "CONF.NACK {k} 7 u:1:1 #",
            "CONF.FAILED {k} 7 u:1:1 #",
            "CONF.ENDED {k} 7 u:1:1 #",
            "CONF.SET {k} 7 u:1:1 # 1 a b",
            "CONF.SET {k} 7 u:1:1 EPOCH # a b",
            "CONF.RECOVER {k} COUNT #",
            "CONF.REBALANCE {k} MAXMOVES #",
            "CONF.REBALANCE {k} TERM #",
            "CONF.RECOVER {k} TERM #",
            "CONF.RESTART {k} LIVE 1 u:1:1 TERM #",
            "CONF.MOVE {k} 7 TERM #",
            "CMU.DOWN {k} u:1:1 TERM #",
            "CMU.DRAIN {k} u:1:1 TERM #",
        ],
    ),
    (
        BOOK,
        &[
            "ACCOUNT.BOOK {k} CAP #",
            "ACCOUNT.BOOK {k} DWELL #",
            "ACCOUNT.BOOK {k} MAXMOVES #",
            "ACCOUNT.BOOK {k} MARGIN #",
            "ACCOUNT.BOOK {k} LENDLEVEL #",
            "ACCOUNT.BOOK {k} EVENTS #",
            "ACCOUNT.BOOK {k} TURNS #",
            "ACCOUNT.TERM {k} # l",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES #",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1 WEIGHT #",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1 RESERVE #",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1 MIN #",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1 LEND #",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1 CAP #",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1 TERM #",
            "ACCOUNT.DELMODULE {k} m TERM #",
            "ACCOUNT.DEPARTMENT {k} d CAP #",
            "ACCOUNT.DEPARTMENT {k} d CAP 5 TERM #",
            "ACCOUNT.TARIFF {k} QUOTA # ACCOUNTS 1 a1",
            "ACCOUNT.TARIFF {k} QUOTA 100 TIERS 1 # 3 ACCOUNTS 1 a1",
            "ACCOUNT.TARIFF {k} QUOTA 100 TIERS 1 500 # ACCOUNTS 1 a1",
            "ACCOUNT.TARIFF {k} QUOTA 100 ACCOUNTS 1 a1 TERM #",
            "ACCOUNT.ADD {k} m QUOTA # ACCOUNTS 1 a3",
            "ACCOUNT.ADD {k} m QUOTA 100 TIERS 1 # 3 ACCOUNTS 1 a3",
            "ACCOUNT.ADD {k} m QUOTA 100 TIERS 1 500 # ACCOUNTS 1 a3",
            "ACCOUNT.ADD {k} m QUOTA 100 ACCOUNTS 1 a3 TERM #",
            "ACCOUNT.DEL {k} 1 a2 TERM #",
            "ACCOUNT.MOVE {k} m 1 a2 TERM #",
            "ACCOUNT.FREEZE {k} a1 TERM #",
            "ACCOUNT.FREEZE {k} a1 UNTIL #",
            "ACCOUNT.LIMIT {k} CAP # ACCOUNTS 1 a1",
            "ACCOUNT.ATTACH {k} m i:2 TERM #",
            "ACCOUNT.DETACH {k} m i:1 GRACE #",
            "ACCOUNT.DETACH {k} m i:1 TERM #",
            "ACCOUNT.LOGIN {k} a2 i:1 t TTL #",
            "ACCOUNT.RENEW {k} a1 # TTL 1000",
            "ACCOUNT.RENEW {k} a1 EPOCH TTL #",
            "ACCOUNT.LOGOUT {k} a1 #",
            "ACCOUNT.LOGOUT {k} a1 EPOCH BACK TERM #",
            "ACCOUNT.USE {k} a1 # COUNT 1",
            "ACCOUNT.USE {k} a1 EPOCH COUNT #",
            "ACCOUNT.REPORT {k} a1 # 5",
            "ACCOUNT.REPORT {k} a1 EPOCH #",
            "ACCOUNT.RAISE {k} #",
            "ACCOUNT.RAISE {k} # ACCOUNT a1",
            "ACCOUNT.RAISE {k} 5 TERM #",
            "ACCOUNT.PICK {k} m i:1 COUNT #",
            "ACCOUNT.REBALANCE {k} MAXMOVES #",
            "ACCOUNT.REBALANCE {k} TERM #",
        ],
    ),
];

/// Calls with `#` for the name or the text that is drawn.
const NAMES: &[(&[&str], &[&str])] = &[
    (
        SHOW,
        &[
            "SEAT.HOLD {k} # 1 TTL 60000 TOKEN x",
            "SEAT.HOLD {k} bob 1 TTL 60000 TOKEN #",
            "SEAT.CONFIRM {k} h ORDER #",
            "SEAT.WAIT {k} # 9 TTL 60000 OFFER 1000 TOKEN x",
            "SEAT.WAIT {k} bob 9 TTL 60000 OFFER 1000 TOKEN #",
            "SEAT.BLOCK {k} NAME # 1 a-1-9",
            "SEAT.RELEASE {k} h INTO #",
            "SEAT.HOLD {k} bob 1 TTL 60000 TOKEN x ADD ONCE #",
            r##"SEAT.CREATE {k}2 {"areas":[{"id":"#","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"##,
            r##"SEAT.ALTER {k} {"areas":[{"id":"a","rows":[{"label":"3","rank":1,"tier":"#","seats":"1-9"}]}]}"##,
        ],
    ),
    (
        POOL,
        &[
            "NUMPOOL.ADD {k} #",
            "NUMPOOL.CALL {k} LEASE #",
            "NUMPOOL.CALL {k} LEASE x PEER #",
            "NUMPOOL.CALL {k} LEASE x SWITCH #",
            "NUMPOOL.REG {k} 1002 SWITCH #",
            "NUMPOOL.HANGUP {k} 1001 LEASE c CAUSE #",
            "NUMPOOL.BEAT {k} # TTL 1000",
            "NUMPOOL.SUSPEND {k} CAUSE # 1002",
            "NUMPOOL.CAUSE {k} # COOLDOWN 5",
        ],
    ),
    (
        REALM,
        &[
            "CONF.TERM {k} 9 #",
            "CONF.CREATE {k} #",
            "CONF.CREATE {k} 8 ZONE #",
            "CONF.CREATE {k} 8 REQUEST #",
            "CMU.JOIN {k} # CAPACITY 5",
            "CMU.JOIN {k} v:1:1 CAPACITY 5 ZONE #",
            "CONF.SET {k} 7 u:1:1 EPOCH 1 # b",
            "CONF.SET {k} 7 u:1:1 EPOCH 1 a #",
        ],
    ),
    (
        BOOK,
        &[
            "ACCOUNT.TERM {k} 9 #",
            "ACCOUNT.MODULE {k} # DEPARTMENT d INSTANCES 1",
            "ACCOUNT.MODULE {k} n DEPARTMENT # INSTANCES 1",
            "ACCOUNT.DEPARTMENT {k} # CAP 5",
            "ACCOUNT.ADD {k} m QUOTA 5 ACCOUNTS 1 #",
            "ACCOUNT.ATTACH {k} m #",
            "ACCOUNT.LOGIN {k} a2 i:1 # TTL 1000",
        ],
    ),
];

/// Commands that change a value, but whose numbers are only counts of words, or need no value.
const OTHERS: [&str; 7] = [
    "SEAT.CONFIRM",
    "SEAT.REFUND",
    "SEAT.RELEASE",
    "SEAT.TRANSFER",
    "SEAT.UNBLOCK",
    "SEAT.ZMPOP",
    "NUMPOOL.SCAN",
];

/// The numbers drawn: bounds of the types, of times and of counts, and beside and beyond them.
fn drawn() -> Vec<String> {
    let bounds = [31i64, 32, 52, 53].map(|bits| 1 << bits);
    let near = bounds.into_iter().flat_map(|bound| [bound - 1, bound, bound + 1]);
    let small = [i64::MIN, i64::MIN + 1, -(1 << 53), -1, 0, 1, 2, 100, 101, 315_360_000_000, i64::MAX];
    let mut all: Vec<String> = small.into_iter().chain(near).map(|number| number.to_string()).collect();
    all.extend(["9223372036854775808", "18446744073709551615"].map(str::to_owned));
    all
}

fn call(client: &mut RawClient, line: &str) -> Reply {
    client.call(&line.split(' ').collect::<Vec<_>>())
}

/// The epoch of the conference 7 or of the account a1, if there is one.
fn epoch(client: &mut RawClient) -> String {
    for line in ["CONF.INFO {k} 7", "ACCOUNT.INFO {k} ACCOUNT a1"] {
        if let reply @ Reply::Array(_) = call(client, line) {
            return reply.field("epoch").int().to_string();
        }
    }
    "0".into()
}

/// Which form of storage does not read the value that the master has.
fn lost(master: &RedisServer, replica: &RedisServer) -> Option<String> {
    let mut client = master.raw();
    if let Reply::Bulk(dump) = client.call(&["DUMP", "{k}"]) {
        let restored = client.call(&[&b"RESTORE"[..], b"{k}copy", b"0", &dump]);
        if let Reply::Error(why) = restored {
            return Some(format!("RESTORE: {why}"));
        }
        client.words("DEL {k}copy");
    }
    for form in ["ALLOT.CHECK {k}", "DEBUG RELOAD", "DEBUG LOADAOF"] {
        match client.try_call(&form.split(' ').collect::<Vec<_>>()) {
            Some(Reply::Error(why)) if !why.starts_with("NOKEY") => return Some(format!("{form}: {why}")),
            Some(_) => {}
            None => return Some(format!("{form}: the server has ended")),
        }
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if !replica.is_running() {
            return Some("the replica has ended".into());
        }
        if master.digest() == replica.digest() {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Some("the replica differs".into())
}

/// Sends each call with each value, and takes what the server accepts through every form of storage. Returns how many calls
/// were accepted.
fn draw(all: &[(&[&str], &[&str])], values: &[String]) -> usize {
    let start = || {
        let master = RedisServer::builder().arg("appendonly", "yes").expect_errors().start();
        let replica = RedisServer::strict().expect_errors().start();
        replica.replica_of(&master);
        (master, replica)
    };
    let (mut master, mut replica) = start();
    let (mut accepted, mut wrong) = (0, Vec::new());
    for (setup, template) in all.iter().flat_map(|(setup, calls)| calls.iter().map(move |call| (setup, call)))
    {
        for value in values {
            let mut client = master.raw();
            client.words("FLUSHALL");
            for line in *setup {
                let reply = call(&mut client, line);
                assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
            }
            let epoch = epoch(&mut client);
            let line = template.replace("EPOCH", &epoch).replace('#', value);
            if matches!(call(&mut client, &line), Reply::Error(_)) {
                continue;
            }
            accepted += 1;
            if let Some(why) = lost(&master, &replica) {
                wrong.push(format!("{template} of {} bytes, {:.40}: {why}", value.len(), value));
                (master, replica) = start();
            }
        }
    }
    println!("{accepted} calls were accepted");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    accepted
}

#[test]
fn every_form_of_storage_reads_the_numbers_that_a_command_accepts() {
    assert!(draw(CALLS, &drawn()) > 500);
}

#[test]
fn every_form_of_storage_reads_the_names_that_a_command_accepts() {
    let mut names: Vec<String> =
        ["", "0", "\0", "\n", "\u{100}", "*", "-", "+", "@", ":", ",", "\"", "{"].map(str::to_owned).into();
    let lengths = [31, 32, 33, 63, 64, 65, 255, 256, 257, 65_535, 65_536, 65_537];
    names.extend(lengths.map(|length| "7".repeat(length)));
    names.push("\u{100}".repeat(128));
    assert!(draw(NAMES, &names) > 300);
}

/// The number of arguments of a command that are whole numbers, without counts of words.
fn numbers_of(arguments: &[Reply]) -> usize {
    let of = |argument: &Reply| {
        let is_number = argument.field("type").text() == "integer";
        let parts = argument.record().into_iter().find(|(name, _)| name == "arguments");
        usize::from(is_number) + parts.map_or(0, |(_, parts)| numbers_of(parts.array()))
    };
    arguments.iter().map(of).sum()
}

#[test]
fn every_command_with_a_number_is_drawn() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.hello3();
    let mut drawn: BTreeMap<&str, usize> = BTreeMap::new();
    for line in CALLS.iter().flat_map(|(_, calls)| *calls) {
        *drawn.entry(line.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    let listed = client.call(&["COMMAND", "LIST", "FILTERBY", "MODULE", "allot"]);
    for name in listed.array().iter().map(|name| name.text().to_uppercase()) {
        let info = client.call(&["COMMAND", "INFO", &name]);
        let Reply::Set(flags) = &info.array()[0].array()[2] else { panic!("{info:?}") };
        let writes = flags.contains(&Reply::Simple("write".into()));
        if !writes || OTHERS.contains(&&*name) {
            continue;
        }
        let docs = client.call(&["COMMAND", "DOCS", &name]);
        let docs = docs.record().into_iter().next().expect("each command is documented").1;
        let arguments = docs.record().into_iter().find(|(field, _)| field == "arguments");
        let numbers = arguments.map_or(0, |(_, arguments)| numbers_of(arguments.array()));
        assert!(numbers == 0 || drawn.contains_key(&*name), "no call of {name} draws its {numbers} numbers");
    }
}
