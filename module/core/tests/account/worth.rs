//! Shares of even worth, on small books: what is even and how few moves make it even are found by trying all assignments.

use super::random::Random;
use super::rig::{Rig, is_even, name};
use allot_core::account::place::Share;
use allot_core::account::request::{ManagerRequest, ModuleSettings};
use allot_core::account::tariff::Tariff;
use allot_core::account::{Event, InstanceEvent, Settings};

fn module(rig: &mut Rig, share: Share, instances: i64) {
    let (module, department, share) = (b"m", b"d", Some(share));
    let settings =
        ModuleSettings { module, department, instances, share, min: Some(0), ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(settings)).unwrap();
}

/// Accounts of these quotas, each of another number.
fn add(rig: &mut Rig, quotas: &[u64]) {
    for (number, &quota) in quotas.iter().enumerate() {
        let (account, tariff) = (name(number), Tariff { quota, ..Tariff::default() });
        let accounts = vec![account.as_bytes()];
        rig.ask(ManagerRequest::add(Some(b"m"), tariff, accounts)).unwrap();
    }
}

/// The sum of the quotas of each instance, in the order of their arrival.
fn sums(rig: &Rig) -> Vec<u64> {
    let module = rig.book.module(rig.book.find_module(b"m").unwrap()).unwrap();
    let instance = |id: u32| rig.book.instance(id).unwrap();
    let quota = |id: &u32| rig.book.account(*id).unwrap().tariff.quota;
    module.instances().map(|id| instance(id).accounts.iter().map(quota).sum()).collect()
}

/// How many accounts were assigned since the last look.
fn assigned(rig: &mut Rig) -> usize {
    let events = std::mem::take(&mut rig.seen);
    let accounts = events.iter().map(|event| match event {
        Event::Instance { event: InstanceEvent::Assigned { accounts }, .. } => accounts.len(),
        _ => 0,
    });
    accounts.sum()
}

const INSTANCES: [&str; 4] = ["a", "b", "c", "d"];
const QUOTAS: [u64; 8] = [1, 2, 3, 5, 10, 10, 50, 100];

#[test]
fn shares_are_even_in_instructions() {
    for share in [Share::Places, Share::Present] {
        for accounts_first in [true, false] {
            let mut rig = Rig::new(Settings::default());
            module(&mut rig, share, 2);
            if accounts_first {
                add(&mut rig, &[1000, 1000, 10, 10]);
            }
            rig.attach("m", "a");
            rig.attach("m", "b");
            if !accounts_first {
                add(&mut rig, &[1000, 10, 1000, 10]);
            }
            rig.settle();
            assert_eq!(sums(&rig), [1010, 1010], "{share:?}");
            rig.check();
        }
    }
}

/// All ways to divide so many accounts among instances: the instance of each account.
fn all_ways(accounts: usize, instances: usize) -> impl Iterator<Item = Vec<usize>> {
    let ways = instances.pow(accounts as u32);
    (0..ways).map(move |way| (0..accounts).map(|at| way / instances.pow(at as u32) % instances).collect())
}

/// Whether no account could go to another instance so that the two shares come closer together.
fn evens(quotas: &[u64], holders: &[usize], instances: usize) -> bool {
    let mut sums = vec![0; instances];
    quotas.iter().zip(holders).for_each(|(quota, &holder)| sums[holder] += quota);
    let least = sums.iter().min().unwrap();
    quotas.iter().zip(holders).all(|(quota, &holder)| sums[holder] - quota <= *least)
}

