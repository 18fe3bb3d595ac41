//! The media of conferences: one program of the operator per conference, which runs as long as the conference does. Each
//! line `field=value` on the program's standard output is a detail of the conference. The conference is open when the
//! program is ready (see `ready`). If the program exits by itself with code 0 after that, people have ended the conference.
//! A program that fails before it is ready has the conference refused. One that fails later is restarted a few times; then
//! the unit gives the conference back. Programs do not outlive the unit (see [`allot_runtime::child`]). A program is told
//! what changes while it runs (see `state`).
//!
//! Without a configured program a conference exists without media.

mod events;
mod ready;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
mod state;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::conferences::{ConferenceParams, ConferenceUpdate};
use super::name;
use crate::config::Ready;
use allot_runtime::child::program::{self, ExecResult};
use allot_runtime::child::supervised::SupervisedChild;
use allot_runtime::child::watchdog::Watchdog;
pub(crate) use events::MediaEvent;
use events::{ProgramEnd, Readiness};
use state::{ConferenceState, StateDir, StateFile};

/// Pause before a program that failed is restarted. It doubles with each restart.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Earlier restarts of a program that was ready for this long no longer count.
const STEADY: Duration = Duration::from_secs(60);
/// The longest value of a detail, in bytes. Longer values, and longer lines, are cut.
const MAX_VALUE: usize = 65_536;
/// The longest name of a detail, in bytes.
const MAX_FIELD: usize = 256;
/// How long output is read after the program has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The configured media program.
#[derive(Debug, Clone)]
pub(crate) struct MediaProgram {
    /// The program and its arguments; empty for conferences without media.
    pub(crate) argv: Vec<String>,
    /// How long the program may take to end after SIGTERM.
    pub(crate) stop_limit: Duration,
    /// How the program says that people can join.
    pub(crate) ready: Ready,
    /// How many times a program that fails is restarted.
    pub(crate) restarts: u32,
}

/// The media of all conferences of a unit. Dropping it kills the programs.
pub(crate) struct Media {
    program: MediaProgram,
    /// `None` if no program is configured.
    watchdog: Option<Watchdog>,
    states: StateDir,
    running: BTreeMap<String, RunningMedia>,
    /// Programs that were asked to end and may still run, by conference.
    stopping: BTreeMap<String, ProgramEnd>,
    starts: u64,
    events: mpsc::Sender<MediaEvent>,
}

struct RunningMedia {
    start: u64,
    /// `None` if no program is configured, or it could not be started.
    supervisor: Option<Supervisor>,
}

/// The task that supervises a program.
struct Supervisor {
    /// Dropped to end the program.
    stop: oneshot::Sender<()>,
    end: ProgramEnd,
    /// What the program is told.
    state: watch::Sender<ConferenceState>,
}

impl Media {
    /// No media yet. Events of programs are sent to `events`.
    pub(crate) fn new(program: MediaProgram, events: mpsc::Sender<MediaEvent>) -> Self {
        let watchdog = (!program.argv.is_empty()).then(Watchdog::start);
        let states = StateDir::default();
        Self {
            program,
            watchdog,
            states,
            running: BTreeMap::new(),
            stopping: BTreeMap::new(),
            starts: 0,
            events,
        }
    }

    /// What kills all programs at the time that it is told; `None` if no program is configured.
    pub(crate) fn watchdog(&self) -> Option<Watchdog> {
        self.watchdog.clone()
    }

    /// Starts the media of a conference once the conference's earlier media has ended. Returns the number of this
    /// start, and a future that waits until the program is ready or tells why it is not.
    pub(crate) fn start(
        &mut self,
        cmu: &str,
        e164: &str,
        epoch: u64,
        params: &ConferenceParams,
    ) -> (u64, impl Future<Output = Result<(), String>> + use<>) {
        self.starts += 1;
        let start = self.starts;
        let (supervisor, ready) = match self.program_of(cmu, e164, epoch, params) {
            Ok(Some(program)) => {
                let state = ConferenceState::created(params);
                let (supervisor, ready) = program.supervise(state, self.stopping.get(e164).cloned());
                (Some(supervisor), Ok(Some(ready)))
            }
            Ok(None) => match self.simulated_program_of(cmu, e164, params) {
                Some((supervisor, ready)) => (Some(supervisor), Ok(Some(ready))),
                None => (None, Ok(None)),
            },
            Err(reason) => (None, Err(reason)),
        };
        self.running.insert(e164.to_owned(), RunningMedia { start, supervisor });
        let name = self.program.argv.first().cloned().unwrap_or_default();
        (start, async move {
            let Some(ready) = ready.map_err(|reason| format!("{name}: {reason}"))? else { return Ok(()) };
            // A program that was stopped before it was ready has no result; nobody waits for one any more.
            ready.await.unwrap_or(Ok(())).map_err(|reason| format!("{name}: {reason}"))
        })
    }

