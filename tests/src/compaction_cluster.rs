//! A compaction cluster: a ZooKeeper, units of one runner as processes, and `allot task` beside them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use allot_coordination::Error;
use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::Run;
use crate::wait::TIMEOUT;
use crate::zookeeper::{on_tree, patient};
use crate::{Ensemble, Process, allot, eventually};

/// Units are missed soon.
const SHORT: (&str, &str) = ("ALLOT_ZOOKEEPER_SESSION", "2s");
/// For units that nobody kills: they are missed late, and mind no machine that stands still for a while.
pub const UNHURRIED: (&str, &str) = ("ALLOT_ZOOKEEPER_SESSION", "20s");
/// Far more than any of these tests needs.
pub const TASK_TIMEOUT: Duration = Duration::from_secs(240);

/// The cluster.
pub struct CompactionCluster {
    /// Its ZooKeeper.
    pub zookeeper: Ensemble,
    /// Where all its files are; runners find it as `ALLOT_TEST_DIR`.
    pub dir: TempDir,
    /// Its units, `host<n>_9876`.
    pub units: Vec<Process>,
}

impl CompactionCluster {
    /// So many units with this runner, whose partitions are the files of the folder `data`.
    #[must_use]
    pub fn start(count: usize, runner: &Path) -> Self {
        Self::start_with(count, runner, &[])
    }

    /// The same with these settings, as variables.
    #[must_use]
    pub fn start_with(count: usize, runner: &Path, settings: &[(&str, &str)]) -> Self {
        Self::start_on(Ensemble::alone(), count, runner, settings)
    }

    /// The same with this ZooKeeper.
    #[must_use]
    pub fn start_on(zookeeper: Ensemble, count: usize, runner: &Path, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("allot-compaction-").tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        let mut cluster = Self { zookeeper, dir, units: Vec::new() };
        if count > 0 {
            cluster.join_with(count, runner, settings);
        }
        cluster
    }

    /// So many more units.
    pub fn join(&mut self, count: usize, runner: &Path) {
        self.join_with(count, runner, &[]);
    }

    /// The same with these settings, as variables.
    pub fn join_with(&mut self, count: usize, runner: &Path, settings: &[(&str, &str)]) {
        let first = self.units.len();
        let more: Vec<Process> = (first..first + count).map(|n| self.unit(n, runner, settings)).collect();
        self.units.extend(more);
        for unit in &self.units {
            eventually("a unit to be ready", TIMEOUT, || unit.is_ready());
        }
        eventually("all units to be listed", TIMEOUT, || {
            self.nodes().as_array().is_some_and(|nodes| nodes.len() == self.units.len())
        });
    }

    /// The unit of this number, started. It is not waited for.
    #[must_use]
    pub fn unit(&self, n: usize, runner: &Path, settings: &[(&str, &str)]) -> Process {
        let (address, name) = (self.zookeeper.address(), format!("host{n}_9876"));
        let output = self.dir.path().join(format!("output{n}"));
        // A program lists the files of the folder: with a folder in the settings, only files can be named as partitions.
        let lister = self.lister();
        let arguments = [
            "--roles",
            "compaction",
            "--zookeeper-servers",
            &address,
            "--compaction-node",
            &name,
            "--compaction-runner",
            runner.to_str().unwrap(),
        ];
        let mut unit =
            Process::new(&name, &arguments).with("ALLOT_TEST_DIR", self.dir.path().to_str().unwrap());
        for (variable, value) in settings {
            unit = unit.with(variable, value);
        }
        let is_given = |name: &str| settings.iter().any(|(given, _)| *given == name);
        if !is_given("ALLOT_COMPACTION_OUTPUT_DIR") {
            unit = unit.with("ALLOT_COMPACTION_OUTPUT_DIR", output.to_str().unwrap());
        }
        if !is_given(SHORT.0) {
            unit = unit.with(SHORT.0, SHORT.1);
        }
        if !is_given("ALLOT_COMPACTION_PARTITIONS") && !is_given("ALLOT_COMPACTION_PARTITIONS_DIR") {
            unit = unit.with("ALLOT_COMPACTION_PARTITIONS", lister.to_str().unwrap());
        }
        unit.start();
        unit
    }

    /// The folder whose files are the partitions of every table.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The program that lists the files of `data`.
    fn lister(&self) -> PathBuf {
        let path = self.dir.path().join("lister");
        if !path.exists() {
            let text = format!("#!/bin/sh\nexec find '{}' -type f\n", self.data().display());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        path
    }

    /// `allot task` with these words.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.noun("task", arguments)
    }

