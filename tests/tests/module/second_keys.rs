//! Commands that have a key elsewhere than in their first argument, in a cluster: such a key is found by the server
//! however the call is written, also while its slot moves.

use std::sync::atomic::{AtomicBool, Ordering};

use allot_tests::pools::{fill, pool_info};
use allot_tests::raw::RawClient;
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::{create, no_internal_errors, sample_venue};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Cluster, RedisServer, Reply, eventually};

const POOL: &str = "{r}:numbers";
const SET: &str = "{r}:set";
/// Numbers of the pool, and members of the set.
const COUNT: usize = 3000;

/// All commands of the module with such a key, each as a call, in an order in which all are carried out.
const CALLS: [&str; 9] = [
    "CONF.CREATE {r}:conf * FROM {r}:numbers",
    "SEAT.ZMPOP 2 {r}:other {r}:set MIN",
    "SEAT.HOLD {r}:show ann 1 TTL 60000 TOKEN t ALSO 1 {r}:leg",
    "SEAT.EXTEND {r}:show t TTL 60000 ALSO 1 {r}:leg",
    "SEAT.CONFIRM {r}:show t ALSO 1 {r}:leg",
    "SEAT.REFUND {r}:show ALSO 1 {r}:leg 1 a-1-1",
    "SEAT.PICK {r}:show ann TTL 60000 TOKEN u SEATS 1 a-1-2 ALSO 1 {r}:leg",
    "SEAT.RELEASE {r}:show u ALSO 1 {r}:leg",
    "SEAT.FIND {r}:show 1 ALSO 1 {r}:leg",
];

/// Those that can be called without end.
const REPEATED: [&str; 2] = [CALLS[0], CALLS[1]];

#[test]
fn tests_cover_every_command_with_a_second_key() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let all = client.words("COMMAND LIST FILTERBY MODULE allot");
    let mut movable: Vec<String> = Vec::new();
    for name in all.array() {
        let info = client.call(&["COMMAND", "INFO", &name.text()]);
        let flags = &info.array()[0].array()[2];
        let is_movable = flags.array().iter().any(|flag| flag.text() == "movablekeys");
        movable.extend(is_movable.then(|| name.text().to_uppercase()));
    }
    movable.sort_unstable();
    let mut called = CALLS.map(|call| call.split(' ').next().unwrap());
    called.sort_unstable();
    assert_eq!(movable, called);
}

/// A key on the node of `REALM` that is in another slot.
fn neighbour(cluster: &Cluster, name: &str) -> String {
    let home = cluster.master_for(REALM).port();
    let mut keys = (0..).map(|number| format!("{{{number}}}:{name}"));
    keys.find(|key| cluster.master_for(key).port() == home).expect("a node has more than one slot")
}

#[test]
fn keys_of_two_slots_of_one_node_are_refused() {
    let cluster = Cluster::start(3, 0);
    let home = cluster.master_for(REALM);
    let mut client = Realm::create(home, &["a:1:1"]);
    let (pool, set) = (neighbour(&cluster, "pool"), neighbour(&cluster, "set"));
    fill(&mut client.client, &pool, 3);
    for call in [
        format!("CONF.CREATE {REALM} * FROM {pool}"),
        format!("CONF.CREATE {REALM} * REQUEST FROM SIZE 1 from {pool}"),
        format!("SEAT.ZMPOP 2 {SET} {set} MIN"),
        format!("SEAT.FIND {REALM} 1 BESIDE 1 {pool}"),
    ] {
        let refused = client.client.words(&call);
        assert!(refused.error().starts_with("CROSSSLOT "), "{call}: {refused:?}");
    }
    assert_eq!(pool_info(&mut client.client, &pool, "idle_up"), 3);
    no_internal_errors(home);
}

