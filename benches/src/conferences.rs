//! Conferences: writes of details beside `HSET` of the same fields, creation, acknowledgement and end beside `PING`,
//! and the time for which the server is busy when a unit with ten thousand conferences dies and they are recovered.

use allot_tests::RedisServer;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Case, median};
use crate::load::{CONNECTIONS, PIPELINE, encode};

const REALM: &str = "{b}:conf";
const UNIT: &str = "10.0.0.1:4711:1700000000000";
/// Conferences in the realm while details are written.
const CONFERENCES: usize = 100_000;
/// Different conferences that one connection writes to.
const SPREAD: usize = 64;

/// Measures the family.
pub(crate) fn measure(bench: &Bench, server: &RedisServer) {
    writes(bench, server);
    lives(bench, server);
    losses(bench, server);
}

fn open_realm(server: &RedisServer, units: &[&str]) -> redis::Connection {
    let mut connection = server.connection();
    let () = redis::cmd("FLUSHALL").query(&mut connection).expect("FLUSHALL");
    let _: redis::Value = redis::cmd("CONF.REALM").arg(REALM).query(&mut connection).expect("a realm");
    for unit in units {
        join(&mut connection, unit);
    }
    connection
}

fn join(connection: &mut redis::Connection, unit: &str) {
    let arguments = ["CMU.JOIN", REALM, unit, "CAPACITY", "1000000", "LEASE", "3600000000"];
    let mut join = redis::cmd(arguments[0]);
    join.arg(&arguments[1..]);
    let _: redis::Value = join.query(connection).expect("a unit joins");
}

/// Creates this many conferences and opens them. Returns their epochs.
fn open(connection: &mut redis::Connection, count: usize) -> Vec<u64> {
    let mut epochs = Vec::with_capacity(count);
    for first in (0..count).step_by(1000) {
        let mut creates = redis::pipe();
        for number in first..count.min(first + 1000) {
            creates.cmd("CONF.CREATE").arg(REALM).arg(number);
        }
        let records: Vec<Vec<redis::Value>> = creates.query(connection).expect("conferences");
        let mut acks = redis::pipe();
        for (number, record) in (first..).zip(records) {
            let epoch: u64 = redis::from_redis_value(record[7].clone()).expect("an epoch");
            acks.cmd("CONF.ACK").arg(REALM).arg(number).arg(UNIT).arg(epoch);
            epochs.push(epoch);
        }
        let _: Vec<redis::Value> = acks.query(connection).expect("acknowledgements");
    }
    epochs
}

/// `CONF.SET` and `HSET` of the same three fields of one of 100,000 conferences.
fn writes(bench: &Bench, server: &RedisServer) {
    let name = "CONF.SET of 3 fields";
    if !bench.wants(name) {
        return;
    }
    let mut connection = open_realm(server, &[UNIT]);
    let epochs = open(&mut connection, CONFERENCES);
    let mut hashes = redis::pipe();
    for number in 0..CONFERENCES {
        hashes.cmd("HSET").arg(format!("conf:{number}")).arg(&[
            ("members", "3"),
            ("speaker", "ann"),
            ("state", "on"),
        ]);
        if hashes.len() == 1000 {
            let _: Vec<redis::Value> = hashes.query(&mut connection).expect("hashes");
            hashes.clear();
        }
    }
    let number = |connection: usize, place: usize| (connection * 1987 + place * 31) % CONFERENCES;
    // Each write of a run has a sequence number of its own, newer than the last one.
    let seq = std::cell::Cell::new(0u64);
    let requests = 400_000;
    let rounds = requests / CONNECTIONS / PIPELINE;
    let set = Case::new(name, requests, |connection| {
        let from = seq.get() + 1;
        seq.set(from + rounds as u64);
        (0..rounds)
            .map(|round| {
                let seq = (from + round as u64).to_string();
                let writes = (0..PIPELINE).flat_map(|place| {
                    let number = number(connection, (round * PIPELINE + place) % SPREAD);
                    let (e164, epoch) = (number.to_string(), epochs[number].to_string());
                    encode(&[
                        "CONF.SET", REALM, &e164, UNIT, &epoch, &seq, "members", "4", "speaker", "bob",
                        "state", "on",
                    ])
                });
                writes.collect()
            })
            .collect()
    });
    let hset = Case::new("HSET of 3 fields", requests, |connection| {
        (0..rounds)
            .map(|round| {
                let writes = (0..PIPELINE).flat_map(|place| {
                    let key = format!("conf:{}", number(connection, (round * PIPELINE + place) % SPREAD));
                    encode(&["HSET", &key, "members", "4", "speaker", "bob", "state", "on"])
                });
                writes.collect()
            })
            .collect()
    });
    bench.measure(server, &set, &hset);
}

