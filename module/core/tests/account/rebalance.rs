//! What rebalancing moves, and what it leaves.

use super::rig::{HOUR, Rig, name, tariff, usage};
use allot_core::account::rebalance::Shift;
use allot_core::account::request::{Changes, ManagerRequest, ModuleSettings};
use allot_core::account::{InstanceEvent, Reply, Settings};

fn rebalance(rig: &mut Rig, max_moves: i64) -> Vec<Shift> {
    let reply = rig.ask(ManagerRequest::Rebalance { dry_run: false, max_moves });
    let Ok(Reply::Moves(shifts)) = reply else { panic!("{reply:?}") };
    rig.settle();
    rig.check();
    shifts
}

fn names(shifts: &[Shift]) -> Vec<String> {
    shifts.iter().map(|shift| String::from_utf8_lossy(&shift.account).into_owned()).collect()
}

/// Somebody works with an account of an instance.
fn work(rig: &mut Rig, instance: &str, accounts: std::ops::Range<usize>, count: i64) {
    let account = accounts.map(name).find(|account| rig.holder(account) == instance).unwrap();
    let epoch = rig.account(&account).epoch;
    rig.ask(usage(&account, epoch, count)).unwrap();
}

/// A module with one instance of its name, and accounts.
fn module(rig: &mut Rig, module: &str, department: &str, weight: i64, accounts: std::ops::Range<usize>) {
    let wish = ModuleSettings {
        module: module.as_bytes(),
        department: department.as_bytes(),
        instances: 1,
        weight: Some(weight),
        reserve: None,
        ..ModuleSettings::default()
    };
    rig.ask(ManagerRequest::Module(wish)).unwrap();
    rig.attach(module, module);
    let names: Vec<String> = accounts.map(name).collect();
    let accounts = names.iter().map(String::as_bytes).collect();
    rig.ask(ManagerRequest::add(Some(module.as_bytes()), tariff(), accounts)).unwrap();
    rig.settle();
}

/// A book at its tenth hour, with a hundred more in the month, where nobody waits for an account to stay.
fn tenth_hour() -> Rig {
    let settings = Settings { dwell: 0, turns: vec![110 * HOUR], ..Settings::default() };
    Rig::new(settings)
}

#[test]
fn an_account_is_moved_twice_a_day_at_most() {
    let mut rig = Rig::with(2, 6, &["a", "b"]);
    let (module, department, min) = (&b"m"[..], &b"d"[..], Some(0));
    let settings = ModuleSettings { module, department, instances: 2, min, ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(settings)).unwrap();
    let (dwell, turns) = (Some(0), Some(vec![rig.now + 20 * 24 * HOUR]));
    rig.ask(ManagerRequest::Configure(Changes { dwell, turns, ..Changes::default() })).unwrap();
    rig.now = 22 * HOUR;
    let of = |rig: &Rig, instance: &str| -> Vec<String> {
        (0..6).map(name).filter(|account| rig.holder(account) == instance).collect()
    };
    let shift = |rig: &mut Rig, account: &str, instance: &str| {
        let (module, instance) = (b"m"[..].into(), instance.as_bytes().into());
        rig.apply(&InstanceEvent::Shifted { account: account.as_bytes().into() }.of(module, instance));
    };
    // Demand goes to and fro: these were moved there and back, and one once.
    let (once, twice) = (of(&rig, "a")[0].clone(), of(&rig, "b"));
    for account in &twice {
        shift(&mut rig, account, "a");
        shift(&mut rig, account, "b");
    }
    shift(&mut rig, &once, "b");
    work(&mut rig, "a", 0..6, 800);
    assert_eq!(names(&rebalance(&mut rig, 100)), [once]);
    assert_eq!(rebalance(&mut rig, 100), [], "enough for today");
    rig.pass(HOUR);
    assert_eq!(rebalance(&mut rig, 100), []);
    rig.pass(HOUR);
    let mut moved = names(&rebalance(&mut rig, 100));
    moved.sort();
    assert_eq!(moved, twice, "tomorrow is another day");
}

