//! The operations that the command line has, too, and that are more than one command of Redis or ZooKeeper. The program
//! gives the console its own functions, so that both do the same.

use std::fmt;

use allot_client::BookStore;
use allot_compaction::ids::TaskId;
use allot_compaction::task::MainTask;
use anyhow::Result;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::submission::Submission;
use crate::task_change::TaskChange;

/// What the program does for the console.
pub trait Operations: Send + Sync {
    /// Why a task of compaction does not run, or has not finished: one reason after another.
    fn explain(&self, task: TaskId) -> BoxFuture<'_, Result<Vec<String>>>;

    /// Submits a task of compaction. Returns its id.
    fn submit(&self, wanted: Submission) -> BoxFuture<'_, Result<String>>;

    /// Changes options of an unfinished task of compaction. Returns the task as it is now.
    fn set(&self, wanted: TaskChange) -> BoxFuture<'_, Result<MainTask>>;

    /// Runs the failed partitions of a finished task again.
    fn retry(&self, task: TaskId) -> BoxFuture<'_, Result<()>>;

    /// Gives a task to another manager, or a waiting subtask to another worker: to this unit, or to any other. Returns
    /// the unit.
    fn reassign(&self, task: TaskId, to: Option<String>) -> BoxFuture<'_, Result<String>>;

    /// Makes a book of accounts equal to a table, or only says what would change.
    fn import(&self, book: BookStore, key: String, wanted: Import) -> BoxFuture<'_, Result<Imported>>;
}

/// The reason that an operation refuses a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The request itself is wrong.
    Wrong(String),
    /// The request does not fit the state that was found.
    Conflict(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(why) | Self::Conflict(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refusal {}

/// A table of accounts to import.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Import {
    /// The table (CSV), as `allot accounts import` reads it.
    pub table: String,
    /// Say what would change, and change nothing.
    pub dry_run: bool,
    /// Also delete accounts that the table does not have.
    #[serde(default)]
    pub delete: bool,
    /// Places of new modules for which the table names none.
    #[serde(default = "one")]
    pub instances: u32,
    /// The `comparison` of a dry run. If table and book differ in another way by now, the import is refused, and changes
    /// nothing.
    pub seen: Option<String>,
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
    /// A digest of the difference, for `seen`.
    pub comparison: String,
    /// What went wrong after the changes were made; absent if nothing did.
    pub warning: Option<String>,
}
