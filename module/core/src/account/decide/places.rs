//! Decides which instances of a module have a place.

use std::collections::{BTreeMap, BTreeSet};

use crate::account::event::{Event, Events, InstanceEvent};
use crate::account::model::place::{Instance, Module, Presence};
use crate::account::model::record::{Account, AccountState, Goal};
use crate::account::model::state::Book;

impl Book {
    /// Detaches instances; standby instances take their places. O(instances of their modules).
    pub(super) fn gone(&self, ids: &[u32]) -> Events {
        let mut events = Events::new();
        let mut modules: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for &id in ids {
            if let Some(instance) = self.indexed_instance(id) {
                modules.entry(instance.module).or_default().insert(id);
                let module = self.module_name(instance.module);
                events.push(InstanceEvent::Detached.of(module, instance.name.clone()));
            }
        }
        for (id, gone) in modules {
            let (taken, waiting) = self.places_taken(id);
            let Some(module) = self.indexed_module(id) else { continue };
            let placed = |id: &&u32| self.indexed_instance(**id).is_some_and(Instance::has_place);
            let free = module.places as usize + gone.iter().filter(placed).count();
            let next = waiting.iter().filter(|id| !gone.contains(id));
            events.extend(next.take(free.saturating_sub(taken)).map(|&id| self.placed(module, id)));
        }
        events
    }

    /// The replacement of a frozen account, from the reserve if needed, for the instance that has the account or will
    /// get it. An instance that is away gets one as well, because its share is kept.
    pub(super) fn replacement(&self, account: &Account) -> Option<Event> {
        let place = match account.goal {
            None if account.state == AccountState::Assigned => account.instance,
            goal => goal.and_then(Goal::place)?,
        };
        let place = self.indexed_instance(place).filter(|place| place.has_place())?;
        let module = self.indexed_module(place.module)?;
        let spare = module.free.nearest(account.worth()).and_then(|id| self.indexed(id))?;
        let assigned = InstanceEvent::Assigned { accounts: vec![spare.name.clone()] };
        Some(assigned.of(module.name.clone(), place.name.clone()))
    }

    /// The event that gives an instance a place.
    fn placed(&self, module: &Module, id: u32) -> Event {
        InstanceEvent::Placed { active: true }.of(module.name.clone(), self.instance_name(id))
    }

    /// The events when the number of a module's places changes. The latest instance loses its place first; an
    /// instance that is away is detached.
    pub(super) fn place_changes(&self, id: u32, places: usize) -> Vec<Event> {
        let (taken, waiting) = self.places_taken(id);
        let Some(module) = self.indexed_module(id) else { return Vec::new() };
        if places >= taken {
            return waiting.iter().take(places - taken).map(|&id| self.placed(module, id)).collect();
        }
        let placed = |id: u32| self.indexed_instance(id).filter(|instance| instance.has_place());
        let all: Vec<&Instance> = module.instances().filter_map(placed).collect();
        let leave = all.iter().rev().take(taken - places).map(|instance| {
            let event = match instance.presence {
                Presence::Away => InstanceEvent::Detached,
                _ => InstanceEvent::Placed { active: false },
            };
            event.of(module.name.clone(), instance.name.clone())
        });
        leave.collect()
    }

    /// The number of instances of a module that have a place, and the ids of those on standby.
    pub(super) fn places_taken(&self, module: u32) -> (usize, Vec<u32>) {
        let Some(module) = self.indexed_module(module) else { return (0, Vec::new()) };
        let is = |id: u32, is: fn(&Instance) -> bool| self.indexed_instance(id).is_some_and(is);
        let taken = module.instances().filter(|&id| is(id, Instance::has_place)).count();
        let stands_by = |instance: &Instance| instance.presence == Presence::Standby;
        (taken, module.instances().filter(|&id| is(id, stands_by)).collect())
    }
}
