//! Accounts: what a company rents on another's platform, dealt to the instances of its modules so that each is in one
//! place at a time, logged in at one terminal at a time, and where it is needed before anybody pays extra.
//!
//! One book is one state. The way of a request: `request` (what was asked) -> `decide` (with `logins` for who works with
//! an account, `deal` for who gets which, `rebalance` for where they will be needed) -> `event` (what happens) ->
//! `apply`. The state is `state`: modules and their instances (`place`), accounts (`record`), what they cost (`tariff`).
//! `snapshot` writes and reads the whole, `read` answers questions, `quality` says how good a deal is.

mod admit;
mod apply;
mod check;
pub mod deal;
pub mod decide;
mod encoding;
pub mod event;
mod logins;
mod machine;
pub mod place;
pub mod quality;
pub mod read;
pub mod rebalance;
pub mod record;
pub mod request;
pub mod snapshot;
pub mod state;
pub mod tariff;

pub use decide::{Decision, Reply, decide, decide_due, decide_over};
pub use event::Event;
pub use request::Request;
pub use state::{Book, Settings};
