//! The ends of months: the role sets calendar months, and leaves those alone that an operator has set.

use allot_tests::books::Book;
use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, eventually};

fn turns(book: &mut Book) -> Vec<i64> {
    book.ok("INFO").field("turns").array().iter().map(allot_tests::Reply::int).collect()
}

#[test]
fn ends_of_months_that_an_operator_has_set_remain_until_months() {
    let system = AccountsSystem::start(1);
    let mut book = system.book();
    let mut calendar = Vec::new();
    eventually("calendar months", TIMEOUT, || {
        calendar = turns(&mut book);
        calendar.len() > 2
    });
    let wanted = [calendar[0] + 1, calendar[1] + 1];
    book.ok(&format!("BOOK TURNS {} {}", wanted[0], wanted[1]));
    // The role reads the book once a second, before it would set the ends of months. So does the next leader.
    let reads = |system: &AccountsSystem| system.redis.counted("account.info", "calls");
    let read_often = |system: &AccountsSystem| {
        let before = reads(system);
        eventually("the role to read the book often", TIMEOUT, || reads(system) >= before + 6);
    };
    read_often(&system);
    system.daemons[0].kill9();
    system.daemons[0].start();
    system.until_led();
    read_often(&system);
    assert_eq!(turns(&mut book), wanted);
    book.ok("BOOK MONTHS");
    eventually("calendar months again", TIMEOUT, || turns(&mut book)[..2] == calendar[..2]);
}
