//! Tasks of version 1 (the first generation), as read from its tree or from an export of it. Their state is part of
//! their name: `compct.<unit>.0.<milliseconds>[.<Assigned|Cancel|Done>]`; without a suffix the state is `Init`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use allot_compaction::ids::TaskId;
use allot_compaction::task::{MainTask, RepeatInfo, ResultInfo, State, read};
use allot_compaction::task_store::Fault;
use allot_coordination::{Error, Op, Tree, Version};

/// The roots at which version 1 kept its tree: the documented one, and those seen in production.
pub const ROOTS: [&str; 3] =
    ["/cluster.compact/Compaction", "/cluster.compact/Compation_V2", "/cluster.compact/Compaction_V2"];
/// The node or file that holds a task's data, if the task is a directory.
const INFO: &str = "TaskInfo";

/// The status node of a running subtask.
const RUNNING: &str = "Status.Running";
/// The status node of a subtask that has succeeded.
const SUCCESS: &str = "Status.Success";
/// The children that every old tree has.
const PARTS: [&str; 2] = ["Scheduler", ASSIGNED];
/// The child of the old tree's root with the subtasks of each unit.
const ASSIGNED: &str = "TaskAssigned";
/// Number of nodes that one request reads or lists. The node of a task usually has 1 KiB, and at most 1 MiB.
const BATCH: usize = 32;

/// The name of a main task of version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The unit on which it was submitted.
    pub unit: String,
    /// Submission of the task, in milliseconds since 1970.
    pub time: u64,
    /// The task's state.
    pub state: State,
}

impl Name {
    /// The task's id in version 2, which follows from the old name alone.
    pub fn id(&self) -> TaskId {
        TaskId::main(&self.unit, self.time * 1000)
    }
}

impl Name {
    /// Reads the name of a main task, whose number is 0, or of a subtask; with the number.
    fn read(text: &str) -> Option<(Self, u64)> {
        let rest = text.strip_prefix("compct.")?;
        let states = [(".Assigned", State::Assigned), (".Cancel", State::Cancel), (".Done", State::Done)];
        let named = states.into_iter().find_map(|(end, state)| Some((rest.strip_suffix(end)?, state)));
        let (rest, state) = named.unwrap_or((rest, State::Init));
        // Read from the end, since a unit's name may contain dots.
        let (rest, time) = rest.rsplit_once('.')?;
        let (unit, number) = rest.rsplit_once('.')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if unit.is_empty() || !digits(number) || time.len() != 13 || !digits(time) {
            return None;
        }
        Some((Self { unit: unit.to_owned(), time: time.parse().ok()?, state }, number.parse().ok()?))
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is no main task; one looks like compct.xcloud24_9876.0.1617693156000.Done");
        Self::read(text).filter(|(_, number)| *number == 0).map(|(name, _)| name).ok_or_else(wrong)
    }
}

/// What is read of a subtask's data.
#[derive(Debug, Deserialize)]
struct WrittenSubtask {
    partition_name: String,
}

/// A task's data as version 1 wrote them. Other spellings that were seen in production are read, but never written.
#[derive(Debug, Deserialize)]
struct Written {
    db_name: String,
    #[serde(default)]
    schema_name: String,
    table_name: String,
    /// The one partition to compact; empty for all.
    #[serde(default)]
    partition_name: String,
    #[serde(default)]
    repeat_flag: bool,
    #[serde(rename = "RepeatInfo", default)]
    repeat: RepeatInfo,
    #[serde(rename = "ResultInfo", alias = "ResulttInfo", default)]
    result: ResultInfo,
}

/// Reads the data of a task or a subtask, which are JSON or YAML.
fn read_written<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T, Fault> {
    let fault = match read(path, data) {
        Ok(written) => return Ok(written),
        Err(fault) => fault,
    };
    // Data that begin as a JSON object are meant as one, so that the error is that of JSON.
    if data.trim_ascii_start().starts_with(b"{") {
        return Err(fault);
    }
    serde_norway::from_slice(data).map_err(|error| {
        Fault::Corrupt(format!("{path} reads as a task neither as JSON nor as YAML: {error}"))
    })
}

