//! The compaction role: a ZooKeeper ensemble, units as processes, runners as programs.

mod faults;
mod figures;
mod supervision;
mod tasks;
mod upgrade;
