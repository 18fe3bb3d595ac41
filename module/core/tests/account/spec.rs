//! The specification, sentence by sentence.

use super::quality::{imbalance, least_moves};
use super::rig::{HOUR, Rig, login, name, tariff, usage};
use allot_core::account::place::Presence;
use allot_core::account::record::AccountState;
use allot_core::account::request::{Changes, InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::tariff::Tariff;
use allot_core::account::{Event, InstanceEvent, Reply, Settings};

const MINUTE: i64 = 60_000;

#[test]
fn a_deal_is_even_to_within_one_and_a_join_moves_the_fewest() {
    let mut rig = Rig::with(100, 100, &["a", "b", "c"]);
    assert_eq!(rig.shares("m"), [34, 33, 33]);
    for (joins, instance) in ["d", "e", "f", "g"].into_iter().enumerate() {
        let mut before = rig.shares("m");
        before.push(0);
        rig.seen.clear();
        rig.attach("m", instance);
        let moved: usize = rig
            .seen
            .iter()
            .map(|e| {
                if let Event::Instance { event: InstanceEvent::Assigned { accounts }, .. } = e {
                    accounts.len()
                } else {
                    0
                }
            })
            .sum();
        assert_eq!((moved, imbalance(&rig.shares("m")) <= 1), (least_moves(&before), true), "join {joins}");
    }
    rig.check();
}

#[test]
fn a_leaver_s_accounts_go_to_the_others_and_no_other_moves() {
    let mut rig = Rig::with(100, 90, &["a", "b", "c"]);
    let kept: Vec<String> = (0..90).map(name).filter(|account| rig.holder(account) != "b").collect();
    let holders: Vec<String> = kept.iter().map(|account| rig.holder(account)).collect();
    rig.detach("m", "b", 0);
    assert_eq!(rig.shares("m"), [45, 45]);
    assert_eq!(kept.iter().map(|account| rig.holder(account)).collect::<Vec<_>>(), holders);
    assert_eq!(rig.presence("m", "b"), None);
    rig.check();
}

#[test]
fn surplus_instances_are_on_standby_and_are_promoted_in_turn() {
    let mut rig = Rig::with(2, 10, &["a", "b", "c", "d"]);
    assert_eq!(rig.shares("m"), [5, 5, 0, 0]);
    assert_eq!(rig.presence("m", "c"), Some(Presence::Standby));
    rig.detach("m", "a", 0);
    assert_eq!(rig.presence("m", "c"), Some(Presence::Active));
    assert_eq!(rig.shares("m"), [5, 5, 0]);
    // More places promote, fewer send away who came last.
    rig.module("m", 3, 0);
    rig.settle();
    assert!(imbalance(&rig.shares("m")) <= 1);
    rig.module("m", 1, 0);
    rig.settle();
    assert_eq!(rig.shares("m"), [10, 0, 0]);
    rig.check();
}

#[test]
fn accounts_wait_for_their_instance_during_its_grace() {
    let mut rig = Rig::with(10, 10, &["a", "b"]);
    rig.detach("m", "a", 5000);
    assert_eq!((rig.presence("m", "a"), rig.shares("m")), (Some(Presence::Away), vec![5, 5]));
    rig.pass(4999);
    rig.attach("m", "a");
    assert_eq!((rig.presence("m", "a"), rig.shares("m")), (Some(Presence::Active), vec![5, 5]));
    rig.detach("m", "a", 5000);
    rig.pass(5000);
    assert_eq!((rig.presence("m", "a"), rig.shares("m")), (None, vec![10]));
    rig.check();
}

#[test]
fn an_account_that_moves_is_revoking_until_its_login_is_over() {
    let mut rig = Rig::with(10, 2, &["a"]);
    let (first, second) = (name(0), name(1));
    let epochs = [&first, &second].map(|account| rig.login(account, "a", MINUTE));
    rig.attach("m", "b");
    let moving =
        [&first, &second].into_iter().find(|one| rig.standing(one) == AccountState::Revoking).unwrap();
    let epoch = if *moving == first { epochs[0] } else { epochs[1] };
    assert_eq!(rig.shares("m"), [1, 0], "only one of them, and not before it is free");
    let renew = InstanceRequest::Renew { account: moving.as_bytes(), epoch, ttl: MINUTE };
    assert_eq!(rig.code(renew), "BADSTATE");
    assert_eq!(rig.code(login(moving, "a", "t", MINUTE)), "BADSTATE");
    assert_eq!(rig.code(login(moving, "b", "t", MINUTE)), "BADSTATE");
    assert_eq!(rig.code(usage(moving, epoch, 1)), "OK", "what is sent is counted");
    rig.check();
    assert_eq!(rig.logout(moving, epoch), Reply::Integer(1));
    assert_eq!((rig.holder(moving).as_str(), rig.shares("m")), ("b", vec![1, 1]));
    // Or its deadline passes; or the old instance acknowledges under the assignment.
    let mut rig = Rig::with(10, 2, &["a"]);
    for account in [&first, &second] {
        rig.login(account, "a", MINUTE);
    }
    rig.attach("m", "b");
    rig.pass(MINUTE);
    assert_eq!(rig.shares("m"), [1, 1]);
    let mut rig = Rig::with(10, 2, &["a"]);
    for account in [&first, &second] {
        rig.login(account, "a", MINUTE);
    }
    rig.attach("m", "b");
    let moving =
        [&first, &second].into_iter().find(|one| rig.standing(one) == AccountState::Revoking).unwrap();
    let assignment = rig.account(moving).epoch;
    assert_eq!(rig.logout(moving, assignment), Reply::Integer(1));
    assert_eq!(rig.holder(moving), "b");
    rig.check();
}

#[test]
fn account_in_use_is_deleted_or_moved_once_it_is_free() {
    let mut rig = Rig::with(10, 3, &["a"]);
    rig.module("n", 1, 0);
    rig.attach("n", "x");
    let [used, moved, idle] = [0, 1, 2].map(name);
    let epoch = rig.login(&used, "a", MINUTE);
    rig.login(&moved, "a", MINUTE);
    let accounts = vec![used.as_bytes(), idle.as_bytes()];
    assert_eq!(rig.ask(ManagerRequest::Del { accounts }), Ok(Reply::Integer(2)));
    let accounts = vec![moved.as_bytes()];
    assert_eq!(rig.ask(ManagerRequest::Move { module: b"n", accounts }), Ok(Reply::Integer(1)));
    assert!(rig.book.account_called(idle.as_bytes()).is_none());
    assert_eq!([&used, &moved].map(|one| rig.standing(one)), [AccountState::Revoking; 2]);
    rig.check();
    rig.logout(&used, epoch);
    assert!(rig.book.account_called(used.as_bytes()).is_none());
    rig.pass(MINUTE);
    assert_eq!(rig.holder(&moved), "x");
    rig.check();
}

#[test]
fn an_account_that_has_reached_the_cap_is_assigned_on_like_any_other() {
    let mut rig = Rig::with(2, 2, &["a"]);
    rig.ask(ManagerRequest::Configure(Changes { cap: Some(50), ..Changes::default() })).unwrap();
    for account in [name(0), name(1)] {
        let assignment = rig.account(&account).epoch;
        rig.ask(usage(&account, assignment, 50)).unwrap();
    }
    assert!(rig.picked("m", "a").is_empty());
    rig.attach("m", "b");
    assert_eq!(rig.shares("m"), [1, 1]);
    rig.check();
}

#[test]
fn asterisk_is_no_name_of_a_module_or_department() {
    let mut rig = Rig::new(Settings::default());
    for (module, department, word) in [(&b"*"[..], &b"d"[..], "module"), (b"m", b"*", "DEPARTMENT")] {
        let wish = ModuleSettings {
            module,
            department,
            instances: 1,
            weight: None,
            reserve: None,
            ..ModuleSettings::default()
        };
        let refusal = rig.ask(ManagerRequest::Module(wish)).unwrap_err();
        assert_eq!(refusal.code.word(), "ERR");
        assert!(refusal.text.starts_with(&format!("{word} must not be '*'")), "{}", refusal.text);
    }
}

#[test]
fn accounts_without_a_module_are_distributed_by_weight() {
    let mut rig = Rig::new(Settings::default());
    for (module, weight) in [("heavy", 3), ("light", 1), ("none", 0)] {
        let wish = ModuleSettings {
            module: module.as_bytes(),
            department: b"d",
            instances: 1,
            weight: Some(weight),
            reserve: None,
            ..ModuleSettings::default()
        };
        rig.ask(ManagerRequest::Module(wish)).unwrap();
    }
    let names: Vec<String> = (0..100).map(name).collect();
    let accounts: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let add = ManagerRequest::add(None, tariff(), accounts);
    rig.ask(add.clone()).unwrap();
    let count =
        |module: &str| rig.book.module(rig.book.find_module(module.as_bytes()).unwrap()).unwrap().counts().0;
    assert_eq!(["heavy", "light", "none"].map(count), [75, 25, 0]);
    assert_eq!(rig.code(add), "EXISTS");
    rig.check();
}

#[test]
fn accounts_without_a_module_are_distributed_by_what_they_include() {
    let mut rig = Rig::new(Settings::default());
    for module in ["m", "n"] {
        rig.module(module, 1, 0);
    }
    let add = |rig: &mut Rig, module: Option<&[u8]>, quota: u64, accounts: Vec<&[u8]>| {
        let tariff = Tariff { quota, steps: vec![] };
        rig.ask(ManagerRequest::add(module, tariff, accounts)).unwrap();
    };
    add(&mut rig, Some(b"m"), 1000, vec![b"large"]);
    let names: Vec<String> = (0..110).map(name).collect();
    add(&mut rig, None, 10, names.iter().map(String::as_bytes).collect());
    let quotas: Vec<u128> = rig.book.usage_by_module(0).values().map(|usage| usage.quota).collect();
    assert_eq!(quotas, [1050, 1050]);
    add(&mut rig, None, 0, vec![b"empty1", b"empty2"]);
    let count = |module: &[u8]| rig.book.module(rig.book.find_module(module).unwrap()).unwrap().counts().0;
    assert_eq!((count(b"m"), count(b"n")), (8, 105), "of equal quotas, to the module with fewer accounts");
    rig.check();
}

#[test]
fn needs_of_modules_divide_accounts_before_weights() {
    let mut rig = Rig::new(Settings::default());
    for (module, weight, need) in [("large", 1, 3000), ("small", 0, 1000), ("other", 1, 0)] {
        let (module, weight, need) = (module.as_bytes(), Some(weight), Some(need));
        let wish = ModuleSettings { module, department: b"d", weight, need, ..ModuleSettings::default() };
        rig.ask(ManagerRequest::Module(wish)).unwrap();
    }
    let quotas =
        |rig: &Rig| -> Vec<u128> { rig.book.usage_by_module(0).values().map(|usage| usage.quota).collect() };
    // `large`, `other`, `small`: parts of the needs first, and what is more by weight.
    for (all, expected) in [(0..20, [1500, 0, 500]), (20..40, [3000, 0, 1000]), (40..60, [3000, 2000, 1000])]
    {
        let names: Vec<String> = all.map(name).collect();
        let accounts = names.iter().map(String::as_bytes).collect();
        rig.ask(ManagerRequest::add(None, tariff(), accounts)).unwrap();
        assert_eq!(quotas(&rig), expected);
    }
    for (module, weight, need) in [("large", 0, 3100), ("other", 0, 0)] {
        let (module, weight, need) = (module.as_bytes(), Some(weight), Some(need));
        let wish = ModuleSettings { module, department: b"d", weight, need, ..ModuleSettings::default() };
        rig.ask(ManagerRequest::Module(wish)).unwrap();
    }
    let add = |accounts| ManagerRequest::add(None, tariff(), accounts);
    assert_eq!(rig.code(add(vec![b"one", b"two"])), "NOTFOUND", "only one account is needed");
    assert_eq!(rig.code(add(vec![b"one"])), "OK");
    assert_eq!(quotas(&rig), [3100, 2000, 1000]);
    let beyond =
        ModuleSettings { module: b"m", department: b"d", need: Some(1 << 53), ..ModuleSettings::default() };
    assert_eq!(rig.code(ManagerRequest::Module(beyond)), "ERR");
    rig.check();
}

fn within<'a>(names: &'a [String], module: Option<&'a [u8]>, department: &'a [u8]) -> ManagerRequest<'a> {
    let accounts = names.iter().map(String::as_bytes).collect();
    ManagerRequest::Add { module, department: Some(department), tariff: tariff(), turn: None, accounts }
}

