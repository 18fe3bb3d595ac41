//! Scenarios of the rounds of tasks: their messages, their history, and the order of tasks.

use super::*;

#[test]
fn people_hear_of_ends_failures_and_delays() {
    play(20, || async {
        let stage = Stage::new().await;
        // Each partition fails once.
        let runners = Fixed { exit: |number| i32::from(number == 1), ..stage.runners("u1", ms(100)) };
        let unit = stage.unit(2, runners.clone()).await;
        let repeat = RepeatInfo { repeat_count: 3, repeat_interval: 3600 };
        let id = stage.submit("u1", 2, |task| task.repeat = repeat).await;
        stage.until("the first round", async || stage.task(id).await.next_at > 0).await;
        // The message follows the record of the round.
        stage.until("the message", async || !stage.told().is_empty()).await;
        assert_eq!(stage.told(), ["round-failed"]);
        let told = stage.told.lock().unwrap()[0].clone();
        assert_eq!((&told["task"], &told["failed"]), (&id.to_string().into(), &2.into()), "{told}");
        assert_eq!((&told["table"], &told["node"]), (&"t".into(), &"u1".into()), "{told}");
        // Nobody is there when the second round is due.
        unit.kill();
        sleep(ms(2 * 3_600_000)).await;
        let _unit = stage.unit(2, runners).await;
        stage.until("the second round", async || stage.task(id).await.round == 2).await;
        let task = stage.end(id).await;
        assert_eq!(task.state, State::Done);
        stage.until("the last message", async || stage.told().len() >= 3).await;
        assert_eq!(stage.told(), ["round-failed", "round-late", "task-ended"]);
        let late = stage.told.lock().unwrap()[1]["late_ms"].as_u64().unwrap();
        assert!((3_000_000..4_200_000).contains(&late), "{late}");
    });
}

#[test]
fn each_round_of_a_repeated_task_is_in_the_history() {
    play(21, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        // Each partition fails in the second round.
        let runners =
            Fixed { exit: |number| if number == 2 { 3 } else { 0 }, ..stage.runners("u1", ms(1000)) };
        let _unit = stage.unit(9, runners).await;
        let repeat = RepeatInfo { repeat_count: 3, repeat_interval: 60 };
        let id = stage.submit("u1", 9, |task| task.repeat = repeat).await;
        stage.until("the third round", async || stage.task(id).await.round == 3).await;
        // While the task goes on, the rounds before are there with all of their failures.
        let all = async || client.history(&HistoryQuery::default(), 9).await.unwrap().0;
        assert_eq!(all().await.len(), 2);
        let kept = async |round| {
            let failures = client.failures(id, Some(round)).await.unwrap();
            failures.map(|failures| (failures.kept.len(), failures.all))
        };
        assert_eq!((kept(1).await, kept(2).await, kept(4).await), (Some((0, 0)), Some((9, 9)), None));
        let task = stage.end(id).await;
        let check = async || {
            let all = all().await;
            let told: Vec<_> = all.iter().map(|one| (one.is_round(), one.round, one.state)).collect();
            let expected = [(true, 1), (true, 2), (true, 3), (false, 3)].map(|(a, b)| (a, b, State::Done));
            assert_eq!(told, expected);
            for (number, round) in all.iter().filter(|one| one.is_round()).enumerate() {
                let result = (round.result.success_count, round.result.failed_count);
                assert_eq!(result, if number == 1 { (0, 9) } else { (9, 0) });
                let took = round.finished - round.started;
                assert!((1000..3000).contains(&took), "{took} ms");
                // The results of runners that failed do not count.
                let expected = if number == 1 { ["0", "0"] } else { ["90", "36"] };
                let sums = ["before", "after"].map(|name| round.sums[name].to_string());
                assert_eq!(sums, expected, "of this round alone");
            }
            assert_eq!(all[3].sums["before"].to_string(), "180");
            assert_eq!(all[2].finished, task.finished);
        };
        check().await;
        assert_eq!(kept(2).await, Some((9, 9)));
        // Packed, they are still there, with the last failures.
        assert_eq!(history::pack(&stage.store, Duration::ZERO).await.unwrap(), 4);
        assert!(stage.store.mains().await.unwrap().is_empty());
        check().await;
        assert_eq!(kept(2).await, Some((5, 9)));
    });
}

