//! The commands of the upgrade on a tree with two unreadable tasks. A process of each command dies before and after each
//! of its calls to the tree. A process that repeats the command then leaves the same tree as a process that never died. A
//! last test counts the requests of a repeated upgrade.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::*;
use allot_simulation::line::{self, Accident, Line, Steps};

/// The calls at which a process dies are fewer than these.
const MOST_CALLS: u64 = 1000;
const REASON: &str = "lost with its disk";

/// A command of an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Upgrade,
    /// Skips the unreadable tasks, then upgrades.
    Skip,
    Finalize,
}

/// The death of a process at its call of this number, which is carried out or not.
#[derive(Clone, Copy)]
struct Death {
    at: u64,
    carried_out: bool,
}

/// Ends a process at one of its calls.
struct Fate {
    death: Option<Death>,
    calls: Mutex<u64>,
}

impl Steps for Fate {
    fn next(&self, _: &str, _: &str) -> line::Step {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        match self.death {
            Some(Death { at, carried_out }) if at == *calls => {
                line::Step::Hit { carried_out, accident: Accident::Death }
            }
            _ => line::Step::Answered(Duration::ZERO),
        }
    }
}

/// The old tasks that cannot be read.
fn unreadable() -> [String; 2] {
    [format!("compct.u_1.0.{}", FIRST + 5), "what is this".to_owned()]
}

/// An old tree: unfinished tasks of one table, finished tasks, a task under two names, a task that is a directory, and
/// two unreadable tasks.
async fn old_tree() -> InProcess {
    let tree = InProcess::new(Duration::from_secs(2));
    let world = World::at(Arc::new(tree.clone())).await;
    for (number, end) in [(0, ""), (1, ".Assigned"), (2, ".Done"), (3, ""), (3, ".Done")] {
        world.store.tree.ensure(&format!("{OLD}/Scheduler")).await.unwrap();
        world.old(number, end).await;
    }
    let data = br#"{"db_name":"d","schema_name":"s","table_name":"t"}"#;
    let dir = format!("{OLD}/Scheduler/compct.u_2.0.{}.Cancel", FIRST + 4);
    world.tree().create(&dir, b"", Kind::Persistent).await.unwrap();
    world.tree().create(&format!("{dir}/TaskInfo"), data, Kind::Persistent).await.unwrap();
    for name in unreadable() {
        let path = format!("{OLD}/Scheduler/{name}");
        world.tree().create(&path, b"\xff", Kind::Persistent).await.unwrap();
    }
    let sub = format!("{OLD}/TaskAssigned/u_1/compct.u_1.1.{FIRST}/{}", paths::status("Success"));
    world.tree().ensure(&sub).await.unwrap();
    world.tree().ensure(&world.store.paths.node("u_1")).await.unwrap();
    tree
}

/// All nodes, without the times in the locks.
fn nodes(tree: &InProcess) -> BTreeMap<String, Vec<u8>> {
    let mut nodes: BTreeMap<String, Vec<u8>> = tree.nodes("/").into_iter().collect();
    for (path, data) in &mut nodes {
        if path.starts_with(&format!("{NEW}/TaskUpgradeLock/")) {
            let lock = match Lock::read(data) {
                Lock::Upgraded(_) => Lock::Upgraded(0),
                skipped @ Lock::Skipped(_) => skipped,
            };
            *data = lock.data(0);
        }
    }
    nodes
}

/// One process that carries out a command.
async fn carry_out(line: Line, command: Command) {
    let mut world = World::at(Arc::new(line)).await;
    let info = NodeInfo { pc: "default".into(), slots: 1, limit: 0, version: "1".into(), started: 1 };
    world.units.live.insert("u_1".into(), info);
    let upgrade = world.upgrade().await;
    if command == Command::Finalize {
        if upgrade.missing().await.unwrap().is_empty() {
            for name in upgrade.names().await.unwrap() {
                upgrade.remove(&name).await.unwrap();
            }
            upgrade.remove_rest().await.unwrap();
        }
        return;
    }
    if command == Command::Skip {
        for name in unreadable() {
            upgrade.skip(&name, REASON).await.unwrap();
        }
    }
    let names = upgrade.names().await.unwrap();
    let (first, others) = Upgrade::order(&names);
    for name in first.into_iter().chain(others) {
        let step = upgrade.step(name).await.unwrap();
        let is_odd = matches!(step, Step::Odd(_));
        let is_unreadable = unreadable().contains(&name.to_owned());
        assert_eq!(is_odd, is_unreadable && command == Command::Upgrade, "{name}: {step:?}");
    }
}

/// Runs a command in a process of its own. Returns whether the process died.
async fn dies(tree: &InProcess, command: Command, death: Option<Death>) -> bool {
    let line = Line::new(tree.clone(), Arc::new(Fate { death, calls: Mutex::default() }));
    let died = tokio::select! {
        () = carry_out(line.clone(), command) => false,
        () = line.died() => true,
    };
    line.expire_all();
    died
}

/// The ids that tasks of these old names have in version 2.
fn new_ids<'a>(names: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    names.into_iter().filter_map(|name| Some(name.parse::<Name>().ok()?.id().to_string())).collect()
}