#[test]
fn needs_divide_the_accounts_of_a_department() {
    let mut rig = Rig::new(Settings::default());
    for (module, department, need) in [("a", "d", 3000), ("b", "d/e", 1000), ("c", "f", 9000), ("d", "de", 0)]
    {
        let (module, department, need) = (module.as_bytes(), department.as_bytes(), Some(need));
        let wish = ModuleSettings { module, department, need, weight: Some(0), ..ModuleSettings::default() };
        rig.ask(ManagerRequest::Module(wish)).unwrap();
    }
    let names: Vec<String> = (0..41).map(name).collect();
    assert_eq!(rig.code(within(&names[..41], None, b"d")), "NOTFOUND", "40 accounts cover all needs");
    assert_eq!(rig.code(within(&names[..40], None, b"d")), "OK");
    assert_eq!(rig.code(within(&names[40..], Some(b"a"), b"d")), "ERR");
    assert_eq!(rig.code(within(&names[40..], None, b"x")), "NOTFOUND");
    let quotas: Vec<u128> = rig.book.usage_by_module(0).values().map(|usage| usage.quota).collect();
    assert_eq!(quotas, [3000, 1000, 0, 0]);
    rig.check();
}

/// Adds so many accounts of a quota to modules of these weights and needs; the number that each gets, by name.
fn distributed(modules: &[(&str, i64, i64)], batches: &[(u64, std::ops::Range<usize>)]) -> Vec<u64> {
    let mut rig = Rig::new(Settings::default());
    for &(module, weight, need) in modules {
        let (module, weight, need) = (module.as_bytes(), Some(weight), Some(need));
        let wish = ModuleSettings { module, department: b"d", weight, need, ..ModuleSettings::default() };
        rig.ask(ManagerRequest::Module(wish)).unwrap();
    }
    for (quota, numbers) in batches {
        let (names, tariff) =
            (numbers.clone().map(name).collect::<Vec<_>>(), Tariff { quota: *quota, ..Tariff::default() });
        let accounts = names.iter().map(String::as_bytes).collect();
        rig.ask(ManagerRequest::add(None, tariff, accounts)).unwrap();
    }
    rig.check();
    rig.book.usage_by_module(0).values().map(|usage| usage.accounts.into()).collect()
}

