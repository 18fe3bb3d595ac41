//! The module on live Redis servers: replies, deadlines, streams of events, failovers and memory of each family.

mod accounts;
mod bounds;
mod cluster;
mod commands;
mod conference_counters;
mod conference_failover;
mod conferences;
mod conferences_numbers;
mod conferences_streams;
mod deadlines;
mod events;
mod failover;
mod memory;
mod numbers;
mod numbers_caps;
mod numbers_library;
mod numbers_reconcile;
mod numbers_soak;
mod numbers_waiting;
mod plans;
mod replies;
mod seat_rush;
mod seat_waiting;
mod seat_waiting_rush;
mod second_keys;
mod zmpop;
