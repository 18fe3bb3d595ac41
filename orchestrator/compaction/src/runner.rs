//! Starts runners, each under a supervisor process: sends the supervisor its heartbeats and receives how the runner
//! ended.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, interval, sleep, timeout};

use super::ids::TaskId;
use super::notify;
use super::partitions;
use super::results;
use super::settings::Settings;
use super::supervisor::{self, EndCause, Report, Spec, SupervisorCommand, SupervisorEvent};
use super::task::SubTask;
use allot_coordination::Coordinator;
use allot_runtime::blocking;
use allot_runtime::child::program;
use allot_runtime::child::supervised::SupervisedGroup;
use allot_runtime::child::watchdog::{Watchdog, WatchdogCommand};
use allot_runtime::time::MonotonicTime;

/// Time that a supervisor may take after its runner.
const MARGIN: Duration = Duration::from_secs(5);
/// Time limit of the storage of the runners' output.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Most log files of runners that are kept on disk.
const MAX_LOGS: usize = 1000;
/// Time limit of a write to the supervisor's pipe, which has room for many messages.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The signals that a runner depends on while it runs.
pub(crate) struct RunSignals {
    /// The coordinator, whose answers determine the time until which no other unit can have declared this unit lost.
    pub(crate) coordinator: Coordinator,
    /// True when the runner must end in an orderly way.
    pub(crate) stop: watch::Receiver<bool>,
    /// True when the runner must end at once, because this unit's session is lost.
    pub(crate) lost: watch::Receiver<bool>,
    /// The interval between heartbeats to the supervisor.
    pub(crate) heartbeat: Duration,
}

/// Starts runners. Dropping the future of a run kills the runner and everything that it started.
pub(crate) trait Launch: Send + Sync {
    /// Runs a runner to its end. `Err` holds the reason why the outcome is unknown or the start failed.
    fn launch(&self, spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>>;

    /// The reason why this unit cannot start a runner, as far as can be seen without starting one.
    fn problem(&self, _: &Settings) -> BoxFuture<'static, Option<String>> {
        std::future::ready(None).boxed()
    }

    /// Writes the result of a runner to the unit's disk, or deletes it.
    fn keep(&self, _: &Settings, _: TaskId, _: Option<Vec<u8>>) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    /// The results on the unit's disk.
    fn kept(&self, _: &Settings) -> BoxFuture<'static, Vec<(TaskId, Vec<u8>)>> {
        std::future::ready(Vec::new()).boxed()
    }

    /// Passes a notification to the program for them, if there is one.
    fn notify(&self, _: &Settings, _: Vec<u8>) {}

    /// The file that a runner of this subtask works on, as [`partitions::file`] finds it. Takes as long as the storage
    /// takes to answer.
    fn file(&self, config: &Settings, sub: &SubTask) -> BoxFuture<'static, String> {
        partitions::file(config, sub).boxed()
    }

    /// Checks the partition of this subtask, as [`partitions::check`] does. Takes as long as the storage takes to answer.
    fn check<'a>(&self, config: &'a Settings, sub: &'a SubTask) -> BoxFuture<'a, Result<(), String>> {
        partitions::check(config, sub.table(), &sub.partition_name).boxed()
    }
}

/// Runs programs, each under a supervisor, with one watchdog over all of them. The watchdog is needed because a
/// supervisor may be suspended while its runner goes on.
pub(crate) struct SupervisedLaunch {
    watchdog: Watchdog,
    /// The notifications that wait for their program, once there was one.
    notifications: OnceLock<mpsc::Sender<Vec<u8>>>,
}

impl SupervisedLaunch {
    /// Starts the watchdog. No runner is running yet.
    pub(crate) fn new() -> Self {
        Self { watchdog: Watchdog::start(), notifications: OnceLock::new() }
    }
}

