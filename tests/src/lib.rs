//! The test rig: real redis-servers with and without the module, faults, captured replication streams and
//! exact replies. The end-to-end tests live in `tests/`: a few programs, since linking each takes long, with one file
//! for each concern.
//!
//! A rig that cannot do what a test asks of it fails that test on the spot, with the reason and the
//! server's log, so nothing here returns a `Result`.
//!
//! Long runs are short by default: the whole suite stays well inside twenty minutes on two cores. With
//! `ALLOT_SOAK=1` they are long: more steps, more hostile input, every byte of a file instead of some. A test
//! that draws random numbers prints its seed; `ALLOT_SEED=n` draws others.

pub mod accounts_system;
mod audit;
pub mod books;
pub mod browser;
pub mod checkers;
pub mod child;
pub mod clients;
pub mod cluster;
pub mod compaction_cluster;
pub mod consoles;
pub mod daemon;
pub mod damage;
pub mod garbage;
mod health;
pub mod http;
pub mod keyed;
pub mod launch;
mod lost_replies;
pub mod module;
pub mod pools;
pub mod preload;
pub mod process;
pub mod proxy;
pub mod random;
pub mod raw;
pub mod realms;
pub mod redis_server;
pub mod seat_workload;
pub mod sentinel;
pub mod shows;
pub mod stream;
pub mod system;
pub mod terminal;
pub mod tls;
pub mod usage;
pub mod wait;
pub mod writes;
pub mod zookeeper;

pub use accounts_system::AccountsSystem;
pub use child::ChildProcess;
pub use cluster::Cluster;
pub use lost_replies::LostReplies;
pub use module::{allot, allotd, liballot};
pub use process::Process;
pub use random::Random;
pub use raw::{RawClient, Reply};
pub use redis_server::RedisServer;
pub use seat_workload::SeatWorkload;
pub use sentinel::Sentinel;
pub use stream::ReplicationStream;
pub use system::{Plan, System};
pub use tls::Certificates;
pub use wait::eventually;
pub use zookeeper::{Ensemble, ZooKeeperServer};

/// The first number, or with `ALLOT_SOAK=1` the second.
pub fn soak(short: usize, long: usize) -> usize {
    if std::env::var_os("ALLOT_SOAK").is_some_and(|value| value != "0") { long } else { short }
}
