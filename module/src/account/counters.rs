//! What is counted of `ACCOUNT.*` (docs/operation.md).

use crate::engine::info::counters;

counters! {
    /// Accounts dealt to instances.
    ACCOUNT_DEALT = c"account_dealt";
    /// Moves by rebalancing.
    ACCOUNT_SHIFTED = c"account_shifted";
    /// Logins granted.
    ACCOUNT_LOGINS = c"account_logins";
    /// Logins whose deadline passed.
    ACCOUNT_LAPSED = c"account_lapsed";
    /// Instructions counted.
    ACCOUNT_USED = c"account_used";
    /// Instructions refused since they would have broken the cap.
    ACCOUNT_CAPPED = c"account_capped";
    /// Words of logins that are over, refused.
    ACCOUNT_STALE = c"account_stale";
    /// Requests of the family refused with an error, those of the two lines above among them.
    ACCOUNT_REFUSED = c"account_refused";
}
