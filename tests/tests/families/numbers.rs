//! Number pools.

use allot_core::numpool::{Event, Pool};
use allot_tests::RedisServer;
use allot_tests::damage::Dump;
use allot_tests::garbage::Garbage;
use allot_tests::pools::{PoolWorkload, fill, pool_info, state_of};
use allot_tests::raw::{RawClient, Reply};

use crate::family::{Family, Lines, lines, send_ok, settled, state};

/// The family of `NUMPOOL` commands.
pub(crate) struct Numbers;

state!(Pool, Event, |first, at| Pool::open(first, at).expect("the first event makes the pool"));

impl Family for Numbers {
    const TYPE: &'static str = "allotpool";
    const APPLY: &'static str = "NUMPOOL.APPLY";
    const ENDED: &'static str = "numpool_expired";
    const LIVE: Option<&'static str> = Some("numpool_live_leases");
    const DAMAGED: usize = 30_000;
    const GARBAGE: Garbage<'static> = GARBAGE;

    type State = Pool;
    type Workload = PoolWorkload;
    /// How many events there were.
    type Log = usize;

    fn create(client: &mut RawClient, key: &str) -> Lines {
        fill(client, key, 3);
        send_ok(client, "NUMPOOL.CALL @ 13800000000 LEASE mine TTL 3600000 PEER bob", key);
        Lines {
            reads: lines(&[
                "NUMPOOL.GET @ 13800000000",
                "NUMPOOL.INFO @",
                "NUMPOOL.SCAN @ 0",
                "NUMPOOL.LEASES @",
                "NUMPOOL.SWITCHES @",
            ]),
            writes: lines(&[
                "NUMPOOL.ADD @ 140",
                "NUMPOOL.DEL @ 13800000002",
                "NUMPOOL.REG @ 13800000001",
                "NUMPOOL.UNREG @ 13800000001",
                "NUMPOOL.CALL @ LEASE other",
                "NUMPOOL.HANGUP @ 13800000000",
                "NUMPOOL.RENEW @ 13800000000 LEASE mine TTL 3600000",
                "NUMPOOL.RECONCILE @ SWITCH other LEASE mine",
                "NUMPOOL.BEAT @ sw0 TTL 3600000",
                "NUMPOOL.SUSPEND @ 13800000002",
                "NUMPOOL.RESUME @ 13800000002",
                "NUMPOOL.CONFIG @ COOLDOWN 5",
                "NUMPOOL.CAUSE @ spam COOLDOWN 5",
            ]),
            unchanged: lines(&[
                "NUMPOOL.ADD @ 13800000000",
                "NUMPOOL.DEL @ 999",
                "NUMPOOL.REG @ 13800000001 SWITCH sw0",
                "NUMPOOL.REG @ 13800000001 999 SWITCH sw0 MISSING",
                "NUMPOOL.REG @ 998 999",
                "NUMPOOL.UNREG @ SWITCH nobody",
                "NUMPOOL.UNREG @ SWITCH nobody MISSING",
                "NUMPOOL.UNREG @ 999",
                "NUMPOOL.RESUME @ 13800000001",
                "NUMPOOL.SUSPEND @ 999 MISSING",
                "NUMPOOL.CALL @ LEASE mine",
                "NUMPOOL.CALL @ 13800000000",
                "NUMPOOL.CALL @ PREFIX 1 999",
                "NUMPOOL.HANGUP @ 13800000001",
                "NUMPOOL.HANGUP @ 13800000000 LEASE other",
                "NUMPOOL.RENEW @ 13800000000 LEASE other TTL 10",
                "NUMPOOL.RECONCILE @ SWITCH sw0 LEASE mine",
                "NUMPOOL.CONFIG @",
                "NUMPOOL.GET @ 13800000000",
                "NUMPOOL.INFO @",
                "NUMPOOL.SCAN @ 0",
                "NUMPOOL.LEASES @",
                "NUMPOOL.ADD @ 13800000000 x",
                "NUMPOOL.CALL @ TTL 0",
            ]),
            changes: lines(&[
                "NUMPOOL.ADD @ 139",
                "NUMPOOL.REG @ 139 SWITCH sw1",
                "NUMPOOL.CALL @ 139 LEASE l TTL 3600000",
                "NUMPOOL.RENEW @ 139 LEASE l TTL 3700000",
                "NUMPOOL.HANGUP @ 139 LEASE l",
                "NUMPOOL.UNREG @ 139",
                "NUMPOOL.BEAT @ sw0 TTL 3600000",
                "NUMPOOL.SUSPEND @ CAUSE spam FOR 3600000 139 13800000001",
                "NUMPOOL.SUSPEND @ 13800000000",
                "NUMPOOL.RESUME @ 13800000001",
                "NUMPOOL.DEL @ 139",
                "NUMPOOL.CONFIG @ COOLDOWN 5",
                "NUMPOOL.CONFIG @ CAPS 1 60000 5 RATE 100 1000 PEERS 100 PEERTTL 60000",
                "NUMPOOL.CAPS @ 13800000001 1 DAY 5",
                "NUMPOOL.CAUSE @ spam COOLDOWN 60000 AFTER 2 WITHIN 5000",
                "NUMPOOL.HANGUP @ 13800000000 CAUSE spam",
            ]),
            toggle: ["NUMPOOL.ADD @ 140".into(), "NUMPOOL.DEL @ 140".into()],
        }
    }