#[test]
fn account_goes_to_the_module_whose_need_is_covered_least() {
    // The first goes to b, and the second to a, of which nothing is covered. Then a tenth of b is covered.
    let all = [("a", 1, 300), ("b", 1, 1000)];
    assert_eq!(distributed(&all, &[(100, 0..1), (400, 1..2)]), [1, 1]);
    assert_eq!(distributed(&all, &[(100, 0..2), (400, 2..3)]), [1, 2]);
}

#[test]
fn frozen_accounts_cover_no_need() {
    let mut rig = Rig::new(Settings::default());
    for module in ["a", "b"] {
        let (module, need) = (module.as_bytes(), Some(300));
        let wish = ModuleSettings { module, department: b"d", need, ..ModuleSettings::default() };
        rig.ask(ManagerRequest::Module(wish)).unwrap();
    }
    let tariff = Tariff { quota: 100, ..Tariff::default() };
    let add = |rig: &mut Rig, module: Option<&'static [u8]>, accounts: Vec<&'static [u8]>| {
        rig.ask(ManagerRequest::add(module, tariff.clone(), accounts)).unwrap();
    };
    add(&mut rig, Some(b"a"), vec![b"1", b"2", b"3"]);
    add(&mut rig, Some(b"b"), vec![b"4"]);
    for account in [b"1", b"2", b"3"] {
        rig.ask(ManagerRequest::Freeze { account, on: true, until: None }).unwrap();
    }
    add(&mut rig, None, vec![b"5", b"6"]);
    let accounts: Vec<u32> = rig.book.usage_by_module(0).values().map(|usage| usage.accounts).collect();
    assert_eq!(accounts, [4, 2], "one for a, of which nothing is covered; then as much of both is");
}