    /// The program of a conference, not spawned yet; `None` if no program is configured.
    fn program_of(
        &self,
        cmu: &str,
        e164: &str,
        epoch: u64,
        params: &ConferenceParams,
    ) -> Result<Option<ConferenceProgram>, String> {
        let Some(watchdog) = &self.watchdog else { return Ok(None) };
        let mut command = program::command_with_parent_death_signal(&self.program.argv)
            .map_err(|error| error.to_string())?;
        command.stdout(Stdio::piped()).kill_on_drop(true);
        command.env("ALLOT_E164", OsStr::from_bytes(&name::bytes(e164)));
        command.env("ALLOT_CMU", cmu).env("ALLOT_EPOCH", epoch.to_string());
        command.env("ALLOT_REQUEST", &params.request);
        command.env("ALLOT_RECOVERING", if params.recovering { "1" } else { "0" });
        Ok(Some(ConferenceProgram {
            command,
            e164: e164.to_owned(),
            start: self.starts,
            program: self.program.clone(),
            events: self.events.clone(),
            watchdog: watchdog.clone(),
            file: self.states.file(self.starts),
        }))
    }

    /// Tells the program of a conference what has changed.
    pub(crate) fn update(&self, e164: &str, update: &ConferenceUpdate) {
        let supervisor = self.running.get(e164).and_then(|running| running.supervisor.as_ref());
        if let Some(supervisor) = supervisor {
            supervisor.state.send_replace(ConferenceState::updated(update));
        }
    }

    /// Ends the media of a conference, in the background.
    pub(crate) fn stop(&mut self, e164: &str) {
        self.stopping.retain(|_, end| !end.has_come());
        let Some(RunningMedia { supervisor: Some(supervisor), .. }) = self.running.remove(e164) else {
            return;
        };
        drop(supervisor.stop);
        self.stopping.insert(e164.to_owned(), supervisor.end);
    }

    /// The end of a conference's earlier media, if it has not come yet.
    pub(crate) fn stopping(&self, e164: &str) -> Option<ProgramEnd> {
        self.stopping.get(e164).filter(|end| !end.has_come()).cloned()
    }

    /// Ends all media; the future waits until it has ended. The media still counts as current: a program that ended by
    /// itself before it was asked to end may only be heard now.
    pub(crate) fn stop_all(&mut self) -> impl Future<Output = ()> + use<> {
        for (e164, running) in &mut self.running {
            if let Some(supervisor) = running.supervisor.take() {
                drop(supervisor.stop);
                self.stopping.insert(e164.clone(), supervisor.end);
            }
        }
        let ends = std::mem::take(&mut self.stopping);
        async { drop(join_all(ends.into_values().map(ProgramEnd::wait)).await) }
    }

    /// Whether an event comes from the media that the conference has now, not from earlier media.
    pub(crate) fn is_current(&self, e164: &str, start: u64) -> bool {
        self.running.get(e164).is_some_and(|running| running.start == start)
    }

    /// The program of a conference in a simulation of programs; else none.
    #[cfg(any(test, feature = "simulation"))]
    fn simulated_program_of(
        &self,
        cmu: &str,
        e164: &str,
        params: &ConferenceParams,
    ) -> Option<(Supervisor, Readiness)> {
        let (stop, stopped) = oneshot::channel();
        let (state, told) = watch::channel(ConferenceState::created(params));
        let (e164, cmu) = (e164.to_owned(), cmu.to_owned());
        let earlier = self.stopping.get(&e164).cloned();
        let limit =
            earlier.as_ref().map_or(simulated::STOP_LIMIT, |earlier| earlier.limit + simulated::STOP_LIMIT);
        let program = simulated::Program { e164, cmu, start: self.starts, told, events: self.events.clone() };
        let (ended, ready) = simulated::start(program, earlier, stopped)?;
        Some((Supervisor { stop, end: ProgramEnd { ended, limit }, state }, ready))
    }

