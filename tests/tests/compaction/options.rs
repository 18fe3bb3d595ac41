//! Options of tasks, and changes of them: retries of failed partitions, scores, limits, schedules.

use std::fs;
use std::process::Command;

use allot_tests::compaction_cluster::{CompactionCluster, TASK_TIMEOUT, UNHURRIED, numbers, script};
use allot_tests::terminal::on_terminal;
use allot_tests::{Process, eventually};

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
    let waited = cluster.run(&[&["submit", "shop.public.orders", "--wait"], &retries[..]].concat()).ok();
    assert!(waited.err.contains("16 succeeded, 0 failed"), "{}", waited.err);
    // Each of the 16 partitions ran again twice.
    let retried = |unit: &Process| unit.metric("allot_compaction_retried_total{reason=\"failed\"}");
    let all = || cluster.units.iter().filter_map(retried).sum::<f64>() as u64;
    eventually("the retries to be counted", TASK_TIMEOUT, || all() == 32);
    let id = waited.out.trim().to_owned();
    assert_eq!(cluster.json(&["failures", &id]), serde_json::json!([]));
    assert!(cluster.run(&["retry", &id]).ended(5).err.contains("has no failed partition"));
    assert_eq!(cluster.left(), Vec::<String>::new());

    // Without retries, all sixteen failures are listed.
    fails(4);
    let waited = cluster.run(&["submit", "shop.public.orders", "--wait"]).ended(1);
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
    let shown = cluster.run(&["get", &id]).ok().err;
    assert!(shown.contains("lists 11 more"), "{shown}");

    // The fifth try succeeds, at another manager if that of the task is gone.
    let manager = cluster.json(&["get", &id])["manager"].as_str().unwrap().to_owned();
    let place = cluster.units.iter().position(|unit| unit.name == manager).unwrap();
    assert!(cluster.units[place].terminate().success());
    let waited = cluster.run(&["retry", &id, "--wait"]).ok();
    assert!(waited.err.contains("16 succeeded, 0 failed"), "{}", waited.err);
    assert_ne!(cluster.json(&["get", &id])["manager"], manager);
    assert_eq!(cluster.left(), Vec::<String>::new());
}

