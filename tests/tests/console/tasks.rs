//! The page of compaction in a real browser, and its API: what operators see and do is what `allot task` shows and
//! does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use allot_tests::browser::Browser;
use allot_tests::compaction_cluster::{CompactionCluster, UNHURRIED, script};
use allot_tests::consoles::Console;
use allot_tests::{RedisServer, eventually};
use serde_json::{Value, json};

use crate::SOON;
use crate::actions::{answer, click, opened, shows};

/// A runner that goes on until the test allows its partition to end, and then fails for some partitions.
const RUNNER: &str = "#!/bin/sh\n\
    while [ ! -e \"$ALLOT_TEST_DIR/go\" ]; do sleep 0.1; done\n\
    [ -e \"$ALLOT_TEST_DIR/well\" ] && exit 0\n\
    [ -e \"$ALLOT_TEST_DIR/badly\" ] && exit 4\n\
    case \"$ALLOT_PARTITION\" in *p00001) echo broken >&2; exit 3;; esac\n";

struct Setting {
    _server: RedisServer,
    cluster: CompactionCluster,
    console: Console,
    home: tempfile::TempDir,
}

/// A console, and so many units, whose tables have six partitions.
fn setting(units: usize, settings: &[(&str, &str)]) -> Setting {
    let server = RedisServer::start();
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), RUNNER);
    let cluster = CompactionCluster::start_with(units, &runner, &[&[UNHURRIED], settings].concat());
    cluster.partitions(6);
    let console = Console::start(&server, &["--zookeeper-servers", &cluster.zookeeper.address()]);
    Setting { _server: server, cluster, console, home }
}

impl Setting {
    fn allow(&self, file: &str) {
        fs::write(self.cluster.dir.path().join(file), "").unwrap();
    }

