//! Scenarios of ZooKeeper that is away while runners end and units restart or leave.

use super::*;

#[test]
fn unit_that_is_restarted_in_an_outage_uses_up_no_retry() {
    play(60, || async {
        let stage = Stage::new().await;
        let runners = stage.runners("u1", ms(25_000));
        let unit = stage.unit(2, runners.clone()).await;
        let id = stage.submit("u1", 2, |task| task.retries = 0).await;
        stage.until("both to run", async || stage.runs.all().len() == 2).await;
        sleep(ms(2000)).await;
        stage.tree.freeze();
        sleep(SESSION * 2).await;
        unit.kill();
        stage.tree.thaw();
        let _unit = stage.unit(2, runners.clone()).await;
        let task = stage.end(id).await;
        assert_eq!((task.result.success_count, task.result.failed_count), (2, 0), "{task:?}");
        assert_eq!(stage.runs.all().len(), 4);
        assert!(runners.disk.lock().unwrap().is_empty());
    });
}

#[test]
fn runner_that_ends_at_any_moment_of_an_outage_uses_up_no_retry() {
    for takes in (1000..4000).step_by(60) {
        play(61, || async {
            let stage = Stage::new().await;
            let _unit = stage.unit(1, stage.runners("u1", ms(takes))).await;
            let id = stage.submit("u1", 1, |task| task.retries = 0).await;
            stage.until("the runner to run", async || stage.runs.all().len() == 1).await;
            sleep(ms(500)).await;
            stage.tree.freeze();
            sleep(SESSION * 2).await;
            stage.tree.thaw();
            let task = stage.end(id).await;
            assert_eq!(task.result.success_count, 1, "{takes} ms: {task:?}");
        });
    }
}

#[test]
fn result_does_not_count_if_somebody_else_has_begun_the_subtask() {
    play(62, || async {
        let stage = Stage::new().await;
        let runners = stage.runners("u1", ms(1000));
        let unit = stage.unit(1, runners.clone()).await;
        let id = stage.submit("u1", 1, |task| task.retries = 5).await;
        stage.until("the runner to run", async || stage.runs.all().len() == 1).await;
        sleep(ms(200)).await;
        stage.tree.freeze();
        sleep(SESSION).await;
        unit.kill();
        stage.tree.thaw();
        // Another unit begins it, and leaves in an orderly way.
        let second = stage.unit(1, stage.runners("u2", ms(100_000))).await;
        stage.until("the second run", async || stage.runs.all().len() == 2).await;
        second.ask.send_replace(true);
        stage.until("the unit to leave", async || second.process.is_finished()).await;
        second.line.expire_all();
        // It waits at a third one when the first one comes back.
        stage.store.pause(id, true).await.unwrap();
        let _third = stage.unit(1, stage.runners("u3", ms(1000))).await;
        let at_third = async || !stage.store.at("u3", Some(id)).await.unwrap().is_empty();
        stage.until("the subtask to be reassigned", at_third).await;
        let _again = stage.unit(1, runners.clone()).await;
        stage.until("the result to be forgotten", async || runners.disk.lock().unwrap().is_empty()).await;
        sleep(ms(20_000)).await;
        assert_eq!(stage.task(id).await.result.all(), 0);
        stage.store.pause(id, false).await.unwrap();
        assert_eq!(stage.end(id).await.result.success_count, 1);
        assert_eq!(stage.runs.all().len(), 3);
    });
}

#[test]
fn unit_leaves_while_zookeeper_is_away() {
    let begun: [Duration; 3] = [ms(500), SESSION / 2, SESSION * 4];
    for (takes, asked_after) in begun.into_iter().flat_map(|after| [(100_000, after), (1500, after)]) {
        play(63, || async {
            let stage = Stage::new().await;
            let runners = stage.runners("u1", ms(takes));
            let unit = stage.unit(1, runners.clone()).await;
            let id = stage.submit("u1", 1, |task| task.retries = 0).await;
            stage.until("the runner to run", async || stage.runs.all().len() == 1).await;
            sleep(ms(300)).await;
            stage.tree.freeze();
            sleep(asked_after).await;
            unit.ask.send_replace(true);
            let asked = Instant::now();
            stage.until("the unit to leave", async || unit.process.is_finished()).await;
            // A process that takes longer than 20 s is ended.
            assert!(asked.elapsed() < ms(10_000), "{takes} ms, {asked_after:?}: {:?}", asked.elapsed());
            unit.line.expire_all();
            stage.tree.thaw();
            // What it has kept is written by its next process.
            let _unit = stage.unit(1, Fixed { takes: ms(1000), ..runners }).await;
            let task = stage.end(id).await;
            assert_eq!(task.result.success_count, 1, "{takes} ms, {asked_after:?}: {task:?}");
        });
    }
}
