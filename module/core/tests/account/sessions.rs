//! The logins and logouts that changes of a book cause at its instances.

use allot_core::account::rebalance::Shift;
use allot_core::account::{AccountEvent, Book, Event, InstanceEvent};

/// How often instances got an account, and how often they lost one. An instance that uses all its accounts logs in or
/// out each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions {
    pub(crate) logins: usize,
    pub(crate) logouts: usize,
}

impl Sessions {
    /// Applies an event, and counts the accounts that have another instance after it.
    pub(crate) fn apply(&mut self, book: &mut Book, at: i64, event: &Event) {
        let accounts = match event {
            Event::Deleted { accounts }
            | Event::Rehomed { accounts, .. }
            | Event::Withdrawn { accounts }
            | Event::Instance {
                event: InstanceEvent::Assigned { accounts } | InstanceEvent::Recalled { accounts },
                ..
            } => accounts,
            Event::Instance { event: InstanceEvent::Shifted { account }, .. }
            | Event::Account {
                account,
                event: AccountEvent::LoggedOut { .. } | AccountEvent::Frozen { .. },
            } => std::slice::from_ref(account),
            _ => &[],
        };
        let holders = |book: &Book| -> Vec<Option<u32>> {
            let holder =
                |name| Some(book.account_called(name)?.instance).filter(|&id| book.instance(id).is_some());
            accounts.iter().map(|name| holder(name)).collect()
        };
        let before = holders(book);
        book.apply(at, event);
        for (before, after) in before.iter().zip(holders(book)).filter(|(before, after)| **before != *after) {
            self.logouts += usize::from(before.is_some());
            self.logins += usize::from(after.is_some());
        }
    }

    /// These, and those that moves of rebalancing must cause.
    pub(crate) fn with_moves(self, moves: &[Shift]) -> Self {
        let from_instances = moves.iter().filter(|shift| !shift.from.1.is_empty()).count();
        Self { logins: self.logins + moves.len(), logouts: self.logouts + from_instances }
    }
}
