//! Every verb of `allot` by exit code: each code is provoked, and means the same for all.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use allot_tests::daemon::{Run, command, run};
use allot_tests::module::{allot, repository};
use allot_tests::{RedisServer, Reply, eventually};
use serde_json::Value;

use super::documentation::agrees;

pub(super) const REALM: &str = "{r}:conf";
pub(super) const BOOK: &str = "{b}:book";
const PLAN: &str = r#"{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#;

/// Verbs on a key, which is `KEY`, and on files of the folder `DIR`. They fail alike where the server cannot be used.
const READS: &[&str] = &[
    "show get KEY",
    "show seats KEY",
    "show holds KEY",
    "show orders KEY",
    "show blocks KEY",
    "show queue KEY",
    "show watch KEY",
    "show export KEY",
    "pool get KEY",
    "conference list --realm KEY",
    "conference get 1 --realm KEY",
    "conference wait 1 --realm KEY",
    "conference watch --realm KEY",
    "record list --realm KEY",
    "unit list --realm KEY",
    "unit get u --realm KEY",
    "unit simulate-loss any --realm KEY",
    "realm get KEY",
    "realm lift-guard KEY --yes",
    "account list --book KEY",
    "account get p1 --book KEY",
    "account history p1 --book KEY",
    "book get KEY",
    "book export --book KEY",
];
const WRITES: &[&str] = &[
    "show alter KEY DIR/part.json",
    "show rehearse KEY",
    "show rehearse --really KEY --yes",
    "conference create 2 --realm KEY",
    "conference extend 1 --end 1h --yes --realm KEY",
    "conference resize 1 --size 2 --realm KEY",
    "conference move 1 --realm KEY",
    "conference end 1 --yes --realm KEY",
    "record collect --group g --output DIR/records --realm KEY",
    "unit drain u --realm KEY",
    "unit drain u --move --yes --realm KEY",
    "unit undrain u --realm KEY",
    "unit drain --host h --realm KEY",
    "unit undrain --host h --realm KEY",
    "unit rebalance --realm KEY",
    "account freeze p1 --book KEY",
    "account freeze p1 --until 1h --book KEY",
    "account unfreeze p1 --book KEY",
    "account limit p1 --cap 5 --turn 15 --book KEY",
    "account move p1 --to m --book KEY",
    "account logout p1 --yes --book KEY",
    "book rebalance --book KEY",
];
/// Verbs that make what is not there.
const MAKES: &[&str] = &[
    "show create KEY DIR/plan.json",
    "pool load KEY DIR/numbers.txt",
    "realm set KEY licences=5",
    "book diff DIR/accounts.csv --book KEY",
    "book apply DIR/accounts.csv --book KEY",
];
/// Verbs on all keys.
const LISTS: &[&str] =
    &["show list", "pool list", "realm list", "book list", "server sizing", "redis DBSIZE"];

/// A verb that makes a key of two others.
const IMPORTS: &[&str] = &["pool import KEY --list l --hash h"];
/// Verbs on tasks and nodes, which are in ZooKeeper.
pub(super) const TASKS: &[&str] = &[
    "task list",
    "task get aaaaffff.16176931.56000000.0",
    "task submit d.s.t",
    "task explain aaaaffff.16176931.56000000.0",
    "task failures aaaaffff.16176931.56000000.0",
    "task retry aaaaffff.16176931.56000000.0",
    "task pause aaaaffff.16176931.56000000.0",
    "task resume aaaaffff.16176931.56000000.0",
    "task stop aaaaffff.16176931.56000000.0 --yes",
    "task set aaaaffff.16176931.56000000.0 --priority 1",
    "task reassign aaaaffff.16176931.56000000.0",
    "task watch aaaaffff.16176931.56000000.0",
    "task history aaaaffff.16176931.56000000.0",
    "task upgrade",
    "node list",
    "node drain n",
    "node undrain n",
];
/// Verbs that need no server, and the doctor.
const ALONE: &[&str] = &[
    "show check DIR/plan.json",
    "book simulate DIR/trace.csv --accounts DIR/accounts.csv",
    "config check",
    "config example",
    "server list",
    "server use far",
    "server check",
];

pub(super) fn words(line: &str, key: &str, server: &RedisServer) -> Vec<String> {
    let dir = server.dir().display().to_string();
    line.split(' ').map(|word| word.replace("KEY", key).replace("DIR", &dir)).collect()
}

