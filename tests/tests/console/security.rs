//! Who may call the console, and from where.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use allot_tests::browser::Browser;
use allot_tests::consoles::{ACTION, Console};
use allot_tests::daemon::run;
use allot_tests::http::request;
use allot_tests::module::repository;
use allot_tests::shows::{THEATRE, create};
use allot_tests::{RedisServer, eventually};
use serde_json::json;

use crate::SOON;

const VIEWER: &str = "viewer-token-of-the-test";
const OPERATOR: &str = "operator-token-of-the-test";

/// An action: a seat is taken off sale.
const BLOCK: &str = r#"{"command": "SEAT.BLOCK", "key": "show:1", "arguments": ["1", "left-A-1"]}"#;

/// A console with both tokens.
fn with_tokens(server: &RedisServer) -> Console {
    let [viewer, operator] = [("viewer", VIEWER), ("operator", OPERATOR)].map(|(name, token)| {
        let file = server.dir().join(name);
        fs::write(&file, format!("{token}\n")).unwrap();
        file.to_str().unwrap().to_owned()
    });
    Console::start(
        server,
        &["--console-viewer-token-file", &viewer, "--console-operator-token-file", &operator],
    )
}

/// The first row of the area `left`, as the map draws it.
fn first_row(server: &RedisServer) -> String {
    server.raw().call(&["SEAT.MAP", "show:1", "left"]).array()[0].array()[1].text()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[test]
fn nothing_is_read_without_a_token() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    let console = with_tokens(&server);
    for path in
        ["keys", "show/map?key=show:1", "events?topics=[%22show:1%22]", "openapi.json", "compaction/history"]
    {
        let answer = console.get(path);
        assert_eq!((answer.status, answer.json()["code"].as_str()), (401, Some("no-token")), "{path}");
    }
    // The page itself, with which people log in, is for everybody.
    assert_eq!(request(console.port, "GET /", &[], "").status, 200);
    assert_eq!(console.get("session").json()["access"], "none");
    for wrong in ["", "viewer-token-of-the-tes", "Viewer-token-of-the-test"] {
        let answer = console.act("session", &json!({"token": wrong}));
        assert_eq!(answer.status, 401, "{wrong}");
        assert_eq!(answer.header("set-cookie"), "");
    }
}

#[test]
fn viewer_looks_and_operator_acts() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    let console = with_tokens(&server);
    let body = BLOCK.to_string();
    let act = |token: &str| {
        let authorization = bearer(token);
        let headers =
            [ACTION, ("Content-Type", "application/json"), ("Authorization", authorization.as_str())];
        request(console.port, "POST /api/v1/command", &headers, &body)
    };
    let look = [("Authorization", bearer(VIEWER))];
    let look: Vec<(&str, &str)> = look.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(request(console.port, "GET /api/v1/show/map?key=show:1", &look, "").status, 200);
    let refused = act(VIEWER);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("viewer")));
    assert_eq!(first_row(&server), "...... ......");
    assert_eq!(act(OPERATOR).status, 200);
    assert_eq!(first_row(&server), "x..... ......");
    let log = console.process.log();
    assert!(log.contains("SEAT.BLOCK") && log.contains("left-A-1"), "{log}");
    assert!(!log.contains(OPERATOR) && !log.contains(VIEWER), "{log}");
}

#[test]
fn page_of_a_viewer_has_no_buttons_that_act() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    let console = with_tokens(&server);
    let browser = Browser::start();
    for (token, buttons) in [(VIEWER, "0"), (OPERATOR, "1")] {
        browser.go(&console.address("/show?key=show:1&seat=left-A-1"));
        browser.wait_for("the form", "document.querySelector('.login')", SOON);
        browser.run(&format!(
            "document.querySelector('.login input').value = '{token}';
            document.querySelector('.login').requestSubmit()"
        ));
        browser.wait_for("the map", "document.querySelector('.map')?.view?.show", SOON);
        browser.wait_for("the seat", "document.querySelector('.records li')", SOON);
        let count = "[...document.querySelectorAll('.acts button')].filter((one) => one.textContent.startsWith('Block')).length";
        browser.wait_for(&format!("{buttons} buttons of {token}"), &format!("{count} == {buttons}"), SOON);
        // What a viewer's page does not offer is refused, too.
        let status = browser.run(
            &format!("return fetch('/api/v1/command', {{method: 'POST', body: JSON.stringify({BLOCK}),
            headers: {{'content-type': 'application/json', 'x-allot-request': '1'}}}}).then((answer) => answer.status)"),
        );
        assert_eq!(status, if token == VIEWER { 403 } else { 200 });
        let leave = "[...document.querySelectorAll('nav button')].find((one) => one.textContent.startsWith('Log out'))";
        browser.run(&format!("{leave}.click()"));
    }
    assert_eq!(first_row(&server), "x..... ......");
}

