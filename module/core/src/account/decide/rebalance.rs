//! Rebalances accounts by need. The use of each instance is projected to the end of the month. Accounts that will have
//! instructions left at the flat price go to instances that will lack some.
//!
//! The *rest* of an account is the number of instructions that it may still send at the flat price and below the cap.
//! The *need* of an instance is its projected use minus the rest of its accounts; a negative need is a surplus. An
//! instance whose use cannot be projected yet has neither.
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

use std::collections::{BTreeMap, BTreeSet};

use crate::account::model::place::{Module, Presence};
use crate::account::model::record::{Account, AccountState, Goal, day_of};
use crate::account::model::state::{Book, levels_of};
use crate::account::model::tariff::Amount;
pub use crate::account::outcome::{Reason, Shift};
use crate::shared::Millis;
use crate::shared::list::NONE;

/// The need of an instance, and the accounts that it may give; or the free accounts of a module.
#[derive(Debug)]
struct InstanceNeed {
    /// `NONE` for the free accounts of the module.
    id: u32,
    module: u32,
    /// How many more accounts the instance may give before only `min` are left.
    gives: usize,
    /// How many accounts the instance lacks until it has `min`.
    lacks: usize,
    /// Projected use minus the rest; negative if instructions will be left over. `None` if the use cannot be projected.
    need: Option<i128>,
    /// Accounts that the instance may give, with their rest, in ascending order.
    spare: Vec<(u64, u32)>,
    /// Accounts that the instance gives in this rebalancing.
    given: BTreeSet<u32>,
    /// Price of the next instruction beyond the flat price.
    price: Amount,
}

/// Instances that exchange accounts.
type Group = Vec<InstanceNeed>;

impl Book {
    /// How many more instructions an instance will send this month; `None` if too little is known about it.
    pub fn projected(&self, instance: u32, now: Millis) -> Option<u64> {
        let instance = self.indexed_instance(instance)?;
        let module = self.indexed_module(instance.module)?;
        let start = self.month_start(self.month).unwrap_or(now);
        let even = module.sums.quota.checked_div(module.sums.accounts as u128).unwrap_or(0);
        let quota = even.saturating_mul(instance.accounts.len() as u128);
        instance.pace.forecast(now, (start, self.month_end(now)), quota)
    }