fn files(server: &RedisServer) {
    for (name, text) in [
        ("plan.json", PLAN),
        ("part.json", r#"{"limits":{"seats_per_user":3}}"#),
        ("numbers.txt", "138\n139\n"),
        ("accounts.csv", "department,module,account,quota\nd,m,p1,5\n"),
    ] {
        fs::write(server.dir().join(name), text).unwrap();
    }
}

/// A server with a value of each family, and a text.
pub(super) fn filled() -> RedisServer {
    let server = RedisServer::start();
    files(&server);
    let mut raw = server.raw();
    raw.call(&["SEAT.CREATE", "show", PLAN]);
    for line in [
        "SET text x",
        "NUMPOOL.ADD pool 137",
        "CONF.REALM {r}:conf",
        "CMU.JOIN {r}:conf u:1:1 CAPACITY 9 LEASE 3600000",
        "CMU.JOIN {r}:conf v:1:1 CAPACITY 9 LEASE 3600000",
        "CONF.CREATE {r}:conf 1",
        "ACCOUNT.BOOK {b}:book",
        "ACCOUNT.MODULE {b}:book m DEPARTMENT d INSTANCES 1",
        "ACCOUNT.ADD {b}:book m QUOTA 5 ACCOUNTS 1 p1",
    ] {
        assert!(!matches!(raw.words(line), Reply::Error(_)), "{line}");
    }
    server
}

/// The key of the family that a verb is about.
pub(super) fn own_key(line: &str) -> &'static str {
    match line.split(' ').next() {
        Some("show") => "show",
        Some("pool") => "pool",
        Some("account" | "book") => BOOK,
        _ => REALM,
    }
}

fn all() -> impl Iterator<Item = &'static str> {
    [READS, WRITES, MAKES, LISTS, IMPORTS].concat().into_iter()
}

#[track_caller]
pub(super) fn ends(server: &RedisServer, line: &str, more: &[&str], code: i32) -> Run {
    let words = words(line, own_key(line), server);
    let run = run(server, &[&words.iter().map(String::as_str).collect::<Vec<_>>()[..], more].concat());
    assert_eq!(run.code, code, "{line}: {}\n{}", run.out, run.err);
    run
}

#[test]
fn wrong_command_line_is_2_and_says_what_to_write() {
    let server = RedisServer::builder().module(false).start();
    for line in all().chain(TASKS.iter().chain(ALONE).copied()) {
        let refused = ends(&server, line, &["--no-such-option"], 2);
        // Words of a command belong to it.
        assert!(refused.err.contains("no-such-option") || line.starts_with("redis"), "{}", refused.err);
    }
    for (line, hint) in [
        ("shw list", "show"),
        ("show gett k", "get"),
        ("show seats k --state hled", "held"),
        ("conference list --state opened", "open"),
        ("unit drian u", "drain"),
    ] {
        let refused = run(&server, &line.split(' ').collect::<Vec<_>>()).ended(2);
        assert!(refused.err.contains(&format!("'{hint}'")), "{line}: {}", refused.err);
    }
}

#[test]
fn every_verb_of_the_help_is_in_a_list_here() {
    let server = RedisServer::builder().module(false).start();
    let listed = |heading: &str, words: &[&str]| -> Vec<String> {
        let help = run(&server, &[words, &["--help"]].concat()).ok().out;
        let lines = help.lines().skip_while(|line| *line != heading);
        let lines = lines.skip_while(|line| !line.starts_with("  "));
        let entries = lines.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
        entries.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
    };
    let all: Vec<&str> = all().chain(TASKS.iter().chain(ALONE).copied()).collect();
    let nouns = listed("Usage: allot [NOUN [VERB]]", &[]);
    assert!(nouns.len() > 12, "{nouns:?}");
    for noun in nouns {
        for verb in listed("Verbs:", &[&noun]) {
            let begins = format!("{noun} {verb}");
            assert!(all.iter().any(|line| line.starts_with(&begins)), "{begins}");
        }
    }
}

#[test]
fn empty_key_is_refused() {
    let server = filled();
    let digest = server.digest();
    for line in READS.iter().chain(WRITES).chain(MAKES) {
        let words = words(line, "", &server);
        assert_eq!(run(&server, &words).code, 2, "{line}");
    }
    assert_eq!(server.digest(), digest);
}

#[test]
fn no_such_key_and_another_type_are_4_and_say_what_is_there() {
    let server = filled();
    for line in READS.iter().chain(WRITES) {
        let absent = run(&server, &words(line, "{none}", &server)).ended(4);
        assert!(
            absent.err.contains("there is no ") && absent.err.contains("'{none}'"),
            "{line}: {}",
            absent.err
        );
    }
    let other = |line: &str| if own_key(line) == "show" { "pool" } else { "show" };
    for line in READS.iter().chain(WRITES).chain(MAKES) {
        let text = run(&server, &words(line, "text", &server)).ended(4);
        assert!(text.err.contains("'text' is a string of Redis, not "), "{line}: {}", text.err);
        let wrong = run(&server, &words(line, other(line), &server)).ended(4);
        let noun = if other(line) == "show" { "a show, not" } else { "a number pool, not" };
        let hint = format!("hint: allot {} get {}", other(line), other(line));
        assert!(wrong.err.contains(noun) && wrong.err.contains(&hint), "{line}: {}", wrong.err);
    }
    for line in ["conference get 7", "conference end 7 --yes", "unit drain w", "unit get w"] {
        ends(&server, line, &["--realm", REALM], 4);
    }
    ends(&server, "account get p7", &["--book", BOOK], 4);
}

