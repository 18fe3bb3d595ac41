//! Accounts that a company rents on a platform, assigned to the instances of the company's modules. An account is
//! with one instance at a time and logged in at one terminal at a time. Accounts are assigned so that the flat prices
//! are used before extra instructions are paid.
//!
//! One book is one state. The path of a request: `request` -> `decide` -> `outcome` (events and a reply) -> `event` ->
//! `apply`. Events of another server pass `admits` first. `event` defines the events, and what they change. `model` has the state: modules and their instances,
//! accounts, tariffs, sums of use, and the indexes over them. `snapshot` encodes and decodes the whole state, `read` has
//! the queries, `quality` measures assignments.

pub mod decide;
pub mod event;
mod machine;
mod messages;
pub mod model;
pub mod outcome;
pub mod quality;
pub mod read;
pub mod request;
pub mod snapshot;

pub use decide::{assign, rebalance};
pub use decide::{decide, decide_due, decide_over};
pub use event::{AccountEvent, Event, InstanceEvent};
pub use model::state::{Book, Settings};
pub use model::{place, record, state, tariff};
pub use outcome::{Decision, Reply};
pub use request::{InstanceRequest, ManagerRequest, Request};
