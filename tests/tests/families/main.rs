//! What every family of values owes to Redis: its values are keys like any other, they survive replication and
//! restarts, and hostile input does them no harm.

/// Makes each of these checks a test of each family.
macro_rules! for_each_family {
    ($($check:ident),+ $(,)?) => {
        mod seats { $(#[test] fn $check() { super::$check::<crate::seats::Seats>(); })+ }
        mod numbers { $(#[test] fn $check() { super::$check::<crate::numbers::Numbers>(); })+ }
        mod conferences { $(#[test] fn $check() { super::$check::<crate::conferences::Conferences>(); })+ }
        mod accounts { $(#[test] fn $check() { super::$check::<crate::accounts::Accounts>(); })+ }
    };
}

mod accounts;
mod accounts_only;
mod commands;
mod conferences;
mod conferences_copies;
mod conferences_replicas;
mod family;
mod hostile;
mod keyspace;
mod memory_usage;
mod notifications;
mod numbers;
mod persistence;
mod replication;
mod seats;
mod seats_only;
mod seats_persistence;