#[test]
fn an_answer_of_nothing_is_1() {
    let server = filled();
    for line in ["show holds KEY", "show orders KEY", "show queue KEY", "show seats KEY --state sold"] {
        let none = ends(&server, line, &[], 1);
        assert!(none.out.is_empty() && !none.err.is_empty(), "{line}");
        let json = ends(&server, line, &["--format", "json"], 1);
        assert_eq!((json.out.as_str(), json.err.as_str()), ("[]\n", ""), "{line}");
    }
    ends(&server, "conference list --state pending --realm KEY", &[], 1);
    ends(&server, "book diff DIR/accounts.csv --instances 1 --book {new}", &[], 1);
    assert_eq!(run(&server, &["redis", "GET", "nothing"]).code, 1);
    assert_eq!(run(&server, &["realm", "lift-guard", REALM, "--yes"]).code, 1);
    // A book that equals the table.
    ends(&server, "book diff DIR/accounts.csv --book KEY", &[], 0);
}

#[test]
fn wrong_input_is_3_with_line_and_column() {
    let server = RedisServer::start();
    let file = |name: &str, text: &str| {
        let path = server.dir().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let cases = [
        ("show create k", "area,row,seat,colour\na,1,1,red\n", "line 1: there is no column 'tier'"),
        ("show create k", "area;row;seat;tier\na;1;1\n", "line 2, column 4: 3 fields under 4 columns"),
        (
            "show create k",
            "area\trow\tseat\ttier\na\t1\t\"1\tt\na\t1\t2\tt\n",
            "line 2, column 5: this quote is never",
        ),
        ("show create k", "{\"areas\":[{\"id\":1}]}", "areas[0].id"),
        ("show alter k", "{\"limits\":", "line 1 column"),
        ("pool load k", "138\nbob\n", "line 2, column 1: 'bob' is no number"),
        ("pool load k", "site,number\na,138\nb\n", "line 3, column 2: 1 fields"),
        ("book diff", "department,module,account,quota\nd,m,p1,many\n", "line 2: quota 'many'"),
        ("book apply", "department,module,acount,quota\nd,m,p1,1\n", "no column 'account'"),
    ];
    for (number, (line, text, part)) in cases.into_iter().enumerate() {
        let path = file(&format!("input{number}"), text);
        let words: Vec<&str> = line.split(' ').chain([path.as_str()]).collect();
        let refused = run(&server, &words).ended(3);
        assert!(refused.err.contains(part), "{line}: {}", refused.err);
        // The same from standard input.
        let words: Vec<&str> = line.split(' ').chain(["-"]).collect();
        let piped = piped(&server, &words, text);
        assert!(piped.code == 3 && piped.err.contains(part), "{line} -: {}", piped.err);
    }
    assert_eq!(server.raw().words("DBSIZE"), Reply::Int(0));
    // The first ten of many, after the hint.
    let many = file("many", &"x\n".repeat(25));
    let refused = run(&server, &["pool", "load", "k", &many]).ended(3);
    let lines: Vec<&str> = refused.err.lines().collect();
    assert!(lines[0].contains("25 problems") && lines[1].starts_with("hint: "), "{}", refused.err);
    assert_eq!((lines.len(), lines[12]), (13, "  ... and 15 more"), "{}", refused.err);
    let json = run(&server, &["pool", "load", "k", &many, "--format", "json"]).ended(3);
    let failure: Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(
        (&failure["code"], &failure["word"], &failure["problem_count"]),
        (&3.into(), &"input".into(), &25.into())
    );
    assert_eq!(failure["problems"].as_array().unwrap().len(), 10);
    // The format may be named by the environment or a file as well.
    let file = server.dir().join("json.toml");
    fs::write(&file, "format = \"json\"\n").unwrap();
    let in_file = run(&server, &["show", "get", "k", "--config", file.to_str().unwrap()]).ended(4);
    let slip = command(&server, &["show", "gett", "k"]).env("ALLOT_FORMAT", "json").output().unwrap();
    for said in [in_file.err, String::from_utf8(slip.stderr).unwrap()] {
        let failure: Value = serde_json::from_str(&said).unwrap();
        assert!(failure["code"].is_u64() && failure["hint"].is_string(), "{said}");
    }
    // A file that is too large is not read.
    let sparse = server.dir().join("sparse");
    File::create(&sparse).unwrap().set_len(2 << 30).unwrap();
    let began = Instant::now();
    let refused = run(&server, &["pool", "load", "k", sparse.to_str().unwrap()]).ended(3);
    assert!(refused.err.contains("the limit is 1.00 GiB"), "{}", refused.err);
    assert!(began.elapsed() < Duration::from_secs(3));
    fs::write(server.dir().join("config.toml"), "[redis]\n").unwrap();
    let config = server.dir().join("config.toml");
    run(&server, &["config", "check", "--config", config.to_str().unwrap()]).ended(3);
}

fn piped(server: &RedisServer, words: &[&str], text: &str) -> Run {
    let mut command = command(server, words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
}

#[test]
fn tables_with_other_separators_are_read_also_from_standard_input() {
    let server = RedisServer::start();
    for (number, separator) in [",", ";", "\t"].into_iter().enumerate() {
        let key = format!("show{number}");
        let table = "area,row,seat,tier\na,1,1,t\na,1,2,t\n".replace(',', separator);
        assert_eq!(piped(&server, &["show", "create", &key, "-"], &table).code, 0);
        let numbers = "site,number\nx,138\ny,139\n".replace(',', separator);
        assert_eq!(piped(&server, &["pool", "load", &format!("pool{number}"), "-"], &numbers).code, 0);
        let accounts = "department,module,account,quota\nd,m,p1,5\n".replace(',', separator);
        let book = format!("book{number}");
        assert_eq!(piped(&server, &["book", "apply", "-", "--book", &book], &accounts).code, 0);
        assert_eq!(server.raw().words(&format!("NUMPOOL.INFO pool{number}")).field("total"), Reply::Int(2));
    }
}

#[test]
fn refusals_as_things_stand_are_5() {
    let server = filled();
    fs::write(server.dir().join("other.json"), PLAN.replace("1-9", "1-8")).unwrap();
    server.command("SEAT.PICK show ann TTL 600000 SEATS 1 a-1-1");
    fs::write(server.dir().join("part.json"), r#"{"remove_seats":["a-1-1"]}"#).unwrap();
    for line in [
        "show create KEY DIR/other.json",
        "show create KEY DIR/other.json --dry-run",
        "show alter KEY DIR/part.json",
        "show alter KEY DIR/part.json --dry-run",
        "conference create 1 --realm KEY",
        "conference move 1 --realm KEY",
        "account logout p1 --yes --book KEY",
    ] {
        ends(&server, line, &[], 5);
    }
    assert_eq!(run(&server, &["redis", "SEAT.BLOCK", "show", "1", "a-1-1"]).code, 5);
    let plain = RedisServer::builder().module(false).start();
    let unknown = run(&plain, &["redis", "SEAT.STAT", "show"]).ended(5);
    assert!(unknown.err.contains("load the module"), "{}", unknown.err);
}

#[test]
fn commands_of_redis_are_explained_and_deletions_asked_about() {
    let server = filled();
    let keys = || server.raw().words("DBSIZE").int();
    let before = keys();
    for (line, part) in [
        ("DEL show", "--yes"),
        ("UNLINK show", "--yes"),
        ("FLUSHALL", "--yes"),
        ("CONF.REALM KEY DROP", "--yes"),
        ("DEL show -n", "before redis"),
        ("DEL show -yn", "before redis"),
        ("DEL show --yes", "allot redis -- DEL show --yes"),
        ("SEAT.HOLD show", "SEAT.HOLD key user count TTL"),
        ("SEAT.HOLDD show", "similar: SEAT.HOLD"),
    ] {
        let words: Vec<&str> = ["redis"].into_iter().chain(line.split(' ')).collect();
        let refused = run(&server, &words).ended(2);
        assert!(refused.err.contains(part), "{line}: {}", refused.err);
    }
    assert_eq!(keys(), before);
    let own = run(&server, &["redis", "--", "SADD", "words", "-n"]).ok();
    assert_eq!(own.out, "1\n");
    run(&server, &["--yes", "redis", "DEL", "words"]).ok();
    let help = run(&server, &["help", "seat.confirm"]).ok();
    assert!(help.out.starts_with("SEAT.CONFIRM key token"), "{}", help.out);
    let all = run(&server, &["help", "commands"]).ok();
    assert!(all.out.contains("NUMPOOL.HANGUP") && all.out.contains("CONF.CREATE"), "{}", all.out);
    let typo = run(&server, &["help", "SEAT.CONFIRN"]).ended(2);
    assert!(typo.err.contains("similar: SEAT.CONFIRM"), "{}", typo.err);
}

#[test]
fn dry_run_of_a_thing_that_is_not_there_is_4() {
    let server = filled();
    for line in ["account freeze nobody", "account unfreeze nobody", "account limit nobody --cap 1"] {
        let words: Vec<&str> = line.split(' ').chain(["--book", "{b}:book", "--dry-run"]).collect();
        run(&server, &words).ended(4);
    }
}

#[test]
fn conference_is_extended_by_a_time_and_shortened_only_when_told() {
    let server = filled();
    let extend = |options: &[&str]| {
        let words = [&["conference", "extend", "1", "--realm", "{r}:conf"], options].concat();
        run(&server, &words)
    };
    let end = || server.raw().words("CONF.INFO {r}:conf 1").field("end").int();
    assert!(extend(&["--by", "1h"]).ended(5).err.contains("no planned end"));
    assert!(extend(&["--end", "2h"]).ended(2).err.contains("planned end: never"));
    extend(&["--end", "2h", "--yes"]).ok();
    let planned = end();
    extend(&["--by", "1h"]).ok();
    assert_eq!(end(), planned + 3_600_000);
    assert!(extend(&["--end", "10m"]).ended(2).err.contains("planned end: 2"));
    assert_eq!(end(), planned + 3_600_000);
    extend(&["--end", "10m", "--yes"]).ok();
    assert!(end() < planned);
}

#[test]
fn server_in_use_is_named_with_what_names_it() {
    let server = filled();
    let shown = run(&server, &["--format", "json", "config", "check"]).ok();
    assert!(shown.out.contains("\"named_by\":\"ALLOT_SERVER\""), "{}", shown.out);
    let file = server.dir().join("ghost.toml");
    fs::write(&file, "server = \"ghost\"\n[servers.eyes]\nurl = \"redis://127.0.0.1:1\"\n").unwrap();
    let mut ghost = allot_tests::daemon::command(&server, &["config", "check", "--config"]);
    ghost.arg(&file).env_remove("ALLOT_SERVER");
    let output = ghost.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("[servers.ghost]") && error.contains("eyes"), "{error}");
}

#[test]
fn password_and_acl_are_7() {
    let server = filled();
    let mut raw = server.raw();
    raw.words("ACL SETUSER few on >few ~* -@all +ping +type");
    raw.words("CONFIG SET requirepass secret");
    for line in all() {
        let asked = ends(&server, line, &[], 7);
        assert!(
            asked.err.contains("ALLOT_PASSWORD_FILE") && !asked.err.contains("secret"),
            "{line}: {}",
            asked.err
        );
        let words = words(line, own_key(line), &server);
        let output =
            command(&server, &words).env("ALLOT_USER", "few").env("ALLOT_PASSWORD", "few").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(7), "{line}: {said}");
        let wrong = command(&server, &words).env("ALLOT_PASSWORD", "wrong").output().unwrap();
        assert_eq!(wrong.status.code(), Some(7), "{line}");
    }
    let json = ends(&server, "show list", &["--format", "json"], 7);
    let failure: Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!((&failure["code"], &failure["word"]), (&7.into(), &"denied".into()), "{failure}");
}

/// A server that accepts and never answers.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[test]
fn servers_that_are_away_silent_or_no_redis_are_6() {
    let server = RedisServer::builder().module(false).start();
    files(&server);
    let (_listener, silent) = silent();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let no_redis = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in other.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    // As ZooKeeper does with what it cannot read.
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let zookeeper = closing.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in closing.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]);
        }
    });
    for line in [&["redis", "PING"][..], &["show", "list"]] {
        let closed = run(&server, &[&["--server", &zookeeper], line].concat()).ended(6);
        assert!(closed.err.contains("is it a Redis server"), "{}", closed.err);
    }
    let away = run(&server, &["--server", "127.0.0.1:1", "redis", "DBSIZE"]).ended(6);
    assert!(away.err.contains("--server NAME|URL"), "{}", away.err);
    for line in all().filter(|line| !line.starts_with("redis")) {
        let away = ends(&server, line, &["--server", "127.0.0.1:1"], 6);
        assert!(away.err.contains("--server NAME|URL"), "{line}: {}", away.err);
        let began = Instant::now();
        let late = ends(&server, line, &["--server", &silent, "--limit-time", "300ms"], 6);
        assert!(began.elapsed() < Duration::from_secs(3), "{line}");
        assert!(late.err.contains("did not answer within 300ms"), "{line}: {}", late.err);
        assert!(!late.err.contains("WARN") && !late.err.contains("INFO"), "log lines: {}", late.err);
        let odd = ends(&server, line, &["--server", &no_redis, "--limit-time", "1s"], 6);
        assert!(odd.err.contains("Redis"), "{line}: {}", odd.err);
    }
    for line in TASKS {
        ends(&server, line, &["--zookeeper", "127.0.0.1:1", "--limit-time", "300ms"], 6);
        ends(&server, line, &[], 2);
    }
}

