//! Rebalancing takes no instance below its minimum, and acts only on evidence and for a saving.

use super::rig::{HOUR, Rig, name, tariff, usage};
use allot_core::account::place::Share;
use allot_core::account::rebalance::{Reason, Shift};
use allot_core::account::request::{Changes, ManagerRequest, ModuleSettings};
use allot_core::account::tariff::Amount;
use allot_core::account::{Reply, Settings};

const MINUTE: i64 = 60_000;

fn rebalance(rig: &mut Rig) -> Vec<Shift> {
    let reply = rig.ask(ManagerRequest::Rebalance { dry_run: false, max_moves: 100 });
    let Ok(Reply::Moves(shifts)) = reply else { panic!("{reply:?}") };
    rig.settle();
    rig.check();
    shifts
}

/// A month of so many hours whose moves wait for nothing.
fn month(hours: i64) -> Rig {
    Rig::new(Settings { dwell: 0, max_moves: 1000, turns: vec![hours * HOUR], ..Settings::default() })
}

fn module(rig: &mut Rig, module: &str, instances: i64, min: Option<i64>) {
    let (module, department) = (module.as_bytes(), &b"d"[..]);
    let share = Some(Share::Present);
    let settings = ModuleSettings { module, department, instances, min, share, ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(settings)).unwrap();
}

/// An instance works with one of its accounts.
fn work(rig: &mut Rig, instance: &str, count: i64) {
    let all: Vec<String> = (0..200).map(name).filter(|one| rig.book.find(one.as_bytes()).is_some()).collect();
    let account = all.into_iter().find(|account| rig.holder(account) == instance).unwrap();
    let epoch = rig.account(&account).epoch;
    rig.ask(usage(&account, epoch, count)).unwrap();
}

#[test]
fn quiet_instances_keep_the_minimum_of_their_module() {
    for (min, kept) in [(None, 1), (Some(0), 0), (Some(3), 3)] {
        let mut rig = month(720);
        module(&mut rig, "m", 2, min);
        module(&mut rig, "n", 1, min);
        rig.attach("m", "busy");
        rig.attach("m", "quiet");
        rig.attach("n", "other");
        rig.add("m", 0..10);
        rig.add("n", 10..15);
        for _ in 0..40 {
            rig.pass(HOUR);
            work(&mut rig, "busy", 90);
            rebalance(&mut rig);
        }
        assert_eq!(
            (rig.shares("m"), rig.shares("n")),
            (vec![15 - 2 * kept, kept], vec![kept]),
            "MIN {min:?}"
        );
    }
}

#[test]
fn an_instance_below_the_minimum_comes_first_and_others_keep_theirs() {
    let mut rig = month(720);
    for (name, min) in [("m", 2), ("n", 1)] {
        module(&mut rig, name, 1, Some(min));
        rig.attach(name, name);
    }
    rig.add("m", 0..4);
    rig.settle();
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![4], vec![0]));
    rig.pass(2 * HOUR);
    work(&mut rig, "m", 90);
    let moves = rebalance(&mut rig);
    let told: Vec<_> = moves.iter().map(|one| (&*one.to.1, one.avoided, one.reason)).collect();
    assert_eq!(told, [(&b"n"[..], Amount(0), Reason::Min)]);
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![3], vec![1]));
    module(&mut rig, "n", 1, Some(9));
    rig.pass(1);
    assert_eq!(rebalance(&mut rig).len(), 1, "m keeps two");
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![2], vec![2]));
}

#[test]
fn an_even_assignment_leaves_an_instance_its_last_account() {
    let mut rig = month(720);
    module(&mut rig, "m", 3, None);
    module(&mut rig, "n", 1, None);
    rig.attach("m", "a");
    rig.attach("n", "x");
    rig.add("m", 0..5);
    rig.add("n", 10..11);
    for _ in 0..4 {
        rig.pass(2 * HOUR);
        work(&mut rig, "x", 90);
        rebalance(&mut rig);
    }
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![1], vec![5]));
    rig.attach("m", "b");
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![1, 0], vec![5]));
    // x is the one that has some to give.
    assert_eq!(rebalance(&mut rig)[0].reason, Reason::Min);
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![1, 1], vec![4]));
}

