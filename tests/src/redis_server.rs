//! A real redis-server of a test's own: on loopback, in a folder of its own, gone when it is dropped.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use tempfile::TempDir;

use crate::child::ChildProcess;
use crate::health::complaints;
use crate::launch::{CLOCK, Failure, PANIC, free_port, spawn, wait_until_up};
use crate::module::{liballot, panicking_module};
use crate::raw::{RawClient, Reply};
use crate::tls::Certificates;
use crate::wait::{TIMEOUT, eventually};

/// How a server is to be started.
#[allow(clippy::struct_excessive_bools, reason = "switches that do not depend on each other")]
#[derive(Debug, Clone)]
pub struct Builder {
    module: bool,
    module_arguments: Vec<String>,
    settings: Vec<(String, String)>,
    cluster: bool,
    tls: Option<Vec<(&'static str, String)>>,
    errors_expected: bool,
    own_clock: bool,
    panics: bool,
    server: Option<PathBuf>,
}

impl Builder {
    /// Whether the server loads the module; it does unless told otherwise.
    #[must_use]
    pub fn module(mut self, module: bool) -> Self {
        self.module = module;
        self
    }

    /// An argument of `loadmodule`.
    #[must_use]
    pub fn module_arg(mut self, argument: &str) -> Self {
        self.module_arguments.push(argument.to_owned());
        self
    }

    /// A line of redis.conf, the value written as it is written there; later ones override earlier ones
    /// and the rig's own.
    #[must_use]
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it a clock that [`RedisServer::shift_clock`] sets.
    #[must_use]
    pub fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Gives it the module that panics where [`RedisServer::panic_at`] says.
    #[must_use]
    pub fn panics(mut self) -> Self {
        self.panics = true;
        self.expect_errors()
    }

    /// Starts this program instead of the server to test with.
    #[must_use]
    pub fn server(mut self, program: &Path) -> Self {
        self.server = Some(program.to_owned());
        self
    }

    /// Has it speak TLS as well, at a port of its own; replicas and nodes of its cluster are spoken to by TLS alone.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.tls = Some(certificates.settings());
        self
    }

    /// The test causes errors that the server counts as unexpected, so they do not fail the test at its end.
    #[must_use]
    pub fn expect_errors(mut self) -> Self {
        self.errors_expected = true;
        self
    }

    /// Makes it a node for a cluster.
    #[must_use]
    pub fn cluster_node(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Starts it and waits until it answers.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        let dir = tempfile::Builder::new().prefix("allot-redis-").tempdir().expect("a temporary folder");
        if self.own_clock {
            fs::write(dir.path().join(CLOCK), 0i64.to_ne_bytes()).expect("the temporary folder is writable");
        }
        if self.panics {
            fs::write(dir.path().join(PANIC), "").expect("the temporary folder is writable");
        }
        let process = ChildProcess::new("redis-server", dir.path().join("server.log"));
        for _ in 0..20 {
            let port = free_port();
            let bus_port = if self.cluster { Some(free_port()) } else { None };
            let tls_port = self.tls.as_ref().map(|_| free_port());
            self.write_config(dir.path(), port, bus_port, tls_port);
            spawn(&process, dir.path(), self.server.as_deref());
            match wait_until_up(&process, port) {
                Ok(()) => {
                    let errors_expected = self.errors_expected;
                    let server = self.server;
                    return RedisServer { process, port, bus_port, tls_port, dir, errors_expected, server };
                }
                // Somebody else took the port between our looking and the server's binding.
                Err(Failure::PortTaken) => {}
                Err(Failure::Other(why)) => panic!("redis-server did not start: {why}"),
            }
        }
        panic!("redis-server found no free port in 20 attempts")
    }

    fn write_config(&self, dir: &Path, port: u16, bus_port: Option<u16>, tls_port: Option<u16>) {
        let mut text = format!(
            "port {port}\nbind 127.0.0.1\ndaemonize no\ndir {}\nsave \"\"\nenable-debug-command yes\n\
             repl-diskless-sync-delay 0\nshutdown-timeout 0\n",
            dir.display()
        );
        if let Some(bus_port) = bus_port {
            // Without a port of its own the bus takes the port plus 10,000, which may not exist.
            let _ = write!(
                text,
                "cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-port {bus_port}\n\
                 cluster-node-timeout 5000\n"
            );
        }
        if let (Some(tls), Some(port)) = (&self.tls, tls_port) {
            let _ = writeln!(text, "tls-port {port}\ntls-replication yes\ntls-cluster yes");
            for (name, value) in tls {
                let _ = writeln!(text, "{name} {value}");
            }
        }
        for (name, value) in &self.settings {
            let value = if value.is_empty() { "\"\"" } else { value };
            let _ = writeln!(text, "{name} {value}");
        }
        if self.module {
            let module = if self.panics { panicking_module() } else { liballot() };
            let _ = writeln!(text, "loadmodule {} {}", module.display(), self.module_arguments.join(" "));
        }
        fs::write(dir.join("redis.conf"), text).expect("the temporary folder is writable");
    }
}

