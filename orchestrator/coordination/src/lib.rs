//! Coordination: who is alive, who leads, and a small tree that all roles share. The truth is in ZooKeeper or,
//! on one machine, in this process; the two differ only in [`session`], and everything above it is the same
//! code: [`Coordinator`] (one supervisor of the session), [`Tree`], [`Election`] and [`Leadership`], [`Membership`]
//! and [`Members`].
//!
//! `docs/coordination.md` says what is guaranteed and how.

mod coordinator;
mod election;
mod error;
#[cfg(any(test, feature = "in-process"))]
pub mod in_process;
mod leadership;
mod membership;
mod names;
mod node;
pub mod random;
pub mod session;
mod settle;
mod tree;
pub mod zookeeper;

pub use coordinator::{Coordinator, Settings, Status};
pub use election::Election;
pub use error::Error;
pub use leadership::{Leadership, LeadershipState, Term};
pub use membership::{Member, Members, Membership, Presence, Snapshot};
pub use names::{name_of_node, node_name};
pub use node::{Kind, MULTI_LIMIT, NODE_LIMIT, Node, Op, Version};
pub use session::Link;
pub use tree::Tree;
