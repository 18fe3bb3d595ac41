//! Running `allot` as people and scripts run it, arguments in, exit code and two streams of text out; and `allotd`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::module::{allot, allotd};
use crate::process::Process;
use crate::realms::REALM;
use crate::redis_server::RedisServer;
use crate::wait::{TIMEOUT, eventually};

/// How a run of a program ended.
#[derive(Debug)]
pub struct Run {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it said on standard error.
    pub err: String,
}

#[allow(clippy::return_self_not_must_use, reason = "these are assertions, too")]
impl Run {
    /// The run, if it succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.ended(0)
    }

    /// The run, if it ended with this code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "the program printed:\n{}\nand said:\n{}", self.out, self.err);
        self
    }
}

/// `allot` with these arguments, against this server.
pub fn command<A: AsRef<OsStr>>(server: &RedisServer, arguments: &[A]) -> Command {
    of(allot(), server, arguments)
}

fn of<A: AsRef<OsStr>>(program: PathBuf, server: &RedisServer, arguments: &[A]) -> Command {
    let mut command = Command::new(program);
    // What the tester's own environment says is not meant here.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALLOT_")) {
        command.env_remove(name);
    }
    command.env("ALLOT_REDIS", server.url()).env("ALLOT_SERVER", server.url());
    command.env("HOME", server.dir()).env_remove("XDG_CONFIG_HOME");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs `allot` to its end.
pub fn run<A: AsRef<OsStr>>(server: &RedisServer, arguments: &[A]) -> Run {
    to_end(&mut command(server, arguments))
}

/// Runs `allotd` to its end.
pub fn run_daemon<A: AsRef<OsStr>>(server: &RedisServer, arguments: &[A]) -> Run {
    to_end(&mut of(allotd(), server, arguments))
}

fn to_end(command: &mut Command) -> Run {
    let output = command.output().expect("the program runs");
    Run {
        code: output.status.code().expect("the program ends by itself"),
        out: String::from_utf8(output.stdout).expect("the program prints text"),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A file of real data: from the folder `ALLOT_SHARED_DATA`, or from `../shared/data` beside the repository.
/// Where the folder is absent this says so, and the test has nothing to test.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let beside = || crate::module::repository().join("../shared/data");
    let folder = std::env::var_os("ALLOT_SHARED_DATA").map_or_else(beside, PathBuf::from);
    if !folder.is_dir() {
        eprintln!("SKIPPED: the folder {} is absent (ALLOT_SHARED_DATA names another)", folder.display());
        return None;
    }
    Some(folder.join(name))
}

/// A daemon of these roles on this server, without a ZooKeeper.
#[track_caller]
pub fn alone(server: &RedisServer, name: &str, roles: &str, more: &[&str]) -> Process {
    let host = format!("127.0.0.1/{name}");
    let url = server.url();
    let arguments =
        ["--roles", roles, "--name", name, "--realm", REALM, "--media-unit-host", &host, "--redis-url", &url];
    let process = Process::new(name, &[&arguments[..], more].concat());
    process.start();
    eventually(&format!("{name} to be ready"), TIMEOUT, || process.is_ready());
    process
}

/// A program for the conferences of a unit, which tells what it was told, and ends when the test says so.
pub fn media_program(server: &RedisServer) -> String {
    let path = server.dir().join("media");
    let text = "#!/bin/sh\ntrap 'echo bye > \"$0.$ALLOT_E164.bye\"; exit 0' TERM\n\
                echo READY\necho \"started=$ALLOT_E164 $ALLOT_EPOCH\"\necho $$ > \"$1/$ALLOT_E164.pid\"\n\
                while [ ! -e \"$1/$ALLOT_E164.over\" ]; do sleep 0.05; done\nread code < \"$1/$ALLOT_E164.over\"\n\
                rm \"$1/$ALLOT_E164.over\"\nexit $code\n";
    fs::write(&path, text).expect("the folder is there");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the folder is there");
    format!("{} {}", path.display(), server.dir().display())
}