fn started(server: &RedisServer, line: &str, more: &[&str]) -> Child {
    let words = words(line, own_key(line), server);
    let mut command = command(server, &words);
    command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(super) fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn signals_are_130_and_143() {
    let server = RedisServer::builder().module(false).start();
    files(&server);
    let (listener, silent) = silent();
    listener.set_nonblocking(true).unwrap();
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        for line in all().filter(|line| !line.starts_with("redis")) {
            let child = started(&server, line, &["--server", &silent, "--limit-time", "1m"]);
            // It has connected, so it listens for signals.
            let mut stream = None;
            eventually("a connection", Duration::from_secs(20), || {
                stream = listener.accept().ok();
                stream.is_some()
            });
            signal(&child, name);
            let output = child.wait_with_output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{line}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn full_disk_is_8_and_a_closed_pipe_is_no_failure() {
    let server = filled();
    let reads = [
        "show get KEY",
        "show seats KEY",
        "show export KEY",
        "pool get KEY",
        "conference list --realm KEY",
        "unit list --realm KEY",
        "realm get KEY",
        "account list --book KEY",
        "book get KEY",
        "book export --book KEY",
    ];
    let lines = reads.iter().copied().chain(LISTS.iter().copied()).chain([
        "show check DIR/plan.json",
        "config check",
        "version",
        "help formats",
        "--help",
        "config example",
    ]);
    for line in lines {
        for format in ["table", "json", "csv"] {
            let words = words(line, own_key(line), &server);
            let full = File::options().write(true).open("/dev/full").unwrap();
            let mut to_full = command(&server, &words);
            let output = to_full.env("ALLOT_FORMAT", format).stdout(full).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code() == Some(8) && said.contains("No space left"),
                "{line} {format}: {said}"
            );
            let mut closed = command(&server, &words);
            let mut child = closed
                .env("ALLOT_FORMAT", format)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            drop(child.stdout.take());
            let output = child.wait_with_output().unwrap();
            assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{line} {format}");
            // No standard output at all.
            let mut bash = Command::new("bash");
            bash.args(["-c", "exec \"$@\" >&-", "bash"]).arg(allot()).args(words);
            bash.env("ALLOT_FORMAT", format).env("ALLOT_SERVER", server.url()).env("HOME", server.dir());
            let output = bash.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code() == Some(8) && said.contains("standard output: it is closed"),
                "{line} {format}: {said}"
            );
        }
    }
    // A file that cannot grow, as on a disk that is full.
    let file = server.dir().join("full.csv");
    let words = ["record", "collect", "--group", "g", "--format", "csv", "--realm", REALM, "--output"];
    let limited = format!("trap '' XFSZ; ulimit -f 0; exec '{}' \"$@\"", allot().display());
    let mut bash = Command::new("bash");
    bash.args(["-c", &limited, "allot"]).args(words).arg(file).env("ALLOT_SERVER", server.url());
    let output = bash.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(8) && said.contains("the file of records"), "{said}");
    let device = run(&server, &[&words[..], &["/dev/full"]].concat()).ended(3);
    assert!(device.err.contains("no regular file"), "{}", device.err);
}

