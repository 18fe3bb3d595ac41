//! The media of conferences: an operator's program for each, started and stopped with it. What it writes on its
//! standard output, a line `field=value` each, are the conference's details; that it ends by itself with exit code 0
//! says that people ended the conference. One that fails is started again after a while. A program is a process group,
//! and the group ends with it; none outlives the unit, whatever becomes of that (`watchdog`).
//!
//! Without a program a conference just lives.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::copies::Facts;
use crate::moment::Moment;
use crate::program::{self, Becoming};
use crate::watchdog::{Watchdog, Word};

/// How long a program that failed rests.
const REST: Duration = Duration::from_secs(1);
/// Longer lines are cut: what a detail's value may have.
const LINE: usize = 65_536;
/// Longer names are none of details.
const FIELD: usize = 256;
/// How long it is waited for that a program begins.
const BEGIN: Duration = Duration::from_secs(1);
/// How often it is looked whether all of a group has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long output is waited for after the program has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Word from a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// A detail.
    Detail {
        /// Its conference.
        e164: String,
        /// Which start of it.
        start: u64,
        /// The field's name.
        field: String,
        /// Its value.
        value: String,
    },
    /// It has ended by itself.
    Ended {
        /// Its conference.
        e164: String,
        /// Which start of it.
        start: u64,
    },
}

/// What a program is and how it is ended.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The program and its arguments; empty for none.
    pub(crate) words: Vec<String>,
    /// How long it may take to end after SIGTERM.
    pub(crate) stop_limit: Duration,
}

/// All media of a unit. When it is dropped, programs are killed.
pub(crate) struct Media {
    program: Program,
    /// Where there are programs.
    watchdog: Option<Watchdog>,
    running: BTreeMap<String, Running>,
    starts: u64,
    news: mpsc::Sender<News>,
}

struct Running {
    start: u64,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<oneshot::Sender<()>>>,
}

impl Media {
    /// None yet; word of them comes by `news`.
    pub(crate) fn new(program: Program, news: mpsc::Sender<News>) -> Self {
        let watchdog = (!program.words.is_empty()).then(Watchdog::start);
        Self { program, watchdog, running: BTreeMap::new(), starts: 0, news }
    }

    /// From now on all programs may run for so long, and longer if this is said again by then; without it, for ever.
    pub(crate) fn may_run(&self, limit: Duration) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.tell(Word::Run(Moment::after(limit)));
        }
    }

    /// Begins the media of a conference. What is returned ends when it has begun, or says why it could not.
    pub(crate) fn start(
        &mut self,
        cmu: &str,
        e164: &str,
        epoch: u64,
        facts: &Facts,
    ) -> Result<impl Future<Output = Result<(), String>> + use<>, String> {
        self.starts += 1;
        let start = self.starts;
        let mut begins = None;
        let stop = match (self.program.words.first(), &self.watchdog) {
            (Some(name), Some(watchdog)) => {
                let refused = |error| format!("{name}: {error}");
                let mut command = program::tied(&self.program.words).map_err(refused)?;
                command.stdout(Stdio::piped()).kill_on_drop(true);
                command.env("ALLOT_E164", e164).env("ALLOT_CMU", cmu).env("ALLOT_EPOCH", epoch.to_string());
                command.env("ALLOT_END", &facts.end).env("ALLOT_SIZE", &facts.size);
                command.env("ALLOT_REQUEST", &facts.request);
                command.env("ALLOT_RECOVERING", if facts.recovering { "1" } else { "0" });
                let (stop, stopped) = oneshot::channel();
                let mut attended = Attended {
                    command,
                    e164: e164.to_owned(),
                    start,
                    stop_limit: self.program.stop_limit,
                    news: self.news.clone(),
                    watchdog: watchdog.clone(),
                };
                let (begun, becoming) = attended.begin().map_err(refused)?;
                tokio::spawn(attended.run(begun, stopped));
                begins = Some((name.clone(), becoming));
                Some(stop)
            }
            _ => None,
        };
        self.running.insert(e164.to_owned(), Running { start, stop });
        Ok(async move {
            let Some((name, becoming)) = begins else { return Ok(()) };
            // A machine that takes longer is slow; the program may begin all the same.
            match timeout(BEGIN, becoming.became()).await {
                Ok(Err(error)) => Err(format!("{name}: {error}")),
                Ok(Ok(())) | Err(_) => Ok(()),
            }
        })
    }

    /// Ends the media of a conference, in the background.
    pub(crate) fn stop(&mut self, e164: &str) {
        if let Some(Running { stop: Some(stop), .. }) = self.running.remove(e164) {
            let _ = stop.send(oneshot::channel().0);
        }
    }

    /// Ends all, and waits until they have.
    pub(crate) async fn stop_all(&mut self) {
        let mut ends = Vec::new();
        for running in std::mem::take(&mut self.running).into_values() {
            let (ended, end) = oneshot::channel();
            if running.stop.is_some_and(|stop| stop.send(ended).is_ok()) {
                ends.push(end);
            }
        }
        for end in ends {
            let _ = end.await;
        }
    }

    /// Whether word is of the media that a conference has now, and not of what it had before.
    pub(crate) fn is_current(&self, e164: &str, start: u64) -> bool {
        self.running.get(e164).is_some_and(|running| running.start == start)
    }
}