    fn noun(&self, noun: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(allot());
        command.arg(noun).args(arguments).args(["--zookeeper", &self.zookeeper.address()]);
        command.env("HOME", "/nonexistent").stdin(Stdio::null());
        command
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Run {
        to_end(self.command(arguments))
    }

    /// Runs `allot node` with these words.
    #[must_use]
    pub fn node(&self, arguments: &[&str]) -> Run {
        to_end(self.noun("node", arguments))
    }

    /// The nodes that are present or drained.
    #[must_use]
    pub fn nodes(&self) -> Value {
        let run = self.node(&["list", "--format", "json"]);
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.err))
    }

    /// What it prints as JSON; a list may be empty.
    #[must_use]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.err))
    }

    /// Submits a task of a table with these words, and returns its name.
    #[must_use]
    pub fn submit(&self, words: &[&str]) -> String {
        let (table, more) = words.split_at(3);
        self.run(&[&["submit", &table.join(".")], more].concat()).ok().out.trim().to_owned()
    }

    /// The children of a node.
    #[must_use]
    pub fn zookeeper_names(&self, path: &str) -> Vec<String> {
        self.zookeeper.children(path)
    }

    /// Makes so many empty partitions.
    pub fn partitions(&self, count: usize) {
        for n in 0..count {
            fs::write(self.data().join(format!("p{n:05}")), "").unwrap();
        }
    }

    /// Lines of a file that runners write.
    #[must_use]
    pub fn noted(&self, name: &str) -> Vec<String> {
        lines(&self.dir.path().join(name))
    }

    /// Waits for the end of a task, and returns it.
    #[must_use]
    pub fn end(&self, id: &str) -> Value {
        let mut task = Value::Null;
        eventually(&format!("task {id} to be over"), TASK_TIMEOUT, || {
            let run = self.run(&["get", id, "--format", "json"]);
            // ZooKeeper may just have been started.
            if run.code == 6 {
                return false;
            }
            task = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.err));
            task["state"] == "Done" || task["state"] == "Cancel"
        });
        task
    }
}

/// Where the tree of compaction is.
const ROOT: &str = "/cluster.compact/Compaction_v2";

impl CompactionCluster {
    /// What is in the tree that belongs to what is going on, and should be gone when nothing is.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        on_tree(&self.zookeeper.address(), |tree| async move {
            let list = async |dir: &str| -> Vec<String> {
                match patient(async || tree.children(dir).await).await {
                    Ok(names) => names.into_iter().map(|name| format!("{dir}/{name}")).collect(),
                    Err(Error::NoNode(_)) => Vec::new(),
                    Err(error) => panic!("{dir}: {error}"),
                }
            };
            let mut left =
                [list(&format!("{ROOT}/Locks")).await, list(&format!("{ROOT}/Permits")).await].concat();
            for inbox in list(&format!("{ROOT}/TaskAssigned")).await {
                left.extend(list(&inbox).await);
            }
            let tasks = list(&format!("{ROOT}/Scheduler")).await;
            assert!(!tasks.is_empty(), "there is no task under {ROOT}");
            for task in tasks {
                for dir in ["Partitions", "Finished"] {
                    left.extend(list(&format!("{task}/{dir}")).await);
                }
            }
            left
        })
    }

    /// A task is done, each of its subtasks ended and was counted once, a double run would have been noted, and
    /// nothing is left that should not be.
    #[track_caller]
    pub fn all_well(&self, id: &str, count: usize) {
        let task = self.end(id);
        let well = (&task["state"], numbers(&task));
        assert_eq!(well, (&"Done".into(), [count as u64, 0, 0]), "{task}");
        assert_eq!(self.noted("doubled"), Vec::<String>::new());
        let mut all = self.noted("ended");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        // Of a unit that comes back it takes a moment.
        let began = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            assert!(began.elapsed() < TIMEOUT, "left of {id}: {left:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// A program of this text.
#[must_use]
pub fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("runner");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// How many subtasks of a task went well, failed, and were stopped.
#[must_use]
pub fn numbers(task: &Value) -> [u64; 3] {
    ["succeeded", "failed", "stopped"].map(|name| task[name].as_u64().unwrap())
}

/// A runner that checks by a lock of its own, which the system takes from it when it is dead, that nobody else is at its
/// partition, and notes each end. A shell starts sooner than other interpreters.
pub const CAREFUL: &str = r#"#!/bin/sh
partition=${ALLOT_PARTITION##*/}
note() { echo "$partition" >>"$ALLOT_TEST_DIR/$1"; }
exec 9>"$ALLOT_TEST_DIR/lock.$partition"
flock -n 9 || { note doubled; exit 9; }
note begun
sleep 0.3 9>&-
note ended
"#;

/// The same, but the first attempt takes longer than any unit that hangs or dies goes unnoticed, and minds no signal; it
/// notes who it is, by whom it was begun, which attempt it is, and its fencing token.
pub const LASTING: &str = r#"#!/bin/sh
note() { echo "$$ $ALLOT_NODE $ALLOT_ATTEMPT $ALLOT_FENCE" >>"$ALLOT_TEST_DIR/$1"; }
exec 9>"$ALLOT_TEST_DIR/lock.${ALLOT_PARTITION##*/}"
flock -n 9 || { note doubled; exit 9; }
trap '' TERM
note begun
[ "$ALLOT_ATTEMPT" != 0 ] || sleep 60 9>&-
note ended
"#;

/// The lines of a file; none where it is not there.
#[must_use]
pub fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The guards that a unit has.
#[must_use]
pub fn guards(unit: &Process) -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_guard = |pid: &String| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("status").contains(&format!("PPid:\t{}\n", unit.pid()))
            && read("cmdline").contains("compaction-supervisor")
    };
    names.filter(is_guard).collect()
}

/// Runs a command to its end.
fn to_end(mut command: Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
