//! What comes of a request: events to be applied, and what the caller is told.

use super::event::Event;
use super::model::record::Name;
use super::model::tariff::Amount;
use super::read::Used;
use crate::shared::Bytes;
use crate::shared::decision;

pub(super) use crate::shared::refusal::refuse;

/// What happens, and what the caller is told.
pub type Decision = decision::Decision<Event, Reply>;

/// What the caller hears.
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
    /// An instance's record, by its names.
    Instance(Name, Name),
    /// An account's record, by its name.
    Account(Bytes),
    /// What was used.
    Used(Used),
    /// Who moves, and what each move avoids.
    Moves(Vec<Shift>),
}

/// A decision, or why there is none.
pub type Decided = decision::Decided<Event, Reply>;

pub(super) fn decided(event: Event, reply: Reply) -> Decision {
    Decision::event(event, reply)
}

pub(super) fn unchanged(reply: Reply) -> Decision {
    Decision::unchanged(reply)
}

/// A move of rebalancing, and what it is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The account.
    pub account: Bytes,
    /// Module and instance that give it.
    pub from: (Name, Name),
    /// Module and instance that get it.
    pub to: (Name, Name),
    /// What the instructions that it has left would have cost where it goes.
    pub avoided: Amount,
}

impl Shift {
    /// The event that makes it so.
    pub fn event(&self) -> Event {
        let (module, instance) = self.to.clone();
        Event::Shifted { account: self.account.clone(), module, instance }
    }
}
