//! Lists the partitions of a table: the lines that an operator's program prints, or the files of a directory.

use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::task::{MainTask, SubTask};
use crate::Settings;
use allot_runtime::blocking;
use allot_runtime::child::program;
use allot_runtime::child::supervised::SupervisedChild;
use allot_runtime::child::watchdog::Watchdog;

/// Time limit of a listing of partitions.
const LISTING_TIMEOUT: Duration = Duration::from_secs(600);
/// Most bytes of a partition's name.
const MAX_NAME_BYTES: usize = 2048;
/// Most bytes of the name of a database, schema or table.
const MAX_TABLE_BYTES: usize = 200;

/// Checks the name of a database, schema or table. Such names become parts of paths and of environments.
///
/// # Errors
/// What is wrong with the name, for people.
pub fn check_table_name(what: &str, name: &str) -> Result<(), String> {
    if !(1..=MAX_TABLE_BYTES).contains(&name.len()) {
        return Err(format!("{what} has {} bytes; it may have 1 to {MAX_TABLE_BYTES}", name.len()));
    }
    let is_one_part = !matches!(name, "." | "..") && !name.contains('/');
    if is_one_part && !name.contains(char::is_control) {
        return Ok(());
    }
    Err(format!(
        "{what} {name:?} cannot be part of a path: it is '.' or '..', or has '/' or a control character"
    ))
}

/// Checks the name of a partition.
fn check_name(partition: &str) -> Result<(), String> {
    if !(1..=MAX_NAME_BYTES).contains(&partition.len()) {
        let len = partition.len();
        return Err(format!("a partition's name has {len} bytes; it may have 1 to {MAX_NAME_BYTES}"));
    }
    if partition.contains(char::is_control) {
        return Err(format!("partition {partition:?} has a control character"));
    }
    Ok(())
}

/// Checks a partition of a table before it is compacted: its name, and, where the partitions are the files of a directory,
/// that it is a file inside that of its table.
pub(crate) async fn check(config: &Settings, table: [&str; 3], partition: &str) -> Result<(), String> {
    check_name(partition)?;
    for (what, name) in ["database", "schema", "table"].into_iter().zip(table) {
        check_table_name(what, name)?;
    }
    let Some(dir) = &config.partitions_dir else { return Ok(()) };
    let dir = fill(dir, table);
    let path = Path::new(partition);
    // One file has one name, or two units could lock it under two.
    let is_plain =
        path.is_absolute() && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    if !is_plain || path.components().any(|part| part == Component::ParentDir) {
        return Err(format!(
            "partition {partition:?} is no plain absolute path: it has no '.', no '..' and no '//'"
        ));
    }
    let resolved = |path: PathBuf| async move {
        let shown = path.display().to_string();
        blocking::run(move || path.canonicalize()).await.map_err(|error| format!("{shown}: {error}"))
    };
    let (folder, file) = (resolved(dir.into()).await?, resolved(path.to_owned()).await?);
    if file != folder && file.starts_with(&folder) {
        return Ok(());
    }
    Err(format!("partition {partition:?} is outside of the directory of its table, {}", folder.display()))
}

/// The file of a subtask's partition, with all links resolved, if the partitions are the files of a directory; empty if
/// they are not, or if there is no such file (which [`check`] reports).
pub(crate) fn file(config: &Settings, sub: &SubTask) -> impl Future<Output = String> + Send + use<> {
    let partition = config.partitions_dir.is_some().then(|| sub.partition_name.clone());
    async move {
        let Some(partition) = partition else { return String::new() };
        let resolved = blocking::run(move || std::fs::canonicalize(partition)).await.ok();
        resolved.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_default()
    }
}

/// A partition as it was listed.
#[derive(Debug, Clone, PartialEq)]
struct Listed {
    name: String,
    /// The program's score; `None` if it printed none.
    score: Option<f64>,
}

impl From<String> for Listed {
    fn from(name: String) -> Self {
        Self { name, score: None }
    }
}