/// Accounts of some instances get these quotas, and shares are made even: how many accounts move, and how many must
/// move if every assignment is tried.
fn moves(instances: usize, quotas: &[u64]) -> (usize, usize) {
    let mut rig = Rig::new(Settings::default());
    module(&mut rig, Share::Present, instances as i64);
    INSTANCES[..instances].iter().for_each(|instance| rig.attach("m", instance));
    rig.add("m", 0..quotas.len());
    rig.settle();
    let holder = |number: usize| INSTANCES.iter().position(|one| *one == rig.holder(&name(number))).unwrap();
    let holders: Vec<usize> = (0..quotas.len()).map(holder).collect();
    assigned(&mut rig);
    for (number, &quota) in quotas.iter().enumerate() {
        let accounts = vec![name(number).as_bytes().into()];
        rig.apply(&Event::Repriced { tariff: Tariff { quota, ..Tariff::default() }, accounts });
    }
    rig.settle();
    rig.check();
    let module = rig.book.module(rig.book.find_module(b"m").unwrap()).unwrap();
    assert!(is_even(&rig.book, module), "{quotas:?} on {instances}");
    let moved = |way: Vec<usize>| way.iter().zip(&holders).filter(|(one, other)| one != other).count();
    let even = all_ways(quotas.len(), instances).filter(|way| evens(quotas, way, instances));
    let least = even.map(moved).min().unwrap();
    (assigned(&mut rig), least)
}

#[test]
fn moves_are_the_fewest_if_quotas_are_equal_and_few_if_they_differ() {
    for (instances, accounts) in [(2, 3), (2, 6), (3, 4), (3, 7)] {
        // The accounts of two instances, or of one, go to a third.
        for quotas in [vec![7; accounts], vec![0; accounts]] {
            let (moved, least) = moves(instances, &quotas);
            assert_eq!(moved, least, "{quotas:?} on {instances}");
        }
    }
    let mut random = Random(7);
    let (mut cases, mut fewest) = (0, 0);
    for _ in 0..1000 {
        let (instances, accounts) = (2 + random.below(2), 2 + random.below(6));
        let quotas: Vec<u64> = (0..accounts).map(|_| random.of(&QUOTAS)).collect();
        let (moved, least) = moves(instances, &quotas);
        assert!(moved <= least + 4, "{quotas:?} on {instances}: {moved} moves, and {least} are enough");
        cases += 1;
        fewest += usize::from(moved == least);
    }
    assert!(fewest * 100 >= cases * 96, "{fewest} of {cases}");
}

/// How many accounts one instance takes from another while instances come to all places of a module.
fn taken_from_others(quotas: &[u64], places: usize, reserve: usize) -> usize {
    let mut rig = Rig::new(Settings::default());
    module(&mut rig, Share::Places, places as i64);
    set_reserve(&mut rig, places, reserve);
    add(&mut rig, quotas);
    let holders = |rig: &Rig| (0..quotas.len()).map(|number| rig.holder(&name(number))).collect::<Vec<_>>();
    let mut taken = 0;
    for instance in &INSTANCES[..places] {
        let before = holders(&rig);
        rig.attach("m", instance);
        rig.check();
        let kept = before.iter().zip(holders(&rig)).filter(|(one, other)| one.is_empty() || *one == other);
        taken += quotas.len() - kept.count();
    }
    let free = holders(&rig).iter().filter(|holder| holder.is_empty()).count();
    assert_eq!(free, reserve, "{quotas:?} on {places}");
    let module = rig.book.module(rig.book.find_module(b"m").unwrap()).unwrap();
    assert!(is_even(&rig.book, module), "{quotas:?} on {places}");
    // A rolling restart moves nothing.
    let before = holders(&rig);
    for instance in &INSTANCES[..places] {
        rig.detach("m", instance, 0);
        rig.attach("m", instance);
        assert_eq!(holders(&rig), before, "{quotas:?} on {places}");
    }
    taken
}

fn set_reserve(rig: &mut Rig, places: usize, reserve: usize) {
    let (module, department, instances, reserve) = (b"m", b"d", places as i64, Some(reserve as i64));
    let settings = ModuleSettings { module, department, instances, reserve, ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(settings)).unwrap();
}

#[test]
fn instance_that_arrives_takes_what_is_free() {
    let mut random = Random(11);
    let (mut cases, mut without) = (0, 0);
    for _ in 0..500 {
        let places = 2 + random.below(3);
        let reserve = random.of(&[0, 0, 1, 2]);
        let accounts = places + reserve + random.below(8);
        assert_eq!(taken_from_others(&vec![100; accounts], places, reserve), 0);
        let quotas: Vec<u64> = (0..accounts).map(|_| random.of(&QUOTAS)).collect();
        cases += 1;
        without += usize::from(taken_from_others(&quotas, places, reserve) == 0);
    }
    assert!(without * 100 >= cases * 90, "{without} of {cases}");
}

