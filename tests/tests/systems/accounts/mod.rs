//! The accounts role: a book, ZooKeeper, `allotd` processes and client systems in Python.

mod assignment;
mod epochs;
mod inventory;
mod logins;
mod months;
mod other_programs;
mod random_workload;
mod reads;
mod replayed_months;
mod reported_use;
mod restarts;
mod stores;
