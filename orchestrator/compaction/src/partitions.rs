//! Lists the partitions of a table: the lines that an operator's program prints, or the files of a directory.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::task::MainTask;
use crate::Settings;
use allot_runtime::child::program;
use allot_runtime::child::supervised::SupervisedChild;
use allot_runtime::child::watchdog::Watchdog;

/// Time limit of the partitions program.
const LISTING_TIMEOUT: Duration = Duration::from_secs(600);
/// Most bytes of a partition's name.
const MAX_NAME_BYTES: usize = 2048;

/// The partitions of a task's table, each once, in the order of the listing. `Err` holds the reason for people.
pub(crate) async fn list(config: &Settings, task: &MainTask) -> Result<Vec<String>, String> {
    let mut all = match (&config.partitions_dir, config.partitions.first()) {
        _ if !task.named.is_empty() => task.named.clone(),
        (Some(dir), _) => files(&fill(dir, task)).await?,
        (None, Some(program)) => run_program(program, &config.partitions, task).await?,
        (None, None) => {
            return Err(
                "unit has neither compaction.partitions nor compaction.partitions-dir to list them by".into(),
            );
        }
    };
    let mut seen = std::collections::HashSet::new();
    all.retain(|name| seen.insert(name.clone()));
    match all.iter().find(|name| name.len() > MAX_NAME_BYTES) {
        Some(long) => Err(format!("a partition's name has {} bytes; at most {MAX_NAME_BYTES}", long.len())),
        None => Ok(all),
    }
}

/// Replaces `{db}`, `{schema}` and `{table}` by the names of the task's table.
fn fill(text: &str, task: &MainTask) -> String {
    let [db, schema, table] = task.table();
    text.replace("{db}", db).replace("{schema}", schema).replace("{table}", table)
}

async fn files(dir: &str) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| format!("the directory of partitions, {dir}: {error}");
    let mut entries = tokio::fs::read_dir(dir).await.map_err(wrong)?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(wrong)? {
        if entry.file_type().await.map_err(wrong)?.is_file() {
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

async fn run_program(program: &str, command: &[String], task: &MainTask) -> Result<Vec<String>, String> {
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
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}
