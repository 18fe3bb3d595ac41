//! Plans the moves that even out the used share of the units. Each move is the one that helps most: it takes a conference
//! from the unit with the greatest share to the unit with the smallest share that meets the wishes of the conference.

use crate::conf::model::conference::{Conference, State};
use crate::conf::model::state::Realm;
use crate::conf::model::unit::Unit;
use crate::conf::model::wishes::Wishes;
use crate::invariant;
use crate::shared::invariant::Expected;
use std::collections::{BTreeMap, BTreeSet};

/// A share of a capacity, as a fraction of 2^64.
type Share = u128;

/// A unit in a plan.
struct Level<'a> {
    unit: &'a Unit,
    /// Room in use when all moves are done, those in progress included.
    used: u64,
    /// Room that is free now: the moves take room on their targets before they free room on their sources.
    free: u64,
}

impl Level<'_> {
    fn share_of(&self, used: u64) -> Share {
        (u128::from(used) << 64) / u128::from(self.unit.capacity.max(1))
    }

    fn share(&self) -> Share {
        self.share_of(self.used)
    }
}

/// Conferences of one unit that are alike, so that it makes no difference which one moves: by wishes and size.
type Alike<'a> = BTreeMap<(&'a Wishes, u32), Vec<u32>>;

/// A plan that grows by one move at a time.
struct Plan<'a> {
    realm: &'a Realm,
    levels: BTreeMap<u32, Level<'a>>,
    /// All units by their share.
    order: BTreeSet<(Share, u32)>,
    /// Those of them from which a move may still help.
    sources: BTreeSet<(Share, u32)>,
    /// The conferences that may move from a unit. Those of a unit are listed when the unit is first a source.
    movable: BTreeMap<u32, Alike<'a>>,
}

impl Realm {
    /// At most `most` moves that even out the used share, as (conference, target unit), the most useful first. No move
    /// brings its target to the share that its source had. Only units on which conferences may be placed take part.
    /// O(conferences + units + moves (units + kinds of conferences of a unit)).
    pub(super) fn plan_rebalance(&self, most: usize) -> Vec<(u32, u32)> {
        let mut plan = Plan::of(self);
        let mut moves = Vec::new();
        while moves.len() < most
            && let Some(&(share, source)) = plan.sources.last()
            && plan.order.first().is_some_and(|&(least, _)| least < share)
        {
            match plan.best_move(source) {
                Some((alike, target)) => moves.extend(plan.carry_out(source, alike, target)),
                // Other moves make its targets no emptier, because a source of a move had more than they.
                None => drop(plan.sources.remove(&(share, source))),
            }
        }
        moves
    }
}

impl<'a> Plan<'a> {
    fn of(realm: &'a Realm) -> Self {
        let level = |(number, unit): (u32, &'a Unit)| {
            let owned = unit.owned.iter().filter_map(|&(_, id)| realm.indexed(id));
            let leaves: u64 = owned.filter(|one| one.moving.is_some()).map(|one| u64::from(one.size)).sum();
            let (used, free) = (unit.used.saturating_sub(leaves), realm.placement_index.room(number));
            (number, Level { unit, used, free })
        };
        let takes = realm.units.iter().filter(|&(number, _)| realm.placement_index.takes(number));
        let levels: BTreeMap<u32, Level<'_>> = takes.map(level).collect();
        let order: BTreeSet<_> = levels.iter().map(|(&number, level)| (level.share(), number)).collect();
        Self { realm, levels, sources: order.clone(), order, movable: BTreeMap::new() }
    }

    /// Which conferences of a unit should move, and to which unit: so that the greater share of both is the least. `None`
    /// if no move makes that less than the share that the unit has.
    fn best_move(&mut self, source: u32) -> Option<((&'a Wishes, u32), u32)> {
        let (realm, from) = (self.realm, self.levels.get(&source)?);
        let movable = self.movable.entry(source).or_insert_with(|| alike(realm, from.unit));
        let share = from.share();
        let mut best: Option<(Share, (&Wishes, u32), u32)> = None;
        for (&(wishes, size), _) in movable.iter().filter(|(_, ids)| !ids.is_empty()) {
            let left = from.share_of(from.used.saturating_sub(size.into()));
            let fits = |&&(_, number): &&(Share, u32)| {
                let Some(to) = self.levels.get(&number) else { return false };
                to.share_of(to.used + u64::from(size)) < share
                    && to.free >= u64::from(size)
                    && !to.unit.is_on_trial(&realm.settings)
                    && wishes.are_met_as_well(to.unit, from.unit)
            };
            let emptier = self.order.range(..(share, 0));
            let Some(&(_, target)) = emptier.into_iter().find(fits) else { continue };
            let Some(to) = self.levels.get(&target) else { continue };
            let greater = left.max(to.share_of(to.used + u64::from(size)));
            if best.is_none_or(|(least, ..)| greater < least) {
                best = Some((greater, (wishes, size), target));
            }
        }
        best.map(|(_, alike, target)| (alike, target))
    }

    /// Notes a move; returns the conference and the target.
    fn carry_out(&mut self, source: u32, alike: (&'a Wishes, u32), target: u32) -> Option<(u32, u32)> {
        let id = self.movable.get_mut(&source).and_then(|movable| movable.get_mut(&alike)?.pop());
        invariant!(id.is_some(), "a conference that a plan moves is on its source");
        let size = u64::from(alike.1);
        self.change(source, |level| level.used = level.used.saturating_sub(size));
        self.change(target, |level| {
            level.used += size;
            level.free = level.free.saturating_sub(size);
        });
        Some((id?, target))
    }

    fn change(&mut self, unit: u32, change: impl FnOnce(&mut Level<'_>)) {
        let Some(level) = self.levels.get_mut(&unit).expected("a unit of a plan has a level") else { return };
        let before = (level.share(), unit);
        invariant!(self.order.remove(&before), "a unit of a plan is in the order of shares");
        change(level);
        self.order.insert((level.share(), unit));
        if self.sources.remove(&before) {
            self.sources.insert((level.share(), unit));
        }
    }
}

/// The open conferences of a unit that do not move already.
fn alike<'a>(realm: &'a Realm, unit: &Unit) -> Alike<'a> {
    let may_move =
        |one: &&Conference| one.state == State::Open && one.moving.is_none() && one.ending.is_none();
    let mut all = Alike::new();
    for &(_, id) in &unit.owned {
        if let Some(one) = realm.indexed(id).filter(may_move) {
            all.entry((&*one.wishes, one.size)).or_default().push(id);
        }
    }
    all
}