/// Makes room for the log of a run: deletes the oldest ones in its directory. Returns the log, unless it cannot be kept.
async fn make_room(log: Option<String>) -> Option<String> {
    /// One run after the other makes room. Storage that does not answer keeps one thread, and not one for each run.
    static MAKING_ROOM: Semaphore = Semaphore::const_new(1);
    let path = PathBuf::from(log?);
    let dir = path.parent()?.to_owned();
    let shown = dir.display().to_string();
    let made = timeout(STORAGE_TIMEOUT, async {
        let turn = MAKING_ROOM.acquire().await;
        blocking::run(move || {
            let made = delete_oldest(&dir);
            drop(turn);
            made
        })
        .await
    });
    match made.await {
        Ok(Ok(())) => path.into_os_string().into_string().ok(),
        Ok(Err(error)) => {
            tracing::warn!(dir = shown, %error, "cannot keep the output of runners");
            None
        }
        Err(_) => {
            tracing::warn!(dir = shown, "cannot keep the output of runners: the storage does not answer");
            None
        }
    }
}

/// Creates the directory of the logs, and deletes the oldest so that another one has room.
fn delete_oldest(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut logs = Vec::new();
    for path in std::fs::read_dir(dir)?.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "log")
            && let Ok(changed) = path.metadata().and_then(|metadata| metadata.modified())
        {
            logs.push((changed, path));
        }
    }
    logs.sort();
    let over = (logs.len() + 1).saturating_sub(MAX_LOGS);
    for (_, path) in logs.into_iter().take(over) {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

impl Launch for SupervisedLaunch {
    fn notify(&self, config: &Settings, notification: Vec<u8>) {
        if config.notify.is_empty() {
            return;
        }
        let queue = self.notifications.get_or_init(|| notify::start(&config.notify));
        if queue.try_send(notification).is_err() {
            tracing::warn!("the program compaction.notify is too slow; a notification is lost");
        }
    }

    fn problem(&self, config: &Settings) -> BoxFuture<'static, Option<String>> {
        let config = config.clone();
        blocking::run(move || config.check_runner().err()).boxed()
    }

    fn keep(&self, config: &Settings, id: TaskId, data: Option<Vec<u8>>) -> BoxFuture<'static, ()> {
        let config = config.clone();
        async move { results::keep(&config, id, data).await }.boxed()
    }

    fn kept(&self, config: &Settings) -> BoxFuture<'static, Vec<(TaskId, Vec<u8>)>> {
        let config = config.clone();
        async move { results::kept(&config).await }.boxed()
    }

    fn launch(&self, mut spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        let watchdog = self.watchdog.clone();
        async move {
            let log = spec.log.take();
            spec.log = make_room(log).await;
            // Storage that answers late must not use up the time for which the session was confirmed.
            match trust(&signals.coordinator) {
                Some(until) => spec.trust = MonotonicTime::from_instant(until),
                None => return Ok(Report::of(EndCause::NotStarted)),
            }
            match Runner::start(&spec, watchdog).await {
                Ok(runner) => runner.wait(signals).await,
                Err(why) => Ok(Report::refused(why)),
            }
        }
        .boxed()
    }
}

/// A runner under its supervisor.
struct Runner {
    child: Child,
    control: Option<ChildStdin>,
    events: Lines<BufReader<ChildStdout>>,
    watchdog: Watchdog,
    /// The runner's process group, once it has started.
    group: Option<SupervisedGroup>,
    /// Time limit of the whole run.
    limit: Duration,
}

/// The time until which no other unit can have declared this unit lost; `None` if that time has passed.
pub(crate) fn trust(coordinator: &Coordinator) -> Option<Instant> {
    coordinator.trusted_until().filter(|until| *until > Instant::now())
}

