//! No runner outlives its permission: whether a process dies, hangs or is cut off, a runner is over before its partition is given
//! to another. The runners take a minute where nobody ends them, and hold a lock of their own.

use std::process::{Command, Stdio};

use allot_coordination::{Kind, Op};
use allot_tests::compaction_cluster::{
    CAREFUL, CompactionCluster, LASTING, TASK_TIMEOUT, guards, numbers, script,
};
use allot_tests::zookeeper::on_tree;
use allot_tests::{Process, eventually};
use tempfile::TempDir;

/// The metric of subtasks that start again because their worker was lost.
const RETRIED: &str = "retried_total{reason=\"lost\"}";

/// Units whose runners last.
struct Cluster {
    cluster: CompactionCluster,
    _home: TempDir,
}

/// A runner that has begun.
#[derive(Debug, Clone)]
struct Begun {
    pid: String,
    node: String,
    attempt: String,
    fence: i64,
}

impl Cluster {
    fn start(units: usize, settings: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self {
            cluster: CompactionCluster::start_with(units, &script(home.path(), LASTING), settings),
            _home: home,
        }
    }

    fn begun(&self) -> Vec<Begun> {
        let read = |line: &String| {
            let words: Vec<&str> = line.split(' ').collect();
            let [pid, node, attempt, fence] = words[..] else { panic!("{line}") };
            let (pid, node, attempt) = (pid.to_owned(), node.to_owned(), attempt.to_owned());
            Begun { pid, node, attempt, fence: fence.parse().unwrap() }
        };
        self.cluster.noted("begun").iter().map(read).collect()
    }

    /// Waits for one more than these.
    #[track_caller]
    fn next(&self, before: usize) -> Begun {
        eventually("a runner to begin", TASK_TIMEOUT, || self.begun().len() > before);
        self.begun()[before].clone()
    }

    fn submit(&self, table: &str, more: &[&str]) -> String {
        self.cluster.submit(&[&["d", "s", table, "--partition", "only"], more].concat())
    }

    /// The sum of a metric of compaction over the units that are there.
    fn metric(&self, name: &str) -> u64 {
        let of = |unit: &Process| unit.metric(&format!("allot_compaction_{name}"));
        self.cluster.units.iter().filter_map(of).sum::<f64>() as u64
    }

    fn unit(&self, name: &str) -> &Process {
        self.cluster.units.iter().find(|unit| unit.name == name).unwrap()
    }

    /// A runner is ended by some fault, and the same partition is done by another that begins after that.
    #[track_caller]
    fn survives(&self, what: &str, fault: impl FnOnce(&Process), repair: impl FnOnce(&Process)) {
        self.survives_with(&["--retries", "9"], "1", what, fault, repair);
    }

    /// The same, submitted with these words more; the second run is this attempt.
    #[track_caller]
    fn survives_with(
        &self,
        more: &[&str],
        attempt: &str,
        what: &str,
        fault: impl FnOnce(&Process),
        repair: impl FnOnce(&Process),
    ) {
        let before = self.begun().len();
        let id = self.submit(what, more);
        let first = self.next(before);
        let unit = self.unit(&first.node);
        fault(unit);
        eventually("the runner to be ended", TASK_TIMEOUT, || !runs(&first.pid));
        let repaired = if self.cluster.units.iter().all(|other| other.name == first.node) {
            repair(unit);
            None
        } else {
            Some(repair)
        };
        let second = self.next(before + 1);
        assert_eq!((first.attempt.as_str(), second.attempt.as_str()), ("0", attempt), "{what}");
        assert!(second.fence > first.fence, "{what}: {first:?} {second:?}");
        if let Some(repair) = repaired {
            repair(unit);
        }
        assert_eq!(numbers(&self.cluster.end(&id)), [1, 0, 0], "{what}");
        assert_eq!(self.cluster.noted("doubled"), Vec::<String>::new(), "{what}");
        eventually("the unit to be back", TASK_TIMEOUT, || unit.is_ready());
    }
}

/// Whether a process runs; one that has ended stays until its parent looks.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn signal(name: &str, pids: &[String]) {
    // Some may have ended meanwhile.
    let _ = Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
}

#[test]
fn runner_ends_before_its_partition_is_given_to_another() {
    let cluster = Cluster::start(2, &[]);
    // Once without being asked for it.
    cluster.survives_with(&[], "1", "killed", |unit| unit.kill9(), Process::start);
    eventually("the retry to be counted", TASK_TIMEOUT, || cluster.metric(RETRIED) == 1);
    cluster.survives("stopped", |unit| unit.pause(), |unit| unit.resume());
    let mut stopped = Vec::new();
    cluster.survives(
        "stopped with its guard",
        |unit| {
            // The guard first: it would end the runner when it is told nothing more.
            stopped = guards(unit);
            assert_eq!(stopped.len(), 1);
            signal("-STOP", &stopped);
            unit.pause();
        },
        |unit| unit.resume(),
    );
    signal("-CONT", &stopped);
}

