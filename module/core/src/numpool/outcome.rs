//! What a request to a pool comes to.

use super::event::Event;
use super::number::Number;
use crate::shared::decision;
use crate::shared::{Bytes, Millis};

/// What happens, and what the caller is told.
pub type Decision = decision::Decision<Event, Reply>;

/// What the caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Ok,
    /// No number is free.
    None,
    /// A count, or a time.
    Integer(i64),
    /// A number for a call.
    Lease(LeaseRecord),
    /// What became of a switch's leases.
    Reconciled(Reconciled),
}

/// A lease as its holder sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Its number.
    pub number: Number,
    /// Its name.
    pub token: Bytes,
    /// When it ends by itself, if it does.
    pub until: Option<Millis>,
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