impl Listed {
    /// Parses a line of the partitions program: a name, or a name, a tab and a score.
    fn parse(line: &str) -> Result<Self, String> {
        let Some((name, score)) = line.rsplit_once('\t') else {
            return Ok(Self::from(line.trim().to_owned()));
        };
        let score = score.trim().parse::<f64>().ok().filter(|score| score.is_finite());
        let score = score.ok_or_else(|| format!("{line:?} is no NAME<TAB>SCORE: the score is no number"))?;
        Ok(Self { name: name.trim().to_owned(), score: Some(score) })
    }
}

/// The names of the partitions that the round compacts, each once: the highest scores first, then in the order of the
/// listing. A partition without a score has the score 0.
fn select(task: &MainTask, mut listed: Vec<Listed>) -> Result<Vec<String>, String> {
    let has_scores = listed.iter().any(|partition| partition.score.is_some());
    if task.min_score.is_some() && !has_scores && !listed.is_empty() {
        return Err(
            "the task has a lowest score (--min-score), and its partitions are listed without scores".into(),
        );
    }
    let score = |partition: &Listed| partition.score.unwrap_or_default();
    listed.retain(|partition| task.min_score.is_none_or(|lowest| score(partition) >= lowest));
    listed.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let mut seen = std::collections::HashSet::new();
    let mut names: Vec<String> = listed.into_iter().map(|partition| partition.name).collect();
    names.retain(|name| seen.insert(name.clone()));
    if task.budget > 0 {
        names.truncate(usize::try_from(task.budget).unwrap_or(usize::MAX));
    }
    Ok(names)
}

/// The partitions of a table as they were listed for a round.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The partitions that the round compacts, in this order.
    pub(crate) names: Vec<String>,
    /// Number of partitions that were listed, before those that the round does not compact were left out.
    pub(crate) listed: u64,
}

/// Lists the partitions of a task's table. `Err` holds the reason for people.
pub(crate) async fn list(config: &Settings, task: &MainTask) -> Result<Listing, String> {
    for (what, name) in ["database", "schema", "table"].into_iter().zip(task.table()) {
        check_table_name(what, name)?;
    }
    let unscored = |names: Vec<String>| names.into_iter().map(Listed::from).collect();
    let listed = match (&config.partitions_dir, config.partitions.first()) {
        _ if !task.named.is_empty() => unscored(task.named.clone()),
        (Some(dir), _) => {
            let dir = fill(dir, task.table());
            let late = format!("the directory of partitions, {dir}, did not answer in {LISTING_TIMEOUT:?}");
            let listed = timeout(LISTING_TIMEOUT, blocking::run(move || files(&dir))).await;
            unscored(listed.map_err(|_| late)??)
        }
        (None, Some(program)) => run_program(program, &config.partitions, task).await?,
        (None, None) => {
            return Err(
                "this compaction node has neither compaction.partitions nor compaction.partitions-dir to list them by".into(),
            );
        }
    };
    let count = listed.len() as u64;
    if count == 0 && task.listed > 0 && !task.allow_empty {
        return Err(format!(
            "the list of partitions is empty, and had {} before; --allow-empty accepts empty lists",
            task.listed
        ));
    }
    let names = select(task, listed)?;
    for name in &names {
        if task.named.is_empty() { check_name(name)? } else { check(config, task.table(), name).await? }
    }
    Ok(Listing { names, listed: count })
}

/// Replaces `{db}`, `{schema}` and `{table}` by the names of a table, which were checked.
fn fill(text: &str, [db, schema, table]: [&str; 3]) -> String {
    text.replace("{db}", db).replace("{schema}", schema).replace("{table}", table)
}