/// A program with somebody who looks after it.
struct Attended {
    command: Command,
    e164: String,
    start: u64,
    stop_limit: Duration,
    news: mpsc::Sender<News>,
    watchdog: Watchdog,
}

/// A start of it.
struct Begun {
    child: Child,
    group: Pid,
}

impl Attended {
    fn begin(&mut self) -> std::io::Result<(Begun, Becoming)> {
        let (child, becoming) = program::start(&mut self.command)?;
        let group = program::group(&child).ok_or_else(|| std::io::Error::other("it has ended already"))?;
        self.watchdog.tell(Word::Began(group.as_raw_pid()));
        Ok((Begun { child, group }, becoming))
    }

    async fn run(mut self, mut begun: Begun, mut stop: oneshot::Receiver<oneshot::Sender<()>>) {
        loop {
            let mut listening = tokio::spawn(self.listen(begun.child.stdout.take()));
            let status = tokio::select! {
                word = &mut stop => {
                    // It is heard to its end, lest it die of what it says last.
                    self.end(&mut begun).await;
                    self.over(begun.group);
                    listening.abort();
                    drop(word);
                    return;
                }
                status = begun.child.wait() => status,
            };
            self.over(begun.group);
            // What it started may hold its output, and say nothing more.
            let _ = timeout(LAST_WORDS, &mut listening).await;
            listening.abort();
            if status.as_ref().is_ok_and(std::process::ExitStatus::success) {
                let ended = News::Ended { e164: self.e164.clone(), start: self.start };
                tokio::select! { _ = &mut stop => {} _ = self.news.send(ended) => {} }
                return;
            }
            warn!(e164 = self.e164, ?status, "the program of a conference failed; starting it again");
            begun = loop {
                tokio::select! { _ = &mut stop => return, () = sleep(REST) => {} }
                match self.begin() {
                    Ok((again, _)) => break again,
                    Err(error) => {
                        warn!(e164 = self.e164, %error, "the program of a conference does not start");
                    }
                }
            };
        }
    }

    /// The program has ended: so does whatever it has left behind.
    fn over(&self, group: Pid) {
        let _ = kill_process_group(group, Signal::KILL);
        self.watchdog.tell(Word::Ended(group.as_raw_pid()));
    }

    /// Passes on what it tells, until it closes its output.
    fn listen(&self, output: Option<ChildStdout>) -> impl Future<Output = ()> + Send + 'static {
        let (e164, start, news) = (self.e164.clone(), self.start, self.news.clone());
        async move {
            let Some(mut output) = output.map(BufReader::new) else { return };
            let (mut line, mut at_begin) = (Vec::new(), true);
            loop {
                line.clear();
                match (&mut output).take(LINE as u64).read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                if !std::mem::replace(&mut at_begin, line.ends_with(b"\n")) {
                    continue;
                }
                let Some((field, value)) = detail(&line) else {
                    debug!(e164, "a line of a program is not of the form field=value");
                    continue;
                };
                // Who does not hear it any more reads on all the same.
                let _ = news.send(News::Detail { e164: e164.clone(), start, field, value }).await;
            }
        }
    }

    /// Asks all of it to end, and gives it time for that; then ends it.
    async fn end(&self, begun: &mut Begun) {
        let _ = kill_process_group(begun.group, Signal::TERM);
        let all = async {
            let _ = begun.child.wait().await;
            // What it started may take longer than itself.
            while test_kill_process_group(begun.group).is_ok() {
                sleep(LOOK).await;
            }
        };
        if timeout(self.stop_limit, all).await.is_err() {
            let _ = kill_process_group(begun.group, Signal::KILL);
            let _ = begun.child.wait().await;
        }
    }
}

/// A line of the form `field=value`.
fn detail(line: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(line);
    let (field, value) = text.trim_end().split_once('=')?;
    let (field, value) = (field.trim(), value.trim());
    (1..=FIELD).contains(&field.len()).then(|| (field.to_owned(), value.to_owned()))
}
