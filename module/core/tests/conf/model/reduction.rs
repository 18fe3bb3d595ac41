//! What of a world makes a difference to what can happen next. Everything else is forgotten, so that the number of states
//! stays finite; and the worlds of a search are kept as bytes.

use super::{Epochs, Local, UNITS, World, bits, small};
use allot_core::conf::Realm;
use allot_core::conf::conference::State;
use std::rc::Rc;

/// Bytes of a unit in the encoding of a world.
const LOCAL_BYTES: usize = 15;

/// A copy of an assignment that is over: by which one makes no difference.
const ZOMBIE: u8 = 7;

impl World {
    /// Forgets what can make no difference any more.
    pub(super) fn settle(&mut self) {
        let one = self.conference();
        let state = one.map(|one| (one.state, one.origin_epoch));
        let relevant: Vec<[Epochs; 3]> = UNITS.iter().map(|name| self.relevant(name.as_bytes())).collect();
        self.ended = match state {
            None => 0,
            Some((State::Ended, origin)) => 1 << small(origin),
            Some((_, origin)) => self.ended & 1 << small(origin),
        };
        let replaced = UNITS.map(|name| self.realm.is_replaced(name.as_bytes()));
        for ((local, [now, lost, same]), replaced) in self.locals.iter_mut().zip(relevant).zip(replaced) {
            if local.copy != 0 && (now | lost | same) >> local.copy & 1 == 0 {
                local.copy = ZOMBIE;
            }
            if local.copy == 0 {
                local.lacks |= 1 << local.highest;
            } else {
                local.has |= 1 << local.copy;
            }
            local.acks &= now;
            local.nacks &= now;
            local.fails &= now | same;
            local.ends &= now | lost | same;
            local.given_up &= now | same;
            // A copy that cannot be adopted makes no difference when it is given up.
            local.release &= now | lost | same;
            local.people &= local.copy == 0 && local.epoch != 0;
            local.has &= now | lost | same;
            if replaced {
                local.has = 0;
            }
            let news = !((1u16 << (local.highest + 1)) - 1) as u8;
            (local.create, local.epoch) = (local.create & news, local.epoch & news);
            // What a list lacks are these; between two of them the highest epoch handled is the same.
            let floor = |highest: u8| bits(now | lost).filter(|&epoch| epoch <= highest).max().unwrap_or(0);
            local.lacks = (0..8)
                .filter(|&bit| !replaced && local.lacks >> bit & 1 == 1)
                .fold(1, |set, bit| set | 1 << floor(bit));
            local.highest = floor(local.highest);
        }
    }

    /// Epochs at which a unit's words may still be heard: the one by which it owns the conference or is to, those that
    /// it lost, and older ones of the owner's very copy.
    fn relevant(&self, cmu: &[u8]) -> [Epochs; 3] {
        let Some(one) = self.conference().filter(|one| one.is_live()) else { return [0; 3] };
        if self.realm.is_replaced(cmu) {
            // All that it is heard in is that people ended what nobody had open since.
            let last = one.last_copies().filter(|lost| *lost.cmu == *cmu);
            return [0, last.fold(0, |set, lost| set | 1u8 << small(lost.epoch)), 0];
        }
        let unit = self.realm.find_unit(cmu);
        let (mut now, mut lost, mut same) = (0, 0, 0);
        if unit.is_some() && one.owner == unit {
            now |= 1u8 << small(one.epoch);
        }
        if let Some(moving) = one.moving.as_ref().filter(|moving| Some(moving.to) == unit) {
            now |= 1u8 << small(moving.epoch);
        }
        for entry in one.history.iter().filter(|entry| *entry.cmu == *cmu) {
            if entry.is_lost() {
                lost |= 1u8 << small(entry.epoch);
            }
            if one.owner == unit && entry.copy_epoch == one.copy_epoch {
                same |= 1u8 << small(entry.epoch);
            }
        }
        [now, lost, same]
    }

