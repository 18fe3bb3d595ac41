//! What was spent stays spent after changes of accounts, tariffs, modules and departments.

use std::collections::BTreeMap;

use super::rig::{HOUR, Rig, name, tariff, usage};
use allot_core::account::record::AccountState;
use allot_core::account::request::{InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::tariff::{Amount, Step, Tariff};
use allot_core::account::{Reply, Settings};
use proptest::prelude::*;

/// Months of a hundred hours; module m of department d and module n of department e, with accounts 0 to 2 and 3 to 5.
fn book() -> Rig {
    let mut rig =
        Rig::new(Settings { turns: vec![100 * HOUR, 200 * HOUR, 300 * HOUR], ..Settings::default() });
    for (module, department, accounts) in [("m", "d", 0..3), ("n", "e", 3..6)] {
        define(&mut rig, module, department, None);
        rig.attach(module, "a");
        rig.add(module, accounts);
    }
    rig.settle();
    rig
}

fn define(rig: &mut Rig, module: &str, department: &str, cap: Option<i64>) {
    let (module, department) = (module.as_bytes(), department.as_bytes());
    let settings = ModuleSettings { module, department, instances: 1, cap, ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(settings)).unwrap();
}

fn work(rig: &mut Rig, account: usize, count: i64) -> &'static str {
    let epoch = rig.account(&name(account)).epoch;
    let code = rig.code(usage(&name(account), epoch, count));
    rig.check();
    code
}

fn delete(rig: &mut Rig, account: usize) {
    rig.ask(ManagerRequest::Del { accounts: vec![name(account).as_bytes()] }).unwrap();
    rig.check();
}

fn move_to(rig: &mut Rig, module: &[u8], account: usize) {
    rig.ask(ManagerRequest::Move { module, accounts: vec![name(account).as_bytes()] }).unwrap();
    rig.settle();
    rig.check();
}

fn add(rig: &mut Rig, module: &str, account: usize) {
    rig.add(module, account..account + 1);
    rig.settle();
    rig.check();
}

/// Instructions and cost of a month, of a department or a module; zero of one that the ledger does not name.
fn spent(rig: &Rig, month: u32, name: &str) -> (u128, String) {
    let (modules, departments) = (rig.book.usage_by_module(month), rig.book.usage_by_department(month));
    let usage = modules.get(name.as_bytes()).or_else(|| departments.get(name.as_bytes())).cloned();
    usage.map_or_else(|| (0, "0".to_owned()), |usage| (usage.used, usage.cost.to_string()))
}

fn line(used: u128, cost: &str) -> (u128, String) {
    (used, cost.to_owned())
}

#[test]
fn budget_counts_what_deleted_and_moved_accounts_have_sent() {
    let mut rig = book();
    rig.ask(ManagerRequest::Department { department: b"d", cap: 300 }).unwrap();
    assert_eq!(work(&mut rig, 0, 250), "OK");
    delete(&mut rig, 0);
    assert_eq!(
        [work(&mut rig, 1, 51), work(&mut rig, 1, 50), work(&mut rig, 1, 1)],
        ["LIMIT", "OK", "LIMIT"]
    );
    move_to(&mut rig, b"n", 1);
    assert_eq!(work(&mut rig, 2, 1), "LIMIT");
    assert_eq!(work(&mut rig, 1, 7), "OK", "the other department has no cap");
    assert_eq!((spent(&rig, 0, "d").0, spent(&rig, 0, "e").0), (300, 7));
    // Nor is the budget of a module opened again if the module is deleted, or comes to another department.
    define(&mut rig, "n", "e", Some(20));
    define(&mut rig, "n", "f", None);
    assert_eq!([work(&mut rig, 3, 14), work(&mut rig, 3, 13)], ["LIMIT", "OK"]);
    assert_eq!((spent(&rig, 0, "n").0, spent(&rig, 0, "e").0, spent(&rig, 0, "f").0), (20, 7, 13));
    for account in [1, 3, 4, 5] {
        delete(&mut rig, account);
    }
    rig.detach("n", "a", 0);
    rig.ask(ManagerRequest::RemoveModule { module: b"n" }).unwrap();
    rig.check();
    assert_eq!(spent(&rig, 0, "n").0, 20, "a module that was deleted is on record");
    define(&mut rig, "n", "g", Some(20));
    rig.attach("n", "a");
    add(&mut rig, "n", 9);
    assert_eq!(work(&mut rig, 9, 1), "LIMIT");
    rig.pass(100 * HOUR);
    assert_eq!([work(&mut rig, 9, 20), work(&mut rig, 2, 300)], ["OK", "OK"], "a new month");
}

