//! Who gets what, against the same worked out naively: all units and conferences listed again for every choice, and no
//! index asked.

use super::losses::losses_are_foretold;
use super::random::Random;
use super::rig::{Rig, wish, word};
use allot_core::conf::conference::{Conference, State, Wishes};
use allot_core::conf::read::ShownState;
use allot_core::conf::request::{
    ClientRequest, Create, DrainOf, Report, Request, SchedulerRequest, UnitRequest, WishesRequest,
};
use allot_core::conf::state::{Placement, Settings};
use allot_core::conf::unit::{Name, UnitState};
use allot_core::conf::{Realm, Reply};
use std::collections::BTreeMap;

/// A unit that takes conferences, as the list of conferences has it.
struct Candidate {
    name: String,
    zone: Option<Vec<u8>>,
    tags: Vec<Vec<u8>>,
    capacity: u64,
    used: u64,
    conferences: u64,
    /// Load in percent, as far as it counts.
    load: u64,
}

impl Candidate {
    /// By what units are compared, as a fraction.
    fn level(&self) -> (u128, u128) {
        let (used, capacity) = (u128::from(self.used), u128::from(self.capacity));
        if u128::from(self.load) * capacity > used * 100 { (self.load.into(), 100) } else { (used, capacity) }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All units on which something may be placed, with those loads.
fn candidates(realm: &Realm, loads: &BTreeMap<String, (i64, i64)>) -> Vec<Candidate> {
    let conferences = realm.list(None, None, 0, usize::MAX).0;
    let takes = realm.units().filter(|unit| unit.word() == "up" && unit.reported);
    takes
        .map(|unit| {
            let number = realm.find_unit(&unit.cmu);
            let has = |id: Option<u32>| u64::from(id.is_some() && id == number);
            let (mut used, mut count) = (0, 0);
            for one in &conferences {
                let times = has(one.owner) + has(one.moving.as_ref().map(|moving| moving.to));
                used += times * u64::from(one.size);
                count += times;
            }
            Candidate {
                name: text(&unit.cmu),
                zone: unit.zone.as_ref().map(|zone| zone.to_vec()),
                tags: unit.tags.iter().map(|tag| tag.to_vec()).collect(),
                capacity: u64::from(unit.capacity),
                used,
                conferences: count,
                load: loads.get(&text(&unit.cmu)).map_or(0, |&(load, _)| load.clamp(0, 100) as u64),
            }
        })
        .collect()
}

/// Who has the least used share (or load, if that is greater), then the fewest conferences, then the first name; and whether the number of
/// conferences decided.
fn least(of: &[&Candidate]) -> (Option<String>, bool) {
    let by_share = |one: &Candidate, other: &Candidate| {
        // As fractions, without rounding.
        let ((one, of_one), (other, of_other)) = (one.level(), other.level());
        (one * of_other).cmp(&(other * of_one))
    };
    let best = of.iter().min_by(|one, other| {
        by_share(one, other).then(one.conferences.cmp(&other.conferences)).then(one.name.cmp(&other.name))
    });
    let by_name = of.iter().min_by(|one, other| by_share(one, other).then(one.name.cmp(&other.name)));
    let names = [best, by_name].map(|one| one.map(|one| one.name.clone()));
    (names[0].clone(), names[0] != names[1])
}

/// What a run found, so that it says if something was never put to the test.
#[derive(Debug, Default)]
struct Seen {
    placed: usize,
    refused: usize,
    by_count: usize,
    by_preference: usize,
    elsewhere: usize,
    moved: usize,
    recovered: usize,
    left_waiting: usize,
    before_older: usize,
    fully_loaded: usize,
    foretold: usize,
    without_room: usize,
}

struct Run {
    rig: Rig,
    random: Random,
    number: usize,
    seen: Seen,
    /// The loads that units reported, and when; without those that no longer count.
    loads: BTreeMap<String, (i64, i64)>,
}

const ZONES: [Option<&[u8]>; 4] = [None, None, Some(b"east"), Some(b"west")];
const TAGS: [&[u8]; 2] = [b"hd", b"gpu"];
const TAG_LISTS: [&[&[u8]]; 4] = [&[], &[TAGS[0]], &[TAGS[1]], &TAGS];

/// The wishes of a conference that waits: after `ZONEFALL`, without zone and host.
fn wishes_of(one: &Conference, now: i64) -> Wishes {
    let wishes = Wishes::clone(&one.wishes);
    let falls = |fall: i64| one.pending_since.is_some_and(|since| since + fall <= now);
    if one.wishes.zone_fall.is_some_and(falls) { Wishes { zone: None, host: None, ..wishes } } else { wishes }
}

impl Run {
    fn choose(&mut self, units: &[Candidate], wishes: &Wishes, size: u32, not: &[String]) -> Option<String> {
        let has = |unit: &Candidate, tag: &Name| unit.tags.iter().any(|of| of[..] == tag[..]);
        let of_zone = |unit: &&Candidate| {
            let in_zone = wishes.zone.as_ref().is_none_or(|zone| unit.zone.as_deref() == Some(&zone[..]));
            let on_host = |host: &Name| unit.name.starts_with(&(text(host) + ":"));
            in_zone
                && wishes.host.as_ref().is_none_or(on_host)
                && wishes.require.iter().all(|tag| has(unit, tag))
        };
        let fits = |unit: &&Candidate| unit.load < 100 && unit.capacity >= unit.used + u64::from(size);
        self.seen.fully_loaded += usize::from(units.iter().any(|unit| unit.load == 100));
        let of: Vec<&Candidate> =
            units.iter().filter(of_zone).filter(|unit| !not.contains(&unit.name)).filter(fits).collect();
        let preferred = |unit: &Candidate| wishes.prefer.iter().filter(|tag| has(unit, tag)).count();
        let most = of.iter().map(|unit| preferred(unit)).max();
        let best: Vec<&Candidate> = of.iter().copied().filter(|unit| Some(preferred(unit)) == most).collect();
        let (least_of_all, _) = least(&of);
        let (name, by_count) = least(&best);
        self.seen.by_preference += usize::from(name != least_of_all);
        self.seen.by_count += usize::from(by_count);
        name
    }

    /// A unit for a conference that waits: one that has not failed it, or any once its time has come.
    fn choose_again(&mut self, units: &[Candidate], e164: &str) -> Option<String> {
        let one = self.rig.one(e164);
        let (wishes, size) = (wishes_of(one, self.rig.now), one.size);
        self.seen.elsewhere += usize::from(wishes != *one.wishes);
        let tried: Vec<String> = one.tried.iter().map(|name| text(name)).collect();
        let again = one.next_retry.is_some_and(|retry| retry <= self.rig.now);
        let untried = self.choose(units, &wishes, size, &tried);
        if untried.is_some() || !again {
            return untried;
        }
        self.choose(units, &wishes, size, &[])
    }

    fn step(&mut self) {
        let by = self.random.of(&[0, 0, 1, 400, 3000]);
        self.rig.pass(by);
        self.forget_loads();
        match self.random.below(20) {
            0..=5 => self.create(),
            6 | 7 => self.answer(),
            8 | 9 => self.join(),
            10 => self.down(),
            11 => self.move_one(),
            12 => {
                let (cmu, on) = (self.host(), self.random.chance(40));
                self.rig.code(&Request::Scheduler {
                    term: None,
                    request: SchedulerRequest::Drain { of: DrainOf::Unit(cmu.as_bytes()), on, moves: false },
                });
            }
            13..=15 => self.end(),
            16 | 17 => self.beat(),
            _ => self.recover(),
        }
    }

    /// Forgets the loads that are a lease old, and those of units that are down.
    fn forget_loads(&mut self) {
        let (realm, now) = (&self.rig.realm, self.rig.now);
        self.loads.retain(|cmu, (_, at)| {
            let unit = realm.unit_called(cmu.as_bytes()).filter(|unit| unit.state != UnitState::Down);
            unit.is_some_and(|unit| *at + unit.lease > now)
        });
    }

    fn beat(&mut self) {
        let (cmu, load) = (self.host(), self.random.of(&[0, 20, 45, 45, 90, 100, 250]));
        if self.random.chance(20) {
            self.rig.beat(&cmu);
        } else if self.rig.beat_with(&cmu, load).starts_with("Unit")
            && self.rig.realm.settings().placement == Placement::Load
        {
            self.loads.insert(cmu, (load, self.rig.now));
        }
    }

    fn host(&mut self) -> String {
        format!("h{}:1:1", self.random.below(7))
    }

    /// A conference in that state.
    fn some(&mut self, state: State) -> Option<String> {
        let all: Vec<String> = self
            .rig
            .realm
            .list(ShownState::parse(state.word().as_bytes()), None, 0, usize::MAX)
            .0
            .iter()
            .map(|one| text(&one.e164))
            .collect();
        (!all.is_empty()).then(|| self.random.of(&all))
    }

    fn create(&mut self) {
        self.number += 1;
        let e164 = format!("49{}", self.number);
        let (zone, size) = (self.random.of(&ZONES), self.random.of(&[1, 1, 2, 3, 5]));
        let is_plain = self.random.chance(60);
        let asked = WishesRequest {
            zone: Some(zone),
            zone_fall: self.random.of(&[None, Some(1), Some(3000)]),
            host: self.random.of(if is_plain { &[None] } else { &[None, None, Some(Some(b"h3"))] }),
            require: Some(self.random.of(if is_plain { &TAG_LISTS[..1] } else { &TAG_LISTS })),
            prefer: Some(self.random.of(if is_plain { &TAG_LISTS[..1] } else { &TAG_LISTS })),
        };
        let names = |tags: Option<&[&[u8]]>| tags.unwrap().iter().map(|tag| Name::from(*tag)).collect();
        let wishes = Wishes {
            zone: zone.map(Name::from),
            host: asked.host.flatten().map(Name::from),
            require: names(asked.require),
            prefer: names(asked.prefer),
            zone_fall: None,
        };
        let units = candidates(&self.rig.realm, &self.loads);
        let expected = self.choose(&units, &wishes, size as u32, &[]);
        let priority = self.random.of(&[0, 0, -3, 7]);
        let create = Create { size, wishes: asked, priority, ..wish(&e164) };
        let code = self.rig.code(&Request::Client(ClientRequest::Create(create)));
        match expected {
            None => {
                self.seen.refused += 1;
                assert_eq!(code, "LIMIT");
            }
            Some(cmu) => {
                self.seen.placed += 1;
                assert_eq!(self.rig.owner(&e164), cmu, "of size {size} with {wishes:?}");
            }
        }
    }

    /// A unit's word on one that it is to create: mostly that it is open.
    fn answer(&mut self) {
        for _ in 0..3 {
            let Some(e164) = self.some(State::Creating) else { return };
            let (cmu, epoch) = (self.rig.owner(&e164), self.rig.epoch(&e164));
            if self.rig.one(&e164).recovering && self.random.chance(40) {
                self.rig.nack(&e164, &cmu, epoch);
            } else {
                assert_eq!(self.rig.ack(&e164, &cmu, epoch), "Ok");
            }
        }
    }

    fn join(&mut self) {
        let (cmu, zone) = (self.host(), self.random.of(&ZONES));
        let capacity = self.random.of(&[0, 1, 4, 6, 12, 12, 24]);
        let tags = &TAGS[..self.random.below(TAGS.len() + 1)];
        let lease = self.random.of(&[4000, 3_600_000]);
        self.rig
            .ask(&Request::Unit(UnitRequest::Join {
                cmu: cmu.as_bytes(),
                capacity,
                zone,
                tags,
                lease,
                machine: None,
            }))
            .unwrap();
        let reported = self.rig.realm.unit_called(cmu.as_bytes()).is_some_and(|unit| unit.reported);
        if !reported && self.random.chance(80) {
            let report = Report {
                cmu: cmu.as_bytes(),
                highest: 0,
                ended: vec![],
                starting: vec![],
                params: vec![],
                list: vec![],
            };
            self.rig.ask(&Request::Unit(UnitRequest::Report(report))).unwrap();
        }
    }

    fn down(&mut self) {
        let cmu = self.host();
        self.rig.code(&Request::Scheduler {
            term: None,
            request: SchedulerRequest::Down { cmu: cmu.as_bytes() },
        });
    }

    fn end(&mut self) {
        let Some(e164) = self.some(State::Open) else { return };
        let (cmu, epoch) = (self.rig.owner(&e164), self.rig.epoch(&e164));
        assert_eq!(self.rig.ended(&e164, &cmu, epoch), "Ok");
    }

    fn move_one(&mut self) {
        let Some(e164) = self.some(State::Open) else { return };
        self.rig.due();
        let one = self.rig.one(&e164);
        if one.moving.is_some() || one.state != State::Open {
            return;
        }
        let (wishes, size) = (Wishes::clone(&one.wishes), one.size);
        let (units, owner) = (candidates(&self.rig.realm, &self.loads), self.rig.owner(&e164));
        let expected = self.choose(&units, &wishes, size, &[owner]);
        let code = self.rig.code(&Request::Scheduler {
            term: None,
            request: SchedulerRequest::Move { e164: e164.as_bytes(), to: None },
        });
        let to = self.rig.one(&e164).moving.as_ref().and_then(|moving| self.rig.realm.unit(moving.to));
        assert_eq!(to.map(|unit| text(&unit.cmu)), expected, "{code}");
        let Some(cmu) = expected else { return };
        self.seen.moved += 1;
        let epoch = self.rig.one(&e164).moving.as_ref().unwrap().epoch;
        if self.random.chance(70) {
            self.rig.code(&Request::Unit(UnitRequest::Ack(word(&e164, &cmu, epoch))));
        }
    }

    fn recover(&mut self) {
        let mut waiting: Vec<_> = self
            .rig
            .realm
            .list(Some(ShownState::Pending), None, 0, usize::MAX)
            .0
            .into_iter()
            .map(|one| {
                let turn = (-i64::from(one.priority), one.pending_since.unwrap(), one.origin_epoch);
                (turn, text(&one.e164))
            })
            .collect();
        waiting.sort();
        let count = self.random.of(&[1, 3, 100]);
        let mut units = candidates(&self.rig.realm, &self.loads);
        let (mut expected, mut newest) = (Vec::new(), i64::MIN);
        for ((_, since, _), e164) in waiting {
            if expected.len() == count {
                break;
            }
            let Some(cmu) = self.choose_again(&units, &e164) else {
                self.seen.left_waiting += 1;
                continue;
            };
            let size = self.rig.one(&e164).size;
            for unit in units.iter_mut().filter(|unit| unit.name == cmu) {
                unit.used += u64::from(size);
                unit.conferences += 1;
            }
            self.seen.before_older += usize::from(since < newest);
            newest = newest.max(since);
            expected.push((e164, cmu));
        }
        let reply = self
            .rig
            .ask(&Request::Scheduler {
                term: None,
                request: SchedulerRequest::Recover { count: count as i64 },
            })
            .unwrap();
        let Reply::Grants(grants) = reply else { panic!("{reply:?}") };
        let granted: Vec<_> = grants.iter().map(|grant| (text(&grant.e164), text(&grant.cmu))).collect();
        assert_eq!(granted, expected);
        self.seen.recovered += granted.len();
    }
}

/// How many random runs: few by default, many in a soak.
fn cases() -> u64 {
    std::env::var("ALLOT_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000)
}

#[test]
fn every_choice_equals_that_of_a_plain_list() {
    let mut all = Seen::default();
    for seed in 0..cases() {
        let placement = Placement::ALL[(seed % 2) as usize];
        let rig = Rig::with(Settings { placement, failures: 100, ..Settings::default() }, &[]);
        let (random, loads) = (Random::new(seed), BTreeMap::new());
        let mut run = Run { rig, random, number: 0, seen: Seen::default(), loads };
        for _ in 0..5 {
            run.join();
        }
        for _ in 0..150 {
            run.step();
        }
        let seen = run.seen;
        run.rig.due();
        let (foretold, without_room) = losses_are_foretold(&run.rig);
        all.foretold += foretold;
        all.without_room += without_room;
        all.placed += seen.placed;
        all.refused += seen.refused;
        all.by_count += seen.by_count;
        all.by_preference += seen.by_preference;
        all.elsewhere += seen.elsewhere;
        all.moved += seen.moved;
        all.recovered += seen.recovered;
        all.left_waiting += seen.left_waiting;
        all.before_older += seen.before_older;
        all.fully_loaded += seen.fully_loaded;
    }
    eprintln!("{all:?}");
    let Seen {
        placed, refused, by_count, moved, recovered, left_waiting, before_older, fully_loaded, ..
    } = all;
    let by_loss = [all.foretold, all.without_room, all.by_preference, all.elsewhere];
    let by_step = [placed, refused, by_count, moved, recovered, left_waiting, before_older, fully_loaded];
    for seen in by_step.into_iter().chain(by_loss) {
        assert!(seen as u64 > cases() / 20, "hardly put to the test: {all:?}");
    }
}

#[test]
fn between_equal_shares_the_fewest_conferences_decide_and_then_the_name() {
    let mut rig = Rig::new(&["a:1:1", "b:1:1"]);
    rig.join("c:1:1", 20);
    let create = |rig: &mut Rig, e164: &str, size: i64| {
        rig.ask(&Request::Client(ClientRequest::Create(Create { size, ..wish(e164) }))).unwrap();
        rig.owner(e164)
    };
    // Nothing anywhere: the first name.
    assert_eq!(create(&mut rig, "1", 1), "a:1:1");
    assert_eq!(create(&mut rig, "2", 2), "b:1:1");
    assert_eq!(create(&mut rig, "3", 4), "c:1:1");
    assert_eq!(create(&mut rig, "4", 1), "a:1:1");
    // A fifth of each is used: by two, by one, by one.
    assert_eq!(create(&mut rig, "5", 2), "b:1:1");
    assert_eq!(create(&mut rig, "6", 4), "c:1:1");
    assert_eq!(create(&mut rig, "7", 2), "a:1:1");
    // Two fifths: by three, by two, by two.
    assert_eq!(create(&mut rig, "8", 1), "b:1:1");
    rig.check();
}

#[test]
fn recovery_goes_by_priority_then_waiting_time_then_age() {
    let mut rig = Rig::new(&["a:1:1", "b:1:1"]);
    let create = |rig: &mut Rig, e164: &str, priority: i64, unit: &str| {
        let zone = Some(unit.as_bytes());
        rig.ask(&Request::Unit(UnitRequest::Join {
            cmu: unit.as_bytes(),
            capacity: 10,
            zone,
            tags: &[],
            lease: 3_600_000,
            machine: None,
        }))
        .unwrap();
        rig.ask(&Request::Client(ClientRequest::Create(Create {
            priority,
            wishes: WishesRequest { zone: Some(zone), ..WishesRequest::default() },
            ..wish(e164)
        })))
        .unwrap();
        assert_eq!(rig.ack(e164, unit, rig.epoch(e164)), "Ok");
    };
    for (e164, priority, unit) in [
        ("1", 0, "b:1:1"),
        ("2", 5, "b:1:1"),
        ("3", 0, "a:1:1"),
        ("4", -2, "a:1:1"),
        ("5", 5, "a:1:1"),
        ("6", 0, "a:1:1"),
    ] {
        create(&mut rig, e164, priority, unit);
    }
    // What a had waits longer, though b's are the older ones.
    for cmu in ["a:1:1", "b:1:1"] {
        rig.down(cmu);
        rig.pass(700);
    }
    for zone in ["a:1:1", "b:1:1"] {
        let (cmu, zone) = (format!("new-{zone}"), Some(zone.as_bytes()));
        rig.ask(&Request::Unit(UnitRequest::Join {
            cmu: cmu.as_bytes(),
            capacity: 10,
            zone,
            tags: &[],
            lease: 3_600_000,
            machine: None,
        }))
        .unwrap();
    }
    let mut order = Vec::new();
    loop {
        let reply = rig
            .ask(&Request::Scheduler { term: None, request: SchedulerRequest::Recover { count: 1 } })
            .unwrap();
        let Reply::Grants(grants) = reply else { panic!("{reply:?}") };
        let Some(grant) = grants.first() else { break };
        order.push(text(&grant.e164));
    }
    assert_eq!(order, ["5", "2", "3", "6", "1", "4"]);
    rig.check();
}
