//! The upgrade of compaction's first generation, and history: many tasks, processes that are killed at any point.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use allot_coordination::{Error, Kind, Op, Tree};
use allot_tests::compaction_cluster::{CompactionCluster, TASK_TIMEOUT, numbers, script};
use allot_tests::terminal::on_terminal;
use allot_tests::wait::TIMEOUT;
use allot_tests::zookeeper::{on_tree, patient};
use allot_tests::{Random, eventually};

const OLD: &str = "/cluster.compact/Compaction";
const NEW: &str = "/cluster.compact/Compaction_v2";
const KINDS: [&str; 4] = ["", ".Assigned", ".Done", ".Cancel"];

/// The old name of a task, one of three units'.
fn old_name(n: usize) -> String {
    format!("compct.xcloud{}_9876.0.{}{}", n % 3, 1_617_693_156_000 + n as u64, KINDS[n % 4])
}

/// What the first generation wrote of it, in one of the ways that were seen.
fn old_task(n: usize) -> String {
    let result = if n.is_multiple_of(2) { "ResultInfo" } else { "ResulttInfo" };
    format!(
        "{{\"db_name\":\"d\",\"schema_name\":\"s\",\"table_name\":\"t{n}\",\"repeat_flag\":false,\
         \"RepeatInfo\":{{\"repeatCount\":1,\"repeatInterval\":60}},\
         \"{result}\":{{\"successCount\":{n},\"failedCount\":1}}}}"
    )
}

fn create(path: String, data: &[u8]) -> Op {
    Op::Create { path, data: data.to_vec(), kind: Kind::Persistent }
}

async fn write_old(tree: &Tree, count: usize) {
    tree.ensure(&format!("{OLD}/Scheduler")).await.unwrap();
    tree.ensure(&format!(
        "{OLD}/TaskAssigned/xcloud1_9876/compct.xcloud1_9876.1.1617606756000/Status.Success"
    ))
    .await
    .unwrap();
    for batch in (0..count).collect::<Vec<_>>().chunks(100) {
        let mut ops = Vec::new();
        for &n in batch {
            let path = format!("{OLD}/Scheduler/{}", old_name(n));
            // A task is a node, or a directory.
            if n % 5 == 0 {
                ops.push(create(path.clone(), b""));
                ops.push(create(format!("{path}/TaskInfo"), old_task(n).as_bytes()));
            } else {
                ops.push(create(path, old_task(n).as_bytes()));
            }
        }
        tree.multi(ops).await.unwrap();
    }
}

async fn children(tree: &Tree, path: &str) -> Vec<String> {
    match patient(async || tree.children(path).await).await {
        Err(Error::NoNode(_)) => Vec::new(),
        names => names.unwrap(),
    }
}