#[test]
fn accounts_move_to_the_largest_saving_within_their_department() {
    let mut rig = tenth_hour();
    for (number, (name, department, weight)) in
        [("m", "d", 1), ("n", "d", 1), ("z", "d", 0), ("o", "e", 1)].into_iter().enumerate()
    {
        // Three that have nothing to do have enough for everybody.
        let count = if name == "n" { 3 } else { 2 };
        module(&mut rig, name, department, weight, number * 10..number * 10 + count);
    }
    rig.now = 10 * HOUR;
    // 1,600 are to come where 100 are left at the flat price.
    for (number, busy) in [(0, "m"), (20, "z"), (30, "o")] {
        work(&mut rig, busy, number..number + 2, 160);
    }
    let shifts = rebalance(&mut rig, 100);
    let moves: Vec<(&[u8], &[u8], String)> =
        shifts.iter().map(|one| (&*one.from.0, &*one.to.0, one.avoided.to_string())).collect();
    // Each avoids 100 instructions at 0.5, and sends 50 at 0.1 that would cost 0.5.
    assert_eq!(moves, [(&b"n"[..], &b"m"[..], "70".to_owned()), (b"n", b"m", "70".to_owned())]);
    assert_eq!(["m", "n", "z", "o"].map(|module| rig.shares(module)[0]), [4, 1, 2, 2]);
    // Nor does one without a weight give.
    rig.now += 30 * HOUR;
    work(&mut rig, "m", 0..13, 70);
    work(&mut rig, "n", 10..13, 90);
    assert!(rebalance(&mut rig, 100).iter().all(|one| &*one.from.0 != b"z" && &*one.to.0 != b"z"));
    assert_eq!((rig.shares("z"), rig.shares("o")), (vec![2], vec![2]));
}

#[test]
fn the_moves_that_are_allowed_are_shared_by_departments_in_turn() {
    let mut rig = tenth_hour();
    for (number, (busy, idle, department)) in
        [("m1", "m2", "d1"), ("n1", "n2", "d2"), ("o1", "o2", "d3")].into_iter().enumerate()
    {
        let first = number * 10;
        module(&mut rig, busy, department, 1, first..first + 1);
        module(&mut rig, idle, department, 1, first + 1..first + 6);
    }
    rig.now = 10 * HOUR;
    for (number, busy) in [(0, "m1"), (10, "n1"), (20, "o1")] {
        work(&mut rig, busy, number..number + 1, 80);
    }
    let to: Vec<String> = rebalance(&mut rig, 5)
        .iter()
        .map(|shift| String::from_utf8_lossy(&shift.to.0).into_owned())
        .collect();
    assert_eq!(to, ["m1", "n1", "o1", "m1", "n1"]);
}

#[test]
fn quota_above_the_cap_is_not_spare() {
    // Ten hours of work are done and as many are to come. `m` will need 80 more than it has.
    let run = |cap: i64| {
        let settings = Settings { dwell: 0, turns: vec![20 * HOUR], ..Settings::default() };
        let mut rig = Rig::new(settings);
        module(&mut rig, "m", "d", 1, 0..1);
        module(&mut rig, "n", "d", 1, 1..3);
        rig.now = 10 * HOUR;
        work(&mut rig, "m", 0..1, 90);
        for number in 1..3 {
            let epoch = rig.account(&name(number)).epoch;
            rig.ask(usage(&name(number), epoch, 20)).unwrap();
        }
        rig.ask(ManagerRequest::Configure(Changes { cap: Some(cap), ..Changes::default() })).unwrap();
        rebalance(&mut rig, 100).len()
    };
    assert_eq!(run(0), 1, "`n` has 160 left and needs 40");
    assert_eq!(run(50), 0, "30 left of each below the cap");
    assert_eq!(run(20), 0);
}

