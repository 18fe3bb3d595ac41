//! `allotd` as a command line and as a daemon, and the sessions of the documentation.

mod command_line;
mod documentation;
mod failover;
mod numbers;
mod run;
mod seats;
mod security;
