//! Commands that work on one key reach their server by every setting that the daemon knows: TLS, a password file, Sentinel,
//! a cluster, and the environment.

use std::fs;
use std::process::{Command, Stdio};

use allot_tests::module::allot;
use allot_tests::sentinel::Sentinel;
use allot_tests::{Certificates, Cluster, RedisServer, Reply};

const SECRET: &str = "a-secret-of-the-test";
const PLAN: &str =
    r#"{"areas":[{"id":"stalls","rows":[{"label":"A","rank":1,"tier":"gold","seats":"1-8"}]}]}"#;

/// A folder with a plan, a file of numbers and a password.
fn files() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.json"), PLAN).unwrap();
    fs::write(dir.path().join("numbers.txt"), "138\n139\n").unwrap();
    fs::write(dir.path().join("password"), format!("{SECRET}\n")).unwrap();
    dir
}

/// Runs `allot` with these words, in an environment with these variables only: exit code, output, errors.
fn allot_with(variables: &[(&str, &str)], words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(allot());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALLOT_")) {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).args(words).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Loads and shows a show and a pool, found by these words.
#[track_caller]
fn loads_and_shows(dir: &tempfile::TempDir, keys: (&str, &str), way: &[&str]) {
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (plan, numbers) = (file("plan.json"), file("numbers.txt"));
    let commands: [(&[&str], &str); 4] = [
        (&["seats", "load", &plan, "--key", keys.0], "loaded as"),
        (&["seats", "show", keys.0], "in all: 8 seats, 8 free"),
        (&["numbers", "load", &numbers, "--key", keys.1], "2 new"),
        (&["numbers", "show", keys.1], "2 numbers"),
    ];
    for (command, part) in commands {
        let (code, out, err) = allot_with(&[], &[command, way].concat());
        assert_eq!(code, 0, "{command:?}: {err}");
        assert!(out.contains(part), "{command:?}: no {part:?} in:\n{out}");
    }
}

#[test]
fn a_show_is_loaded_through_tls_with_a_password_file() {
    let (certificates, dir) = (Certificates::new(), files());
    let server = RedisServer::builder().tls(&certificates).start();
    let mut admin = server.raw();
    let rule = ["ACL", "SETUSER", "office", "on", &format!(">{SECRET}"), "~*", "+@all", "-role"];
    assert_eq!(admin.call(&rule), Reply::Simple("OK".into()));
    assert_eq!(admin.call(&["ACL", "SETUSER", "default", "-@all"]), Reply::Simple("OK".into()));
    let url = format!("rediss://127.0.0.1:{}", server.tls_port());
    let (ca, password) = (certificates.file("ca.pem"), dir.path().join("password").display().to_string());
    let login = ["--redis-user", "office", "--redis-password-file", &password, "--redis-ca-file", &ca];
    loads_and_shows(&dir, ("show", "pool"), &[&["--redis-url", &url], &login[..]].concat());
    // The same from a file of settings, and by the flag's other name before the command.
    let settings = dir.path().join("allot.toml");
    let text = format!(
        "[redis]\nurl = \"{url}\"\nuser = \"office\"\npassword-file = \"{password}\"\nca-file = \"{ca}\"\n"
    );
    fs::write(&settings, text).unwrap();
    let shown = allot_with(&[], &["seats", "show", "show", "--config", settings.to_str().unwrap()]);
    assert_eq!(shown.0, 0, "{shown:?}");
    let shown = allot_with(&[], &[&["--redis", &url, "seats", "show", "show"], &login[..]].concat());
    assert_eq!(shown.0, 0, "{shown:?}");
    let refused = allot_with(&[], &["seats", "show", "show", "--redis-url", &url, "--redis-ca-file", &ca]);
    assert!(refused.0 == 4 && refused.2.contains("NOPERM"), "{refused:?}");
}

#[test]
fn a_show_is_loaded_at_the_master_that_sentinel_names() {
    let dir = files();
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&master);
    let sentinel = Sentinel::of(&master);
    let address = sentinel.address();
    loads_and_shows(&dir, ("show", "pool"), &["--redis-sentinels", &address, "--redis-master", "main"]);
    assert_eq!(master.raw().words("EXISTS show pool"), Reply::Int(2));
}

#[test]
fn a_show_is_loaded_at_the_master_of_its_slot() {
    let (dir, cluster) = (files(), Cluster::start(2, 0));
    // Each master is asked about keys of both.
    for (number, node) in cluster.masters().iter().enumerate() {
        let address = format!("127.0.0.1:{}", node.port());
        for key in ["{a}", "{b}", "{c}"] {
            let keys = (format!("{key}show{number}"), format!("{key}pool{number}"));
            loads_and_shows(&dir, (&keys.0, &keys.1), &["--redis-cluster", &address]);
        }
    }
    let masters = ["{a}", "{b}", "{c}"].map(|key| cluster.master_for(key).port());
    assert!(masters.iter().any(|port| *port != masters[0]), "the keys lie on one master: {masters:?}");
}

#[test]
fn a_password_may_stand_in_allot_redis_and_in_no_other_address() {
    let server = RedisServer::start();
    assert_eq!(server.raw().call(&["CONFIG", "SET", "requirepass", SECRET]), Reply::Simple("OK".into()));
    let with_password = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
    let show = ["numbers", "load", "/dev/null", "--key", "pool"];
    assert_eq!(allot_with(&[("ALLOT_REDIS", &with_password)], &show).0, 0);
    assert_eq!(allot_with(&[("ALLOT_REDIS", &with_password)], &["conference", "list"]).0, 4, "no realm");
    let variable: (&[(&str, &str)], &[&str]) = (&[("ALLOT_REDIS_URL", &with_password)], &[]);
    for (variables, words) in [variable, (&[], &["--redis", &with_password])] {
        let refused = allot_with(variables, &[&show[..], words].concat());
        assert!(refused.0 == 3 && refused.2.contains("password-file"), "{refused:?}");
        assert!(!refused.2.contains(SECRET), "{refused:?}");
    }
}