    fn act(&self, path: &str, body: &Value) -> Value {
        let answer = self.console.act(&format!("compaction/{path}"), body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()["result"].clone()
    }
}

/// Writes into an input of the page.
fn fill(browser: &Browser, name: &str, text: &str) {
    let input = format!("document.querySelector('input[name={name}]')");
    browser.wait_for(name, &input, SOON);
    browser.run(&format!(
        "const input = {input}; input.value = {text:?}; input.dispatchEvent(new Event('input', {{bubbles: true}}));"
    ));
}

#[test]
fn task_is_submitted_explained_and_retried_on_the_page() {
    let here = setting(1, &[]);
    let browser = opened(&here.console, "/compaction");
    shows(&browser, "No round runs");
    browser.run("document.querySelector('.submit').open = true");
    for (name, text) in [
        ("db", "shop"),
        ("schema", "public"),
        ("table", "orders"),
        ("budget", "6"),
        ("retries", "7"),
        ("timeout", "9m"),
    ] {
        fill(&browser, name, text);
    }
    click(&browser, "Submit");
    shows(&browser, "shop.public.orders");
    browser.wait_for("running partitions", "document.querySelector('.partition-grid .cell.running')", SOON);
    let cells = "document.querySelectorAll('.partition-grid .cells .cell').length";
    assert_eq!(browser.run(&format!("return {cells}")), 6);
    click(&browser, "Explain");
    shows(&browser, "worker host0_9876");
    let task = here.cluster.json(&["list"])[0].clone();
    assert_eq!(
        (&task["budget"], &task["retries"], &task["timeout_ms"]),
        (&json!(6), &json!(7), &json!(540_000)),
        "{task}"
    );
    here.allow("go");
    shows(&browser, "1 failed");
    shows(&browser, "No task runs");
    let row = "document.querySelector('tbody tr[tabindex]')";
    browser.wait_for("the row of the task", row, SOON);
    browser.run(&format!("{row}.click()"));
    shows(&browser, "p00001 at host0_9876");
    here.allow("well");
    click(&browser, "Retry failed");
    shows(&browser, "6 done, 0 failed");
    let id = here.cluster.json(&["list"])[0]["task"].as_str().unwrap().to_owned();
    assert_eq!(here.cluster.end(&id)["succeeded"], 6);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn all_failures_of_a_task_are_shown() {
    let here = setting(1, &[]);
    here.allow("badly");
    here.allow("go");
    let id = here.cluster.submit(&["shop", "public", "orders"]);
    assert_eq!(here.cluster.end(&id)["failed"], 6);
    let page = here.console.get(&format!("compaction/failures?id={id}")).json();
    let failed =
        page["items"].as_array().unwrap().iter().map(|failure| failure["partition"].as_str().unwrap());
    let mut failed: Vec<&str> = failed.collect();
    failed.sort_unstable();
    assert!(failed.len() == 6 && page["next"].is_null(), "{page}");
    assert!(failed.iter().enumerate().all(|(n, name)| name.ends_with(&format!("p{n:05}"))), "{page}");
    let gone = here.console.get("compaction/failures?id=aaaaffff.16176931.56000000.0");
    assert!(gone.status == 404 && gone.body.contains("history"), "{}", gone.body);

    let browser = opened(&here.console, &format!("/compaction?task={id}"));
    shows(&browser, "All 6 failures");
    let shown = "[...document.querySelectorAll('details summary')].filter((one) => one.innerText.includes('exit code 4')).length";
    assert_eq!(browser.run(&format!("return {shown}")), 5);
    click(&browser, "All 6 failures");
    browser.wait_for("the sixth failure", &format!("{shown} === 6"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn manager_and_waiting_subtask_are_reassigned() {
    // Each unit runs one partition, so some wait.
    let here = setting(2, &[("ALLOT_COMPACTION_SLOTS", "1")]);
    let id = here.act("submit", &json!({"db": "shop", "schema": "public", "table": "orders", "priority": 3}));
    let id = id.as_str().unwrap();
    let task = || here.cluster.json(&["get", id]);
    assert_eq!(task()["priority"], 3);
    let manager = task()["manager"].as_str().unwrap().to_owned();
    let other = if manager == "host0_9876" { "host1_9876" } else { "host0_9876" };
    assert_eq!(here.act("reassign", &json!({"id": id, "to": other})), other);
    assert_eq!(task()["manager"], other);
    assert_eq!(here.act("reassign", &json!({"id": id})), manager.as_str());
    let refused = here.console.act("compaction/reassign", &json!({"id": id, "to": "nobody"}));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("refused")));
    let same =
        here.console.act("compaction/submit", &json!({"db": "shop", "schema": "public", "table": "orders"}));
    assert_eq!(same.status, 409, "{}", same.body);
    let odd = json!({"db": "a", "schema": "b", "table": "c", "window": "late"});
    let odd = here.console.act("compaction/submit", &odd);
    assert_eq!(odd.status, 400, "{}", odd.body);
    let zoned = json!({"db": "a", "schema": "b", "table": "c", "time_zone": "Europe/Berlin"});
    let zoned = here.console.act("compaction/submit", &zoned);
    assert!(zoned.status == 400 && zoned.body.contains("`cron` or `window`"), "{}", zoned.body);
    let unknown = json!({"db": "a", "schema": "b", "table": "c", "retrys": 3});
    let unknown = here.console.act("compaction/submit", &unknown);
    assert!(unknown.status == 422 && unknown.body.contains("retrys"), "{}", unknown.body);
    assert_eq!(here.console.act("compaction/retry", &json!({"id": id})).status, 409);
    // A waiting partition moves to the other unit.
    let mut waiting = None;
    eventually("a waiting subtask", SOON, || {
        let subtasks = task()["subtasks"].clone();
        let subtasks = subtasks.as_array().unwrap();
        let (begun, rest): (Vec<_>, Vec<_>) = subtasks.iter().partition(|sub| sub["state"] != "Init");
        // Until all slots are taken, a subtask that waits may begin at any moment.
        waiting = rest.first().map(|sub| (*sub).clone()).filter(|_| begun.len() == 2);
        waiting.is_some()
    });
    let waiting = waiting.unwrap();
    let sub = waiting["subtask"].as_str().unwrap();
    let to = here.act("reassign", &json!({"id": sub}));
    assert_ne!(to, waiting["worker"]);
    here.allow("well");
    here.allow("go");
    assert_eq!(here.cluster.end(id)["succeeded"], 6);
    let why = here.console.get(&format!("compaction/explain?id={id}")).json();
    assert!(why[0].as_str().unwrap().contains("has ended"), "{why}");
}

#[test]
fn drained_unit_takes_no_more_subtasks() {
    let here = setting(1, &[("ALLOT_COMPACTION_SLOTS", "1")]);
    let id = here.cluster.submit(&["shop", "public", "orders"]);
    eventually("a subtask to run", SOON, || here.cluster.json(&["get", &id])["running"] == 1);
    let browser = opened(&here.console, "/compaction");
    click(&browser, "Drain");
    shows(&browser, "drained");
    assert_eq!(here.cluster.nodes()[0]["state"], "drained");
    click(&browser, "Undrain");
    eventually("the unit to take subtasks", SOON, || here.cluster.nodes()[0]["state"] == "present");
    let unknown = here.console.act("compaction/drain", &json!({"node": "nobody", "drained": true}));
    assert_eq!((unknown.status, unknown.json()["code"].as_str()), (409, Some("refused")));
    here.allow("well");
    here.allow("go");
    assert_eq!(here.cluster.end(&id)["succeeded"], 6);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn options_of_an_unfinished_task_are_changed() {
    let here = setting(1, &[]);
    let id = here.cluster.submit(&["shop", "public", "orders"]);
    let task = || here.cluster.json(&["get", &id]).clone();
    let all = json!({
        "id": id, "priority": -4, "limit": 2, "window": "01:00-04:00", "time_zone": "Europe/Berlin", "timeout": "9m",
        "retries": 5,
    });
    let changed = here.act("set", &all);
    for (now, timeout) in [(changed, ("timeout", json!(540))), (task(), ("timeout_ms", json!(540_000)))] {
        for (option, value) in [
            ("priority", json!(-4)),
            ("limit", json!(2)),
            ("window", json!("01:00-04:00 Europe/Berlin")),
            timeout.clone(),
            ("retries", json!(5)),
        ] {
            assert_eq!(now[option], value, "{option} of {now}");
        }
    }
    here.act("set", &json!({"id": id, "window": "any"}));
    assert!(task()["window"].is_null() && task()["limit"] == 2, "{}", task());

    for (odd, why) in [
        (json!({"id": id}), "give `priority`"),
        (json!({"id": id, "limit": 1_000_001}), "1000000"),
        (json!({"id": id, "window": "late"}), "22:00-06:00"),
        (json!({"id": id, "time_zone": "Europe/Berlin"}), "`window`"),
        (json!({"id": id, "timeout": "1500ms"}), "whole seconds"),
        (json!({"id": "--priority=9", "limit": 1}), "aaaaffff"),
    ] {
        let refused = here.console.act("compaction/set", &odd);
        assert!(refused.status == 400 && refused.body.contains(why), "{odd}: {}", refused.body);
    }
    let unknown = here.console.act("compaction/set", &json!({"id": id, "retrys": 3}));
    assert!(unknown.status == 422 && unknown.body.contains("retrys"), "{}", unknown.body);
    let absent = json!({"id": "aaaaffff.16176931.56000000.0", "limit": 1});
    let absent = here.console.act("compaction/set", &absent);
    assert!(absent.status == 409 && absent.body.contains("does not exist"), "{}", absent.body);
    assert_eq!((&task()["priority"], &task()["limit"]), (&json!(-4), &json!(2)));

    let browser = opened(&here.console, "/compaction");
    shows(&browser, "priority -4");
    fill(&browser, "priority", "8");
    fill(&browser, "timeout", "3m");
    click(&browser, "Change");
    shows(&browser, "priority 8");
    assert_eq!((&task()["priority"], &task()["timeout_ms"]), (&json!(8), &json!(180_000)));
    assert_eq!(browser.errors(), Vec::<String>::new());
    here.allow("well");
    here.allow("go");
    assert_eq!(here.cluster.end(&id)["succeeded"], 6);
    let over = here.console.act("compaction/set", &json!({"id": id, "limit": 1}));
    assert!(over.status == 409 && over.body.contains("has ended"), "{}", over.body);
}

#[test]
fn history_is_paged_and_has_packed_tasks() {
    let packs = [("ALLOT_COMPACTION_COMPRESS_AFTER", "1s"), ("ALLOT_COMPACTION_EVERY", "1s")];
    let here = setting(1, &packs);
    here.allow("well");
    here.allow("go");
    let ids: Vec<String> = (0..3)
        .map(|at| {
            let id = here.cluster.submit(&["shop", "public", &format!("t{at}")]);
            eventually("the task to be packed", SOON, || here.cluster.json(&["list"]) == json!([]));
            id
        })
        .collect();
    let (mut found, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let path = cursor.map_or(String::new(), |cursor| format!("?cursor={cursor}"));
        let page = here.console.get(&format!("compaction/history{path}")).json();
        let items = page["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{page}");
        found.extend(items.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    found.reverse();
    assert_eq!(found, ids);
    assert_eq!(here.console.get("compaction/history?cursor=pack:../x").status, 400);
    let page = here.console.get("compaction/history?schema=public&table=t1&from=1h").json();
    assert_eq!(
        (&page["items"][0]["id"], page["items"].as_array().unwrap().len()),
        (&json!(ids[1]), 1),
        "{page}"
    );
    assert_eq!(page["items"][0]["kind"], "task");
    let wrong = here.console.get("compaction/history?state=lost");
    assert!(wrong.status == 400 && wrong.body.contains("done or cancel"), "{}", wrong.body);
}

#[test]
fn history_on_the_page_has_rounds_and_is_narrowed() {
    let here = setting(1, &[]);
    here.allow("well");
    here.allow("go");
    let other = here.cluster.submit(&["shop", "public", "orders"]);
    let repeated = here.cluster.submit(&["shop", "public", "nightly", "--every", "1s", "--repeat", "2"]);
    for id in [&other, &repeated] {
        assert_eq!(here.cluster.end(id)["state"], "Done");
    }
    let browser = opened(&here.console, "/compaction");
    let rows =
        "[...document.querySelectorAll('[aria-label=\"Table: Tasks and rounds that have ended\"] tbody tr')]";
    let rounds = format!("{rows}.map((row) => row.cells[1]?.textContent.trim()).join()");
    browser.wait_for("two tasks and two rounds", &format!("{rounds} === '–,2,1,–'"), SOON);
    fill(&browser, "history-table", "nightly");
    click(&browser, "Find");
    browser.wait_for("one task and its rounds", &format!("{rounds} === '–,2,1'"), SOON);
    browser.run(&format!("{rows}[2].click()"));
    shows(&browser, &format!("Round 1 of task {repeated}"));
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn schedule_is_listed_with_its_rounds_and_changed() {
    let here = setting(1, &[]);
    let id = here.cluster.submit(&["shop", "public", "nightly", "--every", "1h", "--repeat", "9"]);
    let browser = opened(&here.console, "/compaction");
    shows(&browser, "1 h 0 min after the round before");
    let cells = |table: &str| {
        format!(
            "[...document.querySelectorAll('[aria-label=\"Table: {table}\"] tbody tr')][0]?.innerText
            .split(/\\s*\\t\\s*/)"
        )
    };
    let schedule = cells("Repeated tasks");
    browser.wait_for(
        "the running round",
        &format!("/^runs for .*, rest unknown$/.test(({schedule})?.[2])"),
        SOON,
    );
    here.allow("go");
    browser.wait_for("the end of the round", &format!("({schedule})?.[3] === '1 of 9'"), SOON);
    browser.run("document.querySelector('[aria-label=\"Table: Repeated tasks\"] tbody tr').click()");
    let round = cells("Rounds of the task");
    browser.wait_for("the round", &format!("({round})?.slice(0, 4).join() === '1,Done,5,1'"), SOON);
    browser.run("document.querySelector('[aria-label=\"Table: Rounds of the task\"] tbody tr').click()");
    shows(&browser, "p00001 at host0_9876");
    browser.run(
        "const form = document.querySelector('[aria-label=Schedules] .submit'); form.open = true;
        for (const [name, text] of [['every', '2h'], ['repeat', '5']]) {
            const input = form.querySelector(`input[name=${name}]`);
            input.value = text; input.dispatchEvent(new Event('input', {bubbles: true}));
        }",
    );
    let button = "[...document.querySelectorAll('[aria-label=Schedules] button')].find((one) =>
        one.textContent === 'Change' && !one.disabled)";
    browser.wait_for("the button", button, SOON);
    browser.run(&format!("({button}).click()"));
    answer(&browser, "");
    browser.wait_for(
        "the change",
        &format!(
            "({schedule})?.[1].startsWith('2 h 0 min after') &&
        ({schedule})?.[3] === '1 of 5'"
        ),
        SOON,
    );
    let task = here.cluster.json(&["get", &id]).clone();
    assert!(task.to_string().contains("7200"), "{task}");
    // A third of the partitions took a minute.
    let timing = "return import('/pages/schedules.js').then(({ timing }) => timing({round_runs: true,
        round_started: 1000, done: 1, failed: 1, stopped: 0, all: 6}, 61000))";
    assert_eq!(browser.run(timing), "for 1 min, about 2 min left");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn leader_of_compaction_is_on_the_overview_with_its_term() {
    let here = setting(1, &[]);
    let browser = opened(&here.console, "/");
    shows(&browser, "host0_9876");
    shows(&browser, "term 1");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn every_option_of_the_command_can_be_submitted() {
    let here = setting(1, &[]);
    let document = here.console.get("openapi.json").json();
    let fields = document["components"]["schemas"]["Submission"]["properties"].clone();
    let help = here.cluster.run(&["submit", "--help"]).ok().out;
    for field in fields.as_object().unwrap().keys() {
        let is_known = match field.as_str() {
            "db" | "schema" | "table" => true,
            "partitions" => help.contains("--partition "),
            option => help.contains(&format!("--{}", option.replace('_', "-"))),
        };
        assert!(is_known, "{field} is no option of\n{help}");
    }
    let wanted = json!({
        "db": "shop", "schema": "public", "table": "orders", "cron": "0 2 1 1 *", "time_zone": "Europe/Berlin",
        "window": "01:00-04:00", "repeat": 3, "min_score": 0.5, "budget": 7, "timeout": "30m", "node": "host0_9876",
        "retries": 2, "retry_failed": 4, "retry_delay": "5m", "queue": true, "priority": -9, "limit": 5,
    });
    let id = here.act("submit", &wanted);
    let task = here.cluster.json(&["get", id.as_str().unwrap()]).clone();
    for (path, value) in [
        ("/schedule", json!("0 2 1 1 * Europe/Berlin")),
        ("/rounds", json!(3)),
        ("/min_score", json!(0.5)),
        ("/budget", json!(7)),
        ("/timeout_ms", json!(1_800_000)),
        ("/retries", json!(2)),
        ("/retry_failed", json!(4)),
        ("/retry_delay_ms", json!(300_000)),
        ("/priority", json!(-9)),
        ("/limit", json!(5)),
    ] {
        assert_eq!(task.pointer(path), Some(&value), "{path} of {task}");
    }
    let other = json!({"db": "shop", "schema": "public", "table": "other", "every": "1h", "repeat": 0, "partitions": ["p1"]});
    let id = here.act("submit", &other);
    let task = here.cluster.json(&["get", id.as_str().unwrap()]).clone();
    assert_eq!((&task["partitions"], &task["every_ms"]), (&json!(["p1"]), &json!(3_600_000)), "{task}");
    let later = json!({"db": "shop", "schema": "public", "table": "later", "after": "shop.public.other"});
    let follower = here.act("submit", &later);
    assert_eq!(here.cluster.json(&["get", follower.as_str().unwrap()])["follows"], id);
}

#[test]
fn unit_that_cannot_run_runners_says_why_and_until_when() {
    let here = setting(1, &[]);
    let runner = here.home.path().join("runner");
    let kept = fs::read(&runner).unwrap();
    fs::remove_file(&runner).unwrap();
    let id = here.cluster.submit(&["shop", "public", "orders"]);
    let browser = opened(&here.console, "/compaction");
    shows(&browser, "cannot run runners");
    let tile = "document.querySelector('.units .unit').innerText";
    browser.wait_for("the reason", &format!("{tile}.includes('runner')"), SOON);
    browser.wait_for(
        "the end",
        &format!("/It starts nothing until \\d\\d:\\d\\d:\\d\\d/.test({tile})"),
        SOON,
    );
    script_again(&runner, &kept);
    here.allow("well");
    here.allow("go");
    browser.wait_for("the unit to run", &format!("!{tile}.includes('cannot run')"), SOON * 3);
    assert_eq!(here.cluster.end(&id)["succeeded"], 6);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

/// Writes a program again.
fn script_again(path: &Path, text: &[u8]) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn unit_that_is_away_is_drained_before_it_comes_back() {
    let here = setting(2, &[]);
    let id = here.cluster.submit(&["shop", "public", "orders"]);
    here.allow("well");
    here.allow("go");
    assert_eq!(here.cluster.end(&id)["succeeded"], 6);
    let unit = &here.cluster.units[1];
    unit.kill9();
    let browser = opened(&here.console, "/compaction");
    let away = "document.querySelector('[aria-label=\"Units that are away\"]')";
    browser.wait_for("the unit to be away", &format!("{away}?.innerText.includes('host1_9876')"), SOON);
    browser.run(&format!("{away}.querySelector('button').click()"));
    answer(&browser, "");
    browser.wait_for("the drain", &format!("{away}?.innerText.includes('drained')"), SOON);
    unit.start();
    eventually("the unit to be back", SOON, || {
        let nodes = here.cluster.nodes();
        nodes
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["node"] == "host1_9876" && node["state"] == "drained")
    });
    browser.wait_for("no unit to be away", &format!("!{away}"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}
