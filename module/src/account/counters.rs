//! Counters of `ACCOUNT.*` (docs/operate.md).

use crate::engine::info::counters;

// allot-core defines the counters of events, next to the events.
counters! {
    /// Instructions refused because they would have exceeded the cap.
    ACCOUNT_CAPPED = c"account_capped";
    /// Requests that were refused because their login had ended.
    ACCOUNT_STALE = c"account_stale";
    /// Accounts that went to an instance because its `ACCOUNT.PICK` found none.
    ACCOUNT_ASKED = c"account_asked";
    /// Requests of the family refused with an error, including those of the two counters above.
    ACCOUNT_REFUSED = c"account_refused";
}
