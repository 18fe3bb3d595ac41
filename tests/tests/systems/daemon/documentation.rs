//! What README.md and docs/ say is so: every session shown is typed again, word by word, on a real server; every
//! command, setting and counter has its place; every link leads somewhere; and `make run` does what it promises.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use allot_tests::launch::redis_server_binary;
use allot_tests::module::{python, repository};
use allot_tests::{RedisServer, allot, allotd, liballot};

/// A command of a session and the lines that shall come back.
struct Exchange {
    line: usize,
    command: String,
    reply: Vec<String>,
}

/// The sessions of a document: fenced blocks marked `redis-cli`, commands behind `> `, replies as they come.
fn session(text: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```redis-cli";
        } else if let Some(command) = line.strip_prefix("> ").filter(|_| inside) {
            exchanges.push(Exchange { line: number + 1, command: command.to_owned(), reply: Vec::new() });
        } else if inside && !line.trim().is_empty() {
            let exchange = exchanges.last_mut().expect("a session begins with a command");
            exchange.reply.push(line.trim_end().to_owned());
        }
    }
    exchanges
}

/// Whether a line is as written, where `...` stands for any text.
pub(super) fn agrees(written: &str, line: &str) -> bool {
    let mut parts = written.split("...");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Types a command into `redis-cli -3` as it stands there; what it would show in a terminal.
fn type_in(server: &RedisServer, command: &str) -> Vec<String> {
    let mut cli = Command::new("redis-cli")
        .args(["-3", "--no-raw", "-p", &server.port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("redis-cli does not run ({error}); `make deps` installs it"));
    writeln!(cli.stdin.take().unwrap(), "{command}").unwrap();
    let output = cli.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Types a document's sessions on a server of their own.
fn check(document: &Path) {
    check_on(&RedisServer::start(), document);
}

/// As `check`, on a server that was prepared for it.
fn check_on(server: &RedisServer, document: &Path) {
    for Exchange { line, command, reply } in session(&read(document)) {
        let came = type_in(server, &command);
        assert!(
            came.len() == reply.len() && reply.iter().zip(&came).all(|(written, line)| agrees(written, line)),
            "{}:{line}: {command}\n\nwritten:\n{}\n\ncame:\n{}\n",
            document.display(),
            reply.join("\n"),
            came.join("\n")
        );
    }
}

fn read(document: &Path) -> String {
    fs::read_to_string(document).unwrap_or_else(|error| panic!("{}: {error}", document.display()))
}

fn readme() -> PathBuf {
    repository().join("README.md")
}

/// The documents of `docs/`.
fn docs() -> Vec<PathBuf> {
    let folder = fs::read_dir(repository().join("docs")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension() == Some(OsStr::new("md"))).collect()
}

fn words(reply: &redis::Value, into: &mut Vec<String>) {
    match reply {
        redis::Value::Array(items) => {
            for item in items {
                words(item, into);
            }
        }
        redis::Value::BulkString(bytes) => into.push(String::from_utf8_lossy(bytes).into_owned()),
        redis::Value::SimpleString(text) => into.push(text.clone()),
        _ => {}
    }
}

#[test]
fn three_dots_stand_for_any_text() {
    assert!(agrees("a", "a") && !agrees("a", "ab") && !agrees("a", "ba"));
    assert!(agrees("(integer) ...", "(integer) 17") && !agrees("(integer) ...", "(nil)"));
    assert!(agrees("a...b...c", "axbxc") && agrees("a...", "a") && !agrees("a...b...c", "axcxb"));
}

#[test]
fn the_first_session_goes_as_the_readme_says() {
    assert!(session(&read(&readme())).len() > 10, "README.md has lost its first session");
    check(&readme());
}

#[test]
fn the_examples_of_the_documentation_go_as_written() {
    let with_examples = docs().into_iter().filter(|document| !session(&read(document)).is_empty());
    let with_examples: Vec<PathBuf> = with_examples.collect();
    for chapter in ["seats.md", "numbers.md", "sessions.md", "deploy.md"] {
        assert!(with_examples.iter().any(|document| document.ends_with(chapter)), "{with_examples:?}");
    }
    for document in with_examples {
        check(&document);
    }
}

#[test]
fn session_of_the_functions_library_goes_as_written() {
    let server = RedisServer::builder().module(false).start();
    let library = read(&repository().join("lua/allot.lua"));
    assert_eq!(server.raw().call(&["FUNCTION", "LOAD", &library]), allot_tests::Reply::bulk("allot"));
    let document = repository().join("lua/README.md");
    assert!(session(&read(&document)).len() > 10, "lua/README.md has lost its session");
    check_on(&server, &document);
}

#[test]
fn the_first_sessions_go_the_same_through_python_in_both_protocols() {
    for (protocol, page) in
        [("2", "README.md"), ("3", "README.md"), ("2", "docs/sessions.md"), ("3", "docs/sessions.md")]
    {
        let server = RedisServer::start();
        let output = Command::new(python())
            .arg(repository().join("tests/python/first_session.py"))
            .args(["--port", &server.port().to_string(), "--protocol", protocol])
            .arg(repository().join(page))
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| {
                panic!(
                    "{} does not run ({error}); `make deps` installs it, ALLOT_PYTHON names another",
                    python().display()
                )
            });
        assert!(
            output.status.success(),
            "{page}, RESP{protocol}, {}:\n{}{}",
            python().display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn every_command_has_its_chapter() {
    let server = RedisServer::start();
    let mut commands = Vec::new();
    words(&server.command("COMMAND LIST FILTERBY MODULE allot"), &mut commands);
    assert!(!commands.is_empty());
    let chapters = ["seats", "numbers", "conferences", "accounts", "replication", "operate"];
    let [seats, numbers, conferences, accounts, replication, operate] =
        chapters.map(|chapter| read(&repository().join(format!("docs/{chapter}.md"))));
    for command in commands.iter().map(|command| command.to_uppercase()) {
        let chapter = match command.split_once('.') {
            Some((_, "APPLY")) => &replication,
            Some(("NUMPOOL", _)) => &numbers,
            Some(("CONF" | "CMU", _)) => &conferences,
            Some(("ACCOUNT", _)) => &accounts,
            Some(("ALLOT", _)) => &operate,
            _ => &seats,
        };
        assert!(chapter.lines().any(|line| line.starts_with('#') && line.contains(&command)), "{command}");
    }
}

#[test]
fn every_setting_and_every_counter_is_explained() {
    let server = RedisServer::start();
    let pages = ["docs/deploy.md", "docs/operate.md"].map(|page| read(&repository().join(page))).concat();
    let mut settings = Vec::new();
    words(&server.command("CONFIG GET allot.*"), &mut settings);
    let names: Vec<String> =
        settings.into_iter().step_by(2).chain(server.info("allot").into_keys()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(pages.contains(&format!("`{name}`")), "neither deploy.md nor operate.md explains {name}");
    }
}

/// The anchors of a document, as GitHub makes them of its headings.
fn anchors(document: &Path) -> HashSet<String> {
    let mut anchors = HashSet::new();
    let mut is_code = false;
    for line in read(document).lines() {
        is_code ^= line.trim_start().starts_with("```");
        if line.starts_with('#') && !is_code {
            let heading = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            anchors.insert(heading.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect());
        }
    }
    anchors
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let names = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "lua/README.md", "examples/README.md"];
    for document in names.iter().map(|name| repository().join(name)).chain(docs()) {
        let folder = document.parent().unwrap();
        for link in read(&document).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { folder.join(file) };
            assert!(target.exists(), "{}: {link}", document.display());
            let is_page = target.extension() == Some(OsStr::new("md"));
            let is_known = anchor.is_empty() || (is_page && anchors(&target).contains(anchor));
            assert!(is_known, "{}: no heading for {link}", document.display());
        }
    }
}

