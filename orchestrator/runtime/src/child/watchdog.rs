//! A process beside the daemon that kills programs when the daemon no longer can. The watchdog knows the process groups
//! of all programs. The watchdog kills the programs when the daemon is gone, and when their time limit has passed. The
//! daemon extends this limit again and again; a daemon that is suspended does not, and could not kill programs itself.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::error;

use super::program;
use crate::time::MonotonicTime;

/// The hidden command of `allotd` that runs the watchdog.
pub const COMMAND: &str = "watchdog";

/// Time limit for the watchdog to read a command.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before a watchdog that did not start is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// A command to the watchdog process: one line of JSON.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchdogCommand {
    /// A program started as this process group.
    Started(i32),
    /// The program of this process group ended.
    Ended(i32),
    /// All programs may run until this time. Without a later command of this kind the watchdog then kills them.
    RunUntil(MonotonicTime),
}

/// A handle of the watchdog. When the last clone is dropped, the watchdog kills the programs that are left and exits.
#[derive(Debug, Clone)]
pub struct Watchdog(mpsc::UnboundedSender<WatchdogCommand>);

impl Watchdog {
    /// Starts the watchdog process, and starts another whenever the process dies or hangs.
    pub fn start() -> Self {
        let (sender, commands) = mpsc::unbounded_channel();
        tokio::spawn(supervise(commands));
        Self(sender)
    }

    /// A watchdog that does nothing: for children that the watchdog of another process knows of, and for tests.
    pub fn disconnected() -> Self {
        Self(mpsc::unbounded_channel().0)
    }

    /// Sends a command.
    pub fn send(&self, command: WatchdogCommand) {
        // The receiver is gone only if this process is about to exit.
        let _ = self.0.send(command);
    }
}

/// A running watchdog process.
struct Process {
    child: Child,
    input: ChildStdin,
}

impl Process {
    fn start() -> Result<Self, String> {
        let start = || -> std::io::Result<Child> {
            program::allotd_command(COMMAND)?.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        };
        let mut child = start().map_err(|error| error.to_string())?;
        let input = child.stdin.take().ok_or("it has no standard input")?;
        Ok(Self { child, input })
    }

    async fn send(&mut self, command: WatchdogCommand) -> Result<(), String> {
        let line = serde_json::to_string(&command).map_err(|error| error.to_string())?;
        match timeout(WRITE_TIMEOUT, self.input.write_all(format!("{line}\n").as_bytes())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it reads nothing".into()),
        }
    }

    /// Kills a watchdog that does not do its work, before it sees the end of its input and kills all programs.
    async fn kill(mut self) {
        let _ = self.child.kill().await;
    }
}

/// The state that every new watchdog process is sent.
#[derive(Default)]
struct State {
    groups: BTreeSet<i32>,
    until: Option<MonotonicTime>,
}

impl State {
    fn apply(&mut self, command: WatchdogCommand) {
        match command {
            WatchdogCommand::Started(group) => drop(self.groups.insert(group)),
            WatchdogCommand::Ended(group) => drop(self.groups.remove(&group)),
            WatchdogCommand::RunUntil(until) => self.until = Some(until),
        }
    }

    /// Starts a watchdog process and sends it the whole state.
    async fn start_process(&self) -> Result<Process, String> {
        let mut process = Process::start()?;
        let until = self.until.map(WatchdogCommand::RunUntil).into_iter();
        for command in until.chain(self.groups.iter().copied().map(WatchdogCommand::Started)) {
            if let Err(reason) = process.send(command).await {
                process.kill().await;
                return Err(reason);
            }
        }
        Ok(process)
    }
}

