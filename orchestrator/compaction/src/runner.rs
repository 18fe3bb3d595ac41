//! `allotd`'s side of a guard: starts it, gives it its beats, and hears how the runner ended.

use std::process::Stdio;
use std::time::Duration;

use tokio::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};

use super::supervisor::{Report, Spec, SupervisorCommand, SupervisorEvent, Why};
use allot_coordination::Coordinator;
use allot_runtime::child::program;
use allot_runtime::child::watchdog::{Watchdog, WatchdogCommand};
use allot_runtime::time::MonotonicTime;

/// How much longer than its runner may take a guard may take.
const MARGIN: Duration = Duration::from_secs(5);
/// How long a guard may take to make room for a word in its pipe, which has room for many.
const HEARS: Duration = Duration::from_secs(1);

/// What a runner must be told while it runs.
pub(crate) struct Attention {
    /// Whose answers say how long nobody can have taken us for dead.
    pub(crate) coordinator: Coordinator,
    /// It is to be ended.
    pub(crate) stop: watch::Receiver<bool>,
    /// It is to be ended at once: our session is lost.
    pub(crate) lost: watch::Receiver<bool>,
    /// How often its guard hears of us.
    pub(crate) beat: Duration,
}

/// How runners begin. What is dropped before its end has ended, with all that it started.
pub(crate) trait Launch: Send + Sync {
    /// Runs one to its end.
    fn launch(&self, spec: Spec, attention: Attention) -> BoxFuture<'static, Result<Report, String>>;
}

/// Programs, each behind a guard, and all before a watchdog: also a guard may be stopped, and its runner with it is not.
pub(crate) struct Guarded(Watchdog);

impl Guarded {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self(Watchdog::start())
    }
}

impl Launch for Guarded {
    fn launch(&self, spec: Spec, attention: Attention) -> BoxFuture<'static, Result<Report, String>> {
        let watchdog = self.0.clone();
        async move { Runner::start(&spec, watchdog).await?.wait(attention).await }.boxed()
    }
}

/// A runner behind its guard.
struct Runner {
    child: Child,
    control: Option<ChildStdin>,
    words: Lines<BufReader<ChildStdout>>,
    watchdog: Watchdog,
    group: Option<Pid>,
    /// How long all of it may take.
    limit: Duration,
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            self.watchdog.send(WatchdogCommand::Ended(group.as_raw_pid()));
        }
    }
}

/// Until when nobody can have taken this process for dead; `None` where somebody may have.
pub(crate) fn trust(coordinator: &Coordinator) -> Option<Instant> {
    coordinator.trusted_until().filter(|until| *until > Instant::now())
}

fn is_over(time: Option<Instant>) -> bool {
    time.is_some_and(|time| time <= Instant::now())
}

/// Waits until it is said; what `wait_for` returns must not be held while others are awaited.
async fn said(word: &mut watch::Receiver<bool>) {
    let _ = word.wait_for(|said| *said).await;
}

impl Runner {
    /// Starts a guard, which starts the runner.
    async fn start(spec: &Spec, watchdog: Watchdog) -> Result<Self, String> {
        // Signals that are meant for us must not end it: it has to end the runner.
        let mut child = program::allotd_command("compaction-guard")
            .map_err(|error| format!("allotd does not know its program: {error}"))?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the guard does not start: {error}"))?;
        let (Some(mut control), Some(words)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the guard has no pipes".into());
        };
        let line = serde_json::to_string(spec).map_err(|error| error.to_string())?;
        let told = timeout(MARGIN, control.write_all(format!("{line}\n").as_bytes())).await;
        let Ok(told) = told else {
            let _ = child.start_kill();
            return Err("the guard does not listen".into());
        };
        told.map_err(|error| format!("the guard does not listen: {error}"))?;
        let words = BufReader::new(words).lines();
        let limit = Duration::from_millis(spec.timeout + spec.stop_limit) + MARGIN;
        Ok(Self { child, control: Some(control), words, watchdog, group: None, limit })
    }