#[test]
fn cost_of_the_past_is_that_of_the_prices_of_its_time() {
    let mut rig = book();
    assert_eq!(work(&mut rig, 0, 180), "OK");
    rig.pass(100 * HOUR);
    assert_eq!([spent(&rig, 0, "m"), spent(&rig, 0, "d")], [line(180, "20"), line(180, "20")]);
    assert_eq!(work(&mut rig, 0, 120), "OK");
    let steps = vec![Step { upto: 1000, price: Amount::parse_price(b"2").unwrap() }];
    let account = name(0);
    let accounts = vec![account.as_bytes()];
    rig.ask(ManagerRequest::Reprice { tariff: Tariff { quota: 50, steps }, accounts }).unwrap();
    rig.check();
    assert_eq!([spent(&rig, 0, "m"), spent(&rig, 1, "m")], [line(180, "20"), line(120, "2")]);
    // What follows has the new price.
    assert_eq!(work(&mut rig, 0, 1), "OK");
    assert_eq!(
        (spent(&rig, 1, "d"), rig.account(&name(0)).cost_in(1).to_string()),
        (line(121, "4"), "4".into())
    );
    assert_eq!(rig.account(&name(0)).cost_in(0).to_string(), "20");
    move_to(&mut rig, b"n", 0);
    delete(&mut rig, 0);
    define(&mut rig, "m", "g", None);
    assert_eq!([spent(&rig, 0, "d"), spent(&rig, 1, "d")], [line(180, "20"), line(121, "4")]);
    assert_eq!([spent(&rig, 0, "g"), spent(&rig, 0, "e")], [line(0, "0"), line(0, "0")]);
    assert_eq!([spent(&rig, 0, "m"), spent(&rig, 1, "m")], [line(180, "20"), line(121, "4")]);
}

#[test]
fn account_that_comes_back_has_its_use_of_the_month_again() {
    let mut rig = book();
    assert_eq!(work(&mut rig, 0, 120), "OK");
    delete(&mut rig, 0);
    add(&mut rig, "n", 0);
    let account = rig.account(&name(0));
    assert_eq!((account.used_in(0), account.cost_in(0).to_string()), (120, "2".to_owned()));
    assert_eq!(work(&mut rig, 0, 10), "OK");
    assert_eq!((spent(&rig, 0, "m"), spent(&rig, 0, "n")), (line(120, "2"), line(10, "1")));
    delete(&mut rig, 0);
    rig.pass(100 * HOUR);
    rig.check();
    add(&mut rig, "m", 0);
    assert_eq!((rig.account(&name(0)).used_in(0), rig.account(&name(0)).used_in(1)), (0, 0), "a month later");
    assert_eq!(spent(&rig, 0, "d"), line(120, "2"));
}

fn report(rig: &mut Rig, account: usize, epoch: u64, total: u64) -> &'static str {
    let code = rig.code(InstanceRequest::Report { account: name(account).as_bytes(), epoch, total });
    rig.check();
    code
}

#[test]
fn account_that_comes_back_has_its_cap_again() {
    let mut rig = book();
    let account = name(0);
    rig.ask(ManagerRequest::Limit { cap: Some(100), turn: None, accounts: vec![account.as_bytes()] })
        .unwrap();
    assert_eq!([work(&mut rig, 0, 100), work(&mut rig, 0, 1)], ["OK", "LIMIT"]);
    delete(&mut rig, 0);
    add(&mut rig, "m", 0);
    assert_eq!((work(&mut rig, 0, 1), rig.account(&account).cap), ("LIMIT", 100));
    delete(&mut rig, 0);
    rig.pass(100 * HOUR);
    add(&mut rig, "m", 0);
    assert_eq!((work(&mut rig, 0, 101), rig.account(&account).cap), ("OK", 0), "a month later");
}