#[test]
fn make_run_sells_the_examples_and_survives_a_killed_unit() {
    // Below those of `free_port`, which other tests take meanwhile, since the next ones are used as well.
    let begin = 7_000 + u16::try_from(std::process::id() % 2_000).unwrap();
    let port = (begin..begin + 1000).find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap();
    let output = Command::new(repository().join("scripts/run.sh"))
        .env("RUN_ONCE", "1")
        .env("PORT", port.to_string())
        .env("ALLOT_MODULE", liballot())
        .env("ALLOT_ALLOTD", allotd())
        .env("ALLOT_CLI", allot())
        .env("ALLOT_REDIS_SERVER", redis_server_binary())
        .env_remove("PLAN")
        .env_remove("LOAD")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert_eq!(text.matches("the books balance").count(), 3, "{text}{errors}");
    let is_none = |line: &str| line.split_whitespace().eq(["double_holders", "0"]);
    assert_eq!(text.lines().filter(|line| is_none(line)).count(), 3, "{text}{errors}");
    assert!(text.contains("total         1000\n"), "{text}{errors}");
    assert!(text.contains("its conferences are open again on the others"), "{text}{errors}");
    assert!(text.contains("step 1") && text.contains("NOTOWNER"), "{text}{errors}");
    assert!(errors.contains("Done after 1 round: 6 succeeded, 0 failed"), "{text}{errors}");
}
