//! Who may do what in Redis: the ACL rules of docs/deploy.md, and TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use allot_tests::daemon::command;
use allot_tests::module::repository;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Certificates, Process, RawClient, RedisServer, Reply, eventually};

/// The realm of the documentation.
const REALM: &str = "{allot}:conf";
const SECRET: &str = "a-secret-of-the-test";

/// The rules as the documentation has them, each with the test's secret.
fn rules() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(repository().join("docs/deploy.md")).unwrap();
    let lines = text.lines().map(str::trim);
    let mut rules: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        if let Some(rule) = line.strip_prefix("user ") {
            let words: Vec<String> =
                rule.split_whitespace().map(|word| word.replace("<secret>", SECRET)).collect();
            rules.push((words[0].clone(), words[1..].to_vec()));
        }
    }
    rules
}

fn with_rules(server: &RedisServer) {
    let mut client = server.raw();
    for (name, rule) in rules() {
        // A selector is one argument.
        let mut words = vec!["ACL".to_owned(), "SETUSER".to_owned(), name.clone()];
        let mut open = String::new();
        for word in rule {
            if word.starts_with('(') || !open.is_empty() {
                open = if open.is_empty() { word } else { format!("{open} {word}") };
                if open.ends_with(')') {
                    words.push(std::mem::take(&mut open));
                }
            } else {
                words.push(word);
            }
        }
        assert_eq!(client.call(&words), Reply::Simple("OK".into()), "{name}: {words:?}");
    }
}

fn login(server: &RedisServer, user: &str) -> RawClient {
    let mut client = server.raw();
    assert_eq!(client.call(&["AUTH", user, SECRET]), Reply::Simple("OK".into()), "{user}");
    client
}

fn daemon(server: &RedisServer, role: &str, user: &str) -> Process {
    let host = format!("127.0.0.1/{user}");
    let url = server.url();
    let process = Process::new(
        user,
        &[
            "--roles",
            role,
            "--redis-url",
            &url,
            "--redis-user",
            user,
            "--media-unit-host",
            &host,
            "--media-unit-chatter",
            "100ms",
        ],
    )
    .with("ALLOT_REDIS_PASSWORD", SECRET);
    process.start();
    process
}

#[test]
fn each_role_can_do_its_work_and_nothing_else() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    with_rules(&server);
    let mut admin = server.raw();
    admin.words(&format!("CONF.REALM {REALM}"));
    // Whose word on changes of owner is asked for.
    replica.replica_of(&server);
    let processes = [
        daemon(&server, "scheduler", "scheduler"),
        daemon(&server, "data-proxy", "proxy"),
        daemon(&server, "media-unit", "unit"),
    ];
    eventually("all to be ready", TIMEOUT, || processes.iter().all(Process::is_ready));

    let as_user = |user: &str, line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = command(&server, &arguments)
            .env("ALLOT_USER", user)
            .env("ALLOT_PASSWORD", SECRET)
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // The replica may be late; that it may be asked is what counts.
    let created = as_user("manager", "conference create 49 --request r");
    assert!(created.0 == 0 && !created.1.contains("NOPERM"), "{created:?}");
    let mut reader = login(&server, "reader");
    eventually("the conference to tell", TIMEOUT, || {
        !reader.words(&format!("CONF.GET {REALM} 49 chatter")).array()[0].is_null()
    });
    for line in ["conference list", "conference get 49", "unit list", "unit simulate-loss any"] {
        assert_eq!(as_user("reader", line), (0, String::new()), "{line}");
    }
    let released = as_user("manager", "conference end 49 --yes");
    assert!(released.0 == 0 && !released.1.contains("NOPERM"), "{released:?}");
    let file = server.dir().join("records.jsonl");
    let written = as_user("records", &format!("record collect --group records --output {}", file.display()));
    assert!(written.0 == 0 && !written.1.contains("NOPERM"), "{written:?}");
    let refused = as_user("reader", "conference create 50");
    assert!(refused.0 == 7 && refused.1.contains("ACL"), "{refused:?}");
    assert_eq!(as_user("nobody", "unit list").0, 7);
    // Recovery and goodbyes work as well.
    as_user("manager", "conference create 51");
    let mut client = login(&server, "reader");
    eventually("the conference to be open", TIMEOUT, || {
        client.words(&format!("CONF.INFO {REALM} 51")).field("state") == Reply::bulk("open")
    });
    assert!(processes[2].terminate().success());
    let unit = daemon(&server, "media-unit", "unit");
    eventually("it to be open on the unit that came", TIMEOUT, || {
        let record = client.words(&format!("CONF.INFO {REALM} 51"));
        record.field("state") == Reply::bulk("open")
            && record.field("cmu").text().contains(&format!(":{}:", unit.pid()))
    });
    // Given up for nothing it has it again by its report. When it has it the second time, it has asked the replica about
    // the first.
    assert!(processes[0].terminate().success());
    for _ in 0..2 {
        let cmu = client.words(&format!("CONF.INFO {REALM} 51")).field("cmu").text();
        admin.words(&format!("CMU.DOWN {REALM} {cmu}"));
        eventually("it to be open again", TIMEOUT, || {
            client.words(&format!("CONF.INFO {REALM} 51")).field("state") == Reply::bulk("open")
        });
    }
    for process in processes.iter().chain([&unit]) {
        assert!(!process.log().contains("NOPERM"), "{}", process.log());
    }
}

