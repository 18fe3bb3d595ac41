//! The program that is told what happens to tasks.

use allot_tests::compaction_cluster::{CAREFUL, CompactionCluster, TASK_TIMEOUT, UNHURRIED, script};
use allot_tests::eventually;
use serde_json::Value;

/// Fails at first, and then keeps what it is told.
const TELL: &str = r#"#!/bin/sh
[ -e "$1/tried" ] || { touch "$1/tried"; exit 1; }
cat >>"$1/told"
echo >>"$1/told"
"#;

#[test]
fn program_is_told_of_the_end_of_a_task_until_it_succeeds() {
    let home = tempfile::tempdir().unwrap();
    let (tools, told) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = format!("{} {}", script(tools.path(), TELL).display(), told.path().display());
    let settings = [UNHURRIED, ("ALLOT_COMPACTION_NOTIFY", &program)];
    let cluster = CompactionCluster::start_with(1, &script(home.path(), CAREFUL), &settings);
    cluster.partitions(3);
    let id = cluster.submit(&["shop", "public", "orders"]);
    cluster.all_well(&id, 3);
    let read = || std::fs::read_to_string(told.path().join("told")).unwrap_or_default();
    eventually("the program to be told", TASK_TIMEOUT, || read().ends_with('\n'));
    let text = read();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [one] = lines.as_slice() else { panic!("{text}") };
    assert_eq!(
        (&one["event"], &one["task"], &one["succeeded"]),
        (&"task-ended".into(), &id.into(), &3.into())
    );
    assert!(cluster.units[0].log().contains("compaction.notify failed"), "it failed at first");
}
