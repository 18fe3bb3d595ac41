//! Scenarios of units and of the subtasks of a round.

use super::*;

#[test]
fn idle_units_take_what_waits_at_a_slow_one() {
    play(1, || async {
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for (name, takes) in [("u1", 300), ("u2", 300), ("u3", 6000)] {
            units.push(stage.unit(2, stage.runners(name, ms(takes))).await);
        }
        let id = stage.submit("u1", 30, |_| {}).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 30));
        println!("{:?} after {:?}", stage.runs.by_unit(), stage.makespan());
        // The slow unit begins two at once, and no others.
        assert!(stage.makespan() < ms(6500), "{:?}", stage.makespan());
        assert_eq!(stage.runs.all().len(), 30);
    });
}

#[test]
fn unit_that_joins_takes_part_in_the_round() {
    play(2, || async {
        let stage = Stage::new().await;
        let _first = stage.unit(2, stage.runners("u1", ms(2000))).await;
        let id = stage.submit("u1", 16, |_| {}).await;
        sleep(ms(1000)).await;
        let _second = stage.unit(2, stage.runners("u2", ms(2000))).await;
        stage.end(id).await;
        println!("{:?} after {:?}", stage.runs.by_unit(), stage.makespan());
        assert!(stage.makespan() < ms(10_500), "{:?}", stage.makespan());
    });
}

/// The shortest time in which units, given as slots and time of a run, finish so many partitions: all splits are tried.
fn best(units: &[(u32, u64)], count: u64) -> u64 {
    let alone = |&(slots, takes): &(u32, u64), count: u64| count.div_ceil(u64::from(slots)) * takes;
    match units {
        [] => {
            if count == 0 {
                0
            } else {
                u64::MAX
            }
        }
        [unit, rest @ ..] => {
            let splits = (0..=count).map(|own| alone(unit, own).max(best(rest, count - own)));
            splits.min().unwrap_or(u64::MAX)
        }
    }
}

#[test]
fn round_takes_at_most_a_fifth_longer_than_the_best_split() {
    let mut worst: f64 = 0.0;
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let units: Vec<(u32, u64)> =
            (0..3).map(|_| (random.random_range(1..=3), random.random_range(500..5000))).collect();
        let slowest = units.iter().map(|(_, takes)| *takes).max().unwrap();
        // As many partitions as make the slowest unit run several in a row.
        let rate: f64 = units.iter().map(|&(slots, takes)| f64::from(slots) / takes as f64).sum();
        let count = (6.0 * slowest as f64 * rate).ceil() as u64;
        let best = best(&units, count);
        play(seed, || async {
            let stage = Stage::new().await;
            let mut running = Vec::new();
            for (number, &(slots, takes)) in units.iter().enumerate() {
                running.push(stage.unit(slots, stage.runners(&format!("u{number}"), ms(takes))).await);
            }
            let id = stage.submit("u0", count as usize, |_| {}).await;
            stage.end(id).await;
            let ratio = stage.makespan().as_millis() as f64 / best as f64;
            worst = worst.max(ratio);
            assert!(ratio < 1.2, "seed {seed}: {units:?}, {count} partitions: {ratio} of {best} ms");
            assert_eq!(stage.runs.all().len() as u64, count);
        });
    }
    println!("at worst {worst:.3} of the best time");
}

#[test]
fn subtask_takes_few_requests() {
    play(3, || async {
        const COUNT: usize = 1500;
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for name in ["u1", "u2", "u3"] {
            units.push(stage.unit(4, stage.runners(name, ms(400))).await);
        }
        sleep(SESSION).await;
        let before = stage.requests.count();
        let id = stage.submit("u1", COUNT, |_| {}).await;
        stage.end(id).await;
        let made = (stage.requests.count() - before) as f64 / COUNT as f64;
        println!("{made:.2} requests for each subtask, after {:?}", stage.makespan());
        assert!(made < 14.0, "{made} requests for each subtask");
    });
}

#[test]
fn higher_priority_and_older_subtasks_are_taken_first() {
    play(4, || async {
        let stage = Stage::new().await;
        let _slow = stage.unit(1, stage.runners("u1", ms(5000))).await;
        let low = stage.submit("u1", 8, |_| {}).await;
        let high = TaskId::main("u1", 2_000_000);
        let names = ["d", "s", "t2"].map(str::to_owned);
        let task = MainTask {
            named: (0..4).map(|number| format!("high{number}")).collect(),
            priority: 5,
            ..MainTask::new(high, names, "u1".into(), "default".into())
        };
        sleep(ms(500)).await;
        stage.store.submit(high, &task, false).await.unwrap();
        sleep(ms(500)).await;
        let _free = stage.unit(1, stage.runners("u2", ms(400))).await;
        stage.end(high).await;
        stage.end(low).await;
        let taken: Vec<String> =
            stage.runs.all().into_iter().filter(|ran| ran.unit == "u2").map(|ran| ran.partition).collect();
        let first: BTreeSet<&str> = taken.iter().take(4).map(String::as_str).collect();
        assert_eq!(first, BTreeSet::from(["high0", "high1", "high2", "high3"]), "{taken:?}");
    });
}

