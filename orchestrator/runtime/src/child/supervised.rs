//! Supervised child processes: programs in process groups of their own, known to the watchdog while they run, and ended
//! with everything that they started.

use std::io;
use std::process::{ExitStatus, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout_at};

use super::program::{self, ExecResult};
use super::watchdog::{Watchdog, WatchdogCommand};

/// Interval at which [`SupervisedChild::stop`] checks whether all of a group has ended.
const GROUP_POLL: Duration = Duration::from_millis(20);

/// A process group that the watchdog knows of until this value is dropped.
#[derive(Debug)]
pub struct SupervisedGroup {
    id: Pid,
    watchdog: Watchdog,
}

impl SupervisedGroup {
    /// Registers a group with the watchdog; `None` if this is no id of a group.
    pub fn new(id: i32, watchdog: Watchdog) -> Option<Self> {
        let id = Pid::from_raw(id)?;
        watchdog.send(WatchdogCommand::Started(id.as_raw_pid()));
        Some(Self { id, watchdog })
    }

    /// The id of the group.
    pub fn id(&self) -> i32 {
        self.id.as_raw_pid()
    }

    /// Sends SIGKILL to all processes of the group.
    pub fn kill(&self) {
        // An error means that the group has ended.
        let _ = kill_process_group(self.id, Signal::KILL);
    }

    fn terminate(&self) {
        let _ = kill_process_group(self.id, Signal::TERM);
    }

    fn is_running(&self) -> bool {
        test_kill_process_group(self.id).is_ok()
    }
}

impl Drop for SupervisedGroup {
    fn drop(&mut self) {
        self.watchdog.send(WatchdogCommand::Ended(self.id.as_raw_pid()));
    }
}

/// A running child with its process group. Dropping the value kills the whole group and informs the watchdog.
#[derive(Debug)]
pub struct SupervisedChild {
    child: Child,
    group: SupervisedGroup,
    /// The time at which a child is killed that was sent SIGTERM.
    kill_at: Option<Instant>,
}

impl SupervisedChild {
    /// Spawns a command of [`program::command_with_parent_death_signal`] and registers its group with the watchdog.
    /// The second value resolves to whether the program could be executed; the third is the program's standard input.
    ///
    /// # Errors
    /// The process could not be created.
    pub fn spawn(command: &mut Command, watchdog: Watchdog) -> io::Result<(Self, ExecResult, pipe::Sender)> {
        let (child, exec_result, input) = program::spawn_with_parent_death_signal(command)?;
        Ok((Self::supervise(child, watchdog)?, exec_result, input))
    }

    /// Supervises a child that was spawned as a process group of its own, and registers its group with the watchdog.
    ///
    /// # Errors
    /// The child was already waited for.
    pub fn supervise(child: Child, watchdog: Watchdog) -> io::Result<Self> {
        let group = program::process_group(&child)
            .and_then(|group| SupervisedGroup::new(group.as_raw_pid(), watchdog))
            .ok_or_else(|| io::Error::other("the child has no process id"))?;
        Ok(Self { child, group, kill_at: None })
    }

    /// The child's process group.
    pub fn group(&self) -> &SupervisedGroup {
        &self.group
    }

    /// The child's standard input, if it is piped and was not taken before.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The child's standard output, if it is piped and was not taken before.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The child's standard error, if it is piped and was not taken before.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the child itself has ended; processes that it started may still run. Kills the group when the limit
    /// of [`terminate`](Self::terminate) passes. A wait may be abandoned and repeated.
    ///
    /// # Errors
    /// The operating system does not report the exit status of the child.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(kill_at) = self.kill_at {
            if let Ok(status) = timeout_at(kill_at, self.child.wait()).await {
                return status;
            }
            self.kill_at = None;
            self.group.kill();
        }
        self.child.wait().await
    }

    /// Waits until the child has ended and its piped output is closed. Dropping the future kills the whole group.
    ///
    /// # Errors
    /// The output cannot be read, or the operating system does not report the exit status of the child.
    pub async fn output(mut self) -> io::Result<Output> {
        let (stdout, stderr) = (self.take_stdout(), self.take_stderr());
        let (status, stdout, stderr) =
            tokio::try_join!(self.wait(), read_to_end(stdout), read_to_end(stderr))?;
        Ok(Output { status, stdout, stderr })
    }

    /// Sends SIGTERM to the group, and lets [`wait`](Self::wait) send SIGKILL if the child has not ended after `limit`.
    /// Does nothing if an earlier limit has not passed yet.
    pub fn terminate(&mut self, limit: Duration) {
        if self.kill_at.is_none() {
            self.group.terminate();
            self.kill_at = Some(Instant::now() + limit);
        }
    }

    /// Ends the whole group: sends SIGTERM, waits until all of it has ended or `limit` has passed, then sends SIGKILL.
    pub async fn stop(mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        self.terminate(limit);
        let _ = self.wait().await;
        // Processes that the child started may take longer than the child.
        while self.group.is_running() && Instant::now() < deadline {
            sleep(GROUP_POLL).await;
        }
    }
}

impl Drop for SupervisedChild {
    fn drop(&mut self) {
        self.group.kill();
    }
}

/// All bytes of an output that may not be piped.
async fn read_to_end(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;

    /// A shell script as a group of its own that has printed its first line, and the process group.
    async fn script(script: &str) -> (SupervisedChild, Pid) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped()).kill_on_drop(true);
        let (mut child, ..) = SupervisedChild::spawn(&mut command, Watchdog::disconnected()).unwrap();
        let output = BufReader::new(child.take_stdout().unwrap());
        assert!(output.lines().next_line().await.unwrap().is_some());
        let group = child.group.id;
        (child, group)
    }

    fn runs(group: Pid) -> bool {
        test_kill_process_group(group).is_ok()
    }

    #[tokio::test]
    async fn stop_waits_for_everything_that_the_child_started() {
        // The child exits at once at SIGTERM; its own child needs half a second.
        let (child, group) =
            script("(trap 'sleep 0.5; exit 0' TERM; echo up; while :; do sleep 0.02; done) & wait").await;
        let began = Instant::now();
        child.stop(Duration::from_secs(20)).await;
        assert!(!runs(group) && began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn output_is_complete_and_comes_with_the_exit_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; (sleep 0.2; echo late >&2) & exit 3"]).process_group(0);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let child = SupervisedChild::supervise(child, Watchdog::disconnected()).unwrap();
        let output = child.output().await.unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"out\n"[..]));
        assert_eq!(output.stderr, b"late\n");
    }

    #[tokio::test]
    async fn group_that_ignores_sigterm_is_killed_after_the_limit() {
        let (child, group) = script("trap '' TERM; echo up; while :; do sleep 0.02; done").await;
        child.stop(Duration::from_millis(200)).await;
        // A killed process may stay a zombie of this process's parent for a short time.
        for _ in 0..200 {
            if !runs(group) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("the group still runs");
    }
}
