//! One suite for both: the module's `NUMPOOL.*` and the Functions library on a list and a hash reply alike and leave
//! numbers in the same states, in each of the thirty cells and in random sequences.

use allot_tests::module::repository;
use allot_tests::raw::RawClient;
use allot_tests::{Random, RedisServer, Reply, soak};

const STATES: [&str; 5] = ["nodata", "idle+up", "idle+down", "busy+up", "busy+down"];
const EVENTS: [&str; 6] = ["add", "del", "reg", "unreg", "call", "hangup"];

/// How the library is called: a function for each event, one function, or a script, as existing systems call theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Functions,
    Function,
    Script,
}

/// The two beside each other.
struct Pair {
    client: RawClient,
    form: Form,
    /// The SHA1 of the script.
    script: String,
}

/// A reply as both give it: the number of a call, a count, nothing, or an error with its text.
fn plain(reply: &Reply) -> String {
    match reply {
        Reply::Array(_) | Reply::Map(_) => reply.field("number").text(),
        Reply::Bulk(number) => String::from_utf8_lossy(number).into_owned(),
        Reply::Int(value) => value.to_string(),
        // A server adds where in a script an error arose.
        Reply::Error(text) => text.split(" script: ").next().unwrap_or_default().trim().to_owned(),
        other if other.is_null() => "nothing".into(),
        other => panic!("{other:?}"),
    }
}

impl Pair {
    fn on(server: &RedisServer) -> Self {
        Self::in_form(server, Form::Functions)
    }

    fn in_form(server: &RedisServer, form: Form) -> Self {
        let library = std::fs::read_to_string(repository().join("lua/allot.lua")).unwrap();
        let mut client = server.raw();
        let loaded = client.call(&["FUNCTION", "LOAD", "REPLACE", &library]);
        assert_eq!(loaded, Reply::bulk("allot"));
        let printed = std::process::Command::new(repository().join("lua/numpool.sh")).output().unwrap();
        let script = String::from_utf8(printed.stdout).unwrap();
        let script = client.call(&["SCRIPT", "LOAD", &script]).text();
        Self { client, form, script }
    }

    /// A fresh, empty pool in both.
    fn clear(&mut self) {
        self.client.words("DEL {m}:pool {f}:idle:up {f}:numstate");
        self.client.words("NUMPOOL.CONFIG {m}:pool");
    }

    fn module(&mut self, event: &str, numbers: &[&str]) -> String {
        let command = format!("NUMPOOL.{}", event.to_uppercase());
        let words: Vec<&str> = [&command, "{m}:pool"].into_iter().chain(numbers.iter().copied()).collect();
        plain(&self.client.call(&words))
    }

    fn function(&mut self, event: &str, numbers: &[&str]) -> String {
        let function = format!("numpool_{event}");
        let head: &[&str] = match self.form {
            // What reads has no other form.
            _ if event == "get" => &["FCALL", &function, "2", "{f}:idle:up", "{f}:numstate"],
            Form::Functions => &["FCALL", &function, "2", "{f}:idle:up", "{f}:numstate"],
            Form::Function => &["FCALL", "numpool", "1", "{f}", event],
            Form::Script => &["EVALSHA", &self.script, "1", "{f}", event],
        };
        let words: Vec<&str> = head.iter().chain(numbers).copied().collect();
        plain(&self.client.call(&words))
    }

    /// The same event in both; what both reply.
    #[track_caller]
    fn both(&mut self, event: &str, numbers: &[&str]) -> String {
        let (module, function) = (self.module(event, numbers), self.function(event, numbers));
        assert_eq!(module, function, "{event} {numbers:?}: the module, and the Functions library");
        module
    }

    /// The state of a number, the same in both.
    #[track_caller]
    fn state(&mut self, number: &str) -> String {
        let record = self.client.call(&["NUMPOOL.GET", "{m}:pool", number]);
        let module = match &record {
            Reply::Error(text) => text.clone(),
            record => record.field("state").text(),
        };
        let function = self.function("get", &[number]);
        assert_eq!(module, function, "the state of {number}");
        if module.starts_with("NOTFOUND ") { "nodata".into() } else { module }
    }

