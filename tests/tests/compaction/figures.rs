//! Figures of compaction, measured when asked for:
//!
//!     cargo build --profile daemon -p allotd
//!     ALLOT_ALLOTD=target/daemon/allotd cargo test -p allot-tests --test compaction figures -- --ignored --nocapture

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use allot_coordination::{Kind, Tree};
use allot_tests::compaction_cluster::{CompactionCluster, numbers, script};
use allot_tests::wait::TIMEOUT;
use allot_tests::zookeeper::on_tree;
use allot_tests::{Ensemble, eventually};
use futures_util::StreamExt as _;

use crate::many_tasks::create;

const ROOT: &str = "/cluster.compact/Compaction_v2";

/// Time that runners have to end when their task is stopped.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Three servers that write before they answer, as they do where they are not told otherwise.
fn durable() -> Ensemble {
    Ensemble::start_with("forceSync=yes\n")
}

/// How many partitions: the variable `COUNT`, or this number.
fn count(usual: usize) -> usize {
    std::env::var("COUNT").map_or(usual, |count| count.parse().unwrap())
}

/// A program that lists so many partitions.
fn lister(dir: &Path, count: usize) -> PathBuf {
    let path = dir.join("lister");
    fs::rename(script(dir, &format!("#!/bin/sh\nseq -f 'partition-%08.0f' {count}\n")), &path).unwrap();
    path
}

/// The node of a main task. To list a folder of 100,000 subtasks keeps the server busy, so it is looked up once.
async fn task_node(tree: &Tree, id: &str) -> String {
    let dir = format!("{ROOT}/Scheduler/{id}");
    let names = tree.children(&dir).await.unwrap();
    let info = names.iter().find(|name| name.starts_with("TaskInfo")).unwrap();
    format!("{dir}/{info}")
}

/// A main task as it stands in the tree.
async fn task(tree: &Tree, node: &str) -> serde_json::Value {
    serde_json::from_slice(&tree.get(node).await.unwrap().unwrap().data).unwrap()
}

