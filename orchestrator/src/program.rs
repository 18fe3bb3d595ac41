//! Programs of operators: started so that none outlives the process that looks after it, in a process group of its own
//! and without our secrets.
//!
//! A child is asked to die with its parent by the parent-death signal, which only the child itself can ask for. So it
//! is `allotd` first (the hidden command `tied`), asks, and then becomes the program. What the program itself starts is
//! not tied; it ends with its process group, by whoever ends that.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::io::{BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Outcome;

/// Not for programs.
const SECRETS: [&str; 3] = ["ALLOT_REDIS_PASSWORD", "ALLOT_SENTINEL_PASSWORD", "ALLOT_ZOOKEEPER_PASSWORD"];

/// The hidden command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Process that must be our parent.
    #[arg(long)]
    parent: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    words: Vec<String>,
}

/// This very program, to be started with a hidden command.
pub(crate) fn own(command: &str) -> io::Result<Command> {
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
pub(crate) fn tied(words: &[String]) -> io::Result<Command> {
    let mut command = own("tied")?;
    command.arg("--parent").arg(std::process::id().to_string()).arg("--").args(words);
    SECRETS.iter().for_each(|secret| {
        command.env_remove(secret);
    });
    Ok(command)
}

/// The process group of a child that [`own`] or [`tied`] started.
pub(crate) fn group(child: &tokio::process::Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id as i32))
}

/// Whether there is such a program to be started: a file that may be executed, in `PATH` where the name has no `/`.
pub(crate) fn find(program: &str) -> io::Result<()> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    // Where there is none, the system looks in these.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let found = if program.contains('/') {
        is_program(Path::new(program))
    } else {
        std::env::split_paths(&path).any(|dir| is_program(&dir.join(program)))
    };
    if found { Ok(()) } else { Err(io::Error::new(io::ErrorKind::NotFound, "there is no such program")) }
}

/// The lines of standard input, where that is a pipe of the process that started us.
pub(crate) fn control() -> Result<Lines<BufReader<pipe::Receiver>>> {
    use tokio::io::AsyncBufReadExt as _;
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    let input = pipe::Receiver::from_owned_fd(input).context("standard input is no pipe")?;
    Ok(BufReader::new(input).lines())
}

/// From now on neither SIGTERM nor SIGINT ends this process: its end comes with that of the process that started it,
/// which a service manager may ask at the same time.
pub(crate) fn mind_no_signals() -> Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        // Who listens for a signal is not ended by it, for good.
        drop(signal(kind).context("signals")?);
    }
    Ok(())
}

/// Asks to die with the parent, and becomes the program.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let Some((program, words)) = arguments.words.split_first() else { bail!("no program") };
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("asking for the signal of a parent's death")?;
    // It may have died before it was asked for.
    if getppid().map(Pid::as_raw_pid) != Some(arguments.parent) {
        bail!("the process that started us is gone");
    }
    let error = std::process::Command::new(program).args(words).exec();
    eprintln!("{program} does not start: {error}");
    // As a shell says it.
    std::process::exit(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_path_and_by_name_and_only_if_they_may_be_executed() {
        for program in ["/bin/sh", "sh"] {
            find(program).unwrap();
        }
        for none in ["/nowhere/sh", "no-such-program", "/etc/passwd", "/etc", ""] {
            assert!(find(none).is_err(), "{none}");
        }
    }
}
