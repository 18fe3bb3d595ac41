//! Every reachable state of the small realm of `model`, breadth first, with what must be so in each of them. And the
//! proof that this finds faults: with the check of epochs taken out, it does.

use super::explore::{SHARDS, Seen};
use super::model::{BASE, Bounds, UNITS, World, bits, small};
use allot_core::conf::Realm;
use allot_core::conf::conference::State;
use allot_core::conf::state::Policy;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_128;

/// How writes are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// By owner and epoch, as the module does.
    OwnerAndEpoch,
    /// By the owner's identity only.
    Owner,
    /// Not at all.
    Nothing,
}

impl Check {
    fn takes(self, world: &World, unit: usize, epoch: u8) -> bool {
        match self {
            Self::OwnerAndEpoch => world.takes(unit, epoch),
            Self::Owner => world.is_owner(unit),
            Self::Nothing => world.conference().is_some_and(|one| one.state != State::Ended),
        }
    }
}

/// Notes which writes are taken in a state; what is wrong with them, if anything is.
fn writes(check: Check, world: &mut World) -> Option<String> {
    let mut writers = Vec::new();
    let before = world.accepted;
    // Epochs that nobody was given are all alike: the next one stands for them.
    let epochs = 1..=small(world.realm.last_epoch()) + 1;
    for unit in 0..4 {
        let local = world.locals[unit];
        for epoch in epochs.clone() {
            // For the real check any unit may try any epoch: what it took of a newer assignment, or would have
            // taken, it must never take of an older one again. The weak ones are shown writes that really come.
            let tried = check == Check::OwnerAndEpoch || local.had >> epoch & 1 == 1;
            if !tried || !check.takes(world, unit, epoch) {
                continue;
            }
            if epoch < before {
                return Some(format!("a write of assignment {epoch} is taken after one of {before}"));
            }
            world.accepted = world.accepted.max(epoch);
            if local.copy == epoch {
                writers.push(unit);
            }
        }
    }
    (writers.len() > 1).then(|| format!("units {writers:?} both write"))
}

/// What else is wrong in a state.
fn fault(world: &World) -> Option<String> {
    if let Some(one) = world.conference()
        && one.is_live()
        && world.ended >> small(one.origin_epoch) & 1 == 1
    {
        return Some("an ended conference lives again".into());
    }
    if !world.can_end() {
        return Some("the conference cannot be brought to its end".into());
    }
    if !world.time_goes_on() {
        return Some("the state lasts for ever".into());
    }
    for (unit, local) in UNITS.iter().zip(&world.locals) {
        // Nothing is lost in this world: no copy may be taken for one of a lost assignment.
        let is_known = |epoch: u8| world.realm.has_sent(unit.as_bytes(), BASE + u64::from(epoch));
        if let Some(epoch) = bits(local.had).find(|epoch| !is_known(*epoch)) {
            return Some(format!("epoch {epoch} of unit {unit} counts as lost"));
        }
    }
    contradiction(&world.realm)
}

/// What contradicts what in a realm, or its snapshot.
fn contradiction(realm: &Realm) -> Option<String> {
    let again = match Realm::decode(&realm.encode()) {
        Ok(again) => again,
        Err(damaged) => return Some(format!("its snapshot is refused: {damaged}")),
    };
    if again.next_due() != realm.next_due() {
        return Some("the deadlines of the snapshot are others".into());
    }
    if let Err(contradiction) = realm.check() {
        return Some(contradiction.to_string());
    }
    let over = realm.units().any(|unit| unit.used > 1) || realm.licences_used() > 1;
    over.then(|| "more room or licences are taken than there are".into())
}

struct Search {
    check: Check,
    bounds: Bounds,
    seen: Vec<Mutex<Seen>>,
    steps: AtomicUsize,
    fault: Mutex<Option<String>>,
}

/// What was visited.
#[derive(Debug)]
struct Visited {
    states: usize,
    steps: usize,
    depth: usize,
    fault: Option<String>,
}

impl Search {
    fn new(check: Check, bounds: Bounds) -> Self {
        let seen = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { check, bounds, seen, steps: AtomicUsize::new(0), fault: Mutex::new(None) }
    }