/// A large account is a share by itself, and the others are not dealt out before the last instance is there.
#[test]
fn account_larger_than_an_even_share_is_a_share_by_itself() {
    let mut rig = Rig::new(Settings::default());
    module(&mut rig, Share::Places, 3);
    add(&mut rig, &[50, 3, 3, 50, 6]);
    for (instance, all) in [("a", vec![50]), ("b", vec![50, 50]), ("c", vec![50, 50, 12])] {
        rig.attach("m", instance);
        assert_eq!(sums(&rig), all);
    }
    rig.check();
}

#[test]
fn frozen_account_is_replaced_by_one_of_its_size() {
    let mut rig = Rig::new(Settings::default());
    let (module, department, reserve) = (b"m", b"d", Some(3));
    let settings = ModuleSettings { module, department, instances: 1, reserve, ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(settings)).unwrap();
    add(&mut rig, &[1000, 100, 100, 10]);
    rig.attach("m", "a");
    assert_eq!(sums(&rig), [1000], "the largest account first");
    for (frozen, next) in [(0, 100), (1, 100), (2, 10)] {
        let (account, on) = (name(frozen), true);
        rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on, until: None }).unwrap();
        rig.settle();
        assert_eq!(sums(&rig), [next]);
    }
    rig.check();
}

#[test]
fn changed_quota_evens_out_the_shares() {
    let mut rig = Rig::new(Settings::default());
    module(&mut rig, Share::Places, 2);
    add(&mut rig, &[100, 100, 100, 100]);
    rig.attach("m", "a");
    rig.attach("m", "b");
    let of_a: Vec<String> = (0..4).map(name).filter(|one| rig.holder(one) == "a").collect();
    let accounts = of_a.iter().map(String::as_bytes).collect();
    let tariff = Tariff { quota: 10, ..Tariff::default() };
    rig.ask(ManagerRequest::Reprice { tariff, accounts }).unwrap();
    rig.settle();
    assert_eq!(sums(&rig), [110, 110], "b gives one of 100, and a gives one of 10");
    rig.check();
}

#[test]
fn instance_that_comes_back_gets_its_accounts_with_a_reserve() {
    let mut rig = Rig::new(Settings::default());
    module(&mut rig, Share::Places, 2);
    set_reserve(&mut rig, 2, 1);
    add(&mut rig, &[1000, 10, 10, 10, 10, 1]);
    rig.attach("m", "a");
    rig.attach("m", "b");
    assert_eq!(sums(&rig), [1000, 40]);
    for (instance, all) in [("a", [40, 1000]), ("b", [1000, 40])] {
        rig.detach("m", instance, 0);
        rig.attach("m", instance);
        assert_eq!(sums(&rig), all);
    }
    rig.check();
}

/// The reserve is the smallest accounts, in every order of events.
#[test]
fn order_of_events_does_not_change_shares_with_a_reserve() {
    for accounts_first in [true, false] {
        let mut rig = Rig::new(Settings::default());
        module(&mut rig, Share::Places, 2);
        set_reserve(&mut rig, 2, 2);
        if accounts_first {
            add(&mut rig, &[1000, 500, 500, 10, 10]);
        }
        rig.attach("m", "a");
        rig.attach("m", "b");
        if !accounts_first {
            add(&mut rig, &[10, 10, 500, 500, 1000]);
        }
        rig.settle();
        assert_eq!(sums(&rig), [1000, 1000], "accounts first: {accounts_first}");
        rig.check();
    }
}

