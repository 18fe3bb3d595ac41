//! Compaction under faults: units, guards, managers, monitors and servers of ZooKeeper that are killed, paused and cut off
//! while a task runs.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use allot_coordination::Tree;
use allot_tests::compaction_cluster::{CAREFUL, CompactionCluster, TASK_TIMEOUT, guards, script};
use allot_tests::zookeeper::{on_tree, patient};
use allot_tests::{Ensemble, Process, eventually, preload, soak};

#[test]
fn each_subtask_ends_once_though_every_role_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(5, &script(home.path(), CAREFUL));
    cluster.partitions(200);
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "5"]);
    let ended = |least: usize| {
        eventually("runners to end", TASK_TIMEOUT, || cluster.noted("ended").len() >= least);
    };
    let unit = |name: &str| cluster.units.iter().find(|unit| unit.name == name).unwrap();
    let monitor = || {
        let nodes = cluster.nodes();
        let found = nodes.as_array().unwrap().iter().find(|node| node["monitor"] == true).cloned();
        found.map(|node| node["node"].as_str().unwrap().to_owned())
    };
    ended(10);
    let manager = cluster.json(&["get", &id])["manager"].as_str().unwrap().to_owned();
    unit(&manager).kill9();
    // The task's new manager says what it found of the task.
    let adopted = || {
        let logs = cluster.units.iter().filter(|unit| unit.name != manager).map(|unit| unit.log());
        logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>())
            .find(|line| line.contains("managing a task") && line.contains(&id))
    };
    eventually("the task to be taken up", TASK_TIMEOUT, || adopted().is_some());
    let said = adopted().unwrap();
    assert!(["round", "kept", "finished", "restarted"].iter().all(|word| said.contains(word)), "{said}");
    ended(30);
    let mut leads = None;
    eventually("a living monitor", TASK_TIMEOUT, || {
        leads = monitor().filter(|name| unit(name).is_running());
        leads.is_some()
    });
    let leads = leads.unwrap();
    unit(&leads).kill9();
    unit(&manager).start();
    ended(60);
    let worker = cluster.units.iter().find(|unit| unit.is_running() && unit.name != manager).unwrap();
    worker.kill9();
    let _ = cluster.end(&id);
    cluster.units.iter().filter(|unit| !unit.is_running()).for_each(Process::start);
    cluster.all_well(&id, 200);
}

/// Cannot be run by its unit, and notes when it was started, in seconds.
const REFUSED: &str = r#"#!/bin/sh
date +%s.%N >>"$ALLOT_TEST_DIR/refused"
exit 127
"#;

#[test]
fn units_that_cannot_run_runners_take_no_partition_from_the_others() {
    let [home, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut cluster = CompactionCluster::start(2, &script(home.path(), CAREFUL));
    cluster.partitions(100);
    let missing = home.path().join("missing");
    let one_slot = [("ALLOT_COMPACTION_SLOTS", "1")];
    let absent = cluster.unit(2, &missing, &one_slot);
    let refused = cluster.unit(3, &script(other.path(), REFUSED), &one_slot);
    let says = |unit: &Process, why: &str| {
        let is_said = |(status, text): (u16, String)| status == 503 && text.contains(why);
        unit.http("/readyz").is_some_and(is_said)
    };
    let why = format!("{}: No such file", missing.display());
    eventually("the unit to say why it is not ready", TASK_TIMEOUT, || says(&absent, &why));
    eventually("the other one to be ready", TASK_TIMEOUT, || refused.is_ready());
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "0"]);
    eventually("the other one to be not ready", TASK_TIMEOUT, || says(&refused, "exit code 127"));
    cluster.units.extend([absent, refused]);
    cluster.all_well(&id, 100);
    let [absent, refused] = &cluster.units[2..] else { panic!("there are two more units") };
    assert!(says(absent, &why));
    assert!(!absent.log().contains("cannot run runners"), "{}", absent.log());
    let starts: Vec<f64> = cluster.noted("refused").iter().map(|line| line.parse().unwrap()).collect();
    assert!(!starts.is_empty() && starts.windows(2).all(|two| two[1] - two[0] >= 5.0), "{starts:?}");
    assert_eq!(refused.log().matches("cannot run runners").count(), starts.len());
    // The missing runner comes.
    fs::rename(home.path().join("runner"), &missing).unwrap();
    eventually("the unit to be ready", TASK_TIMEOUT, || absent.is_ready());
}

