//! Conferences: which media unit (CMU) has which conference, by which assignment. A conference is open on one
//! unit or on none, and a unit that lost a conference can write nothing into it any more.
//!
//! One realm is one state. The way of a request: `request` (what was asked) -> `decide` -> `outcome` (events and a
//! reply) -> `event` (what happens) -> `apply`. Events of another server pass `admission` first. `model` has the state:
//! conferences, units, the table of transitions, messages, and the indexes by which everything is found without a scan.
//! `snapshot` reads and writes the whole state, `read` answers questions.

mod admission;
mod apply;
pub mod decide;
mod encoding;
pub mod event;
mod machine;
pub mod model;
pub mod outcome;
pub mod read;
pub mod request;
pub mod snapshot;

pub use decide::{decide, decide_due};
pub use event::Event;
pub use model::state::Realm;
pub use model::{conference, messages, state, transitions, unit};
pub use outcome::{Decision, Reply};
pub use request::Request;

// The names that the module used before; they go when it has followed.
pub use decide::{placing, reconcile_report as reports};
pub use model::messages as mail;