#[test]
fn module_without_a_weight_gets_no_more_than_it_needs() {
    assert_eq!(distributed(&[("a", 0, 250), ("b", 1, 0)], &[(100, 0..4)]), [2, 2]);
}

#[test]
fn accounts_without_a_quota_are_distributed_by_number() {
    assert_eq!(distributed(&[("a", 1, 500), ("b", 0, 500), ("c", 1, 0)], &[(0, 0..4)]), [2, 0, 2]);
    assert_eq!(distributed(&[("a", 1, 0), ("b", 1, 0), ("c", 2, 0)], &[(50, 0..1), (0, 1..8)]), [2, 2, 4]);
}

#[test]
fn only_the_claimed_term_changes_the_deal() {
    let mut rig = Rig::with(10, 4, &["a"]);
    let claim = |term, leader: &'static [u8], force| ManagerRequest::Claim { term, leader, force };
    assert_eq!(rig.code(claim(5, b"one", false)), "OK");
    assert_eq!(rig.code(claim(5, b"one", false)), "OK");
    assert_eq!(rig.code(claim(5, b"two", false)), "STALE");
    assert_eq!(rig.code(claim(4, b"two", false)), "STALE");
    let attach = |term| ManagerRequest::Attach { module: b"m", instance: b"b" }.in_term(term);
    assert_eq!((rig.code(attach(Some(4))), rig.code(attach(Some(6)))), ("STALE", "STALE"));
    assert_eq!((rig.code(attach(Some(5))), rig.code(attach(None))), ("OK", "OK"));
    assert_eq!(rig.code(claim(1, b"two", true)), "OK");
    rig.check();
}

