//! A supervised child process: a program in a process group of its own, known to the watchdog while it runs, and ended
//! with everything that it started.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use super::program::{self, ExecResult};
use super::watchdog::{Watchdog, WatchdogCommand};

/// How often [`SupervisedChild::stop`] checks whether all of a group has ended.
const GROUP_POLL: Duration = Duration::from_millis(20);

/// A running child with its process group. Dropping it kills the whole group and tells the watchdog.
#[derive(Debug)]
pub struct SupervisedChild {
    child: Child,
    group: Pid,
    watchdog: Watchdog,
}

impl SupervisedChild {
    /// Spawns a command of [`program::command_with_parent_death_signal`] and tells the watchdog of its group. The
    /// second value tells whether the program could be executed.
    ///
    /// # Errors
    /// The process could not be created.
    pub fn spawn(command: &mut Command, watchdog: Watchdog) -> io::Result<(Self, ExecResult)> {
        let (child, exec_result) = program::spawn_with_parent_death_signal(command)?;
        let group =
            program::process_group(&child).ok_or_else(|| io::Error::other("the child has no process id"))?;
        watchdog.send(WatchdogCommand::Started(group.as_raw_pid()));
        Ok((Self { child, group, watchdog }, exec_result))
    }

    /// The child's standard output, if it is piped and was not taken before.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until the child itself has ended; processes that it started may still run.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends the whole group: sends SIGTERM, waits until all of it has ended or `limit` has passed, then sends SIGKILL.
    pub async fn stop(mut self, limit: Duration) {
        let _ = kill_process_group(self.group, Signal::TERM);
        let all_ended = async {
            let _ = self.child.wait().await;
            // Processes that the child started may take longer than the child.
            while test_kill_process_group(self.group).is_ok() {
                sleep(GROUP_POLL).await;
            }
        };
        if timeout(limit, all_ended).await.is_err() {
            let _ = kill_process_group(self.group, Signal::KILL);
            let _ = self.child.wait().await;
        }
    }
}

impl Drop for SupervisedChild {
    fn drop(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        self.watchdog.send(WatchdogCommand::Ended(self.group.as_raw_pid()));
    }
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
        let (mut child, _) = SupervisedChild::spawn(&mut command, Watchdog::disconnected()).unwrap();
        let output = BufReader::new(child.take_stdout().unwrap());
        assert!(output.lines().next_line().await.unwrap().is_some());
        let group = child.group;
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
        let began = std::time::Instant::now();
        child.stop(Duration::from_secs(20)).await;
        assert!(!runs(group) && began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn group_that_ignores_sigterm_is_killed_after_the_limit() {
        let (child, group) = script("trap '' TERM; echo up; while :; do sleep 0.02; done").await;
        child.stop(Duration::from_millis(200)).await;
        // A killed process may stay a zombie of this process's parent for a moment.
        for _ in 0..200 {
            if !runs(group) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("the group still runs");
    }
}
