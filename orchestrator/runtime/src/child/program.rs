//! Starts programs of operators: in a process group of their own, without this process's secrets, and so that the
//! kernel kills them when this process dies.
//!
//! Only a process itself can ask for its parent-death signal. So the child is `allotd` first (the hidden command
//! `exec-child`), asks for the signal, and then replaces itself with the program. Processes that the program starts do
//! not inherit the signal; they are killed with their process group.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Access, access};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::io::{AsyncReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Environment variables that programs must not see: all from which `allotd` reads a secret. An address in
/// `ALLOT_REDIS` may contain a password.
pub const SECRETS: [&str; 9] = [
    "ALLOT_REDIS",
    "ALLOT_REDIS_PASSWORD",
    "ALLOT_SENTINEL_PASSWORD",
    "ALLOT_ZOOKEEPER_PASSWORD",
    "ALLOT_CONSOLE_VIEWER_TOKEN",
    "ALLOT_CONSOLE_OPERATOR_TOKEN",
    "ALLOT_CONSOLE_VIEWER_PASSWORD",
    "ALLOT_CONSOLE_OPERATOR_PASSWORD",
    "ALLOT_CONSOLE_WEBHOOK",
];

/// The argument by which the hidden command knows that its standard input is a socket: from it the command takes the
/// standard input of the program, and on it the command reports the reason if the program cannot be executed.
const REPORT_EXEC: &str = "ALLOT_REPORT_EXEC";

/// The hidden command that replaces itself with a program: `allotd exec-child PARENT PROGRAM [ARGUMENT...]`.
const EXEC_CHILD: &str = "exec-child";

/// A command that runs this executable with one of its hidden commands. The process has a group of its own, so that
/// a signal from a terminal does not reach the process.
pub fn allotd_command(subcommand: &str) -> io::Result<Command> {
    // An upgrade may replace the file on disk; this link stays the executable that runs.
    const RUNNING: &str = "/proc/self/exe";
    let mut command = if Path::new(RUNNING).exists() {
        Command::new(RUNNING)
    } else {
        Command::new(std::env::current_exe()?)
    };
    command.arg0("allotd").arg(subcommand).process_group(0);
    Ok(command)
}

/// The file of a program, as executing it finds the file: along `PATH` if the name has no `/`.
///
/// # Errors
/// Why the program cannot be executed, for people.
pub fn find(program: &str) -> std::result::Result<PathBuf, String> {
    let check = |path: &Path| {
        let metadata = path.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("it is no file".to_owned());
        }
        access(path, Access::EXEC_OK).map_err(|error| error.to_string())
    };
    if program.contains('/') {
        let path = PathBuf::from(program);
        return check(&path).map(|()| path);
    }
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&dirs).map(|dir| dir.join(program));
    files.find(|path| check(path).is_ok()).ok_or_else(|| "no program of this name is in PATH".to_owned())
}

/// A program that the kernel kills when this process dies, as a process group of its own. Must be spawned by a thread
/// that lives as long as the process, as those of the runtime do: the signal is bound to the parent's *thread*.
pub fn command_with_parent_death_signal(argv: &[String]) -> io::Result<Command> {
    let mut command = allotd_command(EXEC_CHILD)?;
    command.arg(std::process::id().to_string()).args(argv);
    SECRETS.iter().for_each(|secret| {
        command.env_remove(secret);
    });
    Ok(command)
}

/// The process group of a child whose command comes from this module; `None` once the child was waited for.
pub fn process_group(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id as i32))
}

/// Spawns a [`command_with_parent_death_signal`]. Returns with it a value by which to learn whether the program could be
/// executed, and the program's standard input.
pub fn spawn_with_parent_death_signal(
    command: &mut Command,
) -> io::Result<(Child, ExecResult, pipe::Sender)> {
    let (ours, childs) = UnixStream::pair()?;
    let (input, writer) = io::pipe()?;
    send_file(&ours, &input)?;
    ours.set_nonblocking(true)?;
    let child = command.env(REPORT_EXEC, "1").stdin(OwnedFd::from(childs)).spawn();
    // The command owns the child's end until another takes its place; an end that stays open would never report.
    command.stdin(Stdio::null());
    let writer = pipe::Sender::from_owned_fd(writer.into())?;
    Ok((child?, ExecResult(tokio::net::UnixStream::from_std(ours)?), writer))
}

/// Sends an open file to the process at the other end of a socket. A process that runs the program cannot inherit it
/// otherwise: only the three standard files are inherited.
fn send_file(socket: &UnixStream, file: &impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let file = [file.as_fd()];
    let mut files = SendAncillaryBuffer::new(&mut space);
    files.push(SendAncillaryMessage::ScmRights(&file));
    sendmsg(socket, &[IoSlice::new(b"\0")], &mut files, SendFlags::empty())?;
    Ok(())
}