#[test]
fn runner_of_a_killed_guard_is_ended_and_started_again() {
    let cluster = Cluster::start(1, &[]);
    let kill = |unit: &Process| signal("-KILL", &guards(unit));
    cluster.survives_with(&[], "1", "guard killed", kill, |_| {});
    eventually("the retry to be counted", TASK_TIMEOUT, || cluster.metric(RETRIED) == 1);
}

#[test]
fn without_a_zookeeper_no_runner_goes_on() {
    let cluster = Cluster::start(1, &[]);
    // That uses up no retry: the worker was not lost.
    let (fault, repair) =
        (|_: &Process| cluster.cluster.zookeeper.kill9(), |_: &Process| cluster.cluster.zookeeper.restore());
    cluster.survives_with(&["--retries", "0"], "0", "away", fault, repair);
}

#[test]
fn runner_ended_by_the_watchdog_is_started_again_and_not_failed() {
    // The session lives on: what is reported of their ends is heard. Whether a guard that wakes sees first that its runner
    // has ended, or that it had to end it, is up to chance.
    let settings = [("ALLOT_ZOOKEEPER_SESSION", "10s"), ("ALLOT_COMPACTION_SLOTS", "6")];
    let cluster = Cluster::start(1, &settings);
    let more = ["a", "b", "c", "d", "e"].map(|name| ["--partition", name]).concat();
    let id = cluster.submit("away", &[&more[..], &["--retries", "9"]].concat());
    let _ = cluster.next(5);
    let (first, stopped) = (cluster.begun(), guards(&cluster.cluster.units[0]));
    assert_eq!((first.len(), stopped.len()), (6, 6));
    signal("-STOP", &stopped);
    cluster.cluster.zookeeper.kill9();
    eventually("the runners to be ended", TASK_TIMEOUT, || !first.iter().any(|runner| runs(&runner.pid)));
    cluster.cluster.zookeeper.restore();
    signal("-CONT", &stopped);
    let _ = cluster.next(11);
    let begun = cluster.begun();
    // A retry is used up unless the session was lost as well.
    let again: Vec<&str> = begun[6..].iter().map(|runner| runner.attempt.as_str()).collect();
    assert!(again.iter().all(|attempt| ["0", "1"].contains(attempt)), "{begun:#?}");
    assert_eq!(numbers(&cluster.cluster.end(&id)), [6, 0, 0]);
    assert_eq!(cluster.cluster.noted("doubled"), Vec::<String>::new());
}

#[test]
fn a_unit_that_is_asked_to_end_gives_its_subtasks_back_unharmed() {
    let cluster = Cluster::start(1, &[("ALLOT_COMPACTION_STOP_LIMIT", "300ms")]);
    let id = cluster.submit("t", &["--retries", "0"]);
    let first = cluster.next(0);
    assert!(cluster.cluster.units[0].terminate().success());
    assert!(!runs(&first.pid));
    let subs = cluster.cluster.json(&["get", &id])["subtasks"].clone();
    assert_eq!((&subs[0]["state"], &subs[0]["attempt"]), (&"Init".into(), &0.into()), "{subs}");
    cluster.cluster.units[0].start();
    assert_eq!(cluster.next(1).attempt, "0");
    // It is stopped in the end, though its manager dies meanwhile.
    cluster.cluster.units[0].kill9();
    let _ = cluster.cluster.run(&["stop", &id, "--yes"]).ok();
    cluster.cluster.units[0].start();
    let task = cluster.cluster.end(&id);
    // It may not be begun again, so that the kill was its failure.
    assert_eq!((&task["state"], numbers(&task)), (&"Cancel".into(), [0, 1, 0]), "{task}");
    assert_eq!(cluster.cluster.noted("doubled"), Vec::<String>::new());
}

#[test]
fn two_tasks_on_the_same_partitions_take_turns_though_their_worker_dies() {
    let home = tempfile::tempdir().unwrap();
    // Of each partition both tasks' subtasks find the lock of the life before; which is the first to see it gone is up to
    // chance.
    let slow = CAREFUL.replace("sleep 0.3", "sleep 4");
    assert_ne!(slow, CAREFUL);
    let cluster =
        CompactionCluster::start_with(1, &script(home.path(), &slow), &[("ALLOT_COMPACTION_SLOTS", "16")]);
    let eight = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| ["--partition", name]).concat();
    let words = [&["d", "s", "t", "--retries", "9"], &eight[..]].concat();
    let first = cluster.submit(&words);
    let second = cluster.submit(&[&words[..], &["--queue"]].concat());
    eventually("the first to have begun", TASK_TIMEOUT, || !cluster.noted("begun").is_empty());
    // Somebody lets the second not wait for the first.
    let dir = format!("/cluster.compact/Compaction_v2/Scheduler/{second}");
    on_tree(&cluster.zookeeper.address(), |tree| async move {
        let (info, status) = (format!("{dir}/TaskInfo.default.d"), format!("{dir}/Status.Init"));
        let node = tree.get(&info).await.unwrap().unwrap();
        let mut task: serde_json::Value = serde_json::from_slice(&node.data).unwrap();
        task["after"] = serde_json::Value::Null;
        tree.multi(vec![
            Op::Set { path: info, data: serde_json::to_vec(&task).unwrap(), version: node.version },
            Op::Delete { path: status.clone(), version: None },
            Op::Create { path: status, data: Vec::new(), kind: Kind::Persistent },
        ])
        .await
        .unwrap();
    });
    let inbox = "/cluster.compact/Compaction_v2/TaskAssigned/host0_9876";
    eventually("both to be assigned", TASK_TIMEOUT, || cluster.zookeeper_names(inbox).len() == 16);
    cluster.units[0].kill9();
    cluster.units[0].start();
    for id in [&first, &second] {
        assert_eq!(numbers(&cluster.end(id)), [8, 0, 0], "{id}");
    }
    assert_eq!(cluster.noted("doubled"), Vec::<String>::new());
    assert_eq!(cluster.left(), Vec::<String>::new());
}