#[test]
fn account_that_comes_back_is_still_frozen() {
    for (logged_in, until) in [(false, None), (true, None), (false, Some(50 * HOUR)), (true, Some(50 * HOUR))]
    {
        let mut rig = book();
        let account = name(0);
        if logged_in {
            rig.login(&account, "a", HOUR);
        }
        let freeze = |on, until| ManagerRequest::Freeze { account: account.as_bytes(), on, until };
        rig.ask(freeze(true, until)).unwrap();
        delete(&mut rig, 0);
        // An account that waits to be deleted cannot be thawed.
        let expected = if logged_in { "OK" } else { "NOTFOUND" };
        assert_eq!(rig.code(freeze(false, None)), expected);
        rig.pass(HOUR);
        add(&mut rig, "m", 0);
        let state = (rig.standing(&account), rig.account(&account).frozen_until);
        assert_eq!(state, (AccountState::Frozen, until));
        assert_eq!(rig.holder(&account), "");
        rig.pass(50 * HOUR);
        rig.check();
        let expected = if until.is_some() { AccountState::Assigned } else { AccountState::Frozen };
        assert_eq!(rig.standing(&account), expected);
    }
}

#[test]
fn use_of_a_deleted_account_can_be_reported() {
    let mut rig = book();
    rig.ask(ManagerRequest::Department { department: b"d", cap: 300 }).unwrap();
    let epoch = rig.account(&name(0)).epoch;
    assert_eq!(report(&mut rig, 0, epoch, 60), "OK");
    delete(&mut rig, 0);
    assert_eq!(report(&mut rig, 0, epoch, 110), "OK");
    assert_eq!([report(&mut rig, 0, epoch, 110), report(&mut rig, 0, epoch + 1, 5)], ["OK", "STALE"]);
    assert_eq!(spent(&rig, 0, "m"), line(110, "1"), "at the prices of the account");
    assert_eq!(rig.book.budget(b"d").unwrap().used, 110);
    // It comes back to another module, and the rest of its first assignment is reported.
    add(&mut rig, "n", 0);
    assert_eq!([report(&mut rig, 0, epoch, 110), report(&mut rig, 0, epoch, 120)], ["OK", "OK"]);
    let epochs = [epoch, rig.account(&name(0)).epoch];
    assert_eq!((rig.account(&name(0)).used_in(0), epochs[0] < epochs[1]), (120, true));
    assert_eq!((spent(&rig, 0, "m").0, spent(&rig, 0, "n").0), (110, 10));
    // The module of the assignment must be there, and so must the month.
    for account in [0, 3, 4, 5] {
        delete(&mut rig, account);
    }
    rig.detach("n", "a", 0);
    rig.ask(ManagerRequest::RemoveModule { module: b"n" }).unwrap();
    assert_eq!(report(&mut rig, 0, epochs[1], 1), "NOTFOUND");
    assert_eq!(report(&mut rig, 0, epochs[0], 130), "OK");
    rig.pass(100 * HOUR);
    assert_eq!(report(&mut rig, 0, epochs[0], 140), "NOTFOUND");
}

#[test]
fn past_month_lists_the_accounts_and_quotas_of_its_end() {
    let mut rig = book();
    assert_eq!(work(&mut rig, 0, 30), "OK");
    rig.pass(100 * HOUR);
    delete(&mut rig, 0);
    define(&mut rig, "late", "d", None);
    let past = &rig.book.usage_by_module(0)[&b"m"[..]];
    assert_eq!((past.accounts, past.quota, past.left), (3, 300, 270));
    assert!(!rig.book.usage_by_module(0).contains_key(&b"late"[..]));
    rig.pass(200 * HOUR);
    assert_eq!(rig.book.usage_by_department(2)[&b"d"[..]].accounts, 2);
    rig.check();
}

