//! The compaction role: a ZooKeeper ensemble, units as processes, runners as programs.

mod drain;
mod faults;
mod figures;
mod many_tasks;
mod notifications;
mod options;
mod outages;
mod rounds;
mod supervision;
mod tasks;
mod upgrade;
