//! Random runs on many conferences and units: a replica that gets the events as bytes and a snapshot agree after
//! every step, room and licences are what the records say, and epochs only grow.

use super::records::check_entry;
use super::rig::{MINUTE, Rig};
use super::tries::Failures;
use super::updates::Programs;
use allot_core::conf::Reply;
use allot_core::conf::conference::Conference;
use allot_core::conf::read::ShownState;
use allot_core::conf::request::{
    AssignmentNotice, Changes, Claim, ClientRequest, Create, DrainOf, End, Report, Request, SchedulerRequest,
    Set, UnitRequest, WishesRequest,
};
use allot_core::conf::state::{Placement, Policy, Settings};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Random(TestRng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

fn rows(rows: &[(String, u64)]) -> Vec<(&[u8], u64)> {
    rows.iter().map(|(e164, epoch)| (e164.as_bytes(), *epoch)).collect()
}

const ZONES: [Option<&[u8]>; 3] = [None, Some(b"east"), Some(b"west")];
const TAGS: [&[u8]; 3] = [b"hd", b"dial-in", b"gpu"];

/// The realm, and which epoch of a number last wrote.
struct Run {
    rig: Rig,
    random: Random,
    numbers: Vec<String>,
    units: Vec<String>,
    written: BTreeMap<String, u64>,
    last_epoch: u64,
    /// The number of the last end that was told.
    ends: u64,
    /// Tokens of the calls that are not hung up.
    called: BTreeSet<String>,
    /// Whether the limit of licences held from the start.
    limited: bool,
    failures: Failures,
    programs: Programs,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let settings = Settings {
            licences: random.of(&[0, 0, 12]),
            policy: random.of(&[Policy::Earliest, Policy::Earliest, Policy::Keep]),
            retry: random.of(&[1, 3000]),
            window: random.of(&[2000, 60_000]),
            tombstone: random.of(&[1, 5000]),
            placement: random.of(&Placement::ALL),
            tries: random.of(&[1, 3, 5]),
            failures: random.of(&[1, 2, 3]),
            warn: random.of(&[0, 500, 8000]),
            ramp: random.of(&[0, 700, 9000]),
            ..Settings::default()
        };
        let numbers = (0..12).map(|number| format!("49{number}")).collect();
        let units = (0..6).flat_map(|host| (1..3).map(move |start| format!("h{host}:1:{start}"))).collect();
        let rig = Rig::with(settings, &[]);
        Self {
            rig,
            random,
            numbers,
            units,
            written: BTreeMap::new(),
            last_epoch: 0,
            ends: 0,
            called: BTreeSet::new(),
            limited: true,
            failures: Failures::under(settings),
            programs: Programs::default(),
        }
    }

    /// An assignment: mostly one of the conference's own, present or past.
    fn assignment(&mut self, e164: &str) -> (String, u64) {
        let one = self.rig.realm.conference_called(e164.as_bytes());
        let mut known: Vec<(String, u64)> = one
            .iter()
            .flat_map(|one| &one.history)
            .map(|entry| (String::from_utf8_lossy(&entry.cmu).into_owned(), entry.epoch))
            .collect();
        if let Some(moving) = one.and_then(|one| one.moving.as_ref()) {
            let to = self.rig.realm.unit(moving.to).unwrap();
            known.push((String::from_utf8_lossy(&to.cmu).into_owned(), moving.epoch));
        }
        if known.is_empty() || self.random.chance(5) {
            return (self.random.of(&self.units), self.random.below(2000) as u64);
        }
        let at = if self.random.chance(70) { known.len() - 1 } else { self.random.below(known.len()) };
        known[at].clone()
    }

    /// The conferences as they are seen at that time.
    fn records(&self, now: i64) -> Vec<Option<Conference>> {
        let seen = |e164: &String| {
            let one = self.rig.realm.conference_called(e164.as_bytes())?;
            let seen = self.rig.realm.as_of(one, now).map(Cow::into_owned)?;
            // The number of an UPDATE is given out when it is sent.
            Some(Conference { last_update: 0, ..seen })
        };
        self.numbers.iter().map(seen).collect()
    }

    fn step(&mut self) {
        let by = self.random.of(&[0, 0, 1, 700, 6000]);
        let foreseen = self.records(self.rig.now + by);
        self.rig.pass(by);
        for (foreseen, seen) in foreseen.into_iter().zip(self.records(self.rig.now)) {
            // Whether there is room for another try depends on all that is due.
            let may_retry = |one: &Option<Conference>| {
                one.as_ref()
                    .is_some_and(|one| one.opened.is_none() && (!one.recovering || one.start.is_some()))
            };
            let unforeseen = may_retry(&foreseen) || may_retry(&seen);
            assert!(unforeseen || foreseen == seen, "{foreseen:?} was foreseen, and {seen:?} happened");
        }
        let e164 = self.random.of(&self.numbers);
        let cmu = self.random.of(&self.units);
        match self.random.below(22) {
            0..=3 => self.create(&e164),
            4..=6 => {
                let (cmu, epoch) = self.assignment(&e164);
                self.word(&e164, &cmu, epoch);
            }
            7..=9 => self.write(&e164),
            10 if self.random.chance(40) => {
                let wishes = self.wishes();
                self.rig.code(&Request::Client(ClientRequest::Alter { e164: e164.as_bytes(), wishes }));
            }
            10 => drop(self.rig.code(&Request::Client(ClientRequest::Release { e164: e164.as_bytes() }))),
            11 => {
                let (e164, end) = (e164.as_bytes(), self.rig.now + 5000);
                let size = self.random.below(6) as i64;
                let request = if self.random.chance(50) {
                    ClientRequest::Extend { e164, end, dry_run: size == 0 }
                } else {
                    ClientRequest::Resize { e164, size }
                };
                self.rig.code(&Request::Client(request));
            }
            12..=14 => {
                let zone = self.random.of(&ZONES);
                let capacity = self.random.below(8) as i64;
                let tags = &TAGS[self.random.below(4)..];
                let lease = self.random.of(&[2000, MINUTE]);
                self.rig.code(&Request::Unit(UnitRequest::Join {
                    cmu: cmu.as_bytes(),
                    capacity,
                    zone,
                    tags,
                    lease,
                    machine: self.random.of(&[None, None, Some(&b"m1"[..]), Some(b"m2")]),
                }));
            }
            15 => match self.random.of(&[None, Some(-7), Some(0), Some(40), Some(100), Some(250)]) {
                None => drop(self.rig.beat(&cmu)),
                Some(load) => drop(self.rig.beat_with(&cmu, load)),
            },
            16 | 17 => self.report(&cmu),
            18 => drop(self.rig.code(&Request::Scheduler {
                term: None,
                request: SchedulerRequest::Down { cmu: cmu.as_bytes() },
            })),
            19 if self.random.chance(30) => {
                let (most, dry_run) = (1 + self.random.below(6) as i64, self.random.chance(20));
                let request = SchedulerRequest::Rebalance { most, dry_run };
                self.rig.code(&Request::Scheduler { term: None, request });
            }
            19 => {
                let count = 1 + self.random.below(6) as i64;
                self.rig
                    .code(&Request::Scheduler { term: None, request: SchedulerRequest::Recover { count } });
            }
            20 => {
                let to = self.random.chance(50).then_some(cmu.as_bytes());
                self.rig.code(&Request::Scheduler {
                    term: None,
                    request: SchedulerRequest::Move { e164: e164.as_bytes(), to },
                });
            }
            _ => match self.random.below(4) {
                3 if self.random.chance(50) => {
                    let changes = Changes {
                        tries: Some(self.random.of(&[1, 2, 4])),
                        failures: Some(self.random.of(&[1, 2, 3])),
                        ..Changes::default()
                    };
                    self.rig.code(&Request::Client(ClientRequest::Configure(changes)));
                }
                3 => {
                    let placement = Some(self.random.of(&Placement::ALL));
                    let changes = Changes { placement, ..Changes::default() };
                    self.rig.code(&Request::Client(ClientRequest::Configure(changes)));
                }
                0 => {
                    let live = self.units.iter().filter(|_| self.random.chance(50));
                    let live: Vec<&[u8]> = live.map(String::as_bytes).collect();
                    self.rig.code(&Request::Scheduler {
                        term: None,
                        request: SchedulerRequest::Restart { live },
                    });
                }
                1 if self.random.chance(30) => {
                    self.rig.code(&Request::Unit(UnitRequest::Leave { cmu: cmu.as_bytes() }));
                }
                1 if self.random.chance(50) => {
                    let (on, moves) = (self.random.chance(60), self.random.chance(50));
                    let of = DrainOf::Host(&cmu.as_bytes()[..2]);
                    let request = SchedulerRequest::Drain { of, on, moves: on && moves };
                    self.rig.code(&Request::Scheduler { term: None, request });
                }
                1 => {
                    let (on, moves) = (self.random.chance(60), self.random.chance(50));
                    self.rig.code(&Request::Scheduler {
                        term: None,
                        request: SchedulerRequest::Drain {
                            of: DrainOf::Unit(cmu.as_bytes()),
                            on,
                            moves: on && moves,
                        },
                    });
                }
                _ => {
                    let term = self.rig.realm.leader().0 + 1;
                    self.rig.code(&Request::Claim(Claim { term, leader: b"css", force: false }));
                }
            },
        }
        self.check();
    }

    fn create(&mut self, e164: &str) {
        let request = self.random.of(&[None, Some(&b"r1"[..]), Some(b"r2")]);
        let start = self.random.chance(30).then(|| self.rig.now + self.random.of(&[1, 700, 9000]));
        let end = self.random.chance(50).then(|| self.rig.now + self.random.of(&[1000, 20_000]));
        let lease = self.random.chance(50).then(|| format!("l{}", self.random.below(usize::MAX)));
        let wishes = self.wishes();
        let create = Create {
            e164: e164.as_bytes(),
            start,
            end,
            size: self.random.of(&[1, 1, 2, 5]),
            licences: self.random.of(&[0, 1, 2]),
            priority: self.random.of(&[0, 0, 3]),
            wishes,
            recoverable: self.random.chance(85),
            request,
            waits: false,
            called_from: lease.as_deref().map(|lease| (&b"pool"[..], lease.as_bytes())),
        };
        let before = self.rig.realm.last_epoch();
        self.rig.code(&Request::Client(ClientRequest::Create(create)));
        if let Some(lease) = lease
            && self.rig.realm.last_epoch() > before
        {
            self.called.insert(lease);
        }
    }

    /// Any wishes; those that are absent in `CONF.ALTER` leave what is.
    fn wishes(&mut self) -> WishesRequest<'static> {
        WishesRequest {
            zone: self.random.of(&[None, Some(None), Some(Some(b"east")), Some(Some(b"west"))]),
            zone_fall: self.random.of(&[None, Some(0), Some(700), Some(5000)]),
            host: self.random.of(&[None, None, None, Some(None), Some(Some(b"h1"))]),
            require: self.random.of(&[None, None, Some(&[]), Some(TAGS.get(..1).unwrap())]),
            prefer: self.random.of(&[None, None, Some(&[]), Some(&TAGS)]),
        }
    }

    fn word(&mut self, e164: &str, cmu: &str, epoch: u64) {
        let word = AssignmentNotice { e164: e164.as_bytes(), cmu: cmu.as_bytes(), epoch };
        let request = match self.random.below(6) {
            5 => Request::Unit(UnitRequest::Failed(word, Some(b"program exited with code 1"))),
            0 => Request::Unit(UnitRequest::Nack(word, Some(b"no media"))),
            1 => Request::Unit(UnitRequest::Ended(word, self.random.of(&[End::People, End::Released]))),
            _ => Request::Unit(UnitRequest::Ack(word)),
        };
        self.rig.code(&request);
    }

    fn write(&mut self, e164: &str) {
        let (cmu, epoch) = self.assignment(e164);
        let seq = self.random.below(20) as u64;
        let fields: &[&[u8]] = &[b"members", b"3", b"speaker", b"ann"];
        let fields = &fields[..self.random.of(&[2, 4])];
        let reply = self.rig.ask(&Request::Unit(UnitRequest::Set(Set {
            e164: e164.as_bytes(),
            cmu: cmu.as_bytes(),
            epoch,
            seq,
            fields,
        })));
        if matches!(reply, Ok(Reply::Integer(_))) {
            let before = self.written.insert(e164.to_owned(), epoch).unwrap_or(0);
            assert!(before <= epoch, "an older assignment of {e164} wrote after a newer one");
        }
    }

    fn report(&mut self, cmu: &str) {
        let (mut list, mut ended, mut starting) = (Vec::new(), Vec::new(), Vec::new());
        for e164 in self.numbers.clone() {
            let (owner, epoch) = self.assignment(&e164);
            if owner == cmu && self.random.chance(80) {
                let group = match self.random.below(10) {
                    0..7 => &mut list,
                    7 => &mut starting,
                    _ => &mut ended,
                };
                group.push((e164, epoch));
            }
        }
        let highest = if self.random.chance(80) { self.rig.realm.last_epoch() } else { 0 };
        // Also one that it has on its list.
        ended.extend(list.first().filter(|_| self.random.chance(20)).cloned());
        let (ended, starting, list) = (rows(&ended), rows(&starting), rows(&list));
        self.rig.code(&Request::Unit(UnitRequest::Report(Report {
            cmu: cmu.as_bytes(),
            highest,
            ended,
            starting,
            params: vec![],
            list,
        })));
    }

    fn check(&mut self) {
        self.rig.check();
        let realm = &self.rig.realm;
        for (at, event, creator) in self.rig.applied.drain(..).filter(|_| self.limited) {
            self.failures.follow(at, &event, creator.as_ref());
        }
        assert!(realm.last_epoch() >= self.last_epoch, "epochs went back");
        self.last_epoch = realm.last_epoch();
        // A number is called from the step of its creation to the step of its end.
        for told in std::mem::take(&mut self.rig.told) {
            self.programs.hear(&told);
            if self.limited {
                check_entry(realm, &told, &mut self.ends);
            }
            if let Some(words) = told.strip_prefix("hangup pool ") {
                let (_, lease) = words.split_once(' ').unwrap();
                assert!(self.called.remove(lease) || !self.limited, "{lease} is hung up and was not called");
            }
        }
        if self.limited {
            self.programs.check(&self.rig);
        }
        let mut called = BTreeSet::new();
        let mut listed = realm.list(None, None, 0, usize::MAX).0;
        listed.extend(realm.list(Some(ShownState::Ended), None, 0, usize::MAX).0);
        for one in listed {
            if one.is_live() {
                let lease =
                    one.called_from.as_ref().map(|from| String::from_utf8_lossy(&from.lease).into_owned());
                called.extend(lease);
            }
        }
        assert!(called == self.called || !self.limited, "{called:?} live, {:?} called", self.called);
        // A conference that ends may have its licences still when another begins that was scheduled for then.
        let ending = |one: &&Conference| one.ending.is_some();
        let live = realm.list(None, None, 0, usize::MAX).0;
        let ending: u64 = live.into_iter().filter(ending).map(|one| u64::from(one.licences)).sum();
        let limit = realm.settings().licences;
        assert!(limit == 0 || realm.licences_used() <= limit + ending || !self.limited);
    }
}

/// How many random runs: few by default, many in a soak.
pub(super) fn cases() -> u32 {
    std::env::var("ALLOT_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replica_snapshot_and_sums_agree_after_random_requests(seed in any::<u64>()) {
        let mut run = Run::new(seed);
        for _ in 0..120 {
            run.step();
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_make_a_realm_that_works(seed in any::<u64>(), hits in 1usize..4) {
        let mut run = Run::new(seed);
        for _ in 0..40 {
            run.step();
        }
        let mut bytes = run.rig.realm.encode();
        for _ in 0..hits {
            let at = run.random.below(bytes.len());
            bytes[at] ^= 1 << run.random.below(8);
        }
        if let Ok(realm) = allot_core::conf::Realm::decode(&bytes) {
            run.rig.replica = realm.clone();
            run.rig.now = realm.now(run.rig.now);
            assert_eq!(realm.check(), Ok(()));
            run.rig.realm = realm;
            run.written.clear();
            run.last_epoch = 0;
            run.limited = false;
            for _ in 0..20 {
                run.step();
            }
        }
    }
}
