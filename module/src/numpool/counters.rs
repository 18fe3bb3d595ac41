//! What is counted of `NUMPOOL.*` (docs/operation.md).

use crate::engine::info::counters;

counters! {
    /// Numbers given for a call.
    NUMPOOL_CALLED = c"numpool_called";
    /// Calls ended by a hangup.
    NUMPOOL_HUNGUP = c"numpool_hungup";
    /// Calls ended by the deadline of their lease.
    NUMPOOL_EXPIRED = c"numpool_expired";
    /// Calls ended since their switch did not carry them any more.
    NUMPOOL_RECONCILED = c"numpool_reconciled";
    /// Registrations that were not renewed in time.
    NUMPOOL_LAPSED = c"numpool_lapsed";
    /// Calls for which no number was free.
    NUMPOOL_NONE_FREE = c"numpool_none_free";
    /// Requests refused with an error.
    NUMPOOL_REFUSED = c"numpool_refused";
}