#[test]
fn call_is_tried_again_while_its_keys_are_on_two_nodes() {
    let cluster = Cluster::start(3, 0);
    let mut realm = start(&cluster);
    realm.client.words("ZADD {r}:other 1 m");
    let moving = cluster.begin_move(REALM);
    for key in [POOL, SET, "{r}:leg"] {
        moving.key(key);
    }
    for call in CALLS {
        let refused = realm.client.words(call);
        assert!(refused.error().starts_with("TRYAGAIN "), "{call}: {refused:?}");
    }
    let mut there = moving.to.raw();
    for call in CALLS {
        there.words("ASKING");
        let refused = there.words(call);
        assert!(refused.error().starts_with("TRYAGAIN "), "{call}: {refused:?}");
    }
    moving.finish();
    for call in CALLS {
        let reply = there.words(call);
        assert!(!matches!(reply, Reply::Error(_)), "{call}: {reply:?}");
    }
}

/// A realm with one unit, a pool and a sorted set, all in one slot.
fn start(cluster: &Cluster) -> Realm {
    let mut realm = Realm::create(cluster.master_for(REALM), &["a:1:1"]);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000 RELEASETIMEOUT 3600000");
    fill(&mut realm.client, POOL, COUNT);
    for member in 0..COUNT {
        realm.client.words(&format!("ZADD {SET} {member} {member}"));
    }
    for show in ["{r}:show", "{r}:leg"] {
        create(cluster.master_for(REALM), show, &sample_venue(1, 4));
    }
    realm
}

/// Calls, and follows the cluster's redirections. Anything else is the reply.
fn follow(cluster: &Cluster, client: &mut RawClient, call: &str) -> Reply {
    let mut asking = false;
    for _ in 0..10_000 {
        if std::mem::take(&mut asking) {
            client.words("ASKING");
        }
        let reply = client.words(call);
        let Reply::Error(text) = &reply else { return reply };
        let mut words = text.split([' ', ':']);
        match words.next() {
            Some("TRYAGAIN") => std::thread::sleep(std::time::Duration::from_millis(1)),
            Some(redirection @ ("MOVED" | "ASK")) => {
                let port: u16 = words.next_back().and_then(|port| port.parse().ok()).expect("a port");
                let node = cluster.nodes().find(|node| node.port() == port).expect("a node of the cluster");
                *client = node.raw();
                asking = redirection == "ASK";
            }
            _ => return reply,
        }
    }
    panic!("{call} is redirected for ever");
}

/// Calls until `done`; how often it was answered. Every other answer than a record is a fault.
fn load(cluster: &Cluster, done: &AtomicBool, call: &str) -> usize {
    let mut client = cluster.master_for(REALM).raw();
    let mut answered = 0;
    while !done.load(Ordering::Relaxed) {
        match follow(cluster, &mut client, call) {
            Reply::Array(_) => answered += 1,
            other => panic!("{call}: {other:?}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    answered
}

#[test]
fn slot_moves_under_load_without_a_lost_number() {
    let cluster = Cluster::start(3, 0);
    start(&cluster);
    let done = AtomicBool::new(false);
    let (called, popped) = std::thread::scope(|scope| {
        let [calls, pops] = REPEATED.map(|call| {
            let (cluster, done) = (&cluster, &done);
            scope.spawn(move || load(cluster, done, call))
        });
        for _ in 0..4 {
            cluster.begin_move(REALM).finish();
        }
        done.store(true, Ordering::Relaxed);
        (calls.join().expect("the calls"), pops.join().expect("the pops"))
    });
    assert!(called > 10 && popped > 10, "{called} conferences, {popped} members");
    let mut realm = Realm::of(cluster.master_for(REALM));
    eventually("the counts of the last step", TIMEOUT, || {
        pool_info(&mut realm.client, POOL, "idle_up") as usize == COUNT - called
    });
    assert_eq!(realm.stat("creating") as usize, called);
    assert_eq!(realm.client.words(&format!("ZCARD {SET}")), Reply::Int((COUNT - popped) as i64));
    cluster.nodes().for_each(no_internal_errors);
}
