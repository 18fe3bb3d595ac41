//! Rebalances accounts by need. The use of each instance is projected to the end of the month. Accounts that will have
//! instructions left at the flat price go to instances that will lack some; `needs` explains both.
//!
//! Free accounts take part as well: those of an empty place, or of a module without an instance, that are not in
//! reserve. They are all surplus once they have been free for the time `lend` of their module.
//!
//! First, each instance that has fewer accounts than the `min` of its module gets accounts, independent of their use,
//! from the free accounts of its module, from instances that have more than theirs, or at last from the reserve. Then a
//! step takes the instance with the greatest need. The instance of the same department with the greatest surplus gives
//! it one account that it can spare, which is an account whose rest is within its surplus, but none of its last `min`
//! accounts. Of these accounts the step moves the one with the smallest rest that covers the need, or the one with the
//! largest rest if none covers it. A step that avoids no cost, or less than the margin of the book, is not made.
//! Rebalancing stops when no instance has a need, no instance can spare an account, or the moves are used up. Modules
//! of a department share accounts if both have a WEIGHT.
//!
//! If a department has no instructions left to exchange at the flat price, and an instance of it still has a need, the
//! same steps follow for the next higher price: accounts move to instances that would pay this price or more.

use std::collections::BTreeSet;

use super::needs::{Group, InstanceNeed};
use crate::account::model::state::Book;
use crate::account::model::tariff::{Amount, MAX_STEPS};
pub use crate::account::outcome::{Reason, Shift};
use crate::shared::Millis;
use crate::shared::list::NONE;

impl Book {
    /// The moves that rebalancing makes now, at most `limit`. O(instances + prices x accounts of the departments in which
    /// an instance lacks something + moves x instances); more than one price only for departments with an instance that
    /// pays extra.
    pub fn rebalance(&self, now: Millis, limit: usize) -> Vec<Shift> {
        let steps = self.tariffs.keys().flat_map(|tariff| &tariff.steps);
        let prices: BTreeSet<Amount> = steps.map(|step| step.price).filter(|price| price.0 > 0).collect();
        let mut prices = prices.into_iter().take(MAX_STEPS);
        let mut below = prices.next().unwrap_or(Amount(1));
        let mut groups = self.groups(now, below, None);
        let fill_up = |group: &mut [InstanceNeed]| self.fill_up(group, below);
        let mut shifts = by_turns(&mut groups, limit, fill_up);
        loop {
            let even_out = |group: &mut [InstanceNeed]| self.even_out(group, below);
            let left = limit - shifts.len();
            shifts.extend(by_turns(&mut groups, left, even_out));
            groups.retain(|group| {
                group.moves == 0 && group.instances.iter().any(|instance| instance.need() > 0)
            });
            let Some(next) = prices.next().filter(|_| !groups.is_empty() && shifts.len() < limit) else {
                return shifts;
            };
            below = next;
            groups = self.groups(now, below, Some(&groups));
        }
    }

    /// The next move to an instance that lacks accounts, the one that lacks most first. An instance that no account can
    /// be given does not keep the others from theirs.
    fn fill_up(&self, instances: &mut [InstanceNeed], below: Amount) -> Option<Shift> {
        loop {
            let taker = (0..instances.len()).max_by_key(|&place| lacks(instances, place))?;
            if lacks(instances, taker) == 0 {
                return None;
            }
            if let Some((giver, account)) = self.source_for(instances, taker) {
                let source = (giver, account, below);
                return self.shift(instances, source, taker, Reason::Min, Amount(0));
            }
            // Later moves only take more accounts away.
            instances.get_mut(taker)?.lacks = 0;
        }
    }

    /// The account that an instance below its `min` gets, and who gives it. Free accounts of the module come first,
    /// without the reserve; then free accounts of other modules, and accounts of the instance with the most above its
    /// own `min`; then the other free accounts of other modules, because an instance without accounts can do nothing;
    /// and then the reserve of the module.
    fn source_for(&self, instances: &[InstanceNeed], taker: usize) -> Option<(usize, u32)> {
        let module = instances.get(taker)?.module;
        let own = |instance: &InstanceNeed| instance.id == NONE && instance.module == module;
        let order = |instance: &InstanceNeed| (own(instance), instance.id == NONE, instance.gives);
        let mut givers: Vec<(usize, &InstanceNeed)> = instances.iter().enumerate().collect();
        givers.retain(|(_, instance)| instance.gives > 0);
        givers.sort_by_key(|(_, instance)| std::cmp::Reverse(order(instance)));
        let mut chosen = givers.iter().filter_map(|(giver, instance)| {
            let account = self.next_given(instance, own(instance))?;
            Some((*giver, account))
        });
        let lent_last = || {
            givers.iter().find_map(|(giver, instance)| {
                let account = instance.lent_last.iter().find(|id| !instance.given.contains(id))?;
                Some((*giver, *account))
            })
        };
        let reserve = || {
            let (giver, free) = instances.iter().enumerate().find(|(_, instance)| own(instance))?;
            Some((giver, self.next_given(free, true)?))
        };
        chosen.next().or_else(lent_last).or_else(reserve)
    }

