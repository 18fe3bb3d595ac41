//! Real files for tests of conversions; they are not part of the repository.

use std::path::PathBuf;
use std::{env, fs};

/// The text of a real file: from the folder `ALLOT_SHARED_DATA`, or from `../shared/data` beside the
/// repository. If the folder is absent, the test prints that it is skipped, and tests nothing.
pub(super) fn real(name: &str) -> Option<String> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = env::var_os("ALLOT_SHARED_DATA").map_or_else(beside, PathBuf::from);
    if !folder.is_dir() {
        eprintln!("SKIPPED: the folder {} is absent (ALLOT_SHARED_DATA names another)", folder.display());
        return None;
    }
    Some(fs::read_to_string(folder.join(name)).expect("the folder holds the file"))
}