    /// The moves that rebalancing makes now, at most `limit`. O(accounts of the departments + moves x instances).
    pub fn rebalance(&self, now: Millis, limit: usize) -> Vec<Shift> {
        let mut groups: BTreeMap<(&[u8], Option<u32>), Group> = BTreeMap::new();
        for (&id, module) in self.module_names.values().filter_map(|id| Some((id, self.modules.get(*id)?))) {
            // A module without a weight does not share accounts.
            let alone = (module.weight == 0).then_some(id);
            let group = groups.entry((self.sharing_department(module), alone)).or_default();
            let active = |&id: &u32| {
                self.indexed_instance(id).is_some_and(|instance| instance.presence == Presence::Active)
            };
            group.extend(module.instances().filter(active).filter_map(|id| self.need_of(id, now)));
            group.extend(self.free_of(id, module, now));
        }
        let coming = self.coming();
        for instance in groups.values_mut().flatten() {
            let rest = coming.get(&instance.id).copied().unwrap_or(0);
            instance.need = instance.need.map(|need| need - rest);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        let mut shifts = self.by_turns(&mut groups, limit, Self::fill_up);
        let left = limit - shifts.len();
        shifts.extend(self.by_turns(&mut groups, left, Self::even_out));
        shifts
    }

    /// The part of a department's name that modules have in common if they exchange accounts.
    fn sharing_department<'a>(&self, module: &'a Module) -> &'a [u8] {
        let level = self.policy.lend_level as usize;
        let outer = level.checked_sub(1).and_then(|level| levels_of(&module.department).nth(level));
        outer.unwrap_or(&module.department)
    }

    /// The free accounts of a module: those that may be lent, and how many there are without the reserve.
    fn free_of(&self, id: u32, module: &Module, now: Millis) -> Option<InstanceNeed> {
        // Free accounts that are about to be assigned are not lent.
        let over = module.free.len().saturating_sub(module.reserve as usize);
        let gives = if self.uneven.contains(&id) { 0 } else { over };
        let lasts = |account: &Account| now.saturating_sub(account.since) >= module.policy.lend;
        let free = module.free.iter().filter_map(|&id| Some((id, self.indexed(id)?)));
        let lent = free.filter(|(_, account)| lasts(account) && self.may_move_today(account, now));
        let mut spare: Vec<(u64, u32)> = lent.map(|(id, account)| (self.rest(account), id)).collect();
        spare.retain(|&(rest, _)| rest > 0);
        spare.sort_unstable();
        let rest: i128 = spare.iter().map(|&(rest, _)| i128::from(rest)).sum();
        let (need, given) = (Some(-rest), BTreeSet::new());
        let free =
            InstanceNeed { id: NONE, module: id, gives, lacks: 0, need, spare, given, price: Amount(0) };
        (!module.free.is_empty()).then_some(free)
    }

    /// Makes at most `limit` moves. The groups take turns, one move each, so that no department uses up the moves of
    /// the others.
    fn by_turns(
        &self,
        groups: &mut [Group],
        limit: usize,
        next: impl Fn(&Self, &mut [InstanceNeed]) -> Option<Shift>,
    ) -> Vec<Shift> {
        let mut groups: Vec<&mut Group> = groups.iter_mut().collect();
        let mut shifts = Vec::new();
        while shifts.len() < limit && !groups.is_empty() {
            groups.retain_mut(|instances| {
                let shift = if shifts.len() < limit { next(self, instances) } else { None };
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

    fn need_of(&self, id: u32, now: Millis) -> Option<InstanceNeed> {
        let instance = self.indexed_instance(id)?;
        let min = self.indexed_module(instance.module)?.policy.min as usize;
        let (mut left, mut spare, mut price) = (0i128, Vec::new(), None::<Amount>);
        for &number in &instance.accounts {
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
        let has = instance.dealt as usize + instance.incoming as usize;
        Some(InstanceNeed {
            id,
            module: instance.module,
            gives: (instance.dealt as usize).saturating_sub(min),
            lacks: min.saturating_sub(has),
            need: self.projected(id, now).map(|projected| i128::from(projected) - left),
            spare,
            given: BTreeSet::new(),
            price: price.unwrap_or_default(),
        })
    }

    /// Instructions that an account has left at the flat price and below the cap.
    fn rest(&self, account: &Account) -> u64 {
        account.room(self.month, self.settings.limit()).unwrap_or(0)
    }

    /// Whether an account has stayed long enough and has not been moved too often today.
    fn may_move(&self, account: &Account, now: Millis) -> bool {
        now.saturating_sub(account.since) >= self.settings.dwell && self.may_move_today(account, now)
    }

    fn may_move_today(&self, account: &Account, now: Millis) -> bool {
        account.moves_on(day_of(now)) < self.settings.max_moves
    }

    /// The next move to an instance that lacks accounts. Free accounts of the module come first, without the reserve;
    /// then free accounts of other modules, and accounts of the instance with the most above its own `min`; and then the
    /// reserve of the module.
    fn fill_up(&self, instances: &mut [InstanceNeed]) -> Option<Shift> {
        let taker = (0..instances.len()).max_by_key(|&place| lacks(instances, place))?;
        if lacks(instances, taker) == 0 {
            return None;
        }
        let module = instances.get(taker)?.module;
        let own = |instance: &InstanceNeed| instance.id == NONE && instance.module == module;
        let order = |instance: &InstanceNeed| (own(instance), instance.id == NONE, instance.gives);
        let mut givers: Vec<(usize, &InstanceNeed)> = instances.iter().enumerate().collect();
        givers.retain(|(_, instance)| instance.gives > 0);
        givers.sort_by_key(|(_, instance)| std::cmp::Reverse(order(instance)));
        let chosen = givers.into_iter().find_map(|(giver, instance)| {
            let account = self.next_given(instance, own(instance))?;
            Some((giver, account))
        });
        let reserve = || {
            let (giver, free) = instances.iter().enumerate().find(|(_, instance)| own(instance))?;
            Some((giver, self.next_given(free, true)?))
        };
        let (giver, account) = chosen.or_else(reserve)?;
        self.shift(instances, (giver, account), taker, Reason::Min, Amount(0))
    }

    /// The next account of an instance that gives one. Of free accounts, another module gets only those that may be
    /// lent.
    fn next_given(&self, giver: &InstanceNeed, to_own_module: bool) -> Option<u32> {
        let new = |id: &u32| !giver.given.contains(id);
        if giver.id != NONE {
            return self.givable(giver.id).find(new);
        }
        if to_own_module {
            return self.indexed_module(giver.module)?.free.iter().copied().find(new);
        }
        giver.spare.iter().rev().map(|&(_, id)| id).find(new)
    }

    /// The next move that avoids cost among these instances.
    fn even_out(&self, instances: &mut [InstanceNeed]) -> Option<Shift> {
        let need = |place: usize| instances.get(place).and_then(|instance| instance.need).unwrap_or(0);
        // Free accounts, or the instance with the greatest surplus, among the instances that can spare an account.
        let giver = instances.iter().enumerate().filter_map(|(place, instance)| {
            let over = -instance.need?;
            let fits = instance.spare.partition_point(|&(rest, _)| i128::from(rest) <= over);
            let order = (instance.id == NONE, over);
            (fits > 0 && instance.gives > 0).then_some((order, place, fits))
        });
        let (_, giver, fits) = giver.max_by_key(|&(order, ..)| order)?;
        let mut takers: Vec<usize> = (0..instances.len()).filter(|&place| need(place) > 0).collect();
        takers.sort_by_key(|&place| std::cmp::Reverse(need(place)));
        let chosen = takers.into_iter().find_map(|taker| {
            let spare = &instances.get(giver)?.spare;
            // The smallest rest that covers the need. If the giver cannot spare such an account, the largest that it
            // can.
            let enough = spare.partition_point(|&(rest, _)| i128::from(rest) < need(taker));
            let &(rest, account) = spare.get(enough.min(fits.saturating_sub(1)))?;
            let avoided = Amount(need(taker).min(i128::from(rest)) * instances.get(taker)?.price.0);
            (avoided.0 > 0 && avoided >= self.policy.margin).then_some((taker, account, avoided))
        });
        let (taker, account, avoided) = chosen?;
        self.shift(instances, (giver, account), taker, Reason::Cost, avoided)
    }

    /// Moves an account from one instance to another, and corrects what both need and have.
    fn shift(
        &self,
        instances: &mut [InstanceNeed],
        (giver, account): (usize, u32),
        taker: usize,
        reason: Reason,
        avoided: Amount,
    ) -> Option<Shift> {
        let record = self.indexed(account)?;
        let rest = i128::from(self.rest(record));
        let from = instances.get_mut(giver)?;
        from.spare.retain(|&(_, id)| id != account);
        from.need = from.need.map(|need| need + rest);
        from.gives = from.gives.saturating_sub(1);
        from.given.insert(account);
        let source = (self.module_name(from.module), self.instance_name(from.id));
        let to = instances.get_mut(taker)?;
        to.need = to.need.map(|need| need - rest);
        to.lacks = to.lacks.saturating_sub(1);
        let target = (self.module_name(to.module), self.instance_name(to.id));
        Some(Shift { account: record.name.clone(), from: source, to: target, avoided, reason })
    }
}

/// How many accounts an instance lacks.
fn lacks(instances: &[InstanceNeed], place: usize) -> usize {
    instances.get(place).map_or(0, |instance| instance.lacks)
}
