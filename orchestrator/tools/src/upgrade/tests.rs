//! Tests of the upgrade from version 1, on an in-process tree.

mod kill_points;

use std::sync::Arc;

use super::*;
use allot_compaction::node::NodeInfo;
use allot_compaction::paths;
use allot_compaction::task_store::Found;
use allot_coordination::in_process::InProcess;
use allot_coordination::session::Connector;
use allot_coordination::{Coordinator, Tree};

const OLD: &str = "/cluster.compact/Compaction";
const NEW: &str = "/cluster.compact/Compaction_v2";
const FIRST: u64 = 1_617_693_156_000;

struct World {
    coordinator: Coordinator,
    store: TaskStore,
    units: Units,
}

impl World {
    async fn new() -> Self {
        let world = Self::at(Arc::new(InProcess::new(Duration::from_secs(2)))).await;
        world.store.prepare().await.unwrap();
        world.store.tree.ensure(&format!("{OLD}/Scheduler")).await.unwrap();
        world
    }

    /// A client of this tree.
    async fn at(tree: Arc<dyn Connector>) -> Self {
        let coordinator = Coordinator::start(tree);
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), NEW);
        Self { coordinator, store, units: Units::default() }
    }

    fn tree(&self) -> Tree {
        self.coordinator.tree()
    }

    /// An old task of the unit `u_1`, on the one table.
    async fn old(&self, number: u64, end: &str) -> String {
        let name = format!("compct.u_1.0.{}{end}", FIRST + number);
        let task = br#"{"db_name":"d","schema_name":"s","table_name":"t"}"#.to_vec();
        self.tree().multi(vec![create(format!("{OLD}/Scheduler/{name}"), task)]).await.unwrap();
        name
    }

    async fn upgrade(&self) -> Upgrade {
        self.run(false).await
    }

    async fn run(&self, dry: bool) -> Upgrade {
        let source = Source::Tree(self.tree(), OLD.to_owned());
        let (pc, day) = ("default".to_owned(), Duration::from_secs(86400));
        Upgrade::new(self.store.clone(), source, self.units.clone(), pc, day, dry).await.unwrap()
    }

    async fn new_task(&self, name: &str) -> Found<MainTask> {
        self.store.main(name.parse::<Name>().unwrap().id()).await.unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn each_task_of_a_table_waits_for_the_one_before() {
    let world = World::new().await;
    // Submitted with version 2, so its id is newer.
    let submitted = TaskId::main("v_1", 1_700_000_000_000_000);
    let task = MainTask::new(submitted, ["d", "s", "t"].map(str::to_owned), "v_1".into(), "default".into());
    world.tree().multi(world.store.creation(submitted, &task)).await.unwrap();
    let mut names = Vec::new();
    for number in 0..4 {
        names.push(world.old(number, "").await);
    }
    let (first_run, second_run) = (world.upgrade().await, world.upgrade().await);
    // Each run upgrades some tasks and finds the others upgraded.
    for (n, name) in names.iter().enumerate() {
        let (first, second) = if n % 2 == 0 { (&first_run, &second_run) } else { (&second_run, &first_run) };
        assert_eq!(first.step(name).await.unwrap(), Step::Written(State::Init));
        assert_eq!(second.step(name).await.unwrap(), Step::Passed);
    }
    let mut before = submitted.to_string();
    for name in &names {
        let new = world.new_task(name).await;
        assert_eq!(new.task.after, Some(before));
        before = new.task.id;
    }
    // Another run continues after the last task, and so does a submission that queues.
    let last = world.old(9, ".Assigned").await;
    assert_eq!(world.upgrade().await.step(&last).await.unwrap(), Step::Written(State::Init));
    let last = world.new_task(&last).await.task;
    assert_eq!(last.after, Some(before));
    let mains = world.store.mains().await.unwrap();
    assert_eq!(last_of(&mains, ["d", "s", "t"]).map(|id| id.to_string()), Some(last.id));
    assert_eq!(last_of(&mains, ["d", "s", "other"]), None);
}

#[tokio::test(start_paused = true)]
async fn task_under_two_names_is_upgraded_in_its_later_state() {
    let world = World::new().await;
    let (first, _) = (world.old(0, "").await, world.old(0, ".Done").await);
    let _assigned = (world.old(1, "").await, world.old(1, ".Assigned").await);
    let names = world.upgrade().await.names().await.unwrap();
    let upgrade = async |dry: bool| {
        let (run, mut steps) = (world.run(dry).await, Vec::new());
        let (ordered, others) = Upgrade::order(&names);
        for name in ordered.into_iter().chain(others) {
            steps.push((name.to_owned(), run.step(name).await.unwrap()));
        }
        steps
    };
    // A dry run says what the run will do.
    let said = upgrade(true).await;
    assert_eq!(world.store.mains().await.unwrap().len(), 0);
    assert_eq!(upgrade(false).await, said);
    assert_eq!(said.iter().filter(|(_, step)| *step == Step::Locked).count(), 2, "{said:?}");
    assert_eq!(world.new_task(&first).await.task.state, State::Done);
    assert_eq!(world.upgrade().await.missing().await.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn absent_manager_finds_a_notice_when_it_starts() {
    let world = World::new().await;
    let (live, over) = (world.old(0, "").await, world.old(1, ".Done").await);
    let upgrade = world.upgrade().await;
    for name in [&live, &over] {
        assert!(matches!(upgrade.step(name).await.unwrap(), Step::Written(_)));
    }
    let notices = world.store.children(&world.store.paths.inbox("u_1")).await.unwrap();
    assert_eq!(notices, [live.parse::<Name>().unwrap().id().to_string()]);
}

#[tokio::test(start_paused = true)]
async fn unit_that_leaves_meanwhile_does_not_stop_the_upgrade() {
    let mut world = World::new().await;
    let info = NodeInfo { pc: "default".into(), slots: 1, limit: 0, version: "1".into(), started: 1 };
    // Present in the last snapshot, and gone since.
    world.units.live.insert("u_1".into(), info);
    let name = world.old(0, "").await;
    assert_eq!(world.upgrade().await.step(&name).await.unwrap(), Step::Written(State::Init));
    assert_eq!(world.new_task(&name).await.task.manager, "u_1");
}

#[tokio::test(start_paused = true)]
async fn old_task_that_changed_meanwhile_is_read_again() {
    let world = World::new().await;
    let name = world.old(0, "").await;
    let read = Source::Tree(world.tree(), OLD.to_owned()).get(&name).await.unwrap().unwrap();
    let path = format!("{OLD}/Scheduler/{name}");
    let version = world.tree().get(&path).await.unwrap().unwrap().version;
    world.tree().set(&path, b"{}", version).await.unwrap();
    assert_eq!(world.tree().multi(read.checks).await, Err(Error::BadVersion(path)));
    assert!(matches!(world.upgrade().await.step(&name).await.unwrap(), Step::Odd(_)));
}

#[tokio::test(start_paused = true)]
async fn old_tree_is_deleted_only_when_every_task_is_accounted_for() {
    let world = World::new().await;
    let (live, over, odd) = (world.old(0, "").await, world.old(1, ".Done").await, world.old(2, "").await);
    let upgrade = world.upgrade().await;
    assert_eq!(upgrade.missing().await.unwrap().len(), 3);
    for name in [&live, &over, &odd] {
        assert!(matches!(upgrade.step(name).await.unwrap(), Step::Written(_)));
    }
    assert_eq!(upgrade.missing().await.unwrap(), Vec::<String>::new());
    assert_eq!(history::pack(&world.store, Duration::ZERO).await.unwrap(), 1);
    // A run that began before the packing does not know of the pack; a new run does.
    assert_eq!(world.upgrade().await.missing().await.unwrap(), Vec::<String>::new());

    // An unreadable new task keeps the old tree from being deleted.
    let broken = world.new_task(&odd).await;
    world.tree().set(&broken.info, b"{", broken.version).await.unwrap();
    let missing = world.upgrade().await.missing().await.unwrap();
    assert!(missing.len() == 1 && missing[0].contains(&broken.info), "{missing:?}");
    let node = world.tree().get(&broken.info).await.unwrap().unwrap();
    let whole = serde_json::to_vec(&broken.task).unwrap();
    world.tree().set(&broken.info, &whole, node.version).await.unwrap();

    // A missing pack is acceptable only if the task was upgraded long enough ago.
    std::thread::sleep(Duration::from_millis(5));
    history::expire(&world.store, Duration::ZERO).await.unwrap();
    let missing = world.upgrade().await.missing().await.unwrap();
    assert!(missing.len() == 1 && missing[0].contains("is not there"), "{missing:?}");
    let lock = world.store.paths.upgrade_lock(&over);
    let version = world.tree().get(&lock).await.unwrap().unwrap().version;
    world.tree().set(&lock, b"1000", version).await.unwrap();
    let upgrade = world.upgrade().await;
    assert_eq!(upgrade.missing().await.unwrap(), Vec::<String>::new());

    // Everything is deleted, and an interrupted deletion is resumed.
    for name in [&live, &over, &odd] {
        upgrade.remove(name).await.unwrap();
    }
    world.tree().ensure(&format!("{OLD}/TaskAssigned/u_1")).await.unwrap();
    world.tree().multi(vec![Op::Delete { path: format!("{OLD}/Scheduler"), version: None }]).await.unwrap();
    assert!(Source::is_at(&world.tree(), OLD).await.unwrap());
    upgrade.remove_rest().await.unwrap();
    assert!(world.tree().get(OLD).await.unwrap().is_none());
    assert!(world.tree().get(&world.store.paths.upgrade_locks()).await.unwrap().is_none());
    assert_eq!(world.store.mains().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn unreadable_task_is_skipped_and_blocks_nothing_more() {
    let world = World::new().await;
    let scheduler = format!("{OLD}/Scheduler");
    let node = |name: &str| format!("{scheduler}/{name}");
    let (readable, renamed) = (world.old(0, "").await, world.old(3, "").await);
    let unreadable = format!("compct.u_1.0.{}", FIRST + 1);
    for name in [unreadable.as_str(), "what is this"] {
        world.tree().create(&node(name), b"\xff", Kind::Persistent).await.unwrap();
    }
    let upgrade = world.upgrade().await;
    for name in [&unreadable, "what is this"] {
        assert!(matches!(upgrade.step(name).await.unwrap(), Step::Odd(_)));
    }
    for name in [&readable, &renamed] {
        assert_eq!(upgrade.step(name).await.unwrap(), Step::Written(State::Init));
    }
    assert_eq!(upgrade.missing().await.unwrap().len(), 2);

    // Neither a task that was upgraded, nor one that can be read, nor one that is not there is skipped.
    let later = world.old(2, "").await;
    for name in [readable.as_str(), later.as_str(), "compct.u_1.0.1617693159999"] {
        assert!(matches!(upgrade.skip(name, "why not").await, Err(Fault::Refused(_))), "{name}");
    }
    assert_eq!(upgrade.step(&later).await.unwrap(), Step::Written(State::Init));
    // A dry run writes nothing.
    world.run(true).await.skip(&unreadable, "lost").await.unwrap();
    assert!(matches!(upgrade.step(&unreadable).await.unwrap(), Step::Odd(_)));
    for name in [&unreadable, "what is this"] {
        for _ in 0..2 {
            upgrade.skip(name, "lost with \"disk\" 7").await.unwrap();
        }
        assert_eq!(upgrade.step(name).await.unwrap(), Step::Skipped("lost with \"disk\" 7".into()));
    }
    assert_eq!(upgrade.missing().await.unwrap(), Vec::<String>::new());
    for name in upgrade.names().await.unwrap() {
        upgrade.remove(&name).await.unwrap();
    }
    upgrade.remove_rest().await.unwrap();
    assert!(world.tree().get(OLD).await.unwrap().is_none());
    assert_eq!(world.store.mains().await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn running_version_1_subtask_is_a_sign_of_life() {
    let world = World::new().await;
    let source = Source::Tree(world.tree(), OLD.to_owned());
    let sub = format!("{OLD}/TaskAssigned/u_1/compct.u_1.1.{FIRST}");
    world.tree().ensure(&format!("{sub}/{}", paths::status("Success"))).await.unwrap();
    assert_eq!(source.sign_of_life().await.unwrap(), None);
    let running = format!("{sub}/{}", paths::status("Running"));
    world.tree().ensure(&running).await.unwrap();
    assert_eq!(source.sign_of_life().await.unwrap().map(|(path, _)| path), Some(running));
}

#[tokio::test(start_paused = true)]
async fn partitions_that_have_succeeded_do_not_run_again() {
    let world = World::new().await;
    let (live, over) = (world.old(0, ".Assigned").await, world.old(1, ".Done").await);
    let sub = async |unit: &str, number: u64, of: u64, status: &str, partition: Option<&str>| {
        let path = format!("{OLD}/TaskAssigned/{unit}/compct.u_1.{number}.{}", FIRST + of);
        world.tree().ensure(&format!("{path}/{}", paths::status(status))).await.unwrap();
        if let Some(partition) = partition {
            let data = format!("{{\"db_name\":\"d\",\"partition_name\":\"{partition}\"}}");
            world.tree().multi(vec![create(format!("{path}/TaskInfo"), data.into_bytes())]).await.unwrap();
        }
    };
    sub("u_1", 1, 0, "Success", Some("p1")).await;
    sub("v_1", 2, 0, "Success", Some("p2")).await;
    sub("v_1", 3, 0, "Failed", Some("p3")).await;
    // One that says nothing of its partition, and one of another task.
    sub("v_1", 4, 0, "Success", None).await;
    sub("v_1", 1, 1, "Success", Some("p4")).await;
    let upgrade = world.upgrade().await;
    for name in [&live, &over] {
        assert!(matches!(upgrade.step(name).await.unwrap(), Step::Written(_)));
    }
    let mut new = world.new_task(&live).await;
    let listed = ["p1", "p2", "p3", "p4"].map(str::to_owned);
    world.store.open_round(&mut new, &listed).await.unwrap();
    assert_eq!(world.store.partitions(&new).await.unwrap(), ["p3", "p4"]);
    let counts = (new.task.result.success_count, new.task.round_size(), new.task.outstanding());
    assert_eq!(counts, (2, 4, 0));
    // Its second round has all of them.
    world.store.close_round(&mut new).await.unwrap();
    world.store.open_round(&mut new, &listed).await.unwrap();
    assert_eq!(new.task.count(), 4);
    assert!(world.tree().get(&world.store.paths.succeeded(new.id)).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn finished_task_shows_its_own_manager() {
    let mut world = World::new().await;
    let info = NodeInfo { pc: "default".into(), slots: 1, limit: 0, version: "1".into(), started: 1 };
    world.units.live.insert("v_1".into(), info);
    let (live, over) = (world.old(0, "").await, world.old(1, ".Done").await);
    let upgrade = world.upgrade().await;
    for (name, manager) in [(&live, "v_1"), (&over, "u_1")] {
        world.tree().ensure(&world.store.paths.node("v_1")).await.unwrap();
        assert!(matches!(upgrade.step(name).await.unwrap(), Step::Written(_)));
        assert_eq!(world.new_task(name).await.task.manager, manager);
    }
}