#[test]
fn a_move_that_avoids_no_cost_or_less_than_the_margin_is_not_made() {
    let moves = |price: &str, margin: &str| {
        let mut rig = month(720);
        module(&mut rig, "m", 2, None);
        for instance in ["a", "b"] {
            rig.attach("m", instance);
        }
        let mut tariff = tariff();
        tariff.steps.iter_mut().for_each(|step| step.price = Amount::parse_price(price.as_bytes()).unwrap());
        let names: Vec<String> = (0..10).map(name).collect();
        let accounts = names.iter().map(String::as_bytes).collect();
        rig.ask(ManagerRequest::add(Some(b"m"), tariff, accounts)).unwrap();
        let margin = Amount::parse_price(margin.as_bytes());
        rig.ask(ManagerRequest::Configure(Changes { margin, ..Changes::default() })).unwrap();
        rig.pass(10 * HOUR);
        work(&mut rig, "a", 400);
        let moves = rebalance(&mut rig);
        assert!(moves.iter().all(|one| one.avoided.0 > 0 && one.avoided >= margin.unwrap()), "{moves:?}");
        moves.len()
    };
    assert_eq!(moves("0", "0"), 0, "nothing costs extra");
    assert_eq!(moves("0.1", "0"), 4);
    assert_eq!((moves("0.1", "10"), moves("0.1", "10.000000001")), (4, 0), "each avoids 100 at 0.1");
}

#[test]
fn forecast_is_unknown_until_an_hour_or_a_hundredth_of_the_quota_is_seen() {
    let start = || {
        let mut rig = month(100);
        module(&mut rig, "m", 2, None);
        rig.now = 7 * HOUR + 50 * MINUTE;
        for instance in ["a", "b"] {
            rig.attach("m", instance);
        }
        rig.add("m", 0..10);
        rig.settle();
        rig
    };
    let projected = |rig: &Rig, instance: &[u8]| {
        let id = rig.book.find_instance(rig.book.find_module(b"m").unwrap(), instance).unwrap();
        rig.book.projected(id, rig.now).map(|projected| projected.more)
    };
    let mut rig = start();
    work(&mut rig, "a", 4);
    rig.pass(HOUR - 1);
    assert_eq!((projected(&rig, b"a"), projected(&rig, b"b")), (None, None));
    assert_eq!(rebalance(&mut rig), []);
    rig.pass(1);
    assert_eq!(projected(&rig, b"b"), Some(0));
    // 4 in an hour, and 91 hours and 10 minutes to come.
    assert_eq!(projected(&rig, b"a"), Some(364));
    // A hundredth of its five quotas is 5. The time seen counts as an hour at least, at each minute of the clock.
    let mut rig = start();
    rig.pass(MINUTE);
    work(&mut rig, "a", 5);
    assert_eq!((projected(&rig, b"a"), projected(&rig, b"b")), (Some(460), None));
}

#[test]
fn last_month_counts_by_the_part_of_the_month_that_is_to_come() {
    let mut rig = Rig::new(Settings { turns: vec![100 * HOUR, 200 * HOUR], ..Settings::default() });
    module(&mut rig, "m", 1, None);
    rig.attach("m", "a");
    rig.add("m", 0..10);
    rig.settle();
    rig.now = 90 * HOUR;
    work(&mut rig, "a", 600);
    rig.now = 100 * HOUR;
    rig.settle();
    let projected = |rig: &Rig| {
        let id = rig.book.find_instance(rig.book.find_module(b"m").unwrap(), b"a").unwrap();
        rig.book.projected(id, rig.now).unwrap().more
    };
    assert_eq!(projected(&rig), 600, "as last month");
    // A day without use: three quarters of what last month says is to come, and nothing of the pace.
    rig.pass(25 * HOUR);
    assert_eq!(projected(&rig), 337);
    work(&mut rig, "a", 24);
    rig.pass(25 * HOUR);
    rig.check();
    assert_eq!(projected(&rig), 150, "no use in the last day, and half a month is to come");
}