#[test]
fn rebalancing_keeps_its_limits_and_an_assignment_does_not_undo_it() {
    let mut rig = Rig::with(2, 10, &["a", "b"]);
    let turns = Some(vec![rig.now + 10 * 24 * HOUR]);
    rig.ask(ManagerRequest::Configure(Changes { turns, ..Changes::default() })).unwrap();
    let rebalance = ManagerRequest::Rebalance { dry_run: false, max_moves: 100 };
    // `a` works hard.
    let work = |rig: &mut Rig, count: i64| {
        for account in (0..10).map(name).filter(|one| rig.holder(one) == "a").collect::<Vec<_>>() {
            let epoch = rig.login(&account, "a", HOUR);
            rig.ask(usage(&account, epoch, count)).unwrap();
            rig.logout(&account, epoch);
        }
    };
    work(&mut rig, 60);
    assert_eq!(rig.ask(rebalance.clone()), Ok(Reply::Moves(vec![])), "nobody has been there long enough");
    rig.pass(HOUR);
    work(&mut rig, 30);
    let dry = ManagerRequest::Rebalance { dry_run: true, max_moves: 2 };
    let Ok(Reply::Moves(dry)) = rig.ask(dry) else { panic!() };
    assert_eq!((dry.len(), rig.shares("m")), (2, vec![5, 5]));
    assert!(dry.iter().all(|shift| &*shift.from.1 == b"b" && &*shift.to.1 == b"a" && shift.avoided.0 > 0));
    let Ok(Reply::Moves(moves)) = rig.ask(rebalance.clone()) else { panic!() };
    assert!(moves.len() >= 4, "{moves:?}");
    let shares = rig.shares("m");
    assert_eq!(shares, [5 + moves.len(), 5 - moves.len()]);
    rig.settle();
    assert_eq!(rig.shares("m"), shares, "an assignment keeps what rebalancing gave");
    assert_eq!(rig.ask(rebalance), Ok(Reply::Moves(vec![])), "they have just come");
    rig.check();
}

