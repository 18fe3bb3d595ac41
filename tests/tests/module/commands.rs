//! The command table on a live server: what `COMMAND DOCS` says is what docs/ says and what the parser does; and
//! `ALLOT.CHECK`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;

use allot_core::seat::Event;
use allot_core::seat::claims::Seats;
use allot_core::shared::codec::Writer;
use allot_core::shared::event::MachineEvent;
use allot_core::shared::payload;
use allot_tests::module::repository;
use allot_tests::raw::encode;
use allot_tests::shows::{create, no_internal_errors, sample_venue, sample_venue_with};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Keywords of a command, and whether each is optional everywhere it occurs.
type Keywords = BTreeMap<String, bool>;

fn note(keywords: &mut Keywords, word: &str, optional: bool) {
    let everywhere = keywords.entry(word.to_owned()).or_insert(true);
    *everywhere = *everywhere && optional;
}

/// The keywords of one argument of `COMMAND DOCS`. Words among which a keyword's value is chosen are `choices`.
fn walk(argument: &Reply, optional: bool, keywords: &mut Keywords, choices: &mut BTreeSet<String>) {
    let field = |name: &str| {
        let pairs = argument.array().chunks_exact(2);
        pairs.into_iter().find(|pair| pair[0].text() == name).map(|pair| &pair[1])
    };
    let flags = field("flags").map(|flags| flags.array().iter().map(Reply::text).collect::<Vec<_>>());
    let optional = optional || flags.is_some_and(|flags| flags.contains(&"optional".to_owned()));
    let token = field("token").map(Reply::text);
    if let Some(token) = &token {
        note(keywords, token, optional);
    }
    let kind = field("type").unwrap().text();
    for inner in field("arguments").map(Reply::array).unwrap_or_default() {
        if kind == "oneof" && token.is_some() {
            walk(inner, true, &mut BTreeMap::new(), choices);
            choices.extend(
                inner
                    .array()
                    .chunks_exact(2)
                    .filter(|pair| pair[0].text() == "token")
                    .map(|pair| pair[1].text()),
            );
        } else {
            // One of several is never required by itself.
            walk(inner, optional || kind == "oneof", keywords, choices);
        }
    }
}

/// The keywords of a line of syntax such as `CMU.DRAIN key cmu [OFF|MOVE] [TERM t]`: words in capital letters.
fn keywords_of_line(line: &str, keywords: &mut Keywords) {
    let mut depth = 0usize;
    let mut word = String::new();
    for letter in line.chars().chain([' ']) {
        if letter.is_ascii_alphanumeric() || letter == '-' {
            word.push(letter);
            continue;
        }
        if word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase()) {
            note(keywords, &word, depth > 0 || letter == '|' || line.contains(&format!("|{word}")));
        }
        word.clear();
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
    }
}

/// Lines of syntax in docs/, by command; a command may have several.
fn documented_syntax() -> BTreeMap<String, Vec<String>> {
    let mut syntax: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in fs::read_dir(repository().join("docs")).unwrap() {
        let path = file.unwrap().path();
        if path.extension() != Some(OsStr::new("md")) {
            continue;
        }
        let mut command: Option<String> = None;
        for line in fs::read_to_string(&path).unwrap().lines() {
            let Some(text) = line.strip_prefix("    ") else {
                command = None;
                continue;
            };
            let first = text.split(' ').next().unwrap_or_default();
            let family = first.split_once('.').map(|(family, _)| family);
            if matches!(family, Some("SEAT" | "NUMPOOL" | "CONF" | "CMU" | "ACCOUNT" | "ALLOT"))
                && text.split(' ').nth(1).is_some_and(|word| word == "key" || word == "numkeys")
            {
                command = Some(first.to_owned());
                let rest = text[first.len()..].to_owned();
                syntax.entry(first.to_owned()).or_default().push(rest);
            } else if let Some(lines) = command.as_ref().and_then(|command| syntax.get_mut(command))
                && text.starts_with(' ')
                && let Some(last) = lines.last_mut()
            {
                last.push_str(text);
            } else {
                command = None;
            }
        }
    }
    syntax
}

#[test]
fn documented_syntax_is_that_of_the_command_table() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let syntax = documented_syntax();
    let names = client.words("COMMAND LIST FILTERBY MODULE allot");
    assert!(names.array().len() > 70);
    for name in names.array().iter().map(|name| name.text().to_uppercase()) {
        let lines = syntax.get(&name).unwrap_or_else(|| panic!("docs/ has no line of syntax for {name}"));
        let mut documented = Keywords::new();
        lines.iter().for_each(|line| keywords_of_line(line, &mut documented));
        let reply = client.words(&format!("COMMAND DOCS {name}"));
        let record = &reply.array()[1];
        let pairs = record.array().chunks_exact(2);
        let arguments = pairs.into_iter().find(|pair| pair[0].text() == "arguments").unwrap()[1].clone();
        let (mut table, mut choices) = (Keywords::new(), BTreeSet::new());
        for argument in arguments.array() {
            walk(argument, false, &mut table, &mut choices);
        }
        for (keyword, optional) in &table {
            let found = documented.get(keyword);
            assert!(found.is_some(), "docs/ does not name {keyword} of {name}: {lines:?}");
            // Where a command has several lines, each has what is required in that form.
            assert!(lines.len() > 1 || found == Some(optional), "{name}: is {keyword} optional? {lines:?}");
        }
        for keyword in documented.keys() {
            // `ANY` stands in the place of a unit's name.
            let is_value = (name.as_str(), keyword.as_str()) == ("CONF.PLAN", "ANY");
            let known = table.contains_key(keyword) || choices.contains(keyword) || is_value;
            assert!(known, "docs/ names {keyword}, which {name} does not have: {lines:?}");
        }
    }
}

