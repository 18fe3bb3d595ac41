//! Realms of conferences: listings, reports, the loss of a unit, and recovery.

use allot_tests::raw::Reply;
use allot_tests::realms::{REALM, Realm};

use crate::probe::Probe;

/// Conferences of a unit.
const OF_A_UNIT: usize = 10_000;

fn unit(number: usize) -> String {
    format!("unit{number}:1:1")
}

/// A request to the realm.
fn request(line: &str) -> Vec<String> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let begin = [command, REALM].map(str::to_owned);
    begin.into_iter().chain(rest.split(' ').filter(|word| !word.is_empty()).map(str::to_owned)).collect()
}

/// The list that a unit reports: its conferences, and their epochs.
fn list_of(realm: &mut Realm, unit: &str) -> String {
    let row = |record: &Reply| format!("{} {}", record.field("e164").text(), record.field("epoch").int());
    let (mut rows, mut cursor) = (Vec::new(), 0);
    loop {
        let page = realm.ok(&format!("CONF.LIST CMU {unit} COUNT 10000 CURSOR {cursor}"));
        rows.extend(page.array()[1].array().iter().map(row));
        cursor = page.array()[0].int();
        if cursor == 0 {
            return rows.join(" ");
        }
    }
}

/// Fills a realm and measures.
pub(crate) fn measure(probe: &mut Probe, elements: usize) {
    let units = elements.div_ceil(OF_A_UNIT);
    let mut realm = Realm::create(&probe.server, &[]);
    probe.fill(std::iter::once(request("CONF.REALM CREATETIMEOUT 86400000")));
    for number in 0..units {
        let join = format!("CMU.JOIN {} CAPACITY {} LEASE 3600000000", unit(number), 2 * OF_A_UNIT);
        probe.fill(std::iter::once(request(&join)));
    }
    probe.fill((0..elements).map(|number| request(&format!("CONF.CREATE 138{number:08}"))));
    let (first, second, third) = (unit(0), unit(1), unit(2));
    let list = list_of(&mut realm, &first);
    let count = list.split(' ').count() / 2;
    let mut measure = |name: &str, line: &str| probe.measure(name, &request(line));
    measure("CONF.LIST with COUNT 10000", "CONF.LIST COUNT 10000");
    measure("CONF.STAT", "CONF.STAT");
    measure(&format!("CMU.REPORT of {count}"), &format!("CMU.REPORT {first} HIGHEST 0 {list}"));
    measure(&format!("CMU.REPORT without {count}"), &format!("CMU.REPORT {first} HIGHEST 9000000000000000"));
    measure("CMU.ASK of all units", "CMU.ASK DETAILS");
    measure("CONF.PLAN with DOWN", &format!("CONF.PLAN DOWN {second}"));
    measure("CMU.DRAIN with MOVE", &format!("CMU.DRAIN {third} MOVE"));
    measure("CMU.DOWN", &format!("CMU.DOWN {second}"));
    measure("CONF.PLAN", "CONF.PLAN");
    measure("CONF.RECOVER with COUNT 1000", "CONF.RECOVER COUNT 1000");
    measure("CONF.REALM of a retry time", "CONF.REALM RETRY 1234");
    measure("CONF.REALM of a window", "CONF.REALM WINDOW 1234567");
    measure("CMU.LIST", "CMU.LIST");
    measure("CONF.REBALANCE with DRYRUN", "CONF.REBALANCE DRYRUN");
    measure("CONF.RESTART without units", "CONF.RESTART LIVE 0");
    probe.measure("DEL of the realm", &["DEL", REALM]);
}
