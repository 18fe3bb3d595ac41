//! Libraries in C, each built once by the system's C compiler. `LD_PRELOAD` names the library that a process loads to change
//! what the system tells it; a server loads the other one as a module.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// A library, with the folder that holds it.
#[derive(Debug)]
struct Library {
    path: PathBuf,
    _dir: TempDir,
}

impl Library {
    fn build(source: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (file, path) = (dir.path().join("library.c"), dir.path().join("library.so"));
        fs::write(&file, source).expect("the temporary folder is writable");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&path)
            .arg(&file)
            .arg("-ldl")
            .status();
        let is_built = built.is_ok_and(|status| status.success());
        assert!(is_built, "cc cannot build a library for tests; `make deps` installs it");
        Self { path, _dir: dir }
    }
}

/// Shifts the clock of a process by the seconds in the file that `ALLOT_CLOCK` names.
pub(crate) fn clock() -> &'static Path {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    &LIBRARY.get_or_init(|| Library::build(include_str!("clock.c"))).path
}

/// A module of Redis that listens to keyspace notifications, and runs commands when they come.
pub fn listener() -> &'static Path {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    &LIBRARY.get_or_init(|| Library::build(include_str!("listener.c"))).path
}

/// Has the storage never answer where a file named `hung` is asked for.
pub fn hanging_storage() -> &'static Path {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    &LIBRARY.get_or_init(|| Library::build(include_str!("hang.c"))).path
}
