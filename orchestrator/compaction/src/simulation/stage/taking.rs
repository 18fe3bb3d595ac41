//! Scenarios of work that moves between units: what idle units take, and what they leave to others.

use super::*;

/// Fails at the first run of each partition.
fn once(number: usize) -> i32 {
    i32::from(number == 1)
}

/// Failed partitions run again once, after a few seconds.
fn again(task: &mut MainTask) {
    task.retry = RetryInfo { limit: 1, delay: 5, ..RetryInfo::default() };
}

#[test]
fn unit_where_partitions_failed_runs_them_if_no_other_can() {
    play(40, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _first = stage.unit(2, Fixed { exit: once, ..stage.runners("u1", ms(100)) }).await;
        let id = stage.submit("u1", 6, again).await;
        stage.until("the round to fail", async || stage.task(id).await.retry.at > 0).await;
        let _second = stage.unit(1, stage.runners("u2", ms(20_000))).await;
        let _third =
            stage.unit(1, Fixed { problem: Some("no such file"), ..stage.runners("u3", ms(10)) }).await;
        stage.until("a partition to run again", async || stage.runs.by_unit().get("u2") == Some(&1)).await;
        // While the second one takes work, the first one leaves all to it.
        sleep(ms(10_000)).await;
        assert_eq!(stage.runs.by_unit()["u1"], 6);
        client.drain("u2", None).await.unwrap();
        let drained = Instant::now();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 6), "{task:?}");
        assert_eq!(stage.runs.by_unit(), BTreeMap::from([("u1".into(), 11), ("u2".into(), 1)]));
        assert!(drained.elapsed() < ms(60_000), "{:?}", drained.elapsed());
    });
}

#[test]
fn unit_whose_runner_does_not_exist_swallows_no_work() {
    play(41, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _first = stage.unit(2, Fixed { exit: once, ..stage.runners("u1", ms(10_000)) }).await;
        let id = stage.submit("u1", 6, again).await;
        stage.until("the round to fail", async || stage.task(id).await.retry.at > 0).await;
        let problem = Some("cannot start /nosuch: no such file");
        let broken = stage.unit(1, Fixed { problem, ..stage.runners("u2", ms(10)) }).await;
        stage.until("two to run again", async || stage.runs.by_unit()["u1"] == 8).await;
        let why = client.explain(id, &crate::operations::time).await.unwrap().join("; ");
        let expected =
            "u2, 1 slots: 0 running, 4 waiting; it cannot run runners, as its /readyz says, and others take";
        assert!(why.contains(expected), "{why}");
        assert!(broken.health.problems().concat().contains("/nosuch"), "{:?}", broken.health.problems());
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 6), "{task:?}");
        assert_eq!(stage.runs.by_unit(), BTreeMap::from([("u1".into(), 12)]));
        // A unit that is idle looks seldom at one that has nothing.
        sleep(ms(60_000)).await;
        let before = stage.requests.count();
        sleep(ms(600_000)).await;
        let made = stage.requests.count() - before;
        // Two units send 8 probes in each session.
        let probes = 2 * 8 * 150;
        assert!(made < probes + 1000, "{made} requests in ten minutes");
    });
}

#[test]
fn task_at_its_limit_hides_no_other_from_a_unit_that_joins() {
    play(42, || async {
        let stage = Stage::new().await;
        let _first = stage.unit(2, stage.runners("u1", ms(60_000))).await;
        let limited = stage.submit("u1", 60, |task| task.limit = 1).await;
        stage.until("one to run", async || stage.runs.all().len() == 1).await;
        let other = stage.submit_other("u1", 20).await;
        stage.until("two to run", async || stage.runs.all().len() == 2).await;
        let _second = stage.unit(2, stage.runners("u2", ms(1000))).await;
        let (before, began) = (stage.requests.count(), Instant::now());
        stage.until("the others to run", async || stage.runs.by_unit().get("u2") == Some(&19)).await;
        let made = stage.requests.count() - before;
        assert!(began.elapsed() < ms(40_000), "{:?}", began.elapsed());
        assert!(made < 2000, "{made} requests");
        let of_other = stage.runs.all().iter().filter(|ran| ran.partition.starts_with('q')).count();
        assert_eq!(of_other, 20);
        stage.end(other).await;
        stage.store.stop(limited).await.unwrap();
    });
}

