//! Reconciles the list of conferences that a unit reports with the records.

use super::creation::check_room;
use super::lookups::{disowned, same_copy, up_unit};
use crate::conf::event::{ConferenceEvent, Created, Event, Events, UnitEvent};
use crate::conf::model::conference::{Cause, Conference, Epoch, Wishes};
use crate::conf::model::state::{Policy, Realm};
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::Name;
use crate::conf::outcome::Reported;
use crate::conf::outcome::{Decided, Decision, Reply, refuse, unchanged};
use crate::conf::request::{AssignmentNotice, CopyParams, Report};
use crate::invariant;
use crate::shared::fence::MAX_TIME;
use crate::shared::invariant::Expected;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};
use std::collections::{HashMap, HashSet};

/// Decides a report. O((list + conferences of the unit) log conferences).
pub(super) fn decide_report(realm: &Realm, now: Millis, report: &Report<'_>) -> Decided {
    let number = up_unit(realm, report.cmu)?;
    let cmu = realm.name_of(number);
    let mut listed = HashSet::with_capacity(report.list.len());
    for (e164, _) in report.starting.iter().chain(&report.list) {
        check_identifier("e164", e164)?;
        if !listed.insert(*e164) {
            return refuse(Code::Err, format!("conference {} is in the list twice", quoted(e164)));
        }
    }
    // The epoch of an adopted conference must be greater than every epoch that the unit has handled.
    let epoch = realm.next_epoch(now).max(realm.last_with(report.highest, now) + 1);
    // First, so that the unit counts as reported when later events free or take room.
    let events = smallvec::smallvec![UnitEvent::Reported { highest: report.highest }.of(cmu.clone())];
    let (highest, settled) = (report.highest, HashSet::new());
    let reported = Reported::default();
    let params = checked_params(report, &listed)?;
    let mut reconciliation = Reconciliation {
        realm,
        cmu,
        number,
        now,
        highest,
        params,
        epoch,
        epochs_found: HashSet::new(),
        events,
        settled,
        reported,
    };
    // Before the list, so that a conference that people ended does not count as lost.
    for &(e164, epoch) in &report.ended {
        reconciliation.ended(e164, epoch)?;
    }
    for &(e164, epoch) in &report.starting {
        reconciliation.starts(e164, epoch);
    }
    for &(e164, epoch) in &report.list {
        reconciliation.has(e164, epoch);
    }
    let Some(unit) = realm.indexed_unit(number) else { return unchanged(Reply::Ok) };
    let own = unit.owned.iter().chain(&unit.targets).filter_map(|&(_, id)| realm.indexed(id));
    for conference in own {
        if !listed.contains(&conference.e164[..]) && !reconciliation.settled.contains(&conference.e164[..]) {
            reconciliation.lacks(conference);
        }
    }
    Ok(Decision { events: reconciliation.events, reply: Reply::Reported(reconciliation.reported) })
}

/// What the unit knows about its conferences, by their numbers.
///
/// # Errors
/// A row is out of range, is of a conference that is not in the list, or is the second of its conference.
fn checked_params<'a>(
    report: &'a Report<'_>,
    listed: &HashSet<&[u8]>,
) -> Result<HashMap<&'a [u8], &'a CopyParams<'a>>, Refusal> {
    let mut all = HashMap::with_capacity(report.params.len());
    for params in &report.params {
        let CopyParams { e164, end, size, priority, request } = *params;
        check_room("the size after PARAMS", size, 1)?;
        request.map_or(Ok(()), |request| check_identifier("request", request))?;
        let fits = end.is_none_or(|end| (0..=MAX_TIME).contains(&end)) && i32::try_from(priority).is_ok();
        if !fits {
            let text = format!("the end or the priority of conference {} is out of range", quoted(e164));
            return refuse(Code::Err, text);
        }
        if !listed.contains(e164) || all.insert(e164, params).is_some() {
            let text = format!("PARAMS names conference {} twice, or it is not in the list", quoted(e164));
            return refuse(Code::Err, text);
        }
    }
    Ok(all)
}

