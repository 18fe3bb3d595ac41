//! Compaction end to end: a real ZooKeeper, units as processes, runners as programs.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use allot_tests::daemon::Run;
use allot_tests::module::repository;
use allot_tests::wait::GENEROUS;
use allot_tests::{Process, ZooKeeperServer, allotd, eventually};
use serde_json::Value;
use tempfile::TempDir;

/// Far more than any of these tests needs.
const LONG: Duration = Duration::from_secs(240);

struct Party {
    zookeeper: ZooKeeperServer,
    dir: TempDir,
    units: Vec<Process>,
}

impl Party {
    /// So many units with this runner, whose partitions are the files of the folder `data`.
    fn start(count: usize, runner: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("allot-compaction-").tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        let party = Self { zookeeper: ZooKeeperServer::start(), dir, units: Vec::new() };
        let units = (0..count).map(|n| party.unit(n, runner)).collect();
        let party = Self { units, ..party };
        for unit in &party.units {
            eventually("a unit to be ready", GENEROUS, || unit.is_ready());
        }
        eventually("all units to be listed", GENEROUS, || {
            party.json(&["nodes"]).as_array().is_some_and(|nodes| nodes.len() == count)
        });
        party
    }

    fn unit(&self, n: usize, runner: &Path) -> Process {
        let (address, name) = (self.zookeeper.address(), format!("host{n}_9876"));
        let (data, output) = (self.data(), self.dir.path().join(format!("output{n}")));
        let arguments = [
            "--roles",
            "compaction",
            "--zookeeper-servers",
            &address,
            "--zookeeper-session",
            "2s",
            "--compaction-node",
            &name,
            "--compaction-runner",
            runner.to_str().unwrap(),
            "--compaction-partitions-dir",
            data.to_str().unwrap(),
            "--compaction-output-dir",
            output.to_str().unwrap(),
        ];
        let unit = Process::new(&name, &arguments).with("ALLOT_TEST_DIR", self.dir.path().to_str().unwrap());
        unit.start();
        unit
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(allotd());
        command.arg("compaction").args(arguments).args(["--zookeeper-servers", &self.zookeeper.address()]);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[arguments, &["--json"]].concat()).ok();
        serde_json::from_str(&run.out).unwrap()
    }

    /// Waits for the end of a task, and returns it.
    fn end(&self, id: &str) -> Value {
        let mut task = Value::Null;
        eventually(&format!("task {id} to be over"), LONG, || {
            task = self.json(&["show", id])["task"].clone();
            task["CompactTaskState"] == "Done" || task["CompactTaskState"] == "Cancel"
        });
        task
    }
}

fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("runner");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn numbers(task: &Value) -> [u64; 3] {
    ["successCount", "failedCount", "stoppedCount"].map(|name| task["ResultInfo"][name].as_u64().unwrap())
}

#[test]
fn twelve_databases_shrink_in_two_rounds_on_three_units() {
    let party = Party::start(3, &repository().join("examples/compaction/sqlite"));
    let make = "import sqlite3,sys\nfor n in range(12):\n c=sqlite3.connect(f'{sys.argv[1]}/{n}.db')\n \
                c.execute('create table t(x)')\n c.executemany('insert into t values(?)',[('x'*500,)]*400)\n \
                c.execute('delete from t where rowid>10')\n c.commit()\n c.close()\n";
    let made = Command::new("python3").args(["-c", make]).arg(party.data()).status().unwrap();
    assert!(made.success());
    let size = |n: usize| fs::metadata(party.data().join(format!("{n}.db"))).unwrap().len();
    let before: Vec<u64> = (0..12).map(size).collect();
    let submitted = ["submit", "shop", "public", "orders", "--repeat", "2", "--every", "1s"];
    let id = party.run(&submitted).ok().out.trim().to_owned();
    // The table is taken until this one is over.
    let refused = party.run(&["submit", "shop", "public", "orders"]).ended(4);
    assert!(refused.err.contains(&id) && refused.err.contains("is not over"), "{}", refused.err);
    let task = party.end(&id);
    assert_eq!((&task["CompactTaskState"], &task["round"]), (&"Done".into(), &2.into()), "{task}");
    assert_eq!((numbers(&task), &task["totals"]["successCount"]), ([12, 0, 0], &12.into()), "{task}");
    assert!((0..12).all(|n| size(n) < before[n]));
    let before: u64 = before.iter().sum();
    let after: u64 = (0..12).map(size).sum();
    // The second round found them small.
    assert_eq!(task["sums"]["before"].as_f64(), Some((before + after) as f64));
    assert_eq!(task["sums"]["after"].as_f64(), Some((2 * after) as f64));
    let outputs = (0..3).map(|n| fs::read_dir(party.dir.path().join(format!("output{n}"))).unwrap().count());
    assert_eq!(outputs.sum::<usize>(), 24);
    let explained = party.run(&["explain", &id]).ok();
    assert!(explained.out.contains("it is over, Done"), "{}", explained.out);
    assert!(party.run(&["history"]).ok().out.contains(&id));
    for unit in &party.units {
        assert!(unit.terminate().success());
    }
}

