//! Properties of rebalancing that hold for random books: instances get their minimum, each move pays, and no change of
//! an operator is lost.

use super::recount::{Holdings, Sent};
use super::rig::{HOUR, Rig, login, name, usage};
use allot_core::account::place::{Instance, Module, Presence, Share};
use allot_core::account::rebalance::Shift;
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

/// The settings of a book and of its modules that do not change.
#[derive(Clone, Debug)]
struct Setup {
    dwell: i64,
    max_moves: u32,
    lend_level: i64,
    lend: i64,
    departments: [&'static str; MODULES.len()],
    weights: [i64; MODULES.len()],
    reserves: [i64; MODULES.len()],
}

/// One department, in which nothing has to wait.
const FLAT: Setup = Setup {
    dwell: 0,
    max_moves: 1000,
    lend_level: 0,
    lend: 0,
    departments: ["d"; MODULES.len()],
    weights: [1; MODULES.len()],
    reserves: [0; MODULES.len()],
};

fn setup() -> impl Strategy<Value = Setup> {
    let usual = Settings::default();
    let departments = prop::array::uniform3(prop::sample::select(vec!["d", "d/e", "d/f", "x"]));
    let waits = (
        prop::sample::select(vec![0, usual.dwell, 5 * HOUR]),
        prop::sample::select(vec![0, HOUR / 6, 5 * HOUR]),
    );
    let moves = prop::sample::select(vec![0, 1, usual.max_moves, 1000]);
    let weights = prop::array::uniform3(prop::sample::select(vec![0, 1, 1, 1]));
    let reserves = prop::array::uniform3(prop::sample::select(vec![0, 0, 1, 2]));
    (waits, moves, 0..3i64, departments, weights, reserves).prop_map(
        |((dwell, lend), max_moves, lend_level, departments, weights, reserves)| Setup {
            dwell,
            max_moves,
            lend_level,
            lend,
            departments,
            weights,
            reserves,
        },
    )
}

impl Setup {
    fn module(&self, module: usize, min: i64, places: bool) -> ManagerRequest<'static> {
        ManagerRequest::Module(ModuleSettings {
            module: MODULES[module].as_bytes(),
            department: self.departments[module].as_bytes(),
            instances: 2,
            weight: Some(self.weights[module]),
            reserve: Some(self.reserves[module]),
            min: Some(min),
            share: Some(if places { Share::Places } else { Share::Present }),
            lend: Some(self.lend),
            ..ModuleSettings::default()
        })
    }

    /// Whether two modules exchange accounts.
    fn exchange(&self, module: usize, other: usize) -> bool {
        let shared = |module: usize| {
            let names: Vec<&str> = self.departments[module].split('/').collect();
            let level =
                if self.lend_level == 0 { names.len() } else { names.len().min(self.lend_level as usize) };
            names[..level].to_vec()
        };
        let have_weights = self.weights[module] > 0 && self.weights[other] > 0;
        module == other || have_weights && shared(module) == shared(other)
    }
}

/// A book, and what happened to it.
struct World {
    rig: Rig,
    setup: Setup,
    sent: Sent,
    margin: Amount,
}

fn begin(setup: Setup, margin: Amount) -> World {
    let (dwell, max_moves, turns) = (setup.dwell, setup.max_moves, vec![720 * HOUR]);
    let mut rig = Rig::new(Settings { dwell, max_moves, turns, ..Settings::default() });
    let (margin_set, lend_level) = (Some(margin), Some(setup.lend_level));
    let changes = Changes { margin: margin_set, lend_level, ..Changes::default() };
    rig.ask(ManagerRequest::Configure(changes)).unwrap();
    for module in 0..MODULES.len() {
        rig.ask(setup.module(module, 1, module > 0)).unwrap();
    }
    for (module, name) in MODULES.iter().enumerate() {
        rig.add(name, module * 4..module * 4 + 4);
    }
    rig.settle();
    World { rig, setup, sent: Sent::default(), margin }
}

/// Rebalances, and returns the moves. Each avoids a cost or fills a minimum.
fn rebalance(world: &mut World) -> Vec<Shift> {
    let World { rig, sent, margin, .. } = world;
    let holdings = Holdings::of(rig);
    let check = sent.checker(rig, holdings, *margin);
    let reply = rig.ask(ManagerRequest::Rebalance { dry_run: false, max_moves: 1000 });
    let Ok(Reply::Moves(moves)) = reply else { panic!("{reply:?}") };
    check(&moves);
    rig.settle();
    moves
}

/// Takes a step; returns the moves of rebalancing. Steps that the book refuses change nothing.
fn take(world: &mut World, step: &Step) -> Vec<Shift> {
    let World { rig, setup, sent, .. } = world;
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
            rig.code(setup.module(module, min, places));
        }
        Step::Login(account) if exists(rig, account) => {
            let holder = rig.holder(&name(account));
            rig.code(login(&name(account), &holder, "t", 10 * HOUR));
        }
        Step::Logout(account) => end_login(rig, account),
        Step::Use(account, count) if exists(rig, account) => {
            let (epoch, instance) = (rig.account(&name(account)).epoch, rig.account(&name(account)).instance);
            if rig.code(usage(&name(account), epoch, count)) == "OK" && rig.book.instance(instance).is_some()
            {
                sent.count(rig, instance, count as u64);
            }
        }
        Step::Move(account, module) => {
            let (name, module) = (name(account), MODULES[module].as_bytes());
            rig.code(ManagerRequest::Move { module, accounts: vec![name.as_bytes()] });
        }
        Step::Freeze(account) => {
            rig.code(ManagerRequest::Freeze { account: name(account).as_bytes(), on: true, until: None });
        }
        Step::Delete(account) => {
            rig.code(ManagerRequest::Del { accounts: vec![name(account).as_bytes()] });
        }
        Step::Rebalance => return rebalance(world),
        Step::Pass => rig.pass(2 * HOUR),
        Step::Login(_) | Step::Use(..) => {}
    }
    rig.settle();
    sent.observe(rig);
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

