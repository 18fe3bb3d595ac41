//! Logins, counted use, and which account an instance uses next.

use super::rig::{HOUR, Rig, login, name, usage};
use allot_core::account::request::{Changes, InstanceRequest, ManagerRequest};
use allot_core::account::tariff::Tariff;
use allot_core::account::{Reply, Settings};

const MINUTE: i64 = 60_000;

#[test]
fn a_login_is_exclusive_and_the_same_terminal_gets_a_new_epoch() {
    let mut rig = Rig::with(10, 4, &["a", "b"]);
    let account = name(0);
    let holder = rig.holder(&account);
    let other = if holder == "a" { "b" } else { "a" };
    assert_eq!(rig.code(login(&account, other, "t", MINUTE)), "NOTOWNER");
    let first = rig.login(&account, &holder, MINUTE);
    assert_eq!(rig.code(login(&account, &holder, "elsewhere", MINUTE)), "NOTOWNER");
    let second = rig.login(&account, &holder, MINUTE);
    assert!(second > first);
    assert_eq!(rig.code(usage(&account, first, 1)), "STALE");
    assert_eq!(rig.logout(&account, first), Reply::Integer(0), "a late logout cannot end the next login");
    assert_eq!(rig.code(usage(&account, second, 1)), "OK");
    // Its deadline ends it.
    rig.pass(MINUTE);
    assert_eq!(rig.code(usage(&account, second, 1)), "STALE");
    let ttl = MINUTE;
    assert_eq!(rig.code(InstanceRequest::Renew { account: account.as_bytes(), epoch: second, ttl }), "STALE");
    assert_eq!(rig.code(login(&account, &holder, "elsewhere", MINUTE)), "OK");
    rig.check();
}

#[test]
fn use_is_counted_by_steps_and_the_cap_refuses_before_it_counts() {
    let mut rig = Rig::with(1, 1, &["a"]);
    rig.ask(ManagerRequest::Configure(Changes { cap: Some(160), ..Changes::default() })).unwrap();
    let account = name(0);
    let epoch = rig.login(&account, "a", HOUR);
    let mut told = Vec::new();
    for count in [100, 1, 49, 10] {
        let Ok(Reply::Used(used)) = rig.ask(usage(&account, epoch, count)) else { panic!() };
        told.push((used.used, used.left, used.step, used.cost.to_string()));
    }
    let expected = [(100, 0, 0, "0"), (101, 0, 1, "0.1"), (150, 0, 1, "5"), (160, 0, 2, "10")];
    assert_eq!(told, expected.map(|(used, left, step, cost)| (used, left, step, cost.to_owned())));
    assert_eq!(rig.code(usage(&account, epoch, 1)), "LIMIT");
    assert_eq!(rig.account(&account).used_in(0), 160);
    // By the epoch of the assignment, for an instance that does not log in.
    rig.logout(&account, epoch);
    let assignment = rig.account(&account).epoch;
    assert_eq!(rig.code(usage(&account, assignment, 1)), "LIMIT");
    assert_eq!(rig.code(usage(&account, epoch, 1)), "STALE");
    rig.check();
}

#[test]
fn a_month_turns_at_its_instant_and_twelve_are_kept() {
    let turns: Vec<i64> = (1..=14).map(|month| month * 100 * HOUR).collect();
    let mut rig = Rig::with(1, 1, &["a"]);
    rig.ask(ManagerRequest::Configure(Changes { turns: Some(turns.clone()), ..Changes::default() })).unwrap();
    let account = name(0);
    for month in 0..15u64 {
        let epoch = rig.login(&account, "a", HOUR);
        assert_eq!(rig.code(usage(&account, epoch, 100 + month as i64)), "OK");
        assert_eq!(u64::from(rig.book.month()), month);
        let ahead = turns.get(month as usize).map_or(0, |turn| turn - rig.now);
        if ahead > 0 {
            rig.now += ahead - 1;
            rig.settle();
            assert_eq!(
                rig.account(&account).used_in(rig.book.month()),
                100 + month,
                "a millisecond before it"
            );
            rig.pass(1);
        }
    }
    let one = rig.account(&account);
    assert_eq!(one.used_in(14), 114);
    assert_eq!((one.used_in(2), one.used_in(13)), (102, 113), "twelve past months");
    assert_eq!(one.used_in(1), 0, "the thirteenth is gone");
    assert_eq!(one.cost_in(13).to_string(), "1.3");
    rig.check();
}