#[test]
fn partitions_that_failed_here_hide_no_others() {
    play(43, || async {
        let stage = Stage::new().await;
        let first = stage.unit(2, Fixed { exit: |_| 1, ..stage.runners("u1", ms(100)) }).await;
        let failed = stage.submit("u1", 60, again).await;
        stage.until("the round to fail", async || stage.task(failed).await.retry.at > 0).await;
        first.kill();
        let _first = stage.unit(2, stage.runners("u1", ms(100))).await;
        let _second = stage.unit(2, stage.runners("u2", ms(20_000))).await;
        stage.until("two to run again", async || stage.runs.by_unit().get("u2") == Some(&2)).await;
        let (before, began) = (stage.requests.count(), Instant::now());
        let other = stage.submit_other("u1", 30).await;
        stage.end(other).await;
        let made = stage.requests.count() - before;
        println!("{:?}, after {:?} and {made} requests", stage.runs.by_unit(), began.elapsed());
        assert!(began.elapsed() < ms(40_000), "{:?}", began.elapsed());
        assert!(made < 2500, "{made} requests");
        let runs = stage.runs.all();
        let at_first = runs.iter().filter(|ran| ran.unit == "u1" && ran.partition.starts_with('p')).count();
        assert_eq!(at_first, 60, "none runs again where it has failed");
        stage.store.stop(failed).await.unwrap();
    });
}

#[test]
fn start_that_is_refused_goes_on_to_a_unit_where_the_partition_has_not_failed() {
    for seed in 44..49 {
        play(seed, || async {
            let stage = Stage::new().await;
            let _first = stage.unit(4, Fixed { exit: |_| 1, ..stage.runners("u1", ms(50)) }).await;
            let id = stage.submit("u1", 8, again).await;
            stage.until("the round to fail", async || stage.task(id).await.retry.at > 0).await;
            let _second = stage.unit(4, Fixed { exit: |_| 127, ..stage.runners("u2", ms(50)) }).await;
            let _third = stage.unit(1, stage.runners("u3", ms(500))).await;
            let task = stage.end(id).await;
            assert_eq!((task.result.success_count, task.result.failed_count), (8, 0), "{task:?}");
            assert_eq!(stage.runs.by_unit()["u1"], 8);
        });
    }
}

#[test]
fn retries_of_a_lost_unit_go_where_the_partitions_have_not_failed() {
    play(49, || async {
        let stage = Stage::new().await;
        let _first = stage.unit(8, Fixed { exit: |_| 1, ..stage.runners("u1", ms(50)) }).await;
        let id = stage.submit("u1", 8, again).await;
        stage.until("the round to fail", async || stage.task(id).await.retry.at > 0).await;
        let second = stage.unit(8, stage.runners("u2", ms(100_000))).await;
        stage.until("all to run again", async || stage.runs.by_unit().get("u2") == Some(&8)).await;
        let _third = stage.unit(8, stage.runners("u3", ms(500))).await;
        second.kill();
        let task = stage.end(id).await;
        assert_eq!((task.result.success_count, task.result.failed_count), (8, 0), "{task:?}");
        let expected = ["u1", "u2", "u3"].map(|unit| (unit.to_owned(), 8));
        assert_eq!(stage.runs.by_unit(), BTreeMap::from(expected));
    });
}

