//! Who did what: operators have names, by tokens or by a proxy, and their actions are kept.

use std::fs;
use std::thread;

use allot_tests::consoles::{ACTION, Console};
use allot_tests::http::{Answer, request};
use allot_tests::shows::{create, sample_venue};
use allot_tests::{RedisServer, eventually};
use serde_json::{Value, json};

use crate::SOON;
use crate::actions::{TEXT, answer, opened, shows};

const ANN: &str = "token-of-ann-in-the-test";

#[test]
fn action_is_kept_with_the_name_of_its_operator() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 4));
    let dir = tempfile::tempdir().unwrap();
    let file = server.dir().join("operators");
    fs::write(&file, format!("bob token-of-bob-in-the-test\nann {ANN}\n")).unwrap();
    let start = || {
        let (file, dir) = (file.to_str().unwrap(), dir.path().to_str().unwrap());
        Console::start(&server, &["--console-operators-file", file, "--console-data-dir", dir])
    };
    let console = start();
    // Without a token people may look, since there is no token for that.
    let browser = opened(&console, "/show?key=show:1&seat=a-1-3");
    browser.wait_for("the seat", "document.querySelector('.records li')", SOON);
    let log_in = format!(
        "return fetch('/api/v1/session', {{method: 'POST', body: JSON.stringify({{token: {ANN:?}}}),
        headers: {{'content-type': 'application/json', 'x-allot-request': '1'}}}})
        .then((answer) => answer.json()).then((session) => [session.access, session.user])"
    );
    assert_eq!(browser.run(&log_in), json!(["operator", "ann"]));
    browser.go(&console.address("/show?key=show:1&seat=a-1-3"));
    let button =
        "[...document.querySelectorAll('.acts button')].find((one) => one.textContent === 'Block 1')";
    browser.wait_for("the button", button, SOON);
    browser.run(&format!("({button}).click()"));
    answer(&browser, "");
    browser.wait_for(
        "the action to be done",
        "document.querySelector('.map').view.show.state.join('') === '1141'",
        SOON,
    );
    // What is refused is kept, too.
    let refused = browser.run(
        "return fetch('/api/v1/command', {method: 'POST',
        body: JSON.stringify({command: 'SEAT.RELEASE', key: 'show:1', arguments: ['nothing']}),
        headers: {'content-type': 'application/json', 'x-allot-request': '1'}}).then((answer) => answer.status)",
    );
    assert_eq!(refused, 404);
    let rows = "[...document.querySelectorAll('main tbody tr')].map((row) => [...row.cells].slice(1, 5)
        .map((cell) => cell.innerText.trim()).join('|')).join('\\n')";
    let wanted = "ann|SEAT.RELEASE|show:1 nothing|NOTFOUND\\nann|SEAT.BLOCK|show:1 1 a-1-3|done";
    browser.go(&console.address("/actions"));
    browser.wait_for("both actions", &format!("{rows} === '{wanted}'"), SOON);
    let navigation = browser.run("return document.querySelector('nav').innerText");
    assert!(navigation.as_str().unwrap().contains("Log out (ann)"), "{navigation}");
    assert_eq!(browser.errors().len(), 1, "the browser logs the answer 404");
    console.process.terminate();
    let console = start();
    browser.go(&console.address("/actions?actions.find=release"));
    shows(&browser, "SEAT.RELEASE");
    assert_eq!(browser.run(&format!("return {TEXT}.includes('SEAT.BLOCK')")), false);
    let log = console.process.log();
    assert!(!log.contains(ANN), "{log}");
}

#[test]
fn proxy_names_the_users_and_the_console_says_who_may_act() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 4));
    let console = Console::start(
        &server,
        &[
            "--console-proxies",
            "127.0.0.1",
            "--console-user-header",
            "X-User",
            "--console-operators",
            "ann,cid",
        ],
    );
    let as_user = |user: &str, what: &str, body: &str| -> Answer {
        let named = [("X-User", user), ACTION, ("Content-Type", "application/json")];
        request(console.port, what, if user.is_empty() { &named[1..] } else { &named }, body)
    };
    let block = r#"{"command": "SEAT.BLOCK", "key": "show:1", "arguments": [1, "a-1-2"]}"#;
    for (user, look, act) in [("", 401, 401), ("bob", 200, 403), ("ann", 200, 200)] {
        assert_eq!(as_user(user, "GET /api/v1/keys", "").status, look, "{user}");
        assert_eq!(as_user(user, "POST /api/v1/command", block).status, act, "{user}");
    }
    let session = as_user("ann", "GET /api/v1/session", "").json();
    assert_eq!(session, json!({"access": "operator", "user": "ann", "tokens": false}));
    let actions = as_user("bob", "GET /api/v1/actions", "").json();
    let whos: Vec<(&Value, &Value)> =
        actions.as_array().unwrap().iter().map(|one| (&one["user"], &one["action"])).collect();
    assert_eq!(whos, [(&json!("ann"), &json!("SEAT.BLOCK"))]);
}

#[test]
fn action_that_runs_at_the_end_of_the_console_is_kept() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 4));
    for (answers, outcome) in [(true, "done"), (false, "unknown")] {
        let dir = tempfile::tempdir().unwrap();
        let console = Console::start(&server, &["--console-data-dir", dir.path().to_str().unwrap()]);
        let log_has = |text: &str| eventually(text, SOON, || console.process.log().contains(text));
        // Redis answers no write.
        server.command("CLIENT PAUSE 600000 WRITE");
        thread::scope(|scope| {
            let (port, body) = (
                console.port,
                json!({"command": "SEAT.BLOCK", "key": "show:1",
                "arguments": [1, if answers { "a-1-1" } else { "a-1-2" }]}),
            );
            let headers = [ACTION, ("Content-Type", "application/json")];
            // Nobody reads the answer if the console has gone.
            scope.spawn(move || {
                std::panic::catch_unwind(|| {
                    request(port, "POST /api/v1/command", &headers, &body.to_string())
                })
            });
            log_has("operator's action begins");
            let ended = scope.spawn(|| console.process.terminate());
            log_has("handing over");
            if answers {
                server.command("CLIENT UNPAUSE");
            }
            ended.join().unwrap();
        });
        server.command("CLIENT UNPAUSE");
        let kept = fs::read_to_string(dir.path().join("actions")).unwrap();
        let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!((&kept[0]["action"], &kept[0]["outcome"]), (&json!("SEAT.BLOCK"), &json!(outcome)));
    }
}
