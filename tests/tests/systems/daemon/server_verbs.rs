//! `allot server` and `allot version`: the servers of the settings, the doctor, and versions that fit.

use std::fs;
use std::path::PathBuf;

use allot_tests::daemon::{Run, command};
use allot_tests::{RedisServer, Reply, ZooKeeperServer};
use serde_json::Value;

/// A user's home, in which the file of settings names servers.
fn own_file(server: &RedisServer, text: &str) -> PathBuf {
    let path = server.dir().join(".config/allot/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// Runs `allot` without any variable that names a server.
fn at_home(server: &RedisServer, words: &[&str]) -> Run {
    let mut command = command(server, words);
    for name in ["ALLOT_SERVER", "ALLOT_REDIS"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.out))
}

/// The finding of the doctor about something.
fn finding<'a>(findings: &'a Value, check: &str) -> &'a Value {
    let all = findings.as_array().unwrap();
    all.iter().find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("{check}: {findings}"))
}

#[test]
fn servers_are_listed_and_the_one_that_is_used_is_written_into_the_own_file() {
    let server = RedisServer::start();
    let none = at_home(&server, &["server", "list"]).ended(1);
    assert!(none.err.contains("no file of settings names a server"), "{}", none.err);
    let mine = "# mine\nserver = \"far\"\nutc = true\n\n";
    let servers =
        format!("[servers.far]\nurl = \"127.0.0.1:1\"\n\n[servers.near]\nurl = \"{}\"\n", server.url());
    let path = own_file(&server, &format!("{mine}{servers}"));
    at_home(&server, &["redis", "PING"]).ended(6);
    let listed = json(&at_home(&server, &["server", "list", "--format", "json"]).ok());
    assert_eq!((&listed[0]["name"], &listed[0]["in_use"]), (&"far".into(), &true.into()), "{listed}");
    assert_eq!((&listed[1]["name"], &listed[1]["in_use"]), (&"near".into(), &false.into()), "{listed}");

    let absent = at_home(&server, &["server", "use", "nearr"]).ended(4);
    assert!(absent.err.contains("near"), "{}", absent.err);
    let dry = at_home(&server, &["server", "use", "near", "--dry-run"]).ok();
    assert!(dry.out.contains("would write server = \"near\""), "{}", dry.out);
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{mine}{servers}"), "a dry run");

    at_home(&server, &["server", "use", "near"]).ok();
    // Everything else in the file stays, comments as well.
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("server = \"near\"\n# mine\nutc = true\n\n{servers}")
    );
    assert_eq!(at_home(&server, &["redis", "PING"]).ok().out, "PONG\n");
    at_home(&server, &["server", "use", "near"]).ok();
    assert_eq!(fs::read_to_string(&path).unwrap().matches("server = ").count(), 1);
    // A variable that overrides the file is said.
    let overridden = allot_tests::daemon::run(&server, &["server", "use", "far"]).ok();
    assert!(overridden.err.contains("ALLOT_SERVER is set"), "{}", overridden.err);
}

#[test]
fn empty_option_is_refused_and_names_no_other_server() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    own_file(&server, &format!("server = \"prod\"\n[servers.prod]\nurl = \"{}\"\n", other.url()));
    let ping = ["--server", "", "redis", "PING"];
    assert!(allot_tests::daemon::run(&server, &ping).ended(2).err.contains("--server"));
    at_home(&server, &ping).ended(2);
    // An empty variable is none.
    let mut empty = command(&server, &["redis", "CONFIG", "GET", "port"]);
    let output = empty.env("ALLOT_SERVER", "").output().unwrap();
    let port = other.info_field("server", "tcp_port");
    assert!(String::from_utf8_lossy(&output.stdout).contains(&port));
}