#[test]
fn broken_unit_swallows_no_work() {
    play(5, || async {
        let stage = Stage::new().await;
        let broken = Fixed { exit: |_| 127, ..stage.runners("u1", ms(10)) };
        let broken = stage.unit(2, broken).await;
        let _well = stage.unit(2, stage.runners("u2", ms(1000))).await;
        let id = stage.submit("u1", 10, |task| task.retries = 0).await;
        stage
            .until("the unit to say that it is broken", async || {
                broken.health.problems().iter().any(|problem| problem.contains("exit code 127"))
            })
            .await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 10), "{task:?}");
        let starts = stage.runs.by_unit()["u1"];
        assert!(starts <= 6, "{starts} starts at the broken unit");
    });
}

#[test]
fn partition_that_no_unit_can_run_fails_in_the_end() {
    play(6, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, Fixed { exit: |_| 126, ..stage.runners("u1", ms(10)) }).await;
        let id = stage.submit("u1", 1, |_| {}).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.failed_count), (State::Done, 1), "{task:?}");
        assert!(task.failures[0].message.contains("exit code 126"), "{task:?}");
    });
}

#[test]
fn partition_that_failed_runs_again_at_another_unit() {
    play(7, || async {
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for name in ["u1", "u2", "u3"] {
            let runners = Fixed { exit: |number| i32::from(number == 1), ..stage.runners(name, ms(100)) };
            units.push(stage.unit(2, runners).await);
        }
        let retry = RetryInfo { limit: 1, delay: 1, ..RetryInfo::default() };
        let id = stage.submit("u1", 15, |task| task.retry = retry).await;
        let task = stage.end(id).await;
        assert_eq!((task.result.success_count, task.result.failed_count), (15, 0));
        let runs = stage.runs.all();
        for number in 0..15 {
            let partition = format!("p{number:05}");
            let at: Vec<&str> =
                runs.iter().filter(|ran| ran.partition == partition).map(|ran| ran.unit.as_str()).collect();
            assert!(at.len() == 2 && at[0] != at[1], "{partition} ran at {at:?}");
        }
    });
}

/// A task whose listing fails: it names no partitions, and no unit can list any.
fn unlisted(task: &mut MainTask) {
    task.named.clear();
}

#[test]
fn failed_listing_fails_a_round_and_not_the_schedule() {
    play(8, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let repeat = RepeatInfo { repeat_count: 0, repeat_interval: 7200 };
        let id = stage
            .submit("u1", 0, |task| {
                unlisted(task);
                task.repeat = repeat;
            })
            .await;
        let began = Instant::now();
        stage.until("the round to fail", async || stage.task(id).await.failed_rounds == 1).await;
        assert!((ms(540_000)..ms(700_000)).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(stage.told(), ["round-failed"]);
        let task = stage.task(id).await;
        assert_eq!((task.state, task.round), (State::Init, 1));
        assert!(task.error.contains("to list them by") && task.next_at > 0, "{task:?}");
        // The next round is well.
        stage.store.set(id, |task| (task.named, task.next_at) = (vec!["p".into()], 0)).await.unwrap();
        stage.until("the next round", async || stage.task(id).await.result.success_count == 1).await;
        let task = stage.task(id).await;
        assert_eq!((task.round, task.failed_rounds, task.error.as_str()), (2, 1, ""));
    });
}

#[test]
fn listing_that_succeeds_when_repeated_fails_nothing() {
    play(9, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let id = stage.submit("u1", 0, unlisted).await;
        stage.until("a failed listing", async || stage.task(id).await.list_failed == 3).await;
        stage.store.set(id, |task| task.named = vec!["p".into()]).await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.round, task.failed_rounds), (State::Done, 1, 0));
    });
}

#[test]
fn retry_brings_a_cancelled_task_back() {
    play(10, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let id = stage
            .submit("u1", 0, |task| {
                unlisted(task);
                task.list_retries = 0;
            })
            .await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.round, task.failed_rounds), (State::Cancel, 1, 1));
        stage.store.retry(id, "u1", None).await.unwrap();
        stage.until("the listing to fail again", async || stage.task(id).await.state == State::Cancel).await;
        let task = stage.task(id).await;
        assert_eq!((task.round, task.failed_rounds), (1, 1));
    });
}

