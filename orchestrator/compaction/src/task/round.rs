//! The rounds of a main task: counts outcomes, ends rounds, and runs failed partitions again.

use std::collections::BTreeMap;

use super::{ChunkedList, Ended, EntryKind, Failure, MainTask, ResultInfo, RetryInfo, State, SubState};
use crate::ids::TaskId;

/// Most names of results that a task sums up.
const SUMS: usize = 64;
/// Most bytes of such a name.
const SUM_NAME: usize = 64;
/// Most failures that a task itself keeps for people; the latest ones.
const FAILURES: usize = 5;
/// The longest delay before failed partitions run again, in milliseconds: one week.
const LONGEST_DELAY: u64 = 7 * 24 * 3600 * 1000;
/// The longest delay before partitions are listed again, in milliseconds.
const LONGEST_LISTING_DELAY: u64 = 60 * 1000;

impl MainTask {
    /// Counts the outcome of a subtask, and adds its results to the sums. Returns the failure that the log must keep, if
    /// the subtask failed.
    pub fn count_outcome(&mut self, id: TaskId, outcome: &Ended) -> Option<Failure> {
        self.result.count(outcome.state);
        for (name, value) in outcome.result.iter().flatten() {
            let is_new = !self.sums.contains_key(name);
            // A task is one node, so the number and length of result names are limited.
            if name.len() > SUM_NAME || is_new && self.sums.len() >= SUMS {
                continue;
            }
            let sum = value.as_f64().map(|value| value + self.sums.get(name).copied().unwrap_or_default());
            // JSON cannot express infinity: a task with such a sum could no longer be read.
            if let Some(sum) = sum.filter(|sum| sum.is_finite()) {
                self.sums.insert(name.clone(), sum);
            }
        }
        if outcome.state != SubState::Failed {
            return None;
        }
        let failure = Failure {
            id: id.to_string(),
            partition: outcome.partition.clone(),
            worker: outcome.worker.clone(),
            message: outcome.message.clone(),
            output: outcome.output.clone(),
        };
        if self.failures.len() >= FAILURES {
            self.failures.remove(0);
        }
        self.failures.push(failure.clone());
        Some(failure)
    }

    /// Ends the current round: sets the time at which its failed partitions run again, or the time of the next round, or
    /// ends the task. `now` is in milliseconds since 1970; `random`, from 0 to 1, is the jitter of the delay.
    pub fn close_round(&mut self, now: u64, random: f64) {
        self.first = self.first.saturating_add(self.count());
        self.listing = None;
        if self.result.failed_count > 0 && self.retry.done < self.retry.limit {
            self.retry.at = now.saturating_add(self.retry.next_delay(random));
            self.retry.done += 1;
            return;
        }
        self.schedule_or_end(now, State::Done);
    }

    /// Sets the time of the next round, or ends the task in this state.
    fn schedule_or_end(&mut self, now: u64, end: State) {
        let last = self.repeat.repeat_count > 0 && self.round >= self.repeat.repeat_count;
        if let Some(at) = self.next_round(now).filter(|_| !last) {
            self.next_at = at;
        } else {
            self.state = end;
            self.finished = now;
        }
    }

    /// The partitions of the next round could not be listed. Sets the time at which they are listed again. After as many
    /// times as the task allows, the round has failed, and the next one follows at its time; a task that runs once is
    /// cancelled. `now` is in milliseconds since 1970.
    pub fn listing_failed(&mut self, why: &str, now: u64) {
        why.clone_into(&mut self.error);
        if self.list_failed < self.list_retries {
            let delay = (1000 << self.list_failed.min(20)).min(LONGEST_LISTING_DELAY);
            self.list_at = now.saturating_add(delay);
            self.list_failed += 1;
            return;
        }
        self.begin_round(now);
        self.failed_rounds += 1;
        let end = if self.repeats() { State::Done } else { State::Cancel };
        self.schedule_or_end(now, end);
    }

    /// The time of the round that follows a round that ends at `now`; both in milliseconds since 1970. `None` if the
    /// schedule has no further time.
    fn next_round(&self, now: u64) -> Option<u64> {
        match &self.schedule {
            Some(schedule) => schedule.next(now),
            None => Some(now.saturating_add(self.repeat.repeat_interval.saturating_mul(1000))),
        }
    }

    /// Starts the next round with these partitions. `succeeded` others of the table need not run: the first generation has
    /// compacted them. `now` is in milliseconds since 1970.
    pub fn open_round(&mut self, listing: ChunkedList, succeeded: u64, now: u64) {
        self.begin_round(now);
        self.result.success_count = succeeded;
        self.retry.counted = succeeded;
        self.succeeded_before = 0;
        self.open(listing);
    }

