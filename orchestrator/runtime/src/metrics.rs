//! The metrics of `allotd`: one table, from which `/metrics` and the table of docs/operate.md follow.

use ::metrics::{describe_counter, describe_gauge, describe_histogram};

/// A metric of `allotd`.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its help text, with its labels in backquotes.
    pub help: &'static str,
}

const fn metric(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help }
}

/// All metrics. The names of counters end in `_total`; all others are gauges, except for one histogram.
pub static METRICS: &[Metric] = &[
    metric("allot_ready", "by `part`: 1 if this part of the process has the connections that it needs"),
    metric("allot_store_faults_total", "by `part`: sessions with Redis that ended by a fault"),
    metric(
        "allot_scheduler_leading",
        "1 if this scheduler leads: it is elected, and Redis accepts its claim on the realm",
    ),
    metric("allot_scheduler_term", "the term of this scheduler, if it leads"),
    metric("allot_scheduler_guard", "1 while the mass-failure guard is active"),
    metric("allot_scheduler_units", "media units of the realm, by `state`"),
    metric("allot_scheduler_conferences", "conferences of the realm, by `state`"),
    metric("allot_scheduler_capacity", "room of the media units that are not down"),
    metric(
        "allot_scheduler_used",
        "the part of this room that conferences take, and conferences that move to a media unit",
    ),
    metric("allot_scheduler_licences", "licences of the realm; 0 is no limit"),
    metric("allot_scheduler_licences_used", "licences that conferences take"),
    metric("allot_scheduler_downs_total", "media units that this scheduler declared down"),
    metric("allot_scheduler_grants_total", "conferences that this scheduler placed on another media unit"),
    metric("allot_scheduler_unconfirmed_total", "changes of owner that replicas did not confirm in time"),
    metric(
        "allot_scheduler_units_without_cover",
        "media units whose loss would leave conferences without room (`CONF.PLAN DOWN ANY`); measured every 30 s while \
         no conference is pending",
    ),
    metric(
        "allot_scheduler_conferences_without_cover",
        "the largest number of conferences that would find no room after the loss of one media unit",
    ),
    metric(
        "allot_accounts_leading",
        "1 if this process leads the book: it is elected, and Redis accepts its claim on the book",
    ),
    metric("allot_accounts_term", "the term of this process, if it leads the book"),
    metric("allot_accounts_instances", "instances that use accounts of the book"),
    metric("allot_accounts_shown", "accounts that are published to instances"),
    metric(
        "allot_accounts_pending",
        "accounts that are revoked, and that their instances have not released yet",
    ),
    metric(
        "allot_accounts_takeover_seconds",
        "the duration of the last take-over of this leader, from its election until the tree in ZooKeeper equalled the \
         book",
    ),
    metric("allot_accounts_moves_total", "moves of accounts by rebalancing"),
    metric("allot_accounts_shown_total", "publications of accounts"),
    metric("allot_accounts_unconfirmed_total", "assignments that replicas did not confirm in time"),
    metric(
        "allot_accounts_listening_sessions",
        "sessions with ZooKeeper that hold watches. While one of them has no connection, the process is not ready",
    ),
    metric(
        "allot_proxy_messages_total",
        "messages, by `outcome`: `written`, `refused` (by the realm), `malformed`",
    ),
    metric("allot_proxy_claimed_total", "messages taken over from other proxies"),
    metric("allot_unit_conferences", "conferences of this media unit"),
    metric("allot_unit_capacity", "room of this media unit"),
    metric("allot_unit_used", "the part of this room that the realm has given to conferences"),
    metric(
        "allot_unit_creation_failures",
        "creations that failed on this media unit in a row, as the realm counts them",
    ),
    metric(
        "allot_unit_backoff",
        "1 while the realm places nothing on this media unit, because creations failed on it",
    ),
    metric("allot_unit_commands_total", "commands that this media unit received, by `event`"),
    metric("allot_unit_reports_total", "reports of this media unit"),
    metric("allot_unit_restarts_total", "restarts of programs of conferences that failed on this media unit"),
    metric(
        "allot_unit_failures_total",
        "conferences that this media unit gave back because their programs failed again and again",
    ),
    metric("allot_unit_details_refused_total", "batches of details of this media unit that Redis refused"),
    metric(
        "allot_unit_unconfirmed_total",
        "adoptions and ends of copies of this media unit that replicas did not confirm in time",
    ),
    metric("allot_compaction_running", "subtasks that run on this node"),
    metric("allot_compaction_monitor", "1 if this node is the monitor"),
    metric("allot_compaction_waiting", "subtasks in the inbox of this node that do not run yet"),
    metric(
        "allot_compaction_watch_sessions",
        "additional sessions with ZooKeeper in which this node watches tasks, one session for each 88 KiB of paths. A \
         session without tasks is closed. While one of these sessions has no connection, the node is not ready",
    ),
    metric(
        "allot_compaction_tasks",
        "unfinished tasks that this node manages, by `state`: `waiting` (for the first subtask), `assigned`, `paused`, \
         `stopping`",
    ),
    metric(
        "allot_compaction_tasks_ended_total",
        "tasks that ended at this node, by `state`: `done`, `cancelled`",
    ),
    metric(
        "allot_compaction_subtasks_total",
        "subtasks that this node counted as their manager, by `outcome`: `success`, `failed`, `stopped`",
    ),
    metric(
        "allot_compaction_retried_total",
        "subtasks that start again, by `reason`: `failed` (the partition failed), `lost` (its worker was lost while it \
         ran)",
    ),
    metric("allot_compaction_subtask_seconds", "the durations of runners on this node"),
    metric("allot_compaction_bytes_before_total", "the sum of `before` in the results of runners"),
    metric("allot_compaction_bytes_after_total", "the sum of `after` in the results of runners"),
    metric(
        "allot_compaction_history_packs",
        "packs of history, measured hourly by the monitor; 0 on other nodes",
    ),
    metric(
        "allot_compaction_history_bytes",
        "bytes of the packs of history, measured hourly by the monitor; 0 on other nodes",
    ),
];

/// Gives the help texts to the recorder of this process.
pub(crate) fn describe() {
    for &Metric { name, help } in METRICS {
        if name.ends_with("_total") {
            describe_counter!(name, help);
        } else if name == "allot_compaction_subtask_seconds" {
            describe_histogram!(name, help);
        } else {
            describe_gauge!(name, help);
        }
    }
}