#[test]
#[ignore = "a measurement"]
fn many_subtasks_are_assigned_explained_and_stopped() {
    let count = count(10_000);
    let home = tempfile::tempdir().unwrap();
    let lister = lister(home.path(), count);
    let runner = script(home.path(), "#!/bin/sh\nexec sleep 600\n");
    let wave = count.to_string();
    let settings = [
        ("ALLOT_COMPACTION_PARTITIONS", lister.to_str().unwrap()),
        ("ALLOT_COMPACTION_WAVE", &wave),
        ("ALLOT_COMPACTION_STOP_LIMIT", "1s"),
    ];
    let cluster = &CompactionCluster::start_on(durable(), 5, &runner, &settings);
    let id = cluster.submit(&["d", "s", "t"]);
    on_tree(&cluster.zookeeper.address(), |tree| async move {
        let tree = &tree;
        let node = task_node(tree, &id).await;
        let mut begun = None;
        let took = loop {
            let now = task(tree, &node).await;
            if !now["listing"].is_null() && begun.is_none() {
                begun = Some((Instant::now(), now["cursor"].as_u64().unwrap()));
            }
            if let Some((at, from)) = begun.filter(|_| now["cursor"] == count) {
                break at.elapsed().mul_f64(count as f64 / (count as u64 - from) as f64);
            }
            assert_ne!(now["CompactTaskState"], "Cancel", "{now}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let sub = task_data(tree).await;
        // The same nodes by a bare client: as many creates on their way as the client lets.
        tree.ensure("/plain").await.unwrap();
        let paths = |end: &'static str| (0..count).map(move |n| format!("/plain/{n:08}{end}"));
        let began = Instant::now();
        // Parents first: what is created below one that is not there yet is refused.
        for (paths, data) in
            [(paths(""), Vec::new()), (paths("/Status.Init"), Vec::new()), (paths("/TaskInfo"), sub)]
        {
            let data = &data;
            futures_util::stream::iter(paths)
                .map(|path| async move { tree.create(&path, data, Kind::Persistent).await.unwrap() })
                .buffer_unordered(256)
                .collect::<Vec<()>>()
                .await;
        }
        let plain = began.elapsed();
        let rate = |span: Duration| count as f64 / span.as_secs_f64();
        println!(
            "assigned {count} subtasks in {took:.2?}, {:.0} a second; the same nodes by pipelined creates in {plain:.2?}, {:.0} a second: {:.2} x",
            rate(took),
            rate(plain),
            rate(took) / rate(plain)
        );
        assert!(rate(took) >= 0.5 * rate(plain), "less than half as many as plain creates");

        let began = Instant::now();
        let explained = cluster.run(&["explain", &id]).ok();
        println!("explained in {:.2?}: {}", began.elapsed(), explained.out);
        let began = Instant::now();
        let _ = cluster.run(&["stop", &id, "--yes"]).ok();
        while task(tree, &node).await["CompactTaskState"] != "Cancel" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let stopped = began.elapsed();
        println!(
            "stopped in {stopped:.2?}, {:.2} x of assigning",
            stopped.as_secs_f64() / took.as_secs_f64()
        );
        assert!(stopped <= took * 2 + STOP_LIMIT, "stopping took more than twice as long as assigning");
    });
}

#[test]
#[ignore = "a measurement"]
fn many_tasks_are_listed() {
    let count = count(20_000);
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(0, &script(home.path(), "#!/bin/sh\n"));
    on_tree(&cluster.zookeeper.address(), |tree| async move { create(&tree, count).await });
    for words in [&["list", "--format", "json"][..], &["list", "--live", "--format", "json"]] {
        let began = Instant::now();
        let listed = cluster.run(words).ok();
        println!("{words:?} of {count} tasks in {:.2?}", began.elapsed());
        assert_eq!(listed.out.matches("\"task\"").count(), count);
    }
}

/// What some subtask looks like.
async fn task_data(tree: &Tree) -> Vec<u8> {
    for worker in tree.children(&format!("{ROOT}/TaskAssigned")).await.unwrap() {
        let inbox = format!("{ROOT}/TaskAssigned/{worker}");
        for sub in tree.children(&inbox).await.unwrap() {
            let dir = format!("{inbox}/{sub}");
            for name in tree.children(&dir).await.unwrap_or_default() {
                if name.starts_with("TaskInfo") {
                    return tree.get(&format!("{dir}/{name}")).await.unwrap().unwrap().data;
                }
            }
        }
    }
    panic!("nothing is assigned");
}

#[test]
#[ignore = "a measurement of many minutes"]
fn a_hundred_thousand_partitions_are_done() {
    let count = count(100_000);
    let home = tempfile::tempdir().unwrap();
    let lister = lister(home.path(), count);
    let settings = [
        ("ALLOT_COMPACTION_PARTITIONS", lister.to_str().unwrap()),
        ("ALLOT_COMPACTION_SLOTS", "4"),
        ("ALLOT_ZOOKEEPER_SESSION", "10s"),
    ];
    let cluster = CompactionCluster::start_with(2, Path::new("/bin/true"), &settings);
    let began = Instant::now();
    let id = cluster.submit(&["d", "s", "t"]);
    let mut task = serde_json::Value::Null;
    eventually("it to be over", Duration::from_secs(7200), || {
        std::thread::sleep(Duration::from_secs(1));
        task = cluster.json(&["list"])[0].clone();
        task["state"] == "Done"
    });
    assert_eq!(numbers(&task), [count as u64, 0, 0], "{id}");
    println!("{count} partitions in {:.0?}", began.elapsed());
    for unit in &cluster.units {
        let status = fs::read_to_string(format!("/proc/{}/status", unit.pid())).unwrap();
        let most = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        println!("{}: {most}", unit.name);
        let kilobytes: u64 = most.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kilobytes < 200 * 1024, "{} took too much memory", unit.name);
    }
}

/// Reads and writes that the server has answered.
fn answered(cluster: &CompactionCluster) -> [f64; 2] {
    let server = &cluster.zookeeper.servers()[0];
    ["zk_cnt_readlatency", "zk_cnt_updatelatency"].map(|name| server.figure(name).unwrap_or_default())
}

#[test]
#[ignore = "a measurement"]
fn hundredth_unit_joins_with_few_requests_of_the_others() {
    const SPAN: Duration = Duration::from_secs(20);
    let count = count(100);
    let home = tempfile::tempdir().unwrap();
    let runner = script(home.path(), "#!/bin/sh\nexit 0\n");
    let settings = [("ALLOT_ZOOKEEPER_SESSION", "40s")];
    let cluster = CompactionCluster::start_with(count - 1, &runner, &settings);
    let within_span = |cluster: &CompactionCluster, before: [f64; 2], began: Instant| {
        std::thread::sleep(SPAN.saturating_sub(began.elapsed()));
        let after = answered(cluster);
        [0, 1].map(|kind| after[kind] - before[kind])
    };
    // What all of them ask when nothing happens.
    let idle = within_span(&cluster, answered(&cluster), Instant::now());
    let (before, began) = (answered(&cluster), Instant::now());
    let unit = cluster.unit(count - 1, &runner, &settings);
    eventually("the unit to be ready", TIMEOUT, || unit.is_ready());
    let joining = within_span(&cluster, before, began);
    let [reads, writes] = [0, 1].map(|kind| joining[kind] - idle[kind]);
    println!(
        "unit {count} joins: {reads} reads and {writes} writes more than the {idle:?} of {SPAN:?} without it"
    );
    assert!(reads < 5.0 * count as f64 && writes < 50.0, "{reads} reads, {writes} writes");
}
