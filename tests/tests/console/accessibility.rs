//! The accessibility of the pages, as axe-core judges it in a real browser, in both colour schemes; and what a viewer sees.

use std::fs;

use allot_tests::RedisServer;
use allot_tests::browser::Browser;
use allot_tests::consoles::Console;
use allot_tests::shows::{THEATRE, create};
use serde_json::Value;

use crate::SOON;

/// Pages, and what is there when they are complete.
const PAGES: [(&str, &str); 7] = [
    ("/", ".figures"),
    ("/show?key=show:1&seat=left-A-1", ".records li"),
    ("/realm?key=%7Br%7D:conf&cmu=u1&conference=4930", ".timeline"),
    ("/pool?key=%7Bp%7D", ".stack"),
    ("/accounts?key=%7Bb%7D&account=p1", "[aria-label='Table: Assignments of the account']"),
    ("/compaction", ".trouble"),
    ("/actions", "tbody"),
];
/// Reports what axe-core finds to be serious or critical, as text.
const CHECK: &str = "return axe.run(document).then((found) => found.violations
    .filter((violation) => ['serious', 'critical'].includes(violation.impact))
    .flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${node.html} ${node.failureSummary}`)));";

fn filled(server: &RedisServer) {
    create(server, "show:1", THEATRE);
    for line in [
        "SEAT.PICK show:1 ann TTL 600000 TOKEN t SEATS 2 left-A-1 left-A-2",
        "SEAT.BLOCK show:1 1 left-A-3",
        "CONF.REALM {r}:conf",
        "CMU.JOIN {r}:conf u1 CAPACITY 5 LEASE 600000",
        "CMU.REPORT {r}:conf u1 HIGHEST 0",
        "CMU.JOIN {r}:conf u2 CAPACITY 5 LEASE 600000",
        "CMU.DOWN {r}:conf u2",
        "CONF.CREATE {r}:conf 4930 END 99999999999999",
        "NUMPOOL.ADD {p} 1001 1002 1003",
        "NUMPOOL.REG {p} 1001 1002 1003 SWITCH east",
        "NUMPOOL.CALL {p} TTL 600000 LEASE call-1 PEER 5550100",
        "ACCOUNT.BOOK {b}",
        "ACCOUNT.MODULE {b} billing DEPARTMENT finance INSTANCES 1",
        "ACCOUNT.ADD {b} billing QUOTA 100 TIERS 1 150 0.1 ACCOUNTS 2 p1 p2",
        "ACCOUNT.ATTACH {b} billing web1:8080",
    ] {
        server.command(line);
    }
}

#[test]
fn axe_finds_no_serious_fault_on_any_page() {
    let server = RedisServer::start();
    filled(&server);
    let console = Console::start(&server, &[]);
    let axe = allot_tests::module::repository().join("tests/vendor/axe.js");
    let axe = fs::read_to_string(axe).expect("axe-core is part of the repository");
    let browser = Browser::start();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for (page, ready) in PAGES {
            browser.go(&console.address(page));
            browser.wait_for(page, &format!("document.querySelector({ready:?})"), SOON);
            browser.run(&axe);
            let faults = browser.run(CHECK);
            let faults: Vec<&str> = faults.as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(faults.is_empty(), "{page}, {scheme}:\n{}", faults.join("\n\n"));
        }
    }
}

#[test]
fn no_page_is_wider_than_a_phone() {
    let server = RedisServer::start();
    filled(&server);
    let console = Console::start(&server, &[]);
    let browser = Browser::start();
    browser.narrow(390, 844);
    for (page, ready) in PAGES {
        browser.go(&console.address(page));
        browser.wait_for(page, &format!("document.querySelector({ready:?})"), SOON);
        let wide = browser.run("return document.documentElement.scrollWidth");
        assert_eq!(wide, 390, "{page}");
    }
}
