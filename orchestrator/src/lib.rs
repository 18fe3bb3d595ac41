//! What `allotd` is made of: the daemon and command line of Allot. A library only so that the end-to-end tests
//! can drive its parts against real servers; nothing here is a promise to others.
#![warn(missing_docs)]

mod cli;
pub mod coordination;
mod numbers;
mod seats;
mod store;
mod telemetry;

pub use cli::main;