#[test]
fn doctor_finds_nothing_on_a_server_that_is_well() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let zookeeper = ZooKeeperServer::start();
    let checked = at_home(
        &server,
        &[
            "server",
            "check",
            "--format",
            "json",
            "--server",
            &server.url(),
            "--zookeeper",
            &zookeeper.address(),
        ],
    )
    .ok();
    let findings = json(&checked);
    for check in [
        "server",
        "reach",
        "password and ACL",
        "module",
        "internal errors",
        "role",
        "persistence",
        "clocks",
        "zookeeper",
    ] {
        assert_eq!(finding(&findings, check)["result"], "ok", "{check}: {findings}");
    }
    let table = at_home(&server, &["server", "check", "--server", &server.url()]).ok();
    assert!(table.out.lines().all(|line| line.starts_with("ok ")), "{}", table.out);
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let problem = |server: &RedisServer, more: &[&str], check: &str, action: &str| {
        let url = server.url();
        let words = [&["server", "check", "--format", "json", "--server", &url], more].concat();
        let findings = json(&at_home(server, &words).ended(1));
        let finding = finding(&findings, check);
        assert_eq!(finding["result"], "PROBLEM", "{findings}");
        assert!(finding["action"].as_str().unwrap().contains(action), "{finding}");
    };
    let plain = RedisServer::builder().module(false).start();
    problem(&plain, &[], "module", "loadmodule");
    let server = RedisServer::start();
    problem(&server, &[], "persistence", "appendonly yes");
    problem(&server, &["--zookeeper", "127.0.0.1:1", "--limit-time", "500ms"], "zookeeper", "");

    let replica = RedisServer::start();
    replica.replica_of(&server);
    problem(&replica, &[], "role", "name the master");

    let late = RedisServer::builder().own_clock().start();
    late.shift_clock(60);
    problem(&late, &[], "clocks", "NTP");

    server.raw().words("ACL SETUSER few on nopass ~* -@all +ping +type +seat.stat +info");
    let mut few = command(&server, &["server", "check", "--format", "json"]);
    let output = few.env("ALLOT_USER", "few").env("ALLOT_PASSWORD", "few").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = &finding(&findings, "ACL")["found"];
    assert_eq!(found, "the user may not: SCAN, NUMPOOL.INFO, CONF.STAT, ACCOUNT.INFO", "{findings}");
    assert_eq!(finding(&findings, "clocks")["result"], "PROBLEM", "{findings}");

    server.raw().words("CONFIG SET requirepass secret");
    problem(&server, &[], "password and ACL", "ALLOT_PASSWORD_FILE");
    let away = at_home(&server, &["server", "check", "--server", "127.0.0.1:1"]).ended(1);
    assert!(away.out.contains("PROBLEM  reach") && away.out.contains("do: "), "{}", away.out);
}

#[test]
fn versions_say_whether_they_fit() {
    let server = RedisServer::start();
    let version = json(&at_home(&server, &["version", "--format", "json", "--server", &server.url()]).ok());
    assert_eq!(version["client"], version["module"], "{version}");
    assert_eq!(version["fits"], true, "{version}");
    let product = format!("Redis {}", server.info_field("server", "redis_version"));
    assert_eq!(version["server"], product, "{version}");

    let plain = RedisServer::builder().module(false).start();
    let none = at_home(&plain, &["version", "--server", &plain.url()]).ok();
    assert!(none.out.contains("module  none found"), "{}", none.out);
    // The version of the client is known without a server.
    let away = at_home(&plain, &["version", "--server", "127.0.0.1:1"]).ok();
    assert!(away.out.contains("server  not reachable") && !away.err.is_empty(), "{}{}", away.out, away.err);
}

#[test]
fn sizing_counts_what_each_kind_takes() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    raw.words("NUMPOOL.ADD a 1 2 3");
    raw.words("NUMPOOL.ADD b 1 2 3 4 5");
    let bytes: i64 = ["a", "b"].map(|key| raw.call(&["MEMORY", "USAGE", key]).int()).iter().sum();
    let kinds =
        json(&at_home(&server, &["server", "sizing", "--format", "json", "--server", &server.url()]).ok());
    let pools = kinds.as_array().unwrap().iter().find(|kind| kind["kind"] == "pool").unwrap();
    assert_eq!((&pools["keys"], &pools["items"]), (&2.into(), &8.into()), "{pools}");
    assert_eq!((&pools["bytes"], &pools["largest"]), (&bytes.into(), &"b".into()), "{pools}");
    assert!(matches!(raw.words("DBSIZE"), Reply::Int(2)));
}
