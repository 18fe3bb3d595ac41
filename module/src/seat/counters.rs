//! What is counted of `SEAT.*` (docs/operation.md).

use crate::engine::info::counters;

counters! {
    /// Holds and picks granted.
    SEAT_HELD = c"seat_held";
    /// Holds confirmed.
    SEAT_CONFIRMED = c"seat_confirmed";
    /// Releases, whole or in part.
    SEAT_RELEASED = c"seat_released";
    /// Holds whose deadline passed.
    SEAT_EXPIRED = c"seat_expired";
    /// Refunds.
    SEAT_REFUNDED = c"seat_refunded";
    /// Holds that found too few seats free.
    SEAT_SOLD_OUT = c"seat_sold_out";
    /// Requests refused with an error.
    SEAT_REFUSED = c"seat_refused";
}
