//! Numbers in files, and numbers of an existing system.

pub mod file;
pub mod migrate;
