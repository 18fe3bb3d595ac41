//! Many keys instead of large ones: a tenth as many keys as the other groups have elements. What they take of memory, of an
//! idle server, and of other clients when a deadline of each falls due in the same second, when they are loaded, and when
//! they are deleted.

use std::time::{Duration, Instant};

use allot_tests::shows::clock;

use crate::probe::Probe;

/// Until all keys have their deadline, in milliseconds.
const UNTIL_DUE: i64 = 40_000;

/// How long the idle server is watched.
const IDLE: Duration = Duration::from_secs(10);

/// Requests to the key of this number, of which the last has a deadline after so many milliseconds.
type Requests = fn(usize, i64) -> Vec<String>;

pub(crate) fn shows(probe: &mut Probe, elements: usize) {
    let plan: Requests = |key, _| {
        let seats = r#"{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-50"}]}]}"#;
        vec!["SEAT.CREATE".to_owned(), format!("{{k{key}}}"), seats.to_owned()]
    };
    let hold: Requests = |key, ttl| request(&format!("SEAT.HOLD {{k{key}}} ann 2 TTL {ttl} TOKEN t"));
    measure(probe, elements, &[("a show of 50 seats", plan), ("its first hold", hold)]);
}

pub(crate) fn pools(probe: &mut Probe, elements: usize) {
    let add: Requests = |key, _| request(&format!("NUMPOOL.ADD {{k{key}}} 1001"));
    let register: Requests = |key, _| request(&format!("NUMPOOL.REG {{k{key}}} 1001"));
    let call: Requests = |key, ttl| request(&format!("NUMPOOL.CALL {{k{key}}} TTL {ttl} LEASE a"));
    measure(
        probe,
        elements,
        &[("a pool of one number", add), ("its registration", register), ("its first lease", call)],
    );
}

pub(crate) fn realms(probe: &mut Probe, elements: usize) {
    let realm: Requests = |key, _| request(&format!("CONF.REALM {{k{key}}}"));
    let join: Requests = |key, ttl| request(&format!("CMU.JOIN {{k{key}}} u:1:1 CAPACITY 100 LEASE {ttl}"));
    let create: Requests = |key, _| request(&format!("CONF.CREATE {{k{key}}} 7"));
    measure(
        probe,
        elements,
        &[("a realm", realm), ("its first unit", join), ("its first conference", create)],
    );
}

pub(crate) fn books(probe: &mut Probe, elements: usize) {
    let book: Requests = |key, _| request(&format!("ACCOUNT.BOOK {{k{key}}}"));
    let module: Requests = |key, _| request(&format!("ACCOUNT.MODULE {{k{key}}} m DEPARTMENT d INSTANCES 1"));
    let add: Requests = |key, _| request(&format!("ACCOUNT.ADD {{k{key}}} m QUOTA 100 ACCOUNTS 1 a1"));
    let attach: Requests = |key, _| request(&format!("ACCOUNT.ATTACH {{k{key}}} m i:1"));
    let login: Requests = |key, ttl| request(&format!("ACCOUNT.LOGIN {{k{key}}} a1 i:1 t TTL {ttl}"));
    let steps: [(&str, Requests); 5] = [
        ("a book", book),
        ("its module", module),
        ("its account", add),
        ("its instance", attach),
        ("its first login", login),
    ];
    measure(probe, elements, &steps);
}

fn request(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn measure(probe: &mut Probe, elements: usize, steps: &[(&str, Requests)]) {
    let keys = elements / 10;
    let due = clock(&mut probe.client) + UNTIL_DUE;
    for (name, requests) in steps {
        let before = memory(probe);
        for first in (0..keys).step_by(1000) {
            let ttl = due - clock(&mut probe.client);
            assert!(ttl > 0, "the machine is too slow to fill {keys} keys before they fall due");
            probe.fill((first..(first + 1000).min(keys)).map(|key| requests(key, ttl)));
        }
        println!("| memory of {name} | | | {} bytes |", (memory(probe) - before) / keys);
    }
    // What the last requests have left is done first.
    std::thread::sleep(Duration::from_secs(6));
    let (begun, cpu) = (Instant::now(), probe.processor_time());
    std::thread::sleep(IDLE);
    let share = (probe.processor_time() - cpu) / begun.elapsed().as_secs_f64() * 100.0;
    println!("| {keys} idle keys | | | {share:.1} % of a processor |");
    probe.watch(&format!("deadlines of {keys} keys in one second"), |probe| {
        let left = due - clock(&mut probe.client) + 2500;
        std::thread::sleep(Duration::from_millis(left.max(0) as u64));
        String::new()
    });
    let begun = Instant::now();
    probe.client.words("DEBUG RELOAD");
    println!("| DEBUG RELOAD of {keys} keys | | | {} ms |", begun.elapsed().as_millis());
    probe.measure(&format!("FLUSHALL of {keys} keys"), &["FLUSHALL"]);
}

/// Bytes that the server uses.
fn memory(probe: &Probe) -> usize {
    probe.server.info_field("memory", "used_memory").parse().expect("a number of bytes")
}