#[test]
fn unit_ends_although_a_thread_waits_for_its_storage() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("hung"), "").unwrap();
    let settings = [
        ("LD_PRELOAD", preload::hanging_storage().to_str().unwrap()),
        ("ALLOT_COMPACTION_PARTITIONS_DIR", data.to_str().unwrap()),
    ];
    let cluster = CompactionCluster::start_with(1, &script(home.path(), CAREFUL), &settings);
    let _ = cluster.submit(&["d", "s", "t"]);
    let unit = &cluster.units[0];
    eventually("a thread to wait for the storage", TASK_TIMEOUT, || {
        unit.log().contains("the storage of a partition does not answer")
    });
    assert!(unit.terminate().success(), "{}", unit.log());
}

#[test]
fn unit_keeps_its_session_and_its_work_although_the_storage_of_the_output_hangs() {
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("hung");
    let settings = [
        ("LD_PRELOAD", preload::hanging_storage().to_str().unwrap()),
        ("ALLOT_COMPACTION_OUTPUT_DIR", output.to_str().unwrap()),
        // More than the threads of the runtime.
        ("ALLOT_COMPACTION_SLOTS", "16"),
    ];
    let cluster = CompactionCluster::start_with(1, &script(home.path(), CAREFUL), &settings);
    cluster.partitions(32);
    let id = cluster.submit(&["d", "s", "t"]);
    cluster.all_well(&id, 32);
    let unit = &cluster.units[0];
    assert!(unit.is_ready(), "{}", unit.log());
    assert!(unit.log().contains("cannot keep the output of runners: the storage does not answer"));
    assert!(!unit.log().contains("session is lost"), "{}", unit.log());
}

#[test]
fn lost_units_or_zookeeper_lose_and_double_no_subtask() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_on(Ensemble::start(), 5, &script(home.path(), CAREFUL), &[]);
    cluster.partitions(300);
    let id = cluster.submit(&["shop", "public", "orders", "--retries", "9"]);
    let unit = |name: &str| cluster.units.iter().find(|unit| unit.name == name).unwrap();
    let manager = || cluster.json(&["get", &id])["manager"].as_str().unwrap().to_owned();
    let ended = |more: usize| {
        let least = (cluster.noted("ended").len() + more).min(300);
        eventually("runners to end", TASK_TIMEOUT, || cluster.noted("ended").len() >= least);
    };
    ended(10);

    // A manager hangs, its task moves, and it wakes: what it would write is refused.
    let before = manager();
    unit(&before).pause();
    eventually("the task to have another manager", TASK_TIMEOUT, || manager() != before);
    unit(&before).resume();
    ended(20);

    // A worker hangs beyond its session, with the guards of its runners, and wakes to find its subtasks elsewhere.
    let worker = cluster.units.iter().find(|unit| unit.name != manager()).unwrap();
    let signal = |name: &str, pids: &[String]| {
        // Some may have ended meanwhile.
        let _ = Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
    };
    worker.pause();
    let stopped = guards(worker);
    signal("-STOP", &stopped);
    eventually("it to be missed", TASK_TIMEOUT, || {
        cluster.nodes().as_array().unwrap().iter().all(|node| node["node"] != worker.name.as_str())
    });
    ended(20);
    worker.resume();
    signal("-CONT", &stopped);
    eventually("it to be back", TASK_TIMEOUT, || worker.is_ready());

    // Two at once, of which one is the manager.
    let before = manager();
    let other = cluster.units.iter().find(|unit| unit.name != before).unwrap();
    unit(&before).kill9();
    other.kill9();
    ended(20);
    unit(&before).start();
    other.start();

    // Those who were connected to the leader go on with another server, in the same sessions or in new ones.
    cluster.zookeeper.leader().kill9();
    ended(20);
    cluster.zookeeper.restore();

    // Without a ZooKeeper nobody may go on, since nobody knows who else does.
    cluster.zookeeper.kill9();
    eventually("all to have noticed", TASK_TIMEOUT, || cluster.units.iter().all(|unit| !unit.is_ready()));
    let mut last = cluster.noted("begun").len();
    eventually("nothing to run any more", TASK_TIMEOUT, || {
        std::thread::sleep(std::time::Duration::from_secs(2));
        std::mem::replace(&mut last, cluster.noted("begun").len()) == cluster.noted("begun").len()
    });
    std::thread::sleep(std::time::Duration::from_secs(soak(0, 60) as u64));
    cluster.zookeeper.restore();
    cluster.all_well(&id, 300);
}

