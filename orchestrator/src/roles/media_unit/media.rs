//! The media of conferences: an operator's program for each, started and stopped with it. What it writes on its
//! standard output, a line `field=value` each, are the conference's details; that it ends by itself with exit code 0
//! says that people ended the conference. One that fails is started again after a while. A program is a process group,
//! and the group ends with it; none outlives the unit, whatever becomes of that (`watchdog`).
//!
//! Without a program a conference just lives.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::copies::Facts;
use allot_runtime::child::program::{self, ExecResult};
use allot_runtime::child::watchdog::{Watchdog, WatchdogCommand};
use allot_runtime::time::MonotonicTime;

/// How long a program that failed rests.
const REST: Duration = Duration::from_secs(1);
/// What a detail's value may have; longer ones are cut, and so are longer lines.
const VALUE: usize = 65_536;
/// Longer names are none of details.
const FIELD: usize = 256;
/// How long it is waited for that a program begins.
const BEGIN: Duration = Duration::from_secs(1);
/// How often it is looked whether all of a group has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long output is waited for after the program has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// WatchdogCommand from a program.
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
    /// Programs that were asked to end and may not have yet, by their conferences.
    ending: BTreeMap<String, Over>,
    starts: u64,
    news: mpsc::Sender<News>,
}

struct Running {
    start: u64,
    /// Where there is a program.
    attended: Option<Attention>,
}

/// Somebody who looks after a program.
struct Attention {
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    over: Over,
}

/// Hears when a program has ended, with all that it has started.
#[derive(Debug, Clone)]
pub(crate) struct Over {
    /// Closed then.
    gone: watch::Receiver<()>,
    /// How long that may take.
    limit: Duration,
}

impl Over {
    /// Waits until it has. What not even SIGKILL ends is waited for no longer.
    pub(crate) async fn wait(mut self) {
        let _ = timeout(self.limit, async { while self.gone.changed().await.is_ok() {} }).await;
    }

    fn is_over(&self) -> bool {
        self.gone.has_changed().is_err()
    }
}

impl Media {
    /// None yet; word of them comes by `news`.
    pub(crate) fn new(program: Program, news: mpsc::Sender<News>) -> Self {
        let watchdog = (!program.words.is_empty()).then(Watchdog::start);
        Self { program, watchdog, running: BTreeMap::new(), ending: BTreeMap::new(), starts: 0, news }
    }

