//! How messages travel: streams beside the realm's key. Commands to a unit are read in order by that unit alone;
//! what units tell is read by a group of data proxies, and acknowledged when it is written.

mod commands;
mod entry;
mod group;

pub use commands::{BLOCK, Commands};
pub use entry::Entry;
pub use group::Group;
