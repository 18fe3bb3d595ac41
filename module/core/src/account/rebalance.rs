//! Where accounts will be needed: use is projected to the end of the month by each instance's pace over the last day, and
//! accounts that will have something left go where something will be missing.
//!
//! An instance's *need* is its projected use less the rest of its accounts: what they have left at the flat price and below
//! the cap. A step takes the instance with the greatest need and gives it, from the one of its department that can spare
//! most, the account that helps most: whose rest is nearest to what is missing. It stops where no instance needs anything,
//! none can spare anything, or the moves are used up. Instances that share a module share its accounts; modules of a
//! department share theirs where both have a WEIGHT.

use std::collections::BTreeMap;

use super::apply::day_of;
use super::event::Event;
use super::place::Presence;
use super::record::{Account, Name, Standing};
use super::state::Book;
use super::tariff::Amount;
use crate::shared::{Bytes, Millis};

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

/// An instance as rebalancing sees it.
#[derive(Debug)]
struct Party {
    id: u32,
    module: u32,
    /// Projected use less what is left; negative where there will be something over.
    need: i128,
    /// Accounts that it may give, those with most left last.
    spare: Vec<(u64, u32)>,
    /// What the next instruction beyond the flat price costs.
    price: Amount,
}

impl Book {
    /// How many more instructions an instance will send this month at its pace.
    pub fn projected(&self, instance: u32, now: Millis) -> u64 {
        let ahead = self.month_end(now).saturating_sub(now);
        self.indexed_instance(instance).map_or(0, |instance| instance.pace.forecast(now, ahead))
    }

    /// The moves that rebalancing makes now, at most `limit`. O(accounts of the departments + moves x instances).
    pub fn rebalance(&self, now: Millis, limit: usize) -> Vec<Shift> {
        let mut groups: BTreeMap<(Name, Option<u32>), Vec<Party>> = BTreeMap::new();
        for (id, instance) in self.instances.iter() {
            let Some(module) = self.indexed_module(instance.module) else { continue };
            if instance.presence == Presence::Active {
                // A module without a weight shares with nobody.
                let alone = (module.weight == 0).then_some(instance.module);
                let group = groups.entry((module.department.clone(), alone)).or_default();
                group.push(self.party(id, instance.module, now));
            }
        }
        let coming = self.coming();
        for party in groups.values_mut().flatten() {
            party.need -= coming.get(&party.id).copied().unwrap_or(0);
        }
        // One move of each department in turn, so that none takes what the others would need.
        let mut groups: Vec<Vec<Party>> = groups.into_values().collect();
        let mut shifts = Vec::new();
        while shifts.len() < limit && !groups.is_empty() {
            groups.retain_mut(|parties| {
                let shift = if shifts.len() < limit { self.even_out(parties) } else { None };
                let goes_on = shift.is_some();
                shifts.extend(shift);
                goes_on
            });
        }
        shifts
    }

    /// What is left of the accounts on their way to each instance.
    fn coming(&self) -> BTreeMap<u32, i128> {
        let mut coming = BTreeMap::new();
        let revoking = |&id: &u32| self.indexed(id).filter(|one| one.standing == Standing::Revoking);
        for (_, instance) in self.instances.iter().filter(|(_, one)| one.accounts.len() > one.dealt as usize)
        {
            for one in instance.accounts.iter().filter_map(revoking) {
                if let Some(place) = Self::place_of(one.goal) {
                    *coming.entry(place).or_insert(0) += i128::from(self.rest(one));
                }
            }
        }
        coming
    }

    fn party(&self, id: u32, module: u32, now: Millis) -> Party {
        let (mut left, mut spare, mut price) = (0i128, Vec::new(), None::<Amount>);
        let accounts = self.indexed_instance(id).into_iter().flat_map(|instance| &instance.accounts);
        for &account in accounts {
            let Some(one) = self.indexed(account) else { continue };
            if one.standing != Standing::Dealt {
                continue;
            }
            let rest = self.rest(one);
            left += i128::from(rest);
            let next = one.tariff.next_price(one.used_in(self.month).max(one.tariff.quota));
            price = Some(price.map_or(next, |price| price.min(next)));
            if rest > 0 && self.may_move(one, now) {
                spare.push((rest, account));
            }
        }
        spare.sort_unstable();
        let need = i128::from(self.projected(id, now)) - left;
        Party { id, module, need, spare, price: price.unwrap_or_default() }
    }

    /// What an account has left at the flat price and below the cap.
    fn rest(&self, one: &Account) -> u64 {
        one.room(self.month, self.settings.limit()).unwrap_or(0)
    }

    /// Whether an account has stayed long enough and has not been moved too often today.
    fn may_move(&self, one: &Account, now: Millis) -> bool {
        now.saturating_sub(one.since) >= self.settings.dwell
            && one.moves_on(day_of(now)) < self.settings.max_moves
    }

    /// The next move among these, if there is one that helps.
    fn even_out(&self, parties: &mut [Party]) -> Option<Shift> {
        let by_need = |place: &usize| parties.get(*place).map(|party| party.need);
        let taker = (0..parties.len()).max_by_key(by_need)?;
        let need = by_need(&taker).filter(|&need| need > 0)?;
        // Who can spare most, of those that have an account whose rest they will not miss.
        let giver = parties.iter().enumerate().filter_map(|(place, party)| {
            let over = -party.need;
            let fits = party.spare.partition_point(|&(rest, _)| i128::from(rest) <= over);
            (place != taker && fits > 0).then_some((over, place, fits))
        });
        let (_, giver, fits) = giver.max_by_key(|&(over, ..)| over)?;
        self.shift(parties, (giver, fits), taker, need)
    }

    /// Moves the account that helps most from one party to another.
    fn shift(
        &self,
        parties: &mut [Party],
        (giver, fits): (usize, usize),
        taker: usize,
        need: i128,
    ) -> Option<Shift> {
        let from = parties.get_mut(giver)?;
        // The smallest rest that covers the need, else the largest.
        let enough = from.spare.partition_point(|&(rest, _)| i128::from(rest) < need);
        let (rest, account) = from.spare.remove(enough.min(fits.saturating_sub(1)));
        from.need += i128::from(rest);
        let source = (self.module_name(from.module), self.instance_name(from.id));
        let to = parties.get_mut(taker)?;
        to.need -= i128::from(rest);
        Some(Shift {
            account: self.indexed(account)?.name.clone(),
            from: source,
            to: (self.module_name(to.module), self.instance_name(to.id)),
            avoided: Amount(need.min(i128::from(rest)) * to.price.0),
        })
    }
}
