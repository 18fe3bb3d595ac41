//! `allot` at a terminal: questions, long work, rows that are followed, tables as wide as the terminal, colours.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use allot_tests::compaction_cluster::{CompactionCluster, UNHURRIED, script};
use allot_tests::daemon::{Run, command, run};
use allot_tests::module::allot;
use allot_tests::terminal::Terminal;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};
use unicode_width::UnicodeWidthStr as _;

const CTRL_C: &str = "\x03";
/// Clears the terminal from its upper left corner on.
const REDRAWN: &str = "\u{1b}[H\u{1b}[2J";

/// A server with a realm of two units and three conferences, and a show with a buyer whose name is of double width.
fn filled() -> RedisServer {
    let server = RedisServer::start();
    let mut raw = server.raw();
    let plan = r#"{"areas":[{"id":"parkett-links-unten","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#;
    raw.call(&["SEAT.CREATE", "{s}:show-of-a-long-name-2026-12-24T20:00", plan]);
    for line in [
        "SEAT.HOLD {s}:show-of-a-long-name-2026-12-24T20:00 田中さん 2 TTL 600000 TOKEN 領収書-1",
        "SEAT.HOLD {s}:show-of-a-long-name-2026-12-24T20:00 bob 3 TTL 600000 TOKEN t2",
        "CONF.REALM {r}:conf",
        "CMU.JOIN {r}:conf host.of.a.long.name.example.org/u:1:1 CAPACITY 9 LEASE 3600000",
        "CMU.JOIN {r}:conf v:1:1 CAPACITY 9 LEASE 3600000",
        "NUMPOOL.ADD {p}:pool 137",
        "ACCOUNT.BOOK {b}:book",
        "ACCOUNT.MODULE {b}:book m DEPARTMENT d INSTANCES 1",
        "ACCOUNT.ADD {b}:book m QUOTA 5 ACCOUNTS 2 p1 会計",
    ] {
        assert!(!matches!(raw.words(line), Reply::Error(_)), "{line}");
    }
    for number in 1..=3 {
        let created = raw.words(&format!("CONF.CREATE {{r}}:conf {number}"));
        let (unit, epoch) = (created.field("cmu").text(), created.field("epoch").int());
        let opened = raw.words(&format!("CONF.ACK {{r}}:conf {number} {unit} {epoch}"));
        assert!(!matches!(opened, Reply::Error(_)), "{opened:?}");
    }
    server
}

/// Ends the first conference, as a person does.
fn end_of_one(server: &RedisServer) -> Command {
    command(server, &["conference", "end", "1", "--realm", "{r}:conf"])
}

fn is_ending(server: &RedisServer) -> bool {
    let record = server.raw().words("CONF.INFO {r}:conf 1");
    !record.field("ending").is_null()
}

#[test]
fn questions_are_asked_and_only_a_yes_changes() {
    let server = filled();
    for (answer, code) in [("\n", 1), ("n\n", 1), ("yesterday\n", 1), (CTRL_C, 130)] {
        let mut terminal = Terminal::open(&end_of_one(&server), 80);
        terminal.shows("Go on? [y/N]");
        terminal.types(answer);
        let (ended, shown) = terminal.ended();
        assert_eq!(ended, code, "{answer:?}: {shown}");
        assert!(!is_ending(&server), "{answer:?}: {shown}");
    }
    let mut terminal = Terminal::open(&end_of_one(&server), 80);
    terminal.shows("this will end conference 1");
    terminal.types("y\n");
    let (code, shown) = terminal.ended();
    assert!(code == 0 && shown.contains("conference 1 is ending"), "{shown}");
    assert!(is_ending(&server));
}

#[test]
fn long_work_shows_how_far_it_is_and_ctrl_c_says_how_to_go_on() {
    let server = RedisServer::start();
    let path = server.dir().join("numbers.txt");
    let numbers: Vec<String> = (0..300_000).map(|number| format!("49{number:09}\n")).collect();
    fs::write(&path, numbers.concat()).unwrap();
    let load = command(&server, &["pool", "load", "pool", path.to_str().unwrap()]);
    let mut terminal = Terminal::open(&load, 80);
    eventually("some to be in", TIMEOUT, || {
        !matches!(server.raw().words("NUMPOOL.INFO pool"), Reply::Error(_))
    });
    terminal.shows("/300,000, ");
    terminal.types(CTRL_C);
    let (code, shown) = terminal.ended();
    assert_eq!(code, 130, "{shown}");
    for part in ["/s, rest ", " of 300000 numbers are in", "numbers.txt` again goes on"] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let (code, shown) = Terminal::open(&load, 80).ended();
    assert!(code == 0 && shown.contains("numbers created"), "{shown}");
    // In a pipe nothing moves a cursor.
    let piped = run(&server, &["pool", "load", "pool", path.to_str().unwrap()]).ok();
    assert!(!piped.err.contains('\u{1b}') && !piped.out.contains('\u{1b}'), "{}", piped.err);
}

