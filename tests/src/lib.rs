//! The test rig: real redis-servers with and without the module, faults, captured replication streams and
//! exact replies. The end-to-end tests live in `tests/`, one file per concern.
//!
//! A rig that cannot do what a test asks of it fails that test on the spot, with the reason and the
//! server's log, so nothing here returns a `Result`.
#![warn(missing_docs)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a rig reports what is wrong by failing the test"
)]

pub mod cluster;
pub mod daemon;
pub mod module;
pub mod raw;
pub mod redis_server;
pub mod stream;
pub mod wait;

pub use cluster::Cluster;
pub use module::{allotd, liballot};
pub use raw::{RawClient, Reply};
pub use redis_server::RedisServer;
pub use stream::ReplicationStream;
pub use wait::eventually;
