//! Options of tasks, and changes of them: retries of failed partitions, scores, limits, schedules.

use std::fs;

use allot_tests::compaction_cluster::{CompactionCluster, UNHURRIED, script};

/// A runner that fails at its partition as often as the file `fails` says.
const FLAKY: &str = r#"#!/bin/sh
tries="$ALLOT_TEST_DIR/tries.$(basename "$ALLOT_PARTITION")"
echo "$ALLOT_SUBTASK" >> "$tries"
[ "$(wc -l < "$tries")" -gt "$(cat "$ALLOT_TEST_DIR/fails")" ] || { echo "not yet, \"sorry\""; exit 3; }
"#;

#[test]
fn partitions_that_fail_twice_end_well_with_retries() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(2, &script(home.path(), FLAKY), &[UNHURRIED]);
    cluster.partitions(16);
    let fails = |count: u32| fs::write(cluster.dir.path().join("fails"), count.to_string()).unwrap();
    fails(2);
    let retries = ["--retry-failed", "3", "--retry-delay", "1s"];
    let waited =
        cluster.run(&[&["submit", "shop", "public", "orders", "--wait"], &retries[..]].concat()).ok();
    assert!(waited.err.contains("16 well, 0 failed"), "{}", waited.err);
    let id = waited.out.trim().to_owned();
    assert_eq!(cluster.json(&["failures", &id]), serde_json::json!([]));
    assert!(cluster.run(&["retry", &id]).ended(3).err.contains("has no failed partition"));
    assert_eq!(cluster.left(), Vec::<String>::new());

    // Without retries, all sixteen failures are listed.
    fails(4);
    let waited = cluster.run(&["submit", "shop", "public", "orders", "--wait"]).ended(1);
    let id = waited.out.trim().to_owned();
    let listed = cluster.json(&["failures", &id]);
    let mut partitions: Vec<&str> =
        listed.as_array().unwrap().iter().map(|failure| failure["partition"].as_str().unwrap()).collect();
    partitions.sort_unstable();
    assert_eq!(partitions.len(), 16, "{listed}");
    assert!(partitions.iter().enumerate().all(|(n, name)| name.ends_with(&format!("p{n:05}"))), "{listed}");
    let csv = cluster.run(&["failures", &id, "--format", "csv"]).ok().out;
    assert_eq!(csv.lines().next(), Some("subtask,partition,worker,message,output"));
    assert_eq!(csv.matches("\"not yet, \"\"sorry\"\"").count(), 16, "{csv}");
    let table = cluster.run(&["failures", &id]).ok().out;
    assert!(table.lines().count() == 17 && table.contains("exit code 3"), "{table}");
    let shown = cluster.run(&["show", &id]).ok().out;
    assert!(shown.contains("lists 11 more"), "{shown}");

    // The fifth try succeeds, at another manager if that of the task is gone.
    let manager = cluster.json(&["show", &id])["task"]["manager"].as_str().unwrap().to_owned();
    let place = cluster.units.iter().position(|unit| unit.name == manager).unwrap();
    assert!(cluster.units[place].terminate().success());
    let waited = cluster.run(&["retry", &id, "--wait"]).ok();
    assert!(waited.err.contains("16 well, 0 failed"), "{}", waited.err);
    assert_ne!(cluster.json(&["show", &id])["task"]["manager"], manager);
    assert_eq!(cluster.left(), Vec::<String>::new());
}