    fn start_short(client: &mut RawClient, key: &str, ttl_ms: u64) {
        send_ok(client, &format!("NUMPOOL.CALL @ 13800000001 LEASE short TTL {ttl_ms}"), key);
    }

    fn workload_key(seed: u64) -> String {
        format!("pool{seed}")
    }

    fn run_workload(server: &RedisServer, seed: u64, steps: usize) -> PoolWorkload {
        let mut workload = PoolWorkload::new(server.raw(), &Self::workload_key(seed), seed);
        workload.run(2 * steps);
        workload
    }

    fn continue_workload(server: &RedisServer, workload: &mut PoolWorkload, _seed: u64, steps: usize) {
        workload.reconnect(server.raw());
        workload.run(2 * steps);
    }

    fn settle(server: &RedisServer, seed: u64) {
        server.raw().words(&format!("NUMPOOL.CONFIG {} COOLDOWN 3", Self::workload_key(seed)));
        settled(server);
    }

    fn observe(events: &mut usize, _at: i64, _event: &Event, _before: Option<&Pool>) {
        *events += 1;
    }

    fn compare(events: usize, _workload: &PoolWorkload, entries: usize) {
        assert!(events > 500, "little happened: {events} events");
        assert_eq!(entries, 0, "this pool has no stream");
    }

    fn dumps(server: &RedisServer) -> Vec<Dump> {
        let mut client = server.raw();
        PoolWorkload::new(server.raw(), "pool", 43).run(500);
        for line in [
            "NUMPOOL.ADD pool +4912345678901234567890",
            "NUMPOOL.CONFIG pool EVENTS 5 COOLDOWN 100000 RATE 5000 60000",
            // Messages that could not be sent stay in the value.
            "SET pool:evt 1",
            "NUMPOOL.CALL pool LEASE long TTL 100000 PEER bob",
        ] {
            assert!(!matches!(client.words(line), Reply::Error(_)), "{line}");
        }
        vec![Dump::of(&mut client, "pool")]
    }

    fn use_value(client: &mut RawClient, key: &str) {
        let total = pool_info(client, key, "total");
        let scan = |client: &mut RawClient| -> Vec<String> {
            let reply = client.call(&["NUMPOOL.SCAN", key, "0", "COUNT", "10000"]);
            reply.array()[1].array().iter().map(Reply::text).collect()
        };
        assert!(scan(client).len() as i64 <= total);
        client.call(&["NUMPOOL.CALL", key, "LEASE", "mine", "TTL", "60000"]);
        client.call(&["NUMPOOL.CALL", key, "PREFIX", "1", "138", "PICK", "STICKY", "PEER", "bob"]);
        client.call(&["NUMPOOL.ADD", key, "424242"]);
        assert!(!state_of(client, key, "424242").is_empty());
        let numbers = scan(client);
        let mut del = vec!["NUMPOOL.DEL", key];
        del.extend(numbers.iter().map(String::as_str));
        assert_eq!(client.call(&del), Reply::Int(numbers.len() as i64));
        assert_eq!(pool_info(client, key, "leases"), pool_info(client, key, "total"));
    }

