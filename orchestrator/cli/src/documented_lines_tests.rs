//! The command lines of `allot` and `allotd` in the documentation agree with their definitions.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory as _};

use allotd::arguments::Arguments;

/// Stands for the placeholder of a task in a documented line.
const TASK: &str = "aaaaffff.16176931.56000000.0";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents that show command lines.
fn documents() -> Vec<PathBuf> {
    let pages = fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|end| end == "md"));
    pages.chain(["README.md", "examples/README.md"].map(|page| repository().join(page))).collect()
}

/// The command lines of a document, without their comments. A backslash continues a line, and so does an optional part at
/// the beginning of the next line.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // The line before is a command line; it ends in a backslash.
    let (mut is_command, mut is_continued) = (false, false);
    for line in text.lines().map(str::trim) {
        let (rest, goes_on) = line.strip_suffix('\\').map_or((line, false), |rest| (rest, true));
        let rest = rest.split(" # ").next().unwrap_or(rest);
        if let Some(last) = lines.last_mut().filter(|_| is_continued || (is_command && rest.starts_with('[')))
        {
            last.push(' ');
            last.push_str(rest);
        } else {
            is_command = ["allot ", "allotd "].iter().any(|program| rest.starts_with(program));
            lines.extend(is_command.then(|| rest.to_owned()));
        }
        is_continued = is_command && goes_on;
    }
    lines
}

/// The words of a line. Quotes group words; `[` and `]` say that words are optional, and of `a|b` and `a | b` the first
/// counts.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    // Within a group, the words after a bar are left out.
    let (mut is_skipped, mut attached) = (false, false);
    for char in line.chars().chain([' ']) {
        match char {
            '\'' | '"' if quote == Some(char) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(char),
            _ if quote.is_some() => word.push(char),
            '[' => attached = !word.is_empty(),
            ']' if attached => attached = false,
            ']' | ' ' => {
                if word == "|" {
                    is_skipped = true;
                } else if !word.is_empty() && !is_skipped {
                    words.push(word.split('|').next().unwrap_or_default().to_owned());
                }
                word.clear();
                is_skipped &= char != ']';
            }
            _ if attached => {}
            _ => word.push(char),
        }
    }
    words
}

/// Puts a value in the place of each placeholder: a word in capitals, or three dots.
fn fill(words: Vec<String>, program: &Command) -> Vec<String> {
    let mut command = program;
    let mut filled: Vec<String> = Vec::new();
    for word in words {
        let before = filled.last().and_then(|before| before.strip_prefix("--"));
        let of = |name| command.get_arguments().find(|argument| argument.get_long() == Some(name));
        let option = before.and_then(of).filter(|option| option.get_action().takes_values());
        let is_placeholder = word.chars().all(|char| char.is_ascii_uppercase());
        filled.push(match word.as_str() {
            "..." if option.is_none() => continue,
            "TASK" => TASK.to_owned(),
            "NAME=VALUE" => "licences=1".to_owned(),
            "DATABASE.SCHEMA.TABLE" => "d.s.t".to_owned(),
            "TIME" => "1h".to_owned(),
            "X,Y" => "1,2".to_owned(),
            "SUBTASK" => format!("{}3", TASK.trim_end_matches('0')),
            _ if is_placeholder || word == "..." => {
                let values = option.map(Arg::get_possible_values).unwrap_or_default();
                values.first().map_or("1", |value| value.get_name()).to_owned()
            }
            _ => {
                command = command.find_subcommand(&word).unwrap_or(command);
                word
            }
        });
    }
    filled
}

/// Why a line is not one of its program.
fn fault(line: &str) -> Option<String> {
    let error = if line.starts_with("allotd ") {
        let program = Arguments::command();
        program.clone().try_get_matches_from(fill(words(line), &program)).err()?
    } else {
        let words = fill(words(line), &super::definition()).into_iter().map(Into::into);
        super::matches(&words.collect::<Vec<_>>()).err()?
    };
    // A line with optional parts may show options that do not go together. That is found after all words are known. A noun
    // alone lists.
    let is_summary = line.contains('[') && error.kind() == ErrorKind::ArgumentConflict;
    (!is_summary).then(|| format!("{line}\n{error}"))
}

#[test]
fn documented_command_lines_are_understood() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for document in documents() {
        for line in lines(&fs::read_to_string(&document).unwrap()) {
            count += 1;
            faults.extend(fault(&line).map(|why| format!("{}: {why}", document.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 60, "only {count} lines are found");
    for wrong in ["allot task submit d.s.t --retry-delays 5m", "allot task retry TASK [--waits]"] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
}

/// All options of a command and of the commands below it.
fn options(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(Arg::get_long).map(|name| format!("--{name}"));
    own.chain(command.get_subcommands().flat_map(options)).collect()
}

#[test]
fn options_in_the_text_on_compaction_exist() {
    let text = fs::read_to_string(repository().join("docs/compaction.md")).unwrap();
    let allot = super::definition();
    let tasks = allot.find_subcommand("task").unwrap();
    let global = allot.get_arguments().filter_map(Arg::get_long).map(|name| format!("--{name}"));
    let nodes = options(allot.find_subcommand("node").unwrap());
    let known: Vec<String> = options(tasks).into_iter().chain(nodes).chain(global).collect();
    let mut count = 0;
    for code in text.split('`').skip(1).step_by(2) {
        for option in words(code).iter().filter(|word| word.starts_with("--")) {
            assert!(known.contains(option), "no verb of tasks and nodes has {option}: {code}");
            count += 1;
        }
        if let Some((name, rest)) = code.split_once(' ').filter(|(_, rest)| rest.contains("TASK"))
            && tasks.find_subcommand(name).is_some()
        {
            assert_eq!(fault(&format!("allot task {name} {rest}")), None);
        }
    }
    assert!(count > 20, "only {count} options are found");
}
