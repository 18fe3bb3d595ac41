//! Random requests on a small book, against a witness that keeps its own locks: no account is ever at two places, no two
//! logins live at once, though instances come and go; and once it is quiet every assignment is even.

use std::collections::BTreeMap;

use super::recount::Holdings;
use super::rig::{HOUR, Rig, is_even, login, logout, name, tariff, usage};
use allot_core::account::place::{Presence, Share};
use allot_core::account::rebalance::Reason;
use allot_core::account::request::{Changes, InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::tariff::Tariff;
use allot_core::account::{Book, Event, Reply, Settings};
use proptest::prelude::*;

/// A generator that needs no crate and repeats itself.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

const MODULES: [&str; 3] = ["m", "n", "o"];
/// So many accounts, the first of all, are frozen now and then.
const FROZEN: usize = 2;
const INSTANCES: [&str; 5] = ["a", "b", "c", "d", "e"];

struct Run {
    rig: Rig,
    random: Random,
    /// Who is logged in, by the word of the book: epoch, and until when.
    locks: BTreeMap<String, (u64, i64)>,
    /// Where, by account.
    terminals: BTreeMap<String, &'static str>,
    /// The epochs given for each account.
    epochs: BTreeMap<String, u64>,
    sound: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        let settings = Settings { turns: vec![5 * HOUR, 9 * HOUR], ..Settings::default() };
        Self {
            rig: Rig::new(settings),
            random: Random(seed),
            locks: BTreeMap::new(),
            terminals: BTreeMap::new(),
            epochs: BTreeMap::new(),
            sound: true,
        }
    }

    fn accounts(&mut self, most: usize) -> Vec<String> {
        (0..=self.random.below(most)).map(|_| name(self.random.below(30))).collect()
    }

    fn step(&mut self) {
        let by = self.random.of(&[0, 0, 1, 500, 60_000, HOUR / 2]);
        self.rig.now += by;
        if self.random.chance(70) {
            self.rig.settle();
        }
        match self.random.below(20) {
            0..=2 => self.inventory(),
            3..=5 => {
                let (module, instance) = (self.random.of(&MODULES), self.random.of(&INSTANCES));
                let (module, instance) = (module.as_bytes(), instance.as_bytes());
                self.rig.code(ManagerRequest::Attach { module, instance });
            }
            6 => {
                let (module, instance) = (self.random.of(&MODULES), self.random.of(&INSTANCES));
                let grace = self.random.of(&[0, 1000, HOUR]);
                let (module, instance) = (module.as_bytes(), instance.as_bytes());
                self.rig.code(ManagerRequest::Detach { module, instance, grace });
            }
            7..=12 => self.log_in(),
            13..=15 => self.word(),
            16 => self.work(),
            17 => self.report_or_raise(),
            18 => {
                self.rebalance();
            }
            _ => {
                let dwell = Some(self.random.of(&[0, 1000, HOUR]));
                let cap = self.random.of(&[None, Some(0), Some(20), Some(60)]);
                let (lend_level, events) =
                    (self.random.of(&[None, Some(1)]), self.random.of(&[None, Some(0), Some(9)]));
                let changes = Changes { dwell, cap, lend_level, events, ..Changes::default() };
                self.rig.code(ManagerRequest::Configure(changes));
                let count = self.random.below(self.rig.book.outbox().len() + 1) as u32;
                if count > 0 {
                    self.rig.apply(&Event::Flushed { count, last_id: (self.rig.now.unsigned_abs(), 0) });
                }
            }
        }
        self.rig.check();
    }

    /// How many accounts each active instance has, and how many it must keep.
    fn kept(&self) -> BTreeMap<(Vec<u8>, Vec<u8>), (u32, u32)> {
        let book = &self.rig.book;
        let active = book.modules().flat_map(|module| {
            let instances = module.instances().filter_map(|id| book.instance(id));
            let active = instances.filter(|instance| instance.presence == Presence::Active);
            active.map(|one| ((module.name.to_vec(), one.name.to_vec()), (one.assigned, module.policy.min)))
        });
        active.collect()
    }

    /// Rebalancing takes no instance below the minimum of its module, and makes no move that avoids nothing
    /// and fills no minimum.
    fn rebalance(&mut self) {
        // A request first does what is due. An even assignment of too few accounts may go below the minimum.
        self.rig.settle();
        let before = self.kept();
        let mut holdings = Holdings::of(&self.rig);
        let dry_run = self.random.chance(30);
        let request = ManagerRequest::Rebalance { dry_run, max_moves: 5 };
        let Ok(Reply::Moves(moves)) = self.rig.ask(request) else { return };
        for shift in moves {
            let pays = shift.avoided.0 > 0;
            assert_eq!(pays, shift.reason == Reason::Cost, "{shift:?}");
            holdings.follow(&shift);
        }
        for (instance, (has, min)) in self.kept() {
            let Some(&(had, _)) = before.get(&instance) else { continue };
            assert!(has >= min || has >= had, "{instance:?} is taken from {had} to {has}");
        }
    }

    fn inventory(&mut self) {
        let module = self.random.of(&MODULES);
        let names = self.accounts(8);
        let accounts: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let request = match self.random.below(10) {
            0 => ManagerRequest::Module(ModuleSettings {
                module: module.as_bytes(),
                department: self.random.of(&[&b"d"[..], b"d/e", b"d2"]),
                instances: self.random.below(5) as i64,
                weight: self.random.of(&[None, Some(0), Some(2)]),
                reserve: self.random.of(&[None, Some(0), Some(3)]),
                min: self.random.of(&[None, Some(0), Some(1), Some(2)]),
                share: self.random.of(&[None, Some(Share::Places), Some(Share::Present)]),
                lend: self.random.of(&[None, Some(0), Some(HOUR)]),
                cap: self.random.of(&[None, Some(0), Some(500)]),
                need: self.random.of(&[None, Some(0), Some(300)]),
            }),
            1 | 2 => {
                let module = self.random.chance(80).then_some(module.as_bytes());
                let quota = self.random.of(&[100, 100, 10, 0]);
                let department = self.random.of(&[None, Some(&b"d"[..])]).filter(|_| module.is_none());
                let (tariff, turn) =
                    (Tariff { quota, ..tariff() }, self.random.of(&[None, None, Some(1), Some(9)]));
                ManagerRequest::Add { module, department, tariff, turn, accounts }
            }
            3 => ManagerRequest::Del { accounts },
            8 => {
                let (cap, turn) = (self.random.of(&[0, 30, 200]), self.random.of(&[None, Some(1), Some(2)]));
                ManagerRequest::Limit { cap: Some(cap), turn, accounts }
            }
            5 => ManagerRequest::RemoveModule { module: module.as_bytes() },
            6 => {
                let department = self.random.of(&[&b"d"[..], b"d/e", b"x"]);
                ManagerRequest::Department { department, cap: self.random.of(&[0, 300, 1000]) }
            }
            7 => ManagerRequest::Reprice { tariff: Tariff { quota: 50, steps: Vec::new() }, accounts },
            4 => ManagerRequest::Move { module: module.as_bytes(), accounts },
            _ => {
                // Always the same ones, so that they are frozen while somebody works with them, and used again soon.
                let account = name(self.random.below(FROZEN));
                let account = account.as_bytes();
                for on in self.random.of(&[&[true][..], &[false], &[true, false]]) {
                    let until = self.random.of(&[None, Some(self.rig.now + 60_000)]).filter(|_| *on);
                    self.rig.code(ManagerRequest::Freeze { account, on: *on, until });
                    self.rig.settle();
                }
                return;
            }
        };
        self.rig.code(request);
    }

    fn log_in(&mut self) {
        let among = self.random.of(&[FROZEN, 30]);
        let account = name(self.random.below(among));
        let known = self.rig.book.account_called(account.as_bytes()).map(|_| self.rig.holder(&account));
        let holder = known.filter(|_| self.random.chance(50));
        let instance = holder.unwrap_or_else(|| self.random.of(&INSTANCES).to_owned());
        let terminal = self.random.of(&["t1", "t2"]);
        let ttl = self.random.of(&[1000, HOUR]);
        if self.rig.code(login(&account, &instance, terminal, ttl)) != "OK" {
            return;
        }
        let live = self.rig.account(&account).login.clone().unwrap();
        let now = self.rig.now;
        let before = self.locks.insert(account.clone(), (live.epoch, live.until));
        if let Some((_, until)) = before
            && until > now
            && self.sound
        {
            // Only the same terminal may do that.
            let same = self.terminals.get(&account).is_some_and(|known| *known == terminal);
            assert!(same, "{account} is logged in twice");
        }
        self.terminals.insert(account.clone(), terminal);
        let last = self.epochs.insert(account.clone(), live.epoch).unwrap_or(0);
        assert!(live.epoch > last || !self.sound, "epochs of {account} do not grow");
    }

    fn epoch(&mut self, account: &str) -> u64 {
        let assignment = self.rig.book.account_called(account.as_bytes()).map_or(1, |one| one.epoch);
        let login = self.locks.get(account).map_or(0, |&(epoch, _)| epoch);
        self.random.of(&[login, login, login, assignment, 7])
    }

    fn word(&mut self) {
        let account = name(self.random.below(30));
        let epoch = self.epoch(&account);
        let (bytes, back) = (account.as_bytes(), self.random.chance(20));
        if self.random.chance(50) {
            let renewed = self.rig.code(InstanceRequest::Renew { account: bytes, epoch, ttl: HOUR }) == "OK";
            if renewed {
                let lock = self.locks.entry(account.clone()).or_insert((epoch, i64::MAX));
                assert!(lock.1 > self.rig.now && lock.0 == epoch || !self.sound, "a login lives again");
                lock.1 = self.rig.now + HOUR;
            }
        } else if self.rig.ask(logout(&account, epoch, back)) == Ok(allot_core::account::Reply::Integer(1)) {
            self.locks.remove(&account);
        }
    }

    fn work(&mut self) {
        let account = name(self.random.below(30));
        let epoch = self.epoch(&account);
        let before = self.rig.book.account_called(account.as_bytes()).map(|one| one.epoch);
        if self.rig.code(usage(&account, epoch, 7)) == "OK" && self.sound {
            let live =
                self.locks.get(&account).is_some_and(|&(own, until)| own == epoch && until > self.rig.now);
            assert!(
                live || before == Some(epoch),
                "{account} is used by {epoch}, which is neither of the login nor of the assignment"
            );
        }
    }

    fn report_or_raise(&mut self) {
        let account = name(self.random.below(30));
        let epoch = self.epoch(&account);
        let bytes = account.as_bytes();
        let before =
            self.rig.book.account_called(bytes).map(|one| (one.epoch, one.used_in(self.rig.book.month())));
        if self.random.chance(50) {
            let total = self.random.below(50) as u64;
            self.rig.code(InstanceRequest::Report { account: bytes, epoch, total });
            if self.rig.code(InstanceRequest::Report { account: bytes, epoch, total }) == "OK" {
                let after = self.rig.account(&account).used_in(self.rig.book.month());
                assert!(before.is_some_and(|(_, used)| after <= used + total), "a total was counted twice");
            }
        } else if self.rig.code(ManagerRequest::Raise { epoch, account: Some(bytes) }) == "OK" {
            let after = self.rig.account(&account).epoch;
            assert!(before.is_some_and(|(before, _)| after >= before), "an epoch fell");
            assert!(self.rig.book.last_epoch() >= epoch);
        }
    }

    /// Everybody logs out, and what is due happens: then all assignments are even.
    fn quiet(&mut self) {
        self.rig.pass(3 * HOUR);
        for module in self.rig.book.modules() {
            assert!(is_even(&self.rig.book, module), "{module:?}");
        }
        self.rig.check();
    }
}

/// How many random runs: few by default, many in a soak.
fn cases() -> u32 {
    std::env::var("ALLOT_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_requests_never_log_in_twice_and_replica_and_snapshot_agree(seed in any::<u64>()) {
        let mut run = Run::new(seed);
        for _ in 0..150 {
            run.step();
        }
        run.quiet();
    }

    #[test]
    fn damaged_bytes_are_refused_or_make_a_book_that_works(seed in any::<u64>(), hits in 1usize..4) {
        let mut run = Run::new(seed);
        for _ in 0..60 {
            run.step();
        }
        let mut bytes = run.rig.book.encode();
        for _ in 0..hits {
            let at = run.random.below(bytes.len());
            bytes[at] ^= 1 << run.random.below(8);
        }
        if let Ok(book) = Book::decode(&bytes) {
            assert_eq!(book.check(), Ok(()));
            run.rig.replica = book.clone();
            run.rig.now = book.now(run.rig.now);
            run.rig.book = book;
            run.locks.clear();
            run.sound = false;
            for _ in 0..20 {
                run.step();
            }
        }
    }
}