    #[cfg(not(any(test, feature = "simulation")))]
    #[allow(clippy::unused_self, reason = "simulations run in tests")]
    fn simulated_program_of(
        &self,
        _cmu: &str,
        _e164: &str,
        _params: &ConferenceParams,
    ) -> Option<(Supervisor, Readiness)> {
        None
    }

    /// Where programs send their events.
    #[cfg(test)]
    pub(crate) fn event_sender(&self) -> mpsc::Sender<MediaEvent> {
        self.events.clone()
    }

    /// Gives a conference that has no program a program that ends when the result is dropped.
    #[cfg(test)]
    pub(crate) fn fake_program(&mut self, e164: &str) -> watch::Sender<()> {
        let (program, ended) = watch::channel(());
        let end = ProgramEnd { ended, limit: Duration::from_secs(60) };
        let running = self.running.get_mut(e164).unwrap();
        let state = watch::Sender::new(ConferenceState::default());
        running.supervisor = Some(Supervisor { stop: oneshot::channel().0, end, state });
        program
    }
}

/// The program of one conference.
struct ConferenceProgram {
    command: Command,
    e164: String,
    start: u64,
    program: MediaProgram,
    events: mpsc::Sender<MediaEvent>,
    watchdog: Watchdog,
    file: StateFile,
}

/// How one run of a program ended.
enum RunEnd {
    /// The unit stopped the program.
    Stopped,
    /// The program exited with code 0 after it was ready.
    ByPeople,
    /// The program failed for this reason, after it had been ready for this long, if at all.
    Failed(String, Option<Duration>),
}

