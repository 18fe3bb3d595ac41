//! Properties of rebalancing that hold for random books: instances get their minimum, each move pays, and no change of
//! an operator is lost.

use super::rig::{HOUR, Rig, login, name, usage};
use allot_core::account::place::{Presence, Share};
use allot_core::account::rebalance::{Reason, Shift};
use allot_core::account::record::{AccountState, Goal};
use allot_core::account::request::{Changes, ManagerRequest, ModuleSettings};
use allot_core::account::tariff::Amount;
use allot_core::account::{Reply, Settings};
use proptest::prelude::*;

const MODULES: [&str; 3] = ["m", "n", "o"];
const INSTANCES: [&str; 3] = ["a", "b", "c"];
const ACCOUNTS: usize = 12;

/// What happens to a book.
#[derive(Clone, Debug)]
enum Step {
    Attach(usize, usize),
    Detach(usize, usize),
    /// The `MIN`, and whether the accounts are divided by places.
    Module(usize, i64, bool),
    /// An instance logs in with an account that it has.
    Login(usize),
    Logout(usize),
    /// Instructions of an account.
    Use(usize, i64),
    Move(usize, usize),
    Freeze(usize),
    Delete(usize),
    Rebalance,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let (module, instance, account) = (0..MODULES.len(), 0..INSTANCES.len(), 0..ACCOUNTS);
    prop_oneof![
        4 => (module.clone(), instance.clone()).prop_map(|(module, instance)| Step::Attach(module, instance)),
        2 => (module.clone(), instance).prop_map(|(module, instance)| Step::Detach(module, instance)),
        1 => (module.clone(), 0..4i64, any::<bool>()).prop_map(|(module, min, places)| Step::Module(module, min, places)),
        4 => account.clone().prop_map(Step::Login),
        2 => account.clone().prop_map(Step::Logout),
        3 => (account.clone(), 1..90i64).prop_map(|(account, count)| Step::Use(account, count)),
        3 => (account.clone(), module).prop_map(|(account, module)| Step::Move(account, module)),
        1 => account.clone().prop_map(Step::Freeze),
        1 => account.prop_map(Step::Delete),
        5 => Just(Step::Rebalance),
        3 => Just(Step::Pass),
    ]
}

fn module_settings(module: usize, min: i64, places: bool) -> ManagerRequest<'static> {
    ManagerRequest::Module(ModuleSettings {
        module: MODULES[module].as_bytes(),
        department: b"d",
        instances: 2,
        min: Some(min),
        share: Some(if places { Share::Places } else { Share::Present }),
        lend: Some(0),
        ..ModuleSettings::default()
    })
}

fn begin() -> Rig {
    let settings = Settings { dwell: 0, max_moves: 1000, turns: vec![720 * HOUR], ..Settings::default() };
    let mut rig = Rig::new(settings);
    for module in 0..MODULES.len() {
        rig.ask(module_settings(module, 1, module > 0)).unwrap();
    }
    for (module, name) in MODULES.iter().enumerate() {
        rig.add(name, module * 4..module * 4 + 4);
    }
    rig.settle();
    rig
}

/// Rebalances, and returns the moves.
fn rebalance(rig: &mut Rig) -> Vec<Shift> {
    let reply = rig.ask(ManagerRequest::Rebalance { dry_run: false, max_moves: 1000 });
    let Ok(Reply::Moves(moves)) = reply else { panic!("{reply:?}") };
    rig.settle();
    moves
}

/// Takes a step; returns the moves of rebalancing. Steps that the book refuses change nothing.
fn take(rig: &mut Rig, step: &Step) -> Vec<Shift> {
    match *step {
        Step::Attach(module, instance) => {
            let (module, instance) = (MODULES[module].as_bytes(), INSTANCES[instance].as_bytes());
            rig.code(ManagerRequest::Attach { module, instance });
        }
        Step::Detach(module, instance) => {
            let (module, instance) = (MODULES[module].as_bytes(), INSTANCES[instance].as_bytes());
            rig.code(ManagerRequest::Detach { module, instance, grace: 0 });
        }
        Step::Module(module, min, places) => {
            rig.code(module_settings(module, min, places));
        }
        Step::Login(account) if exists(rig, account) => {
            let holder = rig.holder(&name(account));
            rig.code(login(&name(account), &holder, "t", 10 * HOUR));
        }
        Step::Logout(account) => end_login(rig, account),
        Step::Use(account, count) if exists(rig, account) => {
            let epoch = rig.account(&name(account)).epoch;
            rig.code(usage(&name(account), epoch, count));
        }
        Step::Move(account, module) => {
            let (name, module) = (name(account), MODULES[module].as_bytes());
            rig.code(ManagerRequest::Move { module, accounts: vec![name.as_bytes()] });
        }
        Step::Freeze(account) => {
            rig.code(ManagerRequest::Freeze { account: name(account).as_bytes(), on: true });
        }
        Step::Delete(account) => {
            rig.code(ManagerRequest::Del { accounts: vec![name(account).as_bytes()] });
        }
        Step::Rebalance => return rebalance(rig),
        Step::Pass => rig.pass(2 * HOUR),
        Step::Login(_) | Step::Use(..) => {}
    }
    rig.settle();
    Vec::new()
}

