//! The outcome of a request: events to apply, and the reply to the caller.

use super::event::{Event, InstanceEvent};
use super::model::record::Name;
use super::model::tariff::Amount;
use super::read::Used;
use crate::shared::Bytes;
use crate::shared::decision;
use crate::words;

pub(super) use crate::shared::decision::{decided, unchanged};
pub(super) use crate::shared::refusal::refuse;

/// Events to apply, and the reply to the caller.
pub type Decision = decision::Decision<Event, Reply>;

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, or no change.
    Ok,
    /// A count.
    Integer(i64),
    /// The book's record.
    Book,
    /// A module's record, by its name.
    Module(Name),
    /// A department's budget, by its name.
    Department(Name),
    /// An instance's record, by its names.
    Instance(Name, Name),
    /// An account's record, by its name.
    Account(Bytes),
    /// The accounts that an instance can use next, at most so many: its module, its name, the number.
    Picked(Name, Name, usize),
    /// Instructions used, and their cost.
    Used(Used),
    /// The moves of rebalancing.
    Moves(Vec<Shift>),
}

/// A decision, or a refusal.
pub type Decided = decision::Decided<Event, Reply>;

words! {
    /// Why rebalancing moves an account.
    pub enum Reason {
        /// The move avoids extra cost.
        Cost => "cost",
        /// The receiving instance has fewer accounts than the `MIN` of its module.
        Min => "min",
    }
}

/// A move of rebalancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The account.
    pub account: Bytes,
    /// Module and instance that give the account.
    pub from: (Name, Name),
    /// Module and instance that get the account.
    pub to: (Name, Name),
    /// The cost that the move avoids at the receiving instance.
    pub avoided: Amount,
    /// Why the account moves.
    pub reason: Reason,
}

impl Shift {
    /// The event of the move.
    pub fn event(&self) -> Event {
        let (module, instance) = self.to.clone();
        InstanceEvent::Shifted { account: self.account.clone() }.of(module, instance)
    }
}