/// A runner that checks by a lock of its own that nobody else is at its partition, and notes each end.
const CAREFUL: &str = r#"#!/usr/bin/env python3
import os, signal, sys, time
base, partition = os.environ["ALLOT_TEST_DIR"], os.path.basename(os.environ["ALLOT_PARTITION"])
lock = f"{base}/lock.{partition}"
def note(kind):
    with open(f"{base}/{kind}", "a") as f:
        f.write(f"{partition}\n")
try:
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
except FileExistsError:
    # A runner that was killed left its lock; is it alive?
    with open(lock) as f:
        pid = f.read().strip()
    if pid and os.path.exists(f"/proc/{pid}"):
        note("doubled")
        sys.exit(9)
with open(lock, "w") as f:
    f.write(str(os.getpid()))
note("begun")
time.sleep(0.3)
note("ended")
os.remove(lock)
"#;

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn every_subtask_of_two_hundred_ends_once_though_worker_manager_and_monitor_are_killed() {
    let home = tempfile::tempdir().unwrap();
    let party = Party::start(5, &script(home.path(), CAREFUL));
    for n in 0..200 {
        fs::write(party.data().join(format!("p{n:03}")), "").unwrap();
    }
    let id = party.run(&["submit", "shop", "public", "orders", "--retries", "5"]).ok().out.trim().to_owned();
    let base = party.dir.path();
    let ended = |least: usize| {
        eventually("runners to end", LONG, || lines(&base.join("ended")).len() >= least);
    };
    let unit = |name: &str| party.units.iter().find(|unit| unit.name == name).unwrap();
    let monitor = || {
        let nodes = party.json(&["nodes"]);
        let found = nodes.as_array().unwrap().iter().find(|node| node["monitor"] == true).cloned();
        found.map(|node| node["node"].as_str().unwrap().to_owned())
    };
    ended(10);
    let manager = party.json(&["show", &id])["task"]["manager"].as_str().unwrap().to_owned();
    unit(&manager).kill9();
    ended(30);
    let mut leads = None;
    eventually("a living monitor", LONG, || {
        leads = monitor().filter(|name| unit(name).is_running());
        leads.is_some()
    });
    let leads = leads.unwrap();
    unit(&leads).kill9();
    unit(&manager).start();
    ended(60);
    let worker = party.units.iter().find(|unit| unit.is_running() && unit.name != manager).unwrap();
    worker.kill9();
    let task = party.end(&id);
    assert_eq!(task["CompactTaskState"], "Done", "{task}");
    assert_eq!(numbers(&task), [200, 0, 0], "{task}");
    assert_eq!(lines(&base.join("doubled")), Vec::<String>::new());
    let mut all = lines(&base.join("ended"));
    assert!(all.len() >= 200);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 200);
    // Nothing is left of it but what tells that it was.
    let shown = party.json(&["show", &id]);
    assert_eq!(shown["subtasks"].as_array().unwrap().len(), 0);
}
