//! Tests of the JSON form of tasks, and of the counting of rounds.

use serde_json::Value;

use super::*;

pub(crate) fn task(repeat: u64) -> MainTask {
    let id = "aaaaffff.16176931.56000000.0".parse().unwrap();
    let repeat = RepeatInfo { repeat_count: repeat, repeat_interval: 60 };
    MainTask { repeat, ..MainTask::new(id, ["db", "s", "t"].map(str::to_owned), "a_1".into(), "pc1".into()) }
}

fn listing(count: u64) -> ChunkedList {
    ChunkedList { tag: "x".into(), chunks: 1, count }
}

#[test]
fn json_has_the_documented_field_names() {
    let value: Value = serde_json::from_slice(&write(&task(3))).unwrap();
    for name in [
        "CompactTaskId",
        "CompactTaskState",
        "RepeatInfo",
        "ResultInfo",
        "db_name",
        "schema_name",
        "table_name",
        "manager",
        "pc",
        "retries",
        "round",
        "next_at",
        "cursor",
        "totals",
        "created",
        "started",
        "finished",
        "cancelling",
        "error",
    ] {
        assert!(value.get(name).is_some(), "{name}");
    }
    assert_eq!(value["RepeatInfo"]["repeatCount"], 3);
    assert_eq!(value["ResultInfo"]["failedCount"], 0);
}

#[test]
fn task_stays_readable_with_any_results_of_runners() {
    let mut task = task(1);
    let id: TaskId = task.id.parse().unwrap();
    let sub = task.subtask(id, "p", "w_1");
    for value in [1.0, 1e308, 1e308, 2.0] {
        let result = serde_json::json!({"freed": value}).as_object().cloned();
        task.count_outcome(id, &Ended { result, ..sub.ended(SubState::Success, "") });
    }
    // Values that cannot be added are left out.
    assert_eq!(task.sums["freed"].to_string(), 1e308_f64.to_string());
    let read: MainTask = read("x", &write(&task)).unwrap();
    assert_eq!(read, task);
}

#[test]
fn rounds_are_counted_up_to_the_last() {
    let mut task = task(2);
    let id: TaskId = task.id.parse().unwrap();
    for round in 1..=2 {
        task.open_round(listing(3), 0, 5);
        assert_eq!((task.round, task.first, task.outstanding()), (round, (round - 1) * 3, 0));
        task.cursor = 3;
        let sub = task.subtask(id.subtask(1), "p", "w");
        let mut well = sub.ended(SubState::Success, "");
        well.result = serde_json::from_str(r#"{"before": 10, "after": 4, "name": "x"}"#).unwrap();
        task.count_outcome(id.subtask(1), &well);
        task.count_outcome(id.subtask(2), &sub.ended(SubState::Failed, "exit code 3"));
        assert_eq!(task.outstanding(), 1);
        task.count_outcome(id.subtask(3), &well);
        assert_eq!(task.outstanding(), 0);
        task.close_round(1000, 0.5);
        assert_eq!(task.state.is_over(), round == 2);
    }
    assert_eq!(task.grand_total(), ResultInfo { success_count: 4, failed_count: 2, stopped_count: 0 });
    assert_eq!((task.sums.get("before"), task.sums.get("after")), (Some(&40.0), Some(&16.0)));
    assert_eq!(task.failures.len(), 1, "those of the last round");
    assert_eq!(task.finished, 1000);
}

#[test]
fn round_of_a_schedule_begins_at_its_next_time() {
    let schedule = "0 2 * * * UTC".parse().unwrap();
    let mut task = MainTask { schedule: Some(schedule), ..task(0) };
    task.open_round(listing(0), 0, 1);
    // The round took longer than a day, so that two times passed.
    task.close_round(50 * 3_600_000, 0.5);
    assert_eq!((task.state, task.next_at), (State::Init, 74 * 3_600_000));
    assert_eq!(read::<MainTask>("x", &write(&task)).unwrap(), task);
}

#[test]
fn only_a_started_subtask_uses_up_a_retry() {
    let task = task(1);
    let mut sub = task.subtask(task.id.parse().unwrap(), "p", "a");
    for _ in 0..3 {
        sub = sub.again("b", true).unwrap();
    }
    assert_eq!(sub.attempt, 0);
    sub.state = SubState::Running;
    let mut again = sub.again("c", true).unwrap();
    assert_eq!((again.attempt, again.worker.as_str(), again.state), (1, "c", SubState::Init));
    again.state = SubState::Running;
    assert_eq!(again.again("d", true), None);
    assert_eq!(again.again("d", false).unwrap().attempt, 1);
}

#[test]
fn failed_partitions_run_again_after_doubled_delays() {
    let mut task = MainTask { retry: RetryInfo { limit: 2, delay: 10, ..RetryInfo::default() }, ..task(1) };
    let id: TaskId = task.id.parse().unwrap();
    let sub = task.subtask(id, "p", "w_1");
    task.open_round(listing(3), 0, 1);
    task.cursor = 3;
    for (number, state) in [SubState::Success, SubState::Failed, SubState::Failed].into_iter().enumerate() {
        let failure = task.count_outcome(id.subtask(number as u64 + 1), &sub.ended(state, "why"));
        assert_eq!(failure.is_some(), state == SubState::Failed);
    }
    // A quarter less, and a quarter more.
    for (jitter, delay) in [(0.0, 7_500), (1.0, 25_000)] {
        task.close_round(1000, jitter);
        assert_eq!((task.state.is_over(), task.retry.at, task.outstanding()), (false, 1000 + delay, 0));
        assert_eq!((task.round_size(), task.result.failed_count), (3, 2));
        task.open_retry(listing(2));
        assert_eq!((task.count(), task.round_size(), task.outstanding()), (2, 3, 0));
        task.cursor = 2;
        assert_eq!((task.outstanding(), task.result.failed_count), (2, 0));
        for _ in 0..2 {
            task.count_outcome(id.subtask(9), &sub.ended(SubState::Failed, "why"));
        }
    }
    task.close_round(1000, 0.5);
    assert_eq!((task.state, task.retry.at, task.first), (State::Done, 0, 7));
    // By hand they run again as often as before.
    task.reopen("b_1", 2000);
    assert_eq!((task.state, task.manager.as_str(), task.retry.at), (State::Init, "b_1", 2000));
    task.open_retry(listing(2));
    task.cursor = 2;
    task.count_outcome(id.subtask(10), &sub.ended(SubState::Success, ""));
    task.count_outcome(id.subtask(11), &sub.ended(SubState::Failed, "why"));
    task.close_round(3000, 0.5);
    assert_eq!((task.state, task.retry.at, task.result.success_count), (State::Init, 13_000, 2));
}
