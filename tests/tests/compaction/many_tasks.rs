//! Many live tasks at one manager.

use allot_coordination::{Kind, Op, Tree};
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
    tree.ensure(&format!("{ROOT}/Scheduler")).await.unwrap();
    for batch in (0..count).collect::<Vec<_>>().chunks(100) {
        tree.multi(batch.iter().flat_map(|&n| creation(n)).collect()).await.unwrap();
    }
}

/// The operations that create a paused task of one partition.
fn creation(n: usize) -> Vec<Op> {
    let task = serde_json::json!({
        "CompactTaskId": id(n), "CompactTaskState": "Init", "repeat_flag": false, "sub_task_flag": false,
        "db_name": "d", "schema_name": "s", "table_name": format!("t{n}"), "manager": "host0_9876",
        "pc": "default", "retries": 1, "paused": true, "named": ["p"], "created": 1_617_693_100_000_u64,
    });
    let dir = format!("{ROOT}/Scheduler/{}", id(n));
    let nodes = [
        (dir.clone(), Vec::new()),
        (format!("{dir}/Status.Init"), Vec::new()),
        (format!("{dir}/TaskInfo.default.d"), task.to_string().into_bytes()),
        (format!("{dir}/Partitions"), Vec::new()),
        (format!("{dir}/Finished"), Vec::new()),
    ];
    nodes.map(|(path, data)| Op::Create { path, data, kind: Kind::Persistent }).into()
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
    let stopped = cluster.run(&["stop", &id(COUNT / 3), "--wait"]).ok();
    assert!(stopped.err.contains("Cancel"), "{}", stopped.err);
    eventually("the others to be managed still", TASK_TIMEOUT, || managed() == Some((COUNT - 4) as f64));
}
