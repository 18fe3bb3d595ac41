//! Rounds of repeated tasks in the history, tasks that follow others, and the pause of all tasks.

use std::fs;

use allot_tests::compaction_cluster::{CompactionCluster, TASK_TIMEOUT, UNHURRIED, numbers, script};
use allot_tests::eventually;
use serde_json::{Value, json};

/// Fails while the file `fails` is there.
const RUNNER: &str = r#"#!/bin/sh
echo "$ALLOT_TABLE" >>"$ALLOT_TEST_DIR/begun"
[ ! -e "$ALLOT_TEST_DIR/fails" ] || exit 3
echo '{"before": 100, "after": 40}'
"#;

fn column<'a>(rows: &'a Value, name: &str) -> Vec<&'a Value> {
    rows.as_array().unwrap().iter().map(|row| &row[name]).collect()
}

#[test]
fn rounds_are_in_the_history_packed_or_not() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), RUNNER);
    let mut cluster = CompactionCluster::start_with(1, &runner, &[UNHURRIED]);
    cluster.partitions(7);
    let id = cluster.submit(&["shop", "public", "orders", "--repeat", "2", "--every", "10s"]);
    let all = |cluster: &CompactionCluster| cluster.json(&["history"]);
    eventually("the first round", TASK_TIMEOUT, || column(&all(&cluster), "kind") == ["round"]);
    fs::write(cluster.dir.path().join("fails"), "").unwrap();
    let task = cluster.end(&id);
    assert_eq!(numbers(&task), [0, 7, 0], "{task}");
    let is_whole = |cluster: &CompactionCluster| {
        let found = all(cluster);
        assert_eq!(column(&found, "kind"), ["round", "round", "task"], "{found}");
        // Those of the task count all of its rounds, as its bytes do.
        assert_eq!(column(&found, "succeeded"), [7, 0, 7], "{found}");
        assert_eq!(column(&found, "failed"), [0, 7, 7], "{found}");
        assert_eq!(column(&found, "of"), [7, 7, 14], "{found}");
        assert_eq!(found[2]["before_bytes"], 700.0, "{found}");
        assert_eq!(
            (&found[0]["before_bytes"], &found[0]["after_bytes"]),
            (&json!(700.0), &json!(280.0)),
            "{found}"
        );
        let order = ["started", "finished"].map(|name| found[0][name].as_str().unwrap().to_owned());
        assert!(order[0] < order[1] && *order[1] < *found[1]["started"].as_str().unwrap(), "{found}");
        for (filter, count) in [
            (["--db", "shop"], 3),
            (["--table", "orders"], 3),
            (["--schema", "other"], 0),
            (["--state", "done"], 3),
            (["--state", "cancel"], 0),
            (["--from", "1h"], 3),
            (["--to", "1h"], 0),
        ] {
            let found = cluster.json(&[&["history"], &filter[..]].concat());
            assert_eq!(found.as_array().unwrap().len(), count, "{filter:?}: {found}");
        }
    };
    is_whole(&cluster);
    assert!(cluster.run(&["history", "--state", "lost"]).ended(2).err.contains("done or cancel"));
    let rounds = cluster.json(&["history", &id])["rounds"].clone();
    assert_eq!(column(&rounds, "round"), [1, 2], "{rounds}");
    let failures = |round: &str| cluster.json(&["failures", &id, "--round", round]);
    assert_eq!((failures("1"), failures("2").as_array().unwrap().len()), (json!([]), 7));
    assert!(cluster.run(&["failures", &id, "--round", "9"]).ended(4).err.contains("there is no round 9"));

    cluster.units.clear();
    let packed = [UNHURRIED, ("ALLOT_COMPACTION_COMPRESS_AFTER", "1s"), ("ALLOT_COMPACTION_EVERY", "1s")];
    cluster.join_with(1, &runner, &packed);
    let scheduler = "/cluster.compact/Compaction_v2/Scheduler";
    eventually("all to be packed", TASK_TIMEOUT, || cluster.zookeeper_names(scheduler) == ["Compress"]);
    is_whole(&cluster);
    let listed = cluster.run(&["failures", &id, "--round", "2", "--format", "json"]).ok();
    assert!(listed.err.contains("the last 5 of 7 failures"), "{}", listed.err);
}

#[test]
fn task_begins_after_the_success_of_the_one_that_it_follows() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(1, &script(home.path(), RUNNER), &[UNHURRIED]);
    cluster.partitions(2);
    fs::write(cluster.dir.path().join("fails"), "").unwrap();
    let first = cluster.submit(&["shop", "public", "orders"]);
    let later = cluster.submit(&["shop", "public", "lines", "--after", "shop.public.orders"]);
    assert_eq!(cluster.end(&first)["failed"], 2);
    let explained = || cluster.run(&["explain", &later]).ok().out;
    eventually("the reason", TASK_TIMEOUT, || explained().contains("ended with 2 failed"));
    assert_eq!(cluster.json(&["get", &later])["follows"], first.as_str());
    assert_eq!(cluster.noted("begun"), ["orders", "orders"]);
    fs::remove_file(cluster.dir.path().join("fails")).unwrap();
    let _ = cluster.run(&["retry", &first, "--wait"]).ok();
    assert_eq!(numbers(&cluster.end(&later)), [2, 0, 0]);
    for (after, code, why) in
        [("shop.public.none", 5, "shop.public.none"), ("none", 2, "neither a task nor a table")]
    {
        let refused = cluster.run(&["submit", "shop.public.orders", "--after", after]).ended(code);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
}

#[test]
fn pause_of_all_tasks_outlives_restarts() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(1, &script(home.path(), RUNNER), &[UNHURRIED]);
    cluster.partitions(2);
    let said = cluster.run(&["pause", "--all", "--yes"]).ok().out;
    assert_eq!(said, "all tasks are paused, also those that are submitted later\n");
    let id = cluster.submit(&["shop", "public", "orders"]);
    let unit = &cluster.units[0];
    assert!(unit.terminate().success());
    let managed = || unit.log().matches("managing a task").count();
    let before = managed();
    unit.start();
    eventually("the node to manage the task again", TASK_TIMEOUT, || managed() > before);
    let explained = cluster.run(&["explain", &id]).ok().out;
    assert!(explained.contains("all tasks are paused"), "{explained}");
    assert!(cluster.run(&["list"]).ok().err.contains("all tasks are paused"));
    assert_eq!(cluster.noted("begun"), Vec::<String>::new());
    let said = cluster.run(&["resume", "--all", "--yes"]).ok().out;
    assert_eq!(said, "the pause of all tasks has ended\n");
    assert_eq!(numbers(&cluster.end(&id)), [2, 0, 0]);
}
