//! What people do with tasks: the functions behind the command line and the console. They read and write ZooKeeper
//! directly. No unit needs to be running, except for a submission.

mod client;
mod explain;
mod history;
mod options;

pub use client::TaskClient;
pub use explain::time;
pub use history::HistoryQuery;
pub use options::{Submission, TaskChange};
