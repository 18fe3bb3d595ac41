//! The pages of pools, accounts, compaction and the overview, in a real browser: they show changes that others make, and
//! their buttons act.

use std::fs;
use std::time::Duration;

use allot_tests::compaction_cluster::{CompactionCluster, UNHURRIED, script};
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue, with_events};
use allot_tests::{RedisServer, eventually};

use crate::SOON;
use crate::actions::{TEXT, click, opened, shows};

#[test]
fn call_is_seen_on_the_pool_page_and_hung_up_there() {
    let server = RedisServer::start();
    server.command("NUMPOOL.ADD {p} 1001 1002 1003");
    server.command("NUMPOOL.REG {p} 1001 1002 1003 SWITCH east");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/pool?key=%7Bp%7D");
    shows(&browser, "no live calls");
    server.command("NUMPOOL.CALL {p} TTL 600000 LEASE call-1 PEER 5550100");
    shows(&browser, "call-1");
    shows(&browser, "5550100");
    click(&browser, "Hang up");
    shows(&browser, "no live calls");
    assert_eq!(server.raw().call(&["NUMPOOL.LEASES", "{p}"]).array()[1].array().len(), 0);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn account_is_frozen_on_the_accounts_page() {
    let server = RedisServer::start();
    for line in [
        "ACCOUNT.BOOK {b}",
        "ACCOUNT.MODULE {b} billing DEPARTMENT finance INSTANCES 1",
        "ACCOUNT.ADD {b} billing QUOTA 100 TIERS 1 150 0.1 ACCOUNTS 2 p1 p2",
    ] {
        server.command(line);
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/accounts?key=%7Bb%7D");
    shows(&browser, "billing");
    server.command("ACCOUNT.ATTACH {b} billing web1:8080");
    shows(&browser, "web1:8080");
    click(&browser, "Freeze");
    shows(&browser, "Unfreeze");
    let states =
        ["p1", "p2"].map(|account| format!("{:?}", server.raw().call(&["ACCOUNT.INFO", "{b}", account])));
    assert!(states.iter().any(|state| state.contains("frozen")), "{states:?}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn new_key_and_refusals_are_seen_on_the_overview() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/");
    shows(&browser, "master");
    server.command("NUMPOOL.ADD {fresh} 1001");
    // Keys are looked for every thirty seconds.
    browser.wait_for("the key", &format!("{TEXT}.includes('{{fresh}}')"), Duration::from_secs(60));
    server.command("NUMPOOL.REG {fresh} 1001");
    server.command("NUMPOOL.CALL {fresh} TTL 60000");
    browser.wait_for("the live call", &format!("/1\\s+live calls/.test({TEXT})"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn task_is_seen_and_paused_on_the_compaction_page() {
    let server = RedisServer::start();
    let home = tempfile::tempdir().unwrap();
    // Partitions go on until the test allows them to end.
    let runner =
        script(home.path(), "#!/bin/sh\nwhile [ ! -e \"$ALLOT_TEST_DIR/go\" ]; do sleep 0.1; done\n");
    let cluster = CompactionCluster::start_with(1, &runner, &[UNHURRIED]);
    cluster.partitions(6);
    let console = Console::start(&server, &["--zookeeper-servers", &cluster.zookeeper.address()]);
    let browser = opened(&console, "/compaction");
    shows(&browser, "No task runs");
    shows(&browser, "host0_9876");
    let id = cluster.submit(&["shop", "public", "orders"]);
    shows(&browser, "shop.public.orders");
    browser.wait_for("running partitions", "document.querySelector('.cell.running')", SOON);
    click(&browser, "Pause");
    shows(&browser, "Resume");
    eventually("the task to be paused", SOON, || cluster.json(&["get", &id])["state"] == "paused");
    click(&browser, "Resume");
    fs::write(cluster.dir.path().join("go"), "").unwrap();
    shows(&browser, "6 of 6");
    shows(&browser, "No task runs");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn waiting_call_is_seen_on_the_pool_page() {
    let server = RedisServer::start();
    server.command("NUMPOOL.ADD {p} 1001");
    server.command("NUMPOOL.REG {p} 1001 SWITCH east");
    server.command("NUMPOOL.CALL {p} TTL 600000 LEASE call-1");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/pool?key=%7Bp%7D");
    shows(&browser, "call-1");
    let mut client = server.raw();
    let waiting =
        std::thread::spawn(move || client.call(&["NUMPOOL.CALL", "{p}", "WAIT", "0", "LEASE", "call-2"]));
    shows(&browser, "1 call waits for a number");
    click(&browser, "Hang up");
    shows(&browser, "call-2");
    browser.wait_for("no call to wait", &format!("!{TEXT}.includes('call waits')"), SOON);
    waiting.join().unwrap();
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn table_of_accounts_is_imported_on_the_accounts_page() {
    let server = RedisServer::start();
    server.command("ACCOUNT.BOOK {b}");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/accounts?key=%7Bb%7D");
    shows(&browser, "no accounts");
    let table = "department,module,account,quota\nfinance,<i>mail</i>,p1,100\n";
    browser.run(&format!(
        "const area = document.querySelector('#import textarea'); area.value = {table:?};
        area.dispatchEvent(new Event('input', {{bubbles: true}}));"
    ));
    click(&browser, "Compare");
    shows(&browser, "+ module <i>mail</i> of finance");
    shows(&browser, "no accounts");
    click(&browser, "Apply 2 changes");
    shows(&browser, "2 changes made");
    click(&browser, "Compare");
    shows(&browser, "Nothing to change.");
    browser.wait_for("the account", &format!("!{TEXT}.includes('no accounts')"), SOON);
    let info = format!("{:?}", server.raw().call(&["ACCOUNT.INFO", "{b}", "p1"]));
    assert!(info.contains("<i>mail</i>"), "{info}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn events_of_all_keys_are_seen_on_the_overview() {
    let server = RedisServer::start();
    create(&server, "show:1", &with_events(&sample_venue(1, 3), 100));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/");
    shows(&browser, "created");
    server.command("SEAT.PICK show:1 ann TTL 60000 TOKEN t SEATS 1 a-1-1");
    shows(&browser, "user ann");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
