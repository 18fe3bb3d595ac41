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
        let why = client.explain(later).await.unwrap().join("; ");
        assert!(why.contains(&format!("round 1 of task {first} has not ended")), "{why}");
        stage.until("the first round", async || stage.task(first).await.ended_rounds() == 1).await;
        sleep(ms(100_000)).await;
        let why = client.explain(later).await.unwrap().join("; ");
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
        let why = client.explain(later).await.unwrap().join("; ");
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