#[test]
fn leader_does_not_replace_the_ends_of_months_of_an_operator() {
    let mut rig = Rig::with(1, 1, &["a"]);
    let hours = |hours: &[i64]| Some(hours.iter().map(|hour| hour * HOUR).collect::<Vec<i64>>());
    let by_leader = |rig: &mut Rig, turns: &[i64]| {
        let changes = Changes { calendar_turns: hours(turns), ..Changes::default() };
        rig.code(ManagerRequest::Configure(changes))
    };
    assert_eq!(by_leader(&mut rig, &[5, 10]), "OK");
    let changes = Changes { turns: hours(&[7]), ..Changes::default() };
    assert_eq!(rig.code(ManagerRequest::Configure(changes.clone())), "OK");
    assert_eq!(by_leader(&mut rig, &[5, 10]), "BADSTATE");
    rig.check();
    assert_eq!(rig.book.settings().turns, [7 * HOUR]);
    assert_eq!(rig.code(ManagerRequest::Configure(Changes { cap: Some(5), ..Changes::default() })), "OK");
    rig.pass(8 * HOUR);
    assert_eq!((rig.book.month(), by_leader(&mut rig, &[20])), (1, "BADSTATE"));
    let both = Changes { months: true, ..changes };
    assert_eq!(rig.code(ManagerRequest::Configure(both)), "ERR");
    assert_eq!(rig.code(ManagerRequest::Configure(Changes { months: true, ..Changes::default() })), "OK");
    assert_eq!(by_leader(&mut rig, &[20]), "OK");
    assert_eq!(rig.book.settings().turns, [20 * HOUR]);
    rig.check();
}

#[test]
fn account_with_a_cap_of_its_own_never_sends_more() {
    let mut rig = Rig::with(1, 2, &["a"]);
    let cap = |rig: &mut Rig, cap: i64| {
        let account = name(0);
        let reply =
            rig.ask(ManagerRequest::Limit { cap: Some(cap), turn: None, accounts: vec![account.as_bytes()] });
        rig.check();
        reply
    };
    assert_eq!([cap(&mut rig, 100), cap(&mut rig, 100)], [Ok(Reply::Integer(1)), Ok(Reply::Integer(0))]);
    let epochs = [0, 1].map(|number| rig.account(&name(number)).epoch);
    assert_eq!(rig.code(usage(&name(0), epochs[0], 101)), "LIMIT");
    assert_eq!(rig.code(usage(&name(0), epochs[0], 100)), "OK");
    rig.check();
    assert_eq!(rig.picked("m", "a"), [name(1)], "an account that must not be paid for is not picked");
    rig.ask(usage(&name(1), epochs[1], 140)).unwrap();
    rig.pass(HOUR);
    // Of 10 at 0.1 and all others at 0.5, none is sent with the account that has reached its cap.
    let module = rig.book.find_module(b"m").unwrap();
    let forecast = rig.book.projected_of(module, rig.now).unwrap();
    assert_eq!(forecast.cost.0, (i128::from(forecast.more - 10) * 5 + 10) * 100_000_000);
    // The lower cap counts.
    rig.ask(ManagerRequest::Configure(Changes { cap: Some(90), ..Changes::default() })).unwrap();
    assert_eq!(rig.picked("m", "a"), Vec::<String>::new());
    rig.ask(ManagerRequest::Configure(Changes { cap: Some(0), ..Changes::default() })).unwrap();
    cap(&mut rig, 0).unwrap();
    assert_eq!(rig.picked("m", "a"), [name(0), name(1)]);
    assert_eq!(rig.code(usage(&name(0), epochs[0], 1)), "OK");
    assert_eq!(
        rig.code(ManagerRequest::Limit { cap: Some(-1), turn: None, accounts: vec![name(0).as_bytes()] }),
        "ERR"
    );
}

#[test]
fn pick_returns_idle_accounts_with_the_most_use_left() {
    let mut rig = Rig::with(1, 3, &["a"]);
    for (number, used) in [(0, 50), (1, 10), (2, 90)] {
        let account = name(number);
        let epoch = rig.login(&account, "a", HOUR);
        rig.ask(usage(&account, epoch, used)).unwrap();
        rig.logout(&account, epoch);
    }
    assert_eq!(rig.picked("m", "a"), [1, 0, 2].map(name));
    rig.login(&name(1), "a", HOUR);
    assert_eq!(rig.picked("m", "a"), [0, 2].map(name));
    rig.check();
}