fn start(cluster: &CompactionCluster, words: &[&str]) -> Child {
    let mut command = cluster.command(&[&["upgrade"], words].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Starts two at once, and kills them when so much has become of `path`: more children than `more`, or fewer than `less`.
async fn killed(
    cluster: &CompactionCluster,
    tree: &Tree,
    words: &[&str],
    path: &str,
    (more, less): (usize, usize),
) {
    let mut both = [start(cluster, words), start(cluster, words)];
    loop {
        let count = children(tree, path).await.len();
        let ended = both.iter_mut().all(|one| one.try_wait().unwrap().is_some());
        if count > more || count < less || ended {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for one in &mut both {
        let _ = one.kill();
        one.wait().unwrap();
    }
}

#[test]
fn thousand_old_tasks_are_taken_over_once_despite_kills() {
    const COUNT: usize = 1000;
    const KILLS: usize = 50;
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), "#!/bin/sh\nexit 0\n");
    let mut cluster = CompactionCluster::start(0, &runner);
    let address = cluster.zookeeper.address();
    let mut random = Random::new(7);
    on_tree(&address, |tree| async move {
        let tree = &tree;
        write_old(tree, COUNT).await;
        let dry = cluster.run(&["upgrade", "--dry-run"]).ok().out;
        assert!(dry.contains("1000 tasks") && dry.contains("500 taken over as Init"), "{dry}");
        assert_eq!(tree.get(NEW).await.unwrap(), None);
        let locks = format!("{NEW}/TaskUpgradeLock");
        for kill in 0..KILLS {
            let point = kill * COUNT / KILLS + random.below(COUNT / KILLS);
            killed(&cluster, tree, &[], &locks, (point, 0)).await;
            // What has a lock has a new task, and the other way round, when what was on its way has come through.
            let began = std::time::Instant::now();
            loop {
                let locked = children(tree, &locks).await.len();
                let new = children(tree, &format!("{NEW}/Scheduler")).await.len() - 1;
                if locked == new {
                    break;
                }
                assert!(began.elapsed() < TIMEOUT, "killed beyond {point}: {locked} locks, {new} new tasks");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // As long as one is missing nothing is removed.
            if kill == KILLS / 2 && children(tree, &locks).await.len() < COUNT {
                let refused = cluster.run(&["upgrade", "--finalize", "--yes"]).ended(5);
                assert!(refused.err.contains("has not been taken over"), "{}", refused.err);
                assert_eq!(children(tree, &format!("{OLD}/Scheduler")).await.len(), COUNT);
            }
        }
        let done = cluster.run(&["upgrade"]).ok().out;
        assert!(done.contains("1000 tasks in"), "{done}");
        assert_eq!(children(tree, &locks).await.len(), COUNT);
        let again = cluster.run(&["upgrade"]).ok().out;
        assert!(again.contains("1000 taken over before"), "{again}");

        // One that was renamed meanwhile is there already.
        let (init, renamed) = (old_name(0), format!("{}.Assigned", old_name(0)));
        let node = |name: &str| format!("{OLD}/Scheduler/{name}");
        tree.multi(vec![
            Op::Delete { path: format!("{}/TaskInfo", node(&init)), version: None },
            Op::Delete { path: node(&init), version: None },
            create(node(&renamed), old_task(0).as_bytes()),
        ])
        .await
        .unwrap();
        let refused = cluster.run(&["upgrade", "--finalize", "--yes"]).ended(5);
        assert!(refused.err.contains(&renamed), "{}", refused.err);
        assert!(cluster.run(&["upgrade"]).ok().out.contains("1 there already, and locked now"));

        // As long as somebody of the first generation lives, nothing is done.
        let alive = format!("{OLD}/leader");
        tree.create(&alive, b"", Kind::Ephemeral).await.unwrap();
        assert!(cluster.run(&["upgrade"]).ended(5).err.contains(&alive));
        assert!(cluster.run(&["upgrade", "--frozen"]).ok().out.contains("taken over before"));
        tree.multi(vec![Op::Delete { path: alive, version: None }]).await.unwrap();

        let tasks = cluster.json(&["list"]);
        let tasks = tasks.as_array().unwrap();
        assert_eq!(tasks.len(), COUNT);
        for task in tasks {
            let n: usize = task["table"].as_str().unwrap().rsplit('.').next().unwrap()[1..].parse().unwrap();
            let state = ["Init", "Init", "Done", "Cancel"][n % 4];
            assert_eq!(task["state"], state, "{task}");
            let counted = if n % 4 < 2 { 0 } else { n };
            assert_eq!(task["succeeded"], counted, "{task}");
            assert_eq!(task["manager"], format!("xcloud{}_9876", n % 3), "{task}");
        }

        // What is no old tree is not removed, even with the option.
        for (root, why) in [
            ("/cluster.compact", "holds"),
            ("/", "holds"),
            (NEW, "holds"),
            ("/cluster.compact/Compaction_v2/Scheduler", "lies in"),
            ("/elsewhere", "nothing of the first generation"),
        ] {
            tree.ensure("/elsewhere/of/others").await.unwrap();
            let refused =
                cluster.run(&["upgrade", "--finalize", "--frozen", "--yes", "--old-root", root]).ended(5);
            assert!(refused.err.contains(why), "{root}: {}", refused.err);
        }
        assert!(tree.get("/elsewhere/of/others").await.unwrap().is_some());

        let old = format!("{OLD}/Scheduler");
        for kill in 0..10 {
            let point = COUNT - kill * COUNT / 10 - random.below(COUNT / 10);
            killed(&cluster, tree, &["--finalize"], &old, (usize::MAX, point)).await;
        }
        assert!(cluster.run(&["upgrade", "--finalize"]).ended(2).err.contains("--yes"));
        let _ = cluster.run(&["upgrade", "--finalize", "--yes"]).ok();
        assert!(tree.get(OLD).await.unwrap().is_none() && tree.get(&locks).await.unwrap().is_none());
        assert_eq!(cluster.json(&["list"]).as_array().unwrap().len(), COUNT);

        // The old managers are not there; the monitor gives their tasks to who is, and they are done.
        cluster.partitions(1);
        cluster.join(2, &runner);
        eventually("all of them to be over", TASK_TIMEOUT, || {
            cluster.json(&["list", "--live"]).as_array().unwrap().is_empty()
        });
    });
}

#[test]
fn upgraded_task_is_managed_by_the_unit_in_its_name_or_another() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(2, &script(home.path(), "#!/bin/sh\nexit 0\n"));
    // A tree of a name that was seen in the place of the usual one.
    let old = "/cluster.compact/Compation_V2/Scheduler";
    on_tree(&cluster.zookeeper.address(), |tree| async move {
        tree.ensure(old).await.unwrap();
        for (n, unit) in ["host1_9876", "gone_9876"].into_iter().enumerate() {
            let path = format!("{old}/compct.{unit}.0.{}", 1_617_693_156_000 + n as u64);
            tree.create(&path, old_task(n).as_bytes(), Kind::Persistent).await.unwrap();
        }
    });
    let done = cluster.run(&["upgrade"]).ok().out;
    assert!(done.contains("2 tasks") && done.contains("2 taken over as Init"), "{done}");
    let tasks = cluster.json(&["list"]);
    let manager = |table: &str| {
        let of = |task: &&serde_json::Value| task["table"].as_str().unwrap().ends_with(&format!(".{table}"));
        tasks.as_array().unwrap().iter().find(of).unwrap()["manager"].as_str().unwrap().to_owned()
    };
    assert_eq!(manager("t0"), "host1_9876");
    assert!(cluster.units.iter().any(|unit| unit.name == manager("t1")), "{}", manager("t1"));
    eventually("both to be over", TASK_TIMEOUT, || {
        cluster.json(&["list", "--live"]).as_array().unwrap().is_empty()
    });
}

#[test]
fn upgraded_task_runs_only_partitions_that_have_not_succeeded() {
    let home = tempfile::tempdir().unwrap();
    let runner = "#!/bin/sh\necho \"$ALLOT_PARTITION\" >>\"$ALLOT_TEST_DIR/begun\"\n";
    let cluster = CompactionCluster::start(1, &script(home.path(), runner));
    cluster.partitions(3);
    let partition = |n: usize| cluster.data().join(format!("p{n:05}")).display().to_string();
    let time = 1_617_693_156_000_u64;
    on_tree(&cluster.zookeeper.address(), |tree| async move {
        tree.ensure(&format!("{OLD}/Scheduler")).await.unwrap();
        let path = format!("{OLD}/Scheduler/compct.gone_9876.0.{time}.Assigned");
        tree.create(&path, old_task(1).as_bytes(), Kind::Persistent).await.unwrap();
        for (n, status) in ["Success", "Success", "Failed"].into_iter().enumerate() {
            let sub = format!("{OLD}/TaskAssigned/gone_9876/compct.gone_9876.{}.{time}", n + 1);
            tree.ensure(&format!("{sub}/Status.{status}")).await.unwrap();
            let data = format!("{{\"db_name\":\"d\",\"partition_name\":\"{}\"}}", partition(n));
            tree.create(&format!("{sub}/TaskInfo"), data.as_bytes(), Kind::Persistent).await.unwrap();
        }
    });
    let _ = cluster.run(&["upgrade"]).ok();
    let id = cluster.json(&["list"])[0]["task"].as_str().unwrap().to_owned();
    let task = cluster.end(&id);
    assert_eq!((numbers(&task), &task["of"]), ([3, 0, 0], &3.into()), "{task}");
    assert_eq!(cluster.noted("begun"), [partition(2)]);
}

#[test]
fn upgraded_live_tasks_of_one_table_wait_for_each_other() {
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), "#!/bin/sh\nexit 0\n");
    let mut cluster = CompactionCluster::start(0, &runner);
    cluster.partitions(3);
    on_tree(&cluster.zookeeper.address(), |tree| async move {
        let old = format!("{OLD}/Scheduler");
        tree.ensure(&old).await.unwrap();
        // By name the later ones are first.
        for n in 0..9 {
            let path = format!("{old}/compct.unit{}_9876.0.{}", 9 - n, 1_617_693_156_000 + n as u64);
            tree.create(&path, old_task(0).as_bytes(), Kind::Persistent).await.unwrap();
        }
    });
    for mut one in [start(&cluster, &[]), start(&cluster, &[]), start(&cluster, &[])] {
        assert!(one.wait().unwrap().success());
    }
    let tasks = cluster.json(&["list"]);
    let mut tasks = tasks.as_array().unwrap().clone();
    tasks.sort_by_key(|task| task["created"].as_str().map(str::to_owned));
    let befores: Vec<_> = tasks.iter().map(|task| task["after"].clone()).collect();
    let mut ids: Vec<_> = tasks.iter().map(|task| task["task"].clone()).collect();
    ids.insert(0, serde_json::Value::Null);
    ids.pop();
    assert_eq!(befores, ids);
    cluster.join(2, &runner);
    eventually("all of them to be over", TASK_TIMEOUT, || {
        cluster.json(&["list", "--live"]).as_array().unwrap().is_empty()
    });
}

