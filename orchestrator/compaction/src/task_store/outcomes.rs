//! Counts the outcomes of subtasks.

use super::failures::{COUNT_RESERVE, size_in_log};
use super::{FILL, Fault, Found, TaskStore, delete};
use crate::ids::TaskId;
use crate::task::{Ended, MainTask, SubState, read, write};

/// Most outcomes that one multi counts.
const BATCH: usize = 500;
/// Bytes of an operation without its path and its data, at most.
const OVERHEAD: usize = 80;

impl TaskStore {
    /// Counts the outcomes that workers have written, as many as fit into one multi. Returns how many. An outcome
    /// that cannot be read counts as failed; a node that is no outcome of a subtask is deleted.
    pub async fn count(&self, main: &mut Found<MainTask>, names: &[String]) -> Result<usize, Fault> {
        let dir = self.paths.finished(main.id);
        let batch: Vec<String> = names.iter().take(BATCH).cloned().collect();
        let mut new = main.task.clone();
        let (mut ops, mut failed) = (Vec::new(), Vec::new());
        let mut size = write(&new).len() + COUNT_RESERVE;
        for (name, node) in self.tree.get_many(&dir, batch).await? {
            let path = format!("{dir}/{name}");
            size += path.len() + OVERHEAD;
            match name.parse::<TaskId>() {
                Ok(id) if id.is_main() || id.of_main() != main.id => {
                    tracing::warn!(path, "deleting an outcome of another task");
                }
                Ok(id) => {
                    let unread =
                        |fault: Fault| new.subtask(id, "", "").ended(SubState::Failed, &fault.to_string());
                    let outcome = read::<Ended>(&path, &node.data).unwrap_or_else(unread);
                    size += size_in_log(&outcome);
                    if size > FILL && !ops.is_empty() {
                        break;
                    }
                    failed.extend(new.count_outcome(id, &outcome));
                }
                Err(why) => tracing::warn!(path, why, "deleting a node that is no outcome"),
            }
            ops.push(delete(path));
        }
        let count = ops.len();
        if count > 0 {
            ops.extend(self.log_failures(main, &mut new, failed).await?);
            self.write(main, new, ops).await?;
        }
        Ok(count)
    }
}