/// The open file that [`send_file`] has sent to this socket.
fn receive_file(socket: &impl AsFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut files = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut files, RecvFlags::CMSG_CLOEXEC)?;
    let file = files.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    file.ok_or_else(|| io::Error::other("the socket has no open file"))
}

/// Whether a child could execute its program: success closes the child's end of this socket, failure writes the reason.
#[derive(Debug)]
pub struct ExecResult(tokio::net::UnixStream);

impl ExecResult {
    /// Waits until the program was executed, or returns why it could not be.
    pub async fn wait(mut self) -> Result<(), String> {
        let mut reason = String::new();
        // A child that was killed before it executed anything writes no reason; its exit status has the reason.
        let _ = self.0.read_to_string(&mut reason).await;
        if reason.is_empty() { Ok(()) } else { Err(reason) }
    }
}

/// The lines of standard input, which must be a pipe of the process that started this one.
pub fn stdin_lines() -> Result<Lines<BufReader<pipe::Receiver>>> {
    use tokio::io::AsyncBufReadExt as _;
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    let input = pipe::Receiver::from_owned_fd(input).context("standard input is no pipe")?;
    Ok(BufReader::new(input).lines())
}

/// From now on neither SIGTERM nor SIGINT ends this process: it ends with the process that started it, to which a
/// service manager may send the same signals.
pub fn ignore_termination_signals() -> Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        // A signal that was listened for once does not end the process any more, even without a listener.
        drop(signal(kind).context("signals")?);
    }
    Ok(())
}

/// If this process is the hidden command `exec-child`, replaces it with the program, and returns only if that fails.
/// To be called before anything else: each program of an operator waits for it.
pub fn exec_if_child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != EXEC_CHILD {
        return None;
    }
    Some(exec_child(arguments).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "allotd {EXEC_CHILD}: {error:#}");
        ExitCode::FAILURE
    }))
}

/// Asks for the parent-death signal, and replaces this process with the program. Returns the exit code of a shell that
/// cannot execute a program.
fn exec_child(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let parent = arguments.next().context("no parent process")?;
    let parent: i32 = parent.to_str().and_then(|pid| pid.parse().ok()).context("no parent process")?;
    let program = arguments.next().context("no program")?;
    set_parent_process_death_signal(Some(Signal::KILL)).context("asking for the parent-death signal")?;
    // The parent may have died before the signal was asked for.
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        bail!("the process that started us is gone");
    }
    let mut command = std::process::Command::new(&program);
    command.args(arguments);
    let report =
        std::env::var_os(REPORT_EXEC).map(|_| std::io::stdin().as_fd().try_clone_to_owned()).transpose();
    let report = report.context("standard input")?;
    if report.is_some() {
        // The copy is closed when the program is executed.
        let input = receive_file(&std::io::stdin()).context("the program's standard input")?;
        command.env_remove(REPORT_EXEC).stdin(input);
    }
    let error = command.exec();
    if let Some(report) = report {
        let _ = std::fs::File::from(report).write_all(error.to_string().as_bytes());
    }
    let _ = writeln!(io::stderr(), "{} does not start: {error}", program.display());
    Ok(ExitCode::from(127))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn exec_result_of(text: Option<&str>) -> Result<(), String> {
        let (ours, mut childs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        if let Some(text) = text {
            childs.write_all(text.as_bytes()).unwrap();
        }
        drop(childs);
        ExecResult(tokio::net::UnixStream::from_std(ours).unwrap()).wait().await
    }

    #[test]
    fn program_does_not_inherit_secrets() {
        let command = command_with_parent_death_signal(&["true".to_owned()]).unwrap();
        let removed =
            |name: &str| command.as_std().get_envs().any(|(of, value)| of == name && value.is_none());
        let named = ["ALLOT_REDIS", "ALLOT_ZOOKEEPER_PASSWORD", "ALLOT_CONSOLE_OPERATOR_TOKEN"];
        assert!(named.into_iter().chain(SECRETS).all(removed));
    }

    #[test]
    fn open_file_is_sent_through_a_socket() {
        let (ours, childs) = UnixStream::pair().unwrap();
        let (input, mut writer) = io::pipe().unwrap();
        send_file(&ours, &input).unwrap();
        drop(input);
        let mut received = std::fs::File::from(receive_file(&childs).unwrap());
        writer.write_all(b"a line").unwrap();
        drop(writer);
        let mut read = String::new();
        io::Read::read_to_string(&mut received, &mut read).unwrap();
        assert_eq!(read, "a line");
        drop(ours);
        assert!(receive_file(&childs).is_err(), "nothing was sent");
    }

    #[tokio::test]
    async fn socket_closed_without_a_reason_means_success() {
        assert_eq!(exec_result_of(None).await, Ok(()));
        assert_eq!(exec_result_of(Some("Exec format error")).await, Err("Exec format error".to_owned()));
    }
}