#[test]
fn highest_scores_run_first_and_changes_obey_at_once() {
    let home = tempfile::tempdir().unwrap();
    let lines = (1..=20).map(|n| format!("p{n:02}\\t{}\\n", n % 10)).collect::<Vec<_>>().concat();
    let lister = home.path().join("lister");
    fs::rename(script(home.path(), &format!("#!/bin/sh\nprintf '{lines}'\n")), &lister).unwrap();
    let runner = "#!/bin/sh\necho \"$ALLOT_PARTITION\" >> \"$ALLOT_TEST_DIR/begun\"\n\
                  case $ALLOT_PARTITION in p?9) ;; *) sleep 300 ;; esac\n\
                  echo '{\"before\": 100, \"after\": 40}'\n";
    let settings = [
        UNHURRIED,
        ("ALLOT_COMPACTION_PARTITIONS", lister.to_str().unwrap()),
        ("ALLOT_COMPACTION_SLOTS", "1"),
        ("ALLOT_COMPACTION_WAVE", "2"),
    ];
    let cluster = CompactionCluster::start_with(1, &script(home.path(), runner), &settings);
    let options = ["--min-score", "7", "--budget", "4", "--priority", "-3", "--limit", "1"];
    let id = cluster.submit(&[&["d", "s", "t"], &options[..]].concat());
    eventually("the first two to be over, and a third to run", TASK_TIMEOUT, || {
        cluster.noted("begun").len() == 3
    });
    assert_eq!(cluster.noted("begun"), ["p09", "p19", "p08"]);
    assert_eq!(cluster.json(&["get", &id])["priority"], -3);

    // The runner of p08 has no time limit to speak of; that of p18, which has not begun, gets one.
    let changes = ["--timeout", "1s", "--priority", "5", "--limit", "0", "--window", "any", "--retries", "0"];
    let _ = cluster.run(&[&["set", &id], &changes[..]].concat()).ok();
    let task = cluster.json(&["get", &id]).clone();
    assert_eq!(
        (&task["priority"], &task["limit"], &task["retries"]),
        (&5.into(), &serde_json::Value::Null, &0.into()),
        "{task}"
    );
    assert!(cluster.run(&["set", &id]).ended(2).err.contains("--priority"));
    let unit = &cluster.units[0];
    let metric = |name: &str| unit.metric(&format!("allot_compaction_{name}"));
    for name in ["running", "waiting", "tasks{state=\"assigned\"}"] {
        eventually(&format!("{name} to be 1"), TASK_TIMEOUT, || metric(name) == Some(1.0));
    }
    kill_sleep(&cluster);
    let task = cluster.end(&id);
    assert_eq!(cluster.noted("begun"), ["p09", "p19", "p08", "p18"]);
    let failures = cluster.json(&["failures", &id]);
    let messages: Vec<&str> =
        failures.as_array().unwrap().iter().map(|failure| failure["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["not done within 1s"], "{task}");
    for (name, value) in [
        ("subtasks_total{outcome=\"success\"}", 3.0),
        ("subtasks_total{outcome=\"failed\"}", 1.0),
        ("bytes_before_total", 300.0),
        ("bytes_after_total", 120.0),
        ("tasks_ended_total{state=\"done\"}", 1.0),
        ("subtask_seconds_count", 4.0),
        ("tasks{state=\"assigned\"}", 0.0),
        ("history_packs", 0.0),
    ] {
        eventually(&format!("{name} to be {value}"), TASK_TIMEOUT, || metric(name) == Some(value));
    }
    assert!(cluster.run(&["set", &id, "--limit", "3"]).ended(5).err.contains("has ended"));
}

/// Ends the `sleep` of the one runner, so that the runner goes on.
fn kill_sleep(cluster: &CompactionCluster) {
    let dir = format!("ALLOT_TEST_DIR={}", cluster.dir.path().display());
    let sleeps: Vec<String> = fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|pid| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let has_dir = read("environ").split(|byte| *byte == 0).any(|pair| pair == dir.as_bytes());
            has_dir && read("cmdline").starts_with(b"sleep\0")
        })
        .collect();
    assert_eq!(sleeps.len(), 1);
    assert!(Command::new("kill").args(&sleeps).status().unwrap().success());
}

#[test]
fn wrong_options_are_refused_though_no_unit_is_present() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(0, &script(home.path(), "#!/bin/sh\n"));
    let submit = |words: &[&str]| cluster.run(&[&["submit", "d.s.t"], words].concat());
    for (words, why) in [
        (&["--window", "late"][..], "is no window"),
        (&["--window", "22:00-06:00", "--time-zone", "Europe/Nowhere"], "is no time zone"),
        (&["--cron", "0 2 * *"], "has 4 fields"),
        (&["--timeout", "1500ms"], "whole seconds"),
    ] {
        let refused = submit(words).ended(2);
        assert!(refused.err.contains(why) && !refused.err.contains("unit"), "{}", refused.err);
    }
    // A correct submission may succeed later.
    assert!(
        submit(&["--window", "22:00-06:00"])
            .ended(5)
            .err
            .contains("no compaction node of default is present")
    );
}

