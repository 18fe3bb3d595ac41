//! The numbers of holders: those whose conference is gone, for example because its realm was deleted, are free again.

use super::due::deadline;
use crate::numpool::event::{Cause, Event, Events, Numbers, each_some};
use crate::numpool::number::Number;
use crate::numpool::state::Pool;
use crate::shared::Millis;
use std::ops::Range;

/// For how long the holder of a lease must lack its conference before the lease ends. A realm that was lost is made
/// again and adopts the conferences that its units still have.
pub const MISSED_FOR: Millis = 30_000;

impl Pool {
    /// Who holds numbers instead of a switch. O(holders).
    pub fn holders(&self) -> Vec<&[u8]> {
        (0..self.holders.slots()).filter_map(|holder| self.holders.name(holder)).collect()
    }

    /// How many places the table of leases has.
    pub fn lease_places(&self) -> u32 {
        self.leases.table().slots()
    }

    /// Looks at the leases of a holder in some places. Returns the ends of those that an earlier look, `MISSED_FOR`
    /// ago, and all looks since then found without a conference. `has` says on which numbers the holder has one.
    /// O(places).
    pub fn look_at_held(
        &mut self,
        holder: &[u8],
        places: Range<u32>,
        now: Millis,
        has: impl Fn(Number) -> bool,
    ) -> Events {
        let Some(holder) = self.holders.find(holder) else { return Events::new() };
        let mut ended = Numbers::new();
        for id in places.start..places.end.min(self.lease_places()) {
            let Some(lease) = self.leases.get(id).filter(|lease| lease.holder == holder) else { continue };
            let number = self.number(lease.number);
            if has(number) {
                self.missed.remove(&id);
            } else if now.saturating_sub(*self.missed.entry(id).or_insert(now)) >= MISSED_FOR
                && !self.has_expired(id, now)
            {
                ended.push(number);
            }
        }
        let cool_until = deadline(now, None, self.settings.cooldown);
        let (cause, word, quarantine) = (Cause::Reconciled, None, None);
        each_some(ended, |numbers| Event::Ended {
            numbers,
            cool_until,
            cause,
            word: word.clone(),
            quarantine,
        })
    }
}
