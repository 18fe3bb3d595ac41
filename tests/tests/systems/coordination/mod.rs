//! The coordination layer of `allotd`: one suite that runs on ZooKeeper and in one process, and faults of real
//! ZooKeeper servers.

mod faults;
mod participants;
mod suite;