#[test]
fn token_is_exchanged_for_a_cookie_that_scripts_cannot_read() {
    let server = RedisServer::start();
    let console = with_tokens(&server);
    let answer = console.act("session", &json!({"token": VIEWER}));
    assert_eq!((answer.status, answer.json()["access"].as_str()), (200, Some("viewer")));
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let with = |cookie: &str| request(console.port, "GET /api/v1/keys", &[("Cookie", cookie)], "").status;
    assert_eq!(with(pair), 200);
    assert_eq!(with(&format!("{pair}0")), 401);
    let headers = [ACTION, ("Cookie", pair)];
    assert_eq!(request(console.port, "DELETE /api/v1/session", &headers, "").status, 200);
    assert_eq!(with(pair), 401);
}

#[test]
fn another_site_can_neither_read_nor_act() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    let console = Console::start(&server, &[]);
    let map = "GET /api/v1/show/map?key=show:1";
    let with = |headers: &[(&str, &str)]| request(console.port, map, headers, "");
    assert_eq!(with(&[]).status, 200);
    // A name of another site that leads to this address.
    assert_eq!(with(&[("Host", "evil.example")]).json()["code"], "wrong-host");
    assert_eq!(with(&[("Host", "127.0.0.1:1")]).status, 403);
    assert_eq!(with(&[("Origin", "http://evil.example")]).json()["code"], "wrong-origin");
    assert_eq!(with(&[("Origin", "null")]).status, 403);
    assert_eq!(with(&[("Origin", &console.address(""))]).status, 200);
    let localhost = format!("localhost:{}", console.port);
    assert_eq!(with(&[("Host", &localhost)]).status, 200);
    // A form can send neither this header nor this type of body.
    let json_body = [("Content-Type", "application/json")];
    let answer = request(console.port, "POST /api/v1/command", &json_body, BLOCK);
    assert_eq!((answer.status, answer.json()["code"].as_str()), (403, Some("no-request-header")));
}

#[test]
fn every_answer_has_the_headers_that_protect_it() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    for path in ["/", "/app.js", "/api/v1/keys", "/api/v1/nothing", "/nothing.js"] {
        let answer = request(console.port, &format!("GET {path}"), &[], "");
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
    }
}

#[test]
fn open_address_without_tokens_is_refused_at_the_start() {
    let server = RedisServer::start();
    let refused = run(&server, &["console", "--console-listen", "0.0.0.0:0"]).ended(3);
    assert!(refused.err.contains("viewer-token-file"), "{}", refused.err);
}

#[test]
fn slow_requests_keep_nobody_from_logging_in() {
    let server = RedisServer::start();
    let console = with_tokens(&server);
    // Each announces a body, and sends a byte of it.
    let slow: Vec<TcpStream> = (0..250)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", console.port)).unwrap();
            let head = format!(
                "POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Allot-Request: 1\r\n\
                 Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
                console.port
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(console.act("session", &json!({"token": VIEWER})).status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // A body that does not come in time is refused, with the reason.
    let mut first = slow.into_iter().next().unwrap();
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("too-slow"), "{answer}");
}

#[test]
fn one_address_cannot_take_all_connections() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let many: Vec<TcpStream> =
        (0..400).map(|_| TcpStream::connect(("127.0.0.1", console.port)).unwrap()).collect();
    eventually("the connections beyond 256 to be closed", SOON, || {
        let is_closed = |mut stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            stream.read(&mut [0]).is_ok_and(|read| read == 0)
        };
        many.iter().filter(|stream| is_closed(stream)).count() == 400 - 256
    });
    drop(many);
    eventually("the address to have places again", SOON, || {
        TcpStream::connect(("127.0.0.1", console.port)).is_ok_and(|mut stream| {
            let head = format!("GET /api/v1/session HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n", console.port);
            let mut answer = String::new();
            stream.write_all(head.as_bytes()).is_ok()
                && stream.read_to_string(&mut answer).is_ok()
                && answer.contains(" 200 ")
        })
    });
}

#[test]
fn large_body_is_refused() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let seats: Vec<String> = (0..400_000).map(|at| format!("seat-{at}")).collect();
    let long = json!({"command": "SEAT.BLOCK", "key": "k", "arguments": seats});
    assert_eq!(console.act("command", &long).status, 413);
}

/// A table that changes all that an import can change: a new module, a new account, one that moves and one that goes.
const TABLE: &str =
    "department,module,account,quota\nfinance,billing,,\nfinance,mail,p1,100\nfinance,mail,p3,5\n";