/// What holds at each point: a task and its lock are written together, and deleted together.
fn check_whole(nodes: &BTreeMap<String, Vec<u8>>, command: Command, when: &str) {
    let names = |dir: &str| -> BTreeSet<String> {
        let below = nodes.keys().filter_map(|path| path.strip_prefix(dir)?.strip_prefix('/'));
        below.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    };
    let old = names(&format!("{OLD}/Scheduler"));
    let locks = names(&format!("{NEW}/TaskUpgradeLock"));
    let locks: BTreeSet<String> =
        locks.iter().map(|name| name.strip_suffix(".lock").unwrap().to_owned()).collect();
    if command == Command::Finalize {
        assert_eq!(old, locks, "{when}");
        let is_left = |path: &str| nodes.keys().any(|node| node.starts_with(&format!("{OLD}/{path}")));
        let is_found = !is_left("") || is_left("Scheduler") || is_left("TaskAssigned");
        assert!(is_found, "{when}: a repeated command does not find the old tree");
        return;
    }
    assert_eq!(old.len(), 8, "{when}");
    let taken = &new_ids(&locks) - &new_ids(&unreadable());
    let mut new = names(&format!("{NEW}/Scheduler"));
    new.remove("Compress");
    assert_eq!(taken, new, "{when}: a task without its lock, or a lock without its task");
}

/// Kills a command, which follows these others, at each of its calls, and repeats it. Returns the tree in the end.
async fn killed_at_every_call(before: &[Command], command: Command) -> BTreeMap<String, Vec<u8>> {
    let prepared = async || {
        let tree = old_tree().await;
        for &command in before {
            assert!(!dies(&tree, command, None).await);
        }
        tree
    };
    let tree = prepared().await;
    assert!(!dies(&tree, command, None).await);
    let undisturbed = nodes(&tree);
    for carried_out in [false, true] {
        for at in 1.. {
            let tree = prepared().await;
            let died = dies(&tree, command, Some(Death { at, carried_out })).await;
            let when = format!("killed at call {at}, carried out: {carried_out}");
            check_whole(&nodes(&tree), command, &when);
            assert!(!dies(&tree, command, None).await);
            let after = nodes(&tree);
            let differing: Vec<_> =
                after.iter().filter(|(path, data)| undisturbed.get(*path) != Some(data)).collect();
            assert!(differing.is_empty() && after.len() == undisturbed.len(), "{when}: {differing:?}");
            if !died {
                assert!(at > 20, "only {at} calls");
                break;
            }
            assert!(at < MOST_CALLS);
        }
    }
    undisturbed
}

#[tokio::test(start_paused = true)]
async fn upgrade_killed_at_any_call_is_completed_by_the_next() {
    let upgraded = killed_at_every_call(&[], Command::Upgrade).await;
    // Without --skip, the unreadable tasks keep the old tree from being deleted.
    let tree = old_tree().await;
    for command in [Command::Upgrade, Command::Finalize] {
        assert!(!dies(&tree, command, None).await);
    }
    assert_eq!(nodes(&tree), upgraded);
}

#[tokio::test(start_paused = true)]
async fn skipping_killed_at_any_call_is_completed_by_the_next() {
    let skipped = killed_at_every_call(&[], Command::Skip).await;
    // It does not matter whether the tasks are skipped before or after the others are upgraded.
    assert_eq!(killed_at_every_call(&[Command::Upgrade], Command::Skip).await, skipped);
    let locks = unreadable().map(|name| skipped[&format!("{NEW}/TaskUpgradeLock/{name}.lock")].clone());
    assert!(locks.iter().all(|lock| Lock::read(lock) == Lock::Skipped(REASON.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn deletion_of_the_old_tree_killed_at_any_call_is_completed_by_the_next() {
    let nodes = killed_at_every_call(&[Command::Skip], Command::Finalize).await;
    assert!(!nodes.keys().any(|path| path == OLD || path.starts_with(&format!("{OLD}/"))));
    assert!(!nodes.contains_key(&format!("{NEW}/TaskUpgradeLock")));
    assert_eq!(nodes.keys().filter(|path| path.ends_with("/TaskInfo.default.d")).count(), 5);
}

#[tokio::test(start_paused = true)]
async fn repeated_upgrade_sends_no_request_per_task() {
    let tree = old_tree().await;
    assert!(!dies(&tree, Command::Skip, None).await);
    let fate = Arc::new(Fate { death: None, calls: Mutex::default() });
    let world = World::at(Arc::new(Line::new(tree, fate.clone()))).await;
    let upgrade = world.upgrade().await;
    let names = upgrade.names().await.unwrap();
    let before = *fate.calls.lock().unwrap();
    for name in &names {
        let step = upgrade.step(name).await.unwrap();
        assert!(matches!(step, Step::Passed | Step::Skipped(_)), "{name}: {step:?}");
    }
    // The one request lists the names of the old tasks.
    assert_eq!(upgrade.missing().await.unwrap(), Vec::<String>::new());
    assert_eq!(*fate.calls.lock().unwrap(), before + 1);
}
