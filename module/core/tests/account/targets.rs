//! What rebalancing pinned, and how long it stays so.

use super::rig::{HOUR, Rig, name};
use allot_core::account::place::Share;
use allot_core::account::request::{ManagerRequest, ModuleSettings};
use allot_core::account::tariff::Tariff;
use allot_core::account::{Event, InstanceEvent, Settings};

/// Rebalancing moves so many accounts from one instance to another.
fn shift(rig: &mut Rig, from: &str, (module, to): (&str, &str), count: usize) {
    let all: Vec<String> = (0..200).map(name).filter(|one| rig.book.find(one.as_bytes()).is_some()).collect();
    let some: Vec<String> = all.into_iter().filter(|one| rig.holder(one) == from).take(count).collect();
    assert_eq!(some.len(), count);
    for account in some {
        let (module, instance) = (module.as_bytes().into(), to.as_bytes().into());
        rig.apply(&InstanceEvent::Shifted { account: account.as_bytes().into() }.of(module, instance));
    }
    rig.settle();
    rig.check();
}

fn targets(rig: &Rig, module: &str) -> Vec<i128> {
    let module = rig.book.module(rig.book.find_module(module.as_bytes()).unwrap()).unwrap();
    module.instances().map(|id| rig.book.instance(id).unwrap().offset / 100).collect()
}

#[test]
fn giver_is_even_again_once_the_receiver_has_left() {
    let mut rig = Rig::with(4, 150, &["a", "b", "c"]);
    shift(&mut rig, "b", ("m", "a"), 40);
    assert_eq!((rig.shares("m"), targets(&rig, "m")), (vec![90, 10, 50], vec![40, -40, 0]));
    // For its time of grace all stays as it is.
    rig.detach("m", "a", HOUR);
    assert_eq!(targets(&rig, "m"), [40, -40, 0]);
    rig.pass(HOUR);
    assert_eq!((rig.shares("m"), targets(&rig, "m")), (vec![75, 75], vec![0, 0]));
    rig.attach("m", "d");
    assert_eq!(rig.shares("m"), [50, 50, 50]);
    rig.check();
}

#[test]
fn receivers_are_even_again_once_the_giver_loses_its_place() {
    let mut rig = Rig::with(3, 90, &["a", "b", "c"]);
    shift(&mut rig, "c", ("m", "a"), 10);
    shift(&mut rig, "c", ("m", "b"), 15);
    rig.module("m", 2, 0);
    rig.settle();
    assert_eq!((rig.shares("m"), targets(&rig, "m")), (vec![45, 45, 0], vec![0, 0, 0]));
    rig.check();
}

#[test]
fn largest_giver_is_compensated_first() {
    let mut rig = Rig::with(4, 160, &["a", "b", "c", "d"]);
    shift(&mut rig, "a", ("m", "c"), 10);
    shift(&mut rig, "b", ("m", "c"), 5);
    shift(&mut rig, "b", ("m", "d"), 15);
    assert_eq!(targets(&rig, "m"), [-10, -20, 15, 15]);
    rig.detach("m", "c", 0);
    assert_eq!(targets(&rig, "m"), [-10, -5, 15]);
    rig.check();
}

#[test]
fn accounts_given_by_other_modules_are_not_compensated_within_a_module() {
    let mut rig = Rig::with(3, 60, &["a", "b", "c"]);
    rig.module("n", 1, 0);
    rig.attach("n", "x");
    rig.add("n", 100..110);
    rig.settle();
    shift(&mut rig, "x", ("m", "a"), 6);
    shift(&mut rig, "b", ("m", "c"), 2);
    assert_eq!((targets(&rig, "m"), targets(&rig, "n")), (vec![6, -2, 2], vec![-6]));
    rig.detach("m", "a", 0);
    assert_eq!(targets(&rig, "m"), [-2, 2], "b has given to c, which is still there");
    rig.check();
}

