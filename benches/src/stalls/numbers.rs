//! Number pools: lists, listings, leases of a switch, and the indexes that the first choice builds.

use allot_tests::eventually;
use allot_tests::pools::pool_info;
use allot_tests::raw::encode;
use allot_tests::realms::{REALM, Realm};
use allot_tests::wait::TIMEOUT;
use std::time::Duration;

use crate::probe::Probe;

fn number(place: usize) -> String {
    format!("138{place:08}")
}

fn with_numbers(command: &str, numbers: std::ops::Range<usize>, options: &[&str]) -> Vec<String> {
    let begin = [command.to_owned(), "pool".to_owned()];
    begin.into_iter().chain(numbers.map(number)).chain(options.iter().map(|&word| word.to_owned())).collect()
}

fn parts(elements: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..elements).step_by(10_000).map(move |first| first..(first + 10_000).min(elements))
}

/// Creates conferences on numbers of the pool while the order of its numbers is made.
fn create_conferences(probe: &mut Probe) {
    Realm::create(&probe.server, &["a:1:1"]);
    let set = |pick| encode(&["NUMPOOL.CONFIG", "pool", "PICK", pick]);
    let create = ["CONF.CREATE", REALM, "*", "FROM", "pool"];
    probe.measure_all("CONF.CREATE FROM a pool without an order", &[set("LEASTUSED"), encode(&create)]);
    let more = (0..200).map(|_| create.map(str::to_owned).to_vec());
    probe.longest("CONF.CREATE FROM a pool whose order is made", more);
    probe.fill(std::iter::once(["DEL", REALM].map(str::to_owned).to_vec()));
    probe.fill(std::iter::once(["NUMPOOL.CONFIG", "pool", "PICK", "LONGEST"].map(str::to_owned).to_vec()));
    probe.fill(std::iter::once(["NUMPOOL.RECONCILE", "pool", "SWITCH", "sw"].map(str::to_owned).to_vec()));
}

/// A switch carries a call on each number, few of them without a deadline of their own, and falls silent.
fn silence_a_switch(probe: &mut Probe, elements: usize) {
    let call = |place: usize| {
        let words = ["NUMPOOL.CALL", "pool", "SWITCH", "sw", "TTL", "36000000"];
        words[..if place.is_multiple_of(50) { 4 } else { 6 }].iter().map(|&word| word.to_owned()).collect()
    };
    probe.fill((0..elements).map(call));
    let leases = pool_info(&mut probe.client, "pool", "leases");
    probe.watch("the last NUMPOOL.BEAT of a switch with many calls", |probe| {
        probe.client.words("NUMPOOL.BEAT pool sw TTL 1");
        eventually("the calls of the switch to end", TIMEOUT, || {
            pool_info(&mut probe.client, "pool", "leases") == leases - elements.div_ceil(50) as i64
        });
        String::new()
    });
    probe.fill(std::iter::once(["NUMPOOL.RECONCILE", "pool", "SWITCH", "sw"].map(str::to_owned).to_vec()));
}

/// Fills a pool and measures.
pub(crate) fn measure(probe: &mut Probe, elements: usize) {
    for command in ["NUMPOOL.ADD", "NUMPOOL.REG", "NUMPOOL.DEL"] {
        probe.measure(&format!("{command} of all"), &with_numbers(command, 0..elements, &[]));
        probe.measure(&format!("{command} of 20,000"), &with_numbers(command, 0..20_000, &[]));
    }
    probe.measure("DEL of an empty pool", &["DEL", "pool"]);
    // More than the elements, as the indexes grow at numbers of their own.
    let single = |command: &'static str| {
        (0..elements + elements / 2).map(move |place| with_numbers(command, place..place + 1, &[]))
    };
    for command in ["NUMPOOL.ADD", "NUMPOOL.REG", "NUMPOOL.UNREG", "NUMPOOL.DEL"] {
        probe.longest(&format!("{command} of one number"), single(command));
    }
    probe.fill(parts(elements).map(|part| with_numbers("NUMPOOL.ADD", part, &[])));
    probe.fill(parts(elements).map(|part| with_numbers("NUMPOOL.REG", part, &["SWITCH", "sw"])));
    create_conferences(probe);
    for pick in ["LEASTUSED", "STICKY"] {
        let call = ["NUMPOOL.CALL", "pool", "PEER", "bob", "PICK", pick];
        probe.measure(&format!("first NUMPOOL.CALL with {pick}"), &call);
    }
    probe.measure("first NUMPOOL.CALL with PREFIX", &["NUMPOOL.CALL", "pool", "PREFIX", "1", "1380"]);
    for count in ["10000", "10000000"] {
        probe.measure(
            &format!("NUMPOOL.SCAN with COUNT {count}"),
            &["NUMPOOL.SCAN", "pool", "0", "COUNT", count],
        );
    }
    probe.measure("NUMPOOL.UNREG of a switch", &["NUMPOOL.UNREG", "pool", "SWITCH", "sw"]);
    probe.fill(parts(elements).map(|part| with_numbers("NUMPOOL.REG", part, &["SWITCH", "sw"])));
    probe.fill((3..elements).map(|_| ["NUMPOOL.CALL", "pool"].map(str::to_owned).to_vec()));
    for count in ["10000", "10000000"] {
        probe.measure(
            &format!("NUMPOOL.LEASES with COUNT {count}"),
            &["NUMPOOL.LEASES", "pool", "COUNT", count],
        );
    }
    probe.measure("NUMPOOL.RECONCILE of all leases", &["NUMPOOL.RECONCILE", "pool", "SWITCH", "sw"]);
    silence_a_switch(probe, elements);
    let ttl = 5000 + elements / 100;
    let options = ["TTL", &ttl.to_string()];
    probe.fill(parts(elements).map(|part| with_numbers("NUMPOOL.REG", part, &options)));
    probe.fill(std::iter::once(["NUMPOOL.CALL", "pool", "LEASE", "last"].map(str::to_owned).to_vec()));
    let pause = ["CLIENT", "PAUSE", &(ttl * 2).to_string(), "WRITE"].map(str::to_owned).to_vec();
    probe.fill(std::iter::once(pause));
    std::thread::sleep(Duration::from_millis(ttl as u64 + 1000));
    let requests = [encode(&["CLIENT", "UNPAUSE"]), encode(&["NUMPOOL.CALL", "pool"])];
    probe.measure_all("NUMPOOL.CALL, all registrations overdue", &requests);
    probe.measure("DEL of the pool", &["DEL", "pool"]);
}