#[test]
fn rounds_are_packed_while_their_task_goes_on() {
    play(22, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let runners = Fixed { exit: |_| 3, ..stage.runners("u1", ms(1000)) };
        let _unit = stage.unit(9, runners).await;
        let repeat = RepeatInfo { repeat_count: 0, repeat_interval: 60 };
        let id = stage.submit("u1", 9, |task| task.repeat = repeat).await;
        stage.until("four rounds", async || stage.task(id).await.ended_rounds() == 4).await;
        let (failures, rounds) = (stage.store.paths.failures(id), stage.store.paths.rounds(id));
        let count = async |dir: &str| stage.store.children(dir).await.unwrap().len();
        assert_eq!((count(&failures).await, count(&rounds).await), (4, 4));
        // Of the last round, the task itself keeps the failures.
        assert_eq!(history::pack(&stage.store, Duration::ZERO).await.unwrap(), 4);
        assert_eq!((count(&failures).await, count(&rounds).await), (1, 0));
        assert_eq!(client.failures(id, None).await.unwrap().unwrap().kept.len(), 9);
        assert_eq!(client.failures(id, Some(2)).await.unwrap().unwrap().kept.len(), 5);
        stage.until("a fifth round", async || stage.task(id).await.ended_rounds() == 5).await;

        // Page by page, each is there once, and filters leave out others.
        let pages = async |wanted: HistoryQuery| {
            let (mut wanted, mut found) = (wanted, Vec::new());
            loop {
                let (page, next) = client.history_page(&wanted, 1).await.unwrap();
                found.extend(page.iter().map(|one| one.round));
                let Some(next) = next else { return found };
                wanted.cursor = Some(next.to_string());
            }
        };
        assert_eq!(pages(HistoryQuery::default()).await, [5, 4, 3, 2, 1]);
        let text = |text: &str| Some(text.to_owned());
        let none = Vec::<u64>::new();
        assert_eq!(pages(HistoryQuery { table: text("other"), ..HistoryQuery::default() }).await, none);
        assert_eq!(pages(HistoryQuery { state: text("cancel"), ..HistoryQuery::default() }).await, none);
        assert_eq!(pages(HistoryQuery { from: text("30s"), ..HistoryQuery::default() }).await, [5]);
        assert_eq!(pages(HistoryQuery { to: text("30s"), ..HistoryQuery::default() }).await, [4, 3, 2, 1]);
        // A round that is broken off is a round too.
        stage.until("a sixth round", async || stage.task(id).await.round == 6).await;
        stage.store.stop(id).await.unwrap();
        stage.end(id).await;
        let wanted = HistoryQuery { state: text("cancel"), ..HistoryQuery::default() };
        let (broken, _) = client.history(&wanted, 9).await.unwrap();
        let told: Vec<_> = broken.iter().map(|one| (one.is_round(), one.round)).collect();
        assert_eq!(told, [(true, 6), (false, 6)]);
    });
}