#[test]
fn task_of_a_schedule_waits_for_its_time() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(1, &script(home.path(), "#!/bin/sh\n"), &[UNHURRIED]);
    cluster.partitions(1);
    let in_zone = ["--time-zone", "Europe/Berlin"];
    let id = cluster.submit(&[&["d", "s", "t", "--cron", "0 2 29 2 *"], &in_zone[..]].concat());
    let task = cluster.json(&["get", &id]).clone();
    assert_eq!(
        (&task["schedule"], &task["repeats"]),
        (&"0 2 29 2 * Europe/Berlin".into(), &true.into()),
        "{task}"
    );
    let explained = cluster.run(&["explain", &id]).ok().out;
    assert!(explained.contains("round 1 is due at 2028-02-29T01:00:00.000Z"), "{explained}");
    let mut in_japan = cluster.command(&["explain", &id]);
    let shown = on_terminal(in_japan.env("TZ", "Asia/Tokyo"));
    assert!(shown.contains("round 1 is due at 2028-02-29 10:00:00 JST"), "{shown}");
    let asked = cluster.run(&["stop", &id]).ended(2);
    assert!(asked.err.contains("this would stop task") && asked.err.contains("--yes"), "{}", asked.err);
    for words in [&["stop", &id][..], &["pause", &id], &["set", &id, "--limit", "2"]] {
        assert!(cluster.run(&[words, &["--dry-run"]].concat()).ok().out.contains("dry run: would "));
    }
    let _ = cluster.run(&["stop", &id, "--wait", "--yes"]).ok();
    // A task that has ended is not changed, and a dry run says so.
    for words in
        [&["stop", &id, "--yes"][..], &["pause", &id], &["resume", &id], &["set", &id, "--limit", "2"]]
    {
        let dry = cluster.run(&[words, &["--dry-run"]].concat()).ended(5);
        assert!(dry.err.contains("has ended"), "{}", dry.err);
        let _ = cluster.run(words).ended(5);
    }
    for words in [&["reassign", &id, "--to", "nosuch"][..], &["submit", "d.s.t", "--pc", "nosuch"]] {
        let _ = cluster.run(words).ended(4);
    }
    for (expression, why) in [("0 2 30 2 *", "names no time"), ("0 2 * *", "has 4 fields")] {
        let refused = cluster.run(&["submit", "d.s.t", "--cron", expression]).ended(2);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    // The next minute is soon.
    let id = cluster.submit(&["d", "s", "t", "--cron", "* * * * *", "--repeat", "1"]);
    assert_eq!(numbers(&cluster.end(&id)), [1, 0, 0]);
}

/// A cluster that nobody named is no thing that is absent: all verbs answer as things stand.
#[test]
fn tasks_without_a_node_are_refused_alike_by_all_verbs() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), "#!/bin/sh\nexit 3\n");
    let mut cluster = CompactionCluster::start_with(1, &runner, &[UNHURRIED, ("ALLOT_COMPACTION_PC", "a")]);
    cluster.partitions(1);
    let id = cluster.submit(&["d", "s", "t", "--pc", "a"]);
    assert_eq!(numbers(&cluster.end(&id)), [0, 1, 0]);
    cluster.join_with(1, &runner, &[UNHURRIED, ("ALLOT_COMPACTION_PC", "b")]);
    cluster.units[0].terminate();
    eventually("the node of a to be missed", TASK_TIMEOUT, || cluster.nodes().as_array().unwrap().len() == 1);
    for words in [&["retry", &id][..], &["reassign", &id], &["submit", "d.s.t"]] {
        let refused = cluster.run(words).ended(5);
        assert!(refused.err.contains("compaction node of "), "{}", refused.err);
    }
    let _ = cluster.run(&["submit", "d.s.t", "--pc", "a"]).ended(4);
    cluster.units[1].terminate();
    eventually("no node to be there", TASK_TIMEOUT, || cluster.nodes().as_array().unwrap().is_empty());
    let _ = cluster.run(&["retry", &id]).ended(5);
    let _ = cluster.run(&["submit", "d.s.t", "--pc", "a"]).ended(4);
}

#[test]
fn packed_task_lists_its_last_failures() {
    let home = tempfile::tempdir().unwrap();
    let packed = [("ALLOT_COMPACTION_COMPRESS_AFTER", "1s"), ("ALLOT_COMPACTION_EVERY", "1s")];
    let runner = script(home.path(), "#!/bin/sh\nexit 3\n");
    let cluster = CompactionCluster::start_with(1, &runner, &[&[UNHURRIED], &packed[..]].concat());
    cluster.partitions(7);
    let id = cluster.submit(&["d", "s", "t"]);
    eventually("the task to be packed", TASK_TIMEOUT, || cluster.json(&["list"]) == serde_json::json!([]));
    let listed = cluster.run(&["failures", &id, "--format", "json"]).ok();
    let failures: Vec<serde_json::Value> = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(failures.len(), 5);
    assert!(listed.err.contains("the last 5 of 7 failures"), "{}", listed.err);
    assert!(
        cluster.run(&["failures", "aaaaffff.16176931.56000000.0"]).ended(4).err.contains("there is no task")
    );
}