#[test]
fn options_that_exclude_each_other_are_a_syntax_error() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.words("CONF.REALM r");
    client.words("CMU.JOIN r u:1:1 CAPACITY 5 LEASE 3600000");
    for (line, error) in [
        ("CMU.DRAIN r u:1:1 OFF MOVE", "ERR syntax error: 'MOVE' is not expected here"),
        ("CMU.DRAIN r u:1:1 MOVE TERM 0 off", "ERR syntax error: 'off' is not expected here"),
        ("CMU.DRAIN r u:1:1 OFF OFF", "ERR option 'OFF' is given twice"),
        ("NUMPOOL.UNREG p 1 SWITCH s", "ERR syntax error: 'SWITCH' is not expected here"),
        ("NUMPOOL.UNREG p SWITCH", "ERR option 'SWITCH' has no value"),
        ("SEAT.REFUND s ORDER a ORDER b 1 x", "ERR option 'ORDER' is given twice"),
    ] {
        assert_eq!(client.words(line).error(), error, "{line}");
    }
    assert_eq!(client.words("CMU.DRAIN r u:1:1 TERM 0 MOVE").field("moves").int(), 0);
    assert_eq!(client.words("CMU.DRAIN r u:1:1 off").field("draining").int(), 0);
}

#[test]
fn check_finds_no_fault_in_values_of_every_family() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue_with(2, 6, r#""limits":{"seats_per_user":4}"#));
    let mut client = server.raw();
    for line in [
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN a",
        "SEAT.CONFIRM show a",
        "SEAT.HOLD show bob 2 TTL 60000",
        "NUMPOOL.ADD pool 1 2 3",
        "NUMPOOL.REG pool 1 2",
        "NUMPOOL.CALL pool",
        "CONF.REALM {r}",
        "CMU.JOIN {r} u:1:1 CAPACITY 5",
        "CONF.CREATE {r} 7",
        "ACCOUNT.BOOK book",
        "ACCOUNT.MODULE book m DEPARTMENT d INSTANCES 1",
        "ACCOUNT.ADD book m QUOTA 5 ACCOUNTS 2 x y",
        "ACCOUNT.ATTACH book m i",
        "SET text 1",
    ] {
        assert!(!matches!(client.words(line), Reply::Error(_)), "{line}");
    }
    for key in ["show", "pool", "{r}", "book"] {
        assert_eq!(client.words(&format!("ALLOT.CHECK {key}")), Reply::Simple("OK".to_owned()), "{key}");
    }
    assert!(client.words("ALLOT.CHECK text").error().starts_with("WRONGTYPE "));
    assert_eq!(client.words("ALLOT.CHECK none").error(), "NOKEY there is no key 'none'");
    assert!(client.words("ALLOT.CHECK").error().starts_with("ERR wrong number of arguments"));
    no_internal_errors(&server);
}

#[test]
fn server_stops_at_an_event_that_does_not_fit() {
    let server = RedisServer::builder().arg("appendonly", "yes").expect_errors().start();
    create(&server, "show", &sample_venue(2, 6));
    server.shutdown();
    // Sound, and about a seat that the show does not have.
    let mut payload = Writer::default();
    payload::begin_events(1, &mut payload);
    Event::Blocked { name: None, until: None, per_user: None, seats: Seats::from_slice(&[99]) }
        .encode(&mut payload);
    payload::seal(b"show", &mut payload);
    let mut file = fs::OpenOptions::new().append(true).open(server.append_only_file()).unwrap();
    file.write_all(&encode(&[&b"SEAT.APPLY"[..], b"show", &payload.bytes])).unwrap();
    drop(file);
    let log = server.try_restart().expect_err("the server serves a value that differs");
    let line = "allot: the server stops type=allotseat key='show': an event of key 'show' in the append-only file cannot be \
                applied: damaged payload:";
    assert!(log.contains(line), "{log}");
}

#[test]
fn replica_stops_at_an_event_that_does_not_fit() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    create(&master, "show", &sample_venue(2, 6));
    replica.replica_of(&master);
    replica.command("CONFIG SET replica-read-only no");
    replica.command("DEL show");
    master.raw().words("SEAT.HOLD show ann 2 TTL 60000");
    eventually("the replica to stop", TIMEOUT, || !replica.is_running());
    let line =
        "an event of key 'show' from the master cannot be applied: damaged payload: there is no such key";
    assert!(replica.log().contains(line), "{}", replica.log());
    // A start synchronises it again.
    replica.restart();
    replica.replica_of(&master);
    master.wait_offset_equal(&replica);
    assert_eq!(replica.digest_value("show"), master.digest_value("show"));
    no_internal_errors(&master);
}
