//! Many live tasks at one manager.

use allot_compaction::task::MainTask;
use allot_compaction::task_store::TaskStore;
use allot_coordination::{Op, Tree};
use allot_tests::compaction_cluster::{CompactionCluster, TASK_TIMEOUT, UNHURRIED, numbers, script};
use allot_tests::eventually;
use allot_tests::zookeeper::on_tree;

const ROOT: &str = "/cluster.compact/Compaction_v2";
const COUNT: usize = 10_000;

fn id(n: usize) -> String {
    format!("aaaaffff.16176931.{n:08}.0")
}

/// Creates so many paused tasks, each of one partition.
pub(crate) async fn create(tree: &Tree, count: usize) {
    let store = TaskStore::new(tree.clone(), ROOT);
    store.prepare().await.unwrap();
    for batch in (0..count).collect::<Vec<_>>().chunks(100) {
        tree.multi(batch.iter().flat_map(|&n| creation(&store, n)).collect()).await.unwrap();
    }
}

/// The operations that create a paused task of one partition.
fn creation(store: &TaskStore, n: usize) -> Vec<Op> {
    let (id, table) = (id(n).parse().unwrap(), ["d", "s", &format!("t{n}")].map(str::to_owned));
    let task = MainTask::new(id, table, "host0_9876".to_owned(), "default".to_owned());
    store.creation(id, &MainTask { paused: true, named: vec!["p".to_owned()], ..task })
}

#[test]
fn manager_of_ten_thousand_live_tasks_reconnects() {
    let home = tempfile::tempdir().unwrap();
    let mut cluster = CompactionCluster::start(0, &script(home.path(), "#!/bin/sh\n"));
    on_tree(&cluster.zookeeper.address(), |tree| async move { create(&tree, COUNT).await });
    cluster.join_with(1, &home.path().join("runner"), &[UNHURRIED]);
    let unit = &cluster.units[0];
    let managed = || unit.metric("allot_compaction_tasks{state=\"paused\"}");
    eventually("all tasks to be managed", TASK_TIMEOUT, || managed() == Some(COUNT as f64));
    let sessions = unit.metric("allot_compaction_watch_sessions").unwrap();
    assert!(sessions >= (COUNT / 400 - 1) as f64, "{sessions} sessions");

    // After a reconnection the manager still learns of each change.
    cluster.zookeeper.kill9();
    eventually("the unit to notice", TASK_TIMEOUT, || !unit.is_ready());
    cluster.zookeeper.restore();
    eventually("the unit to be ready", TASK_TIMEOUT, || unit.is_ready());
    for n in [0, COUNT / 2, COUNT - 1] {
        let _ = cluster.run(&["resume", &id(n)]).ok();
        assert_eq!(numbers(&cluster.end(&id(n))), [1, 0, 0], "task {n}");
    }
    let stopped = cluster.run(&["stop", &id(COUNT / 3), "--wait", "--yes"]).ok();
    assert!(stopped.out.contains("has stopped"), "{}", stopped.out);
    eventually("the others to be managed still", TASK_TIMEOUT, || managed() == Some((COUNT - 4) as f64));
}
