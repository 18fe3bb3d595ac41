//! The accounts role: a book, ZooKeeper, `allotd` processes and client systems in Python.

mod assignment;
mod inventory;
mod random_workload;
mod stores;
