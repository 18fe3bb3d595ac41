//! The compaction role: a ZooKeeper ensemble, units as processes, runners as programs.

mod faults;
mod figures;
mod many_tasks;
mod options;
mod outages;
mod supervision;
mod tasks;
mod upgrade;
