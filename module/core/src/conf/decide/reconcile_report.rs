//! Reconciles the list of conferences that a unit reports with the records.

use super::lookups::{disowned, ended_by_unit, had_it_last, up_unit};
use crate::conf::event::{Event, Events};
use crate::conf::model::conference::{AssignmentEnd, Cause, Conference, Epoch};
use crate::conf::model::state::{Policy, Realm};
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::Name;
use crate::conf::outcome::Reported;
use crate::conf::outcome::{Decided, Decision, Reply, refuse, unchanged};
use crate::conf::request::{AssignmentNotice, Report};
use crate::invariant;
use crate::shared::refusal::Code;
use crate::shared::text::quoted;
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};
use std::collections::HashSet;

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
    // The epoch of an adopted conference must be greater than every epoch that the unit has handled.
    let epoch = realm.next_epoch(now).max(realm.last_with(report.highest, now) + 1);
    // First, so that the unit counts as reported when later events free or take room.
    let events = smallvec::smallvec![Event::Reported { cmu: cmu.clone(), highest: report.highest }];
    let mut reconciliation =
        Reconciliation { realm, cmu, number, now, epoch, events, reported: Reported::default() };
    for &(e164, epoch) in &report.list {
        reconciliation.has(e164, epoch);
    }
    let Some(unit) = realm.indexed_unit(number) else { return unchanged(Reply::Ok) };
    let own = unit.owned.iter().chain(&unit.targets).filter_map(|&(_, id)| realm.indexed(id));
    for conference in own.chain(realm.lost_by(&unit.cmu)) {
        if !listed.contains(&conference.e164[..]) {
            reconciliation.lacks(conference, report.highest);
        }
    }
    Ok(Decision { events: reconciliation.events, reply: Reply::Reported(reconciliation.reported) })
}

/// The decisions so far.
struct Reconciliation<'a> {
    realm: &'a Realm,
    cmu: Name,
    number: u32,
    now: Millis,
    /// The epoch of the next adopted conference.
    epoch: Epoch,
    events: Events,
    reported: Reported,
}

impl Reconciliation<'_> {
    /// Decides about a conference that is in the list, at that epoch.
    fn has(&mut self, e164: &[u8], epoch: Epoch) {
        let unit = Some(self.number);
        let conference = self.realm.conference_called(e164);
        if let Some(conference) = conference.filter(|conference| conference.moves_to(unit, epoch)) {
            self.events.push(Event::Moved { e164: conference.e164.clone() });
            self.reported.kept += 1;
            return;
        }
        let trigger = match conference {
            Some(conference) if conference.matches(unit, epoch) => Trigger::Has,
            Some(conference) if conference.owner == unit && same_copy(conference, &self.cmu, epoch) => {
                Trigger::HasOlder
            }
            _ => Trigger::HasOther,
        };
        let notice = AssignmentNotice { e164, cmu: &self.cmu, epoch };
        let mut next = transition(trigger, conference.map(|conference| conference.state));
        if let (Transition::Adopt, Some(conference)) = (next, conference) {
            next = if may_adopt(self.realm, conference, &self.cmu, self.number, epoch) {
                effective(conference, Transition::Adopt)
            } else {
                Transition::ReleaseSender
            };
        }
        match (next, conference) {
            (Transition::Open, Some(conference)) => {
                self.events.push(Event::Acked { e164: conference.e164.clone() });
                self.reported.kept += 1;
            }
            (Transition::EpochAgain, Some(conference)) => {
                self.events.push(Event::EpochAgain { e164: conference.e164.clone(), old: epoch });
                self.reported.adopted.push((conference.e164.clone(), epoch, conference.epoch));
            }
            (Transition::Adopt, Some(conference)) => {
                let event = Event::Adopted {
                    e164: conference.e164.clone(),
                    cmu: self.cmu.clone(),
                    old: epoch,
                    epoch: self.epoch,
                };
                self.events.push(event);
                self.reported.adopted.push((conference.e164.clone(), epoch, self.epoch));
                self.epoch += 1;
            }
            // The conference is ending, and this other copy must end as well.
            (Transition::Ended, Some(conference)) => {
                self.events.push(disowned(self.realm, notice));
                let event =
                    Event::Ended { e164: conference.e164.clone(), cause: conference.cause, release: true };
                self.events.push(event);
                self.reported.released.push(conference.e164.clone());
            }
            (Transition::ReleaseSender, _) => {
                self.events.push(disowned(self.realm, notice));
                self.reported.released.push(Bytes::from_slice(e164));
            }
            (Transition::Stays, _) => self.reported.kept += 1,
            _ => invariant!("a copy that a unit reports is kept, adopted, or released"),
        }
    }

    /// Decides about a conference that is not in the list, though the unit owns it, is the target of its move, or was
    /// the last unit that had it open.
    fn lacks(&mut self, conference: &Conference, highest: Epoch) {
        let e164 = conference.e164.clone();
        if let Some(moving) = conference.moving.filter(|moving| moving.to == self.number) {
            if moving.epoch <= highest {
                self.events.push(Event::MoveFailed { e164, cause: Cause::Missing, release: false });
            }
            return;
        }
        let epoch = if conference.owner.is_some() {
            conference.epoch
        } else {
            let lost = conference.last_lost();
            invariant!(lost.is_some(), "a pending conference that its unit lost was open there");
            lost.map_or(Epoch::MAX, |lost| lost.epoch)
        };
        let trigger = if epoch <= highest { Trigger::Lacks } else { Trigger::LacksUnheard };
        match transition(trigger, Some(conference.state)) {
            Transition::Failed => {
                let event = self.realm.failed(conference, Cause::Missing, self.now);
                if matches!(event, Event::Ended { .. }) {
                    self.reported.ended.push(e164);
                }
                self.events.push(event);
            }
            Transition::Ended => {
                self.events.push(ended_by_unit(conference, Cause::Missing));
                self.reported.ended.push(e164);
            }
            Transition::EndedIfLast if had_it_last(conference, &self.cmu, epoch) => {
                self.events.push(ended_by_unit(conference, Cause::Missing));
                self.reported.ended.push(e164);
            }
            Transition::Stays => self.reported.kept += 1,
            // The conference is pending, and the unit made the list before it handled CREATE.
            Transition::Nothing => {}
            _ => invariant!("a conference that a unit lacks ends, fails, or was not known to the unit yet"),
        }
    }
}

/// Whether that epoch is an older epoch of the copy that the owner has.
fn same_copy(conference: &Conference, cmu: &[u8], epoch: Epoch) -> bool {
    conference.assignment(cmu, epoch).is_some_and(|entry| entry.copy_epoch == conference.copy_epoch)
}

/// Whether a unit that reports a copy of that epoch becomes the owner again: the unit lost this copy, the conference
/// is still the same one, and the copy is older than the current one.
fn may_adopt(realm: &Realm, conference: &Conference, cmu: &[u8], number: u32, epoch: Epoch) -> bool {
    let Some(entry) = conference.assignment(cmu, epoch) else { return false };
    if epoch < conference.origin_epoch || !matches!(entry.ended, Some((_, AssignmentEnd::Lost))) {
        return false;
    }
    let Some(owner) = conference.owner else { return true };
    let target = conference.moving.is_some_and(|moving| moving.to == number);
    let older = entry.copy_epoch < conference.copy_epoch;
    realm.settings.policy == Policy::Earliest && owner != number && !target && older
}