#[test]
fn history_records_the_holders_of_an_account() {
    let mut rig = Rig::with(2, 1, &["a"]);
    rig.detach("m", "a", 0);
    rig.now += 10;
    rig.attach("m", "b");
    let history = &rig.account(&name(0)).history;
    let stays: Vec<(&[u8], bool)> = history.iter().map(|stay| (&*stay.instance, stay.to.is_some())).collect();
    assert_eq!(stays, [(&b"a"[..], true), (b"b", false)]);
    assert!(history[0].epoch < history[1].epoch);
    rig.check();
}

#[test]
fn places_freed_together_go_to_as_many_standby_instances() {
    let mut rig = Rig::with(2, 8, &["a", "b", "c", "d"]);
    rig.detach("m", "a", 1000);
    rig.detach("m", "b", 1000);
    rig.pass(1000);
    assert_eq!(
        ["a", "b", "c", "d"].map(|one| rig.presence("m", one)),
        [None, None, Some(Presence::Active), Some(Presence::Active)]
    );
    assert_eq!(rig.shares("m"), [4, 4]);
    rig.check();
}

#[test]
fn absent_instance_that_loses_its_place_is_forgotten() {
    let mut rig = Rig::with(2, 4, &["a", "b"]);
    rig.detach("m", "b", HOUR);
    rig.module("m", 1, 0);
    rig.settle();
    assert_eq!((rig.presence("m", "b"), rig.shares("m")), (None, vec![4]));
    rig.check();
}

#[test]
fn joining_instance_gets_its_share_after_rebalancing() {
    let mut rig = Rig::with(3, 8, &["a", "b"]);
    for (number, account) in (0..8).map(name).enumerate() {
        let from = rig.holder(&account);
        if from == "a" && number < 8 {
            let (module, instance) = (b"m"[..].into(), b"b"[..].into());
            rig.apply(&InstanceEvent::Shifted { account: account.as_bytes().into() }.of(module, instance));
        }
    }
    assert_eq!(rig.shares("m"), [0, 8]);
    rig.attach("m", "c");
    assert_eq!(rig.shares("m"), [0, 6, 2], "b keeps the four that rebalancing gave it, and half of its own");
    rig.check();
}

#[test]
fn an_account_on_its_way_to_another_module_counts_there_after_a_reload() {
    let mut rig = Rig::new(Settings::default());
    for module in ["m", "n"] {
        rig.module(module, 2, 0);
    }
    rig.attach("m", "x");
    rig.attach("n", "p");
    rig.attach("n", "q");
    rig.add("n", 0..5);
    rig.add("m", 5..6);
    rig.settle();
    rig.login(&name(5), "x", HOUR);
    let lower = if rig.shares("n") == [3, 2] { "q" } else { "p" };
    let (module, instance) = (b"n"[..].into(), lower.as_bytes().into());
    rig.apply(&InstanceEvent::Shifted { account: name(5).as_bytes().into() }.of(module, instance));
    rig.settle();
    rig.check();
    // It is deleted before it comes: then nothing is on its way any more.
    let account = name(5);
    rig.ask(ManagerRequest::Del { accounts: vec![account.as_bytes()] }).unwrap();
    rig.settle();
    rig.check();
}

