//! `make bench-compare`: two builds of the module under the same load, by turns, so that the noise of the machine meets
//! both alike. A figure is the processor time of the server for a request; the ratio is the median of the ratios of all
//! turns.

use allot_tests::RedisServer;

use crate::bench::median;
use crate::load::{self, CONNECTIONS, PIPELINE, encode};

/// Requests of a turn.
const REQUESTS: usize = 100_000;

/// Requests in pairs, of which the second takes back the first: a connection can repeat them for ever.
struct Pairs {
    name: &'static str,
    /// The pairs of a connection.
    of: fn(usize) -> Vec<[Vec<u8>; 2]>,
}

const PAIRS: [Pairs; 2] = [
    Pairs { name: "SEAT.HOLD, SEAT.RELEASE", of: holds },
    Pairs { name: "NUMPOOL.CALL, NUMPOOL.HANGUP", of: calls },
];

/// Compares two builds, given by the paths of their files. Each turn has servers of its own: the order of a server's
/// table of commands is drawn when it starts, and some orders are better for one of the two.
pub(crate) fn measure(old: &str, new: &str, turns: usize) {
    let loads: Vec<(&Pairs, usize)> =
        PAIRS.iter().flat_map(|pairs| [1, PIPELINE].map(|depth| (pairs, depth))).collect();
    let mut figures = vec![(Vec::new(), Vec::new()); loads.len()];
    for turn in 0..turns {
        let servers = [start(old), start(new)];
        for (&(pairs, depth), (olds, news)) in loads.iter().zip(&mut figures) {
            // Neither is always the first.
            let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
            for which in order {
                let figure = run(&servers[which], pairs, depth);
                [&mut *olds, &mut *news][which].push(figure);
            }
        }
    }
    println!("| requests | in flight | old, us a request | new, us a request | new / old |");
    println!("|---|---|---|---|---|");
    for ((pairs, depth), (olds, news)) in loads.into_iter().zip(figures) {
        let ratio = median(olds.iter().zip(&news).map(|(old, new)| new / old).collect());
        println!("| {} | {depth} | {:.2} | {:.2} | {ratio:.3} |", pairs.name, median(olds), median(news));
    }
}

fn start(module: &str) -> RedisServer {
    let server = RedisServer::builder().module(false).arg("loadmodule", module).start();
    let mut client = server.raw();
    let row = |row: usize| format!(r#"{{"label":"{row}","rank":{row},"tier":"gold","seats":"1-50"}}"#);
    let rows: Vec<String> = (1..=1200).map(row).collect();
    let plan = format!(r#"{{"areas":[{{"id":"stalls","rule":"center","rows":[{}]}}]}}"#, rows.join(","));
    client.call(&["SEAT.CREATE", "show", &plan]);
    for connection in 0..CONNECTIONS {
        let pool = pool(connection);
        for number in numbers() {
            client.call(&["NUMPOOL.ADD", &pool, &number]);
            client.call(&["NUMPOOL.REG", &pool, &number]);
        }
    }
    server
}

/// The processor time of a request, in microseconds.
fn run(server: &RedisServer, pairs: &Pairs, depth: usize) -> f64 {
    let batches = |connection: usize| -> Vec<Vec<u8>> {
        let requests: Vec<Vec<u8>> = (pairs.of)(connection).into_iter().flatten().collect();
        requests.chunks(depth).map(<[_]>::concat).collect()
    };
    let rate = load::run(server, REQUESTS, depth, batches);
    assert_eq!((rate.errors, rate.nulls), (0, 0), "{}: error or null replies", pairs.name);
    rate.cpu_us
}

fn holds(connection: usize) -> Vec<[Vec<u8>; 2]> {
    let user = format!("user{connection}");
    let pair = |number: usize| {
        let token = format!("t{connection}-{number}");
        let hold = encode(&["SEAT.HOLD", "show", &user, "2", "TTL", "100000", "TOKEN", &token]);
        [hold, encode(&["SEAT.RELEASE", "show", &token])]
    };
    (0..PIPELINE / 2).map(pair).collect()
}

/// The numbers of a pool come in the order in which they were given back, so the number of each call is known.
fn calls(connection: usize) -> Vec<[Vec<u8>; 2]> {
    let pool = pool(connection);
    let pair = |number: String| {
        let call = encode(&["NUMPOOL.CALL", &pool, "TTL", "100000", "LEASE", &number]);
        [call, encode(&["NUMPOOL.HANGUP", &pool, &number, "LEASE", &number])]
    };
    numbers().map(pair).collect()
}

fn pool(connection: usize) -> String {
    format!("pool{connection}")
}

/// As many numbers as one batch of requests calls.
fn numbers() -> impl Iterator<Item = String> {
    (0..PIPELINE / 2).map(|number| format!("{}", 100_000 + number))
}