/// Converts a version-1 task. An assigned task starts again.
pub fn convert(name: &Name, path: &str, data: &[u8], manager: &str, pc: &str) -> Result<MainTask, Fault> {
    let old: Written = read_written(path, data)?;
    let state = if name.state == State::Assigned { State::Init } else { name.state };
    let table = [old.db_name, old.schema_name, old.table_name];
    let over = state.is_over();
    let repeat = if old.repeat_flag {
        // As for a submission: a task repeated without an interval would keep its units busy for ever.
        RepeatInfo { repeat_interval: old.repeat.repeat_interval.max(1), ..old.repeat }
    } else {
        RepeatInfo { repeat_count: 1, repeat_interval: 0 }
    };
    Ok(MainTask {
        state,
        repeat,
        result: if over { old.result } else { ResultInfo::default() },
        round: u64::from(over),
        created: name.time,
        named: Some(old.partition_name).filter(|name| !name.is_empty()).into_iter().collect(),
        // Version 1 did not record when a task ended.
        finished: if over { name.time } else { 0 },
        ..MainTask::new(name.id(), table, manager.to_owned(), pc.to_owned())
    })
}

/// The source of old tasks.
pub enum Source {
    /// ZooKeeper, below this root.
    Tree(Tree, String),
    /// Files: a directory with the children of the old tree's root.
    Files(PathBuf),
}

/// An old task as it was read.
pub struct Old {
    /// The task's location, for people.
    pub path: String,
    /// The task's data.
    pub data: Vec<u8>,
    /// Checks that succeed only if the task is still as it was read.
    pub checks: Vec<Op>,
}

impl Source {
    /// The names of all entries among the old main tasks, sorted.
    pub async fn names(&self) -> Result<Vec<String>, Fault> {
        let mut names = match self {
            Self::Tree(tree, root) => match tree.children(&format!("{root}/Scheduler")).await {
                Err(Error::NoNode(_)) => Vec::new(),
                names => names?,
            },
            Self::Files(dir) => {
                let dir = dir.join("Scheduler");
                let wrong = |error| Fault::Refused(format!("{}: {error}", dir.display()));
                let entries = std::fs::read_dir(&dir).map_err(wrong)?;
                let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
                names.collect::<std::io::Result<_>>().map_err(wrong)?
            }
        };
        names.sort_unstable();
        Ok(names)
    }

    /// One old task, if it still exists.
    pub async fn get(&self, name: &str) -> Result<Option<Old>, Fault> {
        match self {
            Self::Tree(tree, root) => {
                let path = format!("{root}/Scheduler/{name}");
                let Some(node) = tree.get(&path).await? else { return Ok(None) };
                let check = |path: &str, version| Op::Check { path: path.to_owned(), version: Some(version) };
                let mut checks = vec![check(&path, node.version)];
                if !node.data.is_empty() {
                    return Ok(Some(Old { path, data: node.data, checks }));
                }
                let info = format!("{path}/{INFO}");
                let Some(node) = tree.get(&info).await? else {
                    return Ok(Some(Old { path, data: Vec::new(), checks }));
                };
                checks.push(check(&info, node.version));
                Ok(Some(Old { path: info, data: node.data, checks }))
            }
            Self::Files(dir) => {
                let path = dir.join("Scheduler").join(name);
                if !path.exists() {
                    return Ok(None);
                }
                let path = if path.is_dir() { path.join(INFO) } else { path };
                let shown = path.display().to_string();
                let data =
                    std::fs::read(&path).map_err(|error| Fault::Corrupt(format!("{shown}: {error}")))?;
                Ok(Some(Old { path: shown, data, checks: Vec::new() }))
            }
        }
    }

    /// The subtasks that have succeeded, each by its path below the old tree's root; for each main task, by its new id.
    pub async fn successes(&self) -> Result<HashMap<TaskId, Vec<String>>, Fault> {
        let mut found: HashMap<TaskId, Vec<String>> = HashMap::new();
        for unit in self.children(ASSIGNED).await? {
            let dir = format!("{ASSIGNED}/{unit}");
            let names = self.children(&dir).await?;
            let subtasks: Vec<(TaskId, String)> = names
                .iter()
                .filter_map(|name| Some((Name::read(name)?.0.id(), format!("{dir}/{name}"))))
                .collect();
            for batch in subtasks.chunks(BATCH) {
                let paths: Vec<&str> = batch.iter().map(|(_, path)| path.as_str()).collect();
                for ((id, path), names) in batch.iter().zip(self.children_of_each(&paths).await?) {
                    if names.iter().any(|name| name == SUCCESS) {
                        found.entry(*id).or_default().push(path.clone());
                    }
                }
            }
        }
        Ok(found)
    }

