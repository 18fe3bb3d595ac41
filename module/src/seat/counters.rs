//! Counters of `SEAT.*` (docs/operate.md).

use crate::engine::info::counters;

// Those of events stand beside the events, in allot-core.
counters! {
    /// Holds that found too few seats free.
    SEAT_SOLD_OUT = c"seat_sold_out";
    /// Requests refused with an error.
    SEAT_REFUSED = c"seat_refused";
}
