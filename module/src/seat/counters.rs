//! Counters of `SEAT.*` (docs/operate.md).

use crate::engine::info::counters;

// allot-core defines the counters of events, next to the events.
counters! {
    /// Holds that found too few seats free.
    SEAT_SOLD_OUT = c"seat_sold_out";
    /// Requests refused with an error.
    SEAT_REFUSED = c"seat_refused";
}