#[test]
fn dry_runs_change_nothing_and_say_what_they_would() {
    let server = filled();
    let digest = server.digest();
    let mut honoured = 0;
    for line in WRITES
        .iter()
        .chain(MAKES)
        .copied()
        .chain(["pool load KEY DIR/numbers.txt", "unit drain u --move --realm KEY"])
    {
        let words = words(line, own_key(line), &server);
        let dry = run(&server, &[&words[..], &["--dry-run".to_owned()]].concat());
        // What the server cannot be asked is refused, and never done.
        let refused = dry.code == 2 && dry.err.contains("there is no --dry-run");
        let is_diff = line.starts_with("book diff");
        assert!(
            refused
                || is_diff
                || dry.out.contains("dry run")
                || dry.out.contains("is unchanged")
                || [1, 5].contains(&dry.code),
            "{line}: {} {}",
            dry.out,
            dry.err
        );
        honoured += u32::from(dry.out.contains("dry run"));
        assert_eq!(server.digest(), digest, "{line} changed something");
    }
    assert!(honoured >= 12, "only {honoured}");
}

#[test]
fn mass_changes_want_a_yes() {
    let server = filled();
    let digest = server.digest();
    for line in
        ["conference end 1 --realm KEY", "unit drain u --move --realm KEY", "show rehearse --really KEY"]
    {
        let asked = ends(&server, line, &[], 2);
        assert!(asked.err.contains("this would ") && asked.err.contains("--yes"), "{line}: {}", asked.err);
    }
    run(&server, &["redis", "CONF.TERM", REALM, "0", "me", "FORCE"]).ended(2);
    assert_eq!(server.digest(), digest);
    for line in [
        "HSET {r}:conf:guard units u",
        "ACCOUNT.ATTACH {b}:book m i",
        "ACCOUNT.LOGIN {b}:book p1 i t TTL 60000",
    ] {
        assert!(!matches!(server.raw().words(line), Reply::Error(_)), "{line}");
    }
    for (line, part) in [
        ("realm lift-guard KEY", "lift the mass-failure guard"),
        ("account logout p1 --book KEY", "end the login of t"),
    ] {
        let asked = ends(&server, line, &[], 2);
        assert!(asked.err.contains(part) && asked.err.contains("--yes"), "{line}: {}", asked.err);
    }
}