#[test]
fn without_turns_use_is_projected_on_when_the_first_month_is_over() {
    let mut rig = Rig::with(2, 10, &["a", "b"]);
    let dwell = Some(0);
    rig.ask(ManagerRequest::Configure(Changes { dwell, ..Changes::default() })).unwrap();
    let month = 30 * 24 * HOUR;
    assert_eq!(rig.book.month_end(rig.now), 1000 + month);
    rig.now = 31 * 24 * HOUR;
    assert_eq!(rig.book.month_end(rig.now), rig.now + month);
    work(&mut rig, "a", 0..10, 650);
    let shifts = rebalance(&mut rig, 2);
    assert_eq!(shifts.len(), 2, "{shifts:?}");
    // A turn that is not applied yet ends nothing any more.
    let turns = Some(vec![rig.now + HOUR, rig.now + 3 * HOUR]);
    rig.ask(ManagerRequest::Configure(Changes { turns, ..Changes::default() })).unwrap();
    let ends = [0, HOUR].map(|later| rig.book.month_end(rig.now + later) - rig.now);
    assert_eq!(ends, [HOUR, 3 * HOUR]);
}

#[test]
fn an_account_moves_only_in_the_day_before_it_is_needed() {
    let mut rig = tenth_hour();
    module(&mut rig, "m", "d", 1, 0..2);
    module(&mut rig, "n", "d", 1, 10..13);
    rig.now = 10 * HOUR;
    // 400 more are expected in the month, but only 96 in the next day, and 160 are left.
    work(&mut rig, "m", 0..2, 40);
    assert_eq!(rebalance(&mut rig, 100), []);
    // After 20 hours, 80 are left, and 144 are expected in the next day.
    rig.now = 20 * HOUR;
    work(&mut rig, "m", 0..2, 80);
    assert_eq!(rebalance(&mut rig, 1).len(), 1);
}

#[test]
fn an_instance_keeps_what_it_needs_on_average_when_it_has_a_quiet_day() {
    let moves = |working_days: i64| {
        let settings = Settings { dwell: 0, turns: vec![720 * HOUR], ..Settings::default() };
        let mut rig = Rig::new(settings);
        module(&mut rig, "m", "d", 1, 0..1);
        module(&mut rig, "n", "d", 1, 10..15);
        for day in 0..7 {
            rig.now = (day * 24 + 12) * HOUR;
            if day < working_days {
                work(&mut rig, "n", 10..15, 14);
            }
        }
        rig.now = 7 * 24 * HOUR;
        work(&mut rig, "m", 0..1, 400);
        rebalance(&mut rig, 100).len()
    };
    assert_eq!(moves(0), 4, "n has done nothing");
    assert_eq!(moves(5), 2, "n has 430 left, and needs 230 if it works as much as on average");
}

#[test]
fn instructions_at_a_low_price_move_when_none_are_left_at_the_flat_price() {
    let settings = Settings { dwell: 0, turns: vec![34 * HOUR], ..Settings::default() };
    let mut rig = Rig::new(settings);
    module(&mut rig, "m", "d", 1, 0..1);
    module(&mut rig, "n", "d", 1, 10..13);
    rig.now = HOUR;
    for number in 10..13 {
        let epoch = rig.account(&name(number)).epoch;
        rig.ask(usage(&name(number), epoch, 100)).unwrap();
    }
    // `n` needs 92 more if it works as much as on average, and has 150 left at 0.1.
    rig.now = 26 * HOUR;
    work(&mut rig, "m", 0..1, 200);
    let shifts = rebalance(&mut rig, 1);
    let avoided: Vec<String> = shifts.iter().map(|shift| shift.avoided.to_string()).collect();
    // 50 instructions at 0.1 that `m` would send at 0.5.
    assert_eq!(avoided, ["20"]);
}