    /// The partition of the subtask with this path below the old tree's root; `None` if it cannot be read.
    pub async fn partition(&self, path: &str) -> Result<Option<String>, Fault> {
        let mut data = self.data(path).await?;
        if data.is_empty() {
            let names = self.children(path).await?;
            let Some(info) = names.iter().find(|name| name.starts_with(INFO)) else { return Ok(None) };
            data = self.data(&format!("{path}/{info}")).await?;
        }
        let read = read_written::<WrittenSubtask>(path, &data).ok();
        Ok(read.map(|subtask| subtask.partition_name).filter(|name| !name.is_empty()))
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Fault> {
        Ok(self.children_of_each(&[path]).await?.pop().unwrap_or_default())
    }

    /// The names of the children of these nodes or directories below the old tree's root, at most [`BATCH`]; none of one
    /// that does not exist.
    async fn children_of_each(&self, paths: &[&str]) -> Result<Vec<Vec<String>>, Fault> {
        match self {
            Self::Tree(tree, root) => {
                let paths: Vec<String> = paths.iter().map(|path| format!("{root}/{path}")).collect();
                let names = tree.children_of_each(&paths).await?.into_iter().map(|names| match names {
                    Err(Error::NoNode(_)) => Ok(Vec::new()),
                    names => Ok(names?),
                });
                names.collect()
            }
            Self::Files(dir) => {
                let names = paths.iter().map(|path| {
                    let entries = std::fs::read_dir(dir.join(path)).into_iter().flatten().flatten();
                    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
                });
                Ok(names.collect())
            }
        }
    }

    /// The data of a node or a file below the old tree's root; empty if there are none.
    async fn data(&self, path: &str) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Tree(tree, root) => {
                let node = tree.get(&format!("{root}/{path}")).await?;
                Ok(node.map(|node| node.data).unwrap_or_default())
            }
            Self::Files(dir) => Ok(std::fs::read(dir.join(path)).unwrap_or_default()),
        }
    }

    /// A sign that version 1 still runs: an ephemeral node of it, or a running subtask. Returns the path and the
    /// finding.
    pub async fn sign_of_life(&self) -> Result<Option<(String, &'static str)>, Fault> {
        let Self::Tree(tree, root) = self else { return Ok(None) };
        let mut rest = vec![root.clone()];
        while !rest.is_empty() {
            let parents = rest.split_off(rest.len().saturating_sub(BATCH));
            let paths = children_of(tree, &parents).await?;
            // The name is enough: when the node is read, the subtask may have ended, and others may have begun.
            if let Some(path) = paths.iter().find(|path| path.rsplit('/').next() == Some(RUNNING)) {
                return Ok(Some((path.clone(), "says that a runner runs")));
            }
            for paths in paths.chunks(BATCH) {
                for (path, node) in paths.iter().zip(tree.get_each(paths).await?) {
                    let node = match node {
                        Err(Error::NoNode(_)) => continue,
                        node => node?,
                    };
                    if node.owner.is_some() {
                        return Ok(Some((path.clone(), "lives with a session")));
                    }
                }
            }
            rest.extend(paths);
        }
        Ok(None)
    }

    /// Whether nodes of version 1 are below this root, including those left by an interrupted deletion.
    pub async fn is_at(tree: &Tree, root: &str) -> Result<bool, Fault> {
        let names = match tree.children(root).await {
            Err(Error::NoNode(_)) => Vec::new(),
            names => names?,
        };
        Ok(names.iter().any(|name| PARTS.contains(&name.as_str())))
    }

    /// The location of the source, for people.
    pub fn place(&self) -> String {
        match self {
            Self::Tree(_, root) => root.clone(),
            Self::Files(dir) => Path::display(dir).to_string(),
        }
    }
}