#[test]
fn ten_thousand_tasks_from_files_are_packed_and_each_is_found() {
    const COUNT: usize = 10_000;
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), "#!/bin/sh\nexit 0\n");
    let mut cluster = CompactionCluster::start(0, &runner);
    let files = home.path().join("old/Scheduler");
    fs::create_dir_all(&files).unwrap();
    for n in 0..COUNT {
        fs::write(files.join(old_name(n * 4 + 2)), old_task(n)).unwrap();
    }
    fs::write(files.join("compct.xcloud_1.0.1617693156999.Done"), "no JSON").unwrap();
    let from = files.parent().unwrap().to_str().unwrap();
    let odd = cluster.run(&["upgrade", "--from", from]).ended(1);
    assert!(odd.err.contains("compct.xcloud_1.0.1617693156999.Done"), "{}", odd.err);
    // It can be skipped, even if the command is killed at any point; what can be read is not skipped.
    let unreadable = "compct.xcloud_1.0.1617693156999.Done";
    let refused =
        cluster.run(&["upgrade", "--from", from, "--skip", &old_name(2), "--reason", "why"]).ended(5);
    assert!(refused.err.contains("was taken over"), "{}", refused.err);
    let skip = ["--from", from, "--skip", unreadable, "--reason", "lost with its disk"];
    for delay in (0..200).step_by(20) {
        let mut both = [start(&cluster, &skip), start(&cluster, &skip)];
        std::thread::sleep(Duration::from_millis(delay));
        for one in &mut both {
            let _ = one.kill();
            one.wait().unwrap();
        }
    }
    let skipped = cluster.run(&[&["upgrade"], &skip[..]].concat()).ok();
    assert!(
        skipped.out.contains("1 skipped") && skipped.out.contains("10000 taken over before"),
        "{}",
        skipped.out
    );
    fs::remove_file(files.join(unreadable)).unwrap();
    // A directory that lacks what it must hold is not passed over.
    let hollow = files.join("compct.xcloud_1.0.1617693156998.Done");
    fs::create_dir(&hollow).unwrap();
    let odd_too = cluster.run(&["upgrade", "--from", from]).ended(1);
    assert!(odd_too.err.contains("998.Done/TaskInfo"), "{}", odd_too.err);
    fs::remove_dir(hollow).unwrap();
    let shown = on_terminal(&cluster.command(&["upgrade", "--from", from]));
    assert!(shown.contains("taking over [") && shown.contains("/10,000"), "{shown:?}");
    assert!(shown.contains("10000 taken over before"), "{shown:?}");
    assert!(
        odd.out.contains("10000 taken over as Done") && odd.out.contains("1 not understood"),
        "{}",
        odd.out
    );
    let ids: BTreeSet<String> = cluster
        .json(&["list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["task"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), COUNT);
    cluster.join_with(1, &runner, &[("ALLOT_COMPACTION_COMPRESS_AFTER", "1s")]);
    // Listing ten thousand tasks again and again would take longer than packing them.
    let scheduler = format!("{NEW}/Scheduler");
    eventually("all to be packed", TASK_TIMEOUT, || cluster.zookeeper_names(&scheduler) == ["Compress"]);
    assert!(cluster.json(&["list"]).as_array().unwrap().is_empty());
    let history = cluster.json(&["history", "--limit", "0"]);
    let found: BTreeSet<String> =
        history.as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, ids);
    let one = ids.iter().nth(COUNT / 3).unwrap();
    assert!(cluster.run(&["history", one]).ok().out.contains(one));
    let unit = &cluster.units[0];
    on_tree(&cluster.zookeeper.address(), |tree| async move {
        let dir = format!("{NEW}/Scheduler/Compress");
        let packs = tree.get_many(&dir, tree.children(&dir).await.unwrap()).await.unwrap();
        let largest = packs.iter().map(|(_, node)| node.data.len()).max().unwrap();
        println!("{COUNT} tasks in {} packs, the largest of {largest} bytes", packs.len());
        assert!(largest <= 512 * 1024);
        let bytes: usize = packs.iter().map(|(_, node)| node.data.len()).sum();
        for (name, value) in [("packs", packs.len()), ("bytes", bytes)] {
            let name = format!("allot_compaction_history_{name}");
            eventually(&name, TASK_TIMEOUT, || unit.metric(&name) == Some(value as f64));
        }
    });
    // Packs are deleted when they are old enough.
    cluster.units.clear();
    cluster.join_with(1, &runner, &[("ALLOT_COMPACTION_DELETE_AFTER", "1s")]);
    eventually("the packs to be deleted", TIMEOUT, || {
        cluster.json(&["history"]).as_array().unwrap().is_empty()
    });
}
