//! A unit's list of conferences, held against what is on record.

use super::conference::{Cause, Conference, Epoch, How};
use super::decide::{Decided, Decision, Reply, disowned, ended_by_unit, had_it_last, refuse, up_unit};
use super::event::{Event, Events};
use super::request::{Report, Word};
use super::rows::{Cell, Row, cell};
use super::state::{Policy, Realm};
use super::unit::Name;
use crate::invariant;
use crate::shared::refusal::Code;
use crate::shared::text::quoted;
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};
use std::collections::HashSet;

/// What came of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// How many conferences are the unit's as it says, or are on their way to it.
    pub kept: i64,
    /// Conferences that it has at another epoch from now on: number, old, new.
    pub adopted: Vec<(Bytes, Epoch, Epoch)>,
    /// Conferences whose copy it must end.
    pub released: Vec<Bytes>,
    /// Conferences that ended, since the unit has them no more.
    pub ended: Vec<Bytes>,
}

/// Decides a report. O((list + conferences of the unit) log conferences).
pub(super) fn decide_report(realm: &Realm, now: Millis, report: &Report<'_>) -> Decided {
    let number = up_unit(realm, report.cmu)?;
    let cmu = realm.name_of(number);
    let mut listed = HashSet::with_capacity(report.list.len());
    for (e164, _) in &report.list {
        check_identifier("e164", e164)?;
        if !listed.insert(*e164) {
            return refuse(Code::Err, format!("conference {} is in the list twice", quoted(e164)));
        }
    }
    // What it is given back must be news to it.
    let epoch = realm.next_epoch(now).max(realm.last_with(report.highest, now) + 1);
    // First of all, so that what the list frees or takes is of a unit that has reported.
    let events = smallvec::smallvec![Event::Reported { cmu: cmu.clone(), highest: report.highest }];
    let mut said = Said { realm, cmu, number, now, epoch, events, reported: Reported::default() };
    for &(e164, epoch) in &report.list {
        said.has(e164, epoch);
    }
    let Some(unit) = realm.indexed_unit(number) else { return super::decide::unchanged(Reply::Ok) };
    let own = unit.owned.iter().chain(&unit.targets).filter_map(|&(_, id)| realm.indexed(id));
    for one in own.chain(realm.lost_by(&unit.cmu)) {
        if !listed.contains(&one.e164[..]) {
            said.lacks(one, report.highest);
        }
    }
    Ok(Decision { events: said.events, reply: Reply::Reported(said.reported) })
}

/// What is decided so far.
struct Said<'a> {
    realm: &'a Realm,
    cmu: Name,
    number: u32,
    now: Millis,
    /// The next epoch to give out.
    epoch: Epoch,
    events: Events,
    reported: Reported,
}

