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
use tokio::time::{interval, sleep};

use super::guard::{Report, Say, Spec, Why, Word};
use crate::coordination::Coordinator;
use crate::program;
use crate::watchdog::{self, Watchdog};

/// How much longer than its runner may take a guard may take.
const MARGIN: Duration = Duration::from_secs(5);

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
            self.watchdog.tell(watchdog::Word::Ended(group.as_raw_pid()));
        }
    }
}

/// How long nobody can have taken this process for dead; milliseconds, `None` where somebody may have.
pub(crate) fn trust(coordinator: &Coordinator) -> Option<u64> {
    let until = coordinator.trusted_until()?;
    let left = until.saturating_duration_since(Instant::now()).as_millis() as u64;
    (left > 0).then_some(left)
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
        let mut child = program::own("compaction-guard")
            .map_err(|error| format!("allotd does not know its program: {error}"))?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the guard does not start: {error}"))?;
        let (Some(mut control), Some(words)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the guard has no pipes".into());
        };
        let line = serde_json::to_string(spec).map_err(|error| error.to_string())?;
        let told = control.write_all(format!("{line}\n").as_bytes()).await;
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
                    let _ = self.child.start_kill();
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
                            Ok(Say::Runs(group)) => {
                                self.group = Pid::from_raw(group);
                                // First until when: what begins after that time is ended at once.
                                let ms = trust(&coordinator).unwrap_or_default();
                                trusted = Some(Instant::now() + Duration::from_millis(ms));
                                self.watchdog.tell(watchdog::Word::Run(ms));
                                self.watchdog.tell(watchdog::Word::Began(group));
                            }
                            Ok(Say::Refused(why)) => return Err(why),
                            Ok(Say::Ended(mut report)) => {
                                self.control = None;
                                let _ = self.child.wait().await;
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
                    Some(ms) => {
                        lapsed |= is_over(trusted);
                        trusted = Some(Instant::now() + Duration::from_millis(ms));
                        self.watchdog.tell(watchdog::Word::Run(ms));
                        Word::Beat(ms)
                    }
                    None => continue,
                },
                () = said(&mut stop), if !told => {
                    told = true;
                    Word::Stop
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
                let _ = control.write_all(format!("{line}\n").as_bytes()).await;
            }
        }
    }

    /// In the place of a guard that was killed: its runner dies with it, and what that has started dies here.
    async fn end(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait().await;
    }
}
