//! The state machines of Allot: who gets which seat, number, conference and account.
//!
//! Nothing in here knows Redis, reads a clock, draws a random number or does I/O. Each family is a folder
//! with the same rooms: `request` (what is asked), `state` (what is), `decide` (what shall happen; looks and
//! changes nothing), `event` and `apply` (what happens; cannot fail), `snapshot` (the state as bytes), and
//! the index structures that keep every question far below the size of the state.
//!
//! `shared` holds what the families have in common.

pub mod account;
pub mod conf;
pub mod numpool;
pub mod seat;
pub mod shared;