#[test]
fn an_account_that_does_not_get_to_another_module_pins_nobody() {
    for grace in [0, HOUR] {
        let mut rig = Rig::with(2, 10, &["a", "b"]);
        rig.module("n", 2, 0);
        rig.attach("n", "x");
        let account = (0..10).map(name).find(|one| rig.holder(one) == "a").unwrap();
        let epoch = rig.login(&account, "a", HOUR);
        let (module, instance) = (b"n"[..].into(), b"x"[..].into());
        rig.apply(&InstanceEvent::Shifted { account: account.as_bytes().into() }.of(module, instance));
        rig.settle();
        assert_eq!((targets(&rig, "m"), targets(&rig, "n")), (vec![-1, 0], vec![1]));
        let (module, instance) = (b"n", b"x");
        rig.ask(ManagerRequest::Detach { module, instance, grace }).unwrap();
        rig.logout(&account, epoch);
        assert_eq!((rig.shares("m"), targets(&rig, "m")), (vec![5, 5], vec![0, 0]), "GRACE {grace}");
        assert!(targets(&rig, "n").iter().all(|&target| target == 0));
        rig.check();
    }
}

#[test]
fn new_quotas_of_all_accounts_leave_moves_of_rebalancing_as_they_are() {
    let mut rig = Rig::with(2, 40, &["a", "b"]);
    shift(&mut rig, "b", ("m", "a"), 10);
    for quota in [10, 1000, 100] {
        let names: Vec<String> = (0..40).map(name).collect();
        let accounts = names.iter().map(String::as_bytes).collect();
        rig.ask(ManagerRequest::Reprice { tariff: Tariff { quota, ..Tariff::default() }, accounts }).unwrap();
        rig.settle();
        assert_eq!(rig.shares("m"), [30, 10], "quota {quota}");
        rig.check();
    }
    assert_eq!(targets(&rig, "m"), [10, -10]);
}

#[test]
fn account_with_a_new_quota_that_does_not_get_to_another_module_pins_nobody() {
    let mut rig = Rig::with(2, 10, &["a", "b"]);
    rig.module("n", 2, 0);
    rig.attach("n", "x");
    let account = (0..10).map(name).find(|one| rig.holder(one) == "a").unwrap();
    let epoch = rig.login(&account, "a", HOUR);
    let (module, instance) = (b"n"[..].into(), b"x"[..].into());
    rig.apply(&InstanceEvent::Shifted { account: account.as_bytes().into() }.of(module, instance));
    let names: Vec<String> = (0..10).map(name).collect();
    let accounts = names.iter().map(String::as_bytes).collect();
    rig.ask(ManagerRequest::Reprice { tariff: Tariff { quota: 1000, ..Tariff::default() }, accounts })
        .unwrap();
    rig.settle();
    assert_eq!((targets(&rig, "m"), targets(&rig, "n")), (vec![-10, 0], vec![10]));
    let (module, instance, grace) = (b"n", b"x", 0);
    rig.ask(ManagerRequest::Detach { module, instance, grace }).unwrap();
    rig.logout(&account, epoch);
    assert_eq!((rig.shares("m"), targets(&rig, "m")), (vec![5, 5], vec![0, 0]));
    rig.check();
}

/// c gets a free account that an even assignment keeps for the empty place. No instance would take an account from c
/// then, because c has not more than the others.
#[test]
fn free_account_that_no_other_instance_would_take_pins_nobody() {
    let mut rig = Rig::new(Settings::default());
    let wish = ModuleSettings {
        module: b"m",
        department: b"d",
        instances: 4,
        share: Some(Share::Places),
        ..ModuleSettings::default()
    };
    rig.ask(ManagerRequest::Module(wish)).unwrap();
    ["a", "b", "c"].iter().for_each(|instance| rig.attach("m", instance));
    for (number, quota) in [60, 60, 60, 60, 50, 60].into_iter().enumerate() {
        let tariff = Tariff { quota, ..Tariff::default() };
        let accounts = vec![name(number).as_bytes().into()];
        rig.apply(&Event::Added { module: b"m"[..].into(), tariff, accounts });
    }
    for (number, instance) in ["a", "a", "b", "b", "c"].into_iter().enumerate() {
        let accounts = vec![name(number).as_bytes().into()];
        let instance = instance.as_bytes().into();
        rig.apply(&InstanceEvent::Assigned { accounts }.of(b"m"[..].into(), instance));
    }
    rig.settle();
    assert_eq!(rig.shares("m"), [2, 2, 1]);
    rig.apply(
        &InstanceEvent::Shifted { account: name(5).as_bytes().into() }.of(b"m"[..].into(), b"c"[..].into()),
    );
    rig.settle();
    assert_eq!(rig.shares("m"), [2, 2, 2]);
    let module = rig.book.module(rig.book.find_module(b"m").unwrap()).unwrap();
    assert!(module.instances().all(|id| rig.book.instance(id).unwrap().offset == 0));
    rig.check();
}