/// What happens to a book.
#[derive(Clone, Debug)]
enum Act {
    Use(usize, u64),
    Report(usize, u64),
    Delete(usize),
    Add(usize, usize),
    Move(usize, usize),
    Price(usize, usize),
    Department(usize, usize),
    RemoveModule(usize),
    Turn(usize, u32),
    Pass(i64),
    Month,
}

const MODULES: [&str; 2] = ["m", "n"];
const DEPARTMENTS: [&str; 3] = ["d", "d/e", "f"];
const CAP: u64 = 400;
const MONTH: i64 = 100 * HOUR;

fn tariffs(number: usize) -> Tariff {
    let step = |upto, price: i128| Step { upto, price: Amount(price) };
    match number {
        0 => tariff(),
        1 => Tariff { quota: 20, steps: vec![step(50, 7), step(90, 3)] },
        _ => Tariff { quota: 0, steps: vec![] },
    }
}

/// The price of an instruction by its number in the month.
fn price(tariff: &Tariff, number: u64) -> i128 {
    let step = tariff.steps.iter().find(|step| number <= step.upto).or(tariff.steps.last());
    if number <= tariff.quota { 0 } else { step.map_or(0, |step| step.price.0) }
}

fn act() -> impl Strategy<Value = Act> {
    let (account, module) = (0..6usize, 0..MODULES.len());
    prop_oneof![
        8 => (account.clone(), 1..90u64).prop_map(|(account, count)| Act::Use(account, count)),
        3 => (account.clone(), 1..90u64).prop_map(|(account, total)| Act::Report(account, total)),
        2 => account.clone().prop_map(Act::Delete),
        3 => (module.clone(), account.clone()).prop_map(|(module, account)| Act::Add(module, account)),
        2 => (module.clone(), account.clone()).prop_map(|(module, account)| Act::Move(module, account)),
        1 => (account.clone(), 0..3usize).prop_map(|(account, tariff)| Act::Price(account, tariff)),
        2 => (account, 1..7u32).prop_map(|(account, day)| Act::Turn(account, day)),
        2 => (1..60i64).prop_map(Act::Pass),
        1 => (module.clone(), 0..DEPARTMENTS.len()).prop_map(|(module, to)| Act::Department(module, to)),
        1 => module.prop_map(Act::RemoveModule),
        1 => Just(Act::Month),
    ]
}

/// A count of its own: instruction by instruction, at the price of its time.
#[derive(Default)]
struct Witness {
    month: u32,
    /// The number of the last instruction of each account in its own month, and in the month of the book.
    numbers: BTreeMap<usize, u64>,
    used: BTreeMap<usize, u64>,
    /// The day on which the month of each account begins, if it is not the first.
    days: BTreeMap<usize, u32>,
    /// When accounts were deleted, or when their use was reported after that.
    gone: BTreeMap<usize, i64>,
    tariffs: BTreeMap<usize, usize>,
    departments: BTreeMap<String, String>,
    /// The module and the epoch that each account had last, until it is forgotten.
    last: BTreeMap<usize, (String, u64)>,
    /// What was reported of each account and epoch.
    reported: BTreeMap<(usize, u64), u64>,
    /// By month, department and module.
    spent: BTreeMap<(u32, String, String), (u128, i128)>,
}

impl Witness {
    fn count(&mut self, module: &str, account: usize, count: u64) {
        let tariff = tariffs(self.tariffs[&account]);
        let line = (self.month, self.departments[module].clone(), module.to_owned());
        *self.used.entry(account).or_default() += count;
        let number = self.numbers.entry(account).or_default();
        let line = self.spent.entry(line).or_default();
        for _ in 0..count {
            *number += 1;
            *line = (line.0 + 1, line.1 + price(&tariff, *number));
        }
    }

