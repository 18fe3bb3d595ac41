//! The bytes of a snapshot, which are kept for good: all later versions read what this one has written.

use super::hex::lines;
use super::rig::{HOUR, Rig, login, logout, name, usage};
use allot_core::account::record::AccountState;
use allot_core::account::request::{Changes, InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::tariff::Amount;
use allot_core::account::{Book, Settings};

const SNAPSHOT: &str = include_str!("snapshot.hex");

/// A book with each kind of record: instances that are active, on standby, away and leaving, accounts in each state with
/// each goal, use of two months, reports, a budget; and with messages that wait.
fn book() -> Rig {
    let mut rig = Rig::new(Settings { turns: vec![40 * HOUR, 90 * HOUR], ..Settings::default() });
    let (cap, margin) = (Some(500), Some(Amount(7)));
    let changes = Changes { cap, margin, lend_level: Some(1), events: Some(10), ..Changes::default() };
    rig.ask(ManagerRequest::Configure(changes)).unwrap();
    rig.ask(ManagerRequest::Claim { term: 7, leader: b"leader", force: false }).unwrap();
    for (module, reserve) in [("m", 0), ("n", 1)] {
        rig.module(module, 2, reserve);
    }
    let placed =
        ModuleSettings { module: b"o", department: b"d/e", weight: Some(2), ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(ModuleSettings { cap: Some(900), instances: 3, ..placed })).unwrap();
    rig.ask(ManagerRequest::Department { department: b"d", cap: 2000 }).unwrap();
    for (module, instance) in [("m", "a"), ("m", "b"), ("m", "c"), ("n", "a"), ("o", "a")] {
        rig.attach(module, instance);
    }
    for (module, numbers) in [("m", 0..7), ("n", 7..9), ("o", 9..10)] {
        rig.add(module, numbers);
    }
    rig.settle();
    let names: Vec<String> = (0..10).map(name).collect();
    for account in &names[..7] {
        let (holder, epoch) = (rig.holder(account), rig.account(account).epoch);
        rig.ask(usage(account, epoch, 30)).unwrap();
        rig.ask(login(account, &holder, "terminal", 60 * HOUR)).unwrap();
    }
    rig.pass(50 * HOUR);
    let (account, epoch) = (names[9].as_bytes(), rig.account(&names[9]).epoch);
    rig.ask(InstanceRequest::Report { account, epoch, total: 12 }).unwrap();
    let epoch = rig.account(&names[6]).login.as_ref().unwrap().epoch;
    rig.ask(logout(&names[6], epoch, false)).unwrap();
    let epoch = rig.account(&names[0]).login.as_ref().unwrap().epoch;
    rig.ask(logout(&names[0], epoch, false)).unwrap();
    rig.ask(ManagerRequest::Del { accounts: vec![names[1].as_bytes()] }).unwrap();
    rig.ask(ManagerRequest::Move { module: b"n", accounts: vec![names[2].as_bytes()] }).unwrap();
    rig.ask(ManagerRequest::Freeze { account: names[3].as_bytes(), on: true, until: None }).unwrap();
    let (accounts, until) = (vec![names[4].as_bytes()], Some(rig.now + HOUR));
    rig.ask(ManagerRequest::Limit { cap: Some(400), turn: None, accounts }).unwrap();
    let accounts = [5, 6].map(|number: usize| names[number].as_bytes()).to_vec();
    rig.ask(ManagerRequest::Limit { cap: None, turn: Some(7), accounts }).unwrap();
    rig.ask(ManagerRequest::Freeze { account: names[8].as_bytes(), on: true, until }).unwrap();
    // The ledger has the line of a department that a module has left, and the use of an account that was deleted.
    let moved = ModuleSettings { module: b"o", department: b"g", instances: 3, ..ModuleSettings::default() };
    rig.ask(ManagerRequest::Module(moved)).unwrap();
    rig.ask(ManagerRequest::Del { accounts: vec![names[6].as_bytes()] }).unwrap();
    rig.detach("m", "a", 0);
    rig.detach("o", "a", HOUR);
    rig
}

#[test]
fn snapshot_keeps_its_bytes() {
    let rig = book();
    let states = [1, 2, 3, 9].map(|number| rig.standing(&name(number)));
    let (revoking, frozen) = (AccountState::Revoking, AccountState::Frozen);
    assert_eq!(states, [revoking, revoking, frozen, AccountState::Assigned]);
    rig.check();
    let mut bytes = rig.book.encode();
    assert_eq!(lines(&bytes), SNAPSHOT);
    bytes[0] += 1;
    assert!(Book::decode(&bytes).is_err(), "a version of the future");
}
