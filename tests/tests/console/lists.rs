//! Lists of the API that are longer than a page, and lists that a user of Redis may not read.

use std::time::{Duration, Instant};

use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue};
use allot_tests::{RedisServer, eventually};
use serde_json::{Value, json};

use crate::SOON;
use crate::actions::{opened, shows};

#[test]
fn plan_of_a_unit_has_totals() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.call(&["CONF.REALM", "{r}"]);
    client.call(&["CMU.JOIN", "{r}", "u1", "CAPACITY", "2000", "LEASE", "600000"]);
    for number in 1..=601 {
        client.call(&["CONF.CREATE", "{r}", &number.to_string(), "END", "99999999999999"]);
    }
    client.call(&["CMU.JOIN", "{r}", "u2", "CAPACITY", "2000", "LEASE", "600000"]);
    let console = Console::start(&server, &[]);
    let path = "realm/plan?key=%7Br%7D&down=u1";
    let totals = console.get(path).json();
    assert_eq!(totals.as_array().unwrap().len(), 1, "{totals}");
    assert_eq!((&totals[0]["cmu"], &totals[0]["count"]), (&json!("u2"), &json!(601)));
    let browser = opened(&console, "/realm?key=%7Br%7D&cmu=u1");
    shows(&browser, "601");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn plan_is_made_every_few_seconds_for_all_pages() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.call(&["CONF.REALM", "{r}"]);
    for unit in ["u1", "u2"] {
        client.call(&["CMU.JOIN", "{r}", unit, "CAPACITY", "2000", "LEASE", "600000"]);
    }
    let console = Console::start(&server, &[]);
    for _ in 0..20 {
        assert_eq!(console.get("realm/plan?key=%7Br%7D&down=u1").status, 200);
    }
    assert_eq!(server.counted("conf.plan", "calls"), 1);
    let browsers = [(); 2].map(|()| opened(&console, "/realm?key=%7Br%7D&cmu=u1"));
    browsers.iter().for_each(|browser| shows(browser, "nothing would move"));
    let (before, began) = (server.counted("conf.plan", "calls"), Instant::now());
    for number in 1..=50 {
        client.call(&["CONF.CREATE", "{r}", &number.to_string(), "END", "99999999999999"]);
        std::thread::sleep(Duration::from_millis(100));
    }
    browsers.iter().for_each(|browser| shows(browser, "u2"));
    // The plan of this unit, and a part of the survey of all units, each every five seconds.
    let (made, most) =
        (server.counted("conf.plan", "calls") - before, 2 * (2 + began.elapsed().as_secs() / 5));
    assert!(made <= most, "{made} plans in {:?}", began.elapsed());
}

#[test]
fn moves_of_a_rebalance_are_asked_for_every_few_seconds_for_all_pages() {
    let server = RedisServer::start();
    server.command("ACCOUNT.BOOK {b}");
    let console = Console::start(&server, &[]);
    let browsers = [(); 2].map(|()| opened(&console, "/accounts?key=%7Bb%7D"));
    browsers.iter().for_each(|browser| shows(browser, "would move nothing"));
    let (before, began) = (server.counted("account.rebalance", "calls"), Instant::now());
    for _ in 0..20 {
        assert_eq!(console.get("book/rebalance?key=%7Bb%7D").json(), json!([]));
        std::thread::sleep(Duration::from_millis(300));
    }
    let (asked, most) =
        (server.counted("account.rebalance", "calls") - before, 1 + began.elapsed().as_secs() / 5);
    assert!((1..=most).contains(&asked), "{asked} in {:?}", began.elapsed());
}