    fn begin_garbage(client: &mut RawClient) {
        client.words("NUMPOOL.ADD k 138 139 +49170");
    }

    fn check_sums(client: &mut RawClient, key: &str) {
        assert!(pool_info(client, key, "leases") <= pool_info(client, key, "total"));
    }

    fn fill(server: &RedisServer) -> String {
        fill(&mut server.raw(), "pool", 200_000);
        "pool".into()
    }
}

/// The hostile calls of the family.
const GARBAGE: Garbage<'static> = Garbage {
    steps: 40_000,
    commands: &[
        "NUMPOOL.ADD",
        "NUMPOOL.DEL",
        "NUMPOOL.REG",
        "NUMPOOL.UNREG",
        "NUMPOOL.CALL",
        "NUMPOOL.HANGUP",
        "NUMPOOL.RENEW",
        "NUMPOOL.RECONCILE",
        "NUMPOOL.LEASES",
        "NUMPOOL.GET",
        "NUMPOOL.INFO",
        "NUMPOOL.SCAN",
        "NUMPOOL.CONFIG",
        "NUMPOOL.CAPS",
        "NUMPOOL.CAUSE",
        "NUMPOOL.APPLY",
    ],
    templates: &[
        "NUMPOOL.ADD k 138 139 +49170",
        "NUMPOOL.DEL k 138 139 DRAIN",
        "NUMPOOL.REG k 138 +49170 TTL 5000 SWITCH sw",
        "NUMPOOL.UNREG k 138",
        "NUMPOOL.UNREG k SWITCH sw",
        "NUMPOOL.CALL k TTL 50 LEASE t SWITCH sw PEER bob PREFIX 1 13 PICK STICKY",
        "NUMPOOL.CALL k 138 LEASE t2",
        "NUMPOOL.CALL k PICK RANDOM",
        "NUMPOOL.HANGUP k 138 LEASE t COOLDOWN 20",
        "NUMPOOL.HANGUP k 139",
        "NUMPOOL.RENEW k 138 LEASE t TTL 100",
        "NUMPOOL.RECONCILE k SWITCH sw BEFORE 1700000000000 LEASE t t2",
        "NUMPOOL.LEASES k SWITCH sw CURSOR 0 COUNT 5",
        "NUMPOOL.GET k 138",
        "NUMPOOL.INFO k",
        "NUMPOOL.SCAN k 0 STATE idle+up COUNT 3",
        "NUMPOOL.CONFIG k LEASE 100 COOLDOWN 10 REGTTL 1000 PICK LEASTUSED EVENTS 2",
        "NUMPOOL.CONFIG k CAPS 2 50 1 1000 4",
        "NUMPOOL.CONFIG k RATE 3 50",
        "NUMPOOL.CONFIG k PEERS 2 PEERTTL 100",
        "NUMPOOL.CONFIG k CAPS 1 DAY 5 DAYSTART 1700000000000 86400000",
        "NUMPOOL.CAPS k 138 2 DAY 5 100 1",
        "NUMPOOL.CAUSE k spam COOLDOWN 50 AFTER 2 WITHIN 100",
        "NUMPOOL.HANGUP k 139 CAUSE spam",
        "NUMPOOL.APPLY k payload",
        "COPY k k2 REPLACE",
        "RENAME k2 k3",
    ],
    words: &[
        "138",
        "139",
        "+49170",
        "+",
        "sw",
        "bob",
        "t",
        "t2",
        "TTL",
        "SWITCH",
        "LEASE",
        "PEER",
        "PREFIX",
        "PICK",
        "RANDOM",
        "STICKY",
        "LEASTUSED",
        "COOLDOWN",
        "BEFORE",
        "CURSOR",
        "COUNT",
        "STATE",
        "idle+up",
        "REGTTL",
        "EVENTS",
        "CAPS",
        "RATE",
        "DAY",
        "DAYSTART",
        "PEERS",
        "PEERTTL",
        "CAUSE",
        "AFTER",
        "WITHIN",
        "spam",
        "DRAIN",
        "-",
        "{}",
        "null",
    ],
    document: None,
};
