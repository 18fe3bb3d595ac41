//! Counters of the events of realms.

use crate::words;

words! {
    /// Counters of realms in `INFO`.
    pub enum Counter {
        /// Conferences created or scheduled.
        Created => "conf_created",
        /// Conferences that their unit acknowledged as open.
        Opened => "conf_opened",
        /// Recoveries: pending conferences placed on a unit.
        Granted => "conf_granted",
        /// First creations that failed and were tried on another unit.
        Retried => "conf_retried",
        /// Recoveries that failed.
        Failed => "conf_failed",
        /// Older copies that were reported again and took their conference back.
        Adopted => "conf_adopted",
        /// Moves done.
        Moved => "conf_moved",
        /// Conferences ended.
        Ended => "conf_ended",
        /// Releases sent for copies that their unit does not own any more.
        Disowned => "conf_disowned",
        /// Writes of details.
        Writes => "conf_writes",
        /// Leases of units that reached 60 % of their length, or their end.
        UnitLapsed => "cmu_lapsed",
        /// Units that were declared down.
        UnitDown => "cmu_down",
        /// Creations that failed on a unit.
        UnitFailed => "cmu_failures",
        /// Times that a unit of the same host on another machine was refused, at most one in 10 s for each host.
        UnitConflict => "cmu_conflicts",
        /// Streams that were trimmed before a consumer group had read all entries.
        Missed => "stream_resyncs",
    }
}