#[test]
fn free_numbers_and_cool_downs_are_on_the_pool_page() {
    let server = RedisServer::start();
    for line in [
        "NUMPOOL.ADD {p} 1001 1002 1003 1004",
        "NUMPOOL.REG {p} 1001 1002 1003 SWITCH east",
        "NUMPOOL.CONFIG {p} COOLDOWN 600000",
        "NUMPOOL.CAUSE {p} spam COOLDOWN 86400000",
    ] {
        server.command(line);
    }
    let console = Console::start(&server, &[]);
    let mut events = console.events("%7Bp%7D");
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|entry| entry["number"].as_str().unwrap().to_owned()).collect()
    };
    let first = events.next("numbers");
    assert_eq!(
        (names(&first["free"]), names(&first["resting"])),
        (strings(&["1001", "1002", "1003"]), Vec::new())
    );
    let browser = opened(&console, "/pool?key=%7Bp%7D");
    shows(&browser, "no number rests");
    // The head of the queue gets a call, and rests afterwards.
    server.command("NUMPOOL.CALL {p} LEASE call-1");
    server.command("NUMPOOL.HANGUP {p} 1001 LEASE call-1");
    server.command("NUMPOOL.CALL {p} LEASE call-2");
    server.command("NUMPOOL.HANGUP {p} 1002 LEASE call-2 CAUSE spam");
    let mut last = Value::Null;
    eventually("both numbers to rest", SOON, || {
        last = events.next("numbers");
        last["resting"].as_array().unwrap().len() == 2
    });
    assert_eq!(
        (names(&last["free"]), names(&last["resting"])),
        (strings(&["1003"]), strings(&["1001", "1002"]))
    );
    assert_eq!(
        (&last["resting"][0]["why"], &last["resting"][1]["why"]),
        (&json!("cool-down"), &json!("quarantine"))
    );
    assert_eq!(last["resting"][1]["cause"], "spam");
    shows(&browser, "quarantine");
    shows(&browser, "cool-down");
    let row = "document.querySelector('[aria-label=\"Table: Numbers that can be called\"] tbody').innerText";
    browser.wait_for("the free number", &format!("/^1003/.test({row})"), SOON);
    // A number that an operator takes out of service is not free.
    server.command("NUMPOOL.SUSPEND {p} 1003");
    eventually("the number to be out of service", SOON, || {
        last = events.next("numbers");
        last["free"].as_array().unwrap().is_empty()
    });
    let suspended = &last["resting"][2];
    assert_eq!((&suspended["number"], &suspended["why"]), (&json!("1003"), &json!("out-of-service")));
    assert!(suspended["until"].is_null(), "{suspended}");
    shows(&browser, "when resumed");
    let state = events.next("state");
    let counts = &state["points"].as_array().unwrap().last().unwrap()["value"];
    assert_eq!((&counts["free"], &counts["barred"]), (&json!(0), &json!(2)), "{counts}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn lists_of_a_pool_are_read_less_often_than_its_totals() {
    let server = RedisServer::start();
    server.command("NUMPOOL.ADD {p} 1001 1002");
    let console = Console::start(&server, &[]);
    let mut events = console.events("%7Bp%7D");
    let first = events.next("numbers");
    assert_eq!((&first["listed"], &first["examined"]), (&json!(200), &json!(1000)));
    let scans = || server.counted("numpool.scan", "calls");
    let (before, began) = (scans(), Instant::now());
    for _ in 0..12 {
        events.next("state");
    }
    // Every five seconds; the totals are read each second.
    let (read, most) = (scans() - before, 2 + began.elapsed().as_secs() / 5);
    assert!(read <= most, "{read} reads in {:?}", began.elapsed());
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn refused_requests_are_not_repeated() {
    let server = RedisServer::start();
    create(&server, "{k}:show", &sample_venue(2, 2));
    server.command("NUMPOOL.ADD {k}:pool 1001");
    // The viewer may not read the waiting list, numbers, event streams, nor the mass-failure guard.
    let rules = "viewer on >change-me ~* +@all -seat.list -numpool.scan -xrevrange -hgetall";
    server.raw().call(&[&["ACL", "SETUSER"], &rules.split(' ').collect::<Vec<_>>()[..]].concat());
    let password = server.dir().join("password");
    std::fs::write(&password, "change-me\n").unwrap();
    let password = password.to_str().unwrap();
    let viewer = ["--console-viewer-user", "viewer", "--console-viewer-password-file", password];
    let console = Console::start(&server, &viewer);
    let mut events = ["%7Bk%7D:show", "%7Bk%7D:pool", "overview"].map(|key| console.events(key));
    for _ in 0..6 {
        events[0].next("sync");
        events[1].next("state");
        events[2].next("state");
    }
    for (command, refusals) in [("seat.list", 1), ("numpool.scan", 1), ("hgetall", 1), ("xrevrange", 2)] {
        assert_eq!(server.counted(command, "rejected_calls"), refusals, "{command}");
    }
    // The same holds for a command that a page sends.
    for _ in 0..3 {
        assert_eq!(console.send(&["SEAT.LIST", "{k}:show", "WAITING"]).json()["code"], "NOPERM");
    }
    assert!(server.counted("seat.list", "rejected_calls") <= 2);
    // What may not be read is not known.
    assert_eq!(events[2].next("state")["guard_known"], json!(false));
    let browser = opened(&console, "/");
    shows(&browser, "unknown");
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn table_is_saved_as_a_file() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.call(&["NUMPOOL.ADD", "pool", "+441", "+442", "+443"]);
    client.call(&["NUMPOOL.REG", "pool", "+441", "+442", "+443"]);
    for lease in ["a,\"b\"", "=1+2", "other"] {
        client.call(&["NUMPOOL.CALL", "pool", "LEASE", lease, "TTL", "600000"]);
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/pool?key=pool&calls.find=44&calls.sort=number");
    browser.wait_for("the button", "document.querySelector('button.save[aria-label*=calls]')", SOON);
    browser.run(
        "const make = URL.createObjectURL;
         URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return make(blob); };
         document.querySelector('button.save[aria-label*=calls]').click();",
    );
    browser.wait_for("the file", "window.saved", SOON);
    let saved = browser.run("return window.saved");
    let saved: Vec<&str> = saved.as_str().unwrap().lines().collect();
    let place = |name: &str| saved[0].split(',').position(|column| column == name).expect("the column");
    assert_eq!(saved.len(), 4, "{saved:?}");
    assert_eq!(saved[1].split(',').nth(place("number")), Some("+441"), "{saved:?}");
    assert!(saved[1].contains("\"a,\"\"b\"\"\"") && saved[2].contains("'=1+2"), "{saved:?}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
