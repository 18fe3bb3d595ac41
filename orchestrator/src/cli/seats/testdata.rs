//! What conversions are tried on: real files, which are not part of the repository, and the module's own
//! reader of plans.

use std::path::PathBuf;
use std::{env, fs};

use allot_core::seat::plan::parse;
use allot_core::seat::venue::Venue;

/// The text of a real file: from the folder `ALLOT_SHARED_DATA`, or from `../shared/data` beside the
/// repository. Where the folder is absent the test that asks says so and tests nothing.
pub(crate) fn real(name: &str) -> Option<String> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = env::var_os("ALLOT_SHARED_DATA").map_or_else(beside, PathBuf::from);
    if !folder.is_dir() {
        eprintln!("SKIPPED: the folder {} is absent (ALLOT_SHARED_DATA names another)", folder.display());
        return None;
    }
    Some(fs::read_to_string(folder.join(name)).expect("the folder holds the file"))
}

/// The number of seats of the show that the module makes of a plan.
pub(crate) fn accepted(plan: &str) -> u32 {
    Venue::build(&parse(plan.as_bytes()).expect("a plan the module reads"))
        .expect("a plan the module accepts")
        .seat_count()
}
