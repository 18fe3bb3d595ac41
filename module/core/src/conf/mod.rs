//! Conferences: which media unit (CMU) has which conference, by which assignment. A conference is open on one unit or
//! on none. A unit that lost a conference can no longer write details of that conference.
//!
//! One realm is one state. The path of a request: `request` -> `decide` -> `outcome` (events and a reply) -> `event`
//! -> `apply`. Events of another server pass `admits` first. `event` defines the events, and what they change. `model`
//! has the state: conferences, units, the table of transitions, messages, and the indexes that make scans unnecessary.
//! `snapshot` encodes and decodes the whole state. `read` has the queries.
//! `waiting` serves creations that wait for room, which are kept in the state but are no part of it.

pub mod decide;
pub mod event;
mod machine;
pub mod model;
pub mod outcome;
pub mod read;
pub mod request;
pub mod snapshot;
pub mod waiting;

pub use decide::{decide, decide_due};
pub use event::{ConferenceEvent, Event, UnitEvent};
pub use model::state::Realm;
pub use model::{conference, messages, state, transitions, unit};
pub use outcome::{Decision, Reply};
pub use request::Request;