    fn sums(&self, month: u32, is: impl Fn(&str, &str) -> bool) -> (u128, i128) {
        let lines =
            self.spent.iter().filter(|((of, department, module), _)| *of == month && is(department, module));
        lines.fold((0, 0), |sum, (_, line)| (sum.0 + line.0, sum.1 + line.1))
    }

    /// The ledger of the book is that of the witness, in all months.
    fn compare(&self, rig: &Rig) {
        for month in 0..=self.month {
            let (modules, departments) =
                (rig.book.usage_by_module(month), rig.book.usage_by_department(month));
            for module in MODULES {
                let usage = modules.get(module.as_bytes()).cloned().unwrap_or_default();
                let expected = self.sums(month, |_, of| of == module);
                assert_eq!((usage.used, usage.cost.0), expected, "{module} in month {month}");
            }
            for department in DEPARTMENTS {
                let usage = departments.get(department.as_bytes()).cloned().unwrap_or_default();
                let within = |of: &str| of == department || of.starts_with(&format!("{department}/"));
                let expected = self.sums(month, |of, _| within(of));
                assert_eq!((usage.used, usage.cost.0), expected, "{department} in month {month}");
            }
        }
        for account in (0..6).filter(|&account| rig.book.find(name(account).as_bytes()).is_some()) {
            let number = self.numbers.get(&account).copied().unwrap_or(0);
            assert_eq!(rig.account(&name(account)).position(self.month), number, "position of {account}");
        }
        let used = rig.book.budget(b"d").unwrap().used;
        assert_eq!(used, self.sums(self.month, |of, _| of.starts_with('d')).0, "the budget");
    }

    /// Whether the month of an account that begins on this day begins in a span of time. In a month of the book that is
    /// too short for this day, it begins at the end.
    fn turns_within(day: u32, (after, until): (i64, i64)) -> bool {
        (after / MONTH..=until / MONTH).any(|month| {
            let start = (month * MONTH).max(1000);
            let turn = (start + i64::from(day - 1) * 24 * HOUR).min((month + 1) * MONTH);
            after < turn && turn <= until
        })
    }

    fn pass(&mut self, rig: &mut Rig, by: i64) {
        let (from, to) = (rig.now, rig.now + by);
        rig.pass(by);
        let end = (from / MONTH + 1) * MONTH;
        for account in 0..6 {
            let day = self.days.get(&account).copied().unwrap_or(1);
            if Self::turns_within(day, (from, to)) {
                self.numbers.remove(&account);
            }
            if to < end {
                continue;
            }
            self.used.remove(&account);
            if self.gone.get(&account).is_some_and(|&gone| Self::turns_within(day, (gone, end))) {
                self.gone.remove(&account);
                self.days.remove(&account);
                self.last.remove(&account);
            }
        }
        self.month = rig.book.month();
    }

