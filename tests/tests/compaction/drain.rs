//! Compaction nodes that take no more subtasks: because an operator drains them, or because they leave.

use std::fs;

use allot_tests::compaction_cluster::{CompactionCluster, TASK_TIMEOUT, UNHURRIED, numbers, script};
use allot_tests::eventually;

/// Runs until the test says so.
const HELD: &str = r#"#!/bin/sh
echo "$ALLOT_NODE" >>"$ALLOT_TEST_DIR/begun"
while [ ! -e "$ALLOT_TEST_DIR/go" ]; do sleep 0.05; done
echo "$ALLOT_PARTITION" >>"$ALLOT_TEST_DIR/ended"
"#;

#[test]
fn drained_node_begins_no_more_until_it_is_undrained() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), HELD);
    let mut cluster = CompactionCluster::start_with(1, &runner, &[UNHURRIED]);
    cluster.partitions(8);
    let id = cluster.submit(&["shop", "public", "orders"]);
    eventually("both slots to be taken", TASK_TIMEOUT, || cluster.noted("begun").len() == 2);
    cluster.join_with(1, &runner, &[UNHURRIED]);
    eventually("the other node to take some", TASK_TIMEOUT, || cluster.noted("begun").len() == 4);
    let asked = cluster.node(&["drain", "host0_9876", "--deadline", "1m"]).ended(2);
    assert!(asked.err.contains("end what still runs there") && asked.err.contains("--yes"), "{}", asked.err);
    let drained = cluster.node(&["drain", "host0_9876"]).ok().out;
    assert!(drained.starts_with("node host0_9876 takes no more subtasks"), "{drained}");
    assert!(cluster.node(&["drain", "host7_9876"]).ended(4).err.contains("there is no compaction node"));
    let state = |cluster: &CompactionCluster| cluster.nodes()[0]["state"].as_str().unwrap().to_owned();
    assert_eq!(state(&cluster), "drained");
    let why = cluster.run(&["explain", &id]).ok().out;
    assert!(why.contains("it is drained, and others take what waits"), "{why}");

    // It stays so over a restart.
    assert!(cluster.units[0].terminate().success());
    cluster.units[0].start();
    eventually("the node to be back", TASK_TIMEOUT, || cluster.units[0].is_ready());
    assert_eq!(state(&cluster), "drained");
    fs::write(cluster.dir.path().join("go"), "").unwrap();
    cluster.all_well(&id, 8);
    let begun = cluster.noted("begun");
    assert_eq!(begun.iter().filter(|node| *node == "host0_9876").count(), 2, "{begun:?}");

    let undrained = cluster.node(&["undrain", "host0_9876"]).ok().out;
    assert_eq!(undrained, "node host0_9876 takes subtasks again\n");
    assert_eq!(state(&cluster), "present");
    let again = cluster.submit(&["shop", "public", "orders"]);
    cluster.all_well(&again, 8);
    let begun = cluster.noted("begun");
    assert!(begun.iter().filter(|node| *node == "host0_9876").count() > 2, "{begun:?}");
}

#[test]
fn node_that_drains_itself_ends_after_its_runners() {
    let home = tempfile::tempdir().unwrap();
    let settings = [UNHURRIED, ("ALLOT_COMPACTION_DRAIN", "true")];
    let cluster = CompactionCluster::start_with(1, &script(home.path(), HELD), &settings);
    cluster.partitions(1);
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "0"]);
    eventually("the runner to begin", TASK_TIMEOUT, || cluster.noted("begun").len() == 1);
    let unit = &cluster.units[0];
    unit.signal("TERM");
    eventually("the node to be drained", TASK_TIMEOUT, || cluster.nodes()[0]["state"] == "drained");
    fs::write(cluster.dir.path().join("go"), "").unwrap();
    assert!(unit.wait_for_end().success(), "{}", unit.log());
    assert_eq!(cluster.nodes(), serde_json::json!([]));

    // Its result is counted by the next one.
    unit.start();
    let task = cluster.end(&id);
    assert_eq!((&task["state"], numbers(&task)), (&"Done".into(), [1, 0, 0]), "{task}");
    assert_eq!(cluster.noted("begun").len(), 1, "it ran again");
}
