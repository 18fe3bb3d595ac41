//! The compaction role: a ZooKeeper ensemble, units as processes, runners as programs.

mod faults;
mod figures;
mod options;
mod supervision;
mod tasks;
mod upgrade;