    /// The next account of an instance that gives one. Of free accounts, another module gets only those that may be
    /// lent.
    fn next_given(&self, giver: &InstanceNeed, to_own_module: bool) -> Option<u32> {
        let new = |id: &u32| !giver.given.contains(id);
        if giver.id != NONE {
            return self.givable(giver.id).find(new);
        }
        if to_own_module {
            return self.indexed_module(giver.module)?.free.iter().find(new);
        }
        giver.spare.iter().rev().map(|&(_, id)| id).find(new)
    }

    /// The next move that avoids cost among these instances.
    fn even_out(&self, instances: &mut [InstanceNeed], below: Amount) -> Option<Shift> {
        let need = |place: usize| instances.get(place).map_or(0, InstanceNeed::need);
        // Free accounts, or the instance with the greatest surplus, among the instances that can spare an account.
        let givers = instances.iter().enumerate().filter_map(|(place, instance)| {
            let surplus = instance.surplus();
            let fits = instance.spare.partition_point(|&(rest, _)| i128::from(rest) <= surplus);
            let order = (instance.id == NONE, surplus);
            (fits > 0 && instance.gives > 0).then_some((order, place, fits))
        });
        let (_, place, fits) = givers.max_by_key(|&(order, ..)| order)?;
        let giver = instances.get(place)?;
        let mut takers: Vec<usize> = (0..instances.len()).filter(|&place| need(place) > 0).collect();
        takers.sort_by_key(|&place| std::cmp::Reverse(need(place)));
        let chosen = takers.into_iter().find_map(|taker| {
            // The smallest rest that covers the need. If the giver cannot spare such an account, the largest that it
            // can.
            let enough = giver.spare.partition_point(|&(rest, _)| i128::from(rest) < need(taker));
            let &(_, account) = giver.spare.get(enough.min(fits.saturating_sub(1)))?;
            let value = self.value(self.indexed(account)?, below);
            let avoided = Amount(instances.get(taker)?.saves_by(&value) - giver.pays_without(&value));
            (avoided.0 > 0 && avoided >= self.settings.margin).then_some((taker, account, avoided))
        });
        let (taker, account, avoided) = chosen?;
        self.shift(instances, (place, account, below), taker, Reason::Cost, avoided)
    }

    /// Moves an account from one instance to another, and corrects what both need and have.
    fn shift(
        &self,
        instances: &mut [InstanceNeed],
        (giver, account, below): (usize, u32, Amount),
        taker: usize,
        reason: Reason,
        avoided: Amount,
    ) -> Option<Shift> {
        let record = self.indexed(account)?;
        let value = self.value(record, below);
        let from = instances.get_mut(giver)?;
        from.lose(account, &value);
        let source = (self.module_name(from.module), self.instance_name(from.id));
        let to = instances.get_mut(taker)?;
        to.gain(&value);
        let target = (self.module_name(to.module), self.instance_name(to.id));
        Some(Shift { account: record.name.clone(), from: source, to: target, avoided, reason })
    }
}

/// Makes at most `limit` moves. The groups take turns, one move each, so that no department uses up the moves of
/// the others.
fn by_turns(
    groups: &mut [Group<'_>],
    limit: usize,
    next: impl Fn(&mut [InstanceNeed]) -> Option<Shift>,
) -> Vec<Shift> {
    let mut groups: Vec<&mut Group<'_>> = groups.iter_mut().collect();
    let mut shifts = Vec::new();
    while shifts.len() < limit && !groups.is_empty() {
        groups.retain_mut(|group| {
            let shift = if shifts.len() < limit { next(&mut group.instances) } else { None };
            let goes_on = shift.is_some();
            group.moves += usize::from(goes_on);
            shifts.extend(shift);
            goes_on
        });
    }
    shifts
}

/// How many accounts an instance lacks.
fn lacks(instances: &[InstanceNeed], place: usize) -> usize {
    instances.get(place).map_or(0, |instance| instance.lacks)
}