#[test]
fn stopped_task_begins_its_round_again() {
    play(11, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(1000))).await;
        let id = stage.submit("u1", 5, |_| {}).await;
        stage.until("a subtask to end", async || stage.task(id).await.result.success_count == 1).await;
        stage.store.stop(id).await.unwrap();
        assert_eq!(stage.end(id).await.state, State::Cancel);
        stage.store.retry(id, "u1", None).await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.round, task.result.success_count), (State::Done, 1, 5), "{task:?}");
        assert_eq!(task.grand_total().all(), 5);
    });
}

#[test]
fn corrected_clock_delays_a_round_and_a_window_by_a_minute_at_most() {
    play(12, || async {
        const HOUR: i64 = 3_600_000;
        CLOCK.set((CLOCK.get().0, -HOUR));
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let began = Instant::now();
        // Due two minutes from now, by a clock that is right.
        let due = clock() + HOUR as u64 + 120_000;
        let id = stage.submit("u1", 1, |task| task.next_at = due).await;
        sleep(ms(10_000)).await;
        CLOCK.set((CLOCK.get().0, 0));
        let task = stage.end(id).await;
        assert_eq!(task.state, State::Done);
        assert!((ms(119_000)..ms(181_000)).contains(&began.elapsed()), "{:?}", began.elapsed());

        // A window that opens two minutes from now, by a clock that is right.
        CLOCK.set((CLOCK.get().0, -HOUR));
        let minute = |ms: u64| (ms / 60_000) % 1440;
        let opens = minute(clock() + HOUR as u64) + 2;
        let time = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
        let window = Window::new(&format!("{}-{}", time(opens), time(opens + 5)), "UTC").unwrap();
        let began = Instant::now();
        let id = TaskId::main("u1", 2_000_000);
        let task = MainTask {
            named: vec!["p".into()],
            window: Some(window),
            ..MainTask::new(id, ["d", "s", "t2"].map(str::to_owned), "u1".into(), "default".into())
        };
        stage.store.submit(id, &task, false).await.unwrap();
        sleep(ms(10_000)).await;
        CLOCK.set((CLOCK.get().0, 0));
        stage.end(id).await;
        assert!(began.elapsed() < ms(181_000), "{:?}", began.elapsed());
    });
}

#[test]
fn outage_of_zookeeper_uses_up_no_retry() {
    play(13, || async {
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for name in ["u1", "u2"] {
            units.push(stage.unit(2, stage.runners(name, ms(25_000))).await);
        }
        let id = stage.submit("u1", 4, |task| task.retries = 0).await;
        stage.until("all to run", async || stage.runs.all().len() == 4).await;
        for away in [ms(3500), SESSION * 2] {
            sleep(ms(5000)).await;
            stage.tree.freeze();
            sleep(away).await;
            stage.tree.thaw();
        }
        let task = stage.end(id).await;
        assert_eq!((task.result.success_count, task.result.failed_count), (4, 0), "{task:?}");
    });
}

#[test]
fn result_outlives_the_process_while_zookeeper_is_away() {
    play(14, || async {
        let stage = Stage::new().await;
        let runners = stage.runners("u1", ms(1000));
        let unit = stage.unit(1, runners.clone()).await;
        let id = stage.submit("u1", 1, |task| task.retries = 0).await;
        stage.until("the runner to run", async || stage.runs.all().len() == 1).await;
        sleep(ms(200)).await;
        stage.tree.freeze();
        // The session of the runner is still trusted when the runner ends.
        sleep(SESSION).await;
        assert_eq!(runners.disk.lock().unwrap().len(), 1, "the result is on the disk");
        unit.kill();
        stage.tree.thaw();
        let _again = stage.unit(1, runners.clone()).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 1), "{task:?}");
        assert_eq!(stage.runs.all().len(), 1, "it ran once");
        assert!(runners.disk.lock().unwrap().is_empty());
    });
}

#[test]
fn result_counts_while_the_subtask_waits_at_another_unit() {
    play(15, || async {
        let stage = Stage::new().await;
        let runners = stage.runners("u1", ms(1000));
        let unit = stage.unit(1, runners.clone()).await;
        let id = stage.submit("u1", 1, |_| {}).await;
        stage.until("the runner to run", async || stage.runs.all().len() == 1).await;
        sleep(ms(200)).await;
        stage.tree.freeze();
        sleep(SESSION).await;
        unit.kill();
        stage.tree.thaw();
        // Another unit manages the task and is given the subtask, which it may not start while the task is paused.
        stage.task(id).await;
        stage.store.pause(id, true).await.unwrap();
        let _other = stage.unit(1, stage.runners("u2", ms(1000))).await;
        stage
            .until("the subtask to be reassigned", async || {
                !stage.store.at("u2", Some(id)).await.unwrap().is_empty()
            })
            .await;
        let _again = stage.unit(1, runners.clone()).await;
        stage.until("the result to be written", async || runners.disk.lock().unwrap().is_empty()).await;
        stage.store.pause(id, false).await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 1), "{task:?}");
        assert_eq!(stage.runs.all().len(), 1, "it ran once");
    });
}

