//! Events that no decision on a book could have made are refused, and change nothing.

use super::rig::{HOUR, Rig, name};
use allot_core::account::record::Name;
use allot_core::account::request::ManagerRequest;
use allot_core::account::tariff::MAX_COUNT;
use allot_core::account::{AccountEvent, Event, InstanceEvent};
use allot_core::shared::Bytes;

fn names(numbers: &[usize]) -> Vec<Bytes> {
    numbers.iter().map(|&number| account(number)).collect()
}

fn account(number: usize) -> Bytes {
    Bytes::from_slice(name(number).as_bytes())
}

fn module(module: &str) -> Name {
    Name::from(module.as_bytes())
}

fn of(number: usize, event: AccountEvent) -> Event {
    Event::Account { account: account(number), event }
}

#[track_caller]
fn refuses(rig: &Rig, event: &Event) {
    assert!(rig.book.admits(event).is_err(), "{event:?} is admitted");
}

/// Module m with instances a and b and four accounts, of which a has 0 or 1 and b the others; module n without any.
fn rig() -> Rig {
    let mut rig = Rig::with(2, 4, &["a", "b"]);
    rig.module("n", 1, 0);
    rig
}

/// The number of an account of an instance.
fn held_by(rig: &Rig, instance: &str) -> usize {
    (0..4).find(|&number| rig.holder(&name(number)) == instance).unwrap()
}

#[test]
fn no_event_names_an_account_twice_or_none() {
    let rig = rig();
    let number = held_by(&rig, "a");
    for accounts in [Vec::new(), names(&[number, number])] {
        let (m, a) = (module("m"), module("a"));
        refuses(&rig, &Event::Deleted { accounts: accounts.clone() });
        refuses(&rig, &Event::Withdrawn { accounts: accounts.clone() });
        refuses(&rig, &Event::Rehomed { module: module("n"), accounts: accounts.clone() });
        refuses(&rig, &InstanceEvent::Assigned { accounts }.of(m, a));
    }
}

#[test]
fn frozen_account_is_neither_assigned_nor_withdrawn() {
    let mut rig = rig();
    let number = held_by(&rig, "a");
    rig.ask(ManagerRequest::Freeze { account: name(number).as_bytes(), on: true, until: None }).unwrap();
    let (module, instance, accounts) = (module("m"), module("a"), names(&[number]));
    refuses(&rig, &InstanceEvent::Assigned { accounts: accounts.clone() }.of(module, instance));
    refuses(&rig, &Event::Withdrawn { accounts });
}

#[test]
fn account_is_assigned_within_its_module() {
    let mut rig = rig();
    rig.attach("n", "x");
    let accounts = names(&[held_by(&rig, "a")]);
    refuses(&rig, &InstanceEvent::Assigned { accounts: accounts.clone() }.of(module("n"), module("x")));
    refuses(&rig, &Event::Rehomed { module: module("m"), accounts });
}

#[test]
fn only_an_account_in_use_is_recalled() {
    let rig = rig();
    let accounts = names(&[held_by(&rig, "a")]);
    refuses(&rig, &InstanceEvent::Recalled { accounts }.of(module("m"), module("b")));
}

#[test]
fn account_that_is_being_deleted_is_neither_frozen_nor_rehomed() {
    let mut rig = rig();
    let number = held_by(&rig, "a");
    rig.login(&name(number), "a", HOUR);
    rig.ask(ManagerRequest::Del { accounts: vec![name(number).as_bytes()] }).unwrap();
    refuses(&rig, &of(number, AccountEvent::Frozen { until: None }));
    refuses(&rig, &Event::Rehomed { module: module("n"), accounts: names(&[number]) });
    refuses(&rig, &of(number, AccountEvent::Renewed { until: HOUR }));
}

#[test]
fn account_is_shifted_from_an_active_instance_to_another() {
    let mut rig = rig();
    let shifted = |number: usize, instance: &str| {
        InstanceEvent::Shifted { account: account(number) }.of(module("m"), module(instance))
    };
    let number = held_by(&rig, "a");
    assert!(rig.book.admits(&shifted(number, "b")).is_ok());
    refuses(&rig, &shifted(number, "a"));
    rig.apply(&InstanceEvent::Away { until: HOUR }.of(module("m"), module("a")));
    refuses(&rig, &shifted(number, "b"));
}

#[test]
fn presence_of_an_instance_changes_step_by_step() {
    let mut rig = rig();
    rig.attach("m", "c");
    let (m, a, c) = (module("m"), module("a"), module("c"));
    let placed = |instance: &Name, active| InstanceEvent::Placed { active }.of(m.clone(), instance.clone());
    let attached =
        |instance: &Name, active| Event::Attached { module: m.clone(), instance: instance.clone(), active };
    refuses(&rig, &placed(&a, true));
    refuses(&rig, &placed(&c, false));
    refuses(&rig, &attached(&a, true));
    refuses(&rig, &attached(&c, false));
    let away = |instance: &Name| InstanceEvent::Away { until: HOUR }.of(m.clone(), instance.clone());
    refuses(&rig, &away(&c));
    rig.apply(&away(&a));
    rig.apply(&away(&a));
    refuses(&rig, &attached(&a, false));
    rig.apply(&attached(&a, true));
}

#[test]
fn login_ends_and_is_renewed_only_while_it_lasts() {
    let rig = rig();
    refuses(&rig, &of(0, AccountEvent::LoggedOut { lapsed: false }));
    refuses(&rig, &of(0, AccountEvent::Renewed { until: HOUR }));
}

#[test]
fn use_beyond_any_count_is_refused() {
    let mut rig = rig();
    let used = |count| of(0, AccountEvent::Used { count });
    rig.apply(&used(MAX_COUNT - 1));
    rig.apply(&used(1));
    rig.check();
    refuses(&rig, &used(1));
}

#[test]
fn month_turns_only_at_a_time_that_is_set() {
    let rig = rig();
    refuses(&rig, &Event::MonthTurned);
}