/// A report that is being decided: the facts, and the decisions so far.
struct Reconciliation<'a> {
    realm: &'a Realm,
    cmu: Name,
    number: u32,
    now: Millis,
    /// The highest epoch that the unit had handled.
    highest: Epoch,
    /// What the unit knows about its conferences, by their numbers.
    params: HashMap<&'a [u8], &'a CopyParams<'a>>,
    /// The next epoch to give out.
    epoch: Epoch,
    /// Epochs at which conferences were found: no two have one.
    epochs_found: HashSet<Epoch>,
    events: Events,
    /// Conferences that people ended on the unit, according to this report. They are decided already, in the list or
    /// not.
    settled: HashSet<Bytes>,
    reported: Reported,
}

impl Reconciliation<'_> {
    /// Decides about a conference that the list contains at this epoch.
    fn has(&mut self, e164: &[u8], epoch: Epoch) {
        let unit = Some(self.number);
        if self.settled.contains(e164) {
            self.disowns(e164, epoch);
            return;
        }
        let conference = self.realm.conference_called(e164);
        if let Some(conference) = conference.filter(|conference| conference.moves_to(unit, epoch)) {
            self.events.push(conference.event(ConferenceEvent::Moved));
            self.keeps(conference);
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
        let mut is_lost = false;
        if let (Transition::Adopt, Some(conference)) = (next, conference) {
            is_lost = self.is_lost_assignment(conference, epoch);
            next = if is_lost || may_adopt(self.realm, conference, &self.cmu, self.number, epoch) {
                effective(conference, Transition::Adopt)
            } else {
                Transition::ReleaseSender
            };
        }
        match (next, conference) {
            (Transition::Open, Some(conference)) => {
                self.events.push(conference.event(ConferenceEvent::Acked));
                self.keeps(conference);
            }
            (Transition::EpochAgain, Some(conference)) => {
                self.events.push(conference.event(ConferenceEvent::EpochAgain { old: epoch }));
                self.reported.adopted.push((conference.e164.clone(), epoch, conference.epoch));
                self.corrects(conference);
            }
            (Transition::Adopt, Some(conference)) => {
                let (cmu, old) = (self.cmu.clone(), epoch);
                let event = if is_lost {
                    ConferenceEvent::CopyFound { cmu, old, epoch: self.epoch }
                } else {
                    ConferenceEvent::Adopted { cmu, old, epoch: self.epoch }
                };
                self.adopts(&conference.e164, old, event);
                self.corrects(conference);
            }
            // The conference is ending, and this other copy must end as well.
            (Transition::Ended, Some(conference)) => {
                self.events.push(disowned(self.realm, notice));
                let event = ConferenceEvent::Ended { cause: conference.cause, release: true };
                self.events.push(conference.event(event));
                self.reported.released.push(conference.e164.clone());
            }
            (Transition::ReleaseSender, known) if self.is_lost_conference(known, epoch) => {
                self.events.push(self.found(e164, epoch));
                let cmu = self.cmu.clone();
                let event = ConferenceEvent::Adopted { cmu, old: epoch, epoch: self.epoch };
                self.adopts(e164, epoch, event);
            }
            (Transition::ReleaseSender, _) => self.release(e164, epoch),
            (Transition::Stays, Some(conference)) => self.keeps(conference),
            _ => invariant!("a copy that a unit reports is kept, adopted, or released"),
        }
    }

    /// Whether the unit handled this epoch, and the next epoch that the realm gives out is greater.
    fn handled(&self, epoch: Epoch) -> bool {
        epoch <= self.highest && epoch < self.epoch
    }

    /// Whether the unit may own a conference that is on record because of a copy of a lost assignment. It may not if it
    /// would handle a later CREATE of the conference after its report.
    fn is_lost_assignment(&self, conference: &Conference, epoch: Epoch) -> bool {
        let unit = Some(self.number);
        let is_to_come = conference.owner == unit && conference.epoch > self.highest
            || conference.moving.as_ref().map(|moving| moving.to) == unit;
        self.handled(epoch)
            && self.realm.has_lost(&self.cmu, epoch, self.now)
            && conference.may_have_lost(epoch)
            && !is_to_come
    }

    /// Whether the realm lost a whole conference, of which the unit had a copy of this epoch. The epoch is remembered:
    /// no two conferences are found at one.
    fn is_lost_conference(&mut self, known: Option<&Conference>, epoch: Epoch) -> bool {
        self.handled(epoch)
            && self.realm.has_lost_conference(known, &self.cmu, epoch, self.now)
            && self.epochs_found.insert(epoch)
    }

    /// The unit owns a conference by its copy of the epoch `old`.
    fn adopts(&mut self, e164: &[u8], old: Epoch, event: ConferenceEvent) {
        let e164 = Bytes::from_slice(e164);
        self.events.push(Event::Conference { e164: e164.clone(), event });
        self.reported.adopted.push((e164, old, self.epoch));
        self.epoch += 1;
    }

    /// A conference that the realm lost comes on record, as far as the unit knows it.
    fn found(&self, e164: &[u8], epoch: Epoch) -> Event {
        let unknown = CopyParams { e164, end: None, size: 1, priority: 0, request: None };
        let params = self.params.get(e164).copied().unwrap_or(&unknown);
        Event::Found(Box::new(Created {
            e164: Bytes::from_slice(e164),
            cmu: Some(self.cmu.clone()),
            epoch,
            start: None,
            end: params.end,
            size: params.size as u32,
            licences: 1,
            priority: params.priority as i32,
            wishes: Wishes::default(),
            recoverable: true,
            request: params.request.map(Bytes::from_slice),
            called_from: None,
        }))
    }

    /// Decides about a conference that the unit is creating at this epoch. It was never open, so it is not adopted.
    fn starts(&mut self, e164: &[u8], epoch: Epoch) {
        if self.settled.contains(e164) {
            self.disowns(e164, epoch);
            return;
        }
        let unit = Some(self.number);
        let conference = self.realm.conference_called(e164);
        let is_expected =
            |conference: &Conference| conference.matches(unit, epoch) || conference.moves_to(unit, epoch);
        match conference.filter(|conference| is_expected(conference)) {
            Some(conference) => self.keeps(conference),
            None => self.release(e164, epoch),
        }
    }

    /// A unit that has handled the last UPDATE, and knows another end or size, has them from a former master that did not
    /// replicate the change before it died: the change is lost, and the unit is told what is so. Returns whether it is.
    fn corrects(&mut self, conference: &Conference) -> bool {
        let known = self.params.get(&conference.e164[..]);
        let is_other =
            known.is_some_and(|known| (known.end, known.size) != (conference.end, conference.size.into()));
        let corrects = is_other && conference.last_update <= self.highest && conference.ending.is_none();
        if corrects {
            let number = Some(self.epoch);
            self.events.push(conference.event(ConferenceEvent::UpdatedAgain { number }));
            self.epoch += 1;
        }
        corrects
    }

    /// The unit keeps its copy. The copy may have missed the last UPDATE, unless it was made later.
    fn keeps(&mut self, conference: &Conference) {
        self.reported.kept += 1;
        if self.corrects(conference) {
            return;
        }
        let target = conference.moving.as_ref().map(|moving| moving.epoch);
        let oldest = target.map_or(conference.copy_epoch, |target| target.min(conference.copy_epoch));
        if conference.last_update > oldest {
            self.events.push(conference.event(ConferenceEvent::UpdatedAgain { number: None }));
        }
    }

    /// The unit must end a copy, for example of a conference that people ended.
    fn disowns(&mut self, e164: &[u8], epoch: Epoch) {
        self.events.push(disowned(self.realm, AssignmentNotice { e164, cmu: &self.cmu, epoch }));
        self.reported.released.push(Bytes::from_slice(e164));
    }

    /// The unit must end a copy. It may own the conference by an assignment of which it has no copy: its copy then comes
    /// from an assignment that a former master made, and did not replicate before it died.
    fn release(&mut self, e164: &[u8], epoch: Epoch) {
        self.disowns(e164, epoch);
        let unit = Some(self.number);
        let is_here = |conference: &&Conference| {
            let target = conference.moving.as_ref().map(|moving| moving.to);
            conference.owner == unit || target == unit
        };
        if let Some(conference) = self.realm.conference_called(e164).filter(is_here) {
            self.lacks(conference);
        }
    }

    /// Decides about a conference that people ended on the unit, which had it at this epoch.
    fn ended(&mut self, e164: &[u8], epoch: Epoch) -> Result<(), Refusal> {
        check_identifier("e164", e164)?;
        if self.settled.contains(e164) {
            return Ok(());
        }
        let conference = self.realm.conference_called(e164);
        let events = match conference.filter(|conference| conference.is_live()) {
            Some(conference) => self.realm.ended_by_people(conference, &self.cmu, epoch, self.now),
            // An older copy of the conference may come back on another unit, and finds it ended.
            None if self.is_lost_conference(conference, epoch) => {
                let event = ConferenceEvent::Ended { cause: Cause::Unit, release: false };
                let ended = Event::Conference { e164: Bytes::from_slice(e164), event };
                Some(smallvec::smallvec![self.found(e164, epoch), ended])
            }
            None => None,
        };
        if let Some(events) = events {
            self.reported.ended.push(Bytes::from_slice(e164));
            self.settled.insert(Bytes::from_slice(e164));
            self.events.extend(events);
        }
        Ok(())
    }

    /// Decides about a conference that is missing in the list although the unit owns it or is the target of its move.
    /// People did not end it.
    fn lacks(&mut self, conference: &Conference) {
        let highest = self.highest;
        let e164 = conference.e164.clone();
        if let Some(moving) = conference.moving.as_ref().filter(|moving| moving.to == self.number) {
            if moving.epoch <= highest {
                let failed = ConferenceEvent::MoveFailed { cause: Cause::Missing, release: false };
                self.events.push(conference.event(failed));
            }
            return;
        }
        if conference.epoch > highest {
            // The unit had not handled CREATE or EPOCH when it made its list.
            self.reported.kept += 1;
            return;
        }
        let event = self.realm.gone(conference, Trigger::Lacks, Cause::Missing, self.now);
        let event = event.expected("a conference that its unit lacks is recovered or ends");
        let Some(event) = event else { return };
        let is_over = matches!(event, Event::Conference { event: ConferenceEvent::Ended { .. }, .. });
        let group = if is_over { &mut self.reported.ended } else { &mut self.reported.lost };
        group.push(e164);
        self.events.push(event);
    }
}

/// Whether a unit that reports a copy of this epoch may own the conference again. It may if the copy was open, the unit
/// lost it and was not told to end it, and the conference is still the same one. If the conference has an owner, this
/// must be another unit, the conference must not be moving to the reporting unit, the copy must be older than the
/// owner's, and the policy must be `EARLIEST`.
fn may_adopt(realm: &Realm, conference: &Conference, cmu: &[u8], number: u32, epoch: Epoch) -> bool {
    let Some(entry) = conference.assignment(cmu, epoch) else { return false };
    if epoch < conference.origin_epoch || !entry.may_come_back() {
        return false;
    }
    let Some(owner) = conference.owner else { return true };
    let target = conference.moving.as_ref().is_some_and(|moving| moving.to == number);
    let older = entry.copy_epoch < conference.copy_epoch;
    realm.settings.policy == Policy::Earliest && owner != number && !target && older
}