#[test]
fn users_of_a_book_can_do_their_work() {
    let server = RedisServer::start();
    with_rules(&server);
    let table = server.dir().join("accounts.csv");
    fs::write(&table, "department,module,account,quota,tiers\nd,m,a1,100,150:0.1\nd,m,a2,100,\n").unwrap();
    let as_accountant = |line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = command(&server, &arguments)
            .env("ALLOT_USER", "accountant")
            .env("ALLOT_PASSWORD", SECRET)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !errors.contains("NOPERM"), "{line}: {errors}");
    };
    as_accountant(&format!("book apply {} --book {{allot}}:accounts", table.display()));
    for line in [
        "book export --book {allot}:accounts",
        "book get {allot}:accounts",
        "account list --book {allot}:accounts",
        "redis ACCOUNT.BOOK {allot}:accounts CAP 1000",
        "redis ACCOUNT.MODULE {allot}:accounts m DEPARTMENT d INSTANCES 1 MIN 1",
        "redis ACCOUNT.MODULE {allot}:accounts empty DEPARTMENT d INSTANCES 1",
        "--yes redis ACCOUNT.DELMODULE {allot}:accounts empty",
        "redis ACCOUNT.DEPARTMENT {allot}:accounts d CAP 1000",
        "redis ACCOUNT.TARIFF {allot}:accounts QUOTA 200 ACCOUNTS 1 a2",
    ] {
        as_accountant(line);
    }
    // The leader of the role `accounts` attaches the instance.
    let mut leader = login(&server, "accounts");
    leader.words("ACCOUNT.ATTACH {allot}:accounts m i");
    let mut client = login(&server, "client");
    assert_eq!(client.words("ACCOUNT.PICK {allot}:accounts m i").array().len(), 1);
    let logged_in = client.words("ACCOUNT.LOGIN {allot}:accounts a1 i t TTL 60000");
    let epoch = logged_in.field("epoch").int();
    for line in [
        format!("ACCOUNT.RENEW {{allot}}:accounts a1 {epoch} TTL 60000"),
        format!("ACCOUNT.USE {{allot}}:accounts a1 {epoch}"),
        "ACCOUNT.INFO {allot}:accounts ACCOUNT a1".to_owned(),
        "WAIT 0 1".to_owned(),
        "ROLE".to_owned(),
        format!("ACCOUNT.LOGOUT {{allot}}:accounts a1 {epoch}"),
    ] {
        let reply = client.words(&line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
}

#[test]
fn forbidden_commands_of_a_role_are_refused() {
    let server = RedisServer::start();
    with_rules(&server);
    let mut admin = server.raw();
    admin.words(&format!("CONF.REALM {REALM}"));
    admin.words(&format!("XADD {REALM}:evt * a b"));
    let everybody = [
        "GET other",
        "SET other 1",
        "CONF.REALM {other}:conf",
        "FLUSHALL",
        "KEYS *",
        "CONFIG GET port",
        "ACL LIST",
        "DEL {allot}:conf",
        "RENAME {allot}:conf x",
        "CONF.APPLY {allot}:conf x",
        "XTRIM {allot}:conf:info MAXLEN 0",
    ];
    let tries: [(&str, &[&str]); 8] = [
        (
            "unit",
            &[
                "CONF.SET {allot}:conf 49 a:1:1 5 1 f v",
                "CONF.CREATE {allot}:conf 49",
                "CONF.RELEASE {allot}:conf 49",
                "CONF.TERM {allot}:conf 9 me",
                "CONF.RECOVER {allot}:conf",
                "CONF.RESTART {allot}:conf LIVE 0",
                "XADD {allot}:conf:evt * a b",
                "XADD {allot}:conf:cmd:a:1:1 * a b",
                "XREAD STREAMS {allot}:conf:info 0",
                "CONF.REALM {allot}:conf LICENCES 5",
            ],
        ),
        (
            "proxy",
            &[
                "CONF.CREATE {allot}:conf 49",
                "CONF.ACK {allot}:conf 49 a:1:1 5",
                "CMU.JOIN {allot}:conf a:1:1 CAPACITY 5",
                "CMU.DOWN {allot}:conf a:1:1",
                "CONF.TERM {allot}:conf 9 me",
                "XADD {allot}:conf:info * a b",
                "XREADGROUP GROUP g c STREAMS {allot}:conf:evt >",
                "XGROUP DESTROY {allot}:conf:info proxies",
            ],
        ),
        (
            "scheduler",
            &[
                "CONF.CREATE {allot}:conf 49",
                "CONF.SET {allot}:conf 49 a:1:1 5 1 f v",
                "CONF.ACK {allot}:conf 49 a:1:1 5",
                "CMU.JOIN {allot}:conf a:1:1 CAPACITY 5",
                "XADD {allot}:conf:cmd:a:1:1 * a b",
                "HSET other a b",
                "CONF.RELEASE {allot}:conf 49",
            ],
        ),
        (
            "accountant",
            &[
                "ACCOUNT.TERM {allot}:accounts 9 me",
                "ACCOUNT.LOGIN {allot}:accounts a i t TTL 1000",
                "ACCOUNT.ATTACH {allot}:accounts m i",
                "ACCOUNT.REPORT {allot}:accounts a 1 5",
                "ACCOUNT.BOOK {other}:accounts",
                "DEL {allot}:accounts",
            ],
        ),
        (
            "client",
            &[
                "ACCOUNT.TERM {allot}:accounts 9 me",
                "ACCOUNT.ADD {allot}:accounts m QUOTA 1 ACCOUNTS 1 a",
                "ACCOUNT.FREEZE {allot}:accounts a",
                "ACCOUNT.REBALANCE {allot}:accounts",
                "ACCOUNT.LIST {allot}:accounts",
                "ACCOUNT.LOGIN {other}:accounts a i t TTL 1000",
                "DEL {allot}:accounts",
            ],
        ),
        (
            "manager",
            &[
                "CONF.TERM {allot}:conf 9 me",
                "CMU.DOWN {allot}:conf a:1:1",
                "CONF.RECOVER {allot}:conf",
                "CONF.SET {allot}:conf 49 a:1:1 5 1 f v",
                "CONF.ACK {allot}:conf 49 a:1:1 5",
                "XADD {allot}:conf:evt * a b",
                "CONF.REALM {allot}:conf LICENCES 5",
            ],
        ),
        (
            "records",
            &[
                "CONF.CREATE {allot}:conf 49",
                "CONF.GET {allot}:conf 49",
                "XADD {allot}:conf:evt * a b",
                "XGROUP DESTROY {allot}:conf:evt records",
                "XREADGROUP GROUP g c STREAMS {allot}:conf:info >",
            ],
        ),
        (
            "reader",
            &[
                "CONF.CREATE {allot}:conf 49",
                "CONF.RELEASE {allot}:conf 49",
                "CONF.MOVE {allot}:conf 49",
                "CMU.ASK {allot}:conf LIST",
                "CMU.DRAIN {allot}:conf a:1:1",
                "XADD {allot}:conf:evt * a b",
                "HSET {allot}:conf:guard lift 1",
            ],
        ),
    ];
    for (user, more) in tries {
        let mut client = login(&server, user);
        for line in everybody.iter().chain(more) {
            let reply = client.words(line);
            let refused = matches!(&reply, Reply::Error(text) if text.starts_with("NOPERM"));
            assert!(refused, "{user}: {line}: {reply:?}");
        }
    }
}

#[test]
fn secrets_are_in_no_log_and_in_the_environment_of_no_program() {
    let server = RedisServer::start();
    with_rules(&server);
    let mut admin = server.raw();
    admin.words(&format!("CONF.REALM {REALM}"));
    let media = server.dir().join("media");
    let text =
        "#!/bin/sh\nenv > \"$1/env.new\"\nmv \"$1/env.new\" \"$1/env\"\nwhile :; do sleep 0.05; done\n";
    fs::write(&media, text).unwrap();
    fs::set_permissions(&media, fs::Permissions::from_mode(0o755)).unwrap();
    let (url, program) = (server.url(), format!("{} {}", media.display(), server.dir().display()));
    let unit = Process::new(
        "unit",
        &[
            "--roles",
            "media-unit",
            "--redis-url",
            &url,
            "--redis-user",
            "unit",
            "--media-unit-host",
            "127.0.0.1/u",
        ],
    );
    let secrets = [
        "ALLOT_REDIS_PASSWORD",
        "ALLOT_SENTINEL_PASSWORD",
        "ALLOT_ZOOKEEPER_PASSWORD",
        "ALLOT_CONSOLE_VIEWER_TOKEN",
        "ALLOT_CONSOLE_OPERATOR_TOKEN",
        "ALLOT_CONSOLE_VIEWER_PASSWORD",
        "ALLOT_CONSOLE_OPERATOR_PASSWORD",
        "ALLOT_CONSOLE_WEBHOOK",
        "ALLOT_REDIS",
    ];
    let unit = secrets.iter().fold(unit, |unit, name| unit.with(name, SECRET));
    let unit = unit.with("ALLOT_MEDIA_UNIT_PROGRAM", &program).with("ALLOT_LOG", "trace");
    unit.start();
    eventually("the unit to be ready", TIMEOUT, || unit.is_ready());
    admin.words(&format!("CONF.CREATE {REALM} 49 REQUEST r"));
    eventually("its program to run", TIMEOUT, || server.dir().join("env").exists());
    let seen = fs::read_to_string(server.dir().join("env")).unwrap();
    assert!(seen.contains("ALLOT_E164=49\n") && seen.contains("ALLOT_LOG=trace\n"), "{seen}");
    assert!(!seen.contains(SECRET) && !secrets.iter().any(|name| seen.contains(name)), "{seen}");
    let log = unit.log();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    assert!(!log.contains(SECRET));
}

#[test]
fn redis_is_spoken_to_by_tls_and_only_with_a_certificate_that_is_trusted() {
    let certificates = Certificates::new();
    let server = RedisServer::builder().tls(&certificates).start();
    fs::write(certificates.file("password"), format!("{SECRET}\n")).unwrap();
    with_rules(&server);
    server.raw().words(&format!("CONF.REALM {REALM}"));
    let url = format!("rediss://127.0.0.1:{}", server.tls_port());
    let start = |name: &str, ca: &str| {
        let (ca, password) = (certificates.file(ca), certificates.file("password"));
        let process = Process::new(
            name,
            &[
                "--roles",
                "media-unit",
                "--redis-url",
                &url,
                "--redis-ca-file",
                &ca,
                "--redis-user",
                "unit",
                "--redis-password-file",
                &password,
                "--media-unit-host",
                "127.0.0.1/tls",
            ],
        );
        process.start();
        process
    };
    let trusting = start("trusting", "ca.pem");
    eventually("the unit to be ready", TIMEOUT, || trusting.is_ready());
    assert_eq!(server.raw().words(&format!("CONF.STAT {REALM}")).field("up").int(), 1);
    // The secret is in no list of processes and in no log.
    let line = fs::read(format!("/proc/{}/cmdline", trusting.pid())).unwrap();
    let environment = fs::read(format!("/proc/{}/environ", trusting.pid())).unwrap();
    for text in [line, environment, trusting.log().into_bytes()] {
        assert!(!String::from_utf8_lossy(&text).contains(SECRET));
    }
    fs::copy(Certificates::new().file("ca.pem"), certificates.file("other.pem")).unwrap();
    let doubting = start("doubting", "other.pem");
    eventually("the certificate to be refused", TIMEOUT, || {
        doubting.http("/readyz").is_some_and(|(_, body)| body.to_lowercase().contains("certificate"))
    });
}

#[test]
fn a_scheduler_that_may_not_ask_replicas_goes_on() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    with_rules(&server);
    let mut admin = server.raw();
    admin.words(&format!("CONF.REALM {REALM}"));
    assert_eq!(admin.words("ACL SETUSER scheduler -wait"), Reply::Simple("OK".into()));
    replica.replica_of(&server);
    for cmu in ["a:1:1", "b:1:1"] {
        admin.words(&format!("CMU.JOIN {REALM} {cmu} CAPACITY 10 LEASE 3600000"));
    }
    let scheduler = daemon(&server, "scheduler", "scheduler");
    eventually("it to have claimed the realm", TIMEOUT, || scheduler.log().contains("realm claimed"));
    let granted = || scheduler.metric("allot_scheduler_grants_total").unwrap_or_default();
    for (number, wanted) in [("1", 1.0), ("2", 2.0)] {
        let record = admin.words(&format!("CONF.CREATE {REALM} {number}"));
        let (cmu, epoch) = (record.field("cmu").text(), record.field("epoch").int());
        admin.words(&format!("CONF.ACK {REALM} {number} {cmu} {epoch}"));
        admin.words(&format!("CMU.DOWN {REALM} {cmu}"));
        eventually("it to be placed again", TIMEOUT, || granted() >= wanted);
        admin.words(&format!("CMU.JOIN {REALM} {cmu} CAPACITY 10 LEASE 3600000"));
        admin.words(&format!("CMU.REPORT {REALM} {cmu} HIGHEST 0"));
    }
    let unconfirmed = || scheduler.metric("allot_scheduler_unconfirmed_total") >= Some(2.0);
    eventually("both to be counted", TIMEOUT, unconfirmed);
    let log = scheduler.log();
    assert_eq!(log.matches("replicas cannot be asked").count(), 1, "{log}");
    assert!(!log.contains("the session with Redis is over"), "{log}");
}
