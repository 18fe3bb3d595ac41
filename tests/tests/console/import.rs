//! Tables of accounts that are imported by the API.

use std::time::Duration;

use allot_tests::consoles::{ACTION, Console};
use allot_tests::http::{Answer, abandon};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};
use serde_json::{Value, json};

const BOOK: &str = "{b}";
const TABLE: &str = "department,module,account,quota\nfinance,billing,p1,100\n";

fn import(console: &Console, more: Value) -> Answer {
    let Value::Object(mut body) = json!({"key": BOOK, "table": TABLE, "dry_run": false}) else {
        unreachable!()
    };
    let Value::Object(more) = more else { unreachable!() };
    body.extend(more);
    console.act("book/import", &Value::Object(body))
}

fn accounts(console: &Console) -> Vec<String> {
    let items = console.sent(&["ACCOUNT.LIST", BOOK])[1].clone();
    let items = items.as_array().unwrap().iter();
    let mut names: Vec<String> = items.map(|item| item["account"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn import_is_applied_though_nobody_can_be_notified() {
    let server = RedisServer::start();
    server.command("ACCOUNT.BOOK {b}");
    // Nothing listens at this address. Written as one word, the start does not wait for a session there.
    let console = Console::start(&server, &["--zookeeper-servers=127.0.0.1:1", "--accounts-book", BOOK]);
    let answer = import(&console, json!({}));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let done = answer.json()["result"].clone();
    assert_eq!((&done["applied"], &done["changes"]), (&json!(true), &json!(2)), "{done}");
    assert!(done["warning"].as_str().unwrap().contains("could not be notified"), "{done}");
    assert_eq!(accounts(&console), ["p1"]);
    // Where there is nothing to do, there is nobody to notify.
    let again = import(&console, json!({})).json()["result"].clone();
    assert_eq!((&again["changes"], &again["warning"]), (&json!(0), &json!(null)), "{again}");
}

#[test]
fn import_deletes_nothing_that_the_comparison_did_not_show() {
    let server = RedisServer::start();
    for line in [
        "ACCOUNT.BOOK {b}",
        "ACCOUNT.MODULE {b} billing DEPARTMENT finance INSTANCES 1",
        "ACCOUNT.ADD {b} billing QUOTA 100 ACCOUNTS 2 p1 old",
    ] {
        server.command(line);
    }
    let console = Console::start(&server, &[]);
    let compare = || {
        let shown = import(&console, json!({"delete": true, "dry_run": true})).json()["result"].clone();
        assert_eq!(shown["applied"], json!(false));
        shown
    };
    let apply = |shown: &Value| import(&console, json!({"delete": true, "seen": shown["comparison"]}));
    let shown = compare();
    assert!(shown["lines"].to_string().contains("1 accounts to delete: old"), "{shown}");
    server.command("ACCOUNT.ADD {b} billing QUOTA 100 ACCOUNTS 1 new");
    let refused = apply(&shown);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("refused")), "{}", refused.body);
    assert_eq!(accounts(&console).len(), 3);
    let shown = compare();
    assert!(shown["lines"].to_string().contains("new"), "{shown}");
    let done = apply(&shown);
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(accounts(&console), ["p1"]);
}

#[test]
fn import_goes_on_when_its_client_leaves() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let last = || console.get("book/import?key=%7Bb%7D").json();
    assert_eq!(last(), json!(null));
    // The first change waits until the client has left.
    server.command("CLIENT PAUSE 60000 WRITE");
    let table = format!("{TABLE}finance,mail,p2,100\nfinance,audit,p3,100\n");
    let body = json!({"key": BOOK, "table": table, "dry_run": false}).to_string();
    let headers = [ACTION, ("Content-Type", "application/json")];
    abandon(console.port, "POST /api/v1/book/import", &headers, &body, || {
        eventually("the import to run", TIMEOUT, || last()["running"] == json!(true));
        let again = import(&console, json!({}));
        assert_eq!((again.status, again.json()["code"].as_str()), (409, Some("refused")), "{}", again.body);
    });
    std::thread::sleep(Duration::from_millis(100));
    server.command("CLIENT UNPAUSE");
    eventually("the import to end", TIMEOUT, || last()["running"] == json!(false));
    let result = last()["result"].clone();
    assert_eq!((&result["applied"], &result["changes"]), (&json!(true), &json!(6)), "{result}");
    assert_eq!(accounts(&console), ["p1", "p2", "p3"]);
}

#[test]
fn table_with_many_problems_is_refused_in_few_words() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let table = format!("department,module,account,quota\n{}", "finance,billing,,many\n".repeat(50_000));
    let refused = import(&console, json!({"table": table, "dry_run": true}));
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("50000 problems") && refused.body.len() < 4000, "{}", refused.body);
}
