//! `allotd run` or `allot console` as a process of a test's own, behind wires of its own, with its log in a file.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use crate::child::ChildProcess;
use crate::module::{allot, allotd};
use crate::proxy::Proxy;

/// A daemon, which can be used as its [`ChildProcess`].
#[derive(Debug)]
pub struct Process {
    /// What the test calls it.
    pub name: String,
    /// Its wire to Redis.
    pub redis: Option<Proxy>,
    /// Its wires to the ZooKeeper servers.
    pub zookeeper: Vec<Proxy>,
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    child: ChildProcess,
    ours: bool,
    _dir: TempDir,
}

impl Process {
    /// `allotd run` with these arguments, not yet running.
    pub fn new(name: &str, arguments: &[&str]) -> Self {
        let all = [&["run", "--http-listen", "127.0.0.1:0"], arguments].concat();
        Self::of(name, allotd(), &all, true)
    }

    /// `allot console` with these arguments, not yet running.
    pub fn console(arguments: &[&str]) -> Self {
        let all = [&["console", "--http-listen", "127.0.0.1:0"], arguments].concat();
        Self::of("console", allot(), &all, true)
    }

    /// Any program with these arguments, not yet running.
    pub fn other(name: &str, program: PathBuf, arguments: &[&str]) -> Self {
        Self::of(name, program, arguments, false)
    }

    fn of(name: &str, program: PathBuf, arguments: &[&str], ours: bool) -> Self {
        let dir = tempfile::Builder::new().prefix("allot-process-").tempdir().expect("a temporary folder");
        Self {
            name: name.to_owned(),
            redis: None,
            zookeeper: Vec::new(),
            program,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            variables: Vec::new(),
            child: ChildProcess::new(name, dir.path().join("log")),
            ours,
            _dir: dir,
        }
    }

    /// With this variable in its environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Behind a wire to Redis at this port.
    #[must_use]
    pub fn behind_redis(mut self, port: u16) -> Self {
        let proxy = Proxy::to(port);
        self.variables.push(("ALLOT_REDIS_URL".into(), format!("redis://127.0.0.1:{}", proxy.port())));
        self.redis = Some(proxy);
        self
    }

    /// Behind wires to ZooKeeper servers at these addresses.
    #[must_use]
    pub fn behind_zookeeper(mut self, addresses: &str) -> Self {
        let port = |address: &str| address.rsplit(':').next().and_then(|port| port.parse().ok());
        self.zookeeper =
            addresses.split(',').map(|address| Proxy::to(port(address).expect("a port"))).collect();
        let all: Vec<String> =
            self.zookeeper.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
        self.variables.push(("ALLOT_ZOOKEEPER".into(), all.join(",")));
        self
    }

    /// Whether it is a program of Allot, which tells of itself by HTTP.
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// Starts it; one that runs is killed first.
    pub fn start(&self) {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        // What the tester's own environment says is not meant here.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALLOT_")) {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.spawn(&mut command);
    }

    /// Asks it to end, and waits until it has.
    #[track_caller]
    pub fn terminate(&self) -> ExitStatus {
        self.signal("TERM");
        self.wait_for_end()
    }

    /// Cuts it off Redis.
    pub fn cut_redis(&self) {
        self.redis.iter().for_each(Proxy::cut);
    }

    /// Cuts it off ZooKeeper.
    pub fn cut_zookeeper(&self) {
        self.zookeeper.iter().for_each(Proxy::cut);
    }

    /// All its wires are whole again.
    pub fn heal(&self) {
        self.redis.iter().chain(&self.zookeeper).for_each(Proxy::heal);
    }

    /// Status and body of an answer of its HTTP port.
    pub fn http(&self, path: &str) -> Option<(u16, String)> {
        self.request("GET", path)
    }

    /// The same of a request with this method, without a body.
    pub fn request(&self, method: &str, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http_port()?)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }

    /// The port that it found for itself when it was started last.
    fn http_port(&self) -> Option<u16> {
        let log = self.log();
        // As text it is `address=...`, as JSON `"address":"..."`.
        let line = log.lines().rfind(|line| line.contains("metrics and probes by HTTP"))?;
        let (_, port) = line.rsplit_once("127.0.0.1:")?;
        port.trim_end_matches(['"', '}']).parse().ok()
    }

    /// A metric, by its name with labels as they are written.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (_, body) = self.http("/metrics")?;
        body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.http("/readyz").is_some_and(|(status, _)| status == 200)
    }
}

impl Deref for Process {
    type Target = ChildProcess;

    fn deref(&self) -> &ChildProcess {
        &self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines.get(lines.len().saturating_sub(40)..).unwrap_or(&lines);
            eprintln!("---- the last of what {} said\n{}", self.name, tail.join("\n"));
        }
    }
}