#[test]
fn rows_are_followed_in_place() {
    let server = filled();
    let watch = command(&server, &["conference", "list", "--watch", "--realm", "{r}:conf"]);
    let mut terminal = Terminal::open(&watch, 120);
    eventually("two looks", TIMEOUT, || terminal.shown().matches(REDRAWN).count() >= 2);
    server.raw().words("CONF.CREATE {r}:conf 4930123");
    terminal.shows("4930123");
    terminal.types(CTRL_C);
    let (code, shown) = terminal.ended();
    assert_eq!(code, 130, "{shown}");
    let last = shown.rsplit(REDRAWN).next().unwrap();
    assert_eq!(last.matches("4930123").count(), 1, "{last}");
}

#[test]
fn what_appears_changes_and_disappears_has_a_line_each_in_a_pipe() {
    let server = filled();
    let mut raw = server.raw();
    for format in ["table", "wide", "json", "jsonl", "csv"] {
        let list = ["conference", "list", "--watch", "--realm", "{r}:conf", "--format", format];
        let mut child = command(&server, &list).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap).filter(|line| line.contains("4930123"));
        let mut next = |event: &str| {
            let line = lines.next().unwrap();
            assert!(line.contains(event) && !line.contains("[{"), "{format}: {event}: {line}");
        };
        let created = raw.words("CONF.CREATE {r}:conf 4930123 START 4000000000000 END 4000003600000");
        assert!(!matches!(created, Reply::Error(_)), "{created:?}");
        next("added");
        raw.words("CONF.EXTEND {r}:conf 4930123 END 4000007200000");
        next("changed");
        raw.words("CONF.RELEASE {r}:conf 4930123");
        next("deleted");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// In an interactive bash, which splits words at colons and equals signs.
#[test]
fn bash_completes_keys_and_settings_with_colons_and_equals_signs() {
    let (server, other) = (filled(), RedisServer::start());
    other.command("NUMPOOL.ADD {p}:other 138");
    let script = server.dir().join("completion");
    fs::write(&script, run(&server, &["completion", "bash"]).ok().out).unwrap();
    let url = server.url();
    let mut bash = Command::new("bash");
    let path = format!("{}:/usr/bin:/bin", allot().parent().unwrap().display());
    bash.args(["--norc", "--noprofile", "-i"]).env("PATH", path).env("HOME", server.dir());
    bash.env("ALLOT_SERVER", &url);
    let mut terminal = Terminal::open(&bash, 200);
    terminal.types(&format!("PS1=; source {}; echo re\"\"ady\n", script.display()));
    terminal.shows("ready");
    let elsewhere = format!("allot --server={} pool get {{p}}:", other.url());
    for (typed, rest) in [
        ("allot pool get {p}:p", "ool"),
        ("allot pool get '{p}:p", "ool"),
        ("allot conference list --realm {r}:", "conf"),
        ("allot conference list --realm={r}:c", "onf"),
        ("allot realm set policy=k", "eep"),
        ("allot conference list --stat", "e"),
        (elsewhere.as_str(), "other"),
    ] {
        terminal.types(&format!("{typed}\t"));
        terminal.shows(&format!("{typed}{rest}"));
        // Control-U removes the line.
        terminal.types("\x15");
    }
    terminal.types("exit\n");
    terminal.ended();
}

/// Each line without colours, without the end of the line, as a terminal of so many columns shows it.
fn lines(shown: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain += rest;
    plain.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

/// Attributes and colours that people can read on a light terminal and on a dark one: none, bold, faint, underlined, red,
/// green, yellow, the usual colour.
const READABLE: [&str; 9] = ["0", "1", "2", "4", "22", "31", "32", "33", "39"];

/// Whether all that a command shows fits terminals of 40, 80 and 200 columns.
fn fits(run: &Command) {
    for columns in [40, 80, 200] {
        let (_, shown) = Terminal::open(run, columns).ended();
        for line in lines(&shown) {
            // The terminal wraps errors and usage, so that commands in them can be copied, and a value of one word.
            let is_error = ["hint: ", "allot: ", "Usage: "].iter().any(|word| line.starts_with(word));
            let is_word = line.split_whitespace().count() <= 2;
            let width = line.width();
            assert!(
                width <= columns.into() || is_error || is_word,
                "{run:?} at {columns} has {width}: {line}\n{shown}"
            );
            assert!(!line.contains('\u{fffd}'), "{run:?} at {columns}: {line}");
        }
        for sequence in shown.split("\u{1b}[").skip(1) {
            let (code, _) = sequence.split_once('m').unwrap();
            assert!(READABLE.contains(&code), "{run:?}: {code:?} in {shown:?}");
        }
    }
}

#[test]
fn tables_are_as_wide_as_the_terminal_and_names_of_double_width_align() {
    let server = filled();
    let show = "{s}:show-of-a-long-name-2026-12-24T20:00";
    let words: &[&[&str]] = &[
        &["show", "list"],
        &["show", "get", show, "--map"],
        &["show", "seats", show],
        &["show", "holds", show],
        &["pool", "list"],
        &["pool", "get", "{p}:pool"],
        &["conference", "list", "--realm", "{r}:conf"],
        &["conference", "get", "1", "--realm", "{r}:conf"],
        &["unit", "list", "--realm", "{r}:conf"],
        &["unit", "get", "v", "--realm", "{r}:conf"],
        &["account", "list", "--book", "{b}:book"],
        &["book", "get", "{b}:book"],
        &["server", "sizing"],
        &["server", "check"],
        &["realm", "get", "{r}:conf"],
        &["--help"],
        &["show", "--help"],
        &["task", "--help"],
        &["show", "create", "-h"],
        &["task", "submit", "--help"],
    ];
    words.iter().for_each(|words| fits(&command(&server, words)));
    let (_, shown) = Terminal::open(&command(&server, &["show", "holds", show]), 200).ended();
    let rows = lines(&shown);
    let wide = rows.iter().find(|line| line.contains("田中さん")).unwrap();
    let narrow = rows.iter().find(|line| line.contains("bob")).unwrap();
    // The column after that of the users begins at one place.
    let column = |line: &str, user: &str| {
        let (before, after) = line.split_once(user).unwrap();
        let blanks = after.len() - after.trim_start().len();
        (before.width(), before.width() + user.width() + blanks)
    };
    assert_eq!(column(wide, "田中さん"), column(narrow, "bob"), "{shown}");
}

#[test]
fn tasks_are_listed_as_wide_as_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(
        home.path(),
        "#!/bin/sh\necho 失敗 of a partition, for a reason that takes more than a line\nexit 3\n",
    );
    let cluster = CompactionCluster::start_with(1, &runner, &[UNHURRIED]);
    cluster.partitions(2);
    let id = cluster.submit(&["shop-of-a-long-name", "public", "注文と領収書の表", "--retries", "0"]);
    let _ = cluster.end(&id);
    for words in [&["list"][..], &["get", &id], &["failures", &id], &["history", &id]] {
        fits(&cluster.command(words));
    }
    let address = cluster.zookeeper.address();
    for (noun, verb, name) in [("task", "get", id.as_str()), ("node", "drain", "host0_9876")] {
        let mut shell = Command::new(allot());
        shell.args(["--", "allot", "--zookeeper", &address, noun, verb, ""]).env("COMPLETE", "fish");
        let completed = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        assert!(completed.lines().any(|line| line.starts_with(name)), "{noun}: {completed}");
    }
}

#[test]
fn colours_are_for_terminals_that_have_them() {
    let server = filled();
    let colours = |name: &str, value: &str, more: &[&str]| {
        let words = [&["conference", "list", "--realm", "{r}:conf"], more].concat();
        let mut list = command(&server, &words);
        if !name.is_empty() {
            list.env(name, value);
        }
        let (code, shown) = Terminal::open(&list, 80).ended();
        assert_eq!(code, 0, "{shown}");
        shown.contains("\u{1b}[")
    };
    assert!(colours("", "", &[]));
    assert!(!colours("NO_COLOR", "1", &[]));
    assert!(!colours("TERM", "dumb", &[]));
    assert!(!colours("", "", &["--color", "never"]));
    let piped = |more: &[&str]| -> Run {
        run(&server, &[&["conference", "list", "--realm", "{r}:conf"], more].concat()).ok()
    };
    assert!(!piped(&[]).out.contains('\u{1b}'));
    assert!(piped(&["--color", "always"]).out.contains('\u{1b}'));
}
