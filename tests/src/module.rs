//! Where the things under test are: builds the module and the programs once per process and takes their
//! paths from cargo's own report, so that a test can never run against a stale file.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The module, `liballot.so`, built for release as it is shipped. `ALLOT_MODULE` names another file.
pub fn liballot() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        given("ALLOT_MODULE").unwrap_or_else(|| build(&["--release", "-p", "allot-module"], &is_module))
    })
    .clone()
}

/// The module with the panics that [`RedisServer::panic_at`](crate::RedisServer::panic_at) asks for.
pub(crate) fn panicking_module() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    // The core of the other tests is optimised, which takes minutes; here nothing is slow.
    let quick = "--config=profile.test.package.allot-core.opt-level=0";
    let arguments = ["--profile=test", quick, "-p", "allot-module", "--features", "inject-panics"];
    PATH.get_or_init(|| build(&arguments, &is_module)).clone()
}

/// The daemon, `allotd`. `ALLOT_ALLOTD` names another file.
pub fn allotd() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| given("ALLOT_ALLOTD").unwrap_or_else(|| program("allotd"))).clone()
}

/// The command line, `allot`. `ALLOT_CLI` names another file.
pub fn allot() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| given("ALLOT_CLI").unwrap_or_else(|| program("allot"))).clone()
}

/// Builds the programs together with a test and in the profile of tests: alone, cargo would choose other features for
/// what they share, and compile it all once more.
fn program(name: &str) -> PathBuf {
    let is_program = |file: &Path| {
        file.file_stem().is_some_and(|stem| stem == name) && file.extension().is_none_or(|e| e == "exe")
    };
    build(&["--profile=test", "--workspace", "--test=rig", "--bin=allotd", "--bin=allot"], &is_program)
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate has a parent folder")
}

/// The Python to test with: `ALLOT_PYTHON`, the one that `make deps` made, or the one in `PATH`.
pub fn python() -> PathBuf {
    let made = repository().join("target/venv/bin/python");
    let found = if made.exists() { made } else { PathBuf::from("python3") };
    env::var_os("ALLOT_PYTHON").map_or(found, PathBuf::from)
}

fn given(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(variable)?);
    assert!(path.is_file(), "{variable} names {}, which is not a file", path.display());
    Some(path.canonicalize().expect("a file that exists has a canonical path"))
}

fn is_module(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == env::consts::DLL_EXTENSION)
}

fn is_of_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs cargo and returns the one file among the artifacts of the package that `wanted` recognises.
fn build(arguments: &[&str], wanted: &dyn Fn(&Path) -> bool) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What cargo tells a test of its package would make dependencies whose builds look at it be compiled again.
    let told = env::vars_os().map(|(name, _)| name);
    for name in told.filter(|name| name.to_str().is_some_and(is_of_a_package)) {
        command.env_remove(name);
    }
    let output = command
        .current_dir(repository())
        .arg("build")
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo build {} failed:\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| {
            // Dependencies with procedural macros have shared objects, too.
            let id = message["package_id"].as_str().unwrap_or_default();
            id.starts_with("path+file://") && message["target"]["kind"][0] != "proc-macro"
        })
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .find(|file| wanted(file))
        .unwrap_or_else(|| panic!("cargo build {} reported no such artifact", arguments.join(" ")))
}