/// The active instances of a module.
fn active<'a>(rig: &'a Rig, module: &'a Module) -> impl Iterator<Item = &'a Instance> {
    let instances = module.instances().filter_map(|id| rig.book.instance(id));
    instances.filter(|instance| instance.presence == Presence::Active)
}

/// For each module, how many accounts it and the modules with which it exchanges accounts can give to instances that
/// have too few, and how many these lack. Reserves are not given, and no instance gives what it must have.
fn spare_and_lacking(world: &World) -> Vec<(i64, i64)> {
    let of_module = |module: usize| {
        let id = world.rig.book.find_module(MODULES[module].as_bytes()).unwrap();
        let module = world.rig.book.module(id).unwrap();
        let (_, free) = module.counts();
        let over = |one: &Instance| i64::from(one.assigned + one.incoming) - i64::from(module.policy.min);
        let overs: Vec<i64> = active(&world.rig, module).map(over).collect();
        let spare: i64 = overs.iter().map(|over| *over.max(&0)).sum();
        let lacking: i64 = overs.iter().map(|over| (-over).max(0)).sum();
        (spare + (free as i64 - i64::from(module.reserve)).max(0), lacking)
    };
    let of_group = |module: usize| {
        let group = (0..MODULES.len()).filter(|&other| world.setup.exchange(module, other));
        group.map(of_module).fold((0, 0), |sum, (spare, lacking)| (sum.0 + spare, sum.1 + lacking))
    };
    (0..MODULES.len()).map(of_group).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_active_instance_stays_below_its_minimum(
        setup in prop_oneof![Just(FLAT), setup()],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = begin(setup, Amount(0));
        for step in &steps {
            take(&mut world, step);
        }
        // A login keeps an account where it is.
        for account in 0..ACCOUNTS {
            end_login(&mut world.rig, account);
        }
        world.rig.settle();
        world.sent.observe(&world.rig);
        let before = spare_and_lacking(&world);
        rebalance(&mut world);
        for ((spare, lacking), (_, lacks)) in before.into_iter().zip(spare_and_lacking(&world)) {
            prop_assert!(lacks == 0 || spare < lacking, "{} of {} lack, {} were spare", lacks, lacking, spare);
        }
        for module in world.rig.book.modules() {
            let (min, mut all) = (module.policy.min, active(&world.rig, module));
            let lacks = all.any(|instance| instance.assigned + instance.incoming < min);
            prop_assert!(!lacks || module.counts().1 == 0, "an instance lacks accounts that its module has");
        }
        world.rig.check();
    }

    #[test]
    fn every_move_avoids_a_cost_or_fills_a_minimum(
        setup in prop_oneof![Just(FLAT), setup()],
        margin in 0..3i128,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = begin(setup, Amount(margin * 1_000_000_000));
        // `rebalance` checks the moves.
        for step in &steps {
            take(&mut world, step);
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
        let mut world = begin(FLAT, Amount(0));
        for step in &before {
            take(&mut world, step);
        }
        let rig = &mut world.rig;
        let (Step::Move(account, _) | Step::Freeze(account) | Step::Delete(account)) = change else { unreachable!() };
        // What is being deleted, or was deleted, cannot be changed.
        let frozen = exists(rig, account) && rig.standing(&name(account)) == AccountState::Frozen;
        let is_deleted = exists(rig, account) && rig.account(&name(account)).goal == Some(Goal::Delete);
        prop_assume!(!is_deleted);
        let request_fits = match &change {
            Step::Move(account, module) => {
                let (name, module) = (name(*account), MODULES[*module].as_bytes());
                rig.code(ManagerRequest::Move { module, accounts: vec![name.as_bytes()] }) == "OK"
            }
            Step::Freeze(account) => {
                let account = name(*account);
                rig.code(ManagerRequest::Freeze { account: account.as_bytes(), on: true, until: None }) == "OK"
            }
            _ => rig.code(ManagerRequest::Del { accounts: vec![name(account).as_bytes()] }) == "OK",
        };
        prop_assume!(request_fits);
        rig.settle();
        world.sent.observe(&world.rig);
        let mut moved = false;
        for step in &after {
            // Another change of the operator replaces this one.
            let again = matches!(*step, Step::Move(other, _) | Step::Freeze(other) | Step::Delete(other) if other == account);
            if again {
                continue;
            }
            let revoking = exists(&world.rig, account) && world.rig.standing(&name(account)) == AccountState::Revoking;
            let moves = take(&mut world, step);
            if moves.iter().any(|shift| *shift.account == *name(account).as_bytes()) {
                prop_assert!(!revoking, "rebalancing moves an account that the operator moves");
                moved = true;
            }
        }
        let rig = &mut world.rig;
        end_login(rig, account);
        rig.settle();
        match change {
            Step::Delete(_) => prop_assert!(!exists(rig, account)),
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
