//! Counters of `NUMPOOL.*` (docs/operate.md).

use crate::engine::info::counters;

// Those of events stand beside the events, in allot-core.
counters! {
    /// Calls for which no number was free.
    NUMPOOL_NONE_FREE = c"numpool_none_free";
    /// Requests refused with an error.
    NUMPOOL_REFUSED = c"numpool_refused";
}
