//! Accounts whose month begins on a day of their own.

use super::rig::{Rig, name, tariff, usage};
use allot_core::account::request::{InstanceRequest, ManagerRequest};
use allot_core::account::{Decision, Reply, Request, Settings, decide};

const DAY: i64 = 24 * 3_600_000;

/// A book whose months end after so many days, with a module m and its instance a.
fn book(ends: &[i64]) -> Rig {
    let turns = ends.iter().map(|end| end * DAY).collect();
    let mut rig = Rig::new(Settings { turns, ..Settings::default() });
    rig.module("m", 1, 0);
    rig.attach("m", "a");
    rig
}

/// Lets the time pass until a day of the book has begun, counted from 0.
fn pass_to(rig: &mut Rig, day: i64) {
    // The book was opened a second after 1970 began.
    rig.pass(day * DAY + 1000 - rig.now);
    rig.check();
}

fn add(rig: &mut Rig, account: usize, turn: Option<i64>) {
    let name = name(account);
    let (module, accounts) = (Some(&b"m"[..]), vec![name.as_bytes()]);
    rig.ask(ManagerRequest::Add { module, department: None, tariff: tariff(), turn, accounts }).unwrap();
    rig.settle();
    rig.check();
}

fn set_turn(rig: &mut Rig, account: usize, day: i64) -> Result<Reply, &'static str> {
    let name = name(account);
    let limit = ManagerRequest::Limit { cap: None, turn: Some(day), accounts: vec![name.as_bytes()] };
    let reply = rig.ask(limit).map_err(|refusal| refusal.code.word());
    rig.check();
    reply
}

fn work(rig: &mut Rig, account: usize, count: i64) -> &'static str {
    let epoch = rig.account(&name(account)).epoch;
    let code = rig.code(usage(&name(account), epoch, count));
    rig.check();
    code
}

/// Instructions of the month of the book and of the account, what is left, and the cost of the month of the book.
fn state(rig: &Rig, account: usize) -> (u64, u64, u64, String) {
    let (account, month) = (rig.account(&name(account)), rig.book.month());
    let cost = account.cost_in(month).to_string();
    (account.used_in(month), account.position(month), account.left(month), cost)
}

fn is(used: u64, position: u64, left: u64, cost: &str) -> (u64, u64, u64, String) {
    (used, position, left, cost.to_owned())
}

/// As the server does while thousands of accounts turn at once: this one has not turned yet.
fn ask_early<'a>(rig: &mut Rig, request: impl Into<Request<'a>>) {
    let Decision { events, .. } = decide(&rig.book, rig.now, &request.into()).unwrap();
    events.iter().for_each(|event| rig.apply(event));
    rig.check();
}

#[test]
fn what_is_counted_before_a_turn_was_carried_out_belongs_to_the_new_month() {
    let mut rig = book(&[30]);
    add(&mut rig, 0, Some(11));
    assert_eq!(work(&mut rig, 0, 120), "OK");
    rig.now = 10 * DAY + 1000;
    let epoch = rig.account(&name(0)).epoch;
    ask_early(&mut rig, usage(&name(0), epoch, 30));
    assert_eq!(state(&rig, 0), is(150, 30, 70, "2"));
    rig.settle();
    assert_eq!(state(&rig, 0), is(150, 30, 70, "2"));
}

#[test]
fn another_day_after_a_turn_that_was_not_carried_out_begins_with_nothing() {
    let mut rig = book(&[30]);
    add(&mut rig, 0, Some(11));
    assert_eq!(work(&mut rig, 0, 120), "OK");
    rig.now = 20 * DAY + 1000;
    let account = name(0);
    let limit = ManagerRequest::Limit { cap: None, turn: Some(16), accounts: vec![account.as_bytes()] };
    ask_early(&mut rig, limit);
    assert_eq!(state(&rig, 0), is(120, 0, 100, "2"));
    rig.settle();
    assert_eq!(state(&rig, 0), is(120, 0, 100, "2"));
}

