//! Random runs of units that follow their protocol, and sleep at any time with messages unread, on a master that may
//! fail over to a replica that lagged, or lose all keys. No conference ends that neither people nor its manager ended, no end by people
//! is forgotten where no other unit had the conference open since, and in the end each conference is open on one unit.

use super::random::Random;
use super::rig::Rig;
use allot_core::conf::Realm;
use allot_core::conf::conference::{AssignmentEnd, Cause, State};
use allot_core::conf::state::Settings;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const UNITS: [&str; 3] = ["a:1:1", "b:1:1", "c:1:1"];
const NUMBERS: [&str; 4] = ["1", "2", "3", "4"];

/// The true state of a unit, which may differ from its record in the realm.
#[derive(Default)]
struct Local {
    /// Whether it joined and reported in this session.
    in_session: bool,
    asleep: bool,
    /// Its copies, each with the epochs that it has had.
    copies: BTreeMap<String, Vec<u64>>,
    highest: u64,
    /// Messages of its stream.
    stream: Vec<String>,
    /// How many of them it has handled in this session.
    handled: usize,
    /// What people ended, each with the epochs that the copy had, the last one first.
    ends: Vec<(String, Vec<u64>)>,
}

fn settings() -> Settings {
    Settings { retry: 1, window: 1 << 37, tombstone: 1 << 37, ..Settings::default() }
}

