//! ZooKeeper recipes: a supervised session ([`Coordinator`]), a small shared tree with limits and read-back of lost
//! answers ([`Tree`]), leader election with fencing ([`Election`], [`Leadership`]), and group membership
//! ([`Membership`], [`Members`]). On one machine an in-process implementation replaces ZooKeeper ([`in_process`], behind
//! a feature). The two implement the traits of [`session`]; everything above those traits is the same code.
//!
//! `docs/concepts.md` describes the guarantees and how they are kept.

#![warn(clippy::disallowed_types)]

mod coordinator;
mod election;
mod error;
mod follower;
#[cfg(any(test, feature = "in-process"))]
pub mod in_process;
mod leadership;
mod membership;
mod names;
mod node;
mod problems;
pub mod random;
pub mod session;
mod sessions;
mod settle;
mod shared;
mod tree;
pub mod zookeeper;

pub use coordinator::Coordinator;
pub use election::Election;
pub use error::{Error, Retry, Retryable};
pub use follower::{Follower, Following, Retries, Update};
pub use leadership::{Leadership, LeadershipState, Term};
pub use membership::{Member, Members, Membership, Presence, Snapshot};
pub use names::{name_of_node, node_name};
pub use node::{Kind, MULTI_LIMIT, NODE_LIMIT, Node, Op, Version};
pub use session::Link;
pub use sessions::{Lease, Sessions};
pub use shared::{Limits, Status};
pub use tree::Tree;
