//! Seats: a buyer asks for N places of a tier, and gets the best that are free, together if that can be.
//!
//! One show is one state. The way of a request: `request` (what was asked) -> `decide` (with `search` for best
//! seating, `alter` for changes of the plan) -> `event` (what happens) -> `apply`. The state is `state` (which
//! seats are free, by bucket) over `venue` (where they are; `building` makes one of a plan) and `claims` (who has
//! the others); `bits` and `index` make finding a run of seats a matter of a few words. `plan` and `labels` read
//! and write plans, `snapshot` the whole state, `read` answers questions.

mod alter;
mod apply;
pub mod bits;
mod building;
mod check;
pub mod claims;
pub mod decide;
pub mod event;
pub mod index;
pub mod labels;
mod machine;
pub mod plan;
pub mod read;
pub mod request;
pub mod search;
pub mod snapshot;
pub mod state;
pub mod venue;

pub use decide::{Decision, HoldRecord, Reply, decide, decide_due};
pub use event::Event;
pub use request::Request;
pub use state::Show;