#[test]
fn rehearsal_sells_a_copy_and_leaves_nothing() {
    let server = filled();
    server.command("SEAT.PICK show ann TTL 600000 SEATS 1 a-1-1");
    let digest = server.digest();
    let plan = server.dir().join("plan.json").display().to_string();
    for what in ["show", &plan] {
        let report = run(
            &server,
            &["show", "rehearse", what, "--buyers", "5", "--until-sold-out", "--format", "json"],
        )
        .ok();
        let report: Value = serde_json::from_str(&report.out).unwrap();
        assert_eq!(report["after"]["sold"], 9, "{report}");
        assert_eq!(server.digest(), digest);
    }
    // Ctrl-C removes the copy as well.
    let child = started(&server, "show rehearse KEY --buyers 5 --duration 1m", &[]);
    let keys = || server.raw().words("KEYS *rehearsal*").array().len();
    eventually("a copy", Duration::from_secs(20), || keys() == 1);
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && said.contains("the copy is removed"), "{said}");
    assert_eq!(keys(), 0);
    assert_eq!(server.digest(), digest);
}

#[test]
fn interrupted_load_says_how_much_is_in_and_goes_on() {
    let server = RedisServer::start();
    let numbers: Vec<String> = (0..300_000).map(|number| format!("49{number:09}\n")).collect();
    let numbers = numbers.concat();
    let path = server.dir().join("numbers.txt");
    fs::write(&path, numbers).unwrap();
    let child = started(&server, "pool load KEY DIR/numbers.txt", &[]);
    let total = || server.raw().words("NUMPOOL.INFO pool");
    eventually("some to be in", Duration::from_secs(60), || {
        matches!(total(), Reply::Error(_)) || total().field("total").int() < 300_000
    });
    eventually("some to be in", Duration::from_secs(60), || !matches!(total(), Reply::Error(_)));
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(130) && said.contains(" of 300000 numbers are in"), "{said}");
    assert!(
        said.contains("`allot pool load pool /") && said.contains("numbers.txt` again goes on"),
        "{said}"
    );
    let done = run(&server, &["pool", "load", "pool", path.to_str().unwrap()]).ok();
    assert!(!done.out.contains("300000 numbers created"), "{}", done.out);
    assert_eq!(total().field("total"), Reply::Int(300_000));
}

