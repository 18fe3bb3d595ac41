//! `allot book`: the inventory in and out of a file, how a book stands, and evening out.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use allot_tests::books::{BOOK, Book};
use allot_tests::daemon::{Run, run};
use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, RedisServer, eventually};
use serde_json::Value;
use tempfile::TempDir;

const FILE: &str = "department,module,account,quota,tiers\n\
                    finance,billing,p1,100,150:0.1 1000:0.5\n\
                    finance,billing,p2,100,150:0.1 1000:0.5\n\
                    finance,audit,p3,100,\n\
                    sales,shop,p4,200,\n";

struct Desk {
    server: RedisServer,
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { server: RedisServer::start(), dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Run {
        run(&self.server, &[&["book"], arguments].concat())
    }

    fn export(&self) -> String {
        self.run(&["export", "--book", BOOK]).ok().out
    }

    fn get(&self) -> Value {
        serde_json::from_str(&self.run(&["get", BOOK, "--format", "json"]).ok().out).unwrap()
    }

    fn import(&self, text: &str, more: &[&str]) -> Run {
        let path = self.file("accounts.csv", text);
        self.run(&[&["apply", path.to_str().unwrap(), "--book", BOOK], more].concat())
    }
}

#[test]
fn a_file_becomes_a_book_and_a_book_the_same_file() {
    let desk = Desk::new();
    let dry = desk.import(FILE, &["--dry-run"]).ok();
    let difference = "+ 2 accounts for billing, quota 100, tiers 150:0.1 1000:0.5: p1 p2";
    assert!(dry.err.contains(difference) && dry.err.contains("+ module shop of sales"), "{}", dry.err);
    assert!(dry.out.contains("7 created, 0 changed, 0 deleted; nothing was changed"), "{}", dry.out);
    let path = desk.file("accounts.csv", FILE);
    let compared = desk.run(&["diff", path.to_str().unwrap(), "--book", BOOK]).ended(1);
    assert!(compared.out.contains(difference), "{}", compared.out);
    assert_eq!(desk.server.raw().words(&format!("EXISTS {BOOK}")).int(), 0, "a dry run made a book");
    desk.import(FILE, &["--instances", "3"]).ok();
    let mut book = Book::of(&desk.server);
    assert_eq!(book.ok("INFO MODULE billing").field("instances").int(), 3);
    let export = desk.export();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    // Each module has a line with its settings; the lines of accounts end with empty columns for them.
    let (modules, accounts): (Vec<&str>, Vec<&str>) =
        export.lines().skip(1).partition(|line| line.split(',').nth(2) == Some(""));
    assert_eq!(modules.len(), 3);
    let without_settings = |line: &&str| line.split(',').take(5).collect::<Vec<_>>().join(",");
    let accounts: Vec<String> = accounts.iter().map(without_settings).collect();
    let lines = FILE.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(sorted(&accounts.join("\n")), sorted(&lines));
    // Once more it is nothing to do.
    let again = desk.import(&export, &[]).ok();
    assert!(again.out.contains("0 created, 0 changed, 0 deleted"), "{}", again.out);

    // A module and an account go elsewhere, one is new, one is not there any more, one cannot be as it is written.
    let other = "account,quota,module,department,tiers\n\
                 p1,100,billing,finance,150:0.1 1000:0.5\np2,100,shop,retail,150:0.1 1000:0.5\n\
                 p3,500,audit,finance,\np5,50,shop,retail,\n";
    let changed = desk.import(other, &[]).ok();
    for part in [
        "~ module shop goes to retail",
        "~ 1 accounts go to shop: p2",
        "+ 1 accounts for shop, quota 50: p5",
        "1 accounts are not in the file and stay",
        "~ 1 accounts get quota 500: p3",
    ] {
        assert!(changed.err.contains(part), "{part}\n{}", changed.err);
    }
    assert_eq!(book.account("p2", "module").text(), "shop");
    assert_eq!(book.account("p3", "quota").int(), 500);
    assert_eq!(book.total("accounts"), 5);
    // Nothing is deleted without a word, nor by a file that is only a header.
    desk.import(other, &["--prune"]).ended(2);
    let header = "department,module,account,quota\n";
    let guarded = desk.import(header, &["--prune", "--max-delete", "1", "--yes"]).ended(5);
    assert!(guarded.err.contains("lacks 5 accounts"), "{}", guarded.err);
    assert_eq!(book.total("accounts"), 5);
    let deleted = desk.import(other, &["--prune", "--max-delete", "1", "--yes"]).ok();
    assert!(deleted.err.contains("- 1 accounts to delete: p4"), "{}", deleted.err);
    assert_eq!(book.total("accounts"), 4);
}

#[test]
fn export_has_empty_modules_and_the_settings_of_all() {
    let desk = Desk::new();
    let mut book = Book::of(&desk.server);
    book.ok("BOOK");
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 3 WEIGHT 5 RESERVE 2 MIN 4");
    book.ok("MODULE empty DEPARTMENT finance INSTANCES 7");
    let before = desk.export();
    assert!(
        before.starts_with("department,module,account,quota,tiers,places,weight,reserve,min,"),
        "{before}"
    );
    assert!(before.contains("\nfinance,billing,,,,3,5,2,4,"), "{before}");
    assert!(before.contains("\nfinance,empty,,,,7,1,0,1,"), "{before}");
    // Another server gets the same book from the file.
    let other = Desk::new();
    let made = other.import(&before, &[]).ok();
    assert!(made.err.contains("+ module empty of finance, 7 places"), "{}", made.err);
    assert_eq!(other.export(), before);
    // What the file says of a module that is there is applied; what it does not say stays.
    let changed = other.import("department,module,account,quota,min\nfinance,billing,,,9\n", &[]).ok();
    assert!(changed.err.contains("~ module billing gets INSTANCES 3 MIN 9"), "{}", changed.err);
    let expected = before.replace("finance,billing,,,,3,5,2,4,", "finance,billing,,,,3,5,2,9,");
    assert_eq!(other.export(), expected);
}

#[test]
fn limits_of_accounts_are_in_the_file() {
    let desk = Desk::new();
    let text = "department,module,account,quota,account_cap,turn\nd,m,p1,100,250,15\nd,m,p2,100,,\n";
    let made = desk.import(text, &[]).ok();
    assert!(made.err.contains("+ 1 accounts get CAP 250 TURN 15: p1"), "{}", made.err);
    assert!(made.out.contains("3 created, 0 changed, 0 deleted"), "{}", made.out);
    let mut book = Book::of(&desk.server);
    assert_eq!(["cap", "turn"].map(|field| book.account("p1", field).int()), [250, 15]);
    assert_eq!(["cap", "turn"].map(|field| book.account("p2", field).int()), [0, 1]);
    let before = desk.export();
    let other = Desk::new();
    other.import(&before, &[]).ok();
    assert_eq!(other.export(), before);
    let again = desk.import(&before, &[]).ok();
    assert!(again.out.contains("0 created, 0 changed, 0 deleted"), "{}", again.out);
}

#[test]
fn json_of_a_difference_names_all_accounts() {
    let desk = Desk::new();
    let lines: Vec<String> = (0..30).map(|number| format!("d,m,p{number},100\n")).collect();
    let lines = lines.concat();
    let header = "department,module,account,quota\n";
    desk.import(&format!("{header}{lines}"), &[]).ok();
    let path = desk.file("empty.csv", header);
    let diff = ["diff", path.to_str().unwrap(), "--book", BOOK, "--prune"];
    let shown = desk.run(&diff).ended(1);
    assert!(shown.out.contains(" and 10 more"), "{}", shown.out);
    let json = desk.run(&[&diff[..], &["--format", "json"]].concat()).ended(1);
    assert!((0..30).all(|number| json.out.contains(&format!("p{number}"))), "{}", json.out);
    assert!(!json.out.contains(" more"), "{}", json.out);
}

#[test]
fn status_forecasts_what_the_month_will_cost() {
    let desk = Desk { server: RedisServer::builder().own_clock().start(), ..Desk::new() };
    let mut book = Book::of(&desk.server);
    book.ok("BOOK");
    book.ok("MODULE m DEPARTMENT d/e INSTANCES 1");
    book.ok("ADD m QUOTA 1000 TIERS 2 2000 0.5 20000 2 ACCOUNTS 1 p1");
    book.ok("ATTACH m a");
    eventually("the instance to have its account", TIMEOUT, || book.shares("m") == [1]);
    let epoch = book.account("p1", "epoch").int();
    book.ok(&format!("USE p1 {epoch} COUNT 600"));
    // A tenth of a month of 30 days has passed: 9,000 in the month, of which 1,000 cost 0.5 and 7,000 cost 2.
    desk.server.shift_clock(3 * 24 * 3600);
    book.ok(&format!("USE p1 {epoch} COUNT 300"));
    let json = desk.get();
    let warning = &json["warnings"][0];
    let forecast = warning["forecast"].as_u64().unwrap();
    assert!((8_990..=9_000).contains(&forecast), "{json}");
    let cost = |projected: u64| (500 + 2 * (projected - 2_000)).to_string();
    assert_eq!(warning["forecast_cost"], cost(forecast).as_str());
    // The module goes on as in the last 23 to 24 hours.
    let lines: Vec<&Value> =
        json["use"].as_array().unwrap().iter().filter(|line| line["instance"].is_null()).collect();
    assert_eq!(lines.len(), 3, "two departments and a module");
    for line in lines {
        let projected = line["forecast"].as_u64().unwrap();
        assert!((8_990..=9_360).contains(&projected), "{json}");
        assert_eq!(line["forecast_cost"], cost(projected).as_str());
    }
    let shown = desk.run(&["get", BOOK]).ok();
    assert!(shown.err.contains("uses its cheapest accounts first"), "{}", shown.err);
}

#[test]
fn reloaded_inventory_keeps_what_rebalancing_has_moved() {
    let desk = Desk::new();
    desk.import(FILE, &[]).ok();
    let mut book = Book::of(&desk.server);
    book.ok("MOVE audit 1 p1");
    book.ok("MOVE shop 1 p2");
    let again = desk.import(FILE, &[]).ok();
    for part in [
        "1 accounts are with another module of their department and stay there",
        "~ 1 accounts go to billing: p2",
    ] {
        assert!(again.err.contains(part), "{part}\n{}", again.err);
    }
    assert_eq!(["p1", "p2"].map(|account| book.account(account, "module").text()), ["audit", "billing"]);
    // Where nothing is moved by itself the file says where it is to be.
    book.ok("MODULE audit DEPARTMENT finance INSTANCES 1 SHARE PRESENT WEIGHT 0");
    let moved = desk.import(FILE, &[]).ok();
    assert!(moved.err.contains("~ 1 accounts go to billing: p1"), "{}", moved.err);
    assert_eq!(book.account("p1", "module").text(), "billing");
}

#[test]
fn faulty_file_is_refused_with_the_line_of_each_problem() {
    let desk = Desk::new();
    let wrong = "department,module,account,quota\nfinance,billing,p1,many\n,billing,p2,3\nfinance,audit,p3,3\nfinance,audit,p3,3\n";
    let refused = desk.import(wrong, &[]).ended(3);
    for part in
        ["3 problems", "line 2: quota 'many'", "line 3: department ''", "line 5: account p3 is in line 4"]
    {
        assert!(refused.err.contains(part), "{part}\n{}", refused.err);
    }
    assert_eq!(desk.server.raw().words(&format!("EXISTS {BOOK}")).int(), 0);
    assert!(desk.import("module,account\n", &[]).ended(3).err.contains("no column 'department'"));
    assert!(desk.run(&["apply", "/nowhere.csv"]).ended(3).err.contains("/nowhere.csv"));
    assert!(desk.run(&["get", BOOK]).ended(4).err.contains("there is no book"));
}

#[test]
fn status_shows_the_tree_of_shares_and_warns_before_the_next_step() {
    let desk = Desk::new();
    desk.import(FILE, &[]).ok();
    let mut book = Book::of(&desk.server);
    book.ok("ATTACH billing web1:8080");
    book.ok("ATTACH billing web2:8080");
    let epoch = book.account("p1", "epoch").int();
    book.ok(&format!("USE p1 {epoch} COUNT 90"));
    let json = desk.get();
    let line = |module: &str, instance: Option<&str>| {
        let is = |line: &&Value| line["module"] == module && line["instance"].as_str() == instance;
        json["use"].as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("{module}: {json}"))
    };
    assert_eq!(line("billing", None)["state"], "1 of 1 places");
    assert_eq!(line("billing", Some("web2:8080"))["state"], "standby");
    let warning = &json["warnings"][0];
    assert_eq!((&warning["account"], &warning["place"]), (&"p1".into(), &"billing/web1:8080".into()));
    assert_eq!((&warning["step_end"], &warning["price_beyond"]), (&100.into(), &"0.1".into()));
    assert_eq!((&json["assigned"], &json["free"]), (&2.into(), &2.into()));
}

