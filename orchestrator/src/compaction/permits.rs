//! Limits on how many subtasks run at once: ephemeral nodes `Permits/<scope>.<number>`, one for each that runs. A worker
//! creates them in the multi that begins a subtask, so two can never take the same, and they go with its session.

use super::board::{Board, Fault};
use super::paths::encode;
use super::task::MainTask;
use crate::chance;

/// The scope of all tasks together.
pub(crate) const ALL: &str = "all";

/// The permits that a subtask of a task needs: scope and limit.
pub(crate) fn needed(task: &MainTask, cluster: u32) -> Vec<(String, u32)> {
    let table = task.table().map(encode).join(".");
    let limits = [(format!("table.{table}"), task.limit), (ALL.to_owned(), cluster)];
    limits.into_iter().filter(|(_, limit)| *limit > 0).collect()
}

/// A free permit of each scope, as paths; or none where one of them has no free one.
pub(crate) fn free(board: &Board, taken: &[String], needed: &[(String, u32)]) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    for (scope, limit) in needed {
        let numbers: Vec<u32> =
            (0..*limit).filter(|number| !taken.contains(&format!("{scope}.{number}"))).collect();
        // Not the same as all others try.
        let number = numbers.get(chance::within(0..numbers.len().max(1)))?;
        paths.push(board.paths.permit(&format!("{scope}.{number}")));
    }
    Some(paths)
}

/// Those that are taken, in order.
pub(crate) async fn taken(board: &Board) -> Result<Vec<String>, Fault> {
    let mut names = board.children(&board.paths.permits()).await?;
    names.sort_unstable();
    Ok(names)
}
