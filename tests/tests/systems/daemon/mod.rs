//! `allot` and `allotd`, and the sessions of the documentation.

mod client_example;
mod client_languages;
mod command_line;
mod conferences;
mod connections;
mod documentation;
mod failover;
mod generated_tables;
mod numbers;
mod plans;
mod prometheus;
mod questions;
mod resharding;
mod run;
mod seats;
mod security;
mod server_verbs;
mod terminals;
mod verbs;
mod zookeeper_rights;
mod zookeeper_security;
mod zookeeper_states;