    /// From now on all programs may run for so long, and longer if this is said again by then; without it, for ever.
    pub(crate) fn may_run(&self, limit: Duration) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.send(WatchdogCommand::RunUntil(MonotonicTime::after(limit)));
        }
    }

    /// Begins the media of a conference, when that which it had before has ended. What is returned ends when it has
    /// begun, or says why it could not; and which start it is.
    pub(crate) fn start(
        &mut self,
        cmu: &str,
        e164: &str,
        epoch: u64,
        facts: &Facts,
    ) -> (u64, impl Future<Output = Result<(), String>> + use<>) {
        self.starts += 1;
        let start = self.starts;
        let attended = self.attended(cmu, e164, epoch, facts);
        let (attended, begins) = match attended {
            Ok(Some(attended)) => {
                let (attention, begun) = attended.attend(self.ending.get(e164).cloned());
                (Some(attention), Ok(Some(begun)))
            }
            Ok(None) => (None, Ok(None)),
            Err(reason) => (None, Err(reason)),
        };
        self.running.insert(e164.to_owned(), Running { start, attended });
        let begins = async move {
            // Who was ended before it began is asked no more.
            let Some(begun) = begins? else { return Ok(()) };
            let Ok(begun) = begun.await else { return Ok(()) };
            // A machine that takes longer is slow; the program may begin all the same.
            timeout(BEGIN, begun?.wait()).await.unwrap_or(Ok(()))
        };
        let name = self.program.words.first().cloned().unwrap_or_default();
        (start, async move { begins.await.map_err(|reason: String| format!("{name}: {reason}")) })
    }

    /// The program of a conference, which does not run yet; none where there are no programs.
    fn attended(&self, cmu: &str, e164: &str, epoch: u64, facts: &Facts) -> Result<Option<Attended>, String> {
        let Some(watchdog) = &self.watchdog else { return Ok(None) };
        let mut command = program::command_with_parent_death_signal(&self.program.words)
            .map_err(|error| error.to_string())?;
        command.stdout(Stdio::piped()).kill_on_drop(true);
        command.env("ALLOT_E164", e164).env("ALLOT_CMU", cmu).env("ALLOT_EPOCH", epoch.to_string());
        command.env("ALLOT_END", &facts.end).env("ALLOT_SIZE", &facts.size);
        command.env("ALLOT_REQUEST", &facts.request);
        command.env("ALLOT_RECOVERING", if facts.recovering { "1" } else { "0" });
        Ok(Some(Attended {
            command,
            e164: e164.to_owned(),
            start: self.starts,
            stop_limit: self.program.stop_limit,
            news: self.news.clone(),
            watchdog: watchdog.clone(),
        }))
    }

    /// Ends the media of a conference, in the background.
    pub(crate) fn stop(&mut self, e164: &str) {
        self.ending.retain(|_, over| !over.is_over());
        let Some(Running { attended: Some(attended), .. }) = self.running.remove(e164) else { return };
        drop(attended.stop);
        self.ending.insert(e164.to_owned(), attended.over);
    }

    /// The end of what a conference had, where that is still under way.
    pub(crate) fn ending(&self, e164: &str) -> Option<Over> {
        self.ending.get(e164).filter(|over| !over.is_over()).cloned()
    }

    /// Ends all, and waits until they have.
    pub(crate) async fn stop_all(&mut self) {
        let all: Vec<String> = self.running.keys().cloned().collect();
        all.iter().for_each(|e164| self.stop(e164));
        join_all(std::mem::take(&mut self.ending).into_values().map(Over::wait)).await;
    }

    /// The way by which programs are heard.
    #[cfg(test)]
    pub(crate) fn word(&self) -> mpsc::Sender<News> {
        self.news.clone()
    }

    /// A conference that goes on has a program from now on, which ends when what is returned is dropped.
    #[cfg(test)]
    pub(crate) fn pretend(&mut self, e164: &str) -> watch::Sender<()> {
        let (here, gone) = watch::channel(());
        let over = Over { gone, limit: Duration::from_secs(60) };
        let running = self.running.get_mut(e164).unwrap();
        running.attended = Some(Attention { stop: oneshot::channel().0, over });
        here
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
    /// Looks after it in the background, from its begin, which waits for the end of another. Whether it could be started
    /// is heard; nothing is, where it is to end before that.
    fn attend(self, before: Option<Over>) -> (Attention, oneshot::Receiver<Result<ExecResult, String>>) {
        let (stop, mut stopped) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let (here, gone) = watch::channel(());
        let limit = self.stop_limit + LAST_WORDS;
        // What is waited for before it begins may take as long as it itself.
        let limit = before.as_ref().map_or(limit, |before| before.limit + limit);
        tokio::spawn(async move {
            if let Some(before) = before {
                before.wait().await;
            }
            if matches!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                self.run(begun, stopped).await;
            }
            drop(here);
        });
        (Attention { stop, over: Over { gone, limit } }, begins)
    }

    fn begin(&mut self) -> std::io::Result<(Begun, ExecResult)> {
        let (child, becoming) = program::spawn_with_parent_death_signal(&mut self.command)?;
        let group =
            program::process_group(&child).ok_or_else(|| std::io::Error::other("it has ended already"))?;
        self.watchdog.send(WatchdogCommand::Started(group.as_raw_pid()));
        Ok((Begun { child, group }, becoming))
    }

    async fn run(
        mut self,
        begins: oneshot::Sender<Result<ExecResult, String>>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut begun = match self.begin() {
            Ok((begun, becoming)) => {
                let _ = begins.send(Ok(becoming));
                begun
            }
            Err(error) => {
                let _ = begins.send(Err(error.to_string()));
                return;
            }
        };
        loop {
            let mut listening = tokio::spawn(self.listen(begun.child.stdout.take()));
            let status = tokio::select! {
                _ = &mut stop => {
                    // It is heard to its end, lest it die of what it says last.
                    self.end(&mut begun).await;
                    self.over(begun.group);
                    listening.abort();
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
        self.watchdog.send(WatchdogCommand::Ended(group.as_raw_pid()));
    }

    /// Passes on what it tells, until it closes its output.
    fn listen(&self, output: Option<ChildStdout>) -> impl Future<Output = ()> + Send + 'static {
        let (e164, start, news) = (self.e164.clone(), self.start, self.news.clone());
        async move {
            let Some(mut output) = output.map(BufReader::new) else { return };
            let (mut line, mut at_begin) = (Vec::new(), true);
            loop {
                line.clear();
                match (&mut output).take(VALUE as u64).read_until(b'\n', &mut line).await {
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
    let (field, value) = (field.trim(), cut(value.trim()));
    (1..=FIELD).contains(&field.len()).then(|| (field.to_owned(), value.to_owned()))
}

/// As much as a value may have. Each byte that is no UTF-8 has become three.
fn cut(value: &str) -> &str {
    let end = (0..=value.len().min(VALUE)).rev().find(|&end| value.is_char_boundary(end));
    end.and_then(|end| value.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell that does this, and says so; not yet begun.
    fn shell(script: &str, start: u64, news: &mpsc::Sender<News>) -> Attended {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped()).kill_on_drop(true);
        let watchdog = Watchdog::disconnected();
        let stop_limit = Duration::from_secs(10);
        Attended { command, e164: "1".to_owned(), start, stop_limit, news: news.clone(), watchdog }
    }

    async fn hears(news: &mut mpsc::Receiver<News>) -> (u64, String) {
        let heard = timeout(Duration::from_secs(10), news.recv()).await.unwrap();
        let Some(News::Detail { start, field, .. }) = heard else { panic!("{heard:?}") };
        (start, field)
    }

    const SLOW: &str = "trap 'sleep 0.5; echo bye=1; exit 0' TERM; echo up=1; while :; do sleep 0.02; done";

    #[tokio::test]
    async fn a_program_begins_when_the_one_before_it_has_ended() {
        let (sender, mut news) = mpsc::channel(16);
        let (first, _begun) = shell(SLOW, 1, &sender).attend(None);
        assert_eq!(hears(&mut news).await, (1, "up".to_owned()));
        drop(first.stop);
        // One that is replaced before it begins never does.
        let (second, begun) = shell(SLOW, 2, &sender).attend(Some(first.over.clone()));
        drop(second.stop);
        let (third, third_begun) = shell(SLOW, 3, &sender).attend(Some(second.over.clone()));
        assert!(!first.over.is_over() && !second.over.is_over());
        assert_eq!(hears(&mut news).await, (1, "bye".to_owned()));
        assert_eq!(hears(&mut news).await, (3, "up".to_owned()));
        assert!(first.over.is_over() && second.over.is_over() && !third.over.is_over());
        assert!(begun.await.is_err());
        assert!(third_begun.await.unwrap().is_ok());
        drop(third.stop);
        third.over.clone().wait().await;
        assert!(third.over.is_over());
    }

    #[tokio::test]
    async fn a_program_that_does_not_start_says_why_and_is_over() {
        let (sender, _news) = mpsc::channel(16);
        let mut attended = shell("", 1, &sender);
        attended.command = Command::new("/nowhere/media");
        let (attention, begun) = attended.attend(None);
        assert!(matches!(begun.await, Ok(Err(_))));
        attention.over.wait().await;
    }

    #[test]
    fn a_value_is_never_longer_than_it_may_be_whatever_its_bytes_are() {
        let line = [&b"odd="[..], &vec![0xff; VALUE]].concat();
        let (field, value) = detail(&line).unwrap();
        assert_eq!((field.as_str(), value.len()), ("odd", VALUE / 3 * 3));
        assert!(value.chars().all(|char| char == char::REPLACEMENT_CHARACTER));
        assert_eq!(detail(b" members = 2 \n"), Some(("members".to_owned(), "2".to_owned())));
        assert_eq!(detail(b"no detail"), None);
        assert_eq!(detail(&[&[0xff; 100][..], b"=1"].concat()), None, "the name is too long");
    }
}