/// Forwards commands to the watchdog process. A process that died or hangs is replaced at once, and its replacement is
/// sent the whole state.
async fn supervise(mut commands: mpsc::UnboundedReceiver<WatchdogCommand>) {
    let mut state = State::default();
    let mut process: Option<Process> = None;
    loop {
        let command = tokio::select! {
            command = commands.recv() => match command {
                Some(command) => Some(command),
                None => break,
            },
            () = async {
                match &mut process {
                    Some(process) => drop(process.child.wait().await),
                    None => sleep(RESTART_PAUSE).await,
                }
            } => None,
        };
        if let Some(command) = command {
            state.apply(command);
        }
        let sent = match (&mut process, command) {
            (Some(process), Some(command)) => process.send(command).await,
            (Some(_), None) => Err("it exited".to_owned()),
            (None, _) => Err("it was not started yet".to_owned()),
        };
        if let Err(reason) = sent {
            if let Some(failed) = process.take() {
                error!(reason, "the watchdog of child processes failed; starting another");
                failed.kill().await;
            }
            match state.start_process().await {
                Ok(started) => process = Some(started),
                Err(error) => error!(error, "the watchdog of child processes does not start; retrying"),
            }
        }
    }
    if let Some(Process { mut child, input }) = process {
        drop(input);
        let _ = child.wait().await;
    }
}

/// The hidden command: the watchdog process itself.
pub async fn run() -> Result<()> {
    let commands = program::stdin_lines()?;
    program::ignore_termination_signals()?;
    watch(commands).await;
    Ok(())
}

/// Kills all programs when their time has passed, and when the daemon is gone.
async fn watch(mut commands: Lines<BufReader<pipe::Receiver>>) {
    let mut groups = BTreeSet::new();
    let mut until: Option<Instant> = None;
    let mut expired = false;
    loop {
        tokio::select! {
            // Commands that wait in the pipe count before the time does: this process may have been suspended.
            biased;
            line = commands.next_line() => match line.ok().flatten().map(|line| serde_json::from_str(&line)) {
                Some(Ok(WatchdogCommand::Started(group))) => {
                    groups.insert(group);
                    if expired {
                        kill(&groups);
                    }
                }
                Some(Ok(WatchdogCommand::Ended(group))) => drop(groups.remove(&group)),
                Some(Ok(WatchdogCommand::RunUntil(time))) => {
                    until = Some(time.to_instant());
                    expired = false;
                }
                Some(Err(error)) => eprintln!("allotd watchdog: unknown command ignored: {error}"),
                None => break,
            },
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() && !expired => {
                expired = true;
                kill(&groups);
            }
        }
    }
    kill(&groups);
}

fn kill(groups: &BTreeSet<i32>) {
    for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncBufReadExt as _;
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn suspended_watchdog_does_not_extend_an_expired_time() {
        let sleeper = || Command::new("sleep").arg("60").process_group(0).kill_on_drop(true).spawn().unwrap();
        let (mut child, mut other) = (sleeper(), sleeper());
        let group = |child: &Child| program::process_group(child).unwrap().as_raw_pid();
        let (mut sender, receiver) = pipe::pipe().unwrap();
        let exits = async |child: &mut Child| timeout(Duration::from_secs(20), child.wait()).await.is_ok();
        let mut send = async |commands: &[WatchdogCommand]| {
            for command in commands {
                let line = serde_json::to_string(command).unwrap();
                sender.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            }
        };
        let before = MonotonicTime::after(Duration::from_millis(50));
        send(&[
            WatchdogCommand::RunUntil(before),
            WatchdogCommand::Started(group(&child)),
            WatchdogCommand::RunUntil(before),
        ])
        .await;
        sleep(Duration::from_millis(100)).await;
        let watching = tokio::spawn(watch(BufReader::new(receiver).lines()));
        assert!(exits(&mut child).await);
        // A later time lets programs run again.
        let later = MonotonicTime::after(Duration::from_secs(600));
        send(&[WatchdogCommand::RunUntil(later), WatchdogCommand::Started(group(&other))]).await;
        assert!(timeout(Duration::from_millis(100), other.wait()).await.is_err());
        send(&[WatchdogCommand::RunUntil(before)]).await;
        assert!(exits(&mut other).await);
        watching.abort();
    }
}
