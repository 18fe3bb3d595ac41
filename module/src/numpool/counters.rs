//! Counters of `NUMPOOL.*` (docs/operate.md).

use crate::engine::info::counters;

// allot-core defines the counters of events, next to the events.
counters! {
    /// Calls for which no number was free.
    NUMPOOL_NONE_FREE = c"numpool_none_free";
    /// Requests refused with an error.
    NUMPOOL_REFUSED = c"numpool_refused";
}