#[test]
fn task_begins_when_the_round_that_it_follows_has_ended_well() {
    play(23, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        // The first run of each partition fails.
        let runners = Fixed { exit: |number| i32::from(number == 1), ..stage.runners("u1", ms(5000)) };
        let _unit = stage.unit(4, runners).await;
        let repeat = RepeatInfo { repeat_count: 2, repeat_interval: 600 };
        let first = stage.submit("u1", 1, |task| task.repeat = repeat).await;
        let submission = |after: &str| {
            let options = serde_json::json!({"db": "d", "schema": "s", "table": "later", "partitions": ["later"],
                "after": after, "queue": true});
            serde_json::from_value::<Submission>(options).unwrap()
        };
        for (wrong, why) in
            [("d.s.nothing", "d.s.nothing"), ("what", "neither"), ("aaaaffff.16176931.56000000.0", "exist")]
        {
            let refused = client.submit(&submission(wrong)).await.unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let (later, _) = client.submit(&submission("d.s.t")).await.unwrap();
        let (other, _) = client.submit(&submission(&first.to_string())).await.unwrap();
        assert_eq!(stage.task(later).await.follows, Some(first.to_string()));
        let why = client.explain(later, &crate::operations::time).await.unwrap().join("; ");
        assert!(why.contains(&format!("round 1 of task {first} has not ended")), "{why}");
        stage.until("the first round", async || stage.task(first).await.ended_rounds() == 1).await;
        sleep(ms(100_000)).await;
        let why = client.explain(later, &crate::operations::time).await.unwrap().join("; ");
        assert!(why.contains("ended with 1 failed"), "{why}");
        assert_eq!(stage.task(later).await.round, 0);
        let done = stage.end(first).await.finished;
        let began = stage.end(later).await.started;
        assert!(began >= done && began < done + 1000, "{} ms", began - done);
        // A round that has ended well lets others begin later, too.
        stage.end(other).await;
        // The one partition of `later` failed. A task that waits for its success keeps it from being packed.
        let (third, _) = client.submit(&submission(&later.to_string())).await.unwrap();
        history::pack(&stage.store, Duration::ZERO).await.unwrap();
        let is_there = async |id| stage.store.main(id).await.unwrap().is_some();
        assert!(is_there(later).await && !is_there(other).await);
        sleep(ms(100_000)).await;
        assert_eq!(stage.task(third).await.round, 0);
        stage.store.stop(third).await.unwrap();
        stage.end(third).await;
    });
}

#[test]
fn pause_of_all_tasks_holds_for_later_ones_and_over_restarts() {
    play(24, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let unit = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        let id = stage.submit("u1", 6, |_| {}).await;
        stage.until("two to run", async || stage.runs.all().len() == 2).await;
        assert!(client.pause_all().await.unwrap() && !client.pause_all().await.unwrap());
        sleep(ms(60_000)).await;
        assert_eq!(
            (stage.runs.all().len(), stage.task(id).await.result.success_count),
            (2, 2),
            "what ran has ended"
        );
        let later = TaskId::main("u1", 2_000_000);
        let names = ["d", "s", "t2"].map(str::to_owned);
        let task = MainTask {
            named: vec!["q".to_owned()],
            ..MainTask::new(later, names, "u1".into(), "default".into())
        };
        stage.store.submit(later, &task, false).await.unwrap();
        let why = client.explain(later, &crate::operations::time).await.unwrap().join("; ");
        assert!(why.contains("all tasks are paused"), "{why}");
        unit.kill();
        let _unit = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        sleep(ms(60_000)).await;
        assert_eq!(stage.runs.all().len(), 2);
        stage.store.pause(later, true).await.unwrap();
        assert!(client.resume_all().await.unwrap() && !client.resume_all().await.unwrap());
        assert_eq!(stage.end(id).await.result.success_count, 6);
        assert_eq!(stage.task(later).await.round, 0, "it was paused by itself");
        stage.store.pause(later, false).await.unwrap();
        assert_eq!(stage.end(later).await.result.success_count, 1);
    });
}

/// A task on the table `later` that follows another, waits for its turn, and has one partition.
fn following(after: TaskId) -> Submission {
    let options = serde_json::json!({"db": "d", "schema": "s", "table": "later", "partitions": ["later"],
        "after": after.to_string(), "queue": true});
    serde_json::from_value(options).unwrap()
}

