//! What each instance will lack or have left this month: the basis of rebalancing.
//!
//! Rebalancing looks at one price at a time. The *rest* of an account is the number of instructions that it may still
//! send below this price and below the cap; below the lowest price, these are the instructions at the flat price. The
//! *need* of an instance is its projected use minus the rest of its accounts. An instance has a need only if its rest
//! will be used up within a day. An earlier move could not avoid more, and later more is known about the month. The
//! *surplus* of an instance is the rest of its accounts minus a cautious projection, so that an instance that has a
//! quiet day does not give away what it used on other days. An instance whose use cannot be projected yet has neither.

use std::collections::{BTreeMap, BTreeSet};

use crate::account::model::pace::Outlook;
use crate::account::model::place::{Instance, Module, Presence};
use crate::account::model::record::{Account, AccountState, Goal, day_of};
use crate::account::model::state::{Book, levels_of};
use crate::account::model::supply::Rooms;
use crate::account::model::tariff::Amount;
use crate::shared::Millis;
use crate::shared::list::NONE;

/// The need of an instance, and the accounts that it may give; or the free accounts of a module.
#[derive(Debug)]
pub(super) struct InstanceNeed {
    /// `NONE` for the free accounts of the module.
    pub(super) id: u32,
    pub(super) module: u32,
    /// How many more accounts the instance may give before only `min` are left.
    pub(super) gives: usize,
    /// How many accounts the instance lacks until it has `min`.
    pub(super) lacks: usize,
    /// How many instructions the instance will send; `None` if its use cannot be projected.
    outlook: Option<Outlook>,
    /// The rest of its accounts.
    left: i128,
    /// Instructions that its accounts may still send, by price.
    rooms: Rooms,
    /// Accounts that the instance may give, with their rest, in ascending order.
    pub(super) spare: Vec<(u64, u32)>,
    /// Free accounts that are lent only to an instance without enough accounts: they were not free for long enough, have
    /// moved too often today, or have nothing left at the flat price.
    pub(super) lent_last: Vec<u32>,
    /// Accounts that the instance gives in this rebalancing.
    pub(super) given: BTreeSet<u32>,
}

impl InstanceNeed {
    fn new(id: u32, module: u32, outlook: Option<Outlook>) -> Self {
        let (spare, lent_last, given) = (Vec::new(), Vec::new(), BTreeSet::new());
        let rooms = Rooms::default();
        Self { id, module, gives: 0, lacks: 0, outlook, left: 0, rooms, spare, lent_last, given }
    }

    /// How many instructions the instance will lack this month, if it runs out of them in the next day; else 0.
    pub(super) fn need(&self) -> i128 {
        let soon = self.outlook.filter(|outlook| i128::from(outlook.next_day) > self.left);
        soon.map_or(0, |outlook| i128::from(outlook.month) - self.left)
    }

    /// How many instructions the instance can spare. Free accounts are all spare.
    pub(super) fn surplus(&self) -> i128 {
        match self.outlook {
            Some(outlook) => self.left - i128::from(outlook.cautious),
            None if self.id == NONE => self.left,
            None => 0,
        }
    }

    /// Adds an account that comes.
    pub(super) fn gain(&mut self, account: &Value) {
        self.left += i128::from(account.rest);
        self.rooms.add(&account.rooms, 1);
        self.lacks = self.lacks.saturating_sub(1);
    }

    /// Removes an account that goes.
    pub(super) fn lose(&mut self, id: u32, account: &Value) {
        // Of free accounts, only those that may be lent were counted.
        if self.id != NONE || self.spare.iter().any(|&(_, spare)| spare == id) {
            self.left -= i128::from(account.rest);
            self.rooms.add(&account.rooms, -1);
        }
        self.spare.retain(|&(_, spare)| spare != id);
        self.gives = self.gives.saturating_sub(1);
        self.given.insert(id);
    }

    /// How much less the instance will pay this month with an account more.
    pub(super) fn saves_by(&self, account: &Value) -> i128 {
        self.difference(account, 1)
    }

    /// How much more the instance will pay this month without an account.
    pub(super) fn pays_without(&self, account: &Value) -> i128 {
        -self.difference(account, -1)
    }

