//! A real Redis Sentinel of a test's own, on loopback; killed when it is dropped.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::child::ChildProcess;
use crate::launch::{free_port, redis_server_binary};
use crate::raw::{RawClient, Reply};
use crate::redis_server::RedisServer;
use crate::tls::Certificates;
use crate::wait::{TIMEOUT, eventually};

/// The name by which Sentinels know the master.
pub const MASTER: &str = "main";

/// A Sentinel of the server's own program.
#[derive(Debug)]
pub struct Sentinel {
    _process: ChildProcess,
    port: u16,
    password: Option<String>,
    _dir: TempDir,
}

impl Sentinel {
    /// Looks after a master, whose replicas it finds by itself.
    #[track_caller]
    pub fn of(master: &RedisServer) -> Self {
        Self::start(master.port(), None, None)
    }

    /// The same, and answers only clients with the password.
    #[track_caller]
    pub fn with_password(master: &RedisServer, password: &str) -> Self {
        Self::start(master.port(), None, Some(password))
    }

    /// The same of a master that speaks TLS; so does the Sentinel.
    #[track_caller]
    pub fn of_tls(master: &RedisServer, certificates: &Certificates) -> Self {
        Self::start(master.tls_port(), Some(certificates), None)
    }

    fn start(master: u16, tls: Option<&Certificates>, password: Option<&str>) -> Self {
        for _ in 0..20 {
            let dir =
                tempfile::Builder::new().prefix("allot-sentinel-").tempdir().expect("a temporary folder");
            let (port, config) = (free_port(), dir.path().join("sentinel.conf"));
            let listen = tls.map_or_else(
                || format!("port {port}"),
                |tls| {
                    let settings = tls.settings();
                    let lines = settings.iter().map(|(name, value)| format!("{name} {value}"));
                    let lines: Vec<String> = lines.collect();
                    format!("port 0\ntls-port {port}\ntls-replication yes\n{}", lines.join("\n"))
                },
            );
            let password = password.map(str::to_owned);
            let lock = password.as_ref().map_or_else(String::new, |word| format!("requirepass {word}\n"));
            let text = format!(
                "{lock}{listen}\nbind 127.0.0.1\ndir {}\nsentinel monitor {MASTER} 127.0.0.1 {master} 1\n\
                 sentinel down-after-milliseconds {MASTER} 5000\nsentinel failover-timeout {MASTER} 5000\n",
                dir.path().display(),
            );
            fs::write(&config, text).expect("the temporary folder is writable");
            let process = ChildProcess::new("the Sentinel", dir.path().join("log"));
            process.spawn(Command::new(redis_server_binary()).arg(&config).arg("--sentinel"));
            let mut runs = true;
            eventually("the Sentinel to listen", TIMEOUT, || {
                runs = process.is_running();
                !runs || RawClient::try_connect(port).is_some()
            });
            if runs {
                return Self { _process: process, port, password, _dir: dir };
            }
            // Somebody else took the port between our looking and its binding.
        }
        panic!("the Sentinel found no free port in 20 attempts")
    }

    /// Waits until it has found so many replicas.
    #[track_caller]
    pub fn knows_replicas(&self, count: usize) {
        eventually(
            "the Sentinel to know the replicas",
            TIMEOUT,
            || matches!(self.ask("REPLICAS"), Some(Reply::Array(replicas)) if replicas.len() == count),
        );
    }

    /// Its answer to `SENTINEL word main`.
    pub fn ask(&self, word: &str) -> Option<Reply> {
        let mut client = RawClient::try_connect(self.port)?;
        if let Some(password) = &self.password {
            client.try_call(&["AUTH", password])?;
        }
        client.try_call(&["SENTINEL", word, MASTER])
    }

    /// Its address, as clients take it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}