    /// Waits until the runner has ended, with its children. Ends it when `stop` says so, or at once when `lost` does.
    async fn wait(mut self, attention: Attention) -> Result<Report, String> {
        let Attention { coordinator, mut stop, mut lost, beat } = attention;
        let mut beats = interval(beat);
        let mut told = false;
        // Until when guard and watchdog let it run, and whether that time was over once: then it was for them to end it.
        let mut trusted: Option<Instant> = None;
        let mut lapsed = false;
        // A guard that hangs keeps no time; what it guards must not go on for ever.
        let overdue = sleep(self.limit);
        tokio::pin!(overdue);
        loop {
            let word = tokio::select! {
                () = &mut overdue => {
                    self.end().await;
                    return Err("its guard hangs, and its time was up".into());
                }
                line = self.words.next_line() => match line.ok().flatten() {
                    None => {
                        self.end().await;
                        return Err("its guard was lost".into());
                    }
                    Some(line) => {
                        match serde_json::from_str(&line) {
                            Ok(SupervisorEvent::Runs(group)) => {
                                self.group = Pid::from_raw(group);
                                // First until when: what begins after that time is ended at once.
                                let until = trust(&coordinator).unwrap_or_else(Instant::now);
                                trusted = Some(until);
                                self.watchdog.send(WatchdogCommand::RunUntil(MonotonicTime::from_instant(until)));
                                self.watchdog.send(WatchdogCommand::Started(group));
                            }
                            Ok(SupervisorEvent::Refused(why)) => return Err(why),
                            Ok(SupervisorEvent::Ended(mut report)) => {
                                // It has said its last word, and need not come to its end by itself.
                                let _ = self.child.kill().await;
                                lapsed |= is_over(trusted);
                                if lapsed && report.why == Why::Itself && report.exit.is_none() {
                                    // The watchdog was faster than the guard.
                                    report.why = Why::CutOff;
                                }
                                return Ok(report);
                            }
                            Err(error) => tracing::warn!(line, %error, "a guard says what is not understood"),
                        }
                        continue;
                    }
                },
                _ = beats.tick() => match trust(&coordinator) {
                    Some(until) => {
                        lapsed |= is_over(trusted);
                        trusted = Some(until);
                        let until = MonotonicTime::from_instant(until);
                        self.watchdog.send(WatchdogCommand::RunUntil(until));
                        SupervisorCommand::Beat(until)
                    }
                    None => continue,
                },
                () = said(&mut stop), if !told => {
                    told = true;
                    SupervisorCommand::Stop
                }
                () = said(&mut lost), if self.control.is_some() => {
                    // The guard ends it at once, or is ended with it.
                    self.control = None;
                    overdue.as_mut().reset(Instant::now() + MARGIN);
                    continue;
                }
            };
            if let (Some(control), Ok(line)) = (&mut self.control, serde_json::to_string(&word)) {
                // A guard that is gone is seen above.
                if timeout(HEARS, control.write_all(format!("{line}\n").as_bytes())).await.is_err() {
                    self.end().await;
                    return Err("its guard hangs: it reads nothing".into());
                }
            }
        }
    }

    /// Kills a guard that hangs, if it is there at all: its runner dies with it, and what that has started dies here.
    async fn end(&mut self) {
        let _ = self.child.start_kill();
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::process::Command;

    use super::*;
    use allot_coordination::Settings;
    use allot_coordination::in_process::InProcess;

    fn lasting() -> Command {
        let mut command = Command::new("sleep");
        command.arg("60").process_group(0).kill_on_drop(true);
        command
    }

    #[tokio::test]
    async fn a_guard_that_reads_nothing_is_ended_with_its_runner() {
        let tree = InProcess::new(Duration::from_secs(30));
        let coordinator = Coordinator::start(Arc::new(tree), &Settings::default());
        while trust(&coordinator).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        let mut child = lasting().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut control = child.stdin.take().unwrap();
        // As after many beats.
        let much = vec![b'\n'; 4 << 20];
        assert!(timeout(Duration::from_millis(100), control.write_all(&much)).await.is_err());
        let mut program = lasting().spawn().unwrap();
        let runner = Runner {
            words: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            control: Some(control),
            watchdog: Watchdog::disconnected(),
            group: program::process_group(&program),
            limit: Duration::from_secs(600),
        };
        let ((_stop, stop), (_lost, lost)) = (watch::channel(false), watch::channel(false));
        let attention = Attention { coordinator, stop, lost, beat: Duration::from_millis(10) };
        let waited = timeout(Duration::from_secs(20), runner.wait(attention)).await;
        assert!(waited.expect("it ends").unwrap_err().contains("reads nothing"));
        assert!(!program.wait().await.unwrap().success());
    }
}