#[test]
fn account_turns_on_its_day_and_the_ledger_with_the_book() {
    let mut rig = book(&[30, 60]);
    add(&mut rig, 0, Some(11));
    add(&mut rig, 1, None);
    assert_eq!([work(&mut rig, 0, 120), work(&mut rig, 1, 120)], ["OK", "OK"]);
    rig.pass(10 * DAY - 1);
    assert_eq!([0, 1].map(|one| state(&rig, one)), [is(120, 120, 0, "2"), is(120, 120, 0, "2")]);
    pass_to(&mut rig, 10);
    assert_eq!([0, 1].map(|one| state(&rig, one)), [is(120, 0, 100, "2"), is(120, 120, 0, "2")]);
    assert_eq!(rig.picked("m", "a"), [name(0), name(1)], "the cheaper instruction first");
    assert_eq!(work(&mut rig, 0, 130), "OK");
    assert_eq!(state(&rig, 0), is(250, 130, 0, "5"));
    // A month of the book ends, and the account's own goes on.
    pass_to(&mut rig, 30);
    assert_eq!([0, 1].map(|one| state(&rig, one)), [is(0, 130, 0, "0"), is(0, 0, 100, "0")]);
    assert_eq!(rig.book.usage_by_module(1)[&b"m"[..]].left, 100);
    assert_eq!(work(&mut rig, 0, 10), "OK");
    assert_eq!(state(&rig, 0), is(10, 140, 0, "1"));
    let past = &rig.book.usage_by_module(0)[&b"m"[..]];
    assert_eq!((past.accounts, past.quota, past.used, past.cost.to_string().as_str()), (2, 200, 370, "7"));
    pass_to(&mut rig, 40);
    assert_eq!(state(&rig, 0), is(10, 0, 100, "1"));
}

#[test]
fn account_turns_at_the_end_of_a_month_that_is_too_short() {
    let mut rig = book(&[5, 10]);
    add(&mut rig, 0, Some(28));
    assert_eq!(work(&mut rig, 0, 30), "OK");
    pass_to(&mut rig, 5);
    assert_eq!(state(&rig, 0), is(0, 0, 100, "0"));
    assert_eq!(work(&mut rig, 0, 40), "OK");
    // The last month has no end, so the day comes.
    pass_to(&mut rig, 10);
    assert_eq!(work(&mut rig, 0, 50), "OK");
    pass_to(&mut rig, 36);
    assert_eq!(state(&rig, 0), is(50, 50, 50, "0"));
    pass_to(&mut rig, 37);
    assert_eq!(state(&rig, 0), is(50, 0, 100, "0"));
}

#[test]
fn turn_of_an_account_can_be_set_and_given_up() {
    let mut rig = book(&[30, 60]);
    add(&mut rig, 0, None);
    pass_to(&mut rig, 4);
    assert_eq!(work(&mut rig, 0, 60), "OK");
    assert_eq!([set_turn(&mut rig, 0, 0), set_turn(&mut rig, 0, 29)], [Err("ERR"), Err("ERR")]);
    assert_eq!(
        [set_turn(&mut rig, 0, 3), set_turn(&mut rig, 0, 3)].map(Result::unwrap),
        [1, 0].map(Reply::Integer)
    );
    assert_eq!(state(&rig, 0), is(60, 60, 40, "0"), "the day of this month has passed");
    pass_to(&mut rig, 30);
    assert_eq!(state(&rig, 0), is(0, 60, 40, "0"));
    pass_to(&mut rig, 31);
    assert_eq!(work(&mut rig, 0, 10), "OK");
    pass_to(&mut rig, 32);
    assert_eq!(work(&mut rig, 0, 20), "OK");
    assert_eq!(state(&rig, 0), is(30, 20, 80, "0"));
    // The day is moved ahead, so it comes twice in this month.
    assert_eq!(set_turn(&mut rig, 0, 6), Ok(Reply::Integer(1)));
    pass_to(&mut rig, 35);
    assert_eq!(work(&mut rig, 0, 5), "OK");
    assert_eq!(state(&rig, 0), is(35, 5, 95, "0"));
    // The first day is that of the book, with all use of its month.
    assert_eq!(set_turn(&mut rig, 0, 1), Ok(Reply::Integer(1)));
    assert_eq!(state(&rig, 0), is(35, 35, 65, "0"));
    pass_to(&mut rig, 60);
    assert_eq!(state(&rig, 0), is(0, 0, 100, "0"));
    let account = name(0);
    let nothing = ManagerRequest::Limit { cap: None, turn: None, accounts: vec![account.as_bytes()] };
    assert_eq!(rig.code(nothing), "ERR");
}