impl ConferenceProgram {
    /// Spawns and supervises the program in the background, after `earlier` has ended. The receiver gets nothing if
    /// the program is stopped before it is ready.
    fn supervise(self, state: ConferenceState, earlier: Option<ProgramEnd>) -> (Supervisor, Readiness) {
        let (stop, mut stopped) = oneshot::channel();
        let (state, changes) = watch::channel(state);
        let (report_ready, ready) = oneshot::channel();
        let (running, ended) = watch::channel(());
        let limit = self.program.stop_limit + OUTPUT_TIMEOUT;
        // The earlier program may take its own limit to end.
        let limit = earlier.as_ref().map_or(limit, |earlier| earlier.limit + limit);
        tokio::spawn(async move {
            if let Some(earlier) = earlier {
                earlier.wait().await;
            }
            if matches!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                self.run(report_ready, stopped, changes).await;
            }
            drop(running);
        });
        (Supervisor { stop, end: ProgramEnd { ended, limit }, state }, ready)
    }

    /// Spawns the program with what is so now. The task tells the program each later change.
    fn spawn(
        &mut self,
        mut changes: watch::Receiver<ConferenceState>,
    ) -> std::io::Result<(SupervisedChild, ExecResult, JoinSet<()>)> {
        let state = changes.borrow_and_update().clone();
        self.file.write(&state);
        self.file.name_in(&mut self.command);
        state.set_variables(&mut self.command);
        let (child, exec_result, input) = SupervisedChild::spawn(&mut self.command, self.watchdog.clone())?;
        let mut teller = JoinSet::new();
        teller.spawn(state::tell(changes, input, self.file.clone()));
        Ok((child, exec_result, teller))
    }

    /// Runs the program, again if it fails, until it ends for good.
    async fn run(
        mut self,
        report_ready: oneshot::Sender<Result<(), String>>,
        mut stop: oneshot::Receiver<()>,
        changes: watch::Receiver<ConferenceState>,
    ) {
        let (mut report_ready, mut restarts) = (Some(report_ready), 0);
        loop {
            let (reason, served) = match self.run_once(&mut report_ready, &mut stop, &changes).await {
                RunEnd::Stopped => return,
                RunEnd::ByPeople => {
                    let _ = self.events.send(MediaEvent::Ended { e164: self.e164, start: self.start }).await;
                    return;
                }
                RunEnd::Failed(reason, served) => (reason, served),
            };
            if let Some(report_ready) = report_ready.take() {
                let _ = report_ready.send(Err(reason));
                return;
            }
            if served.is_some_and(|served| served >= STEADY) {
                restarts = 0;
            }
            if restarts >= self.program.restarts {
                let event = MediaEvent::Failed { e164: self.e164, start: self.start, reason };
                let _ = self.events.send(event).await;
                return;
            }
            let pause = (RESTART_PAUSE * 2_u32.saturating_pow(restarts)).min(LONGEST_PAUSE);
            restarts += 1;
            metrics::counter!("allot_unit_restarts_total").increment(1);
            warn!(e164 = self.e164, reason, restarts, "the program of a conference failed; restarting it");
            tokio::select! { _ = &mut stop => return, () = sleep(pause) => {} }
        }
    }

    /// Runs the program once. Tells whether it is ready, the first time.
    async fn run_once(
        &mut self,
        report_ready: &mut Option<oneshot::Sender<Result<(), String>>>,
        stop: &mut oneshot::Receiver<()>,
        changes: &watch::Receiver<ConferenceState>,
    ) -> RunEnd {
        // The task ends with this run.
        let (mut child, exec_result, _teller) = match self.spawn(changes.clone()) {
            Ok(spawned) => spawned,
            Err(error) => return RunEnd::Failed(error.to_string(), None),
        };
        let (has_line, line) = oneshot::channel();
        let mut output = tokio::spawn(self.read_output(child.take_stdout(), has_line));
        let mut readiness = pin!(ready::wait(&self.program.ready, &self.command, exec_result, line));
        let mut ready_since = None;
        let status = loop {
            tokio::select! {
                biased;
                // First: a program that has ended was not asked to.
                status = child.wait() => break status,
                _ = &mut *stop => {
                    // Output is read to its end: a program whose output is closed may die before it has ended properly.
                    child.stop(self.program.stop_limit).await;
                    output.abort();
                    return RunEnd::Stopped;
                }
                result = &mut readiness, if ready_since.is_none() => match result {
                    Ok(()) => ready_since = Some(note_ready(report_ready)),
                    Err(reason) => {
                        output.abort();
                        return RunEnd::Failed(reason, None);
                    }
                },
            }
        };
        // Kills what the program left behind.
        drop(child);
        // A process that escaped from the group may hold the output open and never write again.
        let _ = timeout(OUTPUT_TIMEOUT, &mut output).await;
        output.abort();
        if ready_since.is_none() {
            match readiness.now_or_never() {
                Some(Ok(())) => ready_since = Some(note_ready(report_ready)),
                Some(Err(reason)) => return RunEnd::Failed(reason, None),
                None => {}
            }
        }
        let served = ready_since.map(|since| since.elapsed());
        let status = match status {
            // Even if the program was asked to end meanwhile: people ended the conference before.
            Ok(status) if status.success() && served.is_some() => return RunEnd::ByPeople,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let when = if served.is_some() { "" } else { " before it was ready" };
        RunEnd::Failed(format!("ended{when} with {status}"), served)
    }

    /// Sends an event for each detail that the program writes, until the program closes its output. `ready` hears of the
    /// line by which the program says that it is ready.
    fn read_output(
        &self,
        output: Option<ChildStdout>,
        ready: oneshot::Sender<()>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (e164, start, events) = (self.e164.clone(), self.start, self.events.clone());
        async move {
            let Some(mut output) = output.map(BufReader::new) else {
                warn!(e164, "the program of a conference has no output; its details are unknown");
                return;
            };
            let (mut line, mut at_line_start, mut ready) = (Vec::new(), true, Some(ready));
            loop {
                line.clear();
                match (&mut output).take(MAX_VALUE as u64).read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                // The rest of a line that is too long is skipped.
                if !std::mem::replace(&mut at_line_start, line.ends_with(b"\n")) {
                    continue;
                }
                if line.trim_ascii() == ready::LINE {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(());
                    }
                    continue;
                }
                let Some((field, value)) = parse_detail(&line) else {
                    debug!(e164, "ignoring a line of a program that is not of the form field=value");
                    continue;
                };
                // Output is read even if nobody receives events any more: the program must not block on it.
                let _ = events.send(MediaEvent::Detail { e164: e164.clone(), start, field, value }).await;
            }
        }
    }
}

/// The program is ready: tells it the first time, and returns when that was.
fn note_ready(report: &mut Option<oneshot::Sender<Result<(), String>>>) -> Instant {
    if let Some(report) = report.take() {
        let _ = report.send(Ok(()));
    }
    Instant::now()
}

