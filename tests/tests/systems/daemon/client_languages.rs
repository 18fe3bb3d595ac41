//! The programs of `examples/clients/` do what they say, each with a real client library of its language, also when the
//! network loses replies; and the cluster clients ask the right master at once.
//!
//! `scripts/deps.sh --clients` installs the languages and libraries. Where one is missing its test says so and passes,
//! except in CI (`CI=true`), which has all of them but Java's library: no registry that CI reaches has that one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use allot_tests::module::{python, repository};
use allot_tests::{Cluster, LostReplies, RedisServer};
use tempfile::TempDir;

/// What each program prints on a server without a show or a pool.
const PRINTED: &str = "held box-1-1 box-1-2\nsold 2\ncalled 5550100\nhung up\nevent held\nevent confirmed\n";

/// Whether CI must have what this test needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InCi {
    Needed,
    Optional,
}

/// A program of `examples/clients/`, ready to be run with host and port.
struct Program {
    command: PathBuf,
    arguments: Vec<PathBuf>,
    environment: Vec<(&'static str, PathBuf)>,
    /// What was compiled for it, removed after the test.
    _folder: Option<TempDir>,
}

impl Program {
    fn interpreted(command: impl Into<PathBuf>, file: &str) -> Self {
        let arguments = vec![source(file)];
        Self { command: command.into(), arguments, environment: Vec::new(), _folder: None }
    }

    fn compiled(folder: TempDir) -> Self {
        let command = folder.path().join("program");
        Self { command, arguments: Vec::new(), environment: Vec::new(), _folder: Some(folder) }
    }

    fn with(mut self, variable: &'static str, value: impl Into<PathBuf>) -> Self {
        self.environment.push((variable, value.into()));
        self
    }

