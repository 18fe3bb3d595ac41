//! `allot pool` against the module: pools filled from files, printed, and taken over from a list and a hash.

use std::fs;

use allot_tests::daemon::{command, run};
use allot_tests::module::repository;
use allot_tests::pools::{number, pool_info, state_of};
use allot_tests::terminal::on_terminal;
use allot_tests::{RedisServer, Reply};

fn file(server: &RedisServer, name: &str, text: &str) -> String {
    let path = server.dir().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_file_of_numbers_becomes_a_pool_and_may_be_loaded_again() {
    let server = RedisServer::start();
    let lines: Vec<String> = (0..2500).map(number).collect();
    let text = file(&server, "numbers.txt", &lines.join("\n"));
    let loaded = run(&server, &["pool", "load", "pool", &text, "--register", "--switch", "sw"]).ok();
    assert!(loaded.out.contains("2500 numbers created, 0 unchanged, 2500 came up"), "{}", loaded.out);
    let loading = ["pool", "load", "pool", &text];
    let again = run(&server, &loading).ok();
    assert!(again.out.contains("0 numbers created, 2500 unchanged"), "{}", again.out);
    // A person at a terminal sees the progress, and no other output has it.
    let shown = on_terminal(&command(&server, &loading));
    assert!(shown.contains("loading [") && shown.contains("/2,500"), "{shown:?}");
    assert!(shown.contains("0 numbers created, 2500 unchanged"), "{shown:?}");
    assert_eq!(again.err, "");
    assert_eq!(pool_info(&mut server.raw(), "pool", "idle_up"), 2500);
}

#[test]
fn tables_punctuation_repeats_and_dry_runs() {
    let server = RedisServer::start();
    let table = file(&server, "numbers.csv", "site,Phone\nmain,+49 170-1\nside,+49 170-2\nmain,+491701\n");
    let arguments = ["pool", "load", "pool", &table, "--column", "phone"];
    let refused = run(&server, &arguments).ended(3);
    assert!(refused.err.contains("line 2, column 4: '+49 170-1' is no number"), "{}", refused.err);
    let dry = run(&server, &[&arguments[..], &["--strip", "--dry-run"]].concat()).ok();
    assert!(
        dry.out.contains("dry run: would create 3 numbers in pool 'pool'; 0 are unchanged"),
        "{}",
        dry.out
    );
    assert_eq!(server.raw().words("DBSIZE"), Reply::Int(0));
    run(&server, &[&arguments[..], &["--strip"]].concat()).ok();
    assert_eq!(state_of(&mut server.raw(), "pool", "+491702"), "idle+down");
    run(&server, &["pool", "load", "pool", "/nowhere"]).ended(3);
    server.raw().words("SET text 1");
    run(&server, &["pool", "load", "text", &table, "--column", "phone", "--strip"]).ended(4);
}

#[test]
fn a_pool_is_shown_with_its_calls_by_switch() {
    let server = RedisServer::start();
    let mut client = server.raw();
    for line in [
        "NUMPOOL.CONFIG pool LEASE 3600000 PICK STICKY",
        "NUMPOOL.ADD pool 1 2 3 4",
        "NUMPOOL.REG pool 1 2 3 SWITCH east",
        "NUMPOOL.CALL pool",
        "NUMPOOL.CALL pool SWITCH west",
        "NUMPOOL.SUSPEND pool CAUSE complaint FOR 3600000 4",
    ] {
        client.words(line);
    }
    let shown = run(&server, &["pool", "get", "pool"]).ok();
    for part in [
        "total         4\n",
        "idle_up       1\n",
        "busy_up       2\n",
        "leases        2\n",
        "suspended     1\n",
        "east          3      1  -",
        "west          0      1  -",
    ] {
        assert!(shown.out.contains(part), "no {part:?} in:\n{}", shown.out);
    }
    assert!(!shown.out.contains("complaint"), "{}", shown.out);
    let suspended = run(&server, &["pool", "get", "pool", "--suspended", "--format", "json"]).ok().out;
    let suspended: serde_json::Value = serde_json::from_str(&suspended).unwrap();
    let number = &suspended["out_of_service"][0];
    assert_eq!((&number["number"], &number["cause"]), (&"4".into(), &"complaint".into()), "{suspended}");
    assert!(number["until"].as_str().unwrap().ends_with('Z'), "{suspended}");
    let absent = run(&server, &["pool", "get", "nothing"]).ended(4);
    assert!(absent.err.contains("there is no pool 'nothing'"), "{}", absent.err);
}

#[test]
fn caps_and_causes_are_shown() {
    let server = RedisServer::start();
    server.raw().words("NUMPOOL.ADD pool 1 2");
    for line in [
        "NUMPOOL.CONFIG pool CAPS 2 3600000 20 86400000 100",
        "NUMPOOL.CAUSE pool busy COOLDOWN 3600000 AFTER 5 WITHIN 600000",
    ] {
        run(&server, &[&["redis"], &line.split(' ').collect::<Vec<_>>()[..]].concat()).ok();
    }
    let text = run(&server, &["pool", "get", "pool"]).ok().out;
    for part in ["   20  1h\n", "  100  1day\n", "busy       0  1h            5  10m\n"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

/// A list and a hash as scripts of years leave them.
fn old_pool(server: &RedisServer) {
    let mut client = server.raw();
    let states = [
        ("100", "0", "1"),
        ("101", "0", "1"),
        ("102", "1", "1"),
        ("103", "1", "0"),
        ("104", "0", "0"),
        ("105", "0", "1"),
        ("106", "1", "1"),
    ];
    for (number, call, reg) in states {
        let record = format!(r#"{{"callstate":{call},"regstate":{reg}}}"#);
        client.call(&["HSET", "{old}:numstate", number, &record]);
    }
    client.words("HSET {old}:numstate 107 nonsense bob {}");
    client.words("RPUSH {old}:idle:up 101 102 999 100 101 104 eve");
}

#[test]
fn an_existing_list_and_hash_are_taken_over_in_one_step_and_judged() {
    let server = RedisServer::start();
    old_pool(&server);
    let mut client = server.raw();
    let arguments = ["pool", "import", "{old}:pool", "--list", "{old}:idle:up", "--hash", "{old}:numstate"];
    let dry = run(&server, &[&arguments[..], &["--dry-run"]].concat()).ok();
    for part in [
        "listed_unknown           1  in the list, but not in the hash: left out",
        "listed_busy              1  in the list, but busy: they carry their call, and do not wait",
        "not_listed               1  idle and up, but not in the list",
        "unreadable               1  with a state that cannot be read: taken for idle and down",
        "would make pool '{old}:pool' of 8 numbers: 3 free, 3 busy; nothing was changed",
    ] {
        assert!(dry.out.contains(part), "no {part:?} in:\n{}", dry.out);
    }
    assert_eq!(client.words("EXISTS {old}:pool {old}:idle:up {old}:numstate"), Reply::Int(2));

    // Entries that are left out exist nowhere else, so the list and the hash stay.
    let delete = [&arguments[..], &["--delete-source", "--yes"]].concat();
    let refused = run(&server, &delete).ended(5);
    assert!(refused.err.contains("4 entries could not be taken over"), "{}", refused.err);
    assert_eq!(client.words("EXISTS {old}:pool {old}:idle:up {old}:numstate"), Reply::Int(2));
    let done = run(&server, &[&arguments[..], &["--lease", "10m"]].concat()).ok();
    assert!(
        done.out.contains("8 numbers: 3 free, 3 busy; '{old}:idle:up' and '{old}:numstate' stay"),
        "{}",
        done.out
    );
    assert_eq!(client.words("EXISTS {old}:idle:up {old}:numstate"), Reply::Int(2));
    let states =
        ["100", "102", "103", "104", "106", "107", "999"].map(|n| state_of(&mut client, "{old}:pool", n));
    assert_eq!(states, ["idle+up", "busy+up", "busy+down", "idle+down", "busy+up", "idle+down", "nodata"]);
    assert!(!client.words("NUMPOOL.GET {old}:pool 106").field("until").is_null());
    let queue: Vec<String> =
        (0..3).map(|_| client.words("NUMPOOL.CALL {old}:pool").field("number").text()).collect();
    assert_eq!(queue, ["101", "100", "105"]);

    // A pool in the way is not touched, and a hash that does not exist is no empty one.
    assert!(run(&server, &arguments).ended(5).err.contains("there is a key {old}:pool already"));
    let wrong = ["pool", "import", "{old}:other", "--list", "{old}:idle:up", "--hash", "{old}:nums"];
    run(&server, &[&wrong[..], &["--delete-source", "-y"]].concat()).ended(4);
    assert_eq!(client.words("LLEN {old}:idle:up"), Reply::Int(7));
    // What can be taken over whole is deleted in the same step, if it is told to.
    client.words("DEL {new}:list {new}:hash");
    client.call(&["HSET", "{new}:hash", "100", r#"{"callstate":0,"regstate":1}"#]);
    client.words("RPUSH {new}:list 100");
    let whole =
        ["pool", "import", "{new}:pool", "--list", "{new}:list", "--hash", "{new}:hash", "--delete-source"];
    run(&server, &whole).ended(2);
    assert_eq!(
        client.words("EXISTS {new}:list {new}:hash {new}:pool"),
        Reply::Int(2),
        "without --yes nothing"
    );
    run(&server, &[&whole[..], &["--yes"]].concat()).ok();
    assert_eq!(client.words("EXISTS {new}:list {new}:hash {new}:pool"), Reply::Int(1));
}

#[test]
fn numbers_of_the_functions_library_are_imported_whole() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let library = fs::read_to_string(repository().join("lua/allot.lua")).unwrap();
    client.call(&["FUNCTION", "LOAD", &library]);
    let numbers: Vec<String> = (0..5000).map(number).collect();
    for (function, numbers) in [("numpool_add", &numbers[..]), ("numpool_reg", &numbers[..4000])] {
        let mut words = vec!["FCALL", function, "2", "{p}:idle:up", "{p}:numstate"];
        words.extend(numbers.iter().map(String::as_str));
        client.call(&words);
    }
    for _ in 0..1500 {
        client.words("FCALL numpool_call 2 {p}:idle:up {p}:numstate");
    }
    let done =
        run(&server, &["pool", "import", "{p}", "--list", "{p}:idle:up", "--hash", "{p}:numstate"]).ok();
    assert!(done.out.contains("5000 numbers: 2500 free, 1500 busy"), "{}", done.out);
    let totals = ["idle_up", "idle_down", "busy_up"].map(|field| pool_info(&mut client, "{p}", field));
    assert_eq!(totals, [2500, 1000, 1500]);
    let module = client.words("NUMPOOL.CALL {p}").field("number").text();
    assert_eq!(module, client.words("FCALL numpool_call 2 {p}:idle:up {p}:numstate").text());
}
