//! Counters of `ACCOUNT.*` (docs/operate.md).

use crate::engine::info::counters;

// allot-core defines the counters of events, next to the events.
counters! {
    /// Instructions refused because they would have exceeded the cap.
    ACCOUNT_CAPPED = c"account_capped";
    /// Requests that were refused because their login had ended.
    ACCOUNT_STALE = c"account_stale";
    /// Requests of the family refused with an error, including those of the two counters above.
    ACCOUNT_REFUSED = c"account_refused";
}
