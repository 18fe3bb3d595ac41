//! Starting a redis-server on a port, and waiting until it answers.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::child::ChildProcess;
use crate::preload;
use crate::raw::{Reply, read_reply};
use crate::wait::TIMEOUT;

/// Why a server did not start.
pub(crate) enum Failure {
    PortTaken,
    Other(String),
}

/// The redis-server to test with: `ALLOT_REDIS_SERVER`, or the one in `PATH`.
pub fn redis_server_binary() -> PathBuf {
    if let Some(path) = env::var_os("ALLOT_REDIS_SERVER").map(PathBuf::from) {
        assert!(path.is_file(), "ALLOT_REDIS_SERVER names {}, which is not a file", path.display());
        return path;
    }
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("redis-server"))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!(
                "no redis-server in PATH; the tests need one (7.0 or later): `make deps`, or `apt-get install \
                 redis-server`, or name one by ALLOT_REDIS_SERVER=/path/to/redis-server"
            )
        })
}

/// How many ports `free_port` chooses from.
const PORTS: u16 = 12_000;

/// A port that nobody listens on just now, and that this process was not given lately: a server takes a second until
/// it listens, and other tests start servers meanwhile. It is below those that a system gives to outgoing connections
/// (on Linux from 32768 on): one of them would sit on the port of a server that was killed and is to come back, or,
/// where clients try that very port again and again, be connected to itself. The bus of a cluster's node, 10,000
/// above, is below them as well.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    if given.len() > usize::from(PORTS / 2) {
        given.clear();
    }
    let random = || RandomState::new().build_hasher().finish();
    let ports = std::iter::repeat_with(|| 10_000 + (random() % u64::from(PORTS)) as u16).take(1000);
    let free = |port: &u16| !given.contains(port) && TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = ports.into_iter().find(free).expect("loopback has a free port");
    given.insert(port);
    port
}

/// The file that says how far a server's own clock is ahead.
pub(crate) const CLOCK: &str = "clock";

/// The file that says at which place the module panics.
pub(crate) const PANIC: &str = "panic-at";

/// Starts a server with the `redis.conf` of its folder.
pub(crate) fn spawn(process: &ChildProcess, dir: &Path, server: Option<&Path>) {
    let mut command = Command::new(server.map_or_else(redis_server_binary, Path::to_owned));
    command.arg(dir.join("redis.conf"));
    if dir.join(CLOCK).exists() {
        command.env("LD_PRELOAD", preload::clock()).env("ALLOT_CLOCK", dir.join(CLOCK));
    }
    if dir.join(PANIC).exists() {
        command.env("ALLOT_PANIC_FILE", dir.join(PANIC));
    }
    process.spawn(&mut command);
}

/// Waits until a server that was started answers and has loaded its data.
pub(crate) fn wait_until_up(process: &ChildProcess, port: u16) -> Result<(), Failure> {
    let start = Instant::now();
    let logged_before = process.log().len();
    loop {
        if let Some(status) = process.exit_status() {
            let log = process.log();
            let tail = log.rsplit("oO0OoO0OoO0Oo Redis is starting").next().unwrap_or_default();
            if tail.contains("Address already in use") || tail.contains("Failed listening") {
                return Err(Failure::PortTaken);
            }
            return Err(Failure::Other(format!("it ended with {status}\n{log}")));
        }
        if answers(port) {
            return Ok(());
        }
        if start.elapsed() > TIMEOUT {
            process.kill9();
            let log = process.log();
            let news = log.get(logged_before..).unwrap_or(&log);
            return Err(Failure::Other(format!("no answer to PING in {TIMEOUT:?}\n{news}")));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the server answers and has loaded its data.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    std::io::Write::write_all(&mut stream, b"PING\r\n").is_ok()
        && read_reply(&mut std::io::BufReader::new(stream))
            .is_ok_and(|reply| !matches!(reply, Reply::Error(text) if text.starts_with("LOADING")))
}
