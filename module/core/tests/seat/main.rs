//! The seat family against a naive model, and sentence by sentence against docs/seats.md.

mod model;
mod naive;
mod spec;