#[test]
fn pick_skips_accounts_that_the_cap_refuses() {
    let mut rig = Rig::new(Settings { cap: 160, ..Settings::default() });
    rig.module("m", 1, 0);
    rig.attach("m", "a");
    rig.add("m", 0..2);
    let large = Tariff { quota: 1000, steps: vec![] };
    let accounts = vec![&b"large"[..]];
    rig.ask(ManagerRequest::add(Some(b"m"), large, accounts)).unwrap();
    rig.settle();
    assert_eq!(rig.picked("m", "a"), ["large".to_owned(), name(1), name(0)]);
    let assignment = rig.account("large").epoch;
    // Less is left of it below the cap than of the others at the flat price.
    rig.ask(usage("large", assignment, 70)).unwrap();
    assert_eq!(rig.picked("m", "a"), [name(1), name(0), "large".to_owned()]);
    rig.ask(usage("large", assignment, 90)).unwrap();
    assert_eq!(rig.code(usage("large", assignment, 1)), "LIMIT");
    assert_eq!(rig.picked("m", "a"), [name(1), name(0)]);
    rig.check();
    // An instance that joins may still get the account, and another cap or another month opens it again.
    let cap = |rig: &mut Rig, cap| {
        rig.ask(ManagerRequest::Configure(Changes { cap: Some(cap), ..Changes::default() })).unwrap();
        rig.check();
        rig.picked("m", "a")
    };
    assert_eq!(cap(&mut rig, 0), ["large".to_owned(), name(1), name(0)]);
    assert_eq!(cap(&mut rig, 50), [name(1), name(0)]);
    let turns = Some(vec![rig.now + HOUR]);
    rig.ask(ManagerRequest::Configure(Changes { turns, ..Changes::default() })).unwrap();
    rig.pass(HOUR);
    assert_eq!(rig.picked("m", "a"), ["large".to_owned(), name(1), name(0)]);
    rig.check();
}

#[test]
fn pick_takes_the_cheapest_next_instruction() {
    let mut rig = Rig::with(1, 2, &["a"]);
    // 60 instructions beyond the flat price of both: 30 of each at 0.1, and not 60 of one up to 0.5.
    for _ in 0..26 {
        let picked = rig.picked("m", "a")[0].clone();
        let assignment = rig.account(&picked).epoch;
        rig.ask(usage(&picked, assignment, 10)).unwrap();
    }
    let cost: i128 = [0, 1].map(|number| rig.account(&name(number)).cost_in(0).0).iter().sum();
    assert_eq!(allot_core::account::tariff::Amount(cost).to_string(), "6");
    rig.check();
}

#[test]
fn pick_that_finds_nothing_gets_an_account_of_the_module() {
    let pick = |rig: &mut Rig, instance: &str| {
        let instance = instance.as_bytes();
        rig.ask(InstanceRequest::Pick { module: b"m", instance, count: 1 }).unwrap();
        rig.settle();
        rig.check();
        rig.picked("m", std::str::from_utf8(instance).unwrap())
    };
    // From the reserve.
    let mut rig = Rig::new(Settings::default());
    rig.module("m", 2, 1);
    rig.attach("m", "a");
    rig.attach("m", "b");
    rig.add("m", 0..3);
    rig.settle();
    assert_eq!(rig.shares("m"), [1, 1]);
    let own = rig.picked("m", "a")[0].clone();
    assert_eq!(pick(&mut rig, "a"), std::slice::from_ref(&own), "it has one");
    rig.login(&own, "a", HOUR);
    assert_eq!((pick(&mut rig, "a").len(), rig.shares("m")), (1, vec![2, 1]));
    // No account is left that another instance can spare.
    let second = rig.picked("m", "a")[0].clone();
    rig.login(&second, "a", HOUR);
    assert_eq!((pick(&mut rig, "a").len(), rig.shares("m")), (0, vec![2, 1]));
    // From the instance with the most accounts, which keeps at least as many as the one that asks has.
    rig.add("m", 3..20);
    rig.settle();
    let shares = rig.shares("m");
    for account in rig.picked("m", "a") {
        rig.login(&account, "a", HOUR);
    }
    for _ in 0..3 {
        for account in pick(&mut rig, "a") {
            rig.login(&account, "a", HOUR);
        }
    }
    assert_eq!(rig.shares("m"), [shares[0] + 1, shares[1]], "the reserve, but b has fewer than a");
    let mut rig = Rig::with(2, 6, &["a", "b"]);
    for _ in 0..6 {
        for account in pick(&mut rig, "a") {
            rig.login(&account, "a", HOUR);
        }
    }
    assert_eq!(rig.shares("m"), [4, 2]);
}

#[test]
fn pick_that_finds_nothing_asks_the_instance_with_the_most_to_spare() {
    // Instance a is logged in with its three accounts, b and c with so many of theirs. Which instance gives one to a?
    let giver = |b: usize, c: usize| {
        let mut rig = Rig::with(3, 9, &["a", "b", "c"]);
        for (instance, count) in [("a", 3), ("b", b), ("c", c)] {
            for account in rig.picked("m", instance).iter().take(count) {
                rig.login(account, instance, HOUR);
            }
        }
        let before = rig.shares("m");
        rig.ask(InstanceRequest::Pick { module: b"m", instance: b"a", count: 1 }).unwrap();
        rig.settle();
        rig.check();
        let after = rig.shares("m");
        (0..3).filter(|&place| after[place] < before[place]).collect::<Vec<_>>()
    };
    assert_eq!([giver(0, 1), giver(1, 0), giver(2, 1), giver(3, 2)], [[1], [2], [2], [2]]);
    assert!(giver(3, 3).is_empty());
}