    /// The totals, the same in both.
    #[track_caller]
    fn totals(&mut self) {
        let module = self.client.words("NUMPOOL.INFO {m}:pool");
        let function = self.client.words("FCALL numpool_info 2 {f}:idle:up {f}:numstate");
        for field in ["total", "idle_up", "idle_down", "busy_up", "busy_down"] {
            assert_eq!(module.field(field), function.field(field), "{field}");
        }
    }
}

fn way_to(state: &str) -> &'static [&'static str] {
    match state {
        "nodata" => &[],
        "idle+down" => &["add"],
        "idle+up" => &["add", "reg"],
        "busy+up" => &["add", "reg", "call"],
        _ => &["add", "reg", "call", "unreg"],
    }
}

#[test]
fn all_thirty_cells_are_the_same() {
    let server = RedisServer::start();
    for form in [Form::Functions, Form::Function, Form::Script] {
        check_cells(&mut Pair::in_form(&server, form));
    }
}

#[test]
fn calling_form_of_existing_systems_takes_events_in_any_case() {
    let server = RedisServer::start();
    for form in [Form::Function, Form::Script] {
        let mut pair = Pair::in_form(&server, form);
        pair.clear();
        assert_eq!(pair.function("ADD", &["138"]), "1");
        assert_eq!(pair.function("Reg", &["138"]), "1");
        assert_eq!(pair.function("CALL", &[]), "138");
        assert_eq!(pair.function("CALL", &[]), "nothing");
        let record = Reply::bulk("{\"callstate\":1,\"regstate\":1}");
        assert_eq!(pair.client.words("HGET {f}:numstate 138"), record);
        assert_eq!(pair.function("hangup", &["138"]), "1");
        assert!(pair.function("dial", &["138"]).starts_with("ERR event 'dial' is not ADD"));
    }
}

fn check_cells(pair: &mut Pair) {
    for state in STATES {
        for event in EVENTS {
            pair.clear();
            // Others in the queue, before it and behind.
            pair.both("add", &["1", "2"]);
            pair.both("reg", &["1"]);
            for step in way_to(state) {
                pair.both(step, &["138"]);
            }
            pair.both("reg", &["2"]);
            assert_eq!(pair.state("138"), state);
            let reply = pair.both(event, &["138"]);
            let next = pair.state("138");
            pair.totals();
            // Who is called next, and next, tells the queue.
            let queue: Vec<String> = (0..4).map(|_| pair.both("call", &[])).collect();
            eprintln!("{state:9} {event:6} -> {next:9} {reply}; the queue was {queue:?}");
            assert_eq!(queue.last().map(String::as_str), Some("nothing"));
        }
    }
}

#[test]
fn random_sequences_are_the_same() {
    let server = RedisServer::start();
    let mut pair = Pair::on(&server);
    let mut random = Random::new(51);
    let numbers: Vec<String> = (0..20).map(|n| format!("{}", 100 + n)).collect();
    for step in 0..soak(20_000, 500_000) {
        if step % 2000 == 0 {
            pair.clear();
        }
        let mut one = || numbers[random.below(numbers.len())].clone();
        let (a, b, c) = (one(), one(), one());
        let event = *random.of(&[
            "add", "add", "del", "reg", "reg", "reg", "unreg", "call", "call", "call", "hangup", "hangup",
            "hangup",
        ]);
        match event {
            "call" if !random.once_in(5) => pair.both("call", &[]),
            "call" | "hangup" => pair.both(event, &[&a]),
            _ if random.once_in(4) => pair.both(event, &[&a, &b, &c]),
            _ => pair.both(event, &[&a]),
        };
        pair.state(&a);
        if step % 100 == 0 {
            pair.totals();
        }
    }
}

#[test]
fn invalid_number_is_refused_in_the_same_words() {
    let server = RedisServer::start();
    let mut pair = Pair::on(&server);
    pair.clear();
    let long = "1".repeat(33);
    for event in ["add", "del", "reg", "unreg", "hangup"] {
        for bad in ["", "x", "12a", "1 2", "\u{7f}", "1\r\n", &long] {
            assert!(pair.both(event, &[bad]).starts_with("ERR number '"), "{event} {bad:?}");
        }
    }
}
