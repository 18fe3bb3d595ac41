//! Live values: one reader for each thing that browsers look at, and any number of browsers that listen to it.
//!
//! A reader reads while somebody listens, and a few seconds longer. It decides by itself when to read again; what it
//! reads becomes messages, which all listeners share. A listener that falls behind loses messages, is told so, and reads
//! the page again.

mod book;
mod channel;
mod compaction;
mod denied;
mod events;
mod live_tasks;
mod mass_failure_guard;
mod overview;
mod partition_grid;
mod points;
mod pool;
mod realm;
mod registry;
mod show;
mod snapshot;

pub(crate) use channel::{Feed, Message};
pub(crate) use registry::{Feeds, Subject};
pub(crate) use snapshot::ShowSnapshot;