/// The time until which supervisor and watchdog let a runner run, as they were told.
#[derive(Default)]
struct Permission {
    until: Option<Instant>,
    /// Whether this time may have passed before they learned of the next one: then they had to end the runner.
    ///
    /// Stays true when later times are told. They answer nothing, so a later time does not prove that the runner lived
    /// until then: the watchdog may have killed it before. The flag only decides how the end of a runner by a signal is
    /// counted. If it is true by mistake, a runner that ended by a signal of its own is run again, as after a unit that
    /// was cut off; if it were false by mistake, a subtask would fail because its unit was cut off.
    may_have_lapsed: bool,
}

impl Permission {
    /// They are told of a later time. The message may take as long as `margin`.
    fn extend(&mut self, until: Instant, margin: Duration) {
        self.note(Instant::now() + margin);
        self.until = Some(until);
    }

    /// Notes whether the permission has passed at `now`.
    fn note(&mut self, now: Instant) {
        self.may_have_lapsed |= self.until.is_some_and(|until| until <= now);
    }
}

/// Waits until the flag is true. The reference that `wait_for` returns must not be held across another await.
async fn wait_until_set(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}

impl Runner {
    /// Starts a supervisor, which starts the runner.
    async fn start(spec: &Spec, watchdog: Watchdog) -> Result<Self, String> {
        // Signals that are meant for `allotd` must not end the supervisor, which has to end the runner.
        let mut child = program::allotd_command(supervisor::COMMAND)
            .map_err(|error| format!("allotd does not know its program: {error}"))?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the supervisor does not start: {error}"))?;
        let (Some(mut control), Some(events)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the supervisor has no pipes".into());
        };
        let line = serde_json::to_string(spec).map_err(|error| error.to_string())?;
        let told = timeout(MARGIN, control.write_all(format!("{line}\n").as_bytes())).await;
        let Ok(told) = told else {
            let _ = child.start_kill();
            return Err("the supervisor does not read its input".into());
        };
        told.map_err(|error| format!("the supervisor does not read its input: {error}"))?;
        let events = BufReader::new(events).lines();
        let limit = Duration::from_millis(spec.timeout + spec.stop_limit) + MARGIN;
        Ok(Self { child, control: Some(control), events, watchdog, group: None, limit })
    }

    /// Waits until the runner and its children have ended. Ends the runner in an orderly way on `stop`, and at once
    /// on `lost`.
    async fn wait(mut self, signals: RunSignals) -> Result<Report, String> {
        let RunSignals { coordinator, mut stop, mut lost, heartbeat } = signals;
        let mut beats = interval(heartbeat);
        let mut told = false;
        let mut permission = Permission::default();
        // A hanging supervisor keeps no time limit, so `allotd` keeps one as well.
        let overdue = sleep(self.limit);
        tokio::pin!(overdue);
        loop {
            let command = tokio::select! {
                () = &mut overdue => {
                    self.end().await;
                    return Err("its supervisor hangs, and the time limit has passed".into());
                }
                line = self.events.next_line() => match line.ok().flatten() {
                    None => {
                        // Killed, for example. The runner dies with it: like the loss of a worker, not a failure.
                        self.end().await;
                        return Ok(Report::of(EndCause::Abandoned));
                    }
                    Some(line) => {
                        match serde_json::from_str(&line) {
                            Ok(SupervisorEvent::Runs(group)) => {
                                // Send the time limit first, since the watchdog at once kills a runner without
                                // permission.
                                let until = trust(&coordinator).unwrap_or_else(Instant::now);
                                permission.extend(until, heartbeat);
                                self.watchdog.send(WatchdogCommand::RunUntil(MonotonicTime::from_instant(until)));
                                self.group = SupervisedGroup::new(group, self.watchdog.clone());
                            }
                            Ok(SupervisorEvent::Ended(mut report)) => {
                                // The report is the supervisor's last message, so the process may be killed.
                                let _ = self.child.kill().await;
                                permission.note(Instant::now());
                                if permission.may_have_lapsed && report.why == EndCause::Itself && report.exit.is_none() {
                                    // The watchdog killed the runner before the supervisor did.
                                    report.why = EndCause::CutOff;
                                }
                                return Ok(report);
                            }
                            Err(error) => tracing::warn!(line, %error, "ignoring a message from a supervisor that is not valid"),
                        }
                        continue;
                    }
                },
                _ = beats.tick() => match trust(&coordinator) {
                    Some(until) => {
                        permission.extend(until, heartbeat);
                        let until = MonotonicTime::from_instant(until);
                        self.watchdog.send(WatchdogCommand::RunUntil(until));
                        SupervisorCommand::Beat(until)
                    }
                    None => continue,
                },
                () = wait_until_set(&mut stop), if !told => {
                    told = true;
                    SupervisorCommand::Stop
                }
                () = wait_until_set(&mut lost), if self.control.is_some() => {
                    // The supervisor kills the runner when the pipe closes, or is killed with it.
                    self.control = None;
                    overdue.as_mut().reset(Instant::now() + MARGIN);
                    continue;
                }
            };
            if let (Some(control), Ok(line)) = (&mut self.control, serde_json::to_string(&command)) {
                // A supervisor that is gone is noticed above.
                if timeout(WRITE_TIMEOUT, control.write_all(format!("{line}\n").as_bytes())).await.is_err() {
                    self.end().await;
                    tracing::warn!("killed a supervisor that reads nothing, and its runner");
                    return Ok(Report::of(EndCause::Abandoned));
                }
            }
        }
    }