    /// Looks at a state for the first time; whether it is one.
    fn visit(&self, mut world: World, essence: &mut Vec<u8>, next: &mut Vec<Box<[u8]>>, bytes: &mut Vec<u8>) {
        // A wrong step may lead to a state that is known already.
        if let Some(fault) = &world.wrong {
            self.fault.lock().unwrap().get_or_insert(format!("{fault}: {world:#?}"));
            return;
        }
        let wrong = writes(self.check, &mut world);
        world.essence(essence);
        let raw = xxh3_128(essence);
        if !self.seen[raw as usize % SHARDS].lock().unwrap().insert(raw) {
            return;
        }
        if let Some(fault) = wrong.or_else(|| fault(&world)) {
            self.fault.lock().unwrap().get_or_insert(format!("{fault}: {world:#?}"));
            return;
        }
        world.encode(bytes);
        next.push(bytes.as_slice().into());
    }

    fn expand(&self, layer: &[Box<[u8]>]) -> Vec<Box<[u8]>> {
        let (mut next, mut essence, mut bytes, mut steps) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for state in layer {
            World::decode(state).next(self.bounds, |world| {
                steps += 1;
                self.visit(world, &mut essence, &mut next, &mut bytes);
            });
            if self.fault.lock().unwrap().is_some() {
                break;
            }
        }
        self.steps.fetch_add(steps, Ordering::Relaxed);
        next
    }

    fn run(self, policy: Policy) -> Visited {
        let workers = std::thread::available_parallelism().map_or(2, usize::from);
        let mut layer = Vec::new();
        self.visit(World::new(policy), &mut Vec::new(), &mut layer, &mut Vec::new());
        let mut depth = 0;
        while !layer.is_empty() && self.fault.lock().unwrap().is_none() {
            depth += 1;
            let part = layer.len().div_ceil(workers);
            let parts: Vec<Vec<Box<[u8]>>> = std::thread::scope(|scope| {
                let works: Vec<_> =
                    layer.chunks(part).map(|part| scope.spawn(|| self.expand(part))).collect();
                works.into_iter().map(|work| work.join().unwrap()).collect()
            });
            layer = parts.into_iter().flatten().collect();
        }
        let states = self.seen.iter().map(|seen| seen.lock().unwrap().len()).sum();
        let fault = self.fault.into_inner().unwrap();
        let visited = Visited { states, steps: self.steps.into_inner(), depth, fault };
        eprintln!("{} states, {} steps, {} deep", visited.states, visited.steps, visited.depth);
        visited
    }
}

/// Visits all states within the bounds; there must be so many at least.
fn visit_all(bounds: Bounds, policy: Policy, least: usize) {
    let visited = Search::new(Check::OwnerAndEpoch, bounds).run(policy);
    assert!(visited.fault.is_none(), "{}", visited.fault.unwrap_or_default());
    assert!(
        visited.states >= least,
        "only {} states were reached: the model has lost something",
        visited.states
    );
}

/// Larger bounds for a soak.
fn soak(short: u8, long: u8) -> u8 {
    if std::env::var_os("ALLOT_SOAK").is_some_and(|value| value != "0") { long } else { short }
}

#[test]
fn invariants_hold_with_moves_incarnations_and_deposed_schedulers() {
    let bounds = Bounds { epochs: soak(2, 4), incarnations: 2, moves: true, leases: false, schedulers: 2 };
    visit_all(bounds, Policy::Earliest, 57_000);
}

#[test]
fn invariants_hold_with_expiring_leases_and_end_times() {
    let bounds = Bounds { epochs: soak(2, 3), incarnations: 2, moves: true, leases: true, schedulers: 2 };
    visit_all(bounds, Policy::Earliest, 330_000);
}

#[test]
fn invariants_hold_under_the_policy_keep() {
    let bounds = Bounds {
        epochs: 3,
        incarnations: soak(1, 2).into(),
        moves: true,
        leases: false,
        schedulers: soak(1, 2).into(),
    };
    visit_all(bounds, Policy::Keep, 300_000);
}

/// What the search finds with a weaker check of writes.
fn found_with(check: Check) -> String {
    let bounds = Bounds { epochs: 3, incarnations: 1, moves: false, leases: false, schedulers: 1 };
    let visited = Search::new(check, bounds).run(Policy::Earliest);
    visited.fault.expect("a fault is found")
}

#[test]
fn without_epoch_checks_an_older_assignment_writes_after_a_newer_one() {
    let fault = found_with(Check::Owner);
    assert!(fault.starts_with("a write of assignment 1 is taken after one of "), "{fault}");
}

#[test]
fn without_any_check_two_units_write() {
    let fault = found_with(Check::Nothing);
    assert!(fault.starts_with("a write of assignment") || fault.contains("both write"), "{fault}");
}
