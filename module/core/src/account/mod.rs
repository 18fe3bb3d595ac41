//! Accounts: what a company rents on another's platform, assigned to the instances of its modules so that each is in one
//! place at a time, logged in at one terminal at a time, and where it is needed before anybody pays extra.
//!
//! One book is one state. The way of a request: `request` (what was asked) -> `decide` -> `outcome` (events and a reply)
//! -> `event` (what happens) -> `apply`. Events of another server pass `admission` first. `model` has the state: modules
//! and their instances, accounts, tariffs, sums of use, and the indexes over them. `snapshot` writes and reads the whole
//! state, `read` answers questions, `quality` says how good an assignment is.

mod admission;
mod apply;
pub mod decide;
mod encoding;
pub mod event;
mod machine;
pub mod model;
pub mod outcome;
pub mod quality;
pub mod read;
pub mod request;
pub mod snapshot;

pub use decide::{deal, rebalance};
pub use decide::{decide, decide_due, decide_over};
pub use event::Event;
pub use model::state::{Book, Settings};
pub use model::{place, record, state, tariff};
pub use outcome::{Decision, Reply};
pub use request::Request;
