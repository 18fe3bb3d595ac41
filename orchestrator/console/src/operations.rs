//! The operations that the command line has, too, and that are more than one command of Redis or ZooKeeper. The program
//! gives the console its own functions, so that both do the same.

use allot_client::BookStore;
use allot_compaction::ids::TaskId;
use anyhow::Result;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the program does for the console.
pub trait Operations: Send + Sync {
    /// Why a task of compaction does not run, or has not finished: one reason after another.
    fn explain(&self, task: TaskId) -> BoxFuture<'_, Result<Vec<String>>>;

    /// Submits a task of compaction. Returns its id.
    fn submit(&self, wanted: Submission) -> BoxFuture<'_, Result<String>>;

    /// Runs the failed partitions of a finished task again.
    fn retry(&self, task: TaskId) -> BoxFuture<'_, Result<()>>;

    /// Gives a task to another manager, or a waiting subtask to another worker: this unit, or one by hashing. Returns the
    /// unit.
    fn reassign(&self, task: TaskId, to: Option<String>) -> BoxFuture<'_, Result<String>>;

    /// Makes a book of accounts equal to a table, or only says what would change.
    fn import(&self, book: BookStore, key: String, wanted: Import) -> BoxFuture<'_, Result<Imported>>;
}

/// A task to submit, with the options of `allotd compaction submit`. An option that is absent has the default of the
/// command.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Submission {
    /// Database.
    pub db: String,
    /// Schema.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Only these partitions; if empty, the manager lists the partitions.
    #[serde(default)]
    pub partitions: Vec<String>,
    /// The unit that manages the task.
    pub node: Option<String>,
    /// The processing cluster.
    pub pc: Option<String>,
    /// Subtasks of tasks with a higher priority start first.
    pub priority: Option<i32>,
    /// The most subtasks that run at once; 0 for any number.
    pub limit: Option<u32>,
    /// Time of day in which subtasks may start, e.g. `22:00-06:00`.
    pub window: Option<String>,
    /// Time limit of each runner, e.g. `30m`.
    pub timeout: Option<String>,
    /// Times that partitions which failed run again, after all others of the round.
    pub retry_failed: Option<u32>,
    /// Partitions with a lower score are left out.
    pub min_score: Option<f64>,
    /// The most partitions of a round, those with the highest scores; 0 for all.
    pub budget: Option<u64>,
    /// From the end of a round to the beginning of the next, e.g. `1h`.
    pub every: Option<String>,
    /// Begin each round at these times, e.g. `0 2 * * *`.
    pub cron: Option<String>,
    /// Rounds in all; 0 until stopped.
    pub repeat: Option<u64>,
    /// If the table has an unfinished task, wait for it instead of failing.
    #[serde(default)]
    pub queue: bool,
}

/// A table of accounts to import.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Import {
    /// The table (CSV), as `allotd accounts import` reads it.
    pub table: String,
    /// Say what would change, and change nothing.
    pub dry_run: bool,
    /// Also delete accounts that the table does not have.
    #[serde(default)]
    pub delete: bool,
    /// Places of new modules for which the table names none.
    #[serde(default = "one")]
    pub instances: u32,
}

fn one() -> u32 {
    1
}

/// What an import changes, or would change.
#[derive(Debug, Serialize, ToSchema)]
pub struct Imported {
    /// The difference between book and table, in words.
    pub lines: Vec<String>,
    /// How many modules and accounts are created, changed, moved and deleted.
    pub changes: u64,
    /// Whether the changes were made.
    pub applied: bool,
}
