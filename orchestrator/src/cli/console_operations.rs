//! What the console does with the functions of the command line.

use allot_client::BookStore;
use allot_compaction::ids::TaskId;
use allot_console::{Import, Imported, Operations, Submission};
use allot_coordination::Coordinator;
use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{accounts, compaction};
use crate::config::Config;

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
        async move { Ok(compaction::submit(config, coordinator, &words(&wanted)).await?.to_string()) }.boxed()
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
        async move { accounts::import_table(&self.config, &book, &key, &wanted).await }.boxed()
    }
}

/// A submission as the words of `allotd compaction submit`. Each value is part of the word of its option, and the names
/// follow `--`, so that no value is taken for an option.
fn words(wanted: &Submission) -> Vec<String> {
    let Submission { db, schema, table, partitions, .. } = wanted;
    let mut words: Vec<String> = partitions.iter().map(|name| format!("--partition={name}")).collect();
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let options = [
        ("node", wanted.node.clone()),
        ("pc", wanted.pc.clone()),
        ("priority", wanted.priority.map(|value| value.to_string())),
        ("limit", number(wanted.limit.map(u64::from))),
        ("window", wanted.window.clone()),
        ("timeout", wanted.timeout.clone()),
        ("retry-failed", number(wanted.retry_failed.map(u64::from))),
        ("min-score", wanted.min_score.map(|value| value.to_string())),
        ("budget", number(wanted.budget)),
        ("every", wanted.every.clone()),
        ("cron", wanted.cron.clone()),
        ("repeat", number(wanted.repeat)),
    ];
    words.extend(
        options.into_iter().filter_map(|(name, value)| value.map(|value| format!("--{name}={value}"))),
    );
    if wanted.queue {
        words.push("--queue".to_owned());
    }
    words.extend(["--", db, schema, table].map(str::to_owned));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_submission_are_never_options() {
        let wanted = Submission {
            db: "--queue".to_owned(),
            schema: "public".to_owned(),
            table: "t".to_owned(),
            partitions: vec!["--priority=9".to_owned()],
            node: None,
            pc: None,
            priority: Some(-3),
            limit: None,
            window: Some("22:00-06:00".to_owned()),
            timeout: None,
            retry_failed: None,
            min_score: None,
            budget: None,
            every: None,
            cron: None,
            repeat: None,
            queue: false,
        };
        let expected = [
            "--partition=--priority=9",
            "--priority=-3",
            "--window=22:00-06:00",
            "--",
            "--queue",
            "public",
            "t",
        ];
        assert_eq!(words(&wanted), expected);
    }
}
