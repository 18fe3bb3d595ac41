//! Shares by place, and accounts that are lent while their place is empty.

use super::rig::{HOUR, Rig, name, tariff, usage};
use allot_core::account::place::Share;
use allot_core::account::rebalance::Shift;
use allot_core::account::request::{Changes, InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::{Event, InstanceEvent, Reply, Settings};

const MINUTE: i64 = 60_000;

fn module(rig: &mut Rig, settings: ModuleSettings<'_>) {
    let department = if settings.department.is_empty() { b"d" } else { settings.department };
    rig.ask(ManagerRequest::Module(ModuleSettings { department, ..settings })).unwrap();
}

/// A module of four places and so many accounts, with these instances.
fn places(accounts: usize, instances: &[&str]) -> Rig {
    kept_back(0, accounts, instances)
}

/// As `places`, with a reserve.
fn kept_back(reserve: i64, accounts: usize, instances: &[&str]) -> Rig {
    let mut rig = Rig::new(Settings { dwell: 0, turns: vec![720 * HOUR], ..Settings::default() });
    let reserve = Some(reserve);
    module(&mut rig, ModuleSettings { module: b"m", instances: 4, reserve, ..ModuleSettings::default() });
    if accounts > 0 {
        rig.add("m", 0..accounts);
    }
    for instance in instances {
        rig.attach("m", instance);
    }
    rig
}

fn holders(rig: &Rig) -> Vec<String> {
    (0..30)
        .map(name)
        .filter(|one| rig.book.find(one.as_bytes()).is_some())
        .map(|one| rig.holder(&one))
        .collect()
}

fn rebalance(rig: &mut Rig) -> Vec<Shift> {
    let reply = rig.ask(ManagerRequest::Rebalance { dry_run: false, max_moves: 100 });
    let Ok(Reply::Moves(shifts)) = reply else { panic!("{reply:?}") };
    rig.settle();
    rig.check();
    shifts
}

/// An instance works with one of its accounts.
fn work(rig: &mut Rig, instance: &str, count: i64) {
    let all = (0..30).map(name).filter(|one| rig.book.find(one.as_bytes()).is_some());
    let account = all.into_iter().find(|account| rig.holder(account) == instance).unwrap();
    let epoch = rig.account(&account).epoch;
    rig.ask(usage(&account, epoch, count)).unwrap();
}

#[test]
fn an_instance_takes_the_share_of_its_place_and_nobody_gives_back() {
    let mut rig = places(22, &["a"]);
    assert_eq!(rig.shares("m"), [6], "the first two places have one account more");
    for (instance, shares) in [("b", vec![6, 6]), ("c", vec![6, 6, 5]), ("d", vec![6, 6, 5, 5])] {
        let before = holders(&rig);
        rig.attach("m", instance);
        assert_eq!(rig.shares("m"), shares);
        let kept = before.iter().zip(holders(&rig)).all(|(before, now)| before.is_empty() || *before == now);
        assert!(kept, "{instance} takes free accounts only");
    }
    rig.check();
}

#[test]
fn a_rolling_restart_moves_no_account() {
    for reserve in [0, 3] {
        let instances = ["a", "b", "c", "d"];
        let mut rig = kept_back(reserve, 22, &instances);
        let before = holders(&rig);
        for restarted in [&instances[..], &["c", "a"]].concat() {
            rig.seen.clear();
            rig.detach("m", restarted, 0);
            rig.pass(MINUTE);
            rig.attach("m", restarted);
            let assigned: Vec<&Event> = rig
                .seen
                .iter()
                .filter(|event| {
                    matches!(event, Event::Instance { event: InstanceEvent::Assigned { .. }, .. })
                })
                .collect();
            let own = assigned.iter().all(
                |event| matches!(event, Event::Instance { instance, .. } if **instance == *restarted.as_bytes()),
            );
            assert!(own, "{assigned:?}");
            rig.check();
        }
        assert_eq!(holders(&rig), before, "RESERVE {reserve}");
    }
}

#[test]
fn an_instance_that_comes_back_waits_for_its_own_accounts() {
    let holders_of = |rig: &Rig| (0..16).map(name).map(|one| rig.holder(&one)).collect::<Vec<_>>();
    for (next, own) in [("a", true), ("new", false)] {
        let mut rig = Rig::new(Settings::default());
        module(&mut rig, ModuleSettings { module: b"m", instances: 2, ..ModuleSettings::default() });
        rig.attach("m", "a");
        rig.attach("m", "b");
        rig.add("m", 0..16);
        rig.settle();
        let before = holders_of(&rig);
        assert_eq!(rig.shares("m"), [8, 8]);
        let of_a: Vec<String> = (0..16).map(name).filter(|one| rig.holder(one) == "a").collect();
        for account in &of_a {
            rig.login(account, "a", 10 * MINUTE);
        }
        rig.detach("m", "a", 0);
        rig.attach("m", next);
        rig.check();
        let of_b = |holders: &[String]| holders.iter().filter(|one| *one == "b").count();
        assert_eq!(of_b(&holders_of(&rig)), 8, "{next} takes nothing from b");
        // One logs out, and the other logins end at their deadline.
        let epoch = rig.account(&of_a[0]).login.as_ref().unwrap().epoch;
        rig.logout(&of_a[0], epoch);
        assert_eq!(rig.holder(&of_a[0]), next);
        rig.pass(10 * MINUTE);
        rig.check();
        let after = holders_of(&rig);
        assert_eq!((after == before, of_b(&after)), (own, 8));
        assert!(after.iter().all(|holder| holder == "b" || holder == next), "{after:?}");
    }
}

#[test]
fn an_instance_that_leaves_again_does_not_get_its_accounts() {
    let mut rig = places(8, &["a", "b", "c", "d"]);
    let account = (0..8).map(name).find(|one| rig.holder(one) == "a").unwrap();
    rig.login(&account, "a", HOUR);
    rig.detach("m", "a", 0);
    rig.attach("m", "a");
    rig.detach("m", "a", 0);
    rig.attach("m", "e");
    rig.pass(HOUR);
    assert_eq!(rig.shares("m"), [2, 2, 2, 2]);
    rig.check();
}

#[test]
fn a_free_account_goes_to_the_instance_that_asks() {
    let mut rig = Rig::new(Settings::default());
    let settings =
        ModuleSettings { module: b"m", instances: 2, reserve: Some(1), ..ModuleSettings::default() };
    module(&mut rig, settings);
    rig.attach("m", "a");
    rig.attach("m", "b");
    rig.add("m", 0..17);
    rig.settle();
    assert_eq!(rig.shares("m"), [8, 8]);
    for account in rig.picked("m", "b") {
        rig.login(&account, "b", HOUR);
    }
    let deleted = (0..17).map(name).find(|one| rig.holder(one) == "a").unwrap();
    rig.ask(ManagerRequest::Del { accounts: vec![deleted.as_bytes()] }).unwrap();
    rig.settle();
    rig.ask(InstanceRequest::Pick { module: b"m", instance: b"b", count: 1 }).unwrap();
    assert_eq!(rig.picked("m", "b").len(), 1);
    rig.settle();
    assert_eq!((rig.picked("m", "b").len(), rig.shares("m")), (1, vec![7, 9]), "nobody takes it away");
    rig.check();
}

#[test]
fn shares_follow_the_number_of_places_and_of_accounts() {
    let mut rig = places(20, &["a", "b"]);
    assert_eq!(rig.shares("m"), [5, 5]);
    rig.add("m", 20..24);
    rig.settle();
    assert_eq!(rig.shares("m"), [6, 6]);
    module(&mut rig, ModuleSettings { module: b"m", instances: 2, ..ModuleSettings::default() });
    rig.settle();
    assert_eq!(rig.shares("m"), [12, 12]);
    module(&mut rig, ModuleSettings { module: b"m", instances: 3, ..ModuleSettings::default() });
    rig.settle();
    assert_eq!(rig.shares("m"), [12, 12], "nobody gives back for a place that is empty");
    rig.attach("m", "c");
    assert_eq!(rig.shares("m"), [8, 8, 8]);
    let share = Some(Share::Present);
    module(&mut rig, ModuleSettings { module: b"m", instances: 6, share, ..ModuleSettings::default() });
    rig.settle();
    assert_eq!(rig.shares("m"), [8, 8, 8]);
    rig.check();
}

#[test]
fn accounts_of_an_empty_place_are_lent_after_a_time_and_for_a_saving() {
    let mut rig = places(8, &["a", "b"]);
    module(&mut rig, ModuleSettings { module: b"n", instances: 1, ..ModuleSettings::default() });
    rig.attach("n", "x");
    rig.add("n", 10..11);
    rig.pass(9 * MINUTE);
    work(&mut rig, "a", 50);
    work(&mut rig, "x", 50);
    assert_eq!(rebalance(&mut rig), [], "LEND is ten minutes");
    rig.pass(MINUTE);
    let shifts = rebalance(&mut rig);
    assert!(shifts.iter().all(|one| one.from.1.is_empty() && one.avoided.0 > 0), "{shifts:?}");
    let mut to: Vec<&[u8]> = shifts.iter().map(|one| &*one.to.1).collect();
    to.sort_unstable();
    assert_eq!(to, [b"a", b"a", b"x", b"x"]);
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![4, 2], vec![3]));
    // An instance that comes to an empty place takes back what its own module borrowed.
    rig.attach("m", "c");
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![3, 2, 1], vec![3]));
    rig.check();
}

