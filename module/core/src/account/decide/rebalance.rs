//! Rebalances accounts by need. The use of each instance is projected to the end of the month from its pace over the
//! last day. Accounts that will have instructions left at the flat price go to instances that will lack some.
//!
//! The *rest* of an account is the number of instructions that it may still send at the flat price and below the cap.
//! The *need* of an instance is its projected use minus the rest of its accounts; a negative need is a surplus. A step
//! takes the instance with the greatest need. The instance of the same department with the greatest surplus gives it
//! one account that it can spare, which is an account whose rest is within its surplus. Of these accounts the step
//! moves the one with the smallest rest that covers the need, or the one with the largest rest if none covers it. It
//! stops when no instance has a need, no instance can spare an account, or the moves are used up. Modules of a
//! department share accounts if both have a WEIGHT.

use std::collections::BTreeMap;

use crate::account::model::place::Presence;
use crate::account::model::record::{Account, AccountState, Goal, Name, day_of};
use crate::account::model::state::Book;
use crate::account::model::tariff::Amount;
pub use crate::account::outcome::Shift;
use crate::shared::Millis;

/// The need of an instance, and the accounts that it may give.
#[derive(Debug)]
struct InstanceNeed {
    id: u32,
    module: u32,
    /// Projected use minus the rest; negative if instructions will be left over.
    need: i128,
    /// Accounts that the instance may give, with their rest, in ascending order.
    spare: Vec<(u64, u32)>,
    /// Price of the next instruction beyond the flat price.
    price: Amount,
}

impl Book {
    /// How many more instructions an instance will send this month if it continues as in the last day.
    pub fn projected(&self, instance: u32, now: Millis) -> u64 {
        let ahead = self.month_end(now).saturating_sub(now);
        self.indexed_instance(instance).map_or(0, |instance| instance.pace.forecast(now, ahead))
    }

    /// The moves that rebalancing makes now, at most `limit`. O(accounts of the departments + moves x instances).
    pub fn rebalance(&self, now: Millis, limit: usize) -> Vec<Shift> {
        let mut groups: BTreeMap<(Name, Option<u32>), Vec<InstanceNeed>> = BTreeMap::new();
        for (id, instance) in self.instances.iter() {
            let Some(module) = self.indexed_module(instance.module) else { continue };
            if instance.presence == Presence::Active {
                // A module without a weight does not share accounts.
                let alone = (module.weight == 0).then_some(instance.module);
                let group = groups.entry((module.department.clone(), alone)).or_default();
                group.push(self.need_of(id, instance.module, now));
            }
        }
        let coming = self.coming();
        for instance in groups.values_mut().flatten() {
            instance.need -= coming.get(&instance.id).copied().unwrap_or(0);
        }
        // The departments take turns, one move each, so that no department uses up the moves of the others.
        let mut groups: Vec<Vec<InstanceNeed>> = groups.into_values().collect();
        let mut shifts = Vec::new();
        while shifts.len() < limit && !groups.is_empty() {
            groups.retain_mut(|instances| {
                let shift = if shifts.len() < limit { self.even_out(instances) } else { None };
                let goes_on = shift.is_some();
                shifts.extend(shift);
                goes_on
            });
        }
        shifts
    }

    /// The rest of the accounts in transit to each instance.
    fn coming(&self) -> BTreeMap<u32, i128> {
        let mut coming = BTreeMap::new();
        let revoking = |&id: &u32| self.indexed(id).filter(|account| account.state == AccountState::Revoking);
        for (_, instance) in
            self.instances.iter().filter(|(_, instance)| instance.accounts.len() > instance.dealt as usize)
        {
            for account in instance.accounts.iter().filter_map(revoking) {
                if let Some(place) = account.goal.and_then(Goal::place) {
                    *coming.entry(place).or_insert(0) += i128::from(self.rest(account));
                }
            }
        }
        coming
    }

    fn need_of(&self, id: u32, module: u32, now: Millis) -> InstanceNeed {
        let (mut left, mut spare, mut price) = (0i128, Vec::new(), None::<Amount>);
        let accounts = self.indexed_instance(id).into_iter().flat_map(|instance| &instance.accounts);
        for &number in accounts {
            let Some(account) = self.indexed(number) else { continue };
            if account.state != AccountState::Dealt {
                continue;
            }
            let rest = self.rest(account);
            left += i128::from(rest);
            let next = account.tariff.next_price(account.used_in(self.month).max(account.tariff.quota));
            price = Some(price.map_or(next, |price| price.min(next)));
            if rest > 0 && self.may_move(account, now) {
                spare.push((rest, number));
            }
        }
        spare.sort_unstable();
        let need = i128::from(self.projected(id, now)) - left;
        InstanceNeed { id, module, need, spare, price: price.unwrap_or_default() }
    }

    /// Instructions that an account has left at the flat price and below the cap.
    fn rest(&self, account: &Account) -> u64 {
        account.room(self.month, self.settings.limit()).unwrap_or(0)
    }

    /// Whether an account has stayed long enough and has not been moved too often today.
    fn may_move(&self, account: &Account, now: Millis) -> bool {
        now.saturating_sub(account.since) >= self.settings.dwell
            && account.moves_on(day_of(now)) < self.settings.max_moves
    }

    /// The next move among these instances, if any helps.
    fn even_out(&self, instances: &mut [InstanceNeed]) -> Option<Shift> {
        let by_need = |place: &usize| instances.get(*place).map(|instance| instance.need);
        let taker = (0..instances.len()).max_by_key(by_need)?;
        let need = by_need(&taker).filter(|&need| need > 0)?;
        // The instance with the greatest surplus, among the instances that can spare an account.
        let giver = instances.iter().enumerate().filter_map(|(place, instance)| {
            let over = -instance.need;
            let fits = instance.spare.partition_point(|&(rest, _)| i128::from(rest) <= over);
            (place != taker && fits > 0).then_some((over, place, fits))
        });
        let (_, giver, fits) = giver.max_by_key(|&(over, ..)| over)?;
        self.shift(instances, (giver, fits), taker, need)
    }

    /// Moves the account that helps most from one instance to another.
    fn shift(
        &self,
        instances: &mut [InstanceNeed],
        (giver, fits): (usize, usize),
        taker: usize,
        need: i128,
    ) -> Option<Shift> {
        let from = instances.get_mut(giver)?;
        // The smallest rest that covers the need. If the giver cannot spare such an account, the largest that it can.
        let enough = from.spare.partition_point(|&(rest, _)| i128::from(rest) < need);
        let (rest, account) = from.spare.remove(enough.min(fits.saturating_sub(1)));
        from.need += i128::from(rest);
        let source = (self.module_name(from.module), self.instance_name(from.id));
        let to = instances.get_mut(taker)?;
        to.need -= i128::from(rest);
        Some(Shift {
            account: self.indexed(account)?.name.clone(),
            from: source,
            to: (self.module_name(to.module), self.instance_name(to.id)),
            avoided: Amount(need.min(i128::from(rest)) * to.price.0),
        })
    }
}