struct World {
    rig: Rig,
    locals: [Local; 3],
    random: Random,
    /// A replica that lags: the realm, and how many messages each stream has there.
    lagging: (Realm, [usize; 3]),
    /// Copies that people ended.
    people: BTreeSet<(String, u64)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let rig = Rig::with(settings(), &UNITS);
        let lagging = (rig.realm.clone(), [0; 3]);
        let locals = Default::default();
        Self { rig, locals, random: Random::new(seed), lagging, people: BTreeSet::new() }
    }

    /// Takes what the realm has sent, and checks what it did.
    fn settle(&mut self) {
        for (local, cmu) in self.locals.iter_mut().zip(UNITS) {
            local.stream.extend(self.rig.commands(cmu));
        }
        self.rig.told.clear();
        for e164 in NUMBERS {
            let Some(one) = self.rig.realm.conference_called(e164.as_bytes()) else { continue };
            if one.state != State::Ended {
                continue;
            }
            // Or at an epoch that a failover has lost.
            let ended = self.people.iter().filter(|(number, _)| number == e164).map(|(_, epoch)| *epoch);
            let by_people = ended.into_iter().any(|epoch| epoch >= one.origin_epoch);
            assert!(one.cause != Cause::Unit || by_people, "nobody ended {e164}: {one:#?}");
            assert!(!matches!(one.cause, Cause::Missing | Cause::Released), "nobody ended {e164}: {one:#?}");
        }
    }

    fn step(&mut self) {
        self.rig.pass(self.random.of(&[1, 1, 1, 1, 2000]));
        // A deadline may have sent commands, which the replica of `lag` has as well.
        self.settle();
        let (unit, e164) = (self.random.below(3), self.random.of(&NUMBERS));
        match self.random.below(30) {
            0 | 1 => drop(self.rig.code_of_create(e164)),
            2 if self.random.chance(20) => drop(self.rig.release(e164)),
            3 | 4 => drop(self.rig.recover()),
            5 => drop(self.rig.code_of_move(e164)),
            6 => self.locals[unit].asleep = true,
            7 | 8 => self.locals[unit].asleep = false,
            9 if self.locals[unit].asleep && self.rig.realm.unit_called(UNITS[unit].as_bytes()).is_some() => {
                self.rig.down(UNITS[unit]);
            }
            10 => self.locals[unit].in_session = false,
            11 => self.lag(),
            12 if self.random.chance(30) => self.fail_over(),
            12 if self.random.chance(10) => self.lose_all(),
            _ => self.unit_acts(unit),
        }
        self.settle();
    }

    fn lag(&mut self) {
        self.lagging = (self.rig.realm.clone(), [0, 1, 2].map(|unit| self.locals[unit].stream.len()));
    }

    fn fail_over(&mut self) {
        (self.rig.realm, self.rig.replica) = (self.lagging.0.clone(), self.lagging.0.clone());
        for (local, length) in self.locals.iter_mut().zip(self.lagging.1) {
            local.stream.truncate(length);
            local.in_session = false;
        }
        // Some units do not find the new master in time.
        for cmu in UNITS {
            if self.random.chance(20) && self.rig.realm.unit_called(cmu.as_bytes()).is_some() {
                self.rig.down(cmu);
            }
        }
    }

    /// An operator deletes all keys.
    fn lose_all(&mut self) {
        self.lagging = (Realm::open(settings(), self.rig.now), [0; 3]);
        self.fail_over();
    }

    fn unit_acts(&mut self, unit: usize) {
        let cmu = UNITS[unit];
        if self.locals[unit].asleep {
            return;
        }
        if !self.locals[unit].in_session {
            for (e164, epochs) in self.locals[unit].ends.clone() {
                self.tell_end(unit, &e164, &epochs);
            }
            self.rig.join(cmu, 10);
            self.report(unit);
            (self.locals[unit].in_session, self.locals[unit].handled) = (true, 0);
        } else if self.random.chance(20) {
            self.locals[unit].in_session = self.rig.beat(cmu) != "NOTFOUND";
        } else if self.random.chance(10) && !self.locals[unit].copies.is_empty() {
            let at = self.random.below(self.locals[unit].copies.len());
            let e164 = self.locals[unit].copies.keys().nth(at).unwrap().clone();
            let epochs = self.locals[unit].copies.remove(&e164).unwrap();
            self.end_by_people(unit, &e164, epochs.into_iter().rev().collect());
        } else {
            let next = self.locals[unit].handled;
            if let Some(message) = self.locals[unit].stream.get(next).cloned() {
                self.locals[unit].handled += 1;
                self.handle(unit, &message);
            }
        }
    }

    fn report(&mut self, unit: usize) {
        let local = &self.locals[unit];
        if self.rig.realm.unit_called(UNITS[unit].as_bytes()).is_some_and(|unit| unit.word() == "down") {
            return;
        }
        let row = |(e164, epochs): (&String, &Vec<u64>)| (e164.clone(), epochs[epochs.len() - 1]);
        let copies: Vec<(String, u64)> = local.copies.iter().map(row).collect();
        let list: Vec<(&str, u64)> = copies.iter().map(|(e164, epoch)| (&e164[..], *epoch)).collect();
        let rows = |(e164, epochs): &(String, Vec<u64>)| -> Vec<(String, u64)> {
            epochs.iter().map(|epoch| (e164.clone(), *epoch)).collect()
        };
        let ends: Vec<(String, u64)> = local.ends.iter().flat_map(rows).collect();
        let ended: Vec<(&str, u64)> = ends.iter().map(|(e164, epoch)| (&e164[..], *epoch)).collect();
        self.rig.report_with(UNITS[unit], local.highest, &ended, &list);
    }

    fn end_by_people(&mut self, unit: usize, e164: &str, epochs: Vec<u64>) {
        self.people.extend(epochs.iter().map(|epoch| (e164.to_owned(), *epoch)));
        self.tell_end(unit, e164, &epochs);
        self.locals[unit].ends.push((e164.into(), epochs));
    }

    /// A unit tells which copy people ended. The conference has ended then, unless the record says that another copy was
    /// open later, that the unit did not have this one, or that it was told RELEASE for it. The record may lack the copy
    /// because of a failover.
    fn tell_end(&mut self, unit: usize, e164: &str, epochs: &[u64]) {
        let counts = self.end_counts(unit, e164, epochs);
        for epoch in epochs {
            self.rig.ended(e164, UNITS[unit], *epoch);
        }
        let one = self.rig.realm.conference_called(e164.as_bytes()).filter(|one| one.is_live());
        assert!(!(counts && one.is_some()), "an end by people is refused: {one:#?}");
    }

    fn end_counts(&self, unit: usize, e164: &str, epochs: &[u64]) -> bool {
        let Some(one) = self.rig.realm.conference_called(e164.as_bytes()) else { return false };
        let number = self.rig.realm.find_unit(UNITS[unit].as_bytes());
        let moved_here = epochs.iter().any(|epoch| one.moves_to(number, *epoch));
        let last_open = one.history.iter().rposition(|entry| entry.opened.is_some()).unwrap_or(0);
        let was_here = one.history[last_open..].iter().any(|entry| {
            let lost = entry.ended.is_none_or(|ending| ending.how == AssignmentEnd::Lost) && !entry.disowned;
            lost && *entry.cmu == *UNITS[unit].as_bytes() && epochs.contains(&entry.epoch)
        });
        let open = one.history.iter().filter(|entry| entry.opened.is_some());
        let last_copy = open.map(|entry| entry.copy_epoch).max().unwrap_or(one.origin_epoch);
        let was_sent = self.locals[unit]
            .stream
            .iter()
            .any(|message| message.split(' ').nth(3).and_then(|epoch| epoch.parse().ok()) == Some(epochs[0]));
        let is_lost = number.is_some() && epochs[0] > last_copy && !was_sent;
        moved_here || was_here || is_lost
    }

    fn handle(&mut self, unit: usize, message: &str) {
        let (words, cmu) = (message.split(' ').collect::<Vec<_>>(), UNITS[unit]);
        let (e164, epoch) = (words[1], words[3].parse::<u64>().unwrap());
        let local = &mut self.locals[unit];
        let is_new = epoch > local.highest;
        match words[0] {
            "CREATE" if is_new => {
                local.highest = epoch;
                local.copies.remove(e164);
                if self.random.chance(10) {
                    self.rig.nack(e164, cmu, epoch);
                } else if self.rig.ack(e164, cmu, epoch) == "Released" {
                    self.rig.given_up(e164, cmu, epoch);
                } else {
                    self.locals[unit].copies.insert(e164.into(), vec![epoch]);
                }
            }
            "RELEASE" if local.copies.get(e164).is_some_and(|epochs| epochs.contains(&epoch)) => {
                let epochs = local.copies.remove(e164).unwrap();
                self.rig.given_up(e164, cmu, epochs[epochs.len() - 1]);
            }
            "EPOCH" => {
                let old = words[4].parse::<u64>().unwrap();
                if !is_new && local.copies.get(e164).and_then(|epochs| epochs.last()) != Some(&old) {
                    return;
                }
                local.highest = local.highest.max(epoch);
                if let Some(copy) = local.copies.get_mut(e164) {
                    copy.push(epoch);
                } else if local.ends.iter().any(|(name, epochs)| name == e164 && epochs.contains(&old)) {
                    self.end_by_people(unit, e164, vec![epoch]);
                } else {
                    self.rig.given_up(e164, cmu, epoch);
                }
            }
            "REPORT" if words[4] == "LIST" => self.report(unit),
            _ => {}
        }
    }

    /// Whether no conference waits for a unit, or for the end of the back-off of one.
    fn is_calm(&self) -> bool {
        let found = |e164: &&str| self.rig.realm.conference_called(e164.as_bytes());
        NUMBERS.iter().filter_map(found).all(|one| !one.is_live() || one.state == State::Open)
    }

    /// All units wake, and nothing else happens, for as long as the back-off of units that failed lasts at most.
    fn calm_down(&mut self) {
        for pass in 0..1000 {
            if pass >= 40 && self.is_calm() {
                break;
            }
            self.rig.pass(100);
            for (unit, cmu) in UNITS.into_iter().enumerate() {
                self.locals[unit].asleep = false;
                if !self.locals[unit].in_session || self.rig.beat(cmu) == "NOTFOUND" {
                    self.locals[unit].in_session = false;
                    self.unit_acts(unit);
                }
                self.settle();
                while let Some(message) = self.locals[unit].stream.get(self.locals[unit].handled).cloned() {
                    self.locals[unit].handled += 1;
                    self.handle(unit, &message);
                    self.settle();
                }
            }
            self.rig.recover();
            self.settle();
        }
        self.rig.check();
        for e164 in NUMBERS {
            let Some(one) = self.rig.realm.conference_called(e164.as_bytes()) else { continue };
            let current = |local: &Local| local.copies.get(e164).map(|epochs| epochs[epochs.len() - 1]);
            let having: Vec<u64> = self.locals.iter().filter_map(current).collect();
            let last = one.history.iter().rev().find(|entry| entry.opened.is_some());
            let ended = last.is_some_and(|entry| self.people.contains(&(e164.into(), entry.epoch)));
            assert!(!ended || one.state == State::Ended, "an end by people is forgotten: {one:#?}");
            let expected = if one.state == State::Ended { vec![] } else { vec![one.epoch] };
            assert_eq!((one.is_live(), having), (one.state == State::Open, expected), "{one:#?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: super::random::cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_conference_ends_that_nobody_ended_and_none_is_lost(seed in any::<u64>()) {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.calm_down();
    }
}