/// A running (or killed, or paused) redis-server, which can be used as its [`ChildProcess`].
///
/// When a test is done with it, it must not have counted any internal error, any replicated command that failed, or
/// hold a value that contradicts itself; [`Builder::expect_errors`] is the exception.
#[derive(Debug)]
pub struct RedisServer {
    process: ChildProcess,
    port: u16,
    bus_port: Option<u16>,
    tls_port: Option<u16>,
    dir: TempDir,
    errors_expected: bool,
    server: Option<PathBuf>,
}

impl RedisServer {
    /// The settings of a server that dies of a replicated command that fails.
    pub fn strict() -> Builder {
        Self::builder().arg("propagation-error-behavior", "panic")
    }

    /// Settings to start from: the module loaded, no snapshots, no append-only file.
    pub fn builder() -> Builder {
        Builder {
            module: true,
            module_arguments: Vec::new(),
            settings: Vec::new(),
            cluster: false,
            tls: None,
            errors_expected: false,
            own_clock: false,
            panics: false,
            server: None,
        }
    }

    /// A server with the module and nothing else set.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A connection in RESP2.
    #[track_caller]
    pub fn connection(&self) -> redis::Connection {
        self.connect(&self.url())
    }

    /// A connection in RESP3.
    #[track_caller]
    pub fn connection_resp3(&self) -> redis::Connection {
        self.connect(&format!("{}?protocol=resp3", self.url()))
    }

    #[track_caller]
    fn connect(&self, url: &str) -> redis::Connection {
        let client = redis::Client::open(url).expect("the rig's own address is well formed");
        client.get_connection().unwrap_or_else(|error| {
            panic!("no connection to redis-server on port {}: {error}\n{}", self.port, self.log())
        })
    }

    /// A client for exact replies.
    pub fn raw(&self) -> RawClient {
        RawClient::connect(self.port)
    }

