//! A console to test with.

use serde_json::{Value, json};

use crate::http::{Answer, Events, request};
use crate::process::Process;
use crate::realms::REALM;
use crate::redis_server::RedisServer;
use crate::wait::{TIMEOUT, eventually};

/// A running console.
pub struct Console {
    /// Its process.
    pub process: Process,
    /// Its port.
    pub port: u16,
}

/// The header that an action needs.
pub const ACTION: (&str, &str) = ("X-Allot-Request", "1");

impl Console {
    /// Starts a console on this server, with these further settings, and waits until it serves requests.
    #[track_caller]
    pub fn start(server: &RedisServer, more: &[&str]) -> Self {
        Self::start_with(server, more, &[])
    }

    /// As [`start`](Self::start), with these variables in its environment.
    #[track_caller]
    pub fn start_with(server: &RedisServer, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let url = server.url();
        let arguments =
            ["--name", "console", "--realm", REALM, "--redis-url", &url, "--console-listen", "127.0.0.1:0"];
        let process = Process::console(&[&arguments[..], more].concat());
        let process = variables.iter().fold(process, |process, (name, value)| process.with(name, value));
        process.start();
        let mut port = None;
        eventually("the console to listen", TIMEOUT, || {
            let log = process.log();
            let line = log.lines().find(|line| line.contains("console by HTTP"));
            port = line.and_then(|line| line.rsplit_once("127.0.0.1:")?.1.trim_end_matches('"').parse().ok());
            port.is_some()
        });
        let console = Self { process, port: port.expect("a port") };
        // Where it uses ZooKeeper, requests are refused until it has a session.
        eventually("the console's session", TIMEOUT, || {
            !more.contains(&"--zookeeper-servers") || console.get("compaction/history").status != 503
        });
        console
    }

    /// The address of a page.
    pub fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Reads an endpoint.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        request(self.port, &format!("GET /api/v1/{path}"), &[], "")
    }

    /// Acts, as the page does.
    #[track_caller]
    pub fn act(&self, path: &str, body: &Value) -> Answer {
        let headers = [ACTION, ("Content-Type", "application/json")];
        request(self.port, &format!("POST /api/v1/{path}"), &headers, &body.to_string())
    }

    /// Sends a command of Redis, as the page does: its name, its key and further words.
    #[track_caller]
    pub fn send(&self, words: &[&str]) -> Answer {
        let [command, key, arguments @ ..] = words else {
            panic!("a command and its key, and not {words:?}")
        };
        self.act("command", &json!({"command": command, "key": key, "arguments": arguments}))
    }

    /// The result of a command that succeeds.
    #[track_caller]
    pub fn sent(&self, words: &[&str]) -> Value {
        let answer = self.send(words);
        assert_eq!(answer.status, 200, "{words:?}: {}", answer.body);
        answer.json()["result"].clone()
    }

    /// Listens to the events of a key.
    #[track_caller]
    pub fn events(&self, key: &str) -> Events {
        Events::open(self.port, &format!("/api/v1/events?topics=[%22{key}%22]"))
    }
}