    /// What of the world makes a difference to what can happen next, as bytes.
    pub(crate) fn essence(&self, out: &mut Vec<u8>) {
        out.clear();
        for local in &self.locals {
            out.extend([local.copy, local.highest, local.involved.into(), local.create, local.epoch]);
            out.extend([local.release, local.people.into(), local.given_up]);
            out.extend([local.acks, local.nacks, local.fails, local.ends, local.has, local.lacks]);
        }
        out.extend([self.accepted, self.ended, self.realm.leader().0 as u8]);
        out.push(small(self.realm.last_epoch()));
        for name in UNITS {
            out.push(match self.realm.unit_called(name.as_bytes()) {
                None => 255 - u8::from(self.realm.is_replaced(name.as_bytes())),
                Some(unit) => unit.state as u8 | u8::from(unit.reported) << 4,
            });
        }
        let place = |cmu: &[u8]| UNITS.iter().position(|name| name.as_bytes() == cmu).unwrap_or(9) as u8;
        let number = |unit: Option<u32>| {
            unit.and_then(|unit| self.realm.unit(unit)).map_or(9, |unit| place(&unit.cmu))
        };
        let Some(one) = self.conference() else { return };
        out.push(one.state as u8);
        out.push(one.request.as_ref().map_or(0, |request| request[0]));
        if one.state == State::Ended {
            return;
        }
        let flags = [one.recovering, one.ending.is_some(), one.opened.is_some(), one.pending_since.is_some()];
        out.push(number(one.owner));
        out.extend(flags.map(u8::from));
        out.push(one.next_retry.map_or(0, |retry| retry as u8));
        out.push(one.moving.as_ref().map_or(0, |moving| small(moving.epoch)));
        out.push(number(one.moving.as_ref().map(|moving| moving.to)));
        out.push(one.tried.iter().fold(0, |set, cmu| set | 1 << place(cmu)));
        let last = one.last_lost().map(|entry| entry.epoch);
        let ending: Vec<u64> = one.last_copies().map(|entry| entry.epoch).collect();
        for entry in &one.history {
            // Of the assignments that ended, those that were open may come back, people may end the last ones, and the
            // unit of the last that was open is kept on record.
            let lost = entry.may_come_back() && !self.realm.is_replaced(&entry.cmu);
            let same = entry.copy_epoch == one.copy_epoch && one.owner.is_some();
            let (kept, ends) = (last == Some(entry.epoch), ending.contains(&entry.epoch));
            if lost || same || kept || ends {
                let marks = u8::from(lost) << 1 | u8::from(kept) << 2 | u8::from(ends) << 3;
                let opened = u8::from(entry.ended.is_none() && entry.opened.is_some());
                out.extend([small(entry.epoch), small(entry.copy_epoch), place(&entry.cmu), marks | opened]);
            }
        }
    }

    /// The world as bytes, from which [`World::decode`] makes it again.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        for local in &self.locals {
            out.extend([local.copy, local.highest, local.involved.into(), local.had, local.create]);
            out.extend([local.epoch, local.acks, local.nacks, local.ends, local.has, local.lacks]);
            out.extend([local.release, local.people.into(), local.given_up, local.fails]);
        }
        out.extend([self.accepted, self.ended]);
        out.extend(self.realm.encode());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let local = |at: usize| {
            let bytes: [u8; LOCAL_BYTES] = bytes[LOCAL_BYTES * at..][..LOCAL_BYTES].try_into().unwrap();
            let [copy, highest, involved, had, create, epoch, rest @ ..] = bytes;
            let [acks, nacks, ends, has, lacks, release, people, given_up, fails] = rest;
            let (involved, people) = (involved == 1, people == 1);
            let words = Local { acks, nacks, fails, ends, given_up, has, lacks, ..Local::default() };
            Local { copy, highest, involved, had, create, epoch, release, people, ..words }
        };
        let rest = &bytes[4 * LOCAL_BYTES..];
        Self {
            locals: [local(0), local(1), local(2), local(3)],
            accepted: rest[0],
            ended: rest[1],
            wrong: None,
            realm: Rc::new(Realm::decode(&rest[2..]).expect("what was encoded is decoded")),
        }
    }
}
