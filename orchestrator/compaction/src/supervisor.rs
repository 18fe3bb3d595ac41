//! The supervisor (the hidden command [`COMMAND`]): a small process around each runner, which does not let the
//! runner outlive its permission. It kills the runner's whole process group, and all other processes that the runner has
//! started, in four cases: `allotd` is gone (their
//! pipe closes); `allotd` hangs or has had no answer from ZooKeeper for too long (no heartbeat comes); the runner's
//! time is up; `allotd` orders a stop.

mod descendants;
mod oom;

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until, timeout};

use allot_runtime::blocking;
use allot_runtime::child::program;
use allot_runtime::child::supervised::SupervisedChild;
use allot_runtime::child::watchdog::Watchdog;
use allot_runtime::time::MonotonicTime;

/// The hidden command of `allotd` that runs the supervisor.
pub const COMMAND: &str = "compaction-supervisor";

/// Bytes of a runner's output that are kept on disk.
const MAX_LOG_BYTES: usize = 64 * 1024;
/// Bytes of a runner's output that go into ZooKeeper.
const MAX_TREE_BYTES: usize = 1024;
/// Time limit for the remaining output after the runner has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The first message to a supervisor, a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The runner and its arguments.
    pub(crate) program: Vec<String>,
    /// Environment variables in addition to those of `allotd`.
    pub(crate) environment: Vec<(String, String)>,
    /// The runner's standard input.
    pub(crate) input: String,
    /// Time limit of the runner, in milliseconds.
    pub(crate) timeout: u64,
    /// Time that the runner has to end after SIGTERM, in milliseconds.
    pub(crate) stop_limit: u64,
    /// Until when the runner may run without a heartbeat.
    pub(crate) trust: MonotonicTime,
    /// File for the end of the runner's output; `None` for no file.
    pub(crate) log: Option<String>,
}

/// A message from `allotd` to the supervisor, a line of JSON.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SupervisorCommand {
    /// Heartbeat: until this time no other unit can have declared this one lost.
    Beat(MonotonicTime),
    /// End the runner in an orderly way.
    Stop,
}

/// A message from the supervisor to `allotd`, a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SupervisorEvent {
    /// The runner has started with this process and group id.
    Runs(i32),
    /// The runner has ended, or could not be started.
    Ended(Report),
}

/// The end of a runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) why: EndCause,
    pub(crate) exit: Option<i32>,
    /// The signal that ended the runner, for people.
    pub(crate) signal: Option<String>,
    /// The last KiB of the runner's output.
    pub(crate) output: String,
    /// The last line of standard output, if it is a JSON object.
    pub(crate) result: Option<Map<String, Value>>,
}

/// The cause of the end of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndCause {
    /// The runner exited, or a foreign signal ended it.
    Itself,
    /// The runner's time limit passed.
    Timeout,
    /// `allotd` ordered the stop.
    Stopped,
    /// No heartbeat came in time.
    CutOff,
    /// The runner was not started, because its permission had expired already.
    NotStarted,
    /// The connection between supervisor and `allotd` closed: one of them is gone or hangs.
    Abandoned,
    /// The unit cannot run the runner, for the reason that is the report's output: a fault of the unit, not of the
    /// partition.
    Refused,
}

impl Report {
    /// The report on a runner that left nothing: it was killed with its supervisor, or was not started.
    pub(crate) fn of(why: EndCause) -> Self {
        Self { why, exit: None, signal: None, output: String::new(), result: None }
    }

    /// The report on a runner that the unit cannot run, for this reason.
    pub(crate) fn refused(output: String) -> Self {
        Self { output, ..Self::of(EndCause::Refused) }
    }
}

/// Runs the supervisor: reads the specification, starts the runner and reports its end.
///
/// # Errors
/// Standard input cannot be read, or the specification is invalid.
pub async fn run() -> Result<()> {
    let mut control = program::stdin_lines()?;
    program::ignore_termination_signals()?;
    descendants::adopt();
    let Some(line) = control.next_line().await? else { return Ok(()) };
    let spec: Spec =
        serde_json::from_str(&line).context("the specification for the supervisor is not valid JSON")?;
    match start_if_trusted(&spec) {
        Ok(child) => {
            send_event(&SupervisorEvent::Runs(child.group().id()));
            let report = supervise(&spec, child, control, descendants::end()).await;
            send_event(&SupervisorEvent::Ended(report));
        }
        Err(event) => send_event(&event),
    }
    Ok(())
}

