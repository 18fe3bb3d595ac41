//! Seats: a buyer asks for N seats of a tier, and gets the best free seats, together if possible.
//!
//! One show is one state. A `request` is decided (`decide`, with `search` for best seating and `alter` for changes of
//! the plan); its `outcome` is a reply and events. An `event` is the only thing that changes a show (`apply`).
//! `model` is the state: free seats by bucket (`state`), the layout (`venue`, which `building` makes of a `plan`),
//! and holds and sales (`claims`); `bits` and `index` find runs of free seats. `snapshot` encodes and decodes the
//! whole state. `read` has the queries, `list` the listings, and `find` searches without holding. `waiters`
//! keeps the waiting list (`waiting`) in step with the show, `blocking` the `blocks`, and `replan` everything with a changed
//! plan.

pub mod blocking;
pub mod decide;
pub mod event;
pub mod find;
pub mod list;
mod machine;
mod messages;
mod model;
pub mod outcome;
pub mod read;
mod replan;
pub mod request;
mod sales;
pub mod snapshot;
mod waiters;

pub use decide::{decide, decide_due};
pub use event::Event;
pub use model::{
    bits, blocks, claims, ended, index, kind, labels, places, plan, sparse, state, venue, waiting, wish,
};
use model::{moves, owners};
pub use outcome::{Decision, HoldRecord, Reply, WaitRecord};
pub use request::Request;
pub use state::Show;