fn files(dir: &str) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| format!("the directory of partitions, {dir}: {error}");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if entry.file_type().map_err(wrong)?.is_file() {
            let path = entry.path();
            let name = path.to_str().ok_or_else(|| format!("{} is no text", path.display()))?;
            // Journal files of a database appear and disappear beside the database file.
            if !["-wal", "-shm", "-journal"].iter().any(|end| name.ends_with(end)) {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

async fn run_program(program: &str, command: &[String], task: &MainTask) -> Result<Vec<Listed>, String> {
    let [db, schema, table] = task.table();
    let fault = |error| format!("the partitions program {program} does not start: {error}");
    let child = program::command_with_parent_death_signal(command)
        .map_err(fault)?
        .env("ALLOT_TASK", &task.id)
        .env("ALLOT_DB", db)
        .env("ALLOT_SCHEMA", schema)
        .env("ALLOT_TABLE", table)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fault)?;
    // Dropping the child kills all that the program started. A listing is no runner: no permission to run can expire.
    let mut child = SupervisedChild::supervise(child, Watchdog::disconnected()).map_err(fault)?;
    if let Some(mut stdin) = child.take_stdin() {
        let input = serde_json::json!({"task": task.id, "db": db, "schema": schema, "table": table});
        // The program need not read its input.
        let _ = stdin.write_all(input.to_string().as_bytes()).await;
    }
    let output = timeout(LISTING_TIMEOUT, child.output())
        .await
        .map_err(|_| format!("the partitions program {program} did not end within {LISTING_TIMEOUT:?}"))?
        .map_err(|error| format!("the partitions program {program}: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last: String = stderr.chars().rev().take(500).collect::<Vec<_>>().into_iter().rev().collect();
        return Err(format!(
            "the partitions program {program} ended with {}: {}",
            output.status,
            last.trim()
        ));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| format!("{program} did not print text"))?;
    text.lines().filter(|line| !line.trim().is_empty()).map(Listed::parse).collect()
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used, reason = "a test reports what is wrong by failing")]
mod tests {
    use super::*;
    use crate::ids::TaskId;
    use crate::paths::Paths;

    /// A folder with the table `d/t`, which has one file and a link to a file outside, and a file outside.
    fn sample() -> (tempfile::TempDir, Settings) {
        let root = tempfile::tempdir().unwrap();
        let table = root.path().join("data/d/t");
        std::fs::create_dir_all(&table).unwrap();
        std::fs::create_dir_all(root.path().join("sys/secret")).unwrap();
        std::fs::write(table.join("file.db"), "").unwrap();
        std::fs::write(root.path().join("sys/secret/key"), "").unwrap();
        std::os::unix::fs::symlink(root.path().join("sys/secret/key"), table.join("link")).unwrap();
        let dir = format!("{}/data/{{db}}/{{table}}", root.path().display());
        (root, Settings { partitions_dir: Some(dir), ..Settings::default() })
    }

    fn task(table: [&str; 3], named: Vec<String>) -> MainTask {
        let id = TaskId::main("unit", 1);
        MainTask { named, ..MainTask::new(id, table.map(str::to_owned), "unit".into(), "pc".into()) }
    }

    #[tokio::test]
    async fn table_names_do_not_leave_the_folder() {
        let (_root, config) = sample();
        assert_eq!(list(&config, &task(["d", "s", "t"], vec![])).await.unwrap().names.len(), 1);
        for table in [
            ["../..", "s", "sys/secret"],
            ["..", "s", "."],
            ["d", "s", "t\n"],
            ["d", "..", "t"],
            ["", "s", "t"],
        ] {
            assert!(list(&config, &task(table, vec![])).await.is_err(), "{table:?}");
        }
    }

    #[tokio::test]
    async fn empty_list_after_one_that_was_not_is_an_error() {
        let (root, config) = sample();
        let mut task = task(["d", "s", "t"], vec![]);
        std::fs::remove_file(root.path().join("data/d/t/file.db")).unwrap();
        assert_eq!(list(&config, &task).await.unwrap().listed, 0);
        task.listed = 7;
        let why = list(&config, &task).await.unwrap_err();
        assert!(why.contains("had 7 before"), "{why}");
        task.allow_empty = true;
        assert_eq!(list(&config, &task).await.unwrap().names, Vec::<String>::new());
    }

    #[tokio::test]
    async fn file_that_cannot_be_a_partition_is_an_error_by_name() {
        use std::os::unix::ffi::OsStrExt as _;
        for name in [&b"two\nlines"[..], b"no\xfftext"] {
            let (root, config) = sample();
            let file = root.path().join("data/d/t").join(std::ffi::OsStr::from_bytes(name));
            std::fs::write(file, "").unwrap();
            let why = list(&config, &task(["d", "s", "t"], vec![])).await.unwrap_err();
            assert!(why.contains("two\\nlines") || why.contains("no\u{fffd}text"), "{why}");
        }
    }

    #[test]
    fn highest_scores_come_first_within_the_budget() {
        let parse = |text: &str| text.lines().map(Listed::parse).collect::<Result<Vec<_>, _>>();
        let listed = parse("a\t1.5\nb b\t-2\n c \nd\t1e3\na\t7\ne\t0").unwrap();
        let select = |min_score: Option<f64>, budget: u64| {
            let task = MainTask { min_score, budget, ..task(["d", "s", "t"], vec![]) };
            super::select(&task, listed.clone()).unwrap()
        };
        assert_eq!(select(None, 0), ["d", "a", "c", "e", "b b"]);
        assert_eq!(select(Some(0.0), 0), ["d", "a", "c", "e"]);
        assert_eq!(select(Some(0.5), 1), ["d"]);
        for wrong in ["a\tb", "a\t", "a\tNaN", "a\tinf"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        // Without scores the order remains, and a lowest score cannot be applied.
        let task = |min_score| MainTask { min_score, ..task(["d", "s", "t"], vec![]) };
        assert_eq!(super::select(&task(None), parse("z\ny").unwrap()).unwrap(), ["z", "y"]);
        assert!(super::select(&task(Some(1.0)), parse("z\ny").unwrap()).is_err());
        assert!(super::select(&task(Some(1.0)), Vec::new()).unwrap().is_empty());
    }

    #[tokio::test]
    async fn file_of_two_tables_has_one_lock() {
        let (root, config) = sample();
        let dir = format!("{}/data/d/t", root.path().display());
        std::os::unix::fs::symlink(&dir, root.path().join("data/d/u")).unwrap();
        let store = Paths::new("/r");
        let mut locks = Vec::new();
        for table in ["t", "u"] {
            let task = task(["d", "s", table], vec![]);
            let [partition] = &list(&config, &task).await.unwrap().names[..] else { panic!("one file") };
            let id = TaskId::main("unit", 1).subtask(1);
            let sub = task.subtask(id, partition, "unit");
            locks.push(store.file_lock(&file(&config, &sub).await));
        }
        assert_eq!(locks[0], locks[1]);
        let by_program = Settings::default();
        let sub = task(["d", "s", "t"], vec![]).subtask(TaskId::main("unit", 1).subtask(1), &dir, "unit");
        assert_eq!(file(&by_program, &sub).await, "");
    }

    #[tokio::test]
    async fn named_partitions_are_inside_the_folder_of_their_table() {
        let (root, config) = sample();
        let root = root.path().to_str().unwrap();
        let named = |name: &str| task(["d", "s", "t"], vec![format!("{root}/{name}")]);
        assert!(list(&config, &named("data/d/t/file.db")).await.is_ok());
        for outside in [
            "sys/secret/key",
            "data/d/t/../../../sys/secret/key",
            "data/d/t/link",
            "data/d/t/./file.db",
            "data/d//t/file.db",
            "data/d/t",
            "data/d/t/none",
        ] {
            assert!(list(&config, &named(outside)).await.is_err(), "{outside}");
            let partition = format!("{root}/{outside}");
            assert!(check(&config, ["d", "s", "t"], &partition).await.is_err(), "{outside}");
        }
        let by_program = Settings::default();
        assert!(check(&by_program, ["d", "s", "t"], "p=1/a b").await.is_ok());
        assert!(check(&by_program, ["d", "s", "t"], "a\u{1b}[2J").await.is_err());
    }
}