/// Sends a message to `allotd`. An error is ignored, since `allotd` may be gone.
fn send_event(event: &SupervisorEvent) {
    let line = serde_json::to_string(event).unwrap_or_default();
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Starts the runner, or returns a message with the reason.
fn start_if_trusted(spec: &Spec) -> Result<SupervisedChild, SupervisorEvent> {
    if spec.trust.has_passed() {
        // This process was suspended meanwhile, and another unit may run the subtask by now.
        return Err(SupervisorEvent::Ended(Report::of(EndCause::NotStarted)));
    }
    start(spec).map_err(|error| SupervisorEvent::Ended(Report::refused(format!("{error:#}"))))
}

fn start(spec: &Spec) -> Result<SupervisedChild> {
    // The runner dies with the supervisor, since the supervisor can be killed, too.
    let mut command = program::command_with_parent_death_signal(&spec.program)
        .context("cannot prepare the runner's command")?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    let child = command.spawn().context("cannot start the runner")?;
    // `allotd` registers the runner with its watchdog when this process reports the start.
    SupervisedChild::supervise(child, Watchdog::disconnected()).context("cannot supervise the runner")
}

/// The last bytes of an output stream, at most `MAX_LOG_BYTES`.
#[derive(Default)]
struct Tail(VecDeque<u8>);

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let over = self.0.len().saturating_sub(MAX_LOG_BYTES);
        self.0.drain(..over);
    }

    fn last(&self, count: usize) -> Vec<u8> {
        self.0.iter().skip(self.0.len().saturating_sub(count)).copied().collect()
    }
}

type Shared = Arc<Mutex<Tail>>;

fn with<T>(tail: &Shared, act: impl FnOnce(&mut Tail) -> T) -> T {
    act(&mut tail.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Reads one output stream of the runner to its end.
async fn read_output(stream: Option<impl AsyncRead + Unpin>, tails: Vec<Shared>) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        tails.iter().for_each(|tail| with(tail, |tail| tail.add(bytes)));
    }
}

/// Supervises the runner to its end, and then carries out `end_others`, which ends what has left its group.
async fn supervise(
    spec: &Spec,
    mut child: SupervisedChild,
    mut control: Lines<BufReader<pipe::Receiver>>,
    end_others: impl Future<Output = ()>,
) -> Report {
    let (all, stdout) = (Shared::default(), Shared::default());
    let mut reading = tokio::spawn({
        let (out, err) = (child.take_stdout(), child.take_stderr());
        let (all, stdout) = (all.clone(), stdout.clone());
        async move {
            tokio::join!(read_output(out, vec![all.clone(), stdout]), read_output(err, vec![all]));
        }
    });
    if let Some(mut stdin) = child.take_stdin() {
        let input = spec.input.clone();
        tokio::spawn(async move {
            let _ = stdin.write_all(input.as_bytes()).await;
        });
    }
    let kills = oom::kills();
    let (why, status) = wait_for_end(spec, &mut child, &mut control).await;
    let exit = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal()).map(|signal| oom::name(signal, kills));
    // Kills the processes that the runner has left, which may hold its output open: first those of its group.
    drop(child);
    end_others.await;
    // Wait twice: after a suspension of this process the first wait may expire although all output is already there.
    if timeout(OUTPUT_TIMEOUT, &mut reading).await.is_err() {
        let _ = timeout(OUTPUT_TIMEOUT, &mut reading).await;
    }
    if let Some(log) = spec.log.clone() {
        // The log is an aid only; an error does not change the outcome, nor does storage that does not answer.
        let mut output = with(&all, |tail| tail.last(MAX_LOG_BYTES));
        let has_failed = why == EndCause::Itself && exit != Some(0);
        if has_failed && output.is_empty() {
            // An empty file fits on a full disk, too.
            output = b"the runner failed and wrote nothing\n".to_vec();
        }
        let written = timeout(OUTPUT_TIMEOUT, blocking::run(move || std::fs::write(log, output))).await;
        let is_full = written.is_ok_and(|written| written.is_err_and(|error| is_full(&error)));
        if is_full && has_failed {
            return Report { exit, ..Report::refused("its disk is full, and the runner failed".to_owned()) };
        }
    }
    let text = String::from_utf8_lossy(&with(&stdout, |tail| tail.last(MAX_LOG_BYTES))).into_owned();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut output = String::from_utf8_lossy(&with(&all, |tail| tail.last(MAX_TREE_BYTES))).into_owned();
    while output.len() > MAX_TREE_BYTES {
        output.remove(0);
    }
    let result = serde_json::from_str(last).ok().filter(|_| last.len() <= MAX_TREE_BYTES);
    Report { why, exit, signal, output, result }
}

