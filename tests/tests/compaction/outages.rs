//! Compaction while ZooKeeper is away, after it was set up afresh, and far from it; and after all compaction nodes were
//! suspended.

use std::fs;
use std::time::Duration;

use allot_tests::compaction_cluster::{CAREFUL, CompactionCluster, TASK_TIMEOUT, UNHURRIED, numbers, script};
use allot_tests::{Ensemble, Process, eventually};

use crate::supervision::runs;

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

/// The first two attempts take longer than any unit that is cut off lets them run.
const CUT_OFF_TWICE: &str = r#"#!/bin/sh
echo "$$" >>"$ALLOT_TEST_DIR/begun"
[ "$(wc -l <"$ALLOT_TEST_DIR/begun")" -ge 3 ] || sleep 600
echo "$ALLOT_ATTEMPT" >>"$ALLOT_TEST_DIR/ended"
"#;

#[test]
fn subtask_that_two_outages_end_runs_again_and_uses_no_retry() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(3, &script(home.path(), CUT_OFF_TWICE));
    cluster.partitions(1);
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "0"]);
    for attempt in 0..2 {
        eventually("a runner to begin", TASK_TIMEOUT, || cluster.noted("begun").len() > attempt);
        let server = &cluster.zookeeper.servers()[0];
        server.kill9();
        let pid = cluster.noted("begun")[attempt].clone();
        eventually("the runner to be ended", TASK_TIMEOUT, || !runs(&pid));
        server.restart();
    }
    let task = cluster.end(&id);
    assert_eq!((&task["state"], numbers(&task)), (&"Done".into(), [1, 0, 0]), "{task}");
    assert_eq!((cluster.noted("begun").len(), cluster.noted("ended")), (3, vec!["0".to_owned()]));
}

/// Waits for a file.
const UNTIL_TOLD: &str = r#"#!/bin/sh
echo "$$" >>"$ALLOT_TEST_DIR/begun"
while ! [ -e "$ALLOT_TEST_DIR/go" ]; do sleep 0.05; done
"#;

#[test]
fn runner_outlives_two_short_restarts_of_zookeeper() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(3, &script(home.path(), UNTIL_TOLD), &[UNHURRIED]);
    cluster.partitions(1);
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "0"]);
    eventually("the runner to begin", TASK_TIMEOUT, || cluster.noted("begun").len() == 1);
    for _ in 0..2 {
        let server = &cluster.zookeeper.servers()[0];
        server.kill9();
        server.restart();
        eventually("the units to be back", TASK_TIMEOUT, || cluster.units.iter().all(Process::is_ready));
    }
    fs::write(cluster.dir.path().join("go"), "").unwrap();
    let task = cluster.end(&id);
    assert_eq!((&task["state"], numbers(&task)), (&"Done".into(), [1, 0, 0]), "{task}");
    assert_eq!(cluster.noted("begun").len(), 1, "it ran again");
}

#[test]
fn round_that_was_due_while_all_units_were_suspended_begins_once_within_a_minute() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(3, &script(home.path(), CAREFUL));
    cluster.partitions(6);
    let id = cluster.submit(&["shop", "public", "orders", "--repeat", "2", "--every", "8s"]);
    let is_due_later = || cluster.run(&["explain", &id]).ok().out.contains("round 2 is due at");
    eventually("the first round to end", TASK_TIMEOUT, is_due_later);
    cluster.units.iter().for_each(|unit| unit.pause());
    eventually("the second round to be due", TASK_TIMEOUT, || !is_due_later());
    // For longer than their sessions last.
    eventually("the units to be missed", TASK_TIMEOUT, || cluster.nodes() == serde_json::json!([]));
    assert_eq!(cluster.noted("begun").len(), 6, "the second round began too soon");
    cluster.units.iter().for_each(|unit| unit.resume());
    let minute = Duration::from_secs(60);
    eventually("the second round to begin", minute, || cluster.noted("begun").len() > 6);
    let task = cluster.end(&id);
    assert_eq!((&task["state"], &task["round"]), (&"Done".into(), &2.into()), "{task}");
    let mut ended = cluster.noted("ended");
    ended.sort();
    assert_eq!((ended.len(), ended.chunks(2).all(|pair| pair[0] == pair[1])), (12, true), "{ended:?}");
    assert_eq!(cluster.noted("doubled"), Vec::<String>::new());
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
