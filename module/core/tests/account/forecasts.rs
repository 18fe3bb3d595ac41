//! Forecasts in instructions and in money, of modules, departments and accounts.

use super::rig::{HOUR, Rig, name, tariff, usage};
use allot_core::account::request::{Changes, ManagerRequest};
use allot_core::account::tariff::{Amount, Step, Tariff};
use allot_core::account::{Settings, read::Forecast};

const MINUTE: i64 = 60_000;

/// A book with months of a hundred hours, a module with two places, and ten accounts.
fn book(instances: &[&str]) -> Rig {
    let mut rig = Rig::new(Settings { turns: vec![100 * HOUR, 200 * HOUR], ..Settings::default() });
    rig.module("m", 2, 0);
    for instance in instances {
        rig.attach("m", instance);
    }
    rig.add("m", 0..10);
    rig.settle();
    rig
}

fn work(rig: &mut Rig, account: &str, count: i64) {
    let epoch = rig.account(account).epoch;
    assert_eq!(rig.code(usage(account, epoch, count)), "OK");
}

fn amount(text: &str) -> Amount {
    Amount::parse_price(text.as_bytes()).unwrap()
}

fn forecast(more: u64, cost: &str) -> Forecast {
    Forecast { more, cost: amount(cost) }
}

fn of_module(rig: &Rig) -> Option<Forecast> {
    let module = rig.book.projected_of(rig.book.find_module(b"m").unwrap(), rig.now);
    assert_eq!(rig.book.projected_by_department(rig.now)[&b"d"[..]], module);
    module
}

fn of_account(rig: &Rig, account: &str) -> Option<Forecast> {
    rig.book.projected_for(rig.account(account), rig.now)
}

/// The accounts of an instance.
fn accounts_of(rig: &Rig, instance: &str) -> Vec<String> {
    (0..10).map(name).filter(|account| rig.holder(account) == instance).collect()
}

/// Instance a sends 40 an hour for ten hours, with each of its five accounts as much as with the others.
fn ten_hours(rig: &mut Rig) -> Vec<String> {
    let accounts = accounts_of(rig, "a");
    assert_eq!(accounts.len(), 5);
    for hour in 0..10 {
        rig.now = hour * HOUR + 1000;
        accounts.iter().for_each(|account| work(rig, account, 8));
    }
    rig.now = 10 * HOUR;
    rig.check();
    accounts
}

#[test]
fn module_forecast_costs_the_cheapest_instructions_of_each_instance() {
    let mut rig = book(&["a", "b"]);
    assert_eq!(of_module(&rig), None, "nothing is known yet");
    let accounts = ten_hours(&mut rig);
    // 3,600 are to come at a: 100 at the flat price, 250 at 0.1, the others at 0.5. The accounts of b send nothing.
    assert_eq!(of_module(&rig), Some(forecast(3600, "1650")));
    // One account gets a price between, which has no end: 100 at the flat price, 200 at 0.1, 3,300 at 0.2.
    let cheap = Tariff { quota: 100, steps: vec![Step { upto: 1000, price: amount("0.2") }] };
    let request = ManagerRequest::Reprice { tariff: cheap, accounts: vec![accounts[0].as_bytes()] };
    rig.ask(request).unwrap();
    rig.check();
    assert_eq!(of_module(&rig), Some(forecast(3600, "680")));
    // What the cap does not let them send costs nothing: 100 free, 200 at 0.1, 50 at 0.2.
    rig.ask(ManagerRequest::Configure(Changes { cap: Some(150), ..Changes::default() })).unwrap();
    assert_eq!(of_module(&rig), Some(forecast(3600, "30")));
    rig.check();
    // The next use of the instance: 90 free, 200 at 0.1, 50 at 0.2.
    work(&mut rig, &accounts[1], 10);
    rig.check();
    assert_eq!(of_module(&rig), Some(forecast(3690, "30")));
    // Without the cap: 90 free, 200 at 0.1, 3,400 at 0.2.
    rig.ask(ManagerRequest::Configure(Changes { cap: Some(0), ..Changes::default() })).unwrap();
    assert_eq!(of_module(&rig), Some(forecast(3690, "700")));
    work(&mut rig, &accounts[1], 1);
    rig.check();
    assert_eq!(of_module(&rig), Some(forecast(3699, "702")));
}

