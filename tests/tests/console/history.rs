//! What the console knows of the time when nobody looked: the sales of a show, and counts by the minute.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allot_tests::RedisServer;
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue, with_events};
use serde_json::{Value, json};

use crate::SOON;
use crate::actions::opened;

/// The numbers of sold seats on the chart of sales, in their order.
const SOLD: &str = "[...new Set(document.querySelector('[aria-label=Sales] .chart')?.chart?.data[1])].join()";

/// Sells seats of the first row.
fn sell(server: &RedisServer, token: &str, seats: &[&str]) {
    // Each change has a time of its own.
    sleep(Duration::from_millis(10));
    let (count, seats) = (seats.len(), seats.join(" "));
    server.command(&format!("SEAT.PICK show:1 ann TTL 60000 TOKEN {token} SEATS {count} {seats}"));
    server.command(&format!("SEAT.CONFIRM show:1 {token}"));
    sleep(Duration::from_millis(10));
}

#[test]
fn sales_are_whole_though_nobody_looked() {
    let server = RedisServer::start();
    create(&server, "show:1", &with_events(&sample_venue(1, 9), 1000));
    sell(&server, "t1", &["a-1-1"]);
    sell(&server, "t2", &["a-1-2", "a-1-3"]);
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    browser.wait_for("the sales before", &format!("{SOLD} === '0,1,3'"), SOON);
    server.command("SEAT.REFUND show:1 1 a-1-1");
    browser.wait_for("the refund", &format!("{SOLD} === '0,1,3,2'"), SOON);
    browser.go("about:blank");
    console.process.terminate();
    sell(&server, "t3", &["a-1-4", "a-1-5", "a-1-6"]);
    let console = Console::start(&server, &[]);
    browser.go(&console.address("/show?key=show:1"));
    browser.wait_for("all sales", &format!("{SOLD} === '0,1,3,2,5'"), SOON);
    let text = "document.querySelector('[aria-label=Sales]').innerText";
    browser.wait_for("the beginning", &format!("{text}.includes('Since the creation of the show')"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn sales_are_counted_from_the_end_of_a_stream_that_was_cut() {
    let server = RedisServer::start();
    create(&server, "show:1", &with_events(&sample_venue(20, 50), 1500));
    let mut connection = server.connection();
    let mut pipe = redis::pipe();
    for seat in 0..1000 {
        let (token, id) = (format!("t{seat}"), format!("a-{}-{}", seat / 50 + 1, seat % 50 + 1));
        pipe.cmd("SEAT.PICK")
            .arg("show:1")
            .arg("ann")
            .arg(&["TTL", "60000", "TOKEN", &token, "SEATS", "1", &id]);
        pipe.cmd("SEAT.CONFIRM").arg("show:1").arg(&token);
    }
    pipe.query::<Vec<redis::Value>>(&mut connection).unwrap();
    let sales = Console::start(&server, &[]).get("show/sales?key=show:1").json();
    assert_eq!(sales["whole"], false);
    let list = |name: &str| -> Vec<u64> { serde_json::from_value(sales[name].clone()).unwrap() };
    let (at, sold) = (list("at"), list("sold"));
    assert!(at.is_sorted_by(|a, b| a < b) && sold.is_sorted_by(|a, b| a < b), "{sales}");
    // 1500 entries are 750 sales, of which those of one millisecond are one point: the first has as many as it had.
    assert!(sold[0] > 250 && sold.last() == Some(&1000), "{sales}");
}

#[test]
fn minutes_are_kept_over_a_restart_of_the_console() {
    let server = RedisServer::start();
    server.command("NUMPOOL.ADD {p} 1001 1002 1003");
    server.command("NUMPOOL.REG {p} 1001 1002 1003");
    for _ in 0..3 {
        server.command("NUMPOOL.CALL {p} TTL 600000");
    }
    let dir = tempfile::tempdir().unwrap();
    let run = server.info_field("server", "run_id");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let earlier = json!({"at": now - 600_000, "run": run, "up": 0, "holds": 0, "calls": 0,
        "recoveries": 0, "refusals": 0, "waiting": 0});
    fs::write(dir.path().join("history"), format!("{earlier}\n")).unwrap();
    let start = || Console::start(&server, &["--console-data-dir", dir.path().to_str().unwrap()]);
    // The calls by the minute on the chart, and their sum.
    let chart = "document.querySelector('[aria-label^=\"The last 24 hours\"] .chart')?.chart?.data[2]";
    // A minute that has just begun is left out.
    let sum = format!("Math.round({chart}?.reduce((all, one) => all + one, 0) * 10) / 10");
    let mut console = start();
    let browser = opened(&console, "/");
    for _ in 0..2 {
        browser.wait_for("three calls", &format!("{sum} === 3"), SOON);
        let minutes = browser.run(&format!("return {chart}.length")).as_u64().unwrap();
        assert!((10..=13).contains(&minutes), "{minutes}");
        browser.go("about:blank");
        console.process.terminate();
        // What the first console has read is in the file.
        let kept = fs::read_to_string(dir.path().join("history")).unwrap();
        assert!(
            kept.lines().any(|line| serde_json::from_str::<Value>(line).unwrap()["calls"] == 3),
            "{kept}"
        );
        console = start();
        browser.go(&console.address("/"));
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}