#[test]
fn task_is_not_packed_while_one_that_follows_it_is_submitted_or_retried() {
    play(25, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _unit = stage.unit(4, stage.runners("u1", ms(1000))).await;
        let first = stage.submit("u1", 1, |_| {}).await;
        stage.end(first).await;
        let (_line, store) = stage.counted_store().await;
        let is_there = async |id| stage.store.main(id).await.unwrap().is_some();
        // Packs while `meanwhile` runs: after the tasks were read, and before any is packed.
        let pack = async |meanwhile: &dyn Fn() -> BoxFuture<'static, TaskId>| {
            stage.requests.slow_down("children", stage.store.paths.main(first));
            let store = store.clone();
            let packing = tokio::spawn(async move { history::pack(&store, Duration::ZERO).await.unwrap() });
            sleep(SLOW / 2).await;
            let later = meanwhile().await;
            packing.await.unwrap();
            later
        };
        let submit = || -> BoxFuture<'static, TaskId> {
            let client = client.clone();
            async move { client.submit(&following(first)).await.unwrap().0 }.boxed()
        };
        let later = pack(&submit).await;
        assert!(is_there(first).await, "the task that another follows is packed");
        assert_eq!(stage.end(later).await.state, State::Done);

        let repeat = RepeatInfo { repeat_count: 0, repeat_interval: 60 };
        let (again, _) = client.submit(&following(first)).await.unwrap();
        stage.store.set(again, |task| task.repeat = repeat).await.unwrap();
        stage.until("a round", async || stage.task(again).await.ended_rounds() == 1).await;
        stage.store.stop(again).await.unwrap();
        stage.end(again).await;
        let retry = || -> BoxFuture<'static, TaskId> {
            let client = client.clone();
            async move {
                client.retry(again).await.unwrap();
                again
            }
            .boxed()
        };
        pack(&retry).await;
        assert!(is_there(first).await && is_there(again).await);
        stage.until("another round", async || stage.task(again).await.ended_rounds() == 2).await;
        stage.store.stop(again).await.unwrap();
        stage.end(again).await;

        // A task that was packed between its choice and the submission is named in the refusal.
        history::pack(&stage.store, Duration::ZERO).await.unwrap();
        let names = ["d", "s", "t3"].map(str::to_owned);
        let id = TaskId::main("u1", 3_000_000);
        let task = MainTask {
            follows: Some(first.to_string()),
            ..MainTask::new(id, names, "u1".into(), "default".into())
        };
        let refused = stage.store.submit(id, &task, false).await.unwrap_err().to_string();
        assert!(refused.contains(&first.to_string()) && refused.contains("packed"), "{refused}");
    });
}

#[test]
fn retried_task_begins_although_the_one_that_it_followed_is_packed() {
    play(26, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _unit = stage.unit(4, stage.runners("u1", ms(20_000))).await;
        let first = stage.submit("u1", 1, |_| {}).await;
        stage.end(first).await;
        let (later, _) = client.submit(&following(first)).await.unwrap();
        stage.until("the second task to run", async || stage.runs.all().len() == 2).await;
        stage.store.stop(later).await.unwrap();
        stage.end(later).await;
        // Stopped while it ran, it has not ended well for a third one.
        let (third, _) = client.submit(&following(later)).await.unwrap();
        sleep(ms(600_000)).await;
        stage.store.stop(third).await.unwrap();
        stage.end(third).await;
        assert_eq!(history::pack(&stage.store, ms(300_000)).await.unwrap(), 2, "the first two are packed");
        let refused = client.retry(third).await.unwrap_err().to_string();
        assert!(refused.contains(&later.to_string()) && refused.contains("stopped"), "{refused}");

        let options =
            serde_json::json!({"db": "d", "schema": "s", "table": "again", "partitions": ["again"]});
        let (again, _) = client.submit(&serde_json::from_value(options).unwrap()).await.unwrap();
        stage.end(again).await;
        let (fourth, _) = client.submit(&following(again)).await.unwrap();
        stage.until("the fourth task to run", async || stage.runs.all().len() == 4).await;
        sleep(ms(15_000)).await;
        stage.store.stop(fourth).await.unwrap();
        let ended = stage.end(fourth).await;
        assert_eq!(ended.state, State::Cancel);
        assert!(history::pack(&stage.store, ms(10_000)).await.unwrap() > 0);
        assert!(stage.store.main(again).await.unwrap().is_none(), "the one that it followed is packed");
        client.retry(fourth).await.unwrap();
        let task = stage.end(fourth).await;
        assert_eq!((task.state, task.follows), (State::Done, None));
    });
}