#[test]
fn a_move_can_be_called_back_and_a_deletion_cannot() {
    let mut rig = Rig::with(1, 2, &["a"]);
    rig.module("n", 1, 0);
    let (account, doomed) = (name(0), name(1));
    let epoch = rig.login(&account, "a", HOUR);
    rig.login(&doomed, "a", HOUR);
    let to = |rig: &mut Rig, module: &str, account: &str| {
        let accounts = vec![account.as_bytes()];
        rig.ask(ManagerRequest::Move { module: module.as_bytes(), accounts })
    };
    assert_eq!(to(&mut rig, "n", &account), Ok(Reply::Integer(1)));
    assert_eq!(to(&mut rig, "n", &account), Ok(Reply::Integer(0)), "it is on its way there");
    assert_eq!(to(&mut rig, "m", &account), Ok(Reply::Integer(1)));
    rig.logout(&account, epoch);
    assert_eq!(rig.holder(&account), "a");
    rig.ask(ManagerRequest::Del { accounts: vec![doomed.as_bytes()] }).unwrap();
    assert_eq!(to(&mut rig, "n", &doomed).unwrap_err().code.word(), "BADSTATE");
    rig.check();
}

#[test]
fn moves_by_an_operator_outlast_the_moves_of_rebalancing() {
    let mut rig = Rig::with(1, 2, &["a"]);
    rig.module("n", 1, 0);
    rig.attach("n", "x");
    let account = name(0);
    let epoch = rig.login(&account, "a", HOUR);
    let (module, instance) = (b"n"[..].into(), b"x"[..].into());
    rig.apply(&InstanceEvent::Shifted { account: account.as_bytes().into() }.of(module, instance));
    let to_n = |rig: &mut Rig| {
        let accounts = vec![account.as_bytes()];
        rig.ask(ManagerRequest::Move { module: b"n", accounts })
    };
    assert_eq!(to_n(&mut rig), Ok(Reply::Integer(1)));
    assert_eq!(to_n(&mut rig), Ok(Reply::Integer(0)), "nothing is left to change");
    rig.detach("n", "x", 0);
    rig.logout(&account, epoch);
    assert_eq!(&*rig.book.module_name(rig.account(&account).module), b"n");
    rig.check();
}

#[test]
fn a_later_detachment_sets_the_grace_of_an_absent_instance() {
    let mut rig = Rig::with(10, 10, &["a", "b"]);
    rig.detach("m", "a", 5000);
    rig.detach("m", "a", 60_000);
    rig.pass(59_999);
    assert_eq!(rig.shares("m"), [5, 5]);
    rig.pass(1);
    assert_eq!((rig.presence("m", "a"), rig.shares("m")), (None, vec![10]));
    rig.check();
}

#[test]
fn an_instance_that_left_with_a_login_comes_back_with_a_new_rank() {
    let mut rig = Rig::with(2, 4, &["a", "b", "c"]);
    let account = rig.picked("m", "a")[0].clone();
    rig.login(&account, "a", HOUR);
    rig.detach("m", "a", 0);
    assert_eq!(rig.presence("m", "a"), Some(Presence::Leaving));
    rig.attach("m", "a");
    assert_eq!(rig.presence("m", "a"), Some(Presence::Standby));
    rig.attach("m", "d");
    rig.check();
    // b came first, and then c; a is before d only.
    rig.module("m", 1, 0);
    rig.settle();
    let active = ["a", "b", "c", "d"].map(|one| rig.presence("m", one) == Some(Presence::Active));
    assert_eq!(active, [false, true, false, false]);
    rig.detach("m", "b", 0);
    assert_eq!(rig.presence("m", "c"), Some(Presence::Active));
    rig.detach("m", "c", 0);
    assert_eq!(rig.presence("m", "a"), Some(Presence::Active));
    rig.check();
}