#[test]
fn large_account_that_was_lent_takes_nothing_from_the_shares_of_others() {
    let mut rig = Rig::new(Settings::default());
    module(&mut rig, Share::Places, 3);
    rig.module("n", 1, 0);
    rig.attach("n", "x");
    let tariff = Tariff { quota: 1000, ..Tariff::default() };
    let accounts = vec![&b"large"[..]];
    rig.ask(ManagerRequest::add(Some(b"n"), tariff, accounts)).unwrap();
    rig.settle();
    rig.attach("m", "a");
    let (module, account) = (b"m"[..].into(), b"large"[..].into());
    rig.apply(&InstanceEvent::Shifted { account }.of(module, b"a"[..].into()));
    rig.attach("m", "b");
    add(&mut rig, &[100; 12]);
    rig.settle();
    assert_eq!(sums(&rig), [1400, 400], "four of twelve each; the large one counts as lent");
    rig.attach("m", "c");
    assert_eq!(sums(&rig), [1400, 400, 400]);
    rig.check();
}

#[test]
fn shares_are_even_with_a_reserve_new_quotas_and_moves_of_rebalancing() {
    let mut random = Random(17);
    for _ in 0..500 {
        let mut rig = Rig::new(Settings::default());
        let (places, share) = (2 + random.below(3), random.of(&[Share::Places, Share::Present]));
        module(&mut rig, share, places as i64);
        set_reserve(&mut rig, places, random.below(3));
        let quotas: Vec<u64> = (0..4 + random.below(9)).map(|_| random.of(&QUOTAS)).collect();
        add(&mut rig, &quotas);
        INSTANCES[..places - random.below(2)].iter().for_each(|instance| rig.attach("m", instance));
        for _ in 0..4 {
            let (account, to) = (name(random.below(quotas.len())), random.of(&INSTANCES[..places - 1]));
            if random.below(2) == 0 {
                let tariff = Tariff { quota: random.of(&QUOTAS), ..Tariff::default() };
                rig.apply(&Event::Repriced { tariff, accounts: vec![account.as_bytes().into()] });
            } else if rig.holder(&account) != to {
                let account = account.as_bytes().into();
                rig.apply(&InstanceEvent::Shifted { account }.of(b"m"[..].into(), to.as_bytes().into()));
            }
            rig.settle();
            let module = rig.book.module(rig.book.find_module(b"m").unwrap()).unwrap();
            assert!(is_even(&rig.book, module), "{quotas:?}: {:?}", sums(&rig));
            rig.check();
        }
    }
}

/// Some instances are there: none gets what belongs to the others, and between them nothing is uneven, also when accounts
/// are deleted.
#[test]
fn shares_are_even_while_a_place_is_empty() {
    let mut random = Random(13);
    for round in 0..300 {
        let places = 3 + round % 2;
        let accounts = 4 + random.below(12);
        let quotas: Vec<u64> = (0..accounts).map(|_| random.of(&QUOTAS)).collect();
        let mut rig = Rig::new(Settings::default());
        module(&mut rig, Share::Places, places);
        add(&mut rig, &quotas);
        for instance in &["a", "b", "c", "d"][..places as usize] {
            rig.attach("m", instance);
        }
        let before = sums(&rig);
        let last = ["c", "d"][round as usize % 2];
        rig.detach("m", last, 0);
        assert_eq!(sums(&rig), before[..before.len() - 1], "{quotas:?}");
        let tariff = Tariff { quota: 20, ..Tariff::default() };
        let accounts = vec![&b"x"[..], b"y", b"z"];
        rig.ask(ManagerRequest::add(Some(b"m"), tariff, accounts)).unwrap();
        for _ in 0..4 {
            rig.settle();
            let module = rig.book.module(rig.book.find_module(b"m").unwrap()).unwrap();
            assert!(is_even(&rig.book, module), "{quotas:?}: {:?}", sums(&rig));
            rig.check();
            let names: Vec<Vec<u8>> = rig
                .book
                .list(None, None, None, 0, usize::MAX)
                .0
                .iter()
                .map(|one| one.name.to_vec())
                .collect();
            let gone = &names[random.below(names.len())];
            rig.ask(ManagerRequest::Del { accounts: vec![&gone[..]] }).unwrap();
        }
    }
}
