//! Real ZooKeeper servers of a test's own, one or an ensemble: on loopback, in folders of their own, killed,
//! stopped and started by their process ids, gone when they are dropped.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use allot_coordination::session::Connector;
use allot_coordination::{Coordinator, Error, Tree};

use tempfile::TempDir;

use crate::child::ChildProcess;
use crate::launch::free_port;
use crate::wait::{TIMEOUT, eventually};

/// The ensemble's unit of time. Sessions may be as short as twice this.
pub const TICK: Duration = Duration::from_millis(500);

/// Where Debian's package puts the server.
const DEBIAN_JAR: &str = "/usr/share/java/zookeeper.jar";

/// One ZooKeeper server, which can be used as its [`ChildProcess`].
#[derive(Debug)]
pub struct ZooKeeperServer {
    process: ChildProcess,
    port: u16,
    dir: TempDir,
    jvm: Vec<String>,
}

impl ZooKeeperServer {
    /// A server that stands alone, ready.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with("", &[])
    }

    /// The same with these lines in its configuration, and these arguments of its Java.
    #[track_caller]
    pub fn start_with(lines: &str, jvm: &[String]) -> Self {
        let mut last = String::new();
        for _ in 0..10 {
            let server = Self { jvm: jvm.to_vec(), ..Self::configure(1, free_port(), lines) };
            server.start_process();
            match server.wait_until_ready() {
                Ok(()) => return server,
                // Somebody else may take the port between our looking and the server's binding. The server does not say
                // so where it has no logger.
                Err(why) => last = why,
            }
        }
        panic!("ZooKeeper did not start in 10 attempts: {last}")
    }

    /// Its port without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it, removes its data and starts it again.
    #[track_caller]
    pub fn start_empty(&self) {
        self.kill9();
        fs::remove_dir_all(self.dir.path().join("data/version-2")).expect("it has data");
        self.start_process();
        self.wait_until_ready().expect("it starts");
    }

    /// Its address, as clients take it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `standalone`, `leader` or `follower`, if it serves.
    pub fn mode(&self) -> Option<String> {
        self.ask("srvr")?.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// The answer to a word of four letters.
    pub fn ask(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// One of the figures that it keeps, by its name in the answer to `mntr`.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let told = self.ask("mntr")?;
        let line = told.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// Starts it again on its port, with its data, without waiting until it serves: one of an ensemble may
    /// need another for that.
    #[track_caller]
    pub fn restart(&self) {
        self.start_process();
    }

    fn configure(id: usize, port: u16, ensemble: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("allot-zookeeper-").tempdir().expect("a temporary folder");
        let path = dir.path();
        fs::create_dir(path.join("data")).expect("the temporary folder is writable");
        fs::write(path.join("data/myid"), id.to_string()).expect("the temporary folder is writable");
        // A process that is killed loses nothing that it has written, and a slow disk holds up nobody's session.
        let text = format!(
            "tickTime={}\nmaxSessionTimeout=60000\ndataDir={}/data\nclientPort={port}\n\
             clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n\
             maxClientCnxns=0\nforceSync=no\n{ensemble}",
            TICK.as_millis(),
            path.display()
        );
        fs::write(path.join("zoo.cfg"), text).expect("the temporary folder is writable");
        let process = ChildProcess::new("ZooKeeper", path.join("server.log"));
        Self { process, port, dir, jvm: Vec::new() }
    }

    fn start_process(&self) {
        let path = self.dir.path();
        let mut command = Command::new(java());
        command
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args(&self.jvm)
            .arg("-cp")
            .arg(format!("{}:{}", path.display(), classpath()))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(path.join("zoo.cfg"));
        self.spawn(&mut command);
    }

    /// Waits until it serves.
    fn wait_until_ready(&self) -> Result<(), String> {
        let start = Instant::now();
        while self.mode().is_none() {
            if let Some(status) = self.exit_status() {
                return Err(format!("it ended with {status}\n{}", self.log()));
            }
            if start.elapsed() > TIMEOUT {
                return Err(format!("no answer to srvr in {TIMEOUT:?}\n{}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Deref for ZooKeeperServer {
    type Target = ChildProcess;

    fn deref(&self) -> &ChildProcess {
        &self.process
    }
}

/// Three ZooKeeper servers that follow one of them, or one that stands alone.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<ZooKeeperServer>,
}

impl Ensemble {
    /// Three servers, ready.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// The same with these lines in their configuration, which stand over the rig's own.
    #[track_caller]
    pub fn start_with(lines: &str) -> Self {
        let mut last = String::new();
        for _ in 0..10 {
            let mut text = format!("initLimit=10\nsyncLimit=5\nstandaloneEnabled=false\n{lines}");
            for id in 1..=3 {
                let _ = writeln!(text, "server.{id}=127.0.0.1:{}:{}", free_port(), free_port());
            }
            let servers: Vec<_> =
                (1..=3).map(|id| ZooKeeperServer::configure(id, free_port(), &text)).collect();
            servers.iter().for_each(ZooKeeperServer::start_process);
            match servers.iter().try_for_each(ZooKeeperServer::wait_until_ready) {
                Ok(()) => return Self { servers },
                // A port may be taken between our looking and a server's binding; other ports, then.
                Err(why) => last = why,
            }
        }
        panic!("no ensemble of ZooKeeper servers in 10 attempts: {last}")
    }

    /// One server that stands alone, ready.
    #[track_caller]
    pub fn alone() -> Self {
        Self { servers: vec![ZooKeeperServer::start()] }
    }

    /// The addresses, as clients take them.
    pub fn address(&self) -> String {
        self.servers.iter().map(ZooKeeperServer::address).collect::<Vec<_>>().join(",")
    }

    /// All servers.
    pub fn servers(&self) -> &[ZooKeeperServer] {
        &self.servers
    }

    /// The one that leads.
    #[track_caller]
    pub fn leader(&self) -> &ZooKeeperServer {
        self.with_mode("leader")
    }

    /// One that follows.
    #[track_caller]
    pub fn follower(&self) -> &ZooKeeperServer {
        self.with_mode("follower")
    }

    /// Kills all servers at once.
    pub fn kill9(&self) {
        self.servers.iter().for_each(|server| server.kill9());
    }

    /// All servers run and follow one of them; those that were killed or stopped come back.
    #[track_caller]
    pub fn restore(&self) {
        for server in &self.servers {
            if server.is_running() {
                server.resume();
            } else {
                server.restart();
            }
        }
        eventually("the ensemble to be whole", TIMEOUT, || {
            self.servers.iter().all(|server| server.mode().is_some())
        });
    }

    /// The names of a node's children, as some server has them.
    #[track_caller]
    pub fn children(&self, path: &str) -> Vec<String> {
        children(&self.address(), path)
    }

    #[track_caller]
    fn with_mode(&self, mode: &str) -> &ZooKeeperServer {
        let mut found = None;
        eventually(&format!("a ZooKeeper server that is {mode}"), TIMEOUT, || {
            found = self.servers.iter().find(|server| server.mode().as_deref() == Some(mode));
            found.is_some()
        });
        found.expect("it was waited for")
    }
}

/// Asks again as long as nobody can say: a connection may be lost at any moment.
pub async fn patient<T>(ask: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match ask().await {
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(50)).await,
            answer => return answer,
        }
    }
}

/// Does something with the tree at these addresses. It may block: the session is kept by another thread.
#[track_caller]
pub fn on_tree<T, F: Future<Output = T>>(address: &str, act: impl FnOnce(Tree) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let connector = allot_coordination::zookeeper::ZooKeeper::new(address.parse().unwrap(), TIMEOUT);
        let connector: Arc<dyn Connector> = Arc::new(connector);
        let coordinator = Coordinator::start(connector);
        coordinator.up().await.expect("ZooKeeper is up");
        let done = act(coordinator.tree()).await;
        coordinator.close().await;
        done
    })
}

/// The names of a node's children; none where it is not there.
#[track_caller]
pub fn children(address: &str, path: &str) -> Vec<String> {
    on_tree(
        address,
        |tree| async move { patient(async || tree.children(path).await).await.unwrap_or_default() },
    )
}

/// What the server's classes are in: `ALLOT_ZOOKEEPER_CLASSPATH`, or Debian's package.
fn classpath() -> String {
    if let Ok(given) = env::var("ALLOT_ZOOKEEPER_CLASSPATH") {
        return given;
    }
    assert!(
        Path::new(DEBIAN_JAR).is_file(),
        "there is no {DEBIAN_JAR}; the tests need a ZooKeeper server (3.6 or later): `make deps`, or `apt-get \
         install zookeeper`, or name its classes by ALLOT_ZOOKEEPER_CLASSPATH='/opt/zookeeper/lib/*'"
    );
    // Netty is needed for TLS only.
    let netty = ["buffer", "codec", "common", "handler", "resolver", "transport"];
    let jars = netty.map(|part| format!("/usr/share/java/netty-{part}.jar"));
    format!("{DEBIAN_JAR}:{}", jars.join(":"))
}

fn java() -> PathBuf {
    if let Some(home) = env::var_os("JAVA_HOME") {
        let java = Path::new(&home).join("bin/java");
        if java.is_file() {
            return java;
        }
    }
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("java"))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!(
                "no java in PATH or JAVA_HOME; the tests need one to run ZooKeeper: `make deps`, or `apt-get \
                 install default-jre-headless`"
            )
        })
}
