//! What `allot` asks about before it does it, what a dry run says, and what ends it while it reads.

use std::fs;
use std::process::{Command, Stdio};

use allot_tests::daemon::{command, run};
use allot_tests::module::allot;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ZooKeeperServer, eventually};

use super::verbs::{TASKS, ends, filled, own_key, signal, words};

#[test]
fn commands_of_redis_that_destroy_values_of_allot_are_asked_about() {
    let server = filled();
    let digest = server.digest();
    for line in [
        "SET show x",
        "set show x",
        "GETSET show x",
        "GETDEL show",
        "RENAME show other",
        "RENAME text show",
        "COPY text show REPLACE",
        "EXPIRE show 1",
        "PEXPIREAT pool 1",
        "MOVE pool 1",
        "SORT list STORE show",
        "NUMPOOL.DEL pool 137",
        "ACCOUNT.DEL {b}:book ACCOUNTS 1 p1",
        "ACCOUNT.DELMODULE {b}:book m",
        "XTRIM {r}:conf:evt MAXLEN 0",
        "XGROUP DESTROY {r}:conf:evt billing",
        "RENAME {r}:conf:evt other",
        "EXPIRE {r}:conf:evt 1",
    ] {
        let words: Vec<&str> = ["redis"].into_iter().chain(line.split(' ')).collect();
        let asked = run(&server, &words).ended(2);
        assert!(asked.err.contains("this would ") && asked.err.contains("--yes"), "{line}: {}", asked.err);
    }
    assert_eq!(server.digest(), digest);
    // What takes nothing away is not asked about.
    for line in [
        "TYPE show",
        "EXISTS show pool",
        "SET text y",
        "EXPIRE text 1000",
        "COPY show copy",
        "SEAT.STAT show",
        "XLEN {r}:conf:evt",
        "XGROUP CREATE {r}:conf:evt billing 0",
        "XREADGROUP GROUP billing me STREAMS {r}:conf:evt >",
    ] {
        run(&server, &["redis"].into_iter().chain(line.split(' ')).collect::<Vec<_>>()).ok();
    }
    run(&server, &["--yes", "redis", "RENAME", "show", "other"]).ok();
}

/// Whether a process hears SIGINT and SIGTERM.
fn hears_signals(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let both = (1 << (2 - 1)) | (1 << (15 - 1));
    caught & both == both
}

#[test]
fn signals_end_commands_that_wait_for_their_input() {
    let server = filled();
    let digest = server.digest();
    for line in [
        "show create new -",
        "show check -",
        "show alter KEY -",
        "show rehearse -",
        "pool load KEY -",
        "book diff - --book KEY",
        "book apply - --book KEY",
        "book simulate - --accounts DIR/accounts.csv",
    ] {
        for (name, code) in [("-INT", 130), ("-TERM", 143)] {
            let mut command = command(&server, &words(line, own_key(line), &server));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            eventually("signals to be heard", TIMEOUT, || hears_signals(child.id()));
            signal(&child, name);
            // Its standard input stays open.
            eventually(&format!("the end of {line}"), TIMEOUT, || child.try_wait().unwrap().is_some());
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        }
    }
    assert_eq!(server.digest(), digest);
}

#[test]
fn pipes_are_read_as_files() {
    let server = filled();
    for (script, printed) in [
        ("allot show check <(cat plan.json)", "seats  9"),
        ("cat plan.json | allot show check /dev/stdin", "seats  9"),
        ("allot show create new <(cat plan.json)", "show 'new' is created"),
        ("allot show rehearse <(cat plan.json) --buyers 1", "the books balance"),
        ("allot pool load new <(cat numbers.txt)", "2 numbers created"),
        ("cat trace.csv | allot book simulate - --accounts accounts.csv", "instructions  3"),
        ("allot book simulate <(cat trace.csv) --accounts - < accounts.csv", "instructions  3"),
    ] {
        fs::write(server.dir().join("trace.csv"), "time,module,instance,count\n0,m,i,3\n").unwrap();
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).current_dir(server.dir()).env("ALLOT_SERVER", server.url());
        let path = format!("{}:/usr/bin:/bin", allot().parent().unwrap().display());
        let output = bash.env("PATH", path).env("HOME", server.dir()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() && said.contains(printed), "{script}: {said}");
    }
}