#[test]
fn rebalance_prints_its_moves_and_makes_them_unless_it_is_dry() {
    let desk = Desk { server: RedisServer::builder().own_clock().start(), ..Desk::new() };
    let mut lines = "department,module,account,quota,tiers\n".to_owned();
    for number in 0..8 {
        let _ = writeln!(lines, "d,m,p{number},100,1000:0.5");
    }
    desk.import(&lines, &["--instances", "2"]).ok();
    let mut book = Book::of(&desk.server);
    book.ok("BOOK DWELL 0");
    assert!(desk.run(&["rebalance", "--book", BOOK]).ended(1).err.contains("nothing to move"));
    book.ok("ATTACH m a");
    book.ok("ATTACH m b");
    eventually("both to have accounts", TIMEOUT, || book.shares("m") == [4, 4]);
    // After an hour without use it is known that an instance needs none.
    desk.server.shift_clock(2 * 3600);
    for one in book.ok("PICK m a COUNT 4").array() {
        book.ok(&format!("USE {} {} COUNT 99", one.field("account").text(), one.field("epoch").int()));
    }
    let dry: Value = serde_json::from_str(
        &desk.run(&["rebalance", "--book", BOOK, "--dry-run", "--format", "json"]).ok().out,
    )
    .unwrap();
    let moves = dry.as_array().unwrap().len();
    assert!(moves > 0);
    assert_eq!(book.shares("m"), [4, 4]);
    let made = desk.run(&["rebalance", "--book", BOOK]).ok().out;
    assert_eq!(made.lines().count(), moves + 1, "{made}");
    assert!(made.contains("avoided"), "{made}");
    assert_ne!(book.shares("m"), [4, 4]);
}

#[test]
fn an_import_tells_the_leader_who_records_what_it_handled() {
    let mut system = AccountsSystem::start(1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("accounts.csv");
    fs::write(&path, FILE).unwrap();
    let address = system.zookeeper.address();
    let line = ["book", "apply", path.to_str().unwrap(), "--book", BOOK, "--zookeeper", &address];
    system.add_clients(&[], &["finance/billing/web1:8080"]);
    run(&system.redis, &line).ok();
    let version = async |tree: allot_coordination::Tree| {
        let notify = tree.get("/resource/notify").await.ok().flatten()?.version.0;
        let node = tree.get("/resource/notify/processed").await.ok().flatten()?;
        Some(notify > 0 && String::from_utf8(node.data).unwrap() == notify.to_string())
    };
    eventually("the notice to be assigned with", TIMEOUT, || system.with_tree(version) == Some(true));
    system.healthy("what was imported to be assigned");
    assert_eq!(system.book().shares("billing"), [2]);
}
