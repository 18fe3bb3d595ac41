//! `allot numbers` against the module: pools filled from files, printed, and taken over from a list and a hash.

use std::fs;

use allot_tests::daemon::{command, on_terminal, run};
use allot_tests::module::repository;
use allot_tests::pools::{number, pool_info, state_of};
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
    let loaded =
        run(&server, &["numbers", "load", &text, "--key", "pool", "--register", "--switch", "sw"]).ok();
    assert!(loaded.out.contains("2500 new, 0 were there\nregistered: 2500 came up"), "{}", loaded.out);
    let loading = ["numbers", "load", &text, "--key", "pool"];
    let again = run(&server, &loading).ok();
    assert!(again.out.contains("0 new, 2500 were there"), "{}", again.out);
    // A person at a terminal sees the progress, and no other output has it.
    let shown = on_terminal(&command(&server, &loading));
    assert!(shown.contains("loading [") && shown.contains("/2500 "), "{shown:?}");
    assert!(shown.contains("0 new, 2500 were there"), "{shown:?}");
    assert_eq!(again.err, "");
    assert_eq!(pool_info(&mut server.raw(), "pool", "idle_up"), 2500);
}

#[test]
fn tables_punctuation_repeats_and_dry_runs() {
    let server = RedisServer::start();
    let table = file(&server, "numbers.csv", "site,Phone\nmain,+49 170-1\nside,+49 170-2\nmain,+491701\n");
    let arguments = ["numbers", "load", &table, "--key", "pool", "--column", "phone"];
    let refused = run(&server, &arguments).ended(3);
    assert!(refused.err.contains("line 2: '+49 170-1' is no number"), "{}", refused.err);
    let dry = run(&server, &[&arguments[..], &["--strip", "--dry-run"]].concat()).ok();
    assert!(dry.out.contains("2 numbers, 1 repeated\ndry run: nothing was changed"), "{}", dry.out);
    assert_eq!(server.raw().words("DBSIZE"), Reply::Int(0));
    run(&server, &[&arguments[..], &["--strip"]].concat()).ok();
    assert_eq!(state_of(&mut server.raw(), "pool", "+491702"), "idle+down");
    run(&server, &["numbers", "load", "/nowhere", "--key", "pool"]).ended(3);
    server.raw().words("SET text 1");
    run(&server, &["numbers", "load", &table, "--key", "text", "--column", "phone", "--strip"]).ended(4);
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
    ] {
        client.words(line);
    }
    let shown = run(&server, &["numbers", "show", "pool"]).ok();
    for part in [
        "pool: 4 numbers\n",
        "idle+up             1",
        "busy+up             2",
        "2 live calls\n",
        "  east: 1, ",
        "  west: 1, ",
    ] {
        assert!(shown.out.contains(part), "no {part:?} in:\n{}", shown.out);
    }
    let absent = run(&server, &["numbers", "show", "nothing"]).ended(4);
    assert!(absent.err.contains("NOKEY"), "{}", absent.err);
}

#[test]
fn caps_and_causes_are_set_and_shown() {
    let server = RedisServer::start();
    server.raw().words("NUMPOOL.ADD pool 1 2");
    run(&server, &["numbers", "caps", "pool", "1h=20", "1d=100"]).ok();
    run(
        &server,
        &["numbers", "cause", "pool", "busy", "--cooldown", "1h", "--after", "5", "--within", "10m"],
    )
    .ok();
    run(&server, &["numbers", "cause", "pool", "spam", "--cooldown", "1d"]).ok();
    let shown = || run(&server, &["numbers", "show", "pool"]).ok().out;
    let text = shown();
    for part in [
        "cap: 20 calls in 60 min\n",
        "cap: 100 calls in 24.0 h\n",
        "cause busy: 0 calls, quarantine for 60 min after 5 in 10 min\n",
        "cause spam: 0 calls, quarantine for 24.0 h\n",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    run(&server, &["numbers", "cause", "pool", "spam", "--cooldown", "0s"]).ok();
    run(&server, &["numbers", "caps", "pool", "--none"]).ok();
    let text = shown();
    assert!(!text.contains("cap: ") && text.contains("cause spam: 0 calls\n"), "{text}");
    for odd in [&["pool"][..], &["pool", "1h"], &["pool", "1h=x"], &["pool", "1h=1", "--none"]] {
        run(&server, &[&["numbers", "caps"], odd].concat()).ended(2);
    }
    assert!(
        run(&server, &["numbers", "caps", "pool", "0s=5"]).ended(4).err.contains("CAPS"),
        "the server refuses it"
    );
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
    let arguments = ["numbers", "migrate", "--from", "old", "--key", "{old}:pool"];
    let dry = run(&server, &[&arguments[..], &["--dry-run"]].concat()).ok();
    for part in [
        "8 numbers: 3 free, 3 busy\n",
        "1 in the list, but not in the hash: left out (\"999\")",
        "1 in the list, but busy: they carry their call, and do not wait (\"102\")",
        "1 in the list, but down: they do not wait (\"104\")",
        "1 in the list more than once: they wait once, where they came first (\"101\")",
        "1 in the list, and no numbers: left out (\"eve\")",
        "1 idle and up, but not in the list, so that nobody found them: they wait at the end (\"105\")",
        "1 with a state that cannot be read: taken for idle and down (\"107\")",
        "1 in the hash, and no numbers: left out (\"bob\")",
        "dry run: nothing was changed",
    ] {
        assert!(dry.out.contains(part), "no {part:?} in:\n{}", dry.out);
    }
    assert_eq!(client.words("EXISTS {old}:pool {old}:idle:up {old}:numstate"), Reply::Int(2));

    let done = run(&server, &[&arguments[..], &["--lease", "600000"]].concat()).ok();
    assert!(done.out.contains("taken over into '{old}:pool'\n'{old}:idle:up' and"), "{}", done.out);
    assert_eq!(client.words("EXISTS {old}:idle:up {old}:numstate"), Reply::Int(0));
    let states =
        ["100", "102", "103", "104", "106", "107", "999"].map(|n| state_of(&mut client, "{old}:pool", n));
    assert_eq!(states, ["idle+up", "busy+up", "busy+down", "idle+down", "busy+up", "idle+down", "nodata"]);
    assert!(!client.words("NUMPOOL.GET {old}:pool 106").field("until").is_null());
    let queue: Vec<String> =
        (0..3).map(|_| client.words("NUMPOOL.CALL {old}:pool").field("number").text()).collect();
    assert_eq!(queue, ["101", "100", "105"]);

    // Once more there is nothing to take over, and a pool in the way is not touched.
    assert!(run(&server, &arguments).ended(4).err.contains("NOKEY"));
    old_pool(&server);
    assert!(run(&server, &arguments).ended(4).err.contains("EXISTS"));
    assert_eq!(client.words("LLEN {old}:idle:up"), Reply::Int(7));
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
    let done = run(&server, &["numbers", "migrate", "--from", "p", "--key", "{p}", "--keep"]).ok();
    assert_eq!(done.out, "5000 numbers: 2500 free, 1500 busy\ntaken over into '{p}'\n");
    let totals = ["idle_up", "idle_down", "busy_up"].map(|field| pool_info(&mut client, "{p}", field));
    assert_eq!(totals, [2500, 1000, 1500]);
    let module = client.words("NUMPOOL.CALL {p}").field("number").text();
    assert_eq!(module, client.words("FCALL numpool_call 2 {p}:idle:up {p}:numstate").text());
}
