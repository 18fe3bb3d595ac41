//! Listings, sums and forecasts in figures, and who may change what.

use super::rig::{HOUR, Rig, login, logout, name, tariff, usage};
use allot_core::account::place::{Presence, Share};
use allot_core::account::record::AccountState;
use allot_core::account::request::{InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::{Reply, Settings};

const MINUTE: i64 = 60_000;

/// A book at its first hour: `m` and `n` of one department, `o` of another, and accounts 0 to 9, 10 to 14, and 20.
fn three_modules() -> Rig {
    let settings = Settings { turns: vec![100 * HOUR, 200 * HOUR], ..Settings::default() };
    let mut rig = Rig::new(settings);
    for (module, department, accounts) in [("m", "d", 0..10), ("n", "d", 10..15), ("o", "e", 20..21)] {
        let (module_name, department) = (module.as_bytes(), department.as_bytes());
        let (instances, weight, reserve) = (2, None, None);
        let wish = ModuleSettings {
            module: module_name,
            department,
            instances,
            weight,
            reserve,
            share: Some(Share::Present),
            ..ModuleSettings::default()
        };
        rig.ask(ManagerRequest::Module(wish)).unwrap();
        rig.attach(module, "a");
        rig.add(module, accounts);
    }
    rig.settle();
    rig
}

fn work(rig: &mut Rig, number: usize, count: i64) {
    let epoch = rig.account(&name(number)).epoch;
    assert_eq!(rig.code(usage(&name(number), epoch, count)), "OK");
}

#[test]
fn changes_of_assignment_and_inventory_need_the_claimed_term() {
    let mut rig = Rig::with(2, 4, &["a"]);
    rig.ask(ManagerRequest::Claim { term: 5, leader: b"one", force: false }).unwrap();
    let account = name(0);
    let module = &b"m"[..];
    let epoch = rig.account(&account).epoch;
    for term in [Some(4), Some(6), Some(5)] {
        let (weight, reserve) = (None, None);
        let requests = [
            ManagerRequest::Attach { module, instance: b"b" }.in_term(term),
            ManagerRequest::Detach { module, instance: b"b", grace: 0 }.in_term(term),
            ManagerRequest::Rebalance { dry_run: false, max_moves: 1 }.in_term(term),
            ManagerRequest::Module(ModuleSettings {
                module: b"n",
                department: b"d",
                instances: 1,
                weight,
                reserve,
                share: Some(Share::Present),
                ..ModuleSettings::default()
            })
            .in_term(term),
            ManagerRequest::add(Some(b"n"), tariff(), vec![b"new"]).in_term(term),
            ManagerRequest::Move { module: b"m", accounts: vec![b"new"] }.in_term(term),
            ManagerRequest::Freeze { account: b"new", on: true, until: None }.in_term(term),
            ManagerRequest::Del { accounts: vec![b"new"] }.in_term(term),
            InstanceRequest::Logout { account: account.as_bytes(), epoch, back: true, term }.into(),
        ];
        for request in requests {
            let expected = if term == Some(5) { "OK" } else { "STALE" };
            if expected == "STALE" {
                let before = rig.book.encode();
                assert_eq!(rig.code(request.clone()), expected, "{request:?}");
                assert_eq!(rig.book.encode(), before);
            } else {
                assert_eq!(rig.code(request.clone()), expected, "{request:?}");
            }
        }
    }
    rig.check();
}

#[test]
fn epochs_are_the_clock_or_beyond_the_last_one() {
    let mut rig = Rig::with(1, 1, &["a"]);
    rig.now = 1_800_000_000_000;
    let first = rig.login(&name(0), "a", MINUTE);
    assert_eq!(first, 1_800_000_000_000_000, "microseconds");
    assert_eq!(rig.login(&name(0), "a", MINUTE), first + 1);
    // Other servers' clocks may be behind.
    rig.now -= 5000;
    assert_eq!(rig.book.now(rig.now), 1_800_000_000_000);
    rig.now = rig.book.now(rig.now);
    assert_eq!(rig.login(&name(0), "a", MINUTE), first + 2);
}

#[test]
fn refused_login_names_the_holder_of_the_account() {
    let mut rig = Rig::with(2, 2, &["alpha", "beta"]);
    let account = name(0);
    let (holder, other) = if rig.holder(&account) == "alpha" { ("alpha", "beta") } else { ("beta", "alpha") };
    let refusal = rig.ask(login(&account, other, "t", MINUTE)).unwrap_err();
    assert!(refusal.text.contains(&format!("is assigned to instance '{holder}'")), "{}", refusal.text);
    rig.login(&account, holder, MINUTE);
    let refusal = rig.ask(login(&account, holder, "elsewhere", MINUTE)).unwrap_err();
    let until = rig.now + MINUTE;
    assert!(refusal.text.contains(&format!("is logged in at 't' until {until}")), "{}", refusal.text);
}

#[test]
fn lists_are_of_a_module_an_instance_or_a_state_and_go_on_at_their_cursor() {
    let mut rig = three_modules();
    rig.attach("m", "b");
    rig.ask(ManagerRequest::Freeze { account: name(12).as_bytes(), on: true, until: None }).unwrap();
    rig.settle();
    let id = |module: &str| rig.book.find_module(module.as_bytes());
    let place = |instance: &str| rig.book.find_instance(id("m").unwrap(), instance.as_bytes());
    let numbers = |module, instance, standing| {
        // By pages of three.
        let (mut cursor, mut found) = (0, Vec::new());
        loop {
            let (page, next) = rig.book.list(module, instance, standing, cursor, 3);
            assert!(page.len() == 3 || next == 0);
            found.extend(page.iter().map(|one| String::from_utf8_lossy(&one.name).into_owned()));
            cursor = next;
            if cursor == 0 {
                return found;
            }
        }
    };
    let of = |numbers: std::ops::Range<usize>| numbers.map(name).collect::<Vec<_>>();
    assert_eq!(numbers(None, None, None).len(), 16);
    assert_eq!(numbers(id("n"), None, None), of(10..15));
    assert_eq!(numbers(id("n"), None, Some(AccountState::Frozen)), of(12..13));
    assert_eq!(numbers(None, None, Some(AccountState::Frozen)), of(12..13));
    assert_eq!(numbers(id("n"), None, Some(AccountState::Assigned)).len(), 4);
    assert_eq!(numbers(None, None, Some(AccountState::Revoking)), of(0..0));
    for instance in ["a", "b"] {
        let held: Vec<String> = (0..10).map(name).filter(|one| rig.holder(one) == instance).collect();
        assert_eq!((held.len(), numbers(id("m"), place(instance), None)), (5, held));
    }
}

#[test]
fn one_list_passes_over_twenty_thousand_accounts_at_most() {
    let mut rig = Rig::new(Settings::default());
    rig.module("m", 1, 30_000);
    for batch in 0..3 {
        rig.add("m", batch * 10_000..(batch + 1) * 10_000);
    }
    let last = name(29_999);
    rig.ask(ManagerRequest::Freeze { account: last.as_bytes(), on: true, until: None }).unwrap();
    let (page, next) = rig.book.list(None, None, Some(AccountState::Frozen), 0, 10);
    assert_eq!((page.len(), next), (0, 20_000));
    let (page, next) = rig.book.list(None, None, Some(AccountState::Frozen), next, 10);
    assert_eq!((page.len(), next), (1, 0));
}

#[test]
fn usage_is_summed_by_account_module_department_and_month() {
    let mut rig = three_modules();
    for (number, count) in [(0, 100), (1, 110), (10, 160), (20, 7)] {
        work(&mut rig, number, count);
    }
    let line = |rig: &Rig, month: u32, name: &[u8]| {
        let modules = rig.book.usage_by_module(month);
        let usage = match modules.get(name) {
            Some(usage) => usage.clone(),
            None => rig.book.usage_by_department(month)[name].clone(),
        };
        (usage.accounts, usage.quota, usage.used, usage.left, usage.cost.to_string())
    };
    let first = [
        (&b"m"[..], (10, 1000, 210, 800, "1".to_owned())),
        (b"n", (5, 500, 160, 400, "10".to_owned())),
        (b"o", (1, 100, 7, 93, "0".to_owned())),
        (b"d", (15, 1500, 370, 1200, "11".to_owned())),
        (b"e", (1, 100, 7, 93, "0".to_owned())),
    ];
    for (name, expected) in &first {
        assert_eq!(line(&rig, 0, name), *expected);
    }
    let one = rig.book.usage_of(rig.account(&name(10)), 0);
    assert_eq!((one.accounts, one.used, one.left, one.cost.to_string()), (1, 160, 0, "10".to_owned()));
    rig.pass(100 * HOUR);
    work(&mut rig, 0, 5);
    assert_eq!(line(&rig, 1, b"m"), (10, 1000, 5, 995, "0".to_owned()));
    for (name, expected) in &first {
        assert_eq!(line(&rig, 0, name), *expected, "as it was");
    }
    let one = |month: u32, number: usize| {
        let usage = rig.book.usage_of(rig.account(&name(number)), month);
        (usage.accounts, usage.quota, usage.used, usage.left, usage.cost.to_string())
    };
    // An account that was used again, and one that was not.
    assert_eq!([one(0, 0), one(1, 0)], [(1, 100, 100, 0, "0".into()), (1, 100, 5, 95, "0".into())]);
    assert_eq!([one(0, 10), one(1, 10)], [(1, 100, 160, 0, "10".into()), (1, 100, 0, 100, "0".into())]);
    rig.check();
}

#[test]
fn use_is_projected_by_the_pace_of_the_last_day() {
    let mut rig = three_modules();
    // Ten an hour for ten hours, and ninety hours to come.
    for hour in 0..10 {
        rig.now = hour * HOUR + 1000;
        work(&mut rig, 0, 10);
        work(&mut rig, 10, 20);
    }
    rig.now = 10 * HOUR;
    let module = |rig: &Rig, module: &[u8]| {
        rig.book.projected_of(rig.book.find_module(module).unwrap(), rig.now).map(|projected| projected.more)
    };
    assert_eq!([&b"m"[..], b"n", b"o"].map(|name| module(&rig, name)), [Some(900), Some(1800), Some(0)]);
    let sums = rig.book.projected_by_department(rig.now);
    let more = |department: &[u8]| sums[department].map(|projected| projected.more);
    assert_eq!((more(b"d"), more(b"e")), (Some(2700), Some(0)));
    // What is older than a day counts no more.
    rig.now = 40 * HOUR;
    assert_eq!(module(&rig, b"m"), Some(0));
}

#[test]
fn a_year_ends_and_a_zone_changes_its_hour_where_the_operator_says() {
    // Midnight of 1 October, November, December and January in Berlin: summer time ends between the first two.
    let turns = [1_790_805_600_000i64, 1_793_487_600_000, 1_796_079_600_000, 1_798_758_000_000];
    let mut rig = Rig::new(Settings { turns: turns.to_vec(), ..Settings::default() });
    rig.module("m", 1, 0);
    rig.attach("m", "a");
    rig.add("m", 0..1);
    rig.settle();
    assert_eq!(turns[1] - turns[0], (31 * 24 + 1) * HOUR, "October has an hour more");
    for (month, turn) in turns.into_iter().enumerate() {
        rig.now = turn - 1;
        work(&mut rig, 0, 10 + month as i64);
        rig.now = turn;
        work(&mut rig, 0, 1);
    }
    let one = rig.account(&name(0));
    assert_eq!([0, 1, 2, 3, 4].map(|month| one.used_in(month)), [10, 12, 13, 14, 1]);
    assert_eq!((rig.book.month(), rig.book.month_start(4)), (4, Some(turns[3])));
    rig.check();
}

#[test]
fn account_is_returned_only_with_the_epoch_of_its_assignment() {
    let mut rig = Rig::with(2, 5, &["a", "b"]);
    assert_eq!(rig.shares("m"), [3, 2]);
    let account = (0..5).map(name).find(|one| rig.holder(one) == "a").unwrap();
    let assignment = rig.account(&account).epoch;
    let login = rig.login(&account, "a", HOUR);
    for epoch in [login, assignment - 1, 0] {
        assert_eq!(
            rig.ask(logout(&account, epoch, true)),
            Ok(Reply::Integer(0)),
            "{epoch} is not the assignment's"
        );
    }
    assert_eq!((rig.standing(&account), rig.book.live_logins()), (AccountState::Assigned, 1));
    assert_eq!(rig.ask(logout(&account, assignment, true)), Ok(Reply::Integer(1)));
    assert_eq!((rig.standing(&account), rig.book.live_logins()), (AccountState::Free, 0));
    rig.settle();
    assert_eq!((rig.shares("m"), rig.presence("m", "a")), (vec![3, 2], Some(Presence::Active)));
    assert!(rig.account(&account).epoch > assignment);
    assert_eq!(rig.ask(logout(&account, assignment, true)), Ok(Reply::Integer(0)), "a late word");
    rig.check();
    // Nor does it thaw what the platform froze; and what is revoked is given back as ever.
    rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on: true, until: None }).unwrap();
    let assignment = rig.account(&account).epoch;
    assert_eq!(rig.ask(logout(&account, assignment, true)), Ok(Reply::Integer(0)));
    assert_eq!(rig.standing(&account), AccountState::Frozen);
    rig.settle();
    let other = (0..5).map(name).find(|one| rig.holder(one) == "b").unwrap();
    let assignment = rig.account(&other).epoch;
    rig.login(&other, "b", HOUR);
    rig.ask(ManagerRequest::Del { accounts: vec![other.as_bytes()] }).unwrap();
    assert_eq!(rig.ask(logout(&other, assignment, true)), Ok(Reply::Integer(1)));
    assert!(rig.book.account_called(other.as_bytes()).is_none());
    rig.check();
}
