//! Books of accounts: lists, attached instances, rebalancing and the use of a period.

use allot_core::account::decide::MAX_BATCH;
use allot_tests::books::{BOOK, Book};
use allot_tests::eventually;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::probe::Probe;

/// Instances that attach.
const INSTANCES: usize = 1000;

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis()
}

/// Fills a book and measures.
pub(crate) fn measure(probe: &mut Probe, elements: usize) {
    let mut book = Book::create(&probe.server, 2 * INSTANCES);
    book.ok("MODULE n DEPARTMENT d INSTANCES 1");
    for first in (0..elements).step_by(10_000) {
        book.add("m", first..(first + 10_000).min(elements));
    }
    let attach =
        |instance| ["ACCOUNT.ATTACH", BOOK, "m", &format!("i{instance}")].map(str::to_owned).to_vec();
    probe.measure("ACCOUNT.ATTACH of the first instance", &attach(0));
    probe.longest("ACCOUNT.ATTACH of further instances", (1..INSTANCES).map(attach));
    let list = ["ACCOUNT.LIST", BOOK, "MODULE", "m", "COUNT", "10000"];
    probe.measure("ACCOUNT.LIST with COUNT 10000", &list);
    probe.measure("ACCOUNT.REBALANCE", &["ACCOUNT.REBALANCE", BOOK]);
    // The month ends at once, so that a past month is on record.
    book.ok(&format!("BOOK TURNS {}", now_ms() + 500));
    std::thread::sleep(Duration::from_secs(1));
    probe.measure("ACCOUNT.PICK in a new month", &["ACCOUNT.PICK", BOOK, "m", "i1"]);
    probe.measure("ACCOUNT.USAGE by module", &["ACCOUNT.USAGE", BOOK, "BY", "module"]);
    probe.measure("ACCOUNT.USAGE AGO 1", &["ACCOUNT.USAGE", BOOK, "BY", "module", "AGO", "1"]);
    let mut batch = |name: &str, begin: &[&str], prefix: &str| {
        let accounts = (0..MAX_BATCH).map(|number| format!("{prefix}{number}"));
        let count = MAX_BATCH.to_string();
        let begin = begin.iter().copied().chain([&*count]).map(str::to_owned);
        probe.measure(&format!("{name} of {count}"), &begin.chain(accounts).collect::<Vec<String>>());
    };
    batch("ACCOUNT.ADD", &["ACCOUNT.ADD", BOOK, "m", "QUOTA", "100", "ACCOUNTS"], "q");
    batch("ACCOUNT.TARIFF", &["ACCOUNT.TARIFF", BOOK, "QUOTA", "200", "ACCOUNTS"], "p");
    batch("ACCOUNT.LIMIT", &["ACCOUNT.LIMIT", BOOK, "CAP", "70", "ACCOUNTS"], "p");
    batch("ACCOUNT.MOVE", &["ACCOUNT.MOVE", BOOK, "n"], "p");
    batch("ACCOUNT.DEL", &["ACCOUNT.DEL", BOOK], "q");
    probe.measure("ACCOUNT.DETACH of an instance", &["ACCOUNT.DETACH", BOOK, "m", "i0"]);
    probe.measure("DEL of the book", &["DEL", BOOK]);
    large_instance(probe);
}

/// Measures an instance that has as many accounts as one gets.
fn large_instance(probe: &mut Probe) {
    let mut book = Book::create(&probe.server, 1);
    book.add("m", 0..40_000);
    book.ok("ATTACH m i0");
    let assigned = |book: &mut Book| book.total("assigned");
    eventually("the timer to assign", Duration::from_secs(60), || assigned(&mut book) == 30_000);
    let epoch = book.account("p7", "epoch").int().to_string();
    book.ok(&format!("BOOK TURNS {}", now_ms() + 500));
    std::thread::sleep(Duration::from_secs(1));
    probe.measure(
        "ACCOUNT.USE in a new month, 30,000 accounts of the instance",
        &["ACCOUNT.USE", BOOK, "p7", &epoch, "COUNT", "1"],
    );
    probe.measure("ACCOUNT.BOOK CAP", &["ACCOUNT.BOOK", BOOK, "CAP", "50"]);
    probe.measure("ACCOUNT.PICK after a new cap, 30,000 accounts", &["ACCOUNT.PICK", BOOK, "m", "i0"]);
    probe.measure("ACCOUNT.DETACH of an instance with 30,000 accounts", &["ACCOUNT.DETACH", BOOK, "m", "i0"]);
    probe.measure("DEL of the book", &["DEL", BOOK]);
}