/// A conference's life, step by step; each step is a run of its own. Managers seldom create and end conferences in
/// bulk, so each step is measured with one request in flight as well.
fn lives(bench: &Bench, server: &RedisServer) {
    for (depth, requests, in_flight) in [(PIPELINE, 80_000, ""), (1, 20_000, ", one in flight")] {
        let epochs = std::cell::RefCell::new(Vec::<u64>::new());
        let name = |what: &str| format!("{what}{in_flight}");
        let mut ping = Case::repeated("PING", requests * 5, &["PING"]);
        (ping.name, ping.depth) = (name("PING"), depth);
        ping.batches = Box::new(move |_| vec![encode(&["PING"]).repeat(depth)]);
        let rounds = requests / CONNECTIONS / depth;
        let batches = |connection: usize, command: &dyn Fn(usize) -> Vec<u8>| -> Vec<Vec<u8>> {
            let first = connection * rounds * depth;
            let batch =
                |round: usize| (0..depth).flat_map(|place| command(first + round * depth + place)).collect();
            (0..rounds).map(batch).collect()
        };
        let mut create = Case::new(&name("CONF.CREATE"), requests, |connection| {
            batches(connection, &|number| encode(&["CONF.CREATE", REALM, &number.to_string()]))
        });
        create.prepare = Box::new(|| drop(open_realm(server, &[UNIT])));
        let mut ack = Case::new(&name("CONF.ACK"), requests, |connection| {
            batches(connection, &|number| {
                encode(&["CONF.ACK", REALM, &number.to_string(), UNIT, &epochs.borrow()[number].to_string()])
            })
        });
        ack.prepare = Box::new(|| *epochs.borrow_mut() = created(server, requests));
        let mut release = Case::new(&name("CONF.RELEASE"), requests, |connection| {
            batches(connection, &|number| encode(&["CONF.RELEASE", REALM, &number.to_string()]))
        });
        release.prepare = Box::new(|| {
            let mut connection = open_realm(server, &[UNIT]);
            open(&mut connection, requests);
        });
        for case in [&mut create, &mut ack, &mut release] {
            case.depth = depth;
            bench.measure(server, case, &ping);
        }
    }
}

/// Creates a realm of this many conferences that are not open yet. Returns their epochs.
fn created(server: &RedisServer, count: usize) -> Vec<u64> {
    let mut connection = open_realm(server, &[UNIT]);
    let mut realm = redis::cmd("CONF.REALM");
    let _: redis::Value =
        realm.arg(REALM).arg("CREATETIMEOUT").arg(3_600_000).query(&mut connection).expect("a time-out");
    let mut epochs = Vec::with_capacity(count);
    for first in (0..count).step_by(1000) {
        let mut creates = redis::pipe();
        for number in first..count.min(first + 1000) {
            creates.cmd("CONF.CREATE").arg(REALM).arg(number);
        }
        let records: Vec<Vec<redis::Value>> = creates.query(&mut connection).expect("conferences");
        epochs.extend(
            records.into_iter().map(|mut record| -> u64 {
                redis::from_redis_value(record.swap_remove(7)).expect("an epoch")
            }),
        );
    }
    epochs
}

/// A unit with 10,000 conferences dies, and they are recovered on ten others.
fn losses(bench: &Bench, server: &RedisServer) {
    let names = ["CMU.DOWN of 10,000 conferences", "CONF.RECOVER COUNT 100, longest of 100", "in total"];
    if !names.iter().any(|name| bench.wants(name)) {
        return;
    }
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..bench.runs() {
        let mut connection = open_realm(server, &[UNIT]);
        open(&mut connection, 10_000);
        (2..12).for_each(|host| join(&mut connection, &format!("10.0.0.{host}:4711:1700000000000")));
        let start = Instant::now();
        let down = timed(|| {
            let _: redis::Value =
                redis::cmd("CMU.DOWN").arg(REALM).arg(UNIT).query(&mut connection).expect("a unit goes down");
        });
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            let mut granted = 0;
            longest = longest.max(timed(|| {
                let grants: Vec<redis::Value> = redis::cmd("CONF.RECOVER")
                    .arg(REALM)
                    .arg("COUNT")
                    .arg(100)
                    .query(&mut connection)
                    .expect("grants");
                granted = grants.len();
            }));
            assert_eq!(granted, 100);
        }
        let unsent = |connection: &mut redis::Connection| -> i64 {
            let stat: Vec<redis::Value> =
                redis::cmd("CONF.STAT").arg(REALM).query(connection).expect("totals");
            redis::from_redis_value(stat[29].clone()).expect("a number")
        };
        while unsent(&mut connection) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let all = start.elapsed();
        for (times, time) in times.iter_mut().zip([down, longest, all]) {
            times.push(time.as_secs_f64() * 1000.0);
        }
    }
    for (name, times) in names.iter().zip(times) {
        println!("| {name} | | {:.1} ms | | |", median(times));
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