/// Whether an error means that the disk is full.
fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// Waits for the runner's end, or ends it. Returns the cause and the exit status.
async fn wait_for_end(
    spec: &Spec,
    child: &mut SupervisedChild,
    control: &mut Lines<BufReader<pipe::Receiver>>,
) -> (EndCause, Option<ExitStatus>) {
    let time_up = Instant::now() + Duration::from_millis(spec.timeout);
    let mut trusted = spec.trust.to_instant();
    let mut why = EndCause::Itself;
    let mut attached = true;
    loop {
        let end = tokio::select! {
            // Read messages before the deadlines are checked, also after this process was suspended for long.
            biased;
            status = child.wait() => {
                return (why, status.ok());
            }
            line = control.next_line(), if attached => {
                match line.ok().flatten().map(|line| serde_json::from_str(&line)) {
                    Some(Ok(SupervisorCommand::Beat(until))) => {
                        trusted = until.to_instant();
                        continue;
                    }
                    Some(Ok(SupervisorCommand::Stop)) => EndCause::Stopped,
                    Some(Err(_)) => continue,
                    None => {
                        attached = false;
                        EndCause::Abandoned
                    }
                }
            }
            () = sleep_until(trusted), if why != EndCause::CutOff => EndCause::CutOff,
            () = sleep_until(time_up), if why == EndCause::Itself => EndCause::Timeout,
        };
        if why == EndCause::Itself || matches!(end, EndCause::CutOff | EndCause::Abandoned) {
            why = end;
        }
        // Another unit may soon start the subtask, so the runner is killed at once.
        if matches!(end, EndCause::CutOff | EndCause::Abandoned) {
            child.group().kill();
        } else {
            child.terminate(Duration::from_millis(spec.stop_limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tokio::io::AsyncBufReadExt as _;
    use tokio::process::Command;
    use tokio::time::sleep;

    use super::*;

    /// A shell script run under this supervisor. The script creates the file named in `$begun` when it has started.
    struct SupervisedScript {
        begun: PathBuf,
        control: pipe::Sender,
        report: tokio::task::JoinHandle<Report>,
    }

    fn spec(trust: Duration) -> Spec {
        Spec {
            program: Vec::new(),
            environment: Vec::new(),
            input: String::new(),
            timeout: 600_000,
            stop_limit: 600_000,
            trust: MonotonicTime::after(trust),
            log: None,
        }
    }

    async fn send_command(control: &mut pipe::Sender, command: SupervisorCommand) {
        let line = format!("{}\n", serde_json::to_string(&command).unwrap());
        control.write_all(line.as_bytes()).await.unwrap();
    }

    impl SupervisedScript {
        async fn start(name: &str, script: &str, spec: Spec, commands: &[SupervisorCommand]) -> Self {
            Self::start_with(name, script, spec, commands, |_| std::future::ready(())).await
        }

        /// The same. After the script, others are ended by what `ending` makes of the path in `$begun`.
        async fn start_with<F: Future<Output = ()> + Send + 'static>(
            name: &str,
            script: &str,
            spec: Spec,
            commands: &[SupervisorCommand],
            ending: impl FnOnce(PathBuf) -> F,
        ) -> Self {
            let begun = std::env::temp_dir().join(format!("allot-supervisor-{name}-{}", std::process::id()));
            let mut command = Command::new("sh");
            command.args(["-c", script]).env("begun", &begun).process_group(0).kill_on_drop(true);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            let child = SupervisedChild::supervise(child, Watchdog::disconnected()).unwrap();
            let (mut control, receiver) = pipe::pipe().unwrap();
            for sent in commands {
                send_command(&mut control, *sent).await;
            }
            let control_of = BufReader::new(receiver).lines();
            let ending = ending(begun.clone());
            let report = tokio::spawn(async move { supervise(&spec, child, control_of, ending).await });
            Self { begun, control, report }
        }

        async fn has_begun(&self) {
            let begun = async {
                while !self.begun.exists() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(20), begun).await.expect("the script starts");
            std::fs::remove_file(&self.begun).unwrap();
        }

        async fn report(self) -> Report {
            timeout(Duration::from_secs(20), self.report).await.expect("the script ends").unwrap()
        }
    }

    #[tokio::test]
    async fn stopped_runner_may_end_in_an_orderly_way() {
        let script = "trap 'echo put away; exit 3' TERM; touch $begun; while true; do sleep 0.01; done";
        let mut supervised =
            SupervisedScript::start("orderly", script, spec(Duration::from_secs(600)), &[]).await;
        supervised.has_begun().await;
        send_command(&mut supervised.control, SupervisorCommand::Stop).await;
        let report = supervised.report().await;
        assert_eq!((report.why, report.exit), (EndCause::Stopped, Some(3)));
        assert!(report.output.ends_with("put away\n"), "{}", report.output);
    }

    #[tokio::test]
    async fn overdue_runner_gets_sigterm_and_then_sigkill() {
        let script = "trap '' TERM; touch $begun; echo deaf; while true; do sleep 0.01; done";
        let spec = Spec { timeout: 5000, stop_limit: 300, ..spec(Duration::from_secs(600)) };
        let began = Instant::now();
        let supervised = SupervisedScript::start("deaf", script, spec, &[]).await;
        supervised.has_begun().await;
        let report = supervised.report().await;
        assert_eq!((report.why, report.exit, report.output.as_str()), (EndCause::Timeout, None, "deaf\n"));
        assert!(began.elapsed() >= Duration::from_millis(5300), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn expired_heartbeats_do_not_keep_a_runner_alive() {
        let over = MonotonicTime::now();
        let told = [SupervisorCommand::Beat(over), SupervisorCommand::Beat(over)];
        let trust = Duration::from_secs(600);
        let supervised = SupervisedScript::start("beats", "sleep 60", spec(trust), &told).await;
        assert_eq!(supervised.report().await.why, EndCause::CutOff);
        // A current heartbeat keeps the runner alive.
        let told = [SupervisorCommand::Beat(MonotonicTime::after(trust))];
        let script = "touch $begun; exec sleep 60";
        let mut supervised = SupervisedScript::start("trusted", script, spec(Duration::ZERO), &told).await;
        supervised.has_begun().await;
        send_command(&mut supervised.control, SupervisorCommand::Stop).await;
        assert_eq!(supervised.report().await.why, EndCause::Stopped);
    }

    #[tokio::test]
    async fn processes_that_left_the_group_are_ended_before_the_output_is_read() {
        let script = "setsid sh -c 'touch $begun.left; while ! [ -e $begun.end ]; do sleep 0.01; done
            echo last words; touch $begun.gone' & while ! [ -e $begun.left ]; do sleep 0.01; done; exit 3";
        let ending = |begun: PathBuf| async move {
            let path = |end: &str| format!("{}.{end}", begun.display());
            std::fs::write(path("end"), "").unwrap();
            while !std::fs::exists(path("gone")).unwrap() {
                sleep(Duration::from_millis(5)).await;
            }
            ["left", "end", "gone"].iter().for_each(|end| std::fs::remove_file(path(end)).unwrap());
        };
        let spec = spec(Duration::from_secs(600));
        let supervised = SupervisedScript::start_with("setsid", script, spec, &[], ending).await;
        let report = supervised.report().await;
        assert_eq!((report.exit, report.output.as_str()), (Some(3), "last words\n"));
    }

    #[tokio::test]
    async fn failure_on_a_full_disk_is_that_of_the_unit_also_without_output() {
        for (script, expected) in [
            ("echo x; exit 1", EndCause::Refused),
            ("exit 1", EndCause::Refused),
            ("echo x; exit 0", EndCause::Itself),
            ("exit 0", EndCause::Itself),
        ] {
            let spec = Spec { log: Some("/dev/full".to_owned()), ..spec(Duration::from_secs(600)) };
            let report = SupervisedScript::start("full", script, spec, &[]).await.report().await;
            assert_eq!(report.why, expected, "{script}: {report:?}");
        }
    }

    #[test]
    fn late_supervisor_starts_nothing() {
        match start_if_trusted(&spec(Duration::ZERO)) {
            Err(SupervisorEvent::Ended(report)) => assert_eq!(report.why, EndCause::NotStarted),
            other => panic!("{other:?}"),
        }
    }
}
