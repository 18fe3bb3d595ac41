//! `MEMORY USAGE` tells what a value takes from the server's memory.

use allot_tests::usage::{quiet, usage_is_true, used};

use crate::family::Family;

for_each_family! {
    memory_usage_of_a_large_value_is_true_within_a_fifth,
}

fn memory_usage_of_a_large_value_is_true_within_a_fifth<F: Family>() {
    let server = quiet();
    let before = used(&server);
    let key = F::fill(&server);
    usage_is_true(&server, before, &[key]);
}