#[test]
fn drained_unit_finishes_what_runs_and_hands_on_what_waits() {
    play(16, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let first = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        let id = stage.submit("u1", 12, |_| {}).await;
        stage.until("two to run", async || stage.runs.all().len() == 2).await;
        let _second = stage.unit(2, stage.runners("u2", ms(60_000))).await;
        // A slow unit takes what a drained one does not start. The drained one is no manager any more, either.
        assert_eq!(client.drain("u1", None).await.unwrap(), 12);
        stage.until("the others to begin", async || stage.runs.by_unit().get("u2") == Some(&2)).await;
        sleep(ms(15_000)).await;
        assert_eq!(stage.runs.by_unit()["u1"], 2, "it begins no more");
        assert_eq!(first.health.problems(), Vec::<String>::new(), "it is well");
        assert_eq!(stage.task(id).await.manager, "u2");
        assert_eq!(stage.task(id).await.result.success_count, 2, "what ran has ended well");
        let why = client.explain(id, &crate::operations::time).await.unwrap().join("; ");
        assert!(why.contains("it is drained"), "{why}");
        // A restart changes nothing.
        first.kill();
        let _first = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        sleep(ms(15_000)).await;
        assert_eq!(stage.runs.by_unit()["u1"], 2, "it begins no more");
        assert!(client.undrain("u1").await.unwrap() && !client.undrain("u1").await.unwrap());
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 12));
        assert!(stage.runs.by_unit()["u1"] > 2, "it works again");
        assert!(client.drain("nobody", None).await.is_err());
    });
}

#[test]
fn deadline_of_a_drain_ends_what_runs_and_uses_up_no_retry() {
    play(17, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _first = stage.unit(2, stage.runners("u1", ms(100_000))).await;
        let id = stage.submit("u1", 2, |task| task.retries = 0).await;
        stage.until("both to run", async || stage.runs.all().len() == 2).await;
        let _second = stage.unit(2, stage.runners("u2", ms(1000))).await;
        client.drain("u1", Some(ms(20_000))).await.unwrap();
        sleep(ms(10_000)).await;
        assert_eq!(stage.runs.all().len(), 2, "nothing is ended before the deadline");
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 2), "{task:?}");
        assert_eq!(stage.runs.by_unit(), BTreeMap::from([("u1".into(), 2), ("u2".into(), 2)]));
    });
}

#[test]
fn drained_cluster_waits() {
    play(18, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _unit =
            stage.unit_with(stage.runners("u1", ms(1000)), |settings| settings.every = ms(60_000)).await;
        client.drain("u1", None).await.unwrap();
        let id = stage.submit("u1", 2, |_| {}).await;
        sleep(ms(300_000)).await;
        let task = stage.task(id).await;
        assert!(!task.state.is_over() && stage.runs.all().is_empty(), "{task:?}");
        let why = client.explain(id, &crate::operations::time).await.unwrap().join("; ");
        assert!(why.contains("all are drained"), "{why}");
        client.undrain("u1").await.unwrap();
        assert_eq!(stage.end(id).await.state, State::Done);
    });
}

#[test]
fn unit_that_drains_before_it_leaves_finishes_what_runs() {
    play(19, || async {
        let stage = Stage::new().await;
        let first = stage
            .unit_with(stage.runners("u1", ms(30_000)), |settings| {
                (settings.slots, settings.drain) = (2, true);
            })
            .await;
        let id = stage.submit("u1", 6, |task| task.retries = 0).await;
        stage.until("two to run", async || stage.runs.all().len() == 2).await;
        let _second = stage.unit(1, stage.runners("u2", ms(1000))).await;
        first.ask.send_replace(true);
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 6), "{task:?}");
        assert_eq!(stage.runs.by_unit(), BTreeMap::from([("u1".into(), 2), ("u2".into(), 4)]));
        stage.until("the unit to leave", async || first.process.is_finished()).await;
        // The process closes its session.
        first.line.expire_all();
        let drained = stage.store.paths.drained();
        stage
            .until("its drain to end with its session", async || {
                stage.store.children(&drained).await.unwrap().is_empty()
            })
            .await;
    });
}
