//! One account on the page of a book: its record and its last assignments; an operator moves it and raises its epoch.

use allot_tests::consoles::Console;
use allot_tests::{RedisServer, eventually};

use crate::SOON;
use crate::actions::{answer, opened, shows};

#[test]
fn account_is_moved_and_its_epoch_raised_on_the_page() {
    let server = RedisServer::start();
    for line in [
        "ACCOUNT.BOOK {b}:accounts",
        "ACCOUNT.MODULE {b}:accounts billing DEPARTMENT finance INSTANCES 1",
        "ACCOUNT.MODULE {b}:accounts sales DEPARTMENT finance INSTANCES 1",
        "ACCOUNT.ADD {b}:accounts billing QUOTA 100 ACCOUNTS 2 p1 p2",
        "ACCOUNT.ATTACH {b}:accounts billing web1:8080",
        "ACCOUNT.ATTACH {b}:accounts sales web2:8080",
    ] {
        server.command(line);
    }
    let field =
        |name: &str| server.raw().call(&["ACCOUNT.INFO", "{b}:accounts", "ACCOUNT", "p1"]).field(name);
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/accounts?key=%7Bb%7D:accounts");
    let row =
        "[...document.querySelectorAll('tbody tr')].find((row) => row.cells[0].textContent.trim() === 'p1')";
    browser.wait_for("the account", row, SOON);
    browser.run(&format!("({row}).click()"));
    shows(&browser, "module billing, instance web1:8080");
    let assignments =
        "[...document.querySelectorAll('[aria-label=\"Table: Assignments of the account\"] tbody tr')]
        .map((row) => row.cells[1].textContent.trim()).join()";
    browser.wait_for("its assignment", &format!("{assignments} === 'billing'"), SOON);
    let ask = |text: &str| {
        let panel = "document.querySelector('[aria-label=\"Account p1\"]')";
        let button =
            format!("[...{panel}.querySelectorAll('button')].find((one) => one.textContent === {text:?})");
        browser.wait_for(text, &button, SOON);
        browser.run(&format!("({button}).click()"));
        browser.wait_for("the question", "document.querySelector('dialog[open]')", SOON);
    };
    let epoch = field("epoch").int();
    ask("Raise");
    // Without another answer, it is the epoch that the account has.
    browser.run("document.querySelector('dialog[open] form').requestSubmit()");
    shows(&browser, "raised");
    eventually("a greater epoch", SOON, || field("epoch").int() > epoch);
    ask("Move");
    answer(&browser, "nothing");
    shows(&browser, "there is no other module 'nothing'");
    answer(&browser, "sales");
    shows(&browser, "module sales, instance web2:8080");
    assert_eq!(field("module").text(), "sales");
    browser.wait_for("three assignments", &format!("{assignments} === 'sales,billing,billing'"), SOON);
    assert!(browser.run("return document.title").as_str().unwrap().starts_with("p1 · Accounts"));
    assert_eq!(browser.errors(), Vec::<String>::new());
}