impl Said<'_> {
    /// The list has a conference at that epoch.
    fn has(&mut self, e164: &[u8], epoch: Epoch) {
        let unit = Some(self.number);
        let one = self.realm.conference_called(e164);
        if let Some(one) = one.filter(|one| one.moves_to(unit, epoch)) {
            self.events.push(Event::Moved { e164: one.e164.clone() });
            self.reported.kept += 1;
            return;
        }
        let row = match one {
            Some(one) if one.matches(unit, epoch) => Row::Has,
            Some(one) if one.owner == unit && same_copy(one, &self.cmu, epoch) => Row::HasOlder,
            _ => Row::HasOther,
        };
        let word = Word { e164, cmu: &self.cmu, epoch };
        let mut next = cell(row, one.map(|one| one.state));
        if let (Cell::Adopt, Some(one)) = (next, one) {
            next = if may_adopt(self.realm, one, &self.cmu, self.number, epoch) {
                Realm::outcome(one, Cell::Adopt)
            } else {
                Cell::ReleaseSender
            };
        }
        match (next, one) {
            (Cell::Open, Some(one)) => {
                self.events.push(Event::Acked { e164: one.e164.clone() });
                self.reported.kept += 1;
            }
            (Cell::EpochAgain, Some(one)) => {
                self.events.push(Event::EpochAgain { e164: one.e164.clone(), old: epoch });
                self.reported.adopted.push((one.e164.clone(), epoch, one.epoch));
            }
            (Cell::Adopt, Some(one)) => {
                let event = Event::Adopted {
                    e164: one.e164.clone(),
                    cmu: self.cmu.clone(),
                    old: epoch,
                    epoch: self.epoch,
                };
                self.events.push(event);
                self.reported.adopted.push((one.e164.clone(), epoch, self.epoch));
                self.epoch += 1;
            }
            // It was to end, and here is another copy that is to end with it.
            (Cell::Ended, Some(one)) => {
                self.events.push(disowned(self.realm, word));
                let event = Event::Ended { e164: one.e164.clone(), cause: one.cause, release: true };
                self.events.push(event);
                self.reported.released.push(one.e164.clone());
            }
            (Cell::ReleaseSender, _) => {
                self.events.push(disowned(self.realm, word));
                self.reported.released.push(Bytes::from_slice(e164));
            }
            (Cell::Stays, _) => self.reported.kept += 1,
            _ => invariant!("a copy that a unit reports is kept, adopted, or released"),
        }
    }

    /// The list lacks a conference of the unit: one that it owns, is to take over, or was the last to have.
    fn lacks(&mut self, one: &Conference, highest: Epoch) {
        let e164 = one.e164.clone();
        if let Some(moving) = one.moving.filter(|moving| moving.to == self.number) {
            if moving.epoch <= highest {
                self.events.push(Event::MoveFailed { e164, cause: Cause::Missing, release: false });
            }
            return;
        }
        let epoch = match one.owner {
            Some(_) => one.epoch,
            None => {
                let lost = one.last_lost();
                invariant!(lost.is_some(), "a pending conference that its unit lost was open there");
                lost.map_or(Epoch::MAX, |lost| lost.epoch)
            }
        };
        let row = if epoch <= highest { Row::Lacks } else { Row::LacksUnheard };
        match cell(row, Some(one.state)) {
            Cell::Failed => {
                let event = self.realm.failed(one, Cause::Missing, self.now);
                if matches!(event, Event::Ended { .. }) {
                    self.reported.ended.push(e164);
                }
                self.events.push(event);
            }
            Cell::Ended => {
                self.events.push(ended_by_unit(one, Cause::Missing));
                self.reported.ended.push(e164);
            }
            Cell::EndedIfLast if had_it_last(one, &self.cmu, epoch) => {
                self.events.push(ended_by_unit(one, Cause::Missing));
                self.reported.ended.push(e164);
            }
            Cell::Stays => self.reported.kept += 1,
            // It waits for recovery, and the unit took its list before it had heard of it.
            Cell::Nothing => {}
            _ => invariant!("a conference that a unit lacks ends, or the unit has not heard of it"),
        }
    }
}

/// Whether that epoch is an older one of the owner's very copy.
fn same_copy(one: &Conference, cmu: &[u8], epoch: Epoch) -> bool {
    one.assignment(cmu, epoch).is_some_and(|entry| entry.copy_epoch == one.copy_epoch)
}

/// Whether a unit that reports a copy of that epoch may have the conference back: it lost it, the conference is still
/// the same one, and its copy is older than the one that goes on now.
fn may_adopt(realm: &Realm, one: &Conference, cmu: &[u8], number: u32, epoch: Epoch) -> bool {
    let Some(entry) = one.assignment(cmu, epoch) else { return false };
    if epoch < one.origin_epoch || !matches!(entry.ended, Some((_, How::Lost))) {
        return false;
    }
    let Some(owner) = one.owner else { return true };
    let target = one.moving.is_some_and(|moving| moving.to == number);
    let older = entry.copy_epoch < one.copy_epoch;
    realm.settings.policy == Policy::Earliest && owner != number && !target && older
}
