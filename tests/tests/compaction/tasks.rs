//! Compaction end to end: a real ZooKeeper, units as processes, runners as programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use allot_coordination::Op;
use allot_tests::compaction_cluster::{CAREFUL, CompactionCluster, TASK_TIMEOUT, UNHURRIED, numbers, script};
use allot_tests::eventually;
use allot_tests::module::repository;
use allot_tests::terminal::on_terminal;
use allot_tests::zookeeper::on_tree;

#[test]
fn twelve_databases_shrink_in_two_rounds_on_three_units() {
    let cluster =
        CompactionCluster::start_with(3, &repository().join("examples/compaction/sqlite"), &[UNHURRIED]);
    let make = "import sqlite3,sys\nfor n in range(12):\n c=sqlite3.connect(f'{sys.argv[1]}/{n}.db')\n \
                c.execute('create table t(x)')\n c.executemany('insert into t values(?)',[('x'*500,)]*400)\n \
                c.execute('delete from t where rowid>10')\n c.commit()\n c.close()\n";
    let made = Command::new("python3").args(["-c", make]).arg(cluster.data()).status().unwrap();
    assert!(made.success());
    let size = |n: usize| fs::metadata(cluster.data().join(format!("{n}.db"))).unwrap().len();
    let before: Vec<u64> = (0..12).map(size).collect();
    let submitted = ["submit", "shop.public.orders", "--repeat", "2", "--every", "5s"];
    let id = cluster.run(&submitted).ok().out.trim().to_owned();
    // The table is taken until this one is over.
    let refused = cluster.run(&["submit", "shop.public.orders"]).ended(5);
    assert!(refused.err.contains(&id) && refused.err.contains("has not ended"), "{}", refused.err);
    let task = cluster.end(&id);
    assert_eq!((&task["state"], &task["round"]), (&"Done".into(), &2.into()), "{task}");
    assert_eq!((numbers(&task), &task["all_succeeded"]), ([12, 0, 0], &24.into()), "{task}");
    assert!((0..12).all(|n| size(n) < before[n]));
    let before: u64 = before.iter().sum();
    let after: u64 = (0..12).map(size).sum();
    // The second round found them small.
    assert_eq!(task["sums"]["before"].as_f64(), Some((before + after) as f64));
    assert_eq!(task["sums"]["after"].as_f64(), Some((2 * after) as f64));
    let outputs =
        (0..3).map(|n| fs::read_dir(cluster.dir.path().join(format!("output{n}"))).unwrap().count());
    assert_eq!(outputs.sum::<usize>(), 24);
    let explained = cluster.run(&["explain", &id]).ok();
    assert!(explained.out.contains("it has ended, Done"), "{}", explained.out);
    assert!(cluster.run(&["history"]).ok().out.contains(&id));
    for unit in &cluster.units {
        assert!(unit.terminate().success());
    }
}

#[test]
fn any_command_is_a_runner() {
    let home = tempfile::tempdir().unwrap();
    let command = repository().join("examples/compaction/command");
    let words = format!(
        "{} cp {{partition}} {}/{{db}}.{{schema}}.{{table}}",
        command.display(),
        home.path().display()
    );
    let cluster = CompactionCluster::start_with(1, Path::new(&words), &[UNHURRIED]);
    // A name with a blank stays one word.
    fs::write(cluster.data().join("one two"), "its content").unwrap();
    let id = cluster.submit(&["shop", "public", "orders"]);
    let task = cluster.end(&id);
    assert_eq!(numbers(&task), [1, 0, 0], "{task}");
    assert_eq!(fs::read_to_string(home.path().join("shop.public.orders")).unwrap(), "its content");
}

