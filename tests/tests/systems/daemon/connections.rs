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
    let output = command
        .env("HOME", "/nonexistent")
        .env_remove("XDG_CONFIG_HOME")
        .envs(variables.iter().copied())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Loads and shows a show and a pool, found by these words.
#[track_caller]
fn loads_and_shows(dir: &tempfile::TempDir, keys: (&str, &str), way: &[&str]) {
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (plan, numbers) = (file("plan.json"), file("numbers.txt"));
    let commands: [(&[&str], &str); 4] = [
        (&["show", "create", keys.0, &plan], "is created"),
        (&["show", "get", keys.0], "seats    8\nfree     8"),
        (&["pool", "load", keys.1, &numbers], "2 numbers created"),
        (&["pool", "get", keys.1], "total         2"),
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
    let settings = dir.path().join("config.toml");
    let text = format!(
        "[servers.office]\nurl = \"{url}\"\nuser = \"office\"\npassword-file = \"{password}\"\nca-file = \"{ca}\"\n"
    );
    fs::write(&settings, text).unwrap();
    let file = settings.to_str().unwrap();
    loads_and_shows(&dir, ("show", "pool"), &["--config", file, "--server", "office"]);
    // The same from the environment.
    let login = [("ALLOT_USER", "office"), ("ALLOT_PASSWORD_FILE", &*password), ("ALLOT_CA_FILE", &*ca)];
    let shown = allot_with(&[&login[..], &[("ALLOT_SERVER", &*url)]].concat(), &["show", "get", "show"]);
    assert_eq!(shown.0, 0, "{shown:?}");
    let refused = allot_with(&[("ALLOT_CA_FILE", &ca)], &["show", "get", "show", "--server", &url]);
    assert!(refused.0 == 7 && refused.2.contains("ACL"), "{refused:?}");
}

#[test]
fn a_show_is_loaded_at_the_master_that_sentinel_names() {
    let dir = files();
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&master);
    let sentinel = Sentinel::of(&master);
    let address = sentinel.address();
    loads_and_shows(&dir, ("show", "pool"), &["--server", &format!("redis+sentinel://{address}/main")]);
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
            loads_and_shows(&dir, (&keys.0, &keys.1), &["--server", &format!("redis+cluster://{address}")]);
        }
    }
    let masters = ["{a}", "{b}", "{c}"].map(|key| cluster.master_for(key).port());
    assert!(masters.iter().any(|port| *port != masters[0]), "the keys lie on one master: {masters:?}");
}

#[test]
fn a_password_may_stand_in_a_variable_of_its_own_and_in_no_address() {
    let server = RedisServer::start();
    assert_eq!(server.raw().call(&["CONFIG", "SET", "requirepass", SECRET]), Reply::Simple("OK".into()));
    let with_password = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
    let list = ["pool", "list"];
    let secret = [("ALLOT_SERVER", &*server.url()), ("ALLOT_PASSWORD", SECRET)];
    assert_eq!(allot_with(&secret, &list).0, 1, "no pool");
    assert_eq!(allot_with(&secret, &["conference", "list"]).0, 4, "no realm");
    let wrong = allot_with(&[secret[0], ("ALLOT_PASSWORD", "other")], &list);
    assert!(wrong.0 == 7 && wrong.2.contains("ALLOT_PASSWORD_FILE"), "{wrong:?}");
    let variable: (&[(&str, &str)], &[&str]) = (&[("ALLOT_SERVER", &with_password)], &[]);
    for (variables, words) in [variable, (&[], &["--server", &with_password])] {
        let refused = allot_with(variables, &[&list[..], words].concat());
        assert!(refused.0 == 2 && refused.2.contains("ALLOT_PASSWORD_FILE"), "{refused:?}");
        assert!(!refused.2.contains(SECRET), "{refused:?}");
    }
}
