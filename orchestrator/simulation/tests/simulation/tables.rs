//! The tables of a simulation, which compaction nodes compact, and what must always hold for them. No two runners work
//! at one partition, nor more in the cluster than its limit allows. In the end every task is done, and a runner has
//! ended well at each of its partitions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allot_compaction::Settings;
use allot_compaction::ids::TaskId;
use allot_compaction::paths::{self, Paths};
use allot_compaction::simulated::{Behaviour, Runners};
use allot_compaction::task::{MainTask, State};
use allot_compaction::task_store::TaskStore;
use allot_coordination::in_process::InProcess;
use allot_coordination::{Coordinator, random};
use tokio::time::sleep;

use super::SESSION;
use super::invariants::Observer;

/// Path of compaction's nodes.
const ROOT: &str = "/compaction";
/// How many partitions a table has.
const PARTITIONS: usize = 6;
/// How many runners the cluster runs at once at most.
const LIMIT: usize = 3;
/// More retries than any subtask can lose its worker.
const RETRIES: u32 = 1000;
/// How long a client waits before it submits a task again.
const PAUSE: Duration = Duration::from_millis(500);

/// A task that was accepted, and its partitions.
type Accepted = (TaskId, Vec<String>);

/// The tables, and the tasks that compact them. Clones share it.
#[derive(Clone)]
pub(super) struct Tables {
    tree: InProcess,
    observer: Observer,
    pub(super) runners: Runners,
    submitted: Arc<AtomicU64>,
    /// The tasks that were accepted.
    tasks: Arc<Mutex<Vec<Accepted>>>,
}

impl Tables {
    pub(super) fn new(tree: InProcess, observer: Observer) -> Self {
        let fails = |_: &str, _: usize| false;
        let behaviour = Behaviour { session: SESSION, longest_ms: 4000, fails, limit: ("", LIMIT) };
        Self {
            tree,
            observer,
            runners: Runners::new(behaviour),
            submitted: Arc::default(),
            tasks: Arc::default(),
        }
    }

    /// The settings of the unit in a process of this name.
    pub(super) fn settings(process: &str) -> Settings {
        Settings {
            node: Some(node(process)),
            runner: vec!["compact".to_owned()],
            limit: LIMIT as u32,
            every: Duration::from_secs(10),
            root: ROOT.to_owned(),
            ..Settings::default()
        }
    }

    /// Submits a task for a table of its own to the unit in a process of this name, until it is accepted.
    pub(super) fn submit(&self, process: &str) {
        let (this, manager) = (self.clone(), node(process));
        let number = self.submitted.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let coordinator = Coordinator::start(Arc::new(this.tree.clone()));
            let store = TaskStore::new(coordinator.tree(), ROOT);
            let name = format!("t{number}");
            let named: Vec<String> = (0..PARTITIONS).map(|partition| format!("{name}/{partition}")).collect();
            let id = TaskId::main(&manager, number + 1);
            let table = ["d".to_owned(), "s".to_owned(), name];
            let task = MainTask {
                named: named.clone(),
                retries: RETRIES,
                priority: random::within(0..3),
                limit: random::within(0..3),
                ..MainTask::new(id, table, manager, "default".to_owned())
            };
            // The manager may be away, and an accepted task whose answer was lost is refused the second time.
            while store.submit(id, &task, false).await.is_err()
                && !matches!(store.main(id).await, Ok(Some(_)))
            {
                sleep(PAUSE).await;
            }
            this.tasks.lock().unwrap_or_else(PoisonError::into_inner).push((id, named));
        });
    }

    /// Checks what runners have done.
    pub(super) fn check(&self) {
        let record = self.runners.record();
        for partition in record.doubled {
            self.observer.violated(format!("two runners worked at {partition} at once"));
        }
        for partition in record.crowded {
            self.observer.violated(format!("the runner at {partition} was one more than {LIMIT}"));
        }
    }

    /// What is still to be done until all submitted tasks are done and nothing of their work is left.
    pub(super) fn unsettled(&self) -> Vec<String> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (submitted, accepted) = (self.submitted.load(Ordering::Relaxed), tasks.len());
        let mut unsettled = Vec::new();
        if submitted != accepted as u64 {
            unsettled.push(format!("{accepted} tasks of {submitted} are accepted"));
        }
        let (tree, ended) = (Paths::new(ROOT), self.runners.record().ended);
        for (id, partitions) in tasks {
            let prefix = format!("{}/{}", tree.main(id), paths::status(""));
            let names = self.tree.nodes(&prefix).into_iter().map(|(path, _)| path);
            let names: Vec<String> =
                names.filter_map(|path| Some(path.strip_prefix(&prefix)?.to_owned())).collect();
            if names != [State::Done.to_string()] {
                unsettled.push(format!("{id} is {names:?}, and not done"));
                continue;
            }
            let is_missing = |partition: &&String| !ended.contains_key(*partition);
            for partition in partitions.iter().filter(is_missing) {
                self.observer.violated(format!("{id} is done, and no runner ended well at {partition}"));
            }
        }
        let below = |dir: String| self.tree.nodes(&format!("{dir}/")).into_iter().map(|(path, _)| path);
        unsettled
            .extend(below(tree.locks()).chain(below(tree.permits())).map(|path| format!("{path} is left")));
        unsettled
    }
}

/// The name of the unit in a process of this name.
fn node(process: &str) -> String {
    format!("{process}_1")
}
