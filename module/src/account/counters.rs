//! Counters of `ACCOUNT.*` (docs/operate.md).

use crate::engine::info::counters;

// Those of events stand beside the events, in allot-core.
counters! {
    /// Instructions refused since they would have broken the cap.
    ACCOUNT_CAPPED = c"account_capped";
    /// Requests that were refused because their login had ended.
    ACCOUNT_STALE = c"account_stale";
    /// Requests of the family refused with an error, those of the two lines above among them.
    ACCOUNT_REFUSED = c"account_refused";
}
