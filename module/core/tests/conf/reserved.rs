//! What fits beside what is scheduled, against a naive model that tries one millisecond after the other.

use super::random::{Random, cases};
use super::rig::{Rig, wish};
use super::scheduled::{A, B, request, resize};
use allot_core::conf::conference::{Conference, State};
use allot_core::conf::request::{ClientRequest, Create, Request};
use allot_core::conf::state::Settings;
use proptest::prelude::*;
use std::ops::Range;

/// A conference as the naive model has it: its time, and what it takes.
#[derive(Clone, Debug)]
struct Taken {
    from: i64,
    until: i64,
    size: i64,
    licences: i64,
}

const EVER: i64 = i64::MAX;

/// The last time that matters: all starts and ends are before.
const HORIZON: i64 = 1700;

/// Whether room is reserved for a conference: it starts later, or waits for its first unit since then.
fn is_booked(one: &Conference) -> bool {
    one.state == State::Scheduled
        || one.state == State::Pending && one.start.is_some() && one.opened.is_none()
}

/// Everything that is live and not about to end, by the records.
fn taken(rig: &Rig) -> Vec<Taken> {
    let live = rig.realm.list(None, None, 0, usize::MAX).0;
    live.into_iter()
        .filter(|one| one.ending.is_none())
        .map(|one| Taken {
            from: one.start.filter(|_| is_booked(one)).unwrap_or(0),
            until: one.end.unwrap_or(EVER),
            size: one.size.into(),
            licences: one.licences.into(),
        })
        .collect()
}

/// Whether everything fits at every moment of a time: the sum is greatest at its beginning, or when something starts.
fn fits(all: &[Taken], time: Range<i64>, capacity: i64, licences: i64) -> bool {
    let starts = all.iter().map(|one| one.from).filter(|from| time.contains(from));
    starts.chain([time.start]).all(|moment| {
        let at_once = all.iter().filter(|one| one.from <= moment && moment < one.until);
        let (size, count) = at_once.fold((0, 0), |sum, one| (sum.0 + one.size, sum.1 + one.licences));
        size <= capacity && (licences == 0 || count <= licences)
    })
}

/// The earliest start of a conference, tried one millisecond after the other.
fn earliest(all: &[Taken], asked: &Taken, capacity: i64, licences: i64) -> Option<i64> {
    (asked.from..=HORIZON).find(|from| {
        let until = asked.until.saturating_add(from - asked.from);
        let moved = Taken { from: *from, until, ..asked.clone() };
        let all: Vec<Taken> = all.iter().cloned().chain([moved]).collect();
        fits(&all, *from..until, capacity, licences)
    })
}

/// Units answer: what is being created is open, and what must end has ended.
fn answer(rig: &mut Rig) {
    for number in 0..12 {
        let e164 = number.to_string();
        let epoch = rig.realm.conference_called(e164.as_bytes()).map_or(0, |one| one.epoch);
        match rig.word(&e164) {
            "creating" => drop(rig.ack(&e164, &rig.owner(&e164), epoch)),
            "ending" => drop(rig.given_up(&e164, &rig.owner(&e164), epoch)),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_moment_has_more_than_the_capacity_and_limit_names_the_earliest_start(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let (units, licences) = (random.of(&[1, 1, 2]), random.of(&[0, 0, 7]));
        let settings = Settings { licences: licences as u64, tombstone: 1, ..Settings::default() };
        let mut rig = Rig::with(settings, &[A, B][..units]);
        let capacity = 10 * units as i64;
        for _ in 0..25 {
            rig.pass(random.of(&[0, 0, 1, 5]));
            answer(&mut rig);
            rig.recover();
            answer(&mut rig);
            let e164 = random.below(12).to_string();
            let (now, before) = (rig.now, taken(&rig));
            let (size, count) = (random.of(&[1, 2, 4, 9]), random.of(&[0, 1, 3]));
            let length = random.of(&[1, 3, 10, 30]);
            match random.below(8) {
                0..5 if rig.realm.conference_called(e164.as_bytes()).is_none_or(|one| !one.is_live()) => {
                    let start = random.chance(60).then(|| now + 1 + random.below(40) as i64);
                    let from = start.unwrap_or(now);
                    let end = (start.is_some() || random.chance(60)).then_some(from + length);
                    let asked = Taken { from, until: end.unwrap_or(EVER), size, licences: count };
                    let create = Create { start, end, size, licences: count, ..wish(&e164) };
                    let nothing_is_booked = before.iter().all(|one| one.from == 0);
                    let expected = earliest(&before, &asked, capacity, licences);
                    match rig.ask(&request(create)) {
                        Ok(_) => {
                            let is_free = start.is_none() && nothing_is_booked;
                            prop_assert!(is_free || expected == Some(from), "{create:?} beside {before:?}");
                        }
                        Err(refusal) => {
                            let text = refusal.to_string();
                            let last = text.rsplit(' ').next().and_then(|last| last.parse().ok());
                            let named = text.split("with START ").nth(1).and_then(|rest| rest.split(' ').next());
                            let named = named.and_then(|start| start.parse().ok());
                            if start.is_some() {
                                prop_assert!(expected != Some(from) && last == expected, "{text}: {expected:?}");
                            } else if text.contains("reserved") {
                                prop_assert!(named == expected.filter(|start| *start > now), "{text}: {expected:?}");
                            } else {
                                // The room that there is now is in one piece only on one unit.
                                let is_full = units > 1 || expected != Some(now);
                                prop_assert!(is_full || nothing_is_booked, "{text}: {expected:?}");
                            }
                        }
                    }
                }
                5 => drop(rig.code(&Request::Client(ClientRequest::Extend {
                    e164: e164.as_bytes(),
                    end: now + length,
                    dry_run: false,
                }))),
                6 => drop(resize(&mut rig, &e164, size)),
                7 if random.chance(50) => drop(rig.release(&e164)),
                _ => {}
            }
            // Room is promised to what is booked. While nothing is, each unit sees to its own.
            let all = taken(&rig);
            let mut times = all.iter().filter(|one| one.from > 0).map(|one| one.from.max(rig.now)..one.until);
            prop_assert!(times.all(|time| fits(&all, time, capacity, licences)), "{all:?}");
            rig.check();
        }
    }
}
