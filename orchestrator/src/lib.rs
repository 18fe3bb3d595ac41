//! What `allotd` is made of: the daemon and command line of Allot. A library only so that the end-to-end tests
//! can drive its parts against real servers; nothing here is a promise to others.
#![warn(missing_docs)]

mod accounts;
mod chance;
mod cli;
mod cmu;
mod compaction;
mod conference;
mod config;
pub mod coordination;
mod daemon;
mod data_proxy;
mod moment;
mod numbers;
mod operator;
mod program;
mod seats;
mod store;
mod telemetry;
mod transport;
mod watchdog;

pub use cli::main;
