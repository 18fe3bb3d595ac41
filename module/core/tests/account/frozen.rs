//! What becomes of accounts that the platform froze, of who works with them, and of who lacks them.

use super::rig::{HOUR, Rig, login, name, tariff, usage};
use allot_core::account::place::Presence;
use allot_core::account::record::AccountState;
use allot_core::account::request::{InstanceRequest, ManagerRequest};
use allot_core::account::{InstanceEvent, Reply, Settings};

const MINUTE: i64 = 60_000;

#[test]
fn a_frozen_account_is_replaced_from_the_reserve_at_once() {
    let mut rig = with_reserve();
    let account = (0..13).map(name).find(|account| rig.holder(account) == "a").unwrap();
    let epoch = rig.login(&account, "a", MINUTE);
    let freeze = |on| ManagerRequest::Freeze { account: account.as_bytes(), on, until: None };
    rig.ask(freeze(true)).unwrap();
    assert_eq!((rig.standing(&account), rig.shares("m")), (AccountState::Frozen, vec![5, 5]));
    assert_eq!(rig.code(usage(&account, epoch, 1)), "BADSTATE");
    assert_eq!(rig.code(login(&account, "a", "t", MINUTE)), "BADSTATE");
    rig.settle();
    rig.check();
    let free = |rig: &Rig| rig.book.totals().0[AccountState::Free as usize];
    assert_eq!(free(&rig), 2);
    rig.ask(freeze(false)).unwrap();
    rig.settle();
    assert_eq!((rig.standing(&account), free(&rig)), (AccountState::Free, 3), "it fills the reserve again");
    rig.check();
}

#[test]
fn account_frozen_until_a_time_comes_back_by_itself() {
    let mut rig = with_reserve();
    let [first, second] = ["a", "b"].map(|instance| of(&rig, instance));
    let until = |rig: &mut Rig, account: &str, until, on| {
        let code = rig.code(ManagerRequest::Freeze { account: account.as_bytes(), on, until });
        rig.check();
        code
    };
    let (now, later) = (rig.now, rig.now + HOUR);
    assert_eq!(until(&mut rig, &first, Some(now), true), "ERR", "the time has passed");
    assert_eq!(until(&mut rig, &first, Some(later), false), "ERR");
    assert_eq!(until(&mut rig, &first, Some(later), true), "OK");
    assert_eq!(until(&mut rig, &second, None, true), "OK");
    assert_eq!(until(&mut rig, &second, Some(later), true), "OK", "the end is known now");
    assert_eq!(until(&mut rig, &first, Some(later + 1), true), "OK");
    rig.pass(HOUR - 1);
    assert_eq!([&first, &second].map(|one| rig.standing(one)), [AccountState::Frozen; 2]);
    rig.pass(1);
    assert_eq!([&first, &second].map(|one| rig.standing(one)), [AccountState::Frozen, AccountState::Free]);
    rig.pass(1);
    assert_eq!((rig.standing(&first), rig.account(&first).frozen_until), (AccountState::Free, None));
    rig.check();
    // Another freeze, and its end by hand or by a deletion.
    for ends in [true, false] {
        assert_eq!(until(&mut rig, &first, Some(later + 2 * HOUR), true), "OK");
        if ends {
            assert_eq!(until(&mut rig, &first, None, false), "OK");
        } else {
            rig.ask(ManagerRequest::Del { accounts: vec![first.as_bytes()] }).unwrap();
        }
        rig.check();
    }
    rig.pass(3 * HOUR);
    rig.check();
}

#[test]
fn login_on_a_frozen_account_stays_known_until_it_ends() {
    let frozen = |rig: &mut Rig, account: &str, on| {
        rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on, until: None }).unwrap();
        rig.settle();
        rig.check();
    };
    for logs_out in [true, false] {
        let mut rig = Rig::with(2, 1, &["a"]);
        let account = name(0);
        let epoch = rig.login(&account, "a", HOUR);
        rig.attach("m", "b");
        frozen(&mut rig, &account, true);
        assert_eq!(rig.code(usage(&account, epoch, 1)), "BADSTATE");
        frozen(&mut rig, &account, false);
        assert_eq!(
            (rig.standing(&account), rig.shares("m")),
            (AccountState::Free, vec![0, 0]),
            "assigned to nobody"
        );
        let renew = InstanceRequest::Renew { account: account.as_bytes(), epoch, ttl: 2 * HOUR };
        assert_eq!(rig.code(renew), "BADSTATE");
        assert_eq!(rig.code(usage(&account, epoch, 1)), "OK", "what is sent is counted");
        rig.pass(HOUR - 1);
        assert_eq!(rig.shares("m"), [0, 0]);
        if logs_out {
            assert_eq!(rig.logout(&account, epoch), Reply::Integer(1));
        } else {
            rig.pass(1);
        }
        assert_eq!((rig.standing(&account), rig.shares("m")), (AccountState::Assigned, vec![1, 0]));
        assert_eq!(rig.code(login(&account, "a", "elsewhere", MINUTE)), "OK");
        rig.check();
    }
}