#[test]
fn forecast_uses_accounts_without_steps_as_pick_does() {
    let mut rig = Rig::new(Settings { turns: vec![100 * HOUR], ..Settings::default() });
    rig.module("m", 1, 0);
    rig.attach("m", "a");
    let dear = Tariff { quota: 0, steps: vec![Step { upto: 1000, price: amount("1") }] };
    for (account, tariff) in [(&b"free"[..], Tariff { quota: 10, steps: vec![] }), (b"dear", dear)] {
        rig.ask(ManagerRequest::add(Some(b"m"), tariff, vec![account])).unwrap();
    }
    rig.settle();
    for _ in 0..8 {
        let picked = rig.picked("m", "a")[0].clone();
        work(&mut rig, &picked, 10);
    }
    rig.pass(HOUR);
    assert_eq!(rig.account("free").used_in(0), 80);
    assert_eq!(of_module(&rig).map(|forecast| forecast.cost), Some(amount("0")));
    rig.check();
}

#[test]
fn new_instance_without_accounts_is_expected_to_send_nothing() {
    let mut rig = book(&["a", "b"]);
    ten_hours(&mut rig);
    let before = of_module(&rig);
    assert_eq!(before, Some(forecast(3600, "1650")));
    // Both places are taken, so c waits for one.
    rig.attach("m", "c");
    rig.settle();
    assert!(accounts_of(&rig, "c").is_empty());
    assert_eq!(of_module(&rig), before);
    // With accounts it may send, and nothing is known about how much.
    rig.detach("m", "b", 0);
    rig.settle();
    assert_eq!(accounts_of(&rig, "c").len(), 5);
    assert_eq!(of_module(&rig), None);
}

#[test]
fn forecast_follows_accounts_that_move_and_begins_again_with_the_month() {
    let mut rig = book(&["a", "b"]);
    let accounts = ten_hours(&mut rig);
    // An instance that leaves gives its five accounts to a: 500 more at the flat price, and 250 at 0.1.
    rig.detach("m", "b", 0);
    assert_eq!(accounts_of(&rig, "a").len(), 10);
    rig.check();
    assert_eq!(of_module(&rig), Some(forecast(3600, "1300")));
    // Its five accounts that are used most are frozen: 500 at the flat price, 250 at 0.1, 2,850 at 0.5.
    for account in &accounts {
        rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on: true, until: None }).unwrap();
    }
    rig.check();
    assert_eq!(of_module(&rig), Some(forecast(3600, "1450")));
    for account in &accounts {
        rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on: false, until: None }).unwrap();
    }
    rig.settle();
    accounts.iter().for_each(|account| work(&mut rig, account, 100));
    // A new month, in which the 900 of the last one are expected, from ten accounts that have sent nothing in it.
    rig.now = 100 * HOUR;
    rig.settle();
    rig.check();
    assert_eq!(of_module(&rig), Some(forecast(900, "0")));
}

#[test]
fn account_forecast_needs_an_hour_or_a_hundredth_of_the_quota() {
    let mut rig = book(&["a"]);
    rig.now = 20 * HOUR;
    rig.add("m", 10..11);
    rig.settle();
    let late = name(10);
    assert_eq!((of_account(&rig, &name(0)), of_account(&rig, &late)), (Some(forecast(0, "0")), None));
    rig.pass(HOUR - 1);
    assert_eq!(of_account(&rig, &late), None);
    rig.pass(1);
    assert_eq!(of_account(&rig, &late), Some(forecast(0, "0")));
    // 40 in two hours, of 78 hours to come: the account was not there before. 60 are free, 50 cost 0.1, the others 0.5.
    work(&mut rig, &late, 40);
    rig.pass(HOUR);
    assert_eq!(of_account(&rig, &late), Some(forecast(1560, "730")));
    // A hundredth of the quota is 1. The time seen counts as an hour at least.
    let mut rig = book(&["a"]);
    rig.pass(MINUTE);
    assert_eq!(of_account(&rig, &name(0)), None);
    work(&mut rig, &name(0), 1);
    assert_eq!(of_account(&rig, &name(0)).unwrap().more, 99);
}

#[test]
fn account_forecast_weighs_the_last_month_by_what_is_to_come() {
    let mut rig = book(&["a"]);
    let account = name(0);
    work(&mut rig, &account, 600);
    assert_eq!(rig.account(&account).cost_in(0), amount("230"));
    rig.now = 100 * HOUR - 1;
    assert!(of_account(&rig, &account).is_some());
    // The month is over, and the next one has not begun in the book.
    rig.now = 100 * HOUR;
    assert_eq!(of_account(&rig, &account), None);
    rig.settle();
    assert_eq!(of_account(&rig, &account), Some(forecast(600, "230")), "as last month");
    // Half of the month has passed without use: the last month says 300, and counts by half.
    rig.pass(50 * HOUR);
    assert_eq!(of_account(&rig, &account), Some(forecast(150, "5")));
    assert_eq!(tariff().cost(150), amount("5"));
}
