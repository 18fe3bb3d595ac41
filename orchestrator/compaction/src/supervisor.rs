//! The guard: a small process around each runner, which does not let it outlive its permission. It ends the runner's
//! whole group when `allotd` is gone (their pipe closes), when `allotd` has had no word from the coordination service
//! for too long or hangs (no beat comes), when the time is up, and when it is told to.

use std::collections::VecDeque;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::{Instant, sleep_until, timeout};

use allot_runtime::child::program;
use allot_runtime::time::MonotonicTime;

/// Bytes of output that are kept on disk.
const ON_DISK: usize = 64 * 1024;
/// Bytes of output that go into the tree.
const IN_TREE: usize = 1024;
/// How long output is waited for after the runner has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the guard is told first, as a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The runner and its arguments.
    pub(crate) program: Vec<String>,
    /// Its environment, beside ours.
    pub(crate) environment: Vec<(String, String)>,
    /// Its standard input.
    pub(crate) input: String,
    /// How long it may run; milliseconds.
    pub(crate) timeout: u64,
    /// How long it may take to end after SIGTERM; milliseconds.
    pub(crate) stop_limit: u64,
    /// Until when it may run without a beat.
    pub(crate) trust: MonotonicTime,
    /// Where the last of its output is to be written, if anywhere.
    pub(crate) log: Option<String>,
}

/// A line of `allotd` to its guard.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SupervisorCommand {
    /// Nobody can have taken us for dead until then.
    Beat(MonotonicTime),
    /// End the runner.
    Stop,
}

/// A line of the guard.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SupervisorEvent {
    /// It runs, as this process and group.
    Runs(i32),
    /// It could not be started.
    Refused(String),
    /// It has ended.
    Ended(Report),
}

/// How a runner ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) why: Why,
    pub(crate) exit: Option<i32>,
    /// The last KiB of output.
    pub(crate) output: String,
    /// The last line of standard output, where that is a JSON object.
    pub(crate) result: Option<Map<String, Value>>,
}

/// What ended a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    /// It did itself, or somebody else's signal.
    Itself,
    /// Its time was up.
    Timeout,
    /// It was told to.
    Stopped,
    /// No beat came.
    CutOff,
    /// It was not begun: there was no time left to be trusted.
    Unbegun,
    /// `allotd` is gone.
    Abandoned,
}

/// The hidden command: is the guard.
pub async fn run() -> Result<()> {
    let mut control = program::stdin_lines()?;
    program::ignore_termination_signals()?;
    let Some(line) = control.next_line().await? else { return Ok(()) };
    let spec: Spec = serde_json::from_str(&line).context("what the guard is told")?;
    match begin(&spec) {
        Ok((child, group)) => {
            say(&SupervisorEvent::Runs(group.as_raw_pid()));
            let report = attend(&spec, child, group, control).await;
            say(&SupervisorEvent::Ended(report));
        }
        Err(why) => say(&why),
    }
    Ok(())
}

/// Nobody may listen any more.
fn say(word: &SupervisorEvent) {
    let line = serde_json::to_string(word).unwrap_or_default();
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Begins the runner, or says why not.
fn begin(spec: &Spec) -> Result<(Child, Pid), SupervisorEvent> {
    if spec.trust.has_passed() {
        // We stood still meanwhile, and another may be at it by now.
        let report = Report { why: Why::Unbegun, exit: None, output: String::new(), result: None };
        return Err(SupervisorEvent::Ended(report));
    }
    start(spec).map_err(|error| SupervisorEvent::Refused(format!("{error:#}")))
}

fn start(spec: &Spec) -> Result<(Child, Pid)> {
    // It dies with the guard: also a guard can be killed.
    let mut command = program::command_with_parent_death_signal(&spec.program).context("where allotd is")?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    let child = command.spawn().context("starting the runner")?;
    let group = program::process_group(&child).context("the runner's process")?;
    Ok((child, group))
}

/// What was said last, of at most so many bytes.
#[derive(Default)]
struct Tail(VecDeque<u8>);

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let over = self.0.len().saturating_sub(ON_DISK);
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

/// Reads one of the runner's outputs to its end.
async fn listen(stream: Option<impl AsyncRead + Unpin>, tails: Vec<Shared>) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        tails.iter().for_each(|tail| with(tail, |tail| tail.add(bytes)));
    }
}

