//! Programs of operators: started so that none outlives the process that looks after it, in a process group of its own
//! and without our secrets.
//!
//! A child is asked to die with its parent by the parent-death signal, which only the child itself can ask for. So it
//! is `allotd` first (the hidden command `tied`), asks, and then becomes the program. What the program itself starts is
//! not tied; it ends with its process group, by whoever ends that.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::io::{AsyncReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Not for programs. An address in `ALLOT_REDIS` may have a password in it, also where another is meant here.
const SECRETS: [&str; 4] =
    ["ALLOT_REDIS", "ALLOT_REDIS_PASSWORD", "ALLOT_SENTINEL_PASSWORD", "ALLOT_ZOOKEEPER_PASSWORD"];

/// Says to the hidden command that its standard input is a wire on which it shall say why it could not become the
/// program, if it could not.
const TOLD: &str = "ALLOT_TIED_TOLD";

/// The hidden command.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Process that must be our parent.
    #[arg(long)]
    parent: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    words: Vec<String>,
}

/// This very program, to be started with a hidden command.
pub fn own(command: &str) -> io::Result<Command> {
    // Whatever is installed meanwhile in its place: what runs is there as long as it runs.
    const RUNNING: &str = "/proc/self/exe";
    let mut own = if Path::new(RUNNING).exists() {
        Command::new(RUNNING)
    } else {
        Command::new(std::env::current_exe()?)
    };
    own.arg0("allotd");
    // Signals that are meant for us, e.g. from a terminal, are not for it.
    own.arg(command).process_group(0);
    Ok(own)
}

/// A program that will die with us, as a process group of its own. To be started by a thread that lives as long as the
/// process, as those of the runtime do.
pub fn tied(words: &[String]) -> io::Result<Command> {
    let mut command = own("tied")?;
    command.arg("--parent").arg(std::process::id().to_string()).arg("--").args(words);
    SECRETS.iter().for_each(|secret| {
        command.env_remove(secret);
    });
    Ok(command)
}

/// The process group of a child that [`own`] or [`tied`] started.
pub fn group(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id as i32))
}

/// Starts a [`tied`] program, and hears whether it could be executed. Its standard input is empty.
pub fn start(tied: &mut Command) -> io::Result<(Child, Becoming)> {
    let (ours, its) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let child = tied.env(TOLD, "1").stdin(OwnedFd::from(its)).spawn();
    // The command has its end as long as nothing takes its place, and would keep it open.
    tied.stdin(Stdio::null());
    Ok((child?, Becoming(tokio::net::UnixStream::from_std(ours)?)))
}

/// Hears whether a child became its program: the child's end of this wire is closed by that, or says why not.
#[derive(Debug)]
pub struct Becoming(tokio::net::UnixStream);

impl Becoming {
    /// Waits until it has; why not, if it could not.
    pub async fn became(mut self) -> Result<(), String> {
        let mut why = String::new();
        // Whoever was killed before says nothing; then its exit says it.
        let _ = self.0.read_to_string(&mut why).await;
        if why.is_empty() { Ok(()) } else { Err(why) }
    }
}

/// The lines of standard input, where that is a pipe of the process that started us.
pub fn control() -> Result<Lines<BufReader<pipe::Receiver>>> {
    use tokio::io::AsyncBufReadExt as _;
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    let input = pipe::Receiver::from_owned_fd(input).context("standard input is no pipe")?;
    Ok(BufReader::new(input).lines())
}

/// From now on neither SIGTERM nor SIGINT ends this process: its end comes with that of the process that started it,
/// which a service manager may ask at the same time.
pub fn mind_no_signals() -> Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        // Who listens for a signal is not ended by it, for good.
        drop(signal(kind).context("signals")?);
    }
    Ok(())
}

/// Asks to die with the parent, and becomes the program.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Some((program, words)) = arguments.words.split_first() else { bail!("no program") };
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("asking for the signal of a parent's death")?;
    // It may have died before it was asked for.
    if getppid().map(Pid::as_raw_pid) != Some(arguments.parent) {
        bail!("the process that started us is gone");
    }
    let mut command = std::process::Command::new(program);
    command.args(words);
    let told = std::env::var_os(TOLD).map(|_| std::io::stdin().as_fd().try_clone_to_owned()).transpose();
    let told = told.context("standard input")?;
    if told.is_some() {
        // The copy is closed when the program begins.
        command.env_remove(TOLD).stdin(Stdio::null());
    }
    let error = command.exec();
    if let Some(told) = told {
        let _ = std::fs::File::from(told).write_all(error.to_string().as_bytes());
    }
    eprintln!("{program} does not start: {error}");
    // As a shell says it.
    std::process::exit(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn heard(text: Option<&str>) -> Result<(), String> {
        let (ours, its) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut its = its;
        if let Some(text) = text {
            its.write_all(text.as_bytes()).unwrap();
        }
        drop(its);
        Becoming(tokio::net::UnixStream::from_std(ours).unwrap()).became().await
    }

    #[test]
    fn a_program_is_started_without_our_secrets() {
        let command = tied(&["true".to_owned()]).unwrap();
        let removed =
            |name: &str| command.as_std().get_envs().any(|(of, value)| of == name && value.is_none());
        assert!(["ALLOT_REDIS", "ALLOT_ZOOKEEPER_PASSWORD"].into_iter().all(removed));
    }

    #[tokio::test]
    async fn a_wire_that_is_closed_without_a_word_says_that_all_is_well() {
        assert_eq!(heard(None).await, Ok(()));
        assert_eq!(heard(Some("Exec format error")).await, Err("Exec format error".to_owned()));
    }
}
