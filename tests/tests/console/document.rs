//! docs/console.md: its list of libraries, and the size of the page, are those of the files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use allot_tests::RedisServer;
use allot_tests::checkers::check;
use allot_tests::consoles::Console;
use allot_tests::module::repository;

/// Largest size of the page with its libraries, compressed, in bytes.
const BUDGET: usize = 150_000;

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The paths of the files of a folder and of the folders in it.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { paths(&path) } else { vec![path] }).collect()
}

fn compressed(bytes: &[u8]) -> usize {
    let mut gzip = Command::new("gzip")
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip runs");
    let mut input = gzip.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let size = gzip.wait_with_output().unwrap().stdout.len();
    writer.join().unwrap();
    size
}

#[test]
fn libraries_are_those_of_the_document() {
    let script = read("scripts/vendor-console.sh");
    let document = read("docs/console.md");
    let vendor = "orchestrator/console/assets/vendor";
    // The variable of the script, the row of the document, and the file with the licence and its first line.
    for (variable, row, licence, words) in [
        ("PREACT", "[preact]", "LICENSE-preact", "MIT"),
        ("HTM", "[htm]", "LICENSE-htm", "Apache"),
        ("UPLOT", "[uPlot]", "LICENSE-uplot", "MIT"),
    ] {
        let line = script.lines().find_map(|line| line.strip_prefix(&format!("{variable}="))).unwrap();
        let row = document.lines().find(|text| text.contains(row)).unwrap_or_else(|| panic!("{row}"));
        assert!(row.contains(&format!("| {line} |")) && row.contains(words), "{row}");
        assert!(read(&format!("{vendor}/{licence}")).contains(words), "{licence}");
    }
    assert!(read(&format!("{vendor}/uplot.js")).contains("(v1.6.32)"));
    let known = ["preact.js", "hooks.js", "htm.js", "uplot.js", "uplot.css"];
    let names: Vec<String> = fs::read_dir(repository().join(vendor))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("LICENSE-") && !known.contains(&name.as_str()))
        .collect();
    assert!(names.is_empty(), "docs/console.md does not list {names:?}");
}

#[test]
fn allowed_commands_are_those_of_the_document() {
    let server = RedisServer::start();
    let allowed = Console::start(&server, &[]).get("command").json();
    let document = read("docs/console.md");
    for (access, row) in [("viewer", "| viewers and operators |"), ("operator", "| operators |")] {
        let row = document.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{row}"));
        let mut written: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let commands = allowed.as_array().unwrap().iter().filter(|command| command["access"] == access);
        let mut names: Vec<&str> = commands.map(|command| command["name"].as_str().unwrap()).collect();
        written.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, written, "{access}");
    }
}

#[test]
fn page_has_the_size_of_the_document() {
    let files = paths(&repository().join("orchestrator/console/assets"));
    let size: usize = files.iter().map(|path| compressed(&fs::read(path).unwrap())).sum();
    assert!(size < BUDGET, "{size}");
    let document = read("docs/console.md");
    let written = document.split(" KB when compressed").next().unwrap().rsplit(' ').next().unwrap();
    let written: usize = written.parse().expect("a size in docs/console.md");
    assert!(
        size.abs_diff(written * 1000) < 5000,
        "docs/console.md says {written} KB, and the files have {size} bytes"
    );
}

#[test]
fn lines_of_the_page_are_short() {
    let all = paths(&repository().join("orchestrator/console/assets"));
    let own = all.iter().filter(|path| !path.components().any(|part| part.as_os_str() == "vendor"));
    for path in own {
        for (number, line) in (1..).zip(fs::read_to_string(path).unwrap().lines()) {
            assert!(line.chars().count() < 120, "{}:{number} is too long: {line}", path.display());
        }
    }
}

#[test]
fn types_of_the_page_are_right() {
    check("node/node_modules/.bin/tsc", &["-p", "orchestrator/console"]);
}

#[test]
fn document_of_the_api_is_valid() {
    let server = RedisServer::start();
    let document = Console::start(&server, &[]).get("openapi.json").body;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("openapi.json");
    fs::write(&file, document).unwrap();
    check("node/node_modules/.bin/redocly", &["lint", file.to_str().unwrap(), "--extends", "minimal"]);
}
