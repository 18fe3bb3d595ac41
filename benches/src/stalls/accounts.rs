//! Books of accounts: lists, attached instances, rebalancing and the use of a period.

use allot_tests::books::{BOOK, Book};

use crate::probe::Probe;

/// Instances that attach.
const INSTANCES: usize = 1000;

/// Fills a book and measures.
pub(crate) fn measure(probe: &mut Probe, elements: usize) {
    let mut book = Book::create(&probe.server, 2 * INSTANCES);
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
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
    book.ok(&format!("BOOK TURNS {}", now.as_millis() + 500));
    std::thread::sleep(std::time::Duration::from_secs(1));
    probe.measure("ACCOUNT.PICK in a new month", &["ACCOUNT.PICK", BOOK, "m", "i1"]);
    probe.measure("ACCOUNT.USAGE by module", &["ACCOUNT.USAGE", BOOK, "BY", "module"]);
    probe.measure("ACCOUNT.USAGE AGO 1", &["ACCOUNT.USAGE", BOOK, "BY", "module", "AGO", "1"]);
    let added = (0..10_000).map(|number| format!("q{number}"));
    let begin = ["ACCOUNT.ADD", BOOK, "m", "QUOTA", "100", "ACCOUNTS", "10000"].map(str::to_owned);
    probe.measure("ACCOUNT.ADD of 10,000", &begin.into_iter().chain(added).collect::<Vec<String>>());
    probe.measure("ACCOUNT.DETACH of an instance", &["ACCOUNT.DETACH", BOOK, "m", "i0"]);
    let some = (0..10_000).map(|number| format!("p{number}"));
    let begin = ["ACCOUNT.DEL", BOOK, "10000"].map(str::to_owned);
    probe.measure("ACCOUNT.DEL of 10,000", &begin.into_iter().chain(some).collect::<Vec<String>>());
    probe.measure("DEL of the book", &["DEL", BOOK]);
}