#[test]
fn free_accounts_of_a_module_without_instances_are_spare_except_its_reserve() {
    let mut rig = places(0, &[]);
    for (name, reserve) in [(b"n", 2), (b"o", 0)] {
        let reserve = Some(reserve);
        module(&mut rig, ModuleSettings { module: name, instances: 1, reserve, ..ModuleSettings::default() });
    }
    rig.add("n", 0..5);
    rig.attach("o", "x");
    rig.add("o", 10..11);
    rig.pass(HOUR);
    work(&mut rig, "x", 90);
    assert_eq!(rebalance(&mut rig).len(), 3);
    assert_eq!(rig.shares("o"), [4]);
    rig.check();
}

#[test]
fn free_account_that_is_lent_avoids_what_its_instructions_cost_elsewhere() {
    let mut rig = Rig::new(Settings { dwell: 0, turns: vec![110 * HOUR], ..Settings::default() });
    for (name, accounts) in [("m", 0..2), ("n", 10..11)] {
        let (module_name, department) = (name.as_bytes(), &b"d"[..]);
        let wish =
            ModuleSettings { module: module_name, department, instances: 1, ..ModuleSettings::default() };
        module(&mut rig, wish);
        rig.add(name, accounts);
    }
    rig.attach("m", "x");
    rig.pass(10 * HOUR);
    work(&mut rig, "x", 160);
    let shifts = rebalance(&mut rig);
    let moves: Vec<(&[u8], String)> =
        shifts.iter().map(|one| (&*one.from.0, one.avoided.to_string())).collect();
    // 100 instructions at 0.5, and 50 at 0.1 that would cost 0.5.
    assert_eq!(moves, [(&b"n"[..], "70".to_owned())]);
}