#[test]
fn output_begins_before_the_last_seat_is_read() {
    let server = RedisServer::start();
    let rows: Vec<String> = (0..1000)
        .map(|row| format!(r#"{{"label":"{row}","rank":{row},"tier":"t","seats":"1-300"}}"#))
        .collect();
    let plan = format!(r#"{{"areas":[{{"id":"a","rows":[{}]}}]}}"#, rows.join(","));
    server.raw().call(&["SEAT.CREATE", "show", &plan]);
    for line in
        ["show seats KEY", "show seats KEY --format jsonl", "show export KEY", "show seats KEY --format json"]
    {
        let listed = server.counted("seat.list", "calls");
        let mut child = started(&server, line, &[]);
        let mut first = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        // The pipe is full soon, so the command waits and cannot have read all parts.
        let parts = server.counted("seat.list", "calls") - listed;
        assert!(parts < 50, "{line}: {parts} parts before the first line was read");
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success(), "{line}");
    }
}

#[test]
fn formats_have_the_same_names_and_typed_values() {
    let server = filled();
    let json = |line: &str| -> Value {
        serde_json::from_str(&ends(&server, line, &["--format", "json"], 0).out).unwrap()
    };
    let conference = json("conference get 1 --realm KEY");
    assert!(conference["recoverable"].is_boolean(), "{conference}");
    let created = conference["created"].as_str().unwrap();
    assert!(created.ends_with('Z') && created.contains('T'), "{created}");
    let realm = json("realm get KEY");
    assert_eq!(realm["retry_ms"], 300_000);
    let listed = json("conference list --realm KEY");
    let table = ends(&server, "conference list --realm KEY", &["--format", "wide"], 0).out;
    let csv = ends(&server, "conference list --realm KEY", &["--format", "csv"], 0).out;
    let mut names: Vec<&str> = listed[0].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let sorted = |line: &str, separator: &str| {
        let mut all: Vec<String> = line
            .split(separator)
            .filter(|name| !name.is_empty())
            .map(|name| name.trim().to_owned())
            .collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(table.lines().next().unwrap(), " "), names);
    assert_eq!(sorted(csv.lines().next().unwrap(), ","), names);
    let lines = ends(&server, "conference list --realm KEY", &["--format", "jsonl"], 0).out;
    assert_eq!(serde_json::from_str::<Value>(lines.lines().next().unwrap()).unwrap(), listed[0]);
    // One line after a write.
    for line in [
        "conference extend 1 --end 1h30m --yes --realm KEY",
        "conference resize 1 --size 2 --realm KEY",
        "unit drain u --realm KEY",
        "account freeze p1 --book KEY",
    ] {
        assert_eq!(ends(&server, line, &[], 0).out.lines().count(), 1, "{line}");
    }
    let changed = ends(&server, "account unfreeze p1 --book KEY", &["--format", "csv"], 0).out;
    assert!(changed.starts_with("account,state,") && changed.lines().count() == 2, "{changed}");
    // A change that cannot be told is told to be made.
    let mut full = command(&server, &["account", "freeze", "p1", "--book", BOOK]);
    let output = full.stdout(File::options().write(true).open("/dev/full").unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the change is made"));
    let ended = ends(&server, "conference end 1 --yes --realm KEY", &[], 0).out;
    assert_eq!(ended, "conference 1 is ending\n");
}

/// The lines of the blocks of a page that are marked `allot`: each command, and what it prints.
fn sessions(page: &str) -> Vec<(String, String)> {
    let (mut all, mut inside): (Vec<(String, String)>, bool) = (Vec::new(), false);
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```allot";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            all.push((command.to_owned(), String::new()));
        } else if let Some((_, printed)) = all.last_mut().filter(|_| inside) {
            printed.push_str(line);
            printed.push('\n');
        }
    }
    all
}

#[test]
fn sessions_of_the_page_on_the_command_line_go_as_written() {
    let page = fs::read_to_string(repository().join("docs/command-line.md")).unwrap();
    let server = RedisServer::start();
    let sessions = sessions(&page);
    assert!(sessions.len() > 10, "only {}", sessions.len());
    for (line, printed) in sessions {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let output = command(&server, &words).current_dir(repository()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(agrees(printed.trim_end(), said.trim_end()), "$ {line}\n{said}");
    }
}

/// What each shell completes: a line, and the end of one of the words that complete it.
const COMPLETIONS: [(&str, &str); 7] = [
    ("allot sh", "show"),
    ("allot show get s", "show"),
    ("allot show seats show --state h", "held"),
    ("allot unit drain --realm {r}:conf u", "u"),
    ("allot realm set {r}:conf pla", "place=load"),
    ("allot conference get --realm {r}:conf 1", "1"),
    ("allot show create k DIR/pla", "plan.json"),
];

/// Lets a shell complete each line by a script, with these variables: `SCRIPT` (what `allot completion` prints), and `LINE`.
/// The script prints the words. A shell that is not installed is passed over.
fn completes(shell: &str, script: &str) {
    if Command::new(shell).arg("--version").output().is_err() {
        eprintln!("{shell} is not installed, so its completion is not tested; make deps installs it");
        return;
    }
    let server = filled();
    let registration = server.dir().join("completion");
    fs::write(&registration, run(&server, &["completion", shell]).ok().out).unwrap();
    let path = format!("{}:/usr/bin:/bin", allot().parent().unwrap().display());
    for (line, expected) in COMPLETIONS {
        let line = line.replace("DIR", &server.dir().display().to_string());
        let output = Command::new(shell)
            .args(["-c", script])
            .envs([("PATH", path.as_str()), ("ALLOT_SERVER", &server.url()), ("LINE", &line)])
            .envs([("SCRIPT", &registration), ("HOME", &server.dir().to_path_buf())])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (found, said) = (text(&output.stdout), text(&output.stderr));
        assert!(found.lines().any(|word| word.ends_with(expected)), "{shell}: {line}: {found}{said}");
    }
}

#[test]
fn bash_completes_words_files_and_what_the_server_has() {
    completes(
        "bash",
        r#"source "$SCRIPT"; COMP_WORDS=($LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _clap_complete_allot allot "${COMP_WORDS[$COMP_CWORD]}"; printf '%s\n' "${COMPREPLY[@]}""#,
    );
}

#[test]
fn fish_completes_words_files_and_what_the_server_has() {
    completes("fish", r#"source $SCRIPT; complete -C "$LINE" | string replace --regex '\t.*' ''"#);
}

/// In an interactive zsh, since completion belongs to its editor of lines. Control-X prints the line.
#[test]
fn zsh_completes_words_files_and_what_the_server_has() {
    completes(
        "zsh",
        r#"zmodload zsh/zpty; zpty shell zsh -f -i
        zpty -w shell 'PS1=; autoload -U compinit; compinit -u -D; source "$SCRIPT"; bindkey "^I" menu-complete
            report() { print -r -- "<$BUFFER>"; zle kill-buffer }; zle -N report; bindkey "^X" report; print ready'
        zpty -r shell out $'*\nready*'; zpty -w -n shell "$LINE"$'\t'; sleep 1
        zpty -w -n shell $'\x18'; zpty -r shell out '*<*>*'
        line=${${out##*<}%%>*}; print -r -- "${${=line}[-1]}""#,
    );
}

/// Runs a command to its end, and prints its figures.
fn measured(server: &RedisServer, line: &str, count: f64) {
    let began = Instant::now();
    let mut child = command(server, &words(line, "", server)).stdout(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (mut out, mut buffer) = (child.stdout.take().unwrap(), vec![0; 1 << 20]);
    let (mut first, mut peak) = (None, 0);
    let mut look = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim_end_matches("kB").trim().parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0));
    };
    let ended = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while out.read(&mut buffer).unwrap() > 0 {
                first.get_or_insert_with(|| began.elapsed());
            }
        });
        while !reader.is_finished() {
            look();
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap()
    });
    assert!(ended.success(), "{line}");
    let (all, first) = (began.elapsed(), first.unwrap_or_default());
    println!(
        "{line}: first line after {first:.0?}, {all:.1?} in all, {:.0} a second, {} MiB",
        count / all.as_secs_f64(),
        peak / 1024
    );
}

#[test]
#[ignore = "prints figures: a million of each, for docs/benchmarks.md"]
fn figures_of_the_command_line() {
    const MILLION: u32 = 1_000_000;
    let server = RedisServer::start();
    let file = |name: &str, text: String| fs::write(server.dir().join(name), text).unwrap();
    let seat = |seat: u32| format!("{},{},{},gold\n", seat / 100_000, seat / 1000 % 100, seat % 1000);
    let seats: Vec<String> = (0..MILLION).map(seat).collect();
    file("seats.csv", format!("area,row,seat,tier\n{}", seats.concat()));
    let numbers: Vec<String> = (0..MILLION).map(|number| format!("49{number:09}\n")).collect();
    file("numbers.txt", numbers.concat());
    for line in [
        "show create show DIR/seats.csv",
        "show seats show --format csv",
        "show seats show --format jsonl",
        "show seats show",
        "show export show",
        "pool load pool DIR/numbers.txt --register",
        "pool load pool DIR/numbers.txt",
        "pool get pool",
    ] {
        measured(&server, line, f64::from(MILLION));
    }
    measured(&server, "--help", 1.0);
}
