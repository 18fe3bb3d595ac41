//! Loading and moving: what `allot` does with files, caches and trees of earlier systems, load tests and replays. The
//! functions print nothing. `allot` calls them, and the console imports accounts with them.
#![allow(missing_docs, reason = "only `allot` uses this library")]

pub mod accounts;
pub mod numbers;
pub mod rush;
pub mod seats;
pub mod table;
pub mod upgrade;

/// Is told how many steps of how many are done.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);