    /// Kills a hanging supervisor. The runner dies with the supervisor, and the runner's children are killed here.
    async fn end(&mut self) {
        let _ = self.child.start_kill();
        if let Some(group) = &self.group {
            group.kill();
        }
        let _ = self.child.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::process::Command;

    use super::*;
    use allot_coordination::in_process::InProcess;

    fn lasting() -> Command {
        let mut command = Command::new("sleep");
        command.arg("60").process_group(0).kill_on_drop(true);
        command
    }

    #[tokio::test(start_paused = true)]
    async fn permission_may_lapse_before_its_extension_arrives() {
        let margin = Duration::from_millis(100);
        // How long before the permission ends the next one is sent, and whether it may come late.
        for (left, is_late) in [(500, false), (130, false), (70, true), (0, true)] {
            let mut permission = Permission::default();
            permission.extend(Instant::now() + Duration::from_secs(1), margin);
            assert!(!permission.may_have_lapsed);
            sleep(Duration::from_millis(1000 - left)).await;
            permission.extend(Instant::now() + Duration::from_secs(1), margin);
            assert_eq!(permission.may_have_lapsed, is_late, "{left} ms before the end");
            sleep(Duration::from_secs(1)).await;
            permission.note(Instant::now());
            assert!(permission.may_have_lapsed, "the runner ends after the permission");
        }
    }

    #[tokio::test]
    async fn supervisor_that_reads_nothing_is_killed_with_its_runner() {
        let tree = InProcess::new(Duration::from_secs(30));
        let coordinator = Coordinator::start(Arc::new(tree));
        while trust(&coordinator).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        let mut child = lasting().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut control = child.stdin.take().unwrap();
        // As after many heartbeats.
        let much = vec![b'\n'; 4 << 20];
        assert!(timeout(Duration::from_millis(100), control.write_all(&much)).await.is_err());
        let mut program = lasting().spawn().unwrap();
        let watchdog = Watchdog::disconnected();
        let group = SupervisedGroup::new(program.id().unwrap() as i32, watchdog.clone());
        let runner = Runner {
            events: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            control: Some(control),
            watchdog,
            group,
            limit: Duration::from_secs(600),
        };
        let ((_stop, stop), (_lost, lost)) = (watch::channel(false), watch::channel(false));
        let signals = RunSignals { coordinator, stop, lost, heartbeat: Duration::from_millis(10) };
        let waited = timeout(Duration::from_secs(20), runner.wait(signals)).await;
        assert_eq!(waited.expect("it ends").unwrap().why, EndCause::Abandoned);
        assert!(!program.wait().await.unwrap().success());
    }
}