/// A month of a hundred hours, and a module of two places with ten accounts. The instance `first` sends 81 with
/// each of its five accounts. Then it leaves, unless it `stays` and the other one leaves; and `b` comes.
fn late_arrival(first: &str, stays: bool) -> Rig {
    let mut rig = month(100);
    let settings =
        ModuleSettings { module: b"m", department: b"d", instances: 2, ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(settings)).unwrap();
    for instance in [first, "idle"] {
        rig.attach("m", instance);
    }
    rig.add("m", 0..10);
    rig.settle();
    rig.now = 3 * HOUR;
    for account in (0..10).map(name).filter(|account| rig.holder(account) == first).collect::<Vec<_>>() {
        let epoch = rig.account(&account).epoch;
        rig.ask(usage(&account, epoch, 81)).unwrap();
    }
    rig.detach("m", if stays { "idle" } else { first }, 0);
    rig.now = 6 * HOUR;
    rig.attach("m", "b");
    rig
}

/// Where rebalancing moves accounts: just before `b` has been there for an hour, and when it has.
fn moves_around_an_hour(rig: &mut Rig) -> [Vec<(String, String)>; 2] {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    [HOUR - 1, 1].map(|later| {
        rig.pass(later);
        let moves = rebalance(rig);
        let mut moves: Vec<_> = moves.iter().map(|one| (text(&one.from.1), text(&one.to.1))).collect();
        moves.dedup();
        moves
    })
}

#[test]
fn instance_whose_need_is_unknown_gives_no_account() {
    // 19 of each of its accounts are left to `busy`, and b has sent nothing with its five.
    let mut rig = late_arrival("busy", true);
    let moved = [("b".to_owned(), "busy".to_owned())];
    assert_eq!(moves_around_an_hour(&mut rig), [vec![], moved.to_vec()]);
}

#[test]
fn instance_whose_need_is_unknown_gets_no_account() {
    // b takes the share of an instance that left 19 of each account, and sends 4 of its 500 in its first hour: 91 are
    // left, and 96 are needed in the next day.
    let mut rig = late_arrival("gone", false);
    work(&mut rig, "b", 4);
    let moved = [("idle".to_owned(), "b".to_owned())];
    assert_eq!(moves_around_an_hour(&mut rig), [vec![], moved.to_vec()]);
}

#[test]
fn forecast_does_not_depend_on_the_minute_of_the_hour() {
    const TENTH: i64 = HOUR / 10;
    let mut paces = Vec::new();
    for minute in (0..60).step_by(7) {
        let mut rig = month(100);
        module(&mut rig, "m", 1, None);
        rig.now = 7 * HOUR + minute * MINUTE;
        rig.attach("m", "a");
        rig.add("m", 0..10);
        rig.settle();
        // Three each six minutes.
        for tenths in 1..=230 {
            rig.pass(TENTH);
            work(&mut rig, "a", 3);
            if tenths < 10 {
                continue;
            }
            let id = rig.book.find_instance(rig.book.find_module(b"m").unwrap(), b"a").unwrap();
            let more = rig.book.projected(id, rig.now).unwrap().more;
            let hours = (100 * HOUR - rig.now) as f64 / HOUR as f64;
            paces.push((more as f64 / hours, minute, tenths));
        }
    }
    let by_pace = |one: &&(f64, i64, i32), other: &&(f64, i64, i32)| one.0.total_cmp(&other.0);
    let ends = (paces.iter().min_by(by_pace).unwrap(), paces.iter().max_by(by_pace).unwrap());
    assert!(ends.0.0 > 29.5 && ends.1.0 < 30.5, "30 an hour were sent: {ends:?}");
}
