//! The tables of the documentation that say what the code says: commands, settings of the module, metrics of `allotd`.
//! Each stands between two comments in its page, and equals what is made here from the code and from a running server.
//! `ALLOT_WRITE_DOCS=1 cargo test --workspace --test systems generated_tables` writes the tables into the pages.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use allot_runtime::metrics::METRICS;
use allot_tests::module::repository;
use allot_tests::{RedisServer, Reply};

/// Compares a table of a page with the code, or writes it into the page.
fn check(page: &str, table: &str, head: &[&str], rows: &[Vec<String>]) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut wanted = line(&head);
    writeln!(wanted, "|{}", "---|".repeat(head.len())).unwrap();
    wanted.extend(rows.iter().map(|cells| line(cells)));

    let path = repository().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) =
        (format!("<!-- {table}: made from the code -->\n"), format!("<!-- end of {table} -->\n"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page} has no table {table}"));
    let (present, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{page}: {table} has no end"));
    if env::var_os("ALLOT_WRITE_DOCS").is_some() {
        fs::write(path, [before, &begin, &wanted, &end, after].concat()).unwrap();
    } else {
        let how = "ALLOT_WRITE_DOCS=1 cargo test --workspace --test systems generated_tables";
        assert_eq!(present, wanted, "{page}: the table {table} differs from the code; `{how}` writes it");
    }
}

/// The syntax of an argument of `COMMAND DOCS`, without the brackets of an option.
fn syntax(argument: &Reply) -> String {
    let fields = argument.record();
    let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
    let text = |name: &str| field(name).map(Reply::text);
    let parts = || field("arguments").map_or(&[][..], Reply::array);
    let value = match text("type").unwrap().as_str() {
        "pure-token" => String::new(),
        "oneof" => parts().iter().map(syntax).collect::<Vec<_>>().join("\\|"),
        "block" => parts().iter().map(bracketed).collect::<Vec<_>>().join(" "),
        _ if text("name").unwrap() == "milliseconds" => "ms".to_owned(),
        _ => text("name").unwrap(),
    };
    let mut words: Vec<String> = text("token").into_iter().chain(Some(value)).collect();
    words.retain(|word| !word.is_empty());
    if has_flag(argument, "multiple") {
        words.push("...".to_owned());
    }
    words.join(" ")
}

fn bracketed(argument: &Reply) -> String {
    let syntax = syntax(argument);
    if has_flag(argument, "optional") { format!("[{syntax}]") } else { syntax }
}

fn has_flag(argument: &Reply, flag: &str) -> bool {
    let flags = argument.record().into_iter().find(|(field, _)| field == "flags");
    flags.is_some_and(|(_, flags)| flags.array().iter().any(|one| one.text() == flag))
}

/// A command's name with its arguments; more than two options are `[...]`.
fn call(command: &str, docs: &Reply) -> String {
    let arguments = docs.field("arguments");
    let arguments = arguments.array();
    let options = arguments.iter().filter(|argument| has_flag(argument, "optional")).count();
    let shown = arguments.iter().filter(|argument| options <= 2 || !has_flag(argument, "optional"));
    let mut words = vec![command.to_owned()];
    words.extend(shown.map(bracketed));
    if options > 2 {
        words.push("[...]".to_owned());
    }
    format!("`{}`", words.join(" "))
}

#[test]
fn tables_of_commands_equal_command_docs() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.call(&["HELLO", "3"]);
    let listed = client.call(&["COMMAND", "LIST", "FILTERBY", "MODULE", "allot"]);
    let mut names: Vec<String> = listed.array().iter().map(|name| name.text().to_uppercase()).collect();
    names.retain(|name| name.split_once('.').is_some_and(|(_, word)| word != "APPLY"));
    names.sort();
    for (table, prefixes) in [
        ("shows", &["SEAT."][..]),
        ("number pools", &["NUMPOOL."]),
        ("conferences and units", &["CONF.", "CMU."]),
        ("accounts", &["ACCOUNT."]),
        ("all values", &["ALLOT."]),
    ] {
        let ours = names.iter().filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        let rows = ours.map(|name| {
            let docs = client.call(&["COMMAND", "DOCS", name]).record().remove(0).1;
            vec![call(name, &docs), docs.field("summary").text()]
        });
        let rows: Vec<_> = rows.collect();
        check("docs/commands.md", table, &["command", "does"], &rows);
    }
}

/// The comment above the line of the module's sources that has this text.
fn comment_above(text: &str) -> String {
    let mut folders = vec![repository().join("module/src"), repository().join("module/core/src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.extend(comment_in(&path, text));
            }
        }
    }
    let [comment] = &found[..] else { panic!("{text} is defined in one place, and not in {}", found.len()) };
    comment.clone()
}

fn comment_in(file: &Path, text: &str) -> Option<String> {
    let source = fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.contains(text))?;
    let comment = lines[..at].iter().rev().map_while(|line| line.strip_prefix("/// "));
    let mut words: Vec<&str> = comment.collect();
    words.reverse();
    Some(words.join(" ").trim_end_matches('.').to_owned())
}

#[test]
fn table_of_module_settings_equals_the_server() {
    let server = RedisServer::builder().expect_errors().start();
    let mut client = server.raw();
    let listed = client.call(&["CONFIG", "GET", "allot.*"]);
    let rows = listed.record().into_iter().map(|(name, default)| {
        let refused = client.call(&["CONFIG", "SET", &name, "9223372036854775807"]);
        let range = refused.error().split_once("between ").unwrap().1.trim_end_matches(" inclusive");
        let range = range.replace(" and ", " to ");
        let bare = name.trim_start_matches("allot.");
        let meaning = comment_above(&format!("Setting::new(c\"{bare}\""));
        vec![format!("`{name}`"), default.text(), range, meaning]
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    check("docs/deploy.md", "settings of the module", &["setting", "default", "range", "meaning"], &rows);
}

#[test]
fn table_of_metrics_equals_the_code() {
    let rows = METRICS.iter().map(|metric| vec![format!("`{}`", metric.name), metric.help.to_owned()]);
    let rows: Vec<_> = rows.collect();
    check("docs/operate.md", "metrics of allotd", &["metric", "meaning"], &rows);
}

#[test]
fn every_metric_that_is_recorded_is_in_the_table() {
    let mut folders = vec![repository().join("orchestrator")];
    let mut recorded = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).unwrap();
                for kind in ["counter", "gauge", "histogram"] {
                    for rest in source.split(&format!("metrics::{kind}!(")).skip(1) {
                        // A name that is no literal comes from a constant of the caller.
                        let Some(name) = rest.trim_start().strip_prefix('"') else { continue };
                        let name = name.split('"').next().unwrap();
                        let known = METRICS.iter().any(|metric| metric.name == name);
                        assert!(known, "{}: {name} is not among the METRICS", path.display());
                        recorded += 1;
                    }
                }
            }
        }
    }
    assert!(recorded > 30, "{recorded} metrics are recorded");
}
