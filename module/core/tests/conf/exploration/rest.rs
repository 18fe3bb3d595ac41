//! What must be so in each state of the small world: at once, and when all that is under way has arrived.

use super::unit::{Epoch, Word};
use super::world::{ERA, NUMBERS, Small, UNITS};
use allot_core::conf::conference::{Conference, State};
use allot_core::conf::request::SchedulerRequest;
use allot_core::conf::{Realm, Reply};

impl Small {
    /// What is wrong in this state.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if let Some(wrong) = &self.wrong {
            return Some(wrong.clone());
        }
        if let Err(contradiction) = self.redis.realm.check() {
            return Some(contradiction.to_string());
        }
        self.shared_epoch().or_else(|| self.broken_plan()).or_else(|| {
            let orders = [([0, 1], true), ([1, 0], false)];
            orders.into_iter().find_map(|(order, repeats)| self.unrest(order, repeats))
        })
    }

    /// Two open copies of one assignment.
    fn shared_epoch(&self) -> Option<String> {
        let epochs = |unit: usize| -> Vec<Epoch> {
            let copies = self.units[unit].copies.iter().flatten();
            copies.flat_map(|copy| copy.epochs.iter().copied()).collect()
        };
        let (first, second) = (epochs(0), epochs(1));
        let both = first.iter().find(|epoch| second.contains(epoch))?;
        Some(format!("both units have a copy of epoch {both}"))
    }

    /// A plan that is offered and not accepted.
    fn broken_plan(&self) -> Option<String> {
        let now = self.now();
        for unit in self.redis.realm.units() {
            let Some(number) = self.redis.realm.find_unit(&unit.cmu) else { continue };
            let plan = self.redis.realm.plan_down(number, now);
            let mut world = self.clone();
            world.schedule(SchedulerRequest::Down { cmu: &unit.cmu });
            world.schedule(SchedulerRequest::Recover { count: 100 });
            let conference = |world: &Self, id: u32| world.redis.realm.conference(id).cloned();
            for (id, goes) in plan {
                let Some(record) = conference(&world, id) else { continue };
                let owner = owner(&world.redis.realm, &record);
                if goes.as_ref().is_ok_and(|goes| owner.as_deref() != Some(&goes[..])) {
                    let number = record.e164.escape_ascii();
                    return Some(format!("{number} would go to {goes:?}, and goes to {owner:?}"));
                }
            }
        }
        let due = self.redis.realm.plan_pending(now).iter().filter(|(_, why)| *why == "due").count();
        let mut world = self.clone();
        match world.recover_at(now) {
            Some((Reply::Grants(grants), _)) if grants.len() == due => None,
            other => Some(format!("{due} conferences are due, and CONF.RECOVER replies {other:?}")),
        }
    }

    /// What is wrong when everything has arrived and each unit, in this order, has opened a session, read its stream, and
    /// opened what it was told to create. With `repeats` a unit says in `CONF.ENDED` what has ended, not only in its report.
    fn unrest(&self, order: [usize; 2], repeats: bool) -> Option<String> {
        let mut world = self.clone();
        world.replica = None;
        world.claim();
        let had: [bool; 2] = std::array::from_fn(|e164| (0..2).any(|unit| self.has(unit, e164)));
        let (mut before, mut bytes) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            for unit in order {
                world.session(unit, repeats);
                world.says_all(unit);
                while world.read(unit) {}
                for e164 in 0..2 {
                    world.open(unit, e164);
                }
                world.says_all(unit);
            }
            // By the second time every retry time has come.
            world.recover_at(world.now());
            world.recover_at(world.now() + ERA / 2);
            world.writes();
            bytes.clear();
            world.write(&mut bytes);
            if world.wrong.is_some() || before == bytes {
                break;
            }
            std::mem::swap(&mut before, &mut bytes);
        }
        let name = |unit: usize| UNITS[unit];
        let told = format!(" when all has arrived, of {} first", name(order[0]));
        let wrong = world.wrong.take().or_else(|| world.restless(had));
        let wrong = wrong.or_else(|| (before != bytes).then(|| "nothing comes to rest".into()));
        wrong.map(|wrong| wrong + &told)
    }

    /// Whether a unit has a conference open, and was not told to end the copy.
    fn has(&self, unit: usize, e164: usize) -> bool {
        let disowned = &self.redis.disowned[unit];
        let is_kept = |epoch: &Epoch| !disowned.contains(&(e164, *epoch));
        let copy = self.units[unit].copies[e164].as_ref();
        copy.is_some_and(|copy| copy.open && copy.epochs.iter().all(is_kept))
    }

    /// All words of a unit arrive.
    fn says_all(&mut self, unit: usize) {
        for (word, e164, epoch) in std::mem::take(&mut self.units[unit].words) {
            self.arrives(unit, (word, e164, epoch), false);
        }
    }

    /// What is wrong at rest; `had` says which conferences some unit had open before.
    fn restless(&self, had: [bool; 2]) -> Option<String> {
        for (e164, number) in NUMBERS.iter().enumerate() {
            let copies: Vec<(usize, Epoch)> = (0..2)
                .filter_map(|unit| Some((unit, self.units[unit].copies[e164].as_ref()?.epoch())))
                .collect();
            match self.live(e164) {
                Some(record) if copies.len() == 1 && record.state == State::Open => {
                    let (unit, epoch) = copies[0];
                    let may_write =
                        self.redis.realm.may_write(number.as_bytes(), UNITS[unit].as_bytes(), epoch.into());
                    if let Err(fault) = may_write {
                        return Some(format!("the one copy of {number} cannot write: {fault:?}"));
                    }
                }
                None if copies.is_empty() => {
                    let truth = self.truths[e164];
                    let nobody = truth.ended == 0 && !truth.released;
                    if had[e164] && nobody && self.record(e164).is_none() {
                        return Some(format!("{number} was open, nobody ended it, and it is lost"));
                    }
                }
                Some(record) if copies.is_empty() && record.state == State::Scheduled => {}
                Some(record) => {
                    return Some(format!(
                        "{number} is {} on {:?} at {}, and the copies are {copies:?}",
                        record.state.word(),
                        owner(&self.redis.realm, record).map(|cmu| cmu.escape_ascii().to_string()),
                        record.epoch
                    ));
                }
                None => return Some(format!("{number} does not live, and the copies are {copies:?}")),
            }
        }
        None
    }
}

/// The unit of a conference.
fn owner(realm: &Realm, record: &Conference) -> Option<Vec<u8>> {
    record.owner.and_then(|owner| realm.unit(owner)).map(|unit| unit.cmu.to_vec())
}

/// The word that a unit sends about a copy that it cannot keep.
pub(crate) fn word_of(open: bool) -> Word {
    if open { Word::Failed } else { Word::Nack }
}