/// A line of the form `field=value`.
fn parse_detail(line: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(line);
    let (field, value) = text.trim_end().split_once('=')?;
    let (field, value) = (field.trim(), cut(value.trim()));
    (1..=MAX_FIELD).contains(&field.len()).then(|| (field.to_owned(), value.to_owned()))
}

/// At most [`MAX_VALUE`] bytes of a value. A line may have become longer: each invalid byte became three.
fn cut(value: &str) -> &str {
    let end = (0..=value.len().min(MAX_VALUE)).rev().find(|&end| value.is_char_boundary(end));
    end.and_then(|end| value.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(ready: Ready) -> MediaProgram {
        let stop_limit = Duration::from_secs(10);
        MediaProgram { argv: vec!["true".to_owned()], stop_limit, ready, restarts: 1 }
    }

    /// A shell script as the program of conference 1, not spawned yet.
    fn shell(script: &str, start: u64, events: &mpsc::Sender<MediaEvent>) -> ConferenceProgram {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped()).kill_on_drop(true);
        let watchdog = Watchdog::disconnected();
        let program = program(Ready::Spawn);
        let (e164, events, file) = ("1".to_owned(), events.clone(), StateDir::default().file(start));
        ConferenceProgram { command, e164, start, program, events, watchdog, file }
    }

    async fn next_detail(events: &mut mpsc::Receiver<MediaEvent>) -> (u64, String) {
        let event = timeout(Duration::from_secs(10), events.recv()).await.unwrap();
        let Some(MediaEvent::Detail { start, field, .. }) = event else { panic!("{event:?}") };
        (start, field)
    }

    const SLOW: &str = "trap 'sleep 0.5; echo bye=1; exit 0' TERM; echo up=1; while :; do sleep 0.02; done";

    #[tokio::test]
    async fn program_starts_only_after_the_conferences_earlier_program_has_ended() {
        let (sender, mut events) = mpsc::channel(16);
        let (first, _) = shell(SLOW, 1, &sender).supervise(ConferenceState::default(), None);
        assert_eq!(next_detail(&mut events).await, (1, "up".to_owned()));
        drop(first.stop);
        // The second is stopped before it is spawned, and never runs.
        let (second, spawned) =
            shell(SLOW, 2, &sender).supervise(ConferenceState::default(), Some(first.end.clone()));
        drop(second.stop);
        let (third, third_spawned) =
            shell(SLOW, 3, &sender).supervise(ConferenceState::default(), Some(second.end.clone()));
        assert!(!first.end.has_come() && !second.end.has_come());
        assert_eq!(next_detail(&mut events).await, (1, "bye".to_owned()));
        assert_eq!(next_detail(&mut events).await, (3, "up".to_owned()));
        assert!(first.end.has_come() && second.end.has_come() && !third.end.has_come());
        assert!(spawned.await.is_err());
        assert!(third_spawned.await.unwrap().is_ok());
        drop(third.stop);
        third.end.clone().wait().await;
        assert!(third.end.has_come());
    }

    #[tokio::test]
    async fn program_that_does_not_start_reports_why_and_has_ended() {
        let (sender, _events) = mpsc::channel(16);
        let mut program = shell("", 1, &sender);
        program.command = Command::new("/nowhere/media");
        let (supervisor, spawned) = program.supervise(ConferenceState::default(), None);
        assert!(matches!(spawned.await, Ok(Err(_))));
        supervisor.end.wait().await;
    }

    #[tokio::test]
    async fn program_gets_the_bytes_of_a_name_that_is_not_utf8() {
        let media = Media::new(program(Ready::Spawn), mpsc::channel(1).0);
        let program = media.program_of("a:1:1", "7\\xff", 5, &ConferenceParams::default()).unwrap().unwrap();
        let mut set = program.command.as_std().get_envs();
        let name = set.find(|(name, _)| *name == "ALLOT_E164").and_then(|(_, value)| value);
        assert_eq!(name, Some(OsStr::from_bytes(b"7\xff")));
    }

    #[tokio::test]
    async fn end_by_people_counts_if_the_program_is_stopped_after_it_ended() {
        let (sender, mut events) = mpsc::channel(16);
        for start in 1..9 {
            // A process outside of the group holds the output open for longer than it is read.
            let (program, _) = shell("setsid sleep 3 & sleep 0.2; echo up=1", start, &sender)
                .supervise(ConferenceState::default(), None);
            assert_eq!(next_detail(&mut events).await, (start, "up".to_owned()));
            // The program itself ends at once.
            sleep(Duration::from_millis(300)).await;
            drop(program.stop);
            program.end.wait().await;
            assert_eq!(events.try_recv(), Ok(MediaEvent::Ended { e164: "1".to_owned(), start }));
        }
    }

    /// What a start of this script results in.
    async fn started(
        script: &str,
        ready: Ready,
    ) -> (Supervisor, Result<(), String>, mpsc::Receiver<MediaEvent>) {
        let (sender, events) = mpsc::channel(16);
        let program = ConferenceProgram { program: program(ready), ..shell(script, 1, &sender) };
        let (supervisor, ready) = program.supervise(ConferenceState::default(), None);
        let result = timeout(Duration::from_secs(10), ready).await.unwrap().unwrap();
        (supervisor, result, events)
    }

    #[tokio::test]
    async fn program_is_ready_when_it_says_so_and_not_before() {
        let begun = Instant::now();
        let script = "echo joining=0; sleep 0.4; echo READY; echo up=1; sleep 60";
        let (_supervisor, result, mut events) = started(script, Ready::Line).await;
        assert_eq!(result, Ok(()));
        assert!(begun.elapsed() >= Duration::from_millis(400));
        assert_eq!(next_detail(&mut events).await, (1, "joining".to_owned()));
        assert_eq!(next_detail(&mut events).await, (1, "up".to_owned()), "the line is no detail");
    }

    #[tokio::test]
    async fn command_says_when_the_program_is_ready() {
        let file = std::env::temp_dir().join(format!("allot-ready-{}", std::process::id()));
        let (script, check) = (format!("sleep 0.3; touch {0}; sleep 60", file.display()), file.display());
        let begun = Instant::now();
        let (_supervisor, result, _) = started(&script, Ready::Exec(format!("test -e {check}"))).await;
        std::fs::remove_file(&file).unwrap();
        assert_eq!(result, Ok(()));
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }

    #[tokio::test]
    async fn program_that_ends_before_it_is_ready_is_not_restarted() {
        for script in ["exit 1", "exit 0", "echo up=1; exit 3"] {
            let (supervisor, result, mut events) = started(script, Ready::Line).await;
            assert!(
                result.unwrap_err().starts_with("ended before it was ready with exit status"),
                "{script}"
            );
            supervisor.end.wait().await;
            while let Ok(event) = events.try_recv() {
                assert!(matches!(event, MediaEvent::Detail { .. }), "{event:?}");
            }
        }
    }

    #[tokio::test]
    async fn program_that_is_ready_and_exits_with_0_at_once_was_ended_by_people() {
        for _ in 0..8 {
            let (_supervisor, result, mut events) = started("echo READY", Ready::Line).await;
            assert_eq!(result, Ok(()));
            assert_eq!(events.recv().await, Some(MediaEvent::Ended { e164: "1".to_owned(), start: 1 }));
        }
    }

    #[tokio::test]
    async fn program_that_fails_again_and_again_is_given_up() {
        let begun = Instant::now();
        let (_supervisor, result, mut events) = started("echo READY; echo up=1; exit 1", Ready::Line).await;
        assert_eq!(result, Ok(()));
        // The first run, and one restart.
        assert_eq!(next_detail(&mut events).await, (1, "up".to_owned()));
        assert_eq!(next_detail(&mut events).await, (1, "up".to_owned()));
        let Some(MediaEvent::Failed { start: 1, reason, .. }) = events.recv().await else { panic!() };
        assert_eq!(reason, "ended with exit status: 1");
        assert!(begun.elapsed() >= RESTART_PAUSE);
    }

    #[test]
    fn value_is_cut_to_the_limit_even_if_it_is_not_utf8() {
        let line = [&b"odd="[..], &vec![0xff; MAX_VALUE]].concat();
        let (field, value) = parse_detail(&line).unwrap();
        assert_eq!((field.as_str(), value.len()), ("odd", MAX_VALUE / 3 * 3));
        assert!(value.chars().all(|char| char == char::REPLACEMENT_CHARACTER));
        assert_eq!(parse_detail(b" members = 2 \n"), Some(("members".to_owned(), "2".to_owned())));
        assert_eq!(parse_detail(b"no detail"), None);
        assert_eq!(parse_detail(&[&[0xff; 100][..], b"=1"].concat()), None, "the name is too long");
    }
}
