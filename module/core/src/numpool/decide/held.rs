//! The numbers of holders that are gone, such as realms that were deleted.

use super::due::deadline;
use crate::numpool::event::{Cause, Event, Events, Numbers, each_some};
use crate::numpool::state::Pool;
use crate::shared::Millis;

impl Pool {
    /// Who holds numbers instead of a switch. O(holders).
    pub fn holders(&self) -> Vec<&[u8]> {
        (0..self.holders.slots()).filter_map(|holder| self.holders.name(holder)).collect()
    }

    /// The ends of at most `limit` leases of a holder that is gone.
    pub fn leases_to_end_of(&self, holder: &[u8], now: Millis, limit: usize) -> Events {
        let Some(holder) = self.holders.find(holder) else { return Events::new() };
        let leases = self.leases.list_of_holder(holder).iter(self.leases.table()).take(limit);
        let live = leases.filter(|&lease| !self.has_expired(lease, now));
        let numbers = live.filter_map(|lease| Some(self.number(self.leases.get(lease)?.number)));
        let numbers: Numbers = numbers.collect();
        let cool_until = deadline(now, None, self.settings.cooldown);
        let cause = Cause::Reconciled;
        each_some(numbers, |numbers| Event::Ended {
            numbers,
            cool_until,
            cause,
            word: None,
            quarantine: None,
        })
    }
}