#[test]
fn redis_users_of_the_document_suffice() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    for line in [
        "CONF.REALM {allot}:conf",
        "CMU.JOIN {allot}:conf u1 CAPACITY 5 LEASE 600000",
        "CONF.CREATE {allot}:conf 4930",
        "NUMPOOL.ADD {sales}:pool 1001",
        "NUMPOOL.REG {sales}:pool 1001 SWITCH east",
        "NUMPOOL.CALL {sales}:pool TTL 600000 LEASE call-1",
        "ACCOUNT.BOOK {allot}:accounts",
        "ACCOUNT.MODULE {allot}:accounts billing DEPARTMENT finance INSTANCES 1",
        "ACCOUNT.ADD {allot}:accounts billing QUOTA 100 ACCOUNTS 2 p1 p2",
    ] {
        server.command(line);
    }
    let document = fs::read_to_string(repository().join("docs/console.md")).unwrap();
    let rules: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("> ACL SETUSER ")).collect();
    assert_eq!(rules.len(), 2);
    for rule in rules {
        server.raw().call(&[&["ACL", "SETUSER"], &rule.split(' ').collect::<Vec<_>>()[..]].concat());
    }
    let password = server.dir().join("password");
    fs::write(&password, "change-me\n").unwrap();
    let password = password.to_str().unwrap();
    let console = Console::start(
        &server,
        &[
            "--console-viewer-user",
            "viewer",
            "--console-viewer-password-file",
            password,
            "--console-operator-user",
            "operator",
            "--console-operator-password-file",
            password,
        ],
    );
    for key in ["overview", "show:1", "{allot}:conf", "{sales}:pool", "{allot}:accounts"] {
        let mut events = console.events(&key.replace('{', "%7B").replace('}', "%7D"));
        // A refusal of Redis would come as `trouble`, and no state.
        events.next(if key == "show:1" { "sync" } else { "state" });
    }
    for path in [
        "keys",
        "show/map?key=show:1",
        "show/seats?key=show:1&seats=%5B%22left-A-1%22%5D",
        "realm/plan?key=%7Ballot%7D:conf&down=u1",
    ] {
        let answer = console.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    for line in [
        "SEAT.HOLDS show:1 ann",
        "SEAT.LIST show:1 WAITING",
        "CONF.LIST {allot}:conf",
        "NUMPOOL.LEASES {sales}:pool",
        "ACCOUNT.LIST {allot}:accounts",
        "SEAT.PICK show:1 ann TTL 60000 SEATS 1 left-A-1",
        "SEAT.BLOCK show:1 1 left-A-2",
        "SEAT.UNBLOCK show:1 1 left-A-2",
        "SEAT.WAIT show:1 bob 1 TTL 60000 OFFER 60000",
        "SEAT.PICK show:1 eve TTL 60000 TOKEN t SEATS 1 right-A-1",
        "SEAT.EXTEND show:1 t TTL 90000",
        "SEAT.CONFIRM show:1 t",
        "SEAT.MOVE show:1 1 right-A-1 right-A-2",
        "SEAT.TRANSFER show:1 dan SEATS 1 right-A-2",
        "CONF.EXTEND {allot}:conf 4930 END 99999999999999",
        "CMU.DRAIN {allot}:conf u1",
        "CMU.DRAIN {allot}:conf u1 OFF",
        "NUMPOOL.HANGUP {sales}:pool 1001 LEASE call-1",
        "NUMPOOL.RECONCILE {sales}:pool SWITCH east",
        "NUMPOOL.UNREG {sales}:pool SWITCH east",
        "NUMPOOL.SUSPEND {sales}:pool 1001",
        "NUMPOOL.RESUME {sales}:pool 1001",
        "ACCOUNT.FREEZE {allot}:accounts p1",
        "ACCOUNT.REBALANCE {allot}:accounts",
        "ACCOUNT.HISTORY {allot}:accounts p1",
        "ACCOUNT.RAISE {allot}:accounts 1",
        "ACCOUNT.MOVE {allot}:accounts billing 1 p2",
    ] {
        console.sent(&line.split(' ').collect::<Vec<_>>());
    }
    let import = json!({"key": "{allot}:accounts", "table": TABLE, "delete": true, "dry_run": false});
    let imported = console.act("book/import", &import);
    assert_eq!(imported.status, 200, "{}", imported.body);
    let modules = ["p1", "p3"]
        .map(|account| format!("{:?}", server.raw().call(&["ACCOUNT.INFO", "{allot}:accounts", account])));
    assert!(modules.iter().all(|account| account.contains("mail")), "{modules:?}");
    let clients = server.raw().call(&["CLIENT", "LIST"]).text();
    assert!(clients.contains("user=viewer") && clients.contains("user=operator"), "{clients}");
}