#[test]
fn lending_stays_within_the_named_level_of_departments() {
    let moves = |lend_level: i64| {
        let mut rig = Rig::new(Settings { dwell: 0, turns: vec![720 * HOUR], ..Settings::default() });
        for (name, department) in [("m", &b"a/b/c"[..]), ("n", b"a/b/d"), ("o", b"a/e"), ("p", b"f")] {
            let name = name.as_bytes();
            module(
                &mut rig,
                ModuleSettings { module: name, department, instances: 1, ..ModuleSettings::default() },
            );
        }
        rig.attach("m", "x");
        for (number, name) in ["m", "n", "o", "p"].into_iter().enumerate() {
            rig.add(name, number..number + 1);
        }
        let lend_level = Some(lend_level);
        rig.ask(ManagerRequest::Configure(Changes { lend_level, ..Changes::default() })).unwrap();
        rig.pass(HOUR);
        work(&mut rig, "x", 90);
        let mut from: Vec<u8> = rebalance(&mut rig).iter().map(|one| one.from.0[0]).collect();
        from.sort_unstable();
        String::from_utf8(from).unwrap()
    };
    assert_eq!([0, 1, 2, 3].map(moves), ["", "no", "n", ""]);
}

#[test]
fn use_of_a_department_includes_the_departments_in_it() {
    let mut rig = places(0, &[]);
    for (number, (name, department)) in
        [("o", &b"a/b/c"[..]), ("p", b"a/b"), ("q", b"a")].into_iter().enumerate()
    {
        let name = name.as_bytes();
        module(
            &mut rig,
            ModuleSettings { module: name, department, instances: 1, ..ModuleSettings::default() },
        );
        let accounts: Vec<String> = (0..=number).map(|one| format!("{number}-{one}")).collect();
        let accounts = accounts.iter().map(String::as_bytes).collect();
        rig.ask(ManagerRequest::add(Some(name), tariff(), accounts)).unwrap();
    }
    let sums = rig.book.usage_by_department(0);
    let accounts: Vec<(&[u8], u32)> = sums.iter().map(|(name, sum)| (&**name, sum.accounts)).collect();
    assert_eq!(accounts, [(&b"a"[..], 6), (b"a/b", 3), (b"a/b/c", 1), (b"d", 0)]);
}