async fn attend(
    spec: &Spec,
    mut child: Child,
    group: Pid,
    mut control: Lines<BufReader<pipe::Receiver>>,
) -> Report {
    let (all, said) = (Shared::default(), Shared::default());
    let mut listening = tokio::spawn({
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (all, said) = (all.clone(), said.clone());
        async move {
            tokio::join!(listen(out, vec![all.clone(), said]), listen(err, vec![all]));
        }
    });
    if let Some(mut stdin) = child.stdin.take() {
        let input = spec.input.clone();
        tokio::spawn(async move {
            let _ = stdin.write_all(input.as_bytes()).await;
        });
    }
    let (why, exit) = hold(spec, &mut child, group, &mut control).await;
    // Whatever it has left behind.
    let _ = kill_process_group(group, Signal::KILL);
    // Twice, since all of it may be there when we wake from a standstill that took this long.
    if timeout(LAST_WORDS, &mut listening).await.is_err() {
        let _ = timeout(LAST_WORDS, &mut listening).await;
    }
    if let Some(log) = &spec.log {
        // It is a help, not the outcome.
        let _ = std::fs::write(log, with(&all, |tail| tail.last(ON_DISK)));
    }
    let text = String::from_utf8_lossy(&with(&said, |tail| tail.last(ON_DISK))).into_owned();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut output = String::from_utf8_lossy(&with(&all, |tail| tail.last(IN_TREE))).into_owned();
    while output.len() > IN_TREE {
        output.remove(0);
    }
    let result = serde_json::from_str(last).ok().filter(|_| last.len() <= IN_TREE);
    Report { why, exit, output, result }
}

