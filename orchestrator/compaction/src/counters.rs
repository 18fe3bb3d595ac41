//! The metrics of compaction that more than one module changes.

use crate::task::{MainTask, ResultInfo, State};

/// Counts what a change of a task in the tree says: outcomes of subtasks, partitions that run again, and the end of the
/// task. The change was written by this process, so each is counted by one unit.
pub(crate) fn note_change(before: &MainTask, after: &MainTask) {
    let counts = |result: &ResultInfo| {
        [
            ("success", result.success_count),
            ("failed", result.failed_count),
            ("stopped", result.stopped_count),
        ]
    };
    for ((outcome, now), (_, then)) in counts(&after.result).into_iter().zip(counts(&before.result)) {
        // A new round, or a repetition of failed partitions, counts from the start.
        let more = now.saturating_sub(then);
        if more > 0 {
            metrics::counter!("allot_compaction_subtasks_total", "outcome" => outcome).increment(more);
        }
    }
    for (name, counter) in [
        ("before", metrics::counter!("allot_compaction_bytes_before_total")),
        ("after", metrics::counter!("allot_compaction_bytes_after_total")),
    ] {
        let sum = |task: &MainTask| task.sums.get(name).copied().unwrap_or_default();
        let more = sum(after) - sum(before);
        if more >= 1.0 {
            counter.increment(more as u64);
        }
    }
    if before.retry.at > 0 && after.retry.at == 0 && after.listing.is_some() {
        note_retries("failed", after.count());
    }
    if after.state.is_over() && !before.state.is_over() {
        let state = if after.state == State::Done { "done" } else { "cancelled" };
        metrics::counter!("allot_compaction_tasks_ended_total", "state" => state).increment(1);
    }
}

/// Counts subtasks that start again: because their partition `failed`, or because their worker was `lost`.
pub(crate) fn note_retries(reason: &'static str, count: u64) {
    metrics::counter!("allot_compaction_retried_total", "reason" => reason).increment(count);
}

/// A task in the number of tasks by state that this unit manages.
#[derive(Default)]
pub(crate) struct CountedTask(Option<&'static str>);

impl CountedTask {
    /// Counts the task in its present state.
    pub(crate) fn update(&mut self, task: &MainTask) {
        let state = match task.state {
            State::Done | State::Cancel => None,
            _ if task.cancelling => Some("stopping"),
            _ if task.paused => Some("paused"),
            State::Init => Some("waiting"),
            State::Assigned => Some("assigned"),
        };
        self.replace(state);
    }

    fn replace(&mut self, state: Option<&'static str>) {
        if self.0 == state {
            return;
        }
        let gauge = |state: &'static str| metrics::gauge!("allot_compaction_tasks", "state" => state);
        if let Some(before) = self.0 {
            gauge(before).decrement(1);
        }
        if let Some(now) = state {
            gauge(now).increment(1);
        }
        self.0 = state;
    }
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        self.replace(None);
    }
}
