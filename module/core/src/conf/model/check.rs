//! Checks a whole realm: a realm that is made again from its records must have the same indexes and sums.

use super::conference::{Conference, State};
use super::state::Realm;
use super::unit::{Host, MAX_DRAINED, MAX_FORGOTTEN, MAX_REPLACED, Name, UnitState, host_of};
use crate::ensure;
use crate::shared::codec::{Damaged, ensure as agrees};
use crate::shared::invariant::{Checked, Contradiction, checks_of};
use std::collections::BTreeSet;

impl Realm {
    /// Checks that the records agree with each other, and that all that is computed from them (indexes, room and licences in
    /// use, deadlines, queues, reservations) is what they say. O(size of the realm), for tests and debugging.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Checked {
        self.units.check()?;
        self.conferences.check()?;
        let sound = self.made_again().map_err(|damaged| Contradiction(damaged.0.to_owned()))?;
        for (id, conference) in self.conferences.iter() {
            let check = checks_of(|| format!("conference {}", conference.e164.escape_ascii()));
            check(sound.conferences.get(id) == Some(conference), "is another in a snapshot")?;
        }
        for (number, unit) in self.units.iter() {
            let check = checks_of(|| format!("unit {}", unit.cmu.escape_ascii()));
            let same = sound.units.get(number) == Some(unit);
            check(same, "has other conferences, room or capacity in use than the conferences and hosts say")?;
        }
        self.names.check(self.conferences.iter().map(|(id, conference)| (id, &conference.e164[..])))?;
        for (what, same) in [
            ("the names of units", self.unit_names == sound.unit_names),
            ("the hosts", self.hosts == sound.hosts),
            ("the licences in use", self.licences == sound.licences),
            ("the conferences by state", self.by_state == sound.by_state),
            ("the requests", self.requests == sound.requests),
            ("the pending conferences", self.queues == sound.queues),
            ("the lost conferences", self.lost == sound.lost),
            ("the units that take conferences", self.placement_index == sound.placement_index),
            ("the reservations", self.reservations == sound.reservations),
            ("the deadlines of conferences", self.conference_due == sound.conference_due),
            ("the deadlines of units", self.unit_due == sound.unit_due),
        ] {
            ensure!(same, "{what} are not those that the records say");
        }
        self.outbox.check()
    }

    /// The realm decoded from its own snapshot, in which all records have the same numbers.
    fn made_again(&self) -> Result<Self, Damaged> {
        let units: Vec<u32> = self.unit_names.values().copied().collect();
        let mut conferences: Vec<(&[u8], u32)> =
            self.conferences.iter().map(|(id, conference)| (&conference.e164[..], id)).collect();
        conferences.sort_unstable();
        let conferences: Vec<u32> = conferences.into_iter().map(|(_, id)| id).collect();
        let empty = Self {
            units: self.units.emptied(&units)?,
            conferences: self.conferences.emptied(&conferences)?,
            ..Self::default()
        };
        Self::decode_into(empty, &self.encode())
    }

    /// Checks that the fields of a conference agree with each other and with the units. O(1).
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check_conference(&self, conference: &Conference) -> Result<(), Damaged> {
        let latest = conference.history.last();
        let created = (conference.origin_epoch, conference.origin_epoch);
        let epochs = latest.map_or(created, |latest| (latest.epoch, latest.copy_epoch));
        let same = (conference.epoch, conference.copy_epoch) == epochs;
        agrees(same, "a conference is at another epoch than its latest assignment")?;
        let scheduled = conference.state == State::Scheduled;
        agrees(
            !scheduled || latest.is_none() && conference.start.is_some() && conference.wishes.host.is_none(),
            "a scheduled conference has a unit, a host, or no start",
        )?;
        let owned = matches!(conference.state, State::Waiting | State::Creating | State::Open);
        let has_opened = matches!(conference.state, State::Waiting | State::Open);
        let latest_opened = latest.is_some_and(|latest| latest.opened.is_some());
        let opened = conference.opened.is_some() && latest_opened;
        agrees(!has_opened || opened, "a conference is open without a time of opening")?;
        agrees(
            conference.state != State::Creating || !latest_opened,
            "a conference opened before it is created",
        )?;
        let goes_on = latest.is_some_and(|latest| latest.ended.is_none());
        agrees(owned == goes_on, "a conference's state and assignment disagree")?;
        agrees(owned == conference.owner.is_some(), "a conference's state and owner disagree")?;
        let alive = |unit: u32| self.unit(unit).is_some_and(|unit| unit.state != UnitState::Down);
        agrees(conference.owner.is_none_or(alive), "a conference is on a unit that is down")?;
        let pending = conference.state == State::Pending;
        agrees(
            pending == conference.next_retry.is_some(),
            "a conference is pending without a time for the next try, or has one without being pending",
        )?;
        agrees(
            !pending || conference.may_wait(),
            "a conference that cannot be recovered waits for recovery",
        )?;
        let recovering = conference.state == State::Creating && conference.recovering;
        agrees(
            conference.recovering == (pending || recovering),
            "a conference that has its unit is being recovered",
        )?;
        let waits = conference.pending_since.is_some() && conference.is_live();
        agrees(waits == (pending || recovering), "a conference that has its unit waits for recovery")?;
        let is_out = conference.out_since.is_some();
        let same = is_out == conference.pending_since.is_some() || !is_out && conference.opened.is_none();
        agrees(same, "a conference waits for recovery and was always in service, or the other way round")?;
        agrees(
            !conference.elsewhere || pending || recovering,
            "a conference that does not wait for recovery may go elsewhere",
        )?;
        agrees(
            conference.tried.is_empty() || pending || conference.state == State::Creating,
            "a conference that has its unit has units that failed it",
        )?;
        agrees(
            (conference.state == State::Ended) == conference.ended.is_some(),
            "the state and the time of the end of a conference disagree",
        )?;
        agrees(conference.ending.is_none() || owned, "an ending conference has no owner")?;
        if let Some(moving) = &conference.moving {
            let may = matches!(conference.state, State::Waiting | State::Open) && conference.ending.is_none();
            agrees(
                may && conference.owner != Some(moving.to) && alive(moving.to),
                "a conference that cannot move is moving",
            )?;
            agrees(
                conference.epoch < moving.epoch && moving.epoch <= self.last_epoch,
                "the epoch of a move is out of order",
            )?;
        }
        Ok(())
    }

    /// Checks the hosts against the units. O(hosts and their replaced units).
    pub(in crate::conf) fn check_hosts(&self) -> Checked {
        let mut running = 0;
        for (name, Host { current, replaced, .. }) in &self.hosts {
            let check = checks_of(|| format!("host {}", name.escape_ascii()));
            if let Some(number) = *current {
                let same = self.units.get(number).is_some_and(|unit| host_of(&unit.cmu) == &**name);
                check(same, "runs a unit that is not there, or is another's")?;
                running += 1;
            } else {
                let known = self.forgotten.iter().filter(|known| *known == name).count();
                check(known == 1, "runs no unit and is not remembered once")?;
            }
            let distinct: BTreeSet<_> = replaced.iter().collect();
            check(distinct.len() == replaced.len(), "replaced a unit twice")?;
            check(distinct.len() <= MAX_REPLACED, "has too many identities")?;
            let is_own = |cmu: &Name| host_of(cmu) == &**name && !self.unit_names.contains_key(cmu);
            check(replaced.iter().all(is_own), "replaced a unit of another host, or one that still exists")?;
        }
        ensure!(running == self.units.len(), "{running} units run on hosts, of {}", self.units.len());
        let idle = self.hosts.len() - running;
        ensure!(idle == self.forgotten.len(), "a remembered host is unknown, or runs a unit");
        ensure!(idle <= MAX_FORGOTTEN, "too many hosts are remembered");
        ensure!(self.drained.len() <= MAX_DRAINED, "too many hosts are drained");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::request::{
        AssignmentNotice, ClientRequest, Create, DrainOf, End, Report, Request, SchedulerRequest,
        UnitRequest, WishesRequest,
    };
    use super::super::super::{decide, decide_due};
    use super::super::conference::AssignmentEnd;
    use super::super::queues::Queues;
    use super::super::settings::Settings;
    use super::super::unit::Unit;
    use super::*;
    use crate::shared::outbox::Message;

    const NOW: i64 = 1000;

    /// The name of a damaged part, and the code that damages it.
    type Damage = (&'static str, fn(&mut Realm));

    fn ask(realm: &mut Realm, request: &Request<'_>) {
        let decision = decide(realm, NOW, request).unwrap();
        decision.events.iter().for_each(|event| realm.apply(NOW, event));
    }

    /// Conference 1 moves from unit a to b, 2 is pending, 3 has ended, and of host d no unit is left.
    fn realm() -> Realm {
        let mut realm = Realm::open(Settings::default(), NOW);
        for (cmu, zone) in [("a:1:1", Some(&b"east"[..])), ("b:1:1", None), ("c:1:1", None), ("d:1:1", None)]
        {
            let cmu = cmu.as_bytes();
            ask(
                &mut realm,
                &Request::Unit(UnitRequest::Join {
                    cmu,
                    capacity: 10,
                    zone,
                    tags: &[],
                    lease: 1_000_000,
                    machine: None,
                }),
            );
        }
        ask(
            &mut realm,
            &Request::Scheduler {
                term: None,
                request: SchedulerRequest::Drain { of: DrainOf::Unit(b"d:1:1"), on: true, moves: false },
            },
        );
        for (e164, cmu) in [("1", "a:1:1"), ("2", "b:1:1"), ("3", "c:1:1")] {
            let create = Create {
                e164: e164.as_bytes(),
                start: None,
                end: Some(900_000),
                size: 2,
                licences: 1,
                priority: 0,
                wishes: WishesRequest::default(),
                recoverable: true,
                waits: false,
                request: Some(e164.as_bytes()),
                called_from: Some((b"pool", e164.as_bytes())),
            };
            ask(&mut realm, &Request::Client(ClientRequest::Create(create)));
            let epoch = realm.conference_called(e164.as_bytes()).unwrap().epoch;
            ask(
                &mut realm,
                &Request::Unit(UnitRequest::Ack(AssignmentNotice {
                    e164: e164.as_bytes(),
                    cmu: cmu.as_bytes(),
                    epoch,
                })),
            );
        }
        ask(
            &mut realm,
            &Request::Scheduler { term: None, request: SchedulerRequest::Down { cmu: b"b:1:1" } },
        );
        ask(
            &mut realm,
            &Request::Unit(UnitRequest::Join {
                cmu: b"b:1:1",
                capacity: 10,
                zone: None,
                tags: &[],
                lease: 1_000_000,
                machine: None,
            }),
        );
        let epoch = realm.last_epoch();
        ask(
            &mut realm,
            &Request::Unit(UnitRequest::Report(Report {
                cmu: b"b:1:1",
                highest: epoch - 10,
                ended: vec![],
                starting: vec![],
                params: vec![],
                list: Vec::new(),
            })),
        );
        ask(
            &mut realm,
            &Request::Scheduler {
                term: None,
                request: SchedulerRequest::Move { e164: b"1", to: Some(b"b:1:1") },
            },
        );
        let epoch = realm.conference_called(b"3").unwrap().epoch;
        ask(
            &mut realm,
            &Request::Unit(UnitRequest::Ended(
                AssignmentNotice { e164: b"3", cmu: b"c:1:1", epoch },
                End::People,
            )),
        );
        ask(
            &mut realm,
            &Request::Scheduler { term: None, request: SchedulerRequest::Down { cmu: b"d:1:1" } },
        );
        realm.settings.tombstone = 1;
        for number in realm.unit_names.values().copied().collect::<Vec<_>>() {
            realm.relink_unit(number);
        }
        for event in decide_due(&realm, NOW + 1, 10) {
            realm.apply(NOW, &event);
        }
        realm.settings.tombstone = Settings::default().tombstone;
        realm
    }

    fn conference<'a>(realm: &'a mut Realm, e164: &str) -> &'a mut super::super::conference::Conference {
        let id = realm.find(e164.as_bytes()).unwrap();
        realm.conferences.get_mut(id).unwrap()
    }

    fn unit<'a>(realm: &'a mut Realm, cmu: &str) -> &'a mut Unit {
        let number = realm.find_unit(cmu.as_bytes()).unwrap();
        realm.units.get_mut(number).unwrap()
    }

    #[test]
    fn check_finds_damage_in_each_structure() {
        let sound = realm();
        assert_eq!(sound.check(), Ok(()));
        assert_eq!((sound.pending(), sound.forgotten.len(), sound.count(State::Ended)), (1, 1, 1));
        let damages: [Damage; 29] = [
            ("capacity that counts", |realm| unit(realm, "a:1:1").counted -= 1),
            ("state index", |realm| realm.by_state.of_mut(State::Open).clear()),
            ("state index of nobody", |realm| {
                let _ = realm.by_state.of_mut(State::Open).insert(7, 99);
            }),
            ("requests", |realm| {
                let _ = realm.requests.pop_first();
            }),
            ("request of nobody", |realm| {
                let _ = realm.requests.insert(b"x"[..].into(), 0);
            }),
            ("names", |realm| realm.names.remove(b"1", 0)),
            ("deadline", |realm| realm.conference_due.set(0, 5)),
            ("deadline of nobody", |realm| realm.conference_due.set(77, 5)),
            ("unit deadline", |realm| realm.unit_due.set(0, 5)),
            ("unit deadline of nobody", |realm| realm.unit_due.set(77, 5)),
            ("licences", |realm| realm.licences += 1),
            ("room", |realm| unit(realm, "a:1:1").used += 1),
            ("owned", |realm| unit(realm, "a:1:1").owned.clear()),
            ("targets", |realm| unit(realm, "b:1:1").targets.clear()),
            ("state", |realm| unit(realm, "a:1:1").state = UnitState::Down),
            ("capacity in the placement index", |realm| unit(realm, "c:1:1").capacity = 3),
            ("placement index", |realm| realm.placement_index.remove(0)),
            ("queues", |realm| realm.queues = Queues::default()),
            ("lost", |realm| realm.lost.clear()),
            ("unit names", |realm| {
                let _ = realm.unit_names.insert(b"z"[..].into(), 0);
            }),
            ("hosts", |realm| {
                let _ = realm.hosts.remove(&b"a"[..]);
            }),
            ("drained hosts", |realm| {
                let _ = realm.drained.insert(b"a".to_vec(), NOW);
            }),
            ("open conferences", |realm| unit(realm, "a:1:1").open += 1),
            ("forgotten hosts", |realm| realm.forgotten.clear()),
            ("state", |realm| conference(realm, "1").state = State::Waiting),
            ("history", |realm| conference(realm, "1").history.clear()),
            ("assignment", |realm| conference(realm, "1").close(NOW, AssignmentEnd::Lost)),
            ("epochs", |realm| realm.last_epoch = 1),
            ("outbox", |realm| realm.outbox.push_always(Message::new("other").with("event", b"x"))),
        ];
        for (what, damage) in damages {
            let mut realm = sound.clone();
            damage(&mut realm);
            assert!(realm.check().is_err(), "damage is not found: {what}");
        }
    }
}