/// A runner that is done at once, and minds whether it is alone.
const BRISK: &str = r#"#!/bin/sh
name=${ALLOT_PARTITION##*/}
mkdir "$ALLOT_TEST_DIR/lock.$name" || { echo "$name" >> "$ALLOT_TEST_DIR/doubled"; exit 9; }
echo "$name" >> "$ALLOT_TEST_DIR/ended"
rmdir "$ALLOT_TEST_DIR/lock.$name"
"#;

/// The manager of a task beside these, once there is one, and how many of its subtasks are with units.
async fn at_work(tree: &Tree, over: &[String]) -> Option<(String, usize)> {
    const ROOT: &str = "/cluster.compact/Compaction_v2";
    let names = async |path: String| tree.children(&path).await.unwrap_or_default();
    let scheduler = format!("{ROOT}/Scheduler");
    let tasks = names(scheduler.clone()).await.into_iter();
    let task = tasks.filter(|name| name.ends_with(".0")).find(|name| !over.contains(name))?;
    let parts = names(format!("{scheduler}/{task}")).await;
    let info = parts.into_iter().find(|name| name.starts_with("TaskInfo."))?;
    let node = tree.get(&format!("{scheduler}/{task}/{info}")).await.ok().flatten()?;
    let info: serde_json::Value = serde_json::from_slice(&node.data).ok()?;
    let mut assigned = 0;
    for unit in names(format!("{ROOT}/TaskAssigned")).await {
        assigned += names(format!("{ROOT}/TaskAssigned/{unit}")).await.len();
    }
    Some((info["manager"].as_str()?.to_owned(), assigned))
}

#[test]
fn replaced_manager_that_wakes_up_doubles_no_subtask() {
    const COUNT: usize = 1500;
    let home = tempfile::tempdir().unwrap();
    // All of it is one wave.
    let cluster =
        CompactionCluster::start_with(5, &script(home.path(), BRISK), &[("ALLOT_COMPACTION_WAVE", "4000")]);
    cluster.partitions(COUNT);
    let (cluster, id) = on_tree(&cluster.zookeeper.address(), |tree| async move {
        let mut over = Vec::new();
        loop {
            assert!(over.len() < 20, "all was always assigned too soon to be interrupted");
            let table = format!("t{}", over.len());
            let mut submit = cluster.command(&["submit", &format!("shop.public.{table}"), "--retries", "9"]);
            let submitting = submit.stdout(Stdio::piped()).spawn().unwrap();
            // It is stopped between the first subtasks and the last ones.
            let begun = Instant::now();
            let before = loop {
                assert!(begun.elapsed() < TASK_TIMEOUT, "nothing was assigned");
                if let Some((manager, 1..)) = at_work(&tree, &over).await {
                    break cluster.units.iter().find(|unit| unit.name == manager).unwrap();
                }
            };
            before.pause();
            let assigned = at_work(&tree, &over).await.map_or(COUNT, |(_, assigned)| assigned);
            let output = submitting.wait_with_output().unwrap();
            let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
            if assigned < COUNT {
                println!("the manager was stopped when it had assigned {assigned} of {COUNT}");
                let manager = || cluster.json(&["get", &id])["manager"].as_str().unwrap().to_owned();
                eventually("the task to have another manager", TASK_TIMEOUT, || manager() != before.name);
                before.resume();
                // The whole wave is out, and what is watched is in proportion to the units and not to it.
                eventually("all to be assigned", TASK_TIMEOUT, || {
                    let task = cluster.json(&["get", &id]);
                    let assigned =
                        ["running", "waiting", "succeeded"].map(|name| task[name].as_u64().unwrap());
                    assigned.iter().sum::<u64>() == COUNT as u64
                });
                let watches = cluster.zookeeper.servers()[0].figure("zk_watch_count").unwrap();
                assert!(watches <= 20.0 * cluster.units.len() as f64, "{watches} watches");
                break (cluster, id);
            }
            before.resume();
            let _ = cluster.end(&id);
            over.push(id);
        }
    });
    cluster.all_well(&id, COUNT);
}

#[test]
fn task_stays_in_its_processing_cluster_though_all_of_it_dies() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), CAREFUL);
    let mut cluster = CompactionCluster::start(0, &runner);
    cluster.join_with(3, &runner, &[("ALLOT_COMPACTION_PC", "a")]);
    cluster.join_with(2, &runner, &[("ALLOT_COMPACTION_PC", "b")]);
    cluster.partitions(200);
    let waiting = ["submit", "shop.public.orders", "--pc", "a", "--retries", "5", "--wait"];
    let waiting = cluster.command(&waiting).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it to have begun", TASK_TIMEOUT, || cluster.noted("ended").len() > 4);

    // Ctrl-C ends the waiting, and nothing else.
    let interrupted = Command::new("kill").args(["-INT", &waiting.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = waiting.wait_with_output().unwrap();
    let (id, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let id = id.trim();
    assert!(output.status.code() == Some(130) && said.contains("the task goes on"), "{said}");
    let more = cluster.noted("ended").len();
    eventually("it to go on", TASK_TIMEOUT, || cluster.noted("ended").len() > more);

    let (ours, others) = cluster.units.split_at(3);
    let pids: Vec<String> = ours.iter().map(|unit| unit.pid().to_string()).collect();
    let at_once = Command::new("kill").arg("-KILL").args(&pids).status().unwrap();
    assert!(at_once.success());
    let alone = "no compaction node of its processing cluster a is present";
    eventually("all of them to be missed", TASK_TIMEOUT, || {
        cluster.run(&["explain", id]).ok().out.contains(alone)
    });
    // The monitor, which may have been one of them, has noted since when.
    eventually("it to be known since when", TASK_TIMEOUT, || {
        cluster.run(&["explain", id]).ok().out.contains(" is away since 20")
    });
    let noted = |unit: &Process| {
        let path = format!("/cluster.compact/Compaction_v2/TaskAssigned/{}", unit.name);
        on_tree(&cluster.zookeeper.address(), |tree| async move {
            patient(async || tree.get(&path).await).await.unwrap().is_some_and(|node| !node.data.is_empty())
        })
    };
    eventually("all of them to be noted as away", TASK_TIMEOUT, || ours.iter().all(noted));
    assert!(!others.iter().any(noted));
    let subs = cluster.json(&["get", id])["subtasks"].clone();
    let elsewhere =
        |unit: &Process| subs.as_array().unwrap().iter().any(|sub| sub["worker"] == unit.name.as_str());
    assert!(!others.iter().any(elsewhere), "{subs}");
    ours.iter().for_each(Process::start);
    eventually("none of them to be noted any more", TASK_TIMEOUT, || !ours.iter().any(noted));
    cluster.all_well(id, 200);
}