/// Waits for the runner's end, or brings it about.
async fn hold(
    spec: &Spec,
    child: &mut Child,
    group: Pid,
    control: &mut Lines<BufReader<pipe::Receiver>>,
) -> (Why, Option<i32>) {
    let time_up = Instant::now() + Duration::from_millis(spec.timeout);
    let mut trusted = spec.trust.to_instant();
    let mut why = Why::Itself;
    let mut kill_at = None;
    let mut attached = true;
    loop {
        let end = tokio::select! {
            // What has been told counts before the time, also when this process has stood still for long.
            biased;
            status = child.wait() => {
                return (why, status.ok().and_then(|status| status.code()));
            }
            line = control.next_line(), if attached => {
                match line.ok().flatten().map(|line| serde_json::from_str(&line)) {
                    Some(Ok(SupervisorCommand::Beat(until))) => {
                        trusted = until.to_instant();
                        continue;
                    }
                    Some(Ok(SupervisorCommand::Stop)) => Why::Stopped,
                    Some(Err(_)) => continue,
                    None => {
                        attached = false;
                        Why::Abandoned
                    }
                }
            }
            () = sleep_until(trusted), if why != Why::CutOff => Why::CutOff,
            () = sleep_until(time_up), if why == Why::Itself => Why::Timeout,
            () = sleep_until(kill_at.unwrap_or(time_up)), if kill_at.is_some() => {
                let _ = kill_process_group(group, Signal::KILL);
                kill_at = None;
                continue;
            }
        };
        if why == Why::Itself || matches!(end, Why::CutOff | Why::Abandoned) {
            why = end;
        }
        // Where another may begin soon there is no time for manners.
        if matches!(end, Why::CutOff | Why::Abandoned) {
            let _ = kill_process_group(group, Signal::KILL);
        } else if kill_at.is_none() {
            let _ = kill_process_group(group, Signal::TERM);
            kill_at = Some(Instant::now() + Duration::from_millis(spec.stop_limit));
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

    /// A shell's script behind this guard; it has begun when there is a file, whose name is in `$begun`.
    struct Behind {
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

    async fn tell(control: &mut pipe::Sender, word: SupervisorCommand) {
        let line = format!("{}\n", serde_json::to_string(&word).unwrap());
        control.write_all(line.as_bytes()).await.unwrap();
    }

    impl Behind {
        async fn start(name: &str, script: &str, spec: Spec, told: &[SupervisorCommand]) -> Self {
            let begun = std::env::temp_dir().join(format!("allot-guard-{name}-{}", std::process::id()));
            let mut command = Command::new("sh");
            command.args(["-c", script]).env("begun", &begun).process_group(0).kill_on_drop(true);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            let group = program::process_group(&child).unwrap();
            let (mut control, receiver) = pipe::pipe().unwrap();
            for word in told {
                tell(&mut control, *word).await;
            }
            let control_of = BufReader::new(receiver).lines();
            let report = tokio::spawn(async move { attend(&spec, child, group, control_of).await });
            Self { begun, control, report }
        }

        async fn has_begun(&self) {
            let begun = async {
                while !self.begun.exists() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(20), begun).await.expect("it begins");
            std::fs::remove_file(&self.begun).unwrap();
        }

        async fn report(self) -> Report {
            timeout(Duration::from_secs(20), self.report).await.expect("it ends").unwrap()
        }
    }

    #[tokio::test]
    async fn a_runner_that_is_to_stop_may_end_in_an_orderly_way() {
        let script = "trap 'echo put away; exit 3' TERM; touch $begun; while true; do sleep 0.01; done";
        let mut behind = Behind::start("orderly", script, spec(Duration::from_secs(600)), &[]).await;
        behind.has_begun().await;
        tell(&mut behind.control, SupervisorCommand::Stop).await;
        let report = behind.report().await;
        assert_eq!((report.why, report.exit), (Why::Stopped, Some(3)));
        assert!(report.output.ends_with("put away\n"), "{}", report.output);
    }

    #[tokio::test]
    async fn a_runner_whose_time_is_up_is_asked_first_and_killed_when_it_does_not_listen() {
        let script = "trap '' TERM; touch $begun; echo deaf; while true; do sleep 0.01; done";
        let spec = Spec { timeout: 5000, stop_limit: 300, ..spec(Duration::from_secs(600)) };
        let began = Instant::now();
        let behind = Behind::start("deaf", script, spec, &[]).await;
        behind.has_begun().await;
        let report = behind.report().await;
        assert_eq!((report.why, report.exit, report.output.as_str()), (Why::Timeout, None, "deaf\n"));
        assert!(began.elapsed() >= Duration::from_millis(5300), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn what_was_said_long_ago_lets_no_runner_go_on() {
        let over = MonotonicTime::now();
        let told = [SupervisorCommand::Beat(over), SupervisorCommand::Beat(over)];
        let trust = Duration::from_secs(600);
        let behind = Behind::start("beats", "sleep 60", spec(trust), &told).await;
        assert_eq!(behind.report().await.why, Why::CutOff);
        // But what was said meanwhile does.
        let told = [SupervisorCommand::Beat(MonotonicTime::after(trust))];
        let script = "touch $begun; exec sleep 60";
        let mut behind = Behind::start("trusted", script, spec(Duration::ZERO), &told).await;
        behind.has_begun().await;
        tell(&mut behind.control, SupervisorCommand::Stop).await;
        assert_eq!(behind.report().await.why, Why::Stopped);
    }

    #[test]
    fn a_guard_that_comes_too_late_begins_nothing() {
        match begin(&spec(Duration::ZERO)) {
            Err(SupervisorEvent::Ended(report)) => assert_eq!(report.why, Why::Unbegun),
            other => panic!("{other:?}"),
        }
    }
}
