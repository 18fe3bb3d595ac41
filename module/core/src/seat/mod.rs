//! Seats: a buyer asks for N places of a tier, and gets the best that are free, together if that can be.
//!
//! One show is one state. A `request` is decided (`decide`, with `search` for best seating and `alter` for changes of
//! the plan); its `outcome` is a reply and events. An `event` is the only thing that changes a show (`apply`). `model`
//! is the state: which seats are free by bucket (`state`), where they are (`venue`, which `building` makes of a `plan`)
//! and who has the others (`claims`); `bits` and `index` find a run of free seats. `snapshot` writes and reads the whole
//! state, and `read` answers questions.

mod apply;
pub mod decide;
pub mod event;
mod machine;
mod model;
pub mod outcome;
pub mod read;
pub mod request;
pub mod snapshot;

pub use decide::{decide, decide_due};
pub use event::Event;
pub use model::{bits, claims, index, labels, plan, state, venue};
pub use outcome::{Decision, HoldRecord, Reply};
pub use request::Request;
pub use state::Show;
