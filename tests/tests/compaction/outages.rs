//! Compaction while ZooKeeper is away, after it was set up afresh, and far from it.

use std::time::Duration;

use allot_tests::compaction_cluster::{CAREFUL, CompactionCluster, TASK_TIMEOUT, numbers, script};
use allot_tests::{Ensemble, Process, eventually};

#[test]
fn units_work_on_after_zookeeper_was_set_up_afresh() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(2, &script(home.path(), CAREFUL));
    cluster.partitions(10);
    let id = cluster.submit(&["shop", "public", "orders"]);
    cluster.all_well(&id, 10);
    cluster.zookeeper.servers()[0].start_empty();
    eventually("the units to be listed again", TASK_TIMEOUT, || {
        cluster.units.iter().all(Process::is_ready)
            && cluster.nodes().as_array().is_some_and(|nodes| nodes.len() == 2)
    });
    let again = cluster.submit(&["shop", "public", "orders"]);
    let task = cluster.end(&again);
    assert_eq!((&task["state"], numbers(&task)), (&"Done".into(), [10, 0, 0]), "{task}");
}

/// Takes a second.
const ONE_SECOND: &str = r#"#!/bin/sh
echo "$ALLOT_ATTEMPT" >>"$ALLOT_TEST_DIR/begun"
sleep 1
echo "$ALLOT_ATTEMPT" >>"$ALLOT_TEST_DIR/ended"
"#;

#[test]
fn success_while_zookeeper_is_away_counts_as_success() {
    let home = tempfile::tempdir().unwrap();
    let settings = [("ALLOT_ZOOKEEPER_SESSION", "8s")];
    let cluster = CompactionCluster::start_with(1, &script(home.path(), ONE_SECOND), &settings);
    cluster.partitions(1);
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "0"]);
    eventually("the runner to begin", TASK_TIMEOUT, || cluster.noted("begun") == ["0"]);
    let server = &cluster.zookeeper.servers()[0];
    server.kill9();
    let unit = &cluster.units[0];
    eventually("the session to be lost", TASK_TIMEOUT, || {
        unit.log().contains("the ZooKeeper session is lost")
    });
    assert_eq!(cluster.noted("ended"), ["0"], "the runner was to end before: {}", unit.log());
    server.restart();
    let task = cluster.end(&id);
    assert_eq!((&task["state"], numbers(&task)), (&"Done".into(), [1, 0, 0]), "{task}");
    assert_eq!(cluster.noted("begun"), ["0"], "it ran again");
}

#[test]
fn unit_works_although_answers_take_three_tenths_of_the_session_timeout() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), CAREFUL);
    let cluster = CompactionCluster::start_on(Ensemble::alone(), 0, &runner, &[]);
    cluster.partitions(3);
    let arguments = [
        "--roles",
        "compaction",
        "--compaction-node",
        "far_1",
        "--compaction-runner",
        runner.to_str().unwrap(),
    ];
    let unit = Process::new("far", &arguments)
        .with("ALLOT_ZOOKEEPER_SESSION", "4s")
        .with("ALLOT_TEST_DIR", cluster.dir.path().to_str().unwrap())
        .with("ALLOT_COMPACTION_OUTPUT_DIR", home.path().join("output").to_str().unwrap())
        .with("ALLOT_COMPACTION_PARTITIONS_DIR", cluster.data().to_str().unwrap())
        .behind_zookeeper(&cluster.zookeeper.address());
    unit.zookeeper.iter().for_each(|wire| wire.delay(Duration::from_millis(1200)));
    unit.start();
    eventually("the unit to be ready", TASK_TIMEOUT, || unit.is_ready());
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "0"]);
    cluster.all_well(&id, 3);
    assert_eq!(cluster.noted("begun").len(), 3, "a runner was lost");
    assert!(!unit.log().contains("session is lost"), "{}", unit.log());
}