#[test]
fn an_account_frozen_in_use_is_moved_and_deleted_with_its_login_known() {
    let mut rig = Rig::with(1, 2, &["a"]);
    rig.module("n", 1, 0);
    rig.attach("n", "x");
    let [moved, gone] = [0, 1].map(name);
    for account in [&moved, &gone] {
        rig.login(account, "a", HOUR);
        rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on: true, until: None }).unwrap();
    }
    let accounts = vec![moved.as_bytes()];
    assert_eq!(rig.ask(ManagerRequest::Move { module: b"n", accounts }), Ok(Reply::Integer(1)));
    let accounts = vec![gone.as_bytes()];
    assert_eq!(rig.ask(ManagerRequest::Del { accounts }), Ok(Reply::Integer(1)));
    assert_eq!([&moved, &gone].map(|one| rig.standing(one)), [AccountState::Frozen, AccountState::Revoking]);
    rig.ask(ManagerRequest::Freeze { account: moved.as_bytes(), on: false, until: None }).unwrap();
    rig.ask(ManagerRequest::Freeze { account: gone.as_bytes(), on: true, until: None }).unwrap();
    rig.pass(HOUR - 1);
    rig.check();
    let accounts = vec![gone.as_bytes()];
    let add = ManagerRequest::add(Some(b"n"), tariff(), accounts);
    assert_eq!((rig.code(add.clone()), rig.shares("n")), ("EXISTS", vec![0]));
    rig.pass(1);
    assert_eq!((rig.code(add), rig.holder(&moved).as_str()), ("OK", "x"));
    rig.check();
    // By the word of the instance that had it.
    let assignment = rig.account(&moved).epoch;
    rig.login(&moved, "x", HOUR);
    rig.ask(ManagerRequest::Freeze { account: moved.as_bytes(), on: true, until: None }).unwrap();
    assert_eq!(rig.logout(&moved, assignment), Reply::Integer(1));
    assert_eq!(rig.book.live_logins(), 0);
    rig.check();
}

/// Two instances of five accounts each, and three kept back.
fn with_reserve() -> Rig {
    let mut rig = Rig::new(Settings::default());
    rig.module("m", 2, 3);
    rig.attach("m", "a");
    rig.attach("m", "b");
    rig.add("m", 0..13);
    rig.settle();
    assert_eq!(rig.shares("m"), [5, 5]);
    rig
}

fn of(rig: &Rig, instance: &str) -> String {
    (0..13).map(name).find(|account| rig.holder(account) == instance).unwrap()
}

fn freeze(rig: &mut Rig, account: &str) {
    rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on: true, until: None }).unwrap();
    rig.settle();
    rig.check();
}

#[test]
fn absent_instance_finds_replacements_of_its_frozen_accounts() {
    let mut rig = with_reserve();
    rig.detach("m", "a", HOUR);
    for _ in 0..2 {
        let account = of(&rig, "a");
        freeze(&mut rig, &account);
    }
    assert_eq!((rig.presence("m", "a"), rig.shares("m")), (Some(Presence::Away), vec![5, 5]));
    rig.attach("m", "a");
    assert_eq!(rig.shares("m"), [5, 5]);
    // Where it does not come back, they go to the others with all that it had, but for what fills the reserve again.
    rig.detach("m", "a", HOUR);
    let account = of(&rig, "a");
    freeze(&mut rig, &account);
    rig.pass(HOUR);
    assert_eq!((rig.presence("m", "a"), rig.shares("m")), (None, vec![7]));
    rig.check();
}

#[test]
fn account_frozen_in_transit_is_replaced_at_its_destination() {
    let mut rig = with_reserve();
    rig.module("n", 1, 1);
    rig.attach("n", "x");
    rig.add("n", 20..23);
    rig.settle();
    for to in ["b", "x"] {
        let account = of(&rig, "a");
        rig.login(&account, "a", HOUR);
        let module = if to == "b" { "m" } else { "n" };
        let (module, instance) = (module.as_bytes().into(), to.as_bytes().into());
        rig.apply(&InstanceEvent::Shifted { account: account.as_bytes().into() }.of(module, instance));
        assert_eq!(rig.standing(&account), AccountState::Revoking);
        freeze(&mut rig, &account);
        rig.check();
    }
    assert_eq!((rig.shares("m"), rig.shares("n")), (vec![3, 6], vec![3]));
}