#[test]
fn cap_holds_until_the_turn_also_over_a_deletion() {
    let mut rig = book(&[30, 60, 90]);
    add(&mut rig, 0, Some(11));
    let account = name(0);
    rig.ask(ManagerRequest::Limit { cap: Some(100), turn: None, accounts: vec![account.as_bytes()] })
        .unwrap();
    pass_to(&mut rig, 20);
    assert_eq!([work(&mut rig, 0, 100), work(&mut rig, 0, 1)], ["OK", "LIMIT"]);
    pass_to(&mut rig, 29);
    rig.ask(ManagerRequest::Del { accounts: vec![account.as_bytes()] }).unwrap();
    pass_to(&mut rig, 35);
    add(&mut rig, 0, None);
    assert_eq!((work(&mut rig, 0, 1), state(&rig, 0)), ("LIMIT", is(0, 100, 0, "0")));
    pass_to(&mut rig, 40);
    assert_eq!([work(&mut rig, 0, 100), work(&mut rig, 0, 1)], ["OK", "LIMIT"]);
    // Once its own month is over, a deleted account is forgotten with the month of the book.
    pass_to(&mut rig, 41);
    let epoch = rig.account(&account).epoch;
    let report = || InstanceRequest::Report { account: account.as_bytes(), epoch, total: 0 };
    rig.ask(ManagerRequest::Del { accounts: vec![account.as_bytes()] }).unwrap();
    pass_to(&mut rig, 69);
    assert_eq!(rig.code(report()), "OK", "its own month goes on");
    pass_to(&mut rig, 90);
    assert_eq!(rig.code(report()), "NOTFOUND");
    add(&mut rig, 0, None);
    assert_eq!((rig.account(&account).cap, rig.account(&account).tally.day()), (0, 1));
}

#[test]
fn forecast_prices_what_comes_after_the_turn_from_the_flat_price_on() {
    let mut rig = book(&[30, 60]);
    add(&mut rig, 0, Some(21));
    add(&mut rig, 1, None);
    pass_to(&mut rig, 10);
    assert_eq!([work(&mut rig, 0, 100), work(&mut rig, 1, 100)], ["OK", "OK"]);
    let projected = |rig: &Rig, account: usize| {
        let forecast = rig.book.projected_for(rig.account(&name(account)), rig.now).unwrap();
        (forecast.more, forecast.cost.to_string())
    };
    // 200 more in 20 days: half of them before the turn, 50 at 0.1 and 50 at 0.5, and half after it.
    let [with_turn, without] = [projected(&rig, 0), projected(&rig, 1)];
    assert!((199..=200).contains(&with_turn.0) && with_turn.0 == without.0, "{with_turn:?}");
    let cost = |text: &str| text.parse::<f64>().unwrap();
    assert!((29.0..=30.0).contains(&cost(&with_turn.1)), "{with_turn:?}");
    assert!((79.0..=80.0).contains(&cost(&without.1)), "{without:?}");
    pass_to(&mut rig, 20);
    assert_eq!(projected(&rig, 0).1, "0", "50 at the flat price");
}