#[test]
fn round_that_is_about_to_begin_waits_for_the_end_of_a_pause_of_all() {
    play(27, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let retry = RetryInfo { limit: 1, delay: 60, ..RetryInfo::default() };
        let runners = Fixed { exit: |number| i32::from(number == 1), ..stage.runners("u1", ms(1000)) };
        let _unit = stage.unit(4, runners).await;
        let id = TaskId::main("u1", 1_000_000);
        let dir = stage.store.paths.main(id);
        for (round, runs) in [(0, 0), (1, 1)] {
            if round > 0 {
                client.resume_all().await.unwrap();
                stage.until("the partition to fail", async || stage.task(id).await.retry.at > 0).await;
            }
            // The list of the partitions is written, and the answer takes long.
            stage.requests.slow_down("multi", format!("{dir}/TaskInfo"));
            if round == 0 {
                stage.submit("u1", 1, |task| task.retry = retry).await;
            }
            let lists = stage.store.paths.partitions(id);
            stage.until("the list", async || !stage.store.children(&lists).await.unwrap().is_empty()).await;
            client.pause_all().await.unwrap();
            sleep(ms(60_000)).await;
            let task = stage.task(id).await;
            assert_eq!((task.round, task.listing, stage.runs.all().len()), (round, None, runs));
        }
        client.resume_all().await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count, task.round), (State::Done, 1, 1));
    });
}

#[test]
fn packing_reads_few_of_the_rounds_that_are_not_old() {
    play(28, || async {
        const COUNT: u64 = 200;
        let stage = Stage::new().await;
        let unit = stage.unit(4, stage.runners("u1", ms(10))).await;
        let repeat = RepeatInfo { repeat_count: COUNT, repeat_interval: 10 };
        let id = stage.submit("u1", 1, |task| task.repeat = repeat).await;
        stage.until("most rounds", async || stage.task(id).await.ended_rounds() == COUNT - 1).await;
        stage.store.pause(id, true).await.unwrap();
        sleep(SESSION).await;
        unit.kill();
        let (_line, store) = stage.counted_store().await;
        let before = stage.requests.count();
        // The first ten are old.
        let after = ms((COUNT - 10) * 10_000);
        let count = history::pack(&store, after).await.unwrap();
        assert!((8..=12).contains(&count), "{count} are packed");
        let made = stage.requests.count() - before;
        assert!(made < 60, "{made} requests for {count} of {COUNT} rounds");
        // One of them is found by its number, in few requests.
        let client = TaskClient { store, ..stage.client() };
        let before = stage.requests.count();
        assert_eq!(client.failures(id, Some(3)).await.unwrap().unwrap().all, 0);
        let made = stage.requests.count() - before;
        assert!(made < 20, "{made} requests for the failures of a round");
        assert_eq!(client.history_of(id).await.unwrap().len() as u64, COUNT - 1);
    });
}

#[test]
fn history_reads_no_older_packs_than_are_asked_for() {
    play(29, || async {
        let stage = Stage::new().await;
        for number in 0..40 {
            let id = TaskId::main("u1", 1_000_000 + number);
            let names = ["d", "s", "t"].map(str::to_owned);
            let task = MainTask {
                state: State::Done,
                finished: clock(),
                ..MainTask::new(id, names, "u1".into(), "default".into())
            };
            stage.store.tree.multi(stage.store.creation(id, &task)).await.unwrap();
            sleep(ms(1000)).await;
            assert_eq!(history::pack(&stage.store, Duration::ZERO).await.unwrap(), 1);
        }
        let (_line, store) = stage.counted_store().await;
        let client = TaskClient { store, ..stage.client() };
        let before = stage.requests.count();
        let (newest, are_all) = client.history(&HistoryQuery::default(), 5).await.unwrap();
        let made = stage.requests.count() - before;
        assert!(newest.len() >= 5 && !are_all && made < 25, "{} in {made} requests", newest.len());
        let (all, are_all) = client.history(&HistoryQuery::default(), 100).await.unwrap();
        assert_eq!((all.len(), are_all), (40, true));
        assert_eq!(all.last().unwrap().finished, newest.last().unwrap().finished);
    });
}

