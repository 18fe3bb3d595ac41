//! Number pools: many callers share a few outgoing numbers, and each number carries one call at a time.
//!
//! One pool is one state. A `request` is decided (`decide`, with `pick` for the choice of a free number and `due` for
//! what expires); its `outcome` is a reply and events. An `event` is the only thing that changes a pool (`apply`).
//! `model` is the state: which numbers there are (`directory`, whose names are `number`s), a `record` for each, the
//! state machine of a number as a table (`cells`), the queue, live calls (`leases`), the switches that registered
//! numbers and the peers they called (`groups`), and the sorted free numbers from the first choice by prefix or by use on
//! (`sorted_free`, of `tree`s; `sorting` sorts them in slices).
//! `snapshot` encodes and decodes the whole state, and `read` has the queries. `waiting` serves calls that wait for a
//! number, which are kept in the state (`waiters`) but are no part of it.

pub mod decide;
pub mod event;
mod machine;
mod messages;
mod model;
pub mod outcome;
pub mod read;
pub mod request;
pub mod snapshot;
mod sorting;
pub mod waiting;

pub use decide::{decide, decide_due};
pub use event::Event;
use model::record;
pub use model::{
    causes, cells, directory, groups, heartbeats, last_numbers, leases, number, settings, state, suspensions,
};
pub use number::Number;
pub use outcome::{Decision, LeaseRecord, Reply};
pub use request::Request;
pub use settings::Settings;
pub use state::Pool;
