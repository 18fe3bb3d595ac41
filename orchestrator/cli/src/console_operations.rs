//! What the console does with the functions of the command line.

use allot_client::BookStore;
use allot_compaction::ids::TaskId;
use allot_compaction::task::MainTask;
use allot_console::{Import, Imported, Operations, Submission, TaskChange, words};
use allot_coordination::Coordinator;
use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{accounts, compaction};
use allotd::config::Config;

/// The operations of the command line, with the settings and the session of a process.
pub(crate) struct ConsoleOperations {
    pub(crate) config: Config,
    pub(crate) coordinator: Coordinator,
}

impl ConsoleOperations {
    fn parts(&self) -> (Config, Coordinator) {
        (self.config.clone(), self.coordinator.clone())
    }
}

impl Operations for ConsoleOperations {
    fn explain(&self, task: TaskId) -> BoxFuture<'_, Result<Vec<String>>> {
        let (config, coordinator) = self.parts();
        compaction::explain(config, coordinator, task).boxed()
    }

    fn submit(&self, wanted: Submission) -> BoxFuture<'_, Result<String>> {
        let (config, coordinator) = self.parts();
        async move { Ok(compaction::submit(config, coordinator, &words(&wanted)?).await?.to_string()) }
            .boxed()
    }

    fn set(&self, wanted: TaskChange) -> BoxFuture<'_, Result<MainTask>> {
        let (config, coordinator) = self.parts();
        async move { compaction::set(config, coordinator, &words(&wanted)?).await }.boxed()
    }

    fn retry(&self, task: TaskId) -> BoxFuture<'_, Result<()>> {
        let (config, coordinator) = self.parts();
        compaction::retry(config, coordinator, task).boxed()
    }

    fn reassign(&self, task: TaskId, to: Option<String>) -> BoxFuture<'_, Result<String>> {
        let (config, coordinator) = self.parts();
        async move { compaction::reassign(config, coordinator, task, to.as_deref()).await }.boxed()
    }

    fn import(&self, book: BookStore, key: String, wanted: Import) -> BoxFuture<'_, Result<Imported>> {
        let (config, coordinator) = self.parts();
        async move { accounts::import_table(&config, &coordinator, &book, &key, &wanted).await }.boxed()
    }
}
