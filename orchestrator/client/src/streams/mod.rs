//! Messages in streams beside the realm's key. Each unit reads its own stream of commands in order. A group of data
//! proxies reads the stream of messages from units, and acknowledges a message when its details are written.

mod commands;
mod entry;
mod group;

pub use commands::{BLOCK, Commands};
pub use entry::{Entry, read_list};
pub use group::Group;
