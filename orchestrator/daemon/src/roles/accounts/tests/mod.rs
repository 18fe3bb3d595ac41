//! Tests of the decisions about accounts: of each rule, and of all rules together.

pub(super) mod fixtures;
mod reconcile;
mod reconcile_simulation;
