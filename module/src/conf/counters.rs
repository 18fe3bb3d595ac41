//! Counters of `CONF.*` and `CMU.*` (docs/operate.md).

use allot_core::shared::refusal::Code;

use crate::engine::info::counters;

// allot-core defines the counters of events, next to the events.
counters! {
    /// Conferences that ended while they waited for recovery.
    CONF_NEVER_RECOVERED = c"conf_never_recovered";
    /// Writes refused: another unit owns the conference, or none.
    CONF_WRITES_NOT_OWNER = c"conf_writes_not_owner";
    /// Writes refused: the unit owns the conference by a newer assignment.
    CONF_WRITES_STALE_EPOCH = c"conf_writes_stale_epoch";
    /// Writes refused: every field has a newer value.
    CONF_WRITES_STALE_SEQ = c"conf_writes_stale_seq";
    /// Writes refused: the conference has ended or is unknown.
    CONF_WRITES_ENDED = c"conf_writes_ended";
    /// Conferences whose pool of numbers no longer existed when they ended.
    CONF_POOLS_GONE = c"conf_pools_gone";
    /// Requests of the family refused with an error, except writes of details.
    CONF_REFUSED = c"conf_refused";
    /// Conferences open again after they had lost their unit.
    CONF_REOPENED = c"conf_reopened";
    /// Sum of the times from the last sign of life of the lost unit to the reopening, in milliseconds.
    CONF_REOPENED_MS = c"conf_reopened_ms";
    /// Reopened conferences that waited at most 1 s.
    CONF_REOPENED_1S = c"conf_reopened_1s";
    /// Reopened conferences that waited at most 5 s.
    CONF_REOPENED_5S = c"conf_reopened_5s";
    /// Reopened conferences that waited at most 10 s.
    CONF_REOPENED_10S = c"conf_reopened_10s";
    /// Reopened conferences that waited at most 30 s.
    CONF_REOPENED_30S = c"conf_reopened_30s";
    /// Reopened conferences that waited at most 5 minutes.
    CONF_REOPENED_300S = c"conf_reopened_300s";
}

/// Counts a conference that is open again, `after` milliseconds after the last sign of life of its lost unit.
pub(crate) fn reopened(after: i64) {
    CONF_REOPENED.add(1);
    CONF_REOPENED_MS.add(after.max(0) as u64);
    let buckets = [
        (1_000, &CONF_REOPENED_1S),
        (5_000, &CONF_REOPENED_5S),
        (10_000, &CONF_REOPENED_10S),
        (30_000, &CONF_REOPENED_30S),
        (300_000, &CONF_REOPENED_300S),
    ];
    buckets.iter().filter(|(most, _)| after <= *most).for_each(|(_, counter)| counter.add(1));
}

/// Counts a refused write of details. `was_owner` says whether the owner sent it, at the current epoch.
pub(crate) fn write_refused(code: Code, was_owner: bool) {
    let counter = match code {
        Code::NotOwner => &CONF_WRITES_NOT_OWNER,
        Code::Stale if was_owner => &CONF_WRITES_STALE_SEQ,
        Code::Stale => &CONF_WRITES_STALE_EPOCH,
        Code::NotFound | Code::BadState => &CONF_WRITES_ENDED,
        _ => &CONF_REFUSED,
    };
    counter.add(1);
}