    fn begin_round(&mut self, now: u64) {
        if self.round > 0 {
            self.totals = self.grand_total();
        }
        self.result = ResultInfo::default();
        self.earlier_sums.clone_from(&self.sums);
        self.failures.clear();
        self.failure_log = ChunkedList::default();
        self.round += 1;
        self.round_started = now;
        self.next_at = 0;
        self.list_failed = 0;
        self.list_at = 0;
        self.retry = self.retry.unused();
        if self.started == 0 {
            self.started = now;
        }
    }

    /// Why a task that follows this one may not begin a round; `None` if the current or last round of this one has ended
    /// well. `now` is in milliseconds since 1970.
    pub(crate) fn holds_up(&self, now: u64) -> Option<String> {
        let (id, round) = (&self.id, self.round);
        // A round whose time has come may begin at any moment.
        let is_due = round == 0 || self.is_round_open() || self.next_at <= now;
        if !self.state.is_over() && is_due {
            return Some(format!("round {} of task {id} has not ended", self.ended_rounds() + 1));
        }
        let ResultInfo { failed_count, stopped_count, .. } = self.result;
        if failed_count + stopped_count > 0 {
            let counts = format!("{failed_count} failed and {stopped_count} stopped partitions");
            return Some(format!("round {round} of task {id} ended with {counts}"));
        }
        if self.state == State::Cancel || !self.error.is_empty() {
            return Some(format!("round {round} of task {id} ended without success: {}", self.error));
        }
        None
    }

    /// The record of the round that ends when this task becomes `new`; `None` if no round ends, or if the task is not
    /// repeated. `now` is in milliseconds since 1970.
    pub(crate) fn ended_round(&self, new: &Self, now: u64) -> Option<Self> {
        // A round whose partitions could not be listed begins and ends at once.
        let is_unlisted = new.round > self.round;
        let is_single = !new.repeats() && new.round <= 1;
        if is_single || new.is_round_open() || !(self.is_round_open() || is_unlisted) {
            return None;
        }
        let is_broken_off = is_unlisted || new.state == State::Cancel;
        let mut sums = new.sums.clone();
        for (name, sum) in &mut sums {
            *sum -= new.earlier_sums.get(name).copied().unwrap_or_default();
        }
        Some(Self {
            kind: EntryKind::Round,
            state: if is_broken_off { State::Cancel } else { State::Done },
            started: new.round_started,
            finished: if new.state.is_over() { new.finished } else { now },
            totals: ResultInfo::default(),
            sums,
            earlier_sums: BTreeMap::new(),
            named: Vec::new(),
            next_at: 0,
            ..new.clone()
        })
    }

    /// Runs these failed partitions of the round again.
    pub fn open_retry(&mut self, listing: ChunkedList) {
        self.result.failed_count = self.result.failed_count.saturating_sub(listing.count);
        self.retry.counted = self.result.all();
        self.retry.at = 0;
        self.failures.clear();
        self.open(listing);
    }

    fn open(&mut self, listing: ChunkedList) {
        self.cursor = 0;
        self.failure_log = ChunkedList { tag: listing.tag.clone(), ..ChunkedList::default() };
        self.listing = Some(listing);
        self.error.clear();
    }

    /// Reopens a finished task at this manager: to run its failed partitions again, or, if the task was cancelled, to begin
    /// the round again that was broken off. `now` is in milliseconds since 1970.
    pub fn reopen(&mut self, manager: &str, now: u64) {
        if self.state == State::Cancel {
            // Between two rounds, the time of the next one is known.
            if self.next_at == 0 {
                self.round = self.round.saturating_sub(1);
                self.result = ResultInfo::default();
            }
            if !self.repeats() {
                self.failed_rounds = 0;
            }
            self.cursor = 0;
            self.retry = self.retry.unused();
            self.list_failed = 0;
            self.list_at = 0;
            self.cancelling = false;
            self.failures.clear();
            self.error.clear();
        } else {
            self.retry.done = 0;
            self.retry.at = now;
        }
        self.state = State::Init;
        self.finished = 0;
        manager.clone_into(&mut self.manager);
    }
}

impl RetryInfo {
    /// The options, in a round that has run nothing again.
    fn unused(self) -> Self {
        Self { limit: self.limit, delay: self.delay, ..Self::default() }
    }

    /// The delay before failed partitions run again, in milliseconds: doubled each time, and longer or shorter by up to a
    /// quarter, so that the tasks that failed together do not all run again together.
    fn next_delay(&self, random: f64) -> u64 {
        let doubled =
            self.delay.saturating_mul(1000).saturating_mul(1 << self.done.min(20)).min(LONGEST_DELAY);
        (doubled as f64 * (0.75 + random.clamp(0.0, 1.0) / 2.0)) as u64
    }
}
