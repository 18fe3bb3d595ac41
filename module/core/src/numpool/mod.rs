//! Number pools: many callers share few outgoing numbers, each of which carries one call at a time.
//!
//! One pool is one state. The way of a request: `request` (what was asked) -> `decide` (with `pick` for which free
//! number) -> `event` (what happens) -> `apply`. `cells` is the state machine of a number as a table, which both
//! read. The state is `state`: which numbers there are (`directory`, whose names are `number`s), a record for each
//! (`record`), who waits in the queue, live calls (`leases`), the switches that registered numbers and the peers
//! they called (`groups`), and an order over them that exists once somebody picks by prefix or by use (`order`).
//! `snapshot` writes and reads the whole, `read` answers questions.

mod apply;
pub mod cells;
mod check;
pub mod decide;
pub mod directory;
pub mod event;
pub mod groups;
pub mod leases;
mod machine;
pub mod number;
pub mod order;
mod pick;
pub mod read;
mod record;
pub mod request;
pub mod snapshot;
pub mod state;

pub use decide::{Decision, LeaseRecord, Reply, decide, decide_due};
pub use event::Event;
pub use number::Number;
pub use request::Request;
pub use state::{Pool, Settings};
