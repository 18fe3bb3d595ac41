//! Client systems that use accounts as `tests/python/account_client.py` does: processes, each with some instances,
//! and the folder that stands for the platform, where a second login leaves its trace.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::child::ChildProcess;
use crate::module::{python, repository};

/// A process with instances, which can be used as its [`ChildProcess`].
#[derive(Debug)]
pub struct Clients {
    process: ChildProcess,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Clients {
    /// A process with these instances (`department/module/host:port`).
    pub fn start(zookeeper: &str, platform: &Path, more: &[&str], instances: &[&str]) -> Self {
        let errors = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(platform.join(".log"))
            .expect("the folder is there");
        let mut child = Command::new(python())
            .arg(repository().join("tests/python/account_client.py"))
            .args(["--zookeeper", zookeeper, "--platform"])
            .arg(platform)
            .args(more)
            .args(instances)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("python runs");
        let input = child.stdin.take().expect("it was asked for");
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let process = ChildProcess::running("the client", platform.join(".log"), child);
        Self { process, input, output }
    }

    /// Asks for a line of JSON.
    #[track_caller]
    fn ask(&mut self, question: &str) -> Value {
        self.say(question);
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the client runs");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the client said {line:?}"))
    }

    /// Something happens to an instance: `come`, `go`, `mute`, `speak`, `hang`, `wake`, `return`, `unusable`, `use`,
    /// `lazy`, `leave`.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the client runs");
        self.input.flush().expect("the client runs");
    }

    /// How many instructions each instance has sent.
    #[track_caller]
    pub fn sent(&mut self) -> BTreeMap<String, i64> {
        let dump = self.ask("sent");
        let all = dump.as_object().expect("an object").iter();
        all.map(|(instance, sent)| (instance.clone(), sent.as_i64().expect("a number"))).collect()
    }

    /// What each instance uses now.
    #[track_caller]
    pub fn uses(&mut self) -> BTreeMap<String, Vec<String>> {
        let dump = self.ask("dump");
        let all = dump.as_object().expect("an object").iter();
        let names = |held: &Value| held.as_object().expect("an object").keys().cloned().collect();
        all.map(|(instance, held)| (instance.clone(), names(held))).collect()
    }
}

impl Deref for Clients {
    type Target = ChildProcess;

    fn deref(&self) -> &ChildProcess {
        &self.process
    }
}
