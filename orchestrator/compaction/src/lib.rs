//! Compaction of tables: a task is split into one subtask for each partition, the subtasks are spread over the units
//! of a cluster, and the task is followed to its end.
//!
//! All state is in ZooKeeper (`task_store`). Three loops compare that state with what should be: `worker` runs
//! subtasks, `manager` assigns the subtasks of the tasks that this unit manages, and `monitor` (one for the cluster)
//! reassigns the tasks of lost managers. The runner, an operator's program, does the compaction under a `supervisor`.
//!
//! docs/compaction.md describes the behaviour.

#![warn(clippy::disallowed_types)]

mod admission;
mod counters;
mod fault;
pub mod hashing;
pub mod history;
pub mod ids;
mod manager;
mod monitor;
pub mod node;
mod node_context;
mod notify;
mod operations;
mod packed_list;
pub mod partitions;
pub mod paths;
pub mod permits;
mod results;
mod runner;
pub mod schedule;
mod settings;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
#[cfg(test)]
mod simulation;
mod supervisor;
pub mod task;
pub mod task_store;
mod unit;
pub mod window;
mod worker;

pub use fault::Fault;
pub use operations::{HistoryQuery, Submission, TaskChange, TaskClient, time};
pub use settings::{Section, Settings};
pub use supervisor::{COMMAND as SUPERVISOR_COMMAND, run as run_supervisor};
pub use unit::run;
pub use worker::unit_fault::Refusal;
