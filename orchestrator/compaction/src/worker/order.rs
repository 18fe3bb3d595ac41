//! The worker's orders to a runner (command, environment, input), and the outcome that follows from the runner's end.

use std::time::Duration;

use tokio::time::Instant;

use crate::node_context::NodeContext;
use crate::supervisor::{EndCause, Report, Spec};
use crate::task::{Ended, MainTask, SubState, SubTask};
use crate::task_store::Found;
use allot_runtime::time::MonotonicTime;

/// The time limit of the runners of this task.
pub(super) fn timeout(node_context: &NodeContext, task: &MainTask) -> Duration {
    if task.timeout > 0 { Duration::from_secs(task.timeout) } else { node_context.config.timeout }
}

/// The specification of a run for this subtask, with this time limit. Without heartbeats the runner may run until
/// `until`.
pub(super) fn spec(
    node_context: &NodeContext,
    sub: &Found<SubTask>,
    fence: i64,
    until: Instant,
    timeout: Duration,
) -> Spec {
    let (task, config) = (&sub.task, &node_context.config);
    let [db, schema, table] = task.table();
    let main = sub.id.of_main().to_string();
    let (round, attempt, fence) = (task.round.to_string(), task.attempt.to_string(), fence.to_string());
    let pairs = [
        ("ALLOT_TASK", main.as_str()),
        ("ALLOT_SUBTASK", &task.id),
        ("ALLOT_DB", db),
        ("ALLOT_SCHEMA", schema),
        ("ALLOT_TABLE", table),
        ("ALLOT_PARTITION", &task.partition_name),
        ("ALLOT_ROUND", &round),
        ("ALLOT_ATTEMPT", &attempt),
        ("ALLOT_FENCE", &fence),
        ("ALLOT_NODE", &node_context.name),
    ];
    let input = serde_json::json!({
        "task": main, "subtask": task.id, "db": db, "schema": schema, "table": table,
        "partition": task.partition_name, "round": task.round, "attempt": task.attempt,
        "fence": fence, "node": node_context.name,
    });
    Spec {
        program: config.runner.clone(),
        environment: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        input: format!("{input}\n"),
        timeout: timeout.as_millis() as u64,
        stop_limit: config.stop_limit.as_millis() as u64,
        trust: MonotonicTime::from_instant(until),
        log: config.output_dir().join(format!("{}.log", sub.id)).to_str().map(str::to_owned),
    }
}

/// Whether a runner ended as shells end that cannot execute a program.
pub(super) fn is_refusal(report: &Report) -> bool {
    report.why == EndCause::Itself && matches!(report.exit, Some(126 | 127))
}

/// The reason of such an end, for people: the exit code, and the last line of the output.
pub(super) fn refusal(report: &Report) -> String {
    let code = report.exit.unwrap_or_default();
    let last = report.output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    format!("exit code {code}: {last}")
}

/// The outcome of a subtask after its runner's end. `limit` is the runner's time limit.
pub(super) fn ended(task: &SubTask, report: Report, limit: Duration) -> Ended {
    let (state, message) = match (report.why, report.exit) {
        (EndCause::Itself, Some(0)) => (SubState::Success, String::new()),
        (EndCause::Itself, Some(code)) => (SubState::Failed, format!("exit code {code}")),
        (EndCause::Stopped, _) => (SubState::Stopped, "its task was stopped".to_owned()),
        (EndCause::Timeout, _) => {
            (SubState::Failed, format!("not done within {}", humantime::format_duration(limit)))
        }
        (_, _) => {
            let signal = report.signal.as_deref().unwrap_or("a signal");
            (SubState::Failed, format!("it was ended by {signal}"))
        }
    };
    let result = if state == SubState::Success { report.result } else { None };
    Ended { exit: report.exit, output: report.output, result, ..task.ended(state, &message) }
}
