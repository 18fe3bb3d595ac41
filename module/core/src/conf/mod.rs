//! Conferences: which media unit (CMU) has which conference, by which assignment. A conference is open on one
//! unit or on none, and whoever lost it can write nothing any more.
//!
//! One realm is one state. The way of a request: `request` (what was asked) -> `decide` (with `rows` for the
//! table of transitions, `reports` for a unit's list, `placing` for who gets what) -> `event` (what happens) ->
//! `apply` (`units` for what whole units go through). The state is `state` over `conference` and `unit`, with `board`
//! (units by use) and `queues` (what waits, by zone and size) to find things without a scan, which `links` keeps in step.
//! `timing` says what is due, `mail` says what is told to units and to the world,
//! `snapshot` reads and writes the whole state, `read` answers questions.

mod admit;
mod apply;
pub mod board;
mod check;
pub mod conference;
pub mod decide;
mod encoding;
pub mod event;
mod links;
mod machine;
pub mod mail;
mod managing;
pub mod placing;
mod queues;
pub mod read;
pub mod reports;
pub mod request;
pub mod rows;
pub mod snapshot;
pub mod state;
mod timing;
pub mod unit;
mod units;

pub use decide::{Decision, Reply, decide};
pub use event::Event;
pub use request::Request;
pub use state::Realm;
pub use timing::decide_due;