    /// Runs it and returns what it printed.
    #[track_caller]
    fn run(&self, port: u16) -> String {
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        let output = run(Command::new(&self.command)
            .args(&self.arguments)
            .args(["127.0.0.1", &port.to_string()])
            .envs(environment));
        assert!(output.status.success(), "{}: {}", self.command.display(), both(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn source(file: &str) -> PathBuf {
    repository().join("examples/clients").join(file)
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    // A program that hangs ends, and says nothing more.
    let mut limited = Command::new("timeout");
    limited.arg("120").arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(Stdio::null()).output().expect("timeout runs")
}

fn both(output: &Output) -> String {
    let [printed, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{}\n{printed}\n{errors}", output.status)
}

/// Whether a language and its library are there, which this command proves. If not, says how to get them.
#[track_caller]
fn is_installed(language: &str, in_ci: InCi, proof: &mut Command, how: &str) -> bool {
    let output = proof.stdin(Stdio::null()).output();
    let why = match &output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => both(output),
        Err(error) => error.to_string(),
    };
    let text = format!("the {language} client is not tested: {how}\n{why}");
    assert!(in_ci == InCi::Optional || env::var_os("CI").is_none(), "{text}");
    println!("{text}");
    false
}

const HOW: &str = "scripts/deps.sh --clients installs what is missing";

/// Runs a program through a network that loses the first reply to each command that must not be executed twice, and
/// checks that each was executed once.
#[track_caller]
fn sells_and_calls_once(program: &Program) {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.words("NUMPOOL.CONFIG {example}:pool EVENTS 100");
    let commands = ["SEAT.HOLD", "SEAT.CONFIRM", "NUMPOOL.CALL", "NUMPOOL.HANGUP", "XREAD"];
    let network = LostReplies::to(server.port(), &commands);
    assert_eq!(program.run(network.port()), PRINTED);
    assert_eq!(network.remaining(), Vec::<String>::new());

    let buckets = client.words("SEAT.STAT {example}:show");
    let bucket = &buckets.array()[0];
    assert_eq!((bucket.field("held").int(), bucket.field("sold").int()), (0, 2));
    let mut events = |stream: &str| -> Vec<String> {
        let entries = client.words(&format!("XRANGE {stream} - +"));
        entries.array().iter().map(|entry| entry.array()[1].array()[1].text()).collect()
    };
    assert_eq!(events("{example}:show:evt"), ["created", "held", "confirmed"]);
    let calls = ["created", "added", "registered", "called", "hungup"];
    let of_pool = events("{example}:pool:evt");
    assert_eq!(of_pool.iter().filter(|event| *event != "configured").collect::<Vec<_>>(), calls.each_ref());

    // Once more, on a network without faults and with the show and the pool that are there.
    let again = program.run(server.port());
    assert!(
        again.starts_with("held box-1-3 box-1-4\nsold 2\n") && again.ends_with("event confirmed\n"),
        "{again}"
    );
}

#[test]
fn python_client_sells_and_calls_once() {
    if is_installed("Python", InCi::Needed, Command::new(python()).args(["-c", "import redis"]), HOW) {
        sells_and_calls_once(&Program::interpreted(python(), "seat_and_call.py"));
    }
}

/// The modules that `scripts/deps.sh --clients` installs.
fn node_modules() -> PathBuf {
    env::var_os("NODE_PATH").map_or_else(|| repository().join("target/node/node_modules"), PathBuf::from)
}

fn node(file: &str, module: &str) -> Option<Program> {
    let mut proof = Command::new("node");
    proof.args(["-e", &format!("require('{module}')")]).env("NODE_PATH", node_modules());
    is_installed("Node.js", InCi::Needed, &mut proof, HOW)
        .then(|| Program::interpreted("node", file).with("NODE_PATH", node_modules()))
}

#[test]
fn node_client_sells_and_calls_once() {
    if let Some(program) = node("seat_and_call.js", "ioredis") {
        sells_and_calls_once(&program);
    }
}

#[test]
fn ruby_client_sells_and_calls_once() {
    if is_installed("Ruby", InCi::Needed, Command::new("ruby").args(["-e", "require 'redis'"]), HOW) {
        sells_and_calls_once(&Program::interpreted("ruby", "seat_and_call.rb"));
    }
}

fn php(file: &str) -> Option<Program> {
    let mut proof = Command::new("php");
    proof.args(["-r", "exit(extension_loaded('redis') ? 0 : 1);"]);
    is_installed("PHP", InCi::Needed, &mut proof, HOW).then(|| Program::interpreted("php", file))
}

#[test]
fn php_client_sells_and_calls_once() {
    if let Some(program) = php("seat_and_call.php") {
        sells_and_calls_once(&program);
    }
}

#[track_caller]
fn compile(command: &mut Command) {
    let output = run(command);
    assert!(output.status.success(), "{}", both(&output));
}

/// Debian's packages of Go are source in one folder, for builds without modules.
fn go(subcommand: &str) -> Command {
    let go_path = env::var_os("GOPATH").unwrap_or_else(|| "/usr/share/gocode".into());
    let mut go = Command::new("go");
    go.arg(subcommand).env("GO111MODULE", "off").env("GOPATH", go_path);
    go.env("GOCACHE", repository().join("target/go-cache"));
    go
}

fn go_program(file: &str, package: &str) -> Option<Program> {
    if !is_installed("Go", InCi::Needed, go("list").arg(package), HOW) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    compile(go("build").arg("-o").arg(folder.path().join("program")).arg(source(file)));
    Some(Program::compiled(folder))
}

#[test]
fn go_client_sells_and_calls_once() {
    if let Some(program) = go_program("seat_and_call.go", "github.com/gomodule/redigo/redis") {
        sells_and_calls_once(&program);
    }
}

#[test]
fn c_client_sells_and_calls_once() {
    let mut proof = Command::new("cc");
    proof.args(["-E", "-include", "hiredis/hiredis.h", "-x", "c", "/dev/null"]);
    if is_installed("C", InCi::Needed, &mut proof, HOW) {
        let folder = tempfile::tempdir().unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(folder.path().join("program"));
        compile(cc.arg(source("seat_and_call.c")).arg("-lhiredis"));
        sells_and_calls_once(&Program::compiled(folder));
    }
}

#[test]
fn java_client_sells_and_calls_once() {
    let how = "Jedis comes from Maven Central: mvn dependency:get -Dartifact=redis.clients:jedis:5.2.0; then name \
               its jar file, and those of what it needs, in ALLOT_JEDIS_CLASSPATH (docs/clients.md)";
    let Some(class_path) = env::var_os("ALLOT_JEDIS_CLASSPATH") else {
        println!("the Java client is not tested, because ALLOT_JEDIS_CLASSPATH is not set: {how}");
        return;
    };
    let jdk = "apt-get install default-jdk-headless";
    if is_installed("Java", InCi::Optional, Command::new("javac").arg("--version"), jdk) {
        let folder = tempfile::tempdir().unwrap();
        compile(
            Command::new("javac")
                .arg("-cp")
                .arg(&class_path)
                .arg("-d")
                .arg(folder.path())
                .arg(source("SeatAndCall.java")),
        );
        let mut classes = folder.path().as_os_str().to_owned();
        classes.push(":");
        classes.push(class_path);
        let arguments = vec!["-cp".into(), classes.into(), "SeatAndCall".into()];
        let command = "java".into();
        sells_and_calls_once(&Program { command, arguments, environment: Vec::new(), _folder: Some(folder) });
    }
}

/// Runs a program on three masters: each request goes to the master of its slot at once.
#[track_caller]
fn sells_in_a_cluster(program: &Program) {
    let cluster = Cluster::start(3, 0);
    assert_eq!(program.run(cluster.masters()[0].port()), "sold 30 seats in 3 masters\n");
    let shows = |master: &RedisServer| master.raw().words("DBSIZE").int();
    assert!(cluster.masters().iter().all(|master| shows(master) > 0));
    assert_eq!(cluster.masters().iter().map(shows).sum::<i64>(), 30);
    for master in cluster.masters() {
        let redirected = master.info("errorstats");
        assert!(!redirected.contains_key("errorstat_MOVED"), "{redirected:?}");
    }
}

#[test]
fn python_cluster_client_follows_the_key_specifications() {
    if is_installed("Python", InCi::Needed, Command::new(python()).args(["-c", "import redis"]), HOW) {
        sells_in_a_cluster(&Program::interpreted(python(), "cluster.py"));
    }
}

#[test]
fn node_cluster_client_follows_the_key_specifications() {
    if let Some(program) = node("cluster.js", "ioredis") {
        sells_in_a_cluster(&program);
    }
}

#[test]
fn node_redis_cluster_client_asks_the_right_master() {
    if let Some(program) = node("cluster_node_redis.js", "redis") {
        sells_in_a_cluster(&program);
    }
}

#[test]
fn go_cluster_client_asks_the_right_master() {
    if let Some(program) = go_program("cluster.go", "github.com/mna/redisc") {
        sells_in_a_cluster(&program);
    }
}

#[test]
fn php_cluster_client_asks_the_right_master() {
    if let Some(program) = php("cluster.php") {
        sells_in_a_cluster(&program);
    }
}

/// Every program is on the page about clients.
#[test]
fn every_client_program_is_documented() {
    let page = fs::read_to_string(repository().join("docs/clients.md")).unwrap();
    for entry in fs::read_dir(source("")).unwrap() {
        let name = entry.unwrap().file_name();
        let name = Path::new(&name).display().to_string();
        assert!(
            page.contains(&format!("](../examples/clients/{name})")),
            "docs/clients.md does not name {name}"
        );
    }
}