    fn difference(&self, account: &Value, sign: i128) -> i128 {
        // Free accounts send nothing.
        let expected = self.outlook.map_or(0, |outlook| i128::from(outlook.month));
        let mut rooms = self.rooms.clone();
        rooms.add(&account.rooms, sign);
        self.rooms.cost(expected) - rooms.cost(expected)
    }
}

/// What an account may still send.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Instructions below the price that is looked at, and below the cap.
    pub(super) rest: u64,
    rooms: Rooms,
}

/// The modules that exchange accounts: the part of their department's name that they share, or a module that exchanges
/// none.
type GroupKey<'a> = (&'a [u8], Option<u32>);

/// Instances that exchange accounts.
#[derive(Debug)]
pub(super) struct Group<'a> {
    key: GroupKey<'a>,
    pub(super) instances: Vec<InstanceNeed>,
    /// How many moves were made among the instances.
    pub(super) moves: usize,
}

impl Book {
    /// The groups of instances that exchange accounts, with their needs below a price: those in which an instance may
    /// lack something, and with `among`, only these groups. O(instances + modules + accounts of the groups).
    pub(super) fn groups<'a>(
        &'a self,
        now: Millis,
        below: Amount,
        among: Option<&[Group<'a>]>,
    ) -> Vec<Group<'a>> {
        let wanted: BTreeSet<GroupKey<'_>> = match among {
            Some(groups) => groups.iter().map(|group| group.key).collect(),
            None => self.wanting(now, below),
        };
        let mut groups: BTreeMap<GroupKey<'_>, Vec<InstanceNeed>> = BTreeMap::new();
        let coming = if wanted.is_empty() { BTreeMap::new() } else { self.coming() };
        for (id, module) in self.modules_by_name() {
            let key = self.group_of(id, module);
            if !wanted.contains(&key) {
                continue;
            }
            let group = groups.entry(key).or_default();
            for (id, instance) in self.active(module) {
                let coming = coming.get(&id).map_or(&[][..], Vec::as_slice);
                group.push(self.need_of(id, instance, (now, below), coming));
            }
            group.extend(self.free_of(id, module, (now, below)));
        }
        groups.into_iter().map(|(key, instances)| Group { key, instances, moves: 0 }).collect()
    }

    /// The groups in which an instance may lack accounts or instructions below a price, by the sums of the instances,
    /// without a look at each account. No group that has a need is left out.
    fn wanting(&self, now: Millis, below: Amount) -> BTreeSet<GroupKey<'_>> {
        let (span, limit) = (self.month_span(now), self.settings.limit());
        let lacks = |instance: &Instance, module: &Module| {
            instance.assigned.saturating_add(instance.incoming) < module.policy.min
                || instance
                    .pace
                    .outlook(now, span, self.expected_quota(instance))
                    .is_some_and(|outlook| i128::from(outlook.next_day) > instance.supply.left(below, limit))
        };
        let wanting = self
            .modules_by_name()
            .filter(|(_, module)| self.active(module).any(|(_, instance)| lacks(instance, module)));
        wanting.map(|(id, module)| self.group_of(id, module)).collect()
    }

    fn modules_by_name(&self) -> impl Iterator<Item = (u32, &Module)> {
        self.module_names.values().filter_map(|id| Some((*id, self.indexed_module(*id)?)))
    }

    /// The active instances of a module.
    fn active<'a>(&'a self, module: &'a Module) -> impl Iterator<Item = (u32, &'a Instance)> {
        let instances = module.instances().filter_map(|id| Some((id, self.indexed_instance(id)?)));
        instances.filter(|(_, one)| one.presence == Presence::Active)
    }

    /// The group of a module. A module without a weight does not share accounts.
    fn group_of<'a>(&'a self, id: u32, module: &'a Module) -> GroupKey<'a> {
        (self.sharing_department(module), (module.weight == 0).then_some(id))
    }

    /// The part of a department's name that modules have in common if they exchange accounts.
    fn sharing_department<'a>(&self, module: &'a Module) -> &'a [u8] {
        let level = self.settings.lend_level as usize;
        let outer = level.checked_sub(1).and_then(|level| levels_of(&module.department).nth(level));
        outer.unwrap_or(&module.department)
    }

    /// The free accounts of a module: those that may be lent, and how many there are without the reserve.
    fn free_of(&self, id: u32, module: &Module, (now, below): (Millis, Amount)) -> Option<InstanceNeed> {
        let mut free = InstanceNeed::new(NONE, id, None);
        // Free accounts that are about to be assigned are not lent.
        let over = module.free.len().saturating_sub(module.reserve as usize);
        free.gives = if self.uneven.contains(&id) { 0 } else { over };
        let lasts = |account: &Account| now.saturating_sub(account.since) >= module.policy.lend;
        let all = module.free.iter().filter_map(|id| Some((id, self.indexed(id)?)));
        for (id, account) in all {
            let value = self.value(account, below);
            if value.rest > 0 && lasts(account) && self.may_move_today(account, now) {
                free.spare.push((value.rest, id));
                free.gain(&value);
            } else if !value.rooms.is_empty() {
                free.lent_last.push(id);
            }
        }
        free.spare.sort_unstable();
        (!module.free.is_empty()).then_some(free)
    }

    /// The accounts in transit to each instance.
    fn coming(&self) -> BTreeMap<u32, Vec<&Account>> {
        let mut coming: BTreeMap<u32, Vec<&Account>> = BTreeMap::new();
        let revoking = |&id: &u32| self.indexed(id).filter(|account| account.state == AccountState::Revoking);
        for (_, instance) in
            self.instances.iter().filter(|(_, instance)| instance.accounts.len() > instance.assigned as usize)
        {
            for account in instance.accounts.iter().filter_map(revoking) {
                if let Some(place) = account.goal.and_then(Goal::place) {
                    coming.entry(place).or_default().push(account);
                }
            }
        }
        coming
    }

    fn need_of(
        &self,
        id: u32,
        instance: &Instance,
        (now, below): (Millis, Amount),
        coming: &[&Account],
    ) -> InstanceNeed {
        let quota = self.expected_quota(instance);
        let outlook = instance.pace.outlook(now, self.month_span(now), quota);
        let mut needs = InstanceNeed::new(id, instance.module, outlook);
        let own = instance.accounts.iter().filter_map(|&id| Some((id, self.indexed(id)?)));
        for (id, account) in own.filter(|(_, one)| one.state == AccountState::Assigned) {
            let value = self.value(account, below);
            if value.rest > 0 && self.may_move(account, now) {
                needs.spare.push((value.rest, id));
            }
            needs.gain(&value);
        }
        coming.iter().for_each(|account| needs.gain(&self.value(account, below)));
        needs.spare.sort_unstable();
        let min = self.indexed_module(instance.module).map_or(0, |module| module.policy.min as usize);
        needs.gives = (instance.assigned as usize).saturating_sub(min);
        needs.lacks = min.saturating_sub(instance.assigned as usize + instance.incoming as usize);
        needs
    }

    /// When the current month began, and when it ends.
    pub(in crate::account) fn month_span(&self, now: Millis) -> (Millis, Millis) {
        (self.month_start(self.month).unwrap_or(now), self.month_end(now))
    }

    /// The instructions at the flat price of an instance's accounts, if all accounts of its module were equal.
    pub(in crate::account) fn expected_quota(&self, instance: &Instance) -> u128 {
        let Some(module) = self.indexed_module(instance.module) else { return 0 };
        let even = module.sums.quota.checked_div(module.sums.accounts.into()).unwrap_or(0);
        even.saturating_mul(instance.accounts.len() as u128)
    }

    /// What an account may still send.
    pub(super) fn value(&self, account: &Account, below: Amount) -> Value {
        let mut rooms = Rooms::default();
        let all = account.tariff.rooms(account.position(self.month), account.limit(self.settings.limit()));
        all.filter(|&(_, room)| room > 0).for_each(|(price, room)| rooms.add_room(price, room.into()));
        Value { rest: self.rest(account, below), rooms }
    }

    /// Instructions that an account may still send below a price and below the cap.
    fn rest(&self, account: &Account, below: Amount) -> u64 {
        let rooms = account.tariff.rooms(account.position(self.month), account.limit(self.settings.limit()));
        rooms.filter(|&(price, _)| price < below).map(|(_, room)| room).sum()
    }

    /// Whether an account has stayed long enough and has not been moved too often today.
    fn may_move(&self, account: &Account, now: Millis) -> bool {
        now.saturating_sub(account.since) >= self.settings.dwell && self.may_move_today(account, now)
    }

    fn may_move_today(&self, account: &Account, now: Millis) -> bool {
        account.moves_on(day_of(now)) < self.settings.max_moves
    }
}
