//! The outcome of a request to a pool.

use super::event::{Event, Numbers};
use super::number::Number;
use crate::shared::decision;
use crate::shared::{Bytes, Millis};

/// Events to apply, and the reply to the caller.
pub type Decision = decision::Decision<Event, Reply>;

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Ok,
    /// No number is free.
    None,
    /// A count, or a time.
    Integer(i64),
    /// Until when a switch is alive.
    Alive(Alive),
    /// What became of a list of numbers.
    Listed(Listed),
    /// A number for a call.
    Lease(LeaseRecord),
    /// What became of a switch's leases.
    Reconciled(Reconciled),
}

/// The record of a lease, as it is replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Its number.
    pub number: Number,
    /// Its name.
    pub token: Bytes,
    /// Deadline of the lease, if it has one.
    pub until: Option<Millis>,
}

/// Until when a switch is alive, as it is replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The deadline of the switch.
    pub until: Millis,
    /// How many calls it carries.
    pub calls: u32,
}

/// What became of a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// How many of them changed.
    pub done: i64,
    /// Those that are not in the pool, in the order of the request.
    pub missing: Numbers,
}

/// What became of a switch's leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Leases that go on.
    pub kept: u64,
    /// Leases that were ended.
    pub freed: u64,
    /// Tokens that are no live lease of this switch.
    pub unknown: Vec<Bytes>,
}