    /// Its address, as clients take it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its port for TLS.
    #[track_caller]
    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("the server was started with certificates")
    }

    /// The port of its cluster bus.
    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.bus_port
    }

    /// Its working folder: append-only files, snapshots, configuration.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Ends it in an orderly way, saving if it is configured to.
    #[track_caller]
    pub fn shutdown(&self) {
        if self.is_started() {
            self.assert_healthy();
            RawClient::connect(self.port).send(&["SHUTDOWN"]);
            self.wait_for_end();
        }
    }

    /// Fails where the server has counted an error that no test expects, or holds a value that contradicts itself.
    #[track_caller]
    fn assert_healthy(&self) {
        if !self.errors_expected && self.is_running() {
            let complaints = complaints(self.port);
            assert!(complaints.is_empty(), "{}\n{}", complaints.join("\n"), self.log());
        }
    }

    /// Starts it again in the same folder, on the same port, with the same settings, and waits until it
    /// has loaded its data. A server that still runs is killed first.
    #[track_caller]
    pub fn restart(&self) {
        if let Err(why) = self.try_restart() {
            panic!("redis-server did not start again: {why}");
        }
    }

    /// As [`restart`](Self::restart), of a server that may refuse to start.
    ///
    /// # Errors
    /// Why it did not start, with its log.
    #[track_caller]
    pub fn try_restart(&self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            spawn(&self.process, self.dir(), self.server.as_deref());
            match wait_until_up(&self.process, self.port) {
                Ok(()) => return Ok(()),
                // An outgoing connection of some process may hold the port for a moment.
                Err(Failure::PortTaken) if start.elapsed() < TIMEOUT => {
                    thread::sleep(Duration::from_millis(50));
                }
                Err(Failure::PortTaken) => panic!("port {} was not free again", self.port),
                Err(Failure::Other(why)) => return Err(why),
            }
        }
    }

    /// Sets the clock of a server [of its own](Builder::own_clock) so many seconds ahead of that of the machine, or back to
    /// it. Time that elapses is not touched.
    #[track_caller]
    pub fn shift_clock(&self, seconds: i64) {
        // The server has the file mapped: it is written in place.
        let file =
            fs::OpenOptions::new().write(true).open(self.dir().join(CLOCK)).expect("the file of the clock");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("the file of the clock is writable");
    }

    /// Has the module [panic](Builder::panics) at this place from now on; nowhere if the name is empty.
    #[track_caller]
    pub fn panic_at(&self, place: &str) {
        fs::write(self.dir().join(PANIC), place).expect("the temporary folder is writable");
    }

    /// The file of the append-only log to which commands are appended.
    #[track_caller]
    pub fn append_only_file(&self) -> PathBuf {
        let files =
            fs::read_dir(self.dir().join("appendonlydir")).expect("the folder of an append-only file");
        let mut paths = files.map(|file| file.expect("a file").path());
        let found = paths.find(|path| path.to_string_lossy().ends_with(".incr.aof"));
        found.expect("a file to which commands are appended")
    }

    /// Sends one command, given as words between spaces, over a connection of its own.
    #[track_caller]
    pub fn command(&self, line: &str) -> Value {
        let mut words = line.split_ascii_whitespace();
        let mut command = redis::cmd(words.next().expect("a command has a name"));
        words.for_each(|word| {
            command.arg(word);
        });
        command.query(&mut self.connection()).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// A section of INFO, by field.
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        let text: String =
            redis::cmd("INFO").arg(section).query(&mut self.connection()).expect("INFO is answered");
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
            .collect()
    }

    /// One field of INFO.
    #[track_caller]
    pub fn info_field(&self, section: &str, field: &str) -> String {
        self.info(section).remove(field).unwrap_or_else(|| panic!("INFO {section} has no field {field}"))
    }

    /// What the server counted of a command: `calls` or `rejected_calls`.
    #[track_caller]
    pub fn counted(&self, command: &str, field: &str) -> u64 {
        let stat = self.info("commandstats");
        let found = stat.iter().find(|(name, _)| name.eq_ignore_ascii_case(&format!("cmdstat_{command}")));
        let parts = found.map_or("", |(_, line)| line).split(',');
        parts.filter_map(|part| part.split_once('=')).find(|(name, _)| *name == field).map_or(
            0,
            |(_, count)| {
                count.parse().unwrap_or_else(|error| panic!("{field} of {command} is {count}: {error}"))
            },
        )
    }

    /// Its role, `master` or `slave`. Nothing where it does not answer: Sentinel cuts all connections when it changes roles.
    pub fn role(&self) -> Option<String> {
        match RawClient::try_connect(self.port)?.try_call(&["ROLE"])? {
            Reply::Array(parts) => Some(parts.first()?.text()),
            _ => None,
        }
    }

    /// Makes it a replica of another server and waits until it is in step, and the master counts it.
    #[track_caller]
    pub fn replica_of(&self, master: &RedisServer) {
        self.command(&format!("REPLICAOF 127.0.0.1 {}", master.port));
        self.wait_replica_synced();
        master.wait_offset_equal(self);
        let entry = format!("port={},state=online", self.port);
        eventually("the master to count its replica", TIMEOUT, || {
            master.info("replication").values().any(|value| value.contains(&entry))
        });
    }

    /// On a replica: waits until the first transfer is over and the link is up.
    #[track_caller]
    pub fn wait_replica_synced(&self) {
        eventually("the replica's link to be up", TIMEOUT, || {
            self.info("replication").get("master_link_status").is_some_and(|status| status == "up")
        });
    }

    /// On a master: waits until the replica has applied all that was written here before the call.
    #[track_caller]
    pub fn wait_offset_equal(&self, replica: &RedisServer) {
        let offset = |server: &RedisServer, field: &str| {
            server.info("replication").get(field).and_then(|value| value.parse::<u64>().ok())
        };
        let target = offset(self, "master_repl_offset");
        eventually("the replica to reach the master's offset", TIMEOUT, || {
            target.is_some() && offset(replica, "slave_repl_offset") >= target
        });
    }

    /// `DEBUG DIGEST`: equal on servers that hold the same data.
    #[track_caller]
    pub fn digest(&self) -> String {
        redis::cmd("DEBUG").arg("DIGEST").query(&mut self.connection()).expect("DEBUG DIGEST is answered")
    }

    /// `DEBUG DIGEST-VALUE` of one key.
    #[track_caller]
    pub fn digest_value(&self, key: &str) -> String {
        let digests: Vec<String> = redis::cmd("DEBUG")
            .arg("DIGEST-VALUE")
            .arg(key)
            .query(&mut self.connection())
            .expect("DEBUG DIGEST-VALUE is answered");
        digests.into_iter().next().expect("one digest a key")
    }
}

impl Deref for RedisServer {
    type Target = ChildProcess;

    fn deref(&self) -> &ChildProcess {
        &self.process
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.assert_healthy();
        }
    }
}
