//! Decides `ACCOUNT.PICK`. An instance that finds no account to use gets one.

use super::lookups::{known_instance, known_module};
use crate::account::event::{Events, InstanceEvent};
use crate::account::model::place::{Instance, Module, Presence};
use crate::account::model::record::Account;
use crate::account::model::state::Book;
use crate::account::outcome::{Decided, Decision, Reply};

/// The most free accounts that are looked at for one below the cap.
const MAX_PASSED: usize = 100;

pub(super) fn decide_pick(book: &Book, module: &[u8], instance: &[u8], count: usize) -> Decided {
    let (module_id, module) = known_module(book, module)?;
    let (id, instance) = known_instance(book, module_id, module, instance)?;
    let reply = Reply::Picked(module.name.clone(), instance.name.clone(), count);
    let finds_none = || book.pick(instance, 1).is_empty();
    let asks = instance.presence == Presence::Active && finds_none();
    let account = if asks { book.account_for(module, id, instance) } else { None };
    let moved = account.map(|account| {
        InstanceEvent::Shifted { account: account.name.clone() }
            .of(module.name.clone(), instance.name.clone())
    });
    Ok(Decision { events: moved.into_iter().collect::<Events>(), reply })
}

impl Book {
    /// An account below the cap for an instance that finds none: a free account of the module, also of its reserve, or
    /// an account without a login of the instance with the most of them. That instance keeps the `min` of the module,
    /// and has no fewer accounts than the instance that asks has below the cap.
    fn account_for(&self, module: &Module, id: u32, asker: &Instance) -> Option<&Account> {
        let (month, limit) = self.order();
        let is_open = |account: &&Account| account.rank(month, limit).is_open();
        let mut free = module.free.iter().take(MAX_PASSED).filter_map(|id| self.indexed(id));
        if let Some(free) = free.find(is_open) {
            return Some(free);
        }
        let others = module.instances().filter(|&other| other != id);
        let others = others.filter_map(|other| self.indexed_instance(other));
        let gives = |other: &&Instance| {
            other.presence == Presence::Active
                && other.assigned > module.policy.min
                && !other.ready.is_empty()
        };
        let giver = others.filter(gives).max_by_key(|other| other.ready.len())?;
        let usable = asker.accounts.iter().filter_map(|&id| self.indexed(id)).filter(is_open).count();
        let account = self.pick(giver, 1).first().copied()?;
        (giver.assigned as usize >= usable.max(1)).then_some(account)
    }
}