    /// Takes a step of the book and of the witness.
    fn take(&mut self, rig: &mut Rig, act: &Act) {
        let known = |rig: &Rig, account: usize| rig.book.find(name(account).as_bytes()).is_some();
        let module_of = |rig: &Rig, account: usize| {
            let module = rig.book.module_name(rig.account(&name(account)).module);
            String::from_utf8_lossy(&module).into_owned()
        };
        match *act {
            Act::Use(account, count) if known(rig, account) => {
                let module = module_of(rig, account);
                let within = self.departments[&module].starts_with('d');
                let before = self.sums(self.month, |of, _| of.starts_with('d')).0;
                let fits = !within || before + u128::from(count) <= u128::from(CAP);
                let epoch = rig.account(&name(account)).epoch;
                match rig.code(usage(&name(account), epoch, count as i64)) {
                    "OK" => {
                        assert!(fits, "the cap is exceeded");
                        self.count(&module, account, count);
                    }
                    "LIMIT" => assert!(!fits, "the cap is not reached"),
                    code => assert_eq!(code, "STALE", "no instance has the account"),
                }
            }
            Act::Report(account, total) if self.last.contains_key(&account) => {
                let (module, epoch) = self.last[&account].clone();
                let there = rig.book.find_module(module.as_bytes()).is_some();
                // The use of an account that is there counts where it is now.
                let module = if known(rig, account) { module_of(rig, account) } else { module };
                let before = self.reported.get(&(account, epoch)).copied().unwrap_or(0);
                let account_name = name(account);
                let request = InstanceRequest::Report { account: account_name.as_bytes(), epoch, total };
                match rig.ask(request) {
                    Ok(Reply::Used(_)) => {
                        self.count(&module, account, total.saturating_sub(before));
                        self.reported.insert((account, epoch), total.max(before));
                        if total > before && !known(rig, account) {
                            self.gone.insert(account, rig.now);
                        }
                    }
                    other => assert!(!known(rig, account) && !there, "a report is refused: {other:?}"),
                }
            }
            Act::Delete(account) if known(rig, account) => {
                delete(rig, account);
                self.gone.insert(account, rig.now);
            }
            Act::Add(module, account) if !known(rig, account) => {
                let module = MODULES[module];
                if rig.book.find_module(module.as_bytes()).is_some() {
                    rig.add(module, account..account + 1);
                    self.tariffs.insert(account, 0);
                    self.gone.remove(&account);
                }
            }
            Act::Move(module, account) if known(rig, account) => {
                let account = name(account);
                let module = MODULES[module].as_bytes();
                rig.code(ManagerRequest::Move { module, accounts: vec![account.as_bytes()] });
            }
            Act::Price(account, number) if known(rig, account) => {
                let name = name(account);
                let (tariff, accounts) = (tariffs(number), vec![name.as_bytes()]);
                rig.ask(ManagerRequest::Reprice { tariff, accounts }).unwrap();
                self.tariffs.insert(account, number);
            }
            Act::Department(module, to) => {
                define(rig, MODULES[module], DEPARTMENTS[to], None);
                rig.attach(MODULES[module], "a");
                self.departments.insert(MODULES[module].to_owned(), DEPARTMENTS[to].to_owned());
            }
            Act::RemoveModule(module) => {
                let name = MODULES[module];
                let id = rig.book.find_module(name.as_bytes());
                if id.is_some_and(|id| rig.book.module(id).is_some_and(|module| module.counts().0 == 0)) {
                    rig.detach(name, "a", 0);
                    rig.ask(ManagerRequest::RemoveModule { module: name.as_bytes() }).unwrap();
                }
            }
            Act::Turn(account, day) if known(rig, account) => {
                let name = name(account);
                let (turn, accounts) = (Some(day.into()), vec![name.as_bytes()]);
                rig.ask(ManagerRequest::Limit { cap: None, turn, accounts }).unwrap();
                self.days.insert(account, day);
                if day == 1 {
                    let used = self.used.get(&account).copied().unwrap_or(0);
                    self.numbers.insert(account, used);
                }
            }
            Act::Pass(hours) => self.pass(rig, hours * HOUR),
            Act::Month => {
                let by = MONTH - rig.now % MONTH;
                self.pass(rig, by);
            }
            _ => {}
        }
        rig.settle();
        for account in (0..6).filter(|&account| known(rig, account)) {
            if !rig.holder(&name(account)).is_empty() {
                self.last.insert(account, (module_of(rig, account), rig.account(&name(account)).epoch));
            }
        }
        rig.check();
        self.compare(rig);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ledger_is_what_was_sent_at_the_prices_of_the_time(acts in prop::collection::vec(act(), 1..80)) {
        let turns = (1..100).map(|month| month * 100 * HOUR).collect();
        let mut rig = Rig::new(Settings { turns, ..Settings::default() });
        rig.ask(ManagerRequest::Department { department: b"d", cap: CAP as i64 }).unwrap();
        let mut witness = Witness::default();
        for module in 0..MODULES.len() {
            witness.take(&mut rig, &Act::Department(module, 0));
        }
        for account in 0..6 {
            witness.take(&mut rig, &Act::Add(account % 2, account));
        }
        for act in &acts {
            witness.take(&mut rig, act);
        }
    }
}
