//! What `allot` asks about before it does it, what a dry run says, and what ends it while it reads.

use std::fs;
use std::process::{Command, Stdio};

use allot_tests::daemon::{command, run};
use allot_tests::module::allot;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Reply, ZooKeeperServer, eventually};

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

/// A dry run ends as the change itself would.
#[test]
fn dry_run_says_would_only_of_what_would_be_done() {
    let server = filled();
    let zookeeper = ZooKeeperServer::start();
    let (digest, address) = (server.digest(), zookeeper.address());
    for (line, code) in [
        ("account move p1 --to nosuch --book KEY", 4),
        ("account freeze p7 --book KEY", 4),
        ("account logout p1 --yes --book KEY", 5),
        ("conference end 7 --yes --realm KEY", 4),
        ("conference extend 7 --by 1h --realm KEY", 4),
        ("realm set text licences=5", 4),
        ("unit drain w --realm KEY", 4),
        ("unit undrain w --realm KEY", 4),
        ("realm lift-guard KEY --yes", 1),
        ("node drain nosuch", 4),
        ("node drain nosuch --deadline 1m --yes", 4),
        ("node undrain nosuch", 4),
        ("task pause aaaaffff.16176931.56000000.0", 4),
        ("task stop aaaaffff.16176931.56000000.0 --yes", 4),
        ("task set aaaaffff.16176931.56000000.0 --priority 1", 4),
        ("server use nosuch", 4),
    ] {
        let dry = ends(&server, line, &["--zookeeper", &address, "--dry-run"], code);
        assert!(!dry.out.contains("would"), "{line}: {}", dry.out);
        ends(&server, line, &["--zookeeper", &address], code);
    }
    let kept = ends(&server, "unit drain u --realm KEY --dry-run", &[], 0);
    let counts = ["keeps 1 conference;", "keeps 0 conferences;"];
    assert!(counts.iter().any(|count| kept.out.contains(count)), "{}", kept.out);
    for line in [
        "conference create 2 --realm KEY",
        "conference resize 1 --size 2 --realm KEY",
        "conference move 1 --realm KEY",
        "task submit d.s.t",
        "task retry aaaaffff.16176931.56000000.0",
        "task reassign aaaaffff.16176931.56000000.0",
    ] {
        let refused = ends(&server, line, &["--zookeeper", &address, "--dry-run"], 2);
        assert!(refused.err.contains("there is no --dry-run"), "{line}: {}", refused.err);
    }
    assert_eq!(server.digest(), digest);
    // Conference 1 would take what is reserved for conference 3, and conference 2 is ending.
    let mut raw = server.raw();
    for line in [
        "CONF.RELEASE {r}:conf 1",
        "CONF.CREATE {r}:conf 4 END 4000000000000 SIZE 9",
        "CONF.CREATE {r}:conf 3 START 4000000000000 END 4000003600000 SIZE 17",
    ] {
        assert!(!matches!(raw.words(line), Reply::Error(_)), "{line}");
    }
    for (line, part) in [
        ("conference extend 1 --end 1h --yes --realm KEY", "is ending"),
        ("conference extend 4 --by 1h --realm KEY", "reserved"),
    ] {
        let dry = ends(&server, line, &["--dry-run"], 5);
        let done = ends(&server, line, &[], 5);
        assert!(dry.err == done.err && done.err.contains(part), "{line}: {}\n{}", dry.err, done.err);
    }
    let dry = ends(&server, "conference extend 4 --end 1h --realm KEY", &["--dry-run"], 0);
    assert!(dry.out.contains("dry run: would set the end"), "{}", dry.out);
    assert_eq!(raw.words("CONF.INFO {r}:conf 4").field("end"), Reply::Int(4_000_000_000_000));
}

#[test]
fn tasks_and_compaction_nodes_that_are_not_there_are_4() {
    let (server, zookeeper) = (filled(), ZooKeeperServer::start());
    for line in ["task submit d.s.t --node nosuch", "node drain nosuch", "node undrain nosuch"] {
        let absent = ends(&server, line, &["--zookeeper", &zookeeper.address()], 4);
        assert!(absent.err.contains("compaction node nosuch"), "{line}: {}", absent.err);
    }
    for line in TASKS.iter().filter(|line| line.contains("aaaaffff")) {
        ends(&server, line, &["--zookeeper", &zookeeper.address()], 4);
    }
    ends(&server, "task submit d.s.t", &["--zookeeper", &zookeeper.address()], 5);
    let asked = ends(&server, "task pause --all", &["--zookeeper", &zookeeper.address()], 2);
    assert!(asked.err.contains("this would pause all tasks"), "{}", asked.err);
    ends(&server, "task resume --all", &["--zookeeper", &zookeeper.address()], 2);
}

#[test]
fn errors_name_the_options_of_the_line() {
    let (server, zookeeper) = (filled(), ZooKeeperServer::start());
    for (line, code, part) in [
        ("conference create * --end 1h --realm KEY", 2, "--from KEY"),
        ("conference create 2 --end 1h --start 2h --realm KEY", 2, "--end is not after --start"),
        ("conference create 2 --end 2020-01-01T00:00:00Z --realm KEY", 2, "--end: this time is over"),
        ("conference create 2 --end 2020-01-01T00:00:00Z --request r --realm KEY", 5, "not in the future"),
        ("conference extend 1 --end 2020-01-01T00:00:00Z --realm KEY", 2, "this time is over"),
        ("conference create 2 --size 0 --realm KEY", 2, "--size"),
        ("conference resize 1 --size 0 --realm KEY", 2, "--size"),
        ("account freeze p1 --until 2020-01-01T00:00:00Z --book KEY", 2, "this time is over"),
        ("show list --limit-time 0s", 2, "longer than 0s"),
        ("task set aaaaffff.16176931.56000000.0", 4, "there is no task"),
        ("task history --state x", 2, "--state"),
        ("task submit d.s.t --every 1h", 2, "--every needs --repeat"),
        ("record collect --group g --output - --realm KEY", 2, "allot record list"),
        ("conference get 7 --realm KEY", 4, "hint: allot conference list"),
        ("account get p7 --book KEY", 4, "hint: allot account list"),
    ] {
        let refused = ends(&server, line, &["--zookeeper", &zookeeper.address()], code);
        assert!(refused.err.contains(part) && !refused.err.contains('`'), "{line}: {}", refused.err);
        assert!(!refused.err.contains("(NOTFOUND)"), "{line}: {}", refused.err);
    }
    let json = ends(&server, "conference get 7 --realm KEY", &["--format", "json"], 4);
    assert!(json.err.contains(r#""server_code":"NOTFOUND""#), "{}", json.err);
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
        ("allot pool load newpool <(cat numbers.txt)", "2 numbers created"),
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
