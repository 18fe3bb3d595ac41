//! Checkers of other projects, which `scripts/deps.sh --clients` puts into `target/`.

use std::process::Command;

use crate::module::repository;

/// Runs a checker in the repository: its path in `target/`, and its arguments. Without it nothing is checked, except in
/// CI.
///
/// # Panics
/// If the checker finds anything, and if it is missing in CI.
#[track_caller]
pub fn check(program: &str, arguments: &[&str]) {
    let path = repository().join("target").join(program);
    if !path.exists() {
        let how = format!("target/{program} is missing: scripts/deps.sh --clients installs it");
        assert!(std::env::var_os("CI").is_none(), "{how}");
        println!("nothing is checked. {how}");
        return;
    }
    let output = Command::new(path)
        .args(arguments)
        .current_dir(repository())
        .env("REDOCLY_TELEMETRY", "off")
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
        .output()
        .expect("the program runs");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{said:?}");
}
