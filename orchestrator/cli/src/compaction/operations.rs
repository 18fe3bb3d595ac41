//! What other programs of this process do with tasks, without a terminal: the same as the commands.

use anyhow::Result;

use super::task_client::TaskClient;
use super::{explain as explained, failures, reassign as reassigned, set as changed, submit as submitted};
use allot_compaction::ids::TaskId;
use allot_compaction::task::MainTask;
use allot_coordination::Coordinator;
use allotd::config::Config;

/// Why a task is not running, or not finished.
pub(crate) async fn explain(config: Config, coordinator: Coordinator, id: TaskId) -> Result<Vec<String>> {
    explained::explain(&TaskClient::new(config, coordinator), id).await
}

/// Submits a task with the words of `allot compaction submit`. Returns its id.
pub(crate) async fn submit(config: Config, coordinator: Coordinator, words: &[String]) -> Result<TaskId> {
    submitted::submit_words(&TaskClient::new(config, coordinator), words).await
}

/// Changes an unfinished task with the words of `allot compaction set`. Returns the task as it is now.
pub(crate) async fn set(config: Config, coordinator: Coordinator, words: &[String]) -> Result<MainTask> {
    changed::set_words(&TaskClient::new(config, coordinator), words).await
}

/// Runs the failed partitions of a finished task again.
pub(crate) async fn retry(config: Config, coordinator: Coordinator, id: TaskId) -> Result<()> {
    failures::reopen(&TaskClient::new(config, coordinator), id).await
}

/// Gives a task to another manager, or a waiting subtask to another worker. Returns the unit.
pub(crate) async fn reassign(
    config: Config,
    coordinator: Coordinator,
    id: TaskId,
    to: Option<&str>,
) -> Result<String> {
    reassigned::reassign(&TaskClient::new(config, coordinator), (id, !id.is_main()), to).await
}