#[test]
fn draining_unit_is_not_taken_for_lost_while_its_runners_end() {
    // They need longer than it takes until who has gone is missed.
    let cluster = Cluster::start(2, &[("ALLOT_COMPACTION_STOP_LIMIT", "8s")]);
    let id = cluster.submit("t", &["--retries", "0"]);
    let first = cluster.next(0);
    assert!(cluster.unit(&first.node).terminate().success());
    assert!(!runs(&first.pid));
    let second = cluster.next(1);
    assert_eq!(second.attempt, "0");
    assert_ne!(second.node, first.node);
    let stopped = cluster.cluster.run(&["stop", &id, "--yes", "--wait", "--format", "json"]).ok();
    let task: serde_json::Value = serde_json::from_str(&stopped.out).unwrap();
    assert_eq!(numbers(&task), [0, 0, 1], "{task}");
    let stopped = "subtasks_total{outcome=\"stopped\"}";
    eventually("the stopped subtask to be counted", TASK_TIMEOUT, || cluster.metric(stopped) == 1);
    assert_eq!(cluster.cluster.noted("doubled"), Vec::<String>::new());
}

#[test]
fn subtask_without_retries_fails_when_its_worker_or_guard_is_lost() {
    let settings = [("ALLOT_COMPACTION_TIMEOUT", "4s"), ("ALLOT_COMPACTION_STOP_LIMIT", "300ms")];
    let cluster = Cluster::start(2, &settings);
    let id = cluster.submit("hangs", &["--retries", "0"]);
    let runner = cluster.next(0);
    let hung = guards(cluster.unit(&runner.node));
    signal("-STOP", &hung);
    let task = cluster.cluster.end(&id);
    assert_eq!(numbers(&task), [0, 1, 0], "{task}");
    eventually("the runner whose guard hangs to be ended", TASK_TIMEOUT, || !runs(&runner.pid));
    eventually("its lock to be free", TASK_TIMEOUT, || {
        cluster.cluster.zookeeper_names("/cluster.compact/Compaction_v2/Locks").is_empty()
    });

    let id = cluster.submit("dies", &["--retries", "0"]);
    let runner = cluster.next(1);
    cluster.unit(&runner.node).kill9();
    let task = cluster.cluster.end(&id);
    assert_eq!((&task["state"], numbers(&task)), (&"Done".into(), [0, 1, 0]), "{task}");
    assert!(!runs(&runner.pid));
    let failures = task["last_failures"].to_string();
    assert!(failures.contains("its worker was lost while it ran"), "{failures}");
}

#[test]
fn a_task_whose_units_are_all_gone_for_good_is_cancelled() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), LASTING);
    let every = [("ALLOT_COMPACTION_EVERY", "2s")];
    let mut cluster = CompactionCluster::start_with(1, &runner, &[every[0], ("ALLOT_COMPACTION_PC", "a")]);
    cluster.join_with(1, &runner, &[every[0], ("ALLOT_COMPACTION_PC", "b")]);
    let id = cluster.submit(&["d", "s", "t", "--pc", "a", "--partition", "only"]);
    eventually("it to have begun", TASK_TIMEOUT, || !cluster.noted("begun").is_empty());
    cluster.units[0].kill9();
    let task = cluster.end(&id);
    assert_eq!(task["state"], "Cancel", "{task}");
    let why = task["why"].as_str().unwrap();
    assert!(why.contains("no compaction node of a was present at two consecutive checks"), "{why}");
    // What the unit left is taken away, in the end with its inbox.
    let inboxes = || cluster.zookeeper_names("/cluster.compact/Compaction_v2/TaskAssigned");
    eventually("its inbox to be taken away", TASK_TIMEOUT, || inboxes() == ["host1_9876"]);
    cluster.units[0].start();
    eventually("the unit to be there again", TASK_TIMEOUT, || cluster.nodes().as_array().unwrap().len() == 2);
    let again = cluster.submit(&["d", "s", "t", "--pc", "a", "--partition", "another"]);
    eventually("the unit to work again", TASK_TIMEOUT, || cluster.noted("begun").len() > 1);
    assert!(cluster.run(&["stop", &again, "--yes"]).code == 0);
}