#[test]
fn round_whose_listing_failed_for_long_is_late_and_has_not_ended() {
    play(30, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let repeat = RepeatInfo { repeat_count: 2, repeat_interval: 1800 };
        let id = stage.submit("u1", 1, |task| task.repeat = repeat).await;
        stage.until("the first round", async || stage.task(id).await.ended_rounds() == 1).await;
        stage.store.set(id, |task| task.named.clear()).await.unwrap();
        let due = stage.task(id).await.next_at;
        stage.until("listings to fail", async || stage.task(id).await.list_failed == 13).await;
        // A task that follows waits for the round whose partitions are being listed.
        let (later, _) = client.submit(&following(id)).await.unwrap();
        let why = client.explain(later, &crate::operations::time).await.unwrap().join("; ");
        assert!(why.contains(&format!("round 2 of task {id} has not ended")), "{why}");
        let why = client.explain(id, &crate::operations::time).await.unwrap().join("; ");
        assert!(why.contains("round 2 lists its partitions again at"), "{why}");
        stage.store.set(id, |task| task.named = vec!["p".into()]).await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.round), (State::Done, 2));
        stage.end(later).await;
        let late = task.round_started - due;
        assert!(late > 400_000, "{late}");
        let told = stage.told.lock().unwrap().clone();
        let of_late = told.iter().find(|one| one["event"] == "round-late").expect("people hear of it");
        assert_eq!(of_late["task"], id.to_string());
        assert!(of_late["late_ms"].as_u64().unwrap().abs_diff(late) < 1000, "{of_late}");
    });
}

#[test]
fn task_follows_a_table_whose_last_task_is_packed() {
    play(31, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        // The second run of each partition fails.
        let runners = Fixed { exit: |number| i32::from(number == 2), ..stage.runners("u1", ms(1000)) };
        let _unit = stage.unit(4, runners).await;
        let submit = async |table: &str, after: Option<&str>| {
            let options = serde_json::json!({"db": "d", "schema": "s", "table": table, "partitions": [table],
                "after": after});
            client.submit(&serde_json::from_value(options).unwrap()).await
        };
        let pack = async || history::pack(&stage.store, Duration::ZERO).await.unwrap();
        let (first, _) = submit("orders", None).await.unwrap();
        stage.end(first).await;
        assert_eq!(pack().await, 1);
        for (number, after) in ["d.s.orders".to_owned(), first.to_string()].iter().enumerate() {
            let (later, _) = submit(&format!("later{number}"), Some(after)).await.unwrap();
            let task = stage.end(later).await;
            assert_eq!((task.follows, task.result.success_count), (None, 1));
        }
        sleep(ms(10)).await;
        let (second, _) = submit("orders", None).await.unwrap();
        assert_eq!(stage.end(second).await.result.failed_count, 1);
        assert_eq!(pack().await, 3);
        for after in ["d.s.orders".to_owned(), second.to_string()] {
            let refused = submit("last", Some(&after)).await.unwrap_err().to_string();
            let expected = format!("round 1 of task {second} ended with 1 failed");
            assert!(refused.contains(&expected) && refused.contains("packed"), "{refused}");
        }
    });
}

#[test]
fn nothing_begins_after_a_pause_of_all_though_its_watch_is_late() {
    play(32, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _unit = stage.unit(1, stage.runners("u1", ms(300))).await;
        let id = stage.submit("u1", 20, |_| {}).await;
        stage.until("three to run", async || stage.runs.all().len() == 3).await;
        stage.requests.slow_down("watch children of", stage.store.paths.paused());
        client.pause_all().await.unwrap();
        // The runner of a subtask that began before is started a few requests later.
        sleep(ms(50)).await;
        let before = stage.runs.all().len();
        sleep(SLOW * 9 / 10).await;
        assert_eq!(stage.runs.all().len(), before);
        sleep(ms(60_000)).await;
        assert_eq!(stage.runs.all().len(), before);
        client.resume_all().await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 20), "{task:?}");
        assert_eq!(stage.runs.all().len(), 20);
    });
}
