//! `allot` where no module is needed: what it refuses, what it says, and with which exit
//! code.

use std::fs;
use std::path::PathBuf;

use allot_tests::RedisServer;
use allot_tests::daemon::{run, shared_data};
use redis::Value;

fn plain() -> RedisServer {
    RedisServer::builder().module(false).start()
}

fn file(server: &RedisServer, name: &str, text: &str) -> String {
    let path: PathBuf = server.dir().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The caches of an existing system: tier gold in two areas, tier silver in the second, which runs from
/// right to left.
fn fill_caches(server: &RedisServer) {
    server.command("RPUSH tiers gold silver");
    let one = r#"{"areaId":1,"name":"Front","partitionlevel":1,"seatAllocationRule":1}"#;
    let two = r#"{"areaId":2,"name":"Back","partitionlevel":2,"seatAllocationRule":2}"#;
    let mut raw = server.raw();
    raw.call(&["SET", "gold", &format!("[{one},{two}]")]);
    raw.call(&["SET", "silver", &format!("[{two}]")]);
    server.command("ZADD gold_1 100001 a 100002 b 100005 c 200001 d");
    server.command("ZADD gold_2 99999 e 99998 f");
    server.command("ZADD silver_2 99996 g");
}

#[test]
fn a_dry_run_of_a_dirty_plan_tells_its_problems_and_how_to_help() {
    let Some(theatre) = shared_data("theatre.pretix.json") else { return };
    let (server, theatre) = (plain(), theatre.to_str().unwrap().to_owned());
    let refused = run(&server, &["show", "check", &theatre]).ended(3);
    assert!(
        refused
            .err
            .contains(": 420 problems\nhint: names that occur twice can be numbered: --disambiguate\n"),
        "{}",
        refused.err
    );
    assert_eq!(refused.err.matches("occurs already at zones[").count(), 10);
    assert!(refused.err.contains("and 410 more"));
    let fine = run(&server, &["show", "check", &theatre, "--disambiguate"]).ok();
    assert!(fine.out.contains("seats  738\nareas  2\nrows   90"), "{}", fine.out);
    assert_eq!(server.command("DBSIZE"), Value::Int(0));
}

#[test]
fn a_check_needs_no_server() {
    let server = plain();
    let csv = file(&server, "a.csv", "area,row,seat,tier\na,1,1,t\na,1,2,t\n");
    server.kill9();
    run(&server, &["show", "check", &csv]).ok();
    let refused = run(&server, &["show", "create", "k", &csv]).ended(6);
    assert!(refused.err.contains("cannot connect to redis://127.0.0.1:"), "{}", refused.err);
}

#[test]
fn each_kind_of_failure_has_its_exit_code_and_its_words() {
    let server = plain();
    run(&server, &["show", "create", "k"]).ended(2);
    let absent = run(&server, &["show", "create", "k", "/no/such/plan"]).ended(3);
    assert!(absent.err.contains("/no/such/plan: No such file"), "{}", absent.err);
    let bad = file(&server, "bad.csv", "area,row,seat,tier\na,1,,t\n");
    let bad = run(&server, &["show", "create", "k", &bad]).ended(3);
    assert!(bad.err.contains("line 2: the field 'seat' is empty"), "{}", bad.err);
    let good = file(&server, "good.csv", "area,row,seat,tier\na,1,1,t\n");
    let no_module = run(&server, &["show", "create", "k", &good]).ended(5);
    assert!(no_module.err.contains("load the module"), "{}", no_module.err);
    assert_eq!(server.command("DBSIZE"), Value::Int(0));
}

#[test]
fn a_side_file_is_checked_against_the_plan() {
    let server = plain();
    let csv = file(&server, "a.csv", "area,row,seat,tier\na,1,1,t\n");
    let dry = |side: &str| {
        let side = file(&server, "side.json", side);
        run(&server, &["show", "check", &csv, "--side", &side])
    };
    let fine = dry(r#"{"areas":{"a":{"priority":7,"rule":"rtl"}}}"#).ok();
    assert!(fine.out.contains("       7  rtl"), "{}", fine.out);
    assert!(dry(r#"{"areas":{"b":{"priority":7}}}"#).ended(3).err.contains("side.json: side file: areas.b"));
    assert!(dry(r#"{"areas":{"a":{"prio":7}}}"#).ended(3).err.contains("prio"));
}

#[test]
fn caches_are_read_without_being_changed() {
    let server = plain();
    fill_caches(&server);
    let digest = server.digest();
    let dry = ["show", "create", "k", "--from-caches", "--dry-run"];
    let sold = run(&server, &dry).ok();
    assert!(sold.out.contains("10 seats in 2 areas"), "{}", sold.out);
    let breaks = run(&server, &[&dry[..], &["--gaps", "break"]].concat()).ok();
    assert!(breaks.out.contains("7 seats in 2 areas"), "{}", breaks.out);
    assert_eq!(server.digest(), digest);
    let absent = run(&server, &[&dry[..], &["--tiers-key", "none"]].concat()).ended(3);
    assert!(absent.err.contains("'none' is empty or absent; --tiers-key"), "{}", absent.err);
    let absent = run(&server, &[&dry[..], &["--areas-key", "x:{tier}"]].concat()).ended(3);
    assert!(absent.err.contains("key 'x:gold' is absent; --areas-key"), "{}", absent.err);
}