#[test]
fn broken_unit_tries_one_start_after_each_pause() {
    play(50, || async {
        let stage = Stage::new().await;
        let _broken = stage.unit(8, Fixed { exit: |_| 127, ..stage.runners("u1", ms(10)) }).await;
        let _well = stage.unit(2, stage.runners("u2", ms(5000))).await;
        let id = stage.submit("u1", 40, |task| task.retries = 0).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 40), "{task:?}");
        let runs = stage.runs.all();
        let starts: Vec<Instant> = runs.iter().filter(|ran| ran.unit == "u1").map(|ran| ran.began).collect();
        // Before the first fault, it knows of none.
        let first = starts.iter().take_while(|start| **start < starts[0] + ms(1000)).count();
        assert!(first <= 8 && starts.len() >= first + 2, "{starts:?}");
        let gaps: Vec<Duration> = starts[first - 1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap >= ms(5000)), "{gaps:?}");
    });
}

#[test]
fn unit_that_was_broken_fills_its_slots_while_its_first_runner_still_runs() {
    play(51, || async {
        let stage = Stage::new().await;
        let exit = |number| if number == 1 { 127 } else { 0 };
        let _unit = stage.unit(4, Fixed { exit, ..stage.runners("u1", ms(20_000)) }).await;
        let id = stage.submit("u1", 4, |_| {}).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 4), "{task:?}");
        let starts: Vec<Instant> = stage.runs.all().iter().skip(4).map(|ran| ran.began).collect();
        let gaps: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.len() == 3 && gaps.iter().all(|gap| (ms(4900)..ms(8000)).contains(gap)), "{gaps:?}");
    });
}

/// The length of a partition, from 0.05 to 2.05, which looks random.
fn length(partition: &str) -> f64 {
    let number: u64 = partition.trim_start_matches('p').parse().unwrap();
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    0.05 + (mixed % 1000) as f64 / 500.0
}

/// The time that a round of these partitions takes, relative to the shortest time in which the units can do so much work.
async fn ratio(units: &[(u32, u64)], count: usize, one_leaves: bool) -> f64 {
    let stage = Stage::new().await;
    let mut running = Vec::new();
    let start = async |name: &str, &(slots, takes): &(u32, u64)| {
        stage.unit(slots, Fixed { length, ..stage.runners(name, ms(takes)) }).await
    };
    for (number, unit) in units.iter().enumerate() {
        running.push(start(&format!("u{number}"), unit).await);
    }
    let id = stage.submit("u0", count, |_| {}).await;
    let all: f64 = (0..count).map(|number| length(&format!("p{number:05}"))).sum();
    let rate = |&(slots, takes): &(u32, u64)| f64::from(slots) / takes as f64;
    let rates: f64 = units.iter().map(rate).sum();
    let mut shortest = all / rates;
    if one_leaves {
        // The last unit leaves after a third of the time, and another of its kind comes after two thirds.
        let last = units.last().unwrap();
        sleep(ms((shortest / 3.0) as u64)).await;
        running.pop().unwrap().ask.send_replace(true);
        sleep(ms((shortest / 3.0) as u64)).await;
        running.push(start("other", last).await);
        shortest = (all + rate(last) * shortest / 3.0) / rates;
    }
    let task = stage.end(id).await;
    assert_eq!(task.result.success_count as usize, count);
    stage.makespan().as_millis() as f64 / shortest
}

#[test]
fn thousand_partitions_of_random_lengths_take_little_longer_than_needed() {
    let mut worst: f64 = 0.0;
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(2..6);
        let units: Vec<(u32, u64)> =
            (0..count).map(|_| (random.random_range(1..=3), random.random_range(300..6000))).collect();
        for one_leaves in [false, true] {
            play(seed, || async {
                let ratio = ratio(&units, 1000, one_leaves).await;
                println!("{units:?}, one leaves: {one_leaves}: {ratio:.3}");
                worst = worst.max(ratio);
            });
        }
    }
    assert!(worst < 1.2, "{worst}");
}