fn exists(rig: &Rig, account: usize) -> bool {
    rig.book.find(name(account).as_bytes()).is_some()
}

fn end_login(rig: &mut Rig, account: usize) {
    if !exists(rig, account) {
        return;
    }
    if let Some(epoch) = rig.account(&name(account)).login.as_ref().map(|login| login.epoch) {
        rig.logout(&name(account), epoch);
    }
}

/// The number of accounts that instances may have, and how many accounts active instances must have: by instance, what
/// it has and its minimum.
fn minima(rig: &Rig) -> (usize, Vec<(u32, u32)>) {
    let of_module = |module: &allot_core::account::place::Module| {
        let instances: Vec<u32> = module.instances().collect();
        let active = instances.into_iter().filter_map(|id| rig.book.instance(id));
        let active = active.filter(|instance| instance.presence == Presence::Active);
        active.map(|one| (one.dealt + one.incoming, module.policy.min)).collect::<Vec<_>>()
    };
    let usable = (0..ACCOUNTS)
        .filter(|&account| exists(rig, account) && rig.standing(&name(account)) != AccountState::Frozen);
    (usable.count(), rig.book.modules().flat_map(of_module).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_active_instance_stays_below_its_minimum(steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = begin();
        for step in &steps {
            take(&mut rig, step);
        }
        // A login keeps an account where it is.
        for account in 0..ACCOUNTS {
            end_login(&mut rig, account);
        }
        rig.settle();
        rebalance(&mut rig);
        let (usable, minima) = minima(&rig);
        let needed: u32 = minima.iter().map(|&(_, min)| min).sum();
        if usable >= needed as usize {
            for (has, min) in minima {
                prop_assert!(has >= min, "an instance has {} accounts and must have {}", has, min);
            }
        }
        rig.check();
    }

    #[test]
    fn every_move_avoids_a_cost_or_fills_a_minimum(
        margin in 0..3i128,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut rig = begin();
        let margin = Amount(margin * 1_000_000_000);
        rig.ask(ManagerRequest::Configure(Changes { margin: Some(margin), ..Changes::default() })).unwrap();
        for step in &steps {
            for shift in take(&mut rig, step) {
                match shift.reason {
                    Reason::Cost => prop_assert!(shift.avoided.0 > 0 && shift.avoided >= margin, "{:?}", shift),
                    Reason::Min => prop_assert_eq!(shift.avoided, Amount(0)),
                }
            }
        }
    }

    #[test]
    fn no_change_of_an_operator_is_lost(
        before in prop::collection::vec(step(), 1..50),
        change in prop_oneof![
            (0..ACCOUNTS, 0..MODULES.len()).prop_map(|(account, module)| Step::Move(account, module)),
            (0..ACCOUNTS).prop_map(Step::Freeze),
            (0..ACCOUNTS).prop_map(Step::Delete),
        ],
        after in prop::collection::vec(step(), 0..20),
    ) {
        let mut rig = begin();
        for step in &before {
            take(&mut rig, step);
        }
        let (Step::Move(account, _) | Step::Freeze(account) | Step::Delete(account)) = change else { unreachable!() };
        // What is being deleted, or was deleted, cannot be changed.
        let frozen = exists(&rig, account) && rig.standing(&name(account)) == AccountState::Frozen;
        let is_deleted = exists(&rig, account) && rig.account(&name(account)).goal == Some(Goal::Delete);
        prop_assume!(!is_deleted);
        let request_fits = match &change {
            Step::Move(account, module) => {
                let (name, module) = (name(*account), MODULES[*module].as_bytes());
                rig.code(ManagerRequest::Move { module, accounts: vec![name.as_bytes()] }) == "OK"
            }
            Step::Freeze(account) => {
                let account = name(*account);
                rig.code(ManagerRequest::Freeze { account: account.as_bytes(), on: true }) == "OK"
            }
            _ => rig.code(ManagerRequest::Del { accounts: vec![name(account).as_bytes()] }) == "OK",
        };
        prop_assume!(request_fits);
        let mut moved = false;
        for step in &after {
            // Another change of the operator replaces this one.
            let again = matches!(*step, Step::Move(other, _) | Step::Freeze(other) | Step::Delete(other) if other == account);
            if again {
                continue;
            }
            let revoking = exists(&rig, account) && rig.standing(&name(account)) == AccountState::Revoking;
            let moves = take(&mut rig, step);
            if moves.iter().any(|shift| *shift.account == *name(account).as_bytes()) {
                prop_assert!(!revoking, "rebalancing moves an account that the operator moves");
                moved = true;
            }
        }
        end_login(&mut rig, account);
        rig.settle();
        match change {
            Step::Delete(_) => prop_assert!(!exists(&rig, account)),
            Step::Freeze(_) => prop_assert_eq!(rig.standing(&name(account)), AccountState::Frozen),
            Step::Move(_, module) if !moved => {
                let module = rig.book.find_module(MODULES[module].as_bytes()).unwrap();
                prop_assert_eq!(rig.account(&name(account)).module, module);
                prop_assert_eq!(frozen, rig.standing(&name(account)) == AccountState::Frozen);
            }
            _ => {}
        }
        rig.check();
    }
}
