//! The media of conferences: an operator's program for each, started and stopped with it. What it writes on its
//! standard output, a line `field=value` each, are the conference's details; that it ends by itself with exit code 0
//! says that people ended the conference. One that fails is started again after a while.
//!
//! Without a program a conference just lives.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::copies::Facts;

/// How long a program that failed rests.
const REST: Duration = Duration::from_secs(1);
/// Longer lines are cut: what a detail's value may have.
const LINE: usize = 65_536;

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
        Self { program, running: BTreeMap::new(), starts: 0, news }
    }

    /// Begins the media of a conference; why not, if it cannot.
    pub(crate) fn start(&mut self, cmu: &str, e164: &str, epoch: u64, facts: &Facts) -> Result<(), String> {
        self.starts += 1;
        let start = self.starts;
        let stop = match self.program.words.split_first() {
            None => None,
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
                command.env("ALLOT_E164", e164).env("ALLOT_CMU", cmu).env("ALLOT_EPOCH", epoch.to_string());
                command.env("ALLOT_END", &facts.end).env("ALLOT_SIZE", &facts.size);
                command.env("ALLOT_REQUEST", &facts.request);
                command.env("ALLOT_RECOVERING", if facts.recovering { "1" } else { "0" });
                // Not for programs.
                for secret in ["ALLOT_REDIS_PASSWORD", "ALLOT_SENTINEL_PASSWORD", "ALLOT_ZOOKEEPER_PASSWORD"]
                {
                    command.env_remove(secret);
                }
                let child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
                let (stop, stopped) = oneshot::channel();
                let attended = Attended {
                    command,
                    e164: e164.to_owned(),
                    start,
                    stop_limit: self.program.stop_limit,
                    news: self.news.clone(),
                };
                tokio::spawn(attended.run(child, stopped));
                Some(stop)
            }
        };
        self.running.insert(e164.to_owned(), Running { start, stop });
        Ok(())
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
}

impl Attended {
    async fn run(mut self, mut child: Child, mut stop: oneshot::Receiver<oneshot::Sender<()>>) {
        loop {
            let mut output = child.stdout.take().map(BufReader::new);
            let status = tokio::select! {
                word = &mut stop => {
                    self.end(&mut child).await;
                    drop(word);
                    return;
                }
                status = async {
                    self.listen(output.as_mut()).await;
                    child.wait().await
                } => status,
            };
            if status.as_ref().is_ok_and(std::process::ExitStatus::success) {
                let _ = self.news.send(News::Ended { e164: self.e164.clone(), start: self.start }).await;
                return;
            }
            warn!(e164 = self.e164, ?status, "the program of a conference failed; starting it again");
            loop {
                tokio::select! { _ = &mut stop => return, () = sleep(REST) => {} }
                match self.command.spawn() {
                    Ok(again) => {
                        child = again;
                        break;
                    }
                    Err(error) => {
                        warn!(e164 = self.e164, %error, "the program of a conference does not start");
                    }
                }
            }
        }
    }

    /// Passes on what it tells, until it closes its output.
    async fn listen(&self, output: Option<&mut BufReader<ChildStdout>>) {
        let Some(output) = output else { return };
        let mut line = Vec::new();
        loop {
            line.clear();
            match output.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            line.truncate(LINE);
            let text = String::from_utf8_lossy(&line);
            let Some((field, value)) = text.trim_end().split_once('=') else {
                debug!(e164 = self.e164, "a line of a program is not of the form field=value");
                continue;
            };
            let (field, value) = (field.trim().to_owned(), value.trim().to_owned());
            let news = News::Detail { e164: self.e164.clone(), start: self.start, field, value };
            if self.news.send(news).await.is_err() {
                return;
            }
        }
    }

    async fn end(&self, child: &mut Child) {
        let Some(pid) = child.id() else { return };
        // The standard library knows SIGKILL only.
        let asked = Command::new("kill").arg("-TERM").arg(pid.to_string()).status().await;
        if asked.is_ok() && timeout(self.stop_limit, child.wait()).await.is_ok() {
            return;
        }
        let _ = child.kill().await;
    }
}