/// A runner that knows how many of its kind run, of its table and in all, and notes it.
const COUNTING: &str = r#"#!/bin/sh
running=$ALLOT_TEST_DIR/run
mkdir -p "$running"
: >"$running/$ALLOT_TABLE.$ALLOT_SUBTASK"
set -- "$running"/*
all=$#
set -- "$running/$ALLOT_TABLE".*
echo "$ALLOT_TABLE $# $all $ALLOT_FENCE" >>"$ALLOT_TEST_DIR/counts"
sleep 0.4
rm "$running/$ALLOT_TABLE.$ALLOT_SUBTASK"
"#;

#[test]
fn limits_priorities_windows_and_queues_say_what_begins() {
    let home = tempfile::tempdir().unwrap();
    let settings = [("ALLOT_COMPACTION_SLOTS", "4"), ("ALLOT_COMPACTION_LIMIT", "3"), UNHURRIED];
    let cluster = CompactionCluster::start_with(2, &script(home.path(), COUNTING), &settings);
    cluster.partitions(30);
    let low = cluster.submit(&["d", "s", "low", "--limit", "1"]);
    eventually("it to have begun", TASK_TIMEOUT, || !cluster.noted("counts").is_empty());
    let limited = "1 subtasks of the task run, and 1 is the limit";
    eventually("the limit to be seen", TASK_TIMEOUT, || {
        cluster.run(&["explain", &low]).ok().out.contains(limited)
    });
    let refused = cluster.run(&["submit", "d.s.low"]).ended(5);
    assert!(refused.err.contains(&low) && refused.err.contains("--queue"), "{}", refused.err);
    let queued = cluster.submit(&["d", "s", "low", "--queue", "--partition", "last"]);
    let waits = format!("it waits for task {low} on the same table");
    assert!(cluster.run(&["explain", &queued]).ok().out.contains(&waits));
    let (other, high) = (
        cluster.submit(&["d", "s", "other", "--limit", "1"]),
        cluster.submit(&["d", "s", "high", "--priority", "5"]),
    );
    // A window that is shut at any time.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 3600 % 24;
    let window = format!("{:02}:00-{:02}:00", (now + 3) % 24, (now + 5) % 24);
    let shut = cluster.submit(&["d", "s", "shut", "--window", &window, "--time-zone", "UTC"]);
    for id in [&low, &queued, &other, &high] {
        assert_eq!(cluster.end(id)["state"], "Done");
    }
    let explained = cluster.run(&["explain", &shut]).ok().out;
    assert!(explained.contains(&format!("outside of its window {window} UTC")), "{explained}");
    let counts = cluster.noted("counts");
    let parts: Vec<Vec<&str>> = counts.iter().map(|line| line.split(' ').collect()).collect();
    let most = |table: &str, column: usize| {
        let of = parts.iter().filter(|line| line[0] == table || table.is_empty());
        of.map(|line| line[column].parse::<usize>().unwrap()).max().unwrap_or(0)
    };
    assert_eq!((most("low", 1), most("other", 1), most("shut", 1)), (1, 1, 0), "{counts:?}");
    // Whether three are ever seen at once is up to the machine; without a limit it would be up to eight.
    assert!((2..=3).contains(&most("", 2)), "{counts:?}");
    // Of two that may both begin, the one of the higher priority is done first.
    let last = |table: &str| parts.iter().rposition(|line| line[0] == table).unwrap();
    assert!(last("high") < last("other"), "{counts:?}");
    let low_parts: Vec<usize> = (0..parts.len()).filter(|&n| parts[n][0] == "low").collect();
    assert_eq!(low_parts.len(), 31);
    let task = cluster.run(&["stop", &shut, "--yes", "--wait", "--format", "json"]);
    assert!(task.out.contains("\"Cancel\""), "{} {}", task.out, task.err);
    assert!(cluster.zookeeper_names("/cluster.compact/Compaction_v2/Permits").is_empty());
}

#[test]
fn lower_priority_waits_while_a_higher_one_waits_at_the_limit() {
    let home = tempfile::tempdir().unwrap();
    let settings = [("ALLOT_COMPACTION_SLOTS", "4"), ("ALLOT_COMPACTION_LIMIT", "2"), UNHURRIED];
    let cluster = CompactionCluster::start_with(2, &script(home.path(), COUNTING), &settings);
    cluster.partitions(18);
    let high = cluster.submit(&["d", "s", "high", "--priority", "5"]);
    eventually("it to have begun", TASK_TIMEOUT, || !cluster.noted("counts").is_empty());
    let low = cluster.submit(&["d", "s", "low"]);
    for id in [&high, &low] {
        assert_eq!(numbers(&cluster.end(id)), [18, 0, 0]);
    }
    // The units share the limit, and each has some of both tasks. Runners that start at once may write in another order
    // than they were started in, which their fencing tokens tell.
    let mut counts = cluster.noted("counts");
    counts.sort_by_key(|line| line.rsplit(' ').next().and_then(|fence| fence.parse::<u64>().ok()).unwrap());
    let first_low = counts.iter().position(|line| line.starts_with("low")).unwrap();
    assert_eq!((first_low, counts.len()), (18, 36), "{counts:?}");
    assert!(cluster.zookeeper_names("/cluster.compact/Compaction_v2/Permits").is_empty());
}

#[test]
fn waiting_task_tells_of_taken_slots_and_its_next_round() {
    let home = tempfile::tempdir().unwrap();
    let settings = [("ALLOT_COMPACTION_SLOTS", "1"), UNHURRIED];
    let cluster = CompactionCluster::start_with(1, &script(home.path(), CAREFUL), &settings);
    cluster.partitions(20);
    let id = cluster.submit(&["shop", "public", "orders", "--repeat", "2", "--every", "1h"]);
    let explained = || cluster.run(&["explain", &id]).ok().out;
    let full = |said: &str| {
        said.contains("worker host0_9876, 1 slots: 1 running, ") && said.contains("they wait for a free slot")
    };
    eventually("the slot to be taken", TASK_TIMEOUT, || full(&explained()));
    let before = SystemTime::now();
    eventually("the first round to be over", TASK_TIMEOUT, || explained().contains("round 2 is due at "));
    let said = explained();
    let due = said.split_once("round 2 is due at ").unwrap().1.lines().next().unwrap();
    let due = humantime::parse_rfc3339(due).unwrap();
    // Written to the second.
    let hour = Duration::from_secs(3600);
    let span = before + hour - Duration::from_secs(1)..=SystemTime::now() + hour;
    assert!(span.contains(&due), "{said}");
    let stopped = cluster.run(&["stop", &id, "--yes", "--wait", "--format", "json"]);
    assert!(stopped.out.contains("\"Cancel\""), "{} {}", stopped.out, stopped.err);
}

#[test]
fn a_task_is_paused_given_to_others_resumed_and_stopped() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(2, &script(home.path(), CAREFUL), &[UNHURRIED]);
    cluster.partitions(60);
    let id = cluster.submit(&["shop", "public", "orders"]);
    eventually("it to have begun", TASK_TIMEOUT, || !cluster.noted("ended").is_empty());
    assert!(cluster.run(&["pause", &id]).ok().out.contains("paused"));
    let running = |shown: &serde_json::Value| {
        shown["subtasks"].as_array().unwrap().iter().filter(|sub| sub["state"] == "Running").count()
    };
    let mut shown = serde_json::Value::Null;
    eventually("nothing to run", TASK_TIMEOUT, || {
        shown = cluster.json(&["get", &id]);
        running(&shown) == 0
    });
    // One that was about to begin may have looked before.
    let mut before = usize::MAX;
    eventually("nothing to begin any more", TASK_TIMEOUT, || {
        std::thread::sleep(Duration::from_secs(1));
        std::mem::replace(&mut before, cluster.noted("begun").len()) == cluster.noted("begun").len()
    });
    shown = cluster.json(&["get", &id]);
    let explained = cluster.run(&["explain", &id]).ok().out;
    assert!(explained.contains("it is paused"), "{explained}");

    // Its new manager gives away the task and a subtask.
    let manager = shown["manager"].as_str().unwrap().to_owned();
    let _ = cluster.run(&["reassign", &id]).ok();
    let managed = || cluster.json(&["get", &id])["manager"].as_str().unwrap().to_owned();
    assert_ne!(managed(), manager);
    let _ = cluster.run(&["reassign", &id, "--to", &manager]).ok();
    assert_eq!(managed(), manager);
    assert!(cluster.run(&["reassign", &id, "--to", "nobody_1"]).ended(4).err.contains("nobody_1"));
    assert_eq!(managed(), manager);
    let waiting = shown["subtasks"][0].clone();
    let (sub, worker) = (waiting["subtask"].as_str().unwrap(), waiting["worker"].as_str().unwrap());
    assert!(cluster.run(&["reassign", sub, "--to", "nobody_1"]).ended(4).err.contains("nobody_1"));
    let now = || {
        let subs = cluster.json(&["get", &id])["subtasks"].clone();
        subs.as_array().unwrap().iter().find(|now| now["subtask"] == sub).unwrap().clone()
    };
    let _ = cluster.run(&["reassign", sub]).ok();
    assert_ne!(now()["worker"], worker);
    let _ = cluster.run(&["reassign", sub, "--to", worker]).ok();
    assert_eq!(now()["worker"], worker);
    assert_eq!((now()["attempt"].as_u64(), cluster.noted("begun").len()), (Some(0), before), "it had begun");

    let _ = cluster.run(&["resume", &id]).ok();
    eventually("it to go on", TASK_TIMEOUT, || cluster.noted("ended").len() > before + 4);
    let stopped = cluster.run(&["stop", &id, "--yes", "--wait", "--format", "json"]);
    let task: serde_json::Value = serde_json::from_str(&stopped.out).unwrap();
    let [well, failed, gone] = numbers(&task);
    assert_eq!((&task["state"], failed), (&"Cancel".into(), 0), "{task}");
    assert!(well >= 5 && gone > 0 && well + gone <= 60, "{task}");
    assert!(cluster.run(&["resume", &id]).ended(5).err.contains("has ended"));
    assert!(cluster.zookeeper_names("/cluster.compact/Compaction_v2/Locks").is_empty());
}

#[test]
fn remains_of_a_removed_task_are_deleted() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(1, &script(home.path(), CAREFUL), &[UNHURRIED]);
    cluster.partitions(20);
    let id = cluster.submit(&["shop", "public", "orders"]);
    eventually("it to have begun", TASK_TIMEOUT, || !cluster.noted("ended").is_empty());
    let _ = cluster.run(&["pause", &id]).ok();
    let runs = |sub: &serde_json::Value| sub["state"] == "Running";
    eventually("nothing to run", TASK_TIMEOUT, || {
        !cluster.json(&["get", &id])["subtasks"].as_array().unwrap().iter().any(runs)
    });
    let inbox = "/cluster.compact/Compaction_v2/TaskAssigned/host0_9876";
    assert!(!cluster.zookeeper_names(inbox).is_empty());
    on_tree(&cluster.zookeeper.address(), |tree| async move {
        let mut paths = vec![format!("/cluster.compact/Compaction_v2/Scheduler/{id}")];
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            paths.extend(tree.children(&path).await.unwrap().iter().map(|name| format!("{path}/{name}")));
            next += 1;
        }
        let delete = |path| Op::Delete { path, version: None };
        tree.multi(paths.into_iter().rev().map(delete).collect()).await.unwrap();
    });
    eventually("the inbox to be empty", TASK_TIMEOUT, || cluster.zookeeper_names(inbox).is_empty());
    let again = cluster.submit(&["shop", "public", "orders"]);
    assert_eq!(numbers(&cluster.end(&again)), [20, 0, 0]);
}

/// A runner that does as its partition's name says.
const OBEDIENT: &str = r#"#!/bin/sh
echo "$$" >> "$ALLOT_TEST_DIR/pids"
case $ALLOT_PARTITION in
fails*) echo "the reason"; exit 7 ;;
hangs*) trap '' TERM; (trap '' TERM; echo "$(exec sh -c 'echo $PPID')" >> "$ALLOT_TEST_DIR/pids"; exec sleep 600) &
    # Two in sessions of their own, of which the second is no child of this shell.
    setsid sh -c 'echo "$$" >> "$ALLOT_TEST_DIR/pids"; exec sleep 600' &
    (setsid sh -c 'echo "$$" >> "$ALLOT_TEST_DIR/pids"; exec sleep 600' &)
    wait ;;
esac
cat > "$ALLOT_TEST_DIR/input.$ALLOT_SUBTASK"
echo '{"freed": 2.5}'
"#;

#[test]
fn failed_and_late_subtasks_are_counted_and_waiting_commands_told() {
    let home = tempfile::tempdir().unwrap();
    let lister = script(&home.path().join(""), "#!/bin/sh\nprintf 'well\\nfails\\nhangs\\n\\nwell\\n'\n");
    let lister = {
        let path = home.path().join("lister");
        fs::rename(lister, &path).unwrap();
        path
    };
    let runner = script(home.path(), OBEDIENT);
    let settings = [
        UNHURRIED,
        ("ALLOT_COMPACTION_TIMEOUT", "8s"),
        ("ALLOT_COMPACTION_STOP_LIMIT", "300ms"),
        ("ALLOT_COMPACTION_PARTITIONS", lister.to_str().unwrap()),
    ];
    let cluster = CompactionCluster::start_with(1, &runner, &settings);
    let waited = cluster.run(&["submit", "d.s.t", "--wait"]).ended(1);
    assert!(waited.err.contains("Done after 1 round: 1 succeeded, 2 failed, 0 stopped"), "{}", waited.err);
    let id = waited.out.trim();
    let task = cluster.json(&["get", id]).clone();
    assert_eq!((numbers(&task), &task["sums"]["freed"]), ([1, 2, 0], &2.5.into()), "{task}");
    let failures: Vec<String> =
        task["last_failures"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert!(
        failures.iter().any(|one| one.contains("exit code 7") && one.contains("the reason")),
        "{failures:?}"
    );
    assert!(failures.iter().any(|one| one.contains("not done within 8s")), "{failures:?}");
    let pids = cluster.noted("pids");
    assert_eq!(pids.len(), 6, "{pids:?}");
    for pid in pids {
        eventually("what hung to be gone, with its children", TASK_TIMEOUT, || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
    }
    let first = format!("{}.1", id.strip_suffix(".0").unwrap());
    let input = fs::read_to_string(cluster.dir.path().join(format!("input.{first}")));
    assert!(input.is_ok_and(|text| text.contains("\"partition\":\"well\"")), "{task}");
    // One that is named twice is one.
    let twice = ["submit", "d.s.t", "--partition", "well", "--partition", "well", "--wait"];
    let waited = cluster.run(&twice).ok();
    assert!(waited.err.contains("1 succeeded, 0 failed"), "{}", waited.err);
    let refused = cluster.run(&["submit", "d.s.t", "--repeat", "2", "--every", "500ms"]).ended(2);
    assert!(refused.err.contains("--every is a second at least"), "{}", refused.err);
}

#[test]
fn one_of_many_concurrent_submissions_for_a_table_is_accepted() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(1, &script(home.path(), CAREFUL), &[UNHURRIED]);
    cluster.partitions(20);
    let submit = || {
        let mut command = cluster.command(&["submit", "shop.public.orders"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<_> = (0..8).map(|_| submit()).collect();
    let (mut heard, mut refused) = (Vec::new(), 0);
    for one in all {
        let output = one.wait_with_output().unwrap();
        if output.status.success() {
            heard.push(String::from_utf8(output.stdout).unwrap().trim().to_owned());
        } else {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(5) && said.contains("has not ended"), "{said}");
            refused += 1;
        }
    }
    assert_eq!((heard.len(), refused), (1, 7), "{heard:?}");
    cluster.all_well(&heard[0], 20);
}

#[test]
fn a_task_whose_partitions_are_just_listed_can_be_stopped() {
    let home = tempfile::tempdir().unwrap();
    let lister = script(home.path(), "#!/bin/sh\necho $$ > \"$ALLOT_TEST_DIR/lister\"\nsleep 600 & wait\n");
    let settings = [UNHURRIED, ("ALLOT_COMPACTION_PARTITIONS", lister.to_str().unwrap())];
    let cluster = CompactionCluster::start_with(1, Path::new("/bin/true"), &settings);
    let id = cluster.submit(&["shop", "public", "orders"]);
    eventually("its partitions to be listed", TASK_TIMEOUT, || !cluster.noted("lister").is_empty());
    let group = cluster.noted("lister")[0].clone();
    let stopped = cluster.run(&["stop", &id, "--yes", "--wait", "--format", "json"]).ok();
    assert!(stopped.out.contains("\"Cancel\""), "{} {}", stopped.out, stopped.err);
    eventually("the program and what it started to be gone", TASK_TIMEOUT, || !lives(&group));
}

/// Whether somebody of a process group is alive.
fn lives(group: &str) -> bool {
    let stats = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("stat")).ok());
    // Behind the name: state, parent, group.
    stats.filter_map(|stat| Some(stat.rsplit_once(") ")?.1.to_owned())).any(|rest| {
        let words: Vec<&str> = rest.split(' ').take(3).collect();
        words[0] != "Z" && words[2] == group
    })
}

#[test]
fn waiting_terminal_shows_how_many_subtasks_are_done() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(1, &script(home.path(), CAREFUL), &[UNHURRIED]);
    cluster.partitions(20);
    let waiting = ["submit", "shop.public.orders", "--wait"];
    let shown = on_terminal(&cluster.command(&waiting));
    let counts: Vec<u64> = shown
        .split("round 1 [")
        .filter_map(|bar| bar.split_once("] ")?.1.split_once("/20,")?.0.parse().ok())
        .collect();
    assert!(counts.is_sorted() && counts.iter().any(|count| (1..20).contains(count)), "{counts:?} {shown:?}");
    assert!(shown.contains("is Done after 1 round: 20 succeeded"), "{shown:?}");
    let piped = cluster.run(&waiting).ok();
    assert!(
        piped.err.ends_with("is Done after 1 round: 20 succeeded, 0 failed, 0 stopped\n"),
        "{}",
        piped.err
    );
}

/// A runner that says far more than anybody wants to read, and fails.
const TALKATIVE: &str = "#!/bin/sh
seq -f 'line %06.0f' 0 19999
exit 3
";

#[test]
fn last_output_of_a_runner_is_kept_in_the_tree_and_on_disk() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(1, &script(home.path(), TALKATIVE), &[UNHURRIED]);
    cluster.partitions(1);
    let id = cluster.submit(&["shop", "public", "orders"]);
    let task = cluster.end(&id);
    assert_eq!(numbers(&task), [0, 1, 0], "{task}");
    let said = task["last_failures"][0]["output"].as_str().unwrap();
    assert!((1000..=1024).contains(&said.len()) && said.trim_end().ends_with("line 019999"), "{said}");
    let log = cluster.dir.path().join("output0").join(format!("{}.1.log", id.strip_suffix(".0").unwrap()));
    let kept = fs::read_to_string(log).unwrap();
    assert!(
        (65000..=65536).contains(&kept.len()) && kept.trim_end().ends_with("line 019999"),
        "{}",
        kept.len()
    );
}

#[test]
fn endless_task_finds_new_partitions_in_each_round() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start_with(2, &script(home.path(), CAREFUL), &[UNHURRIED]);
    cluster.partitions(3);
    let id = cluster.submit(&["shop", "public", "orders", "--repeat", "0", "--every", "1s"]);
    let round = || cluster.json(&["get", &id])["round"].as_u64().unwrap();
    eventually("a second round", TASK_TIMEOUT, || round() >= 2);
    fs::remove_file(cluster.data().join("p00000")).unwrap();
    fs::write(cluster.data().join("new"), "").unwrap();
    eventually("what is new to be compacted, again and again", TASK_TIMEOUT, || {
        cluster.noted("ended").iter().filter(|name| *name == "new").count() >= 2
    });
    let ended = cluster.noted("ended");
    let first = ended.iter().position(|name| name == "new").unwrap();
    // Where the new one is listed the removed one is not, and rounds do not overlap.
    assert!(!ended[first..].contains(&"p00000".to_owned()), "{ended:?}");
    let stopped = cluster.run(&["stop", &id, "--yes", "--wait", "--format", "json"]);
    assert!(stopped.out.contains("\"Cancel\""), "{} {}", stopped.out, stopped.err);
    assert_eq!(cluster.left(), Vec::<String>::new());
}

#[test]
fn units_with_nothing_to_do_say_nothing_but_that_they_are_there() {
    let home = tempfile::tempdir().unwrap();
    let cluster = CompactionCluster::start(3, &script(home.path(), CAREFUL));
    let received = || cluster.zookeeper.servers()[0].figure("zk_packets_received");
    // What a beginning asks for is over when it is quiet for once.
    eventually("three units to be quiet", TASK_TIMEOUT, || {
        let (Some(before), began) = (received(), Instant::now()) else { return false };
        std::thread::sleep(Duration::from_secs(3));
        // Each asks eight times in a session, of two seconds, whether it is heard; and we asked ourselves.
        let most = 3.0 * 8.0 * began.elapsed().as_secs_f64() / 2.0;
        received().is_some_and(|now| now - before <= most * 1.25 + 2.0)
    });
}