/// The paths of the children of these nodes, of which there are at most [`BATCH`].
async fn children_of(tree: &Tree, parents: &[String]) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for (parent, names) in parents.iter().zip(tree.children_of_each(parents).await?) {
        match names {
            Err(Error::NoNode(_)) => {}
            names => found.extend(names?.into_iter().map(|name| format!("{parent}/{name}"))),
        }
    }
    Ok(found)
}

/// The operations that delete a node and everything below it, the deepest first.
pub async fn removal(tree: &Tree, path: &str) -> Result<Vec<Op>, Fault> {
    let (mut found, mut listed) = (vec![path.to_owned()], 0);
    while listed < found.len() {
        let parents: Vec<String> = found.iter().skip(listed).take(BATCH).cloned().collect();
        listed += parents.len();
        found.extend(children_of(tree, &parents).await?);
    }
    Ok(found.into_iter().rev().map(|path| Op::Delete { path, version: None::<Version> }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_name_determines_state_and_new_id() {
        let name = |text: &str| text.parse::<Name>();
        let init = name("compct.xcloud24_9876.0.1617693156000").unwrap();
        assert_eq!((init.unit.as_str(), init.state), ("xcloud24_9876", State::Init));
        let crc = crc32fast::hash(b"xcloud24_9876");
        assert_eq!(init.id().to_string(), format!("{crc:08x}.16176931.56000000.0"));
        for (end, state) in [("Assigned", State::Assigned), ("Cancel", State::Cancel), ("Done", State::Done)]
        {
            let renamed = name(&format!("compct.xcloud24_9876.0.1617693156000.{end}")).unwrap();
            assert_eq!((renamed.id(), renamed.state), (init.id(), state));
        }
        assert_eq!(name("compct.a.example.org_1.0.1617693156000.Done").unwrap().unit, "a.example.org_1");
        for odd in [
            "",
            "x",
            "compct.u.1.1617693156000",
            "compct.u.0.16176",
            "compct.0.1617693156000",
            "compct.u.0.1617693156000.Lost",
        ] {
            assert!(name(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn assigned_task_starts_again_and_finished_task_keeps_counts() {
        let data = br#"{"db_name":"d","schema_name":"s","table_name":"t","repeat_flag":true,
            "RepeatInfo":{"repeatCount":3,"repeatInterval":60},"ResulttInfo":{"successCount":7},
            "partition_name":"p=1"}"#;
        let of = |text: &str| convert(&text.parse().unwrap(), "p", data, "m", "pc").unwrap();
        let live = of("compct.u.0.1617693156000.Assigned");
        assert_eq!((live.state, live.result.success_count, live.repeat.repeat_count), (State::Init, 0, 3));
        assert_eq!(live.named, ["p=1"], "a task for one partition does not become one for the whole table");
        let over = of("compct.u.0.1617693156000.Done");
        assert_eq!(
            (over.state, over.result.success_count, over.finished),
            (State::Done, 7, 1_617_693_156_000)
        );
        assert!(convert(&"compct.u.0.1617693156000".parse().unwrap(), "p", b"{}", "m", "pc").is_err());
    }

    #[test]
    fn task_info_may_be_yaml() {
        let name: Name = "compct.u.0.1617693156000.Done".parse().unwrap();
        let data = b"---\n# by hand\ndb_name: d\nschema_name: 's'\ntable_name: \"t 1\"\nrepeat_flag: true\n\
            RepeatInfo:\n  repeatCount: 3\n  repeatInterval: 60\nResulttInfo: {successCount: 7}\n";
        let task = convert(&name, "p", data, "m", "pc").unwrap();
        assert_eq!((task.table(), task.repeat.repeat_count), (["d", "s", "t 1"], 3));
        assert_eq!((task.result.success_count, task.repeat.repeat_count), (7, 3));
        for odd in [&b""[..], b"no JSON", b"db_name: d\n", b"db_name: [\n", b"{\"db_name\": 1}", b"\xff\xfe"]
        {
            assert!(convert(&name, "p", odd, "m", "pc").is_err(), "{odd:?}");
        }
    }
}
