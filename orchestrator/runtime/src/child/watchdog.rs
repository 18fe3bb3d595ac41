//! Ends programs that nobody looks after any more: a process beside the daemon that knows the process groups of all of
//! them. It kills them when the daemon is gone, and where they may run only until a time, which is put off again and
//! again, also when it comes: a daemon that is itself stopped cannot end anything.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::error;

use super::program;
use crate::time::Moment;

/// How long it may take to hear a word.
const HEARS: Duration = Duration::from_secs(1);

/// What it is told, a line of JSON each.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// A program began, as this process group.
    Began(i32),
    /// It has ended.
    Ended(i32),
    /// All programs may run until then, and longer if this is said again by then.
    Run(Moment),
}

/// The way to the watchdog. When the last clone is dropped, it kills what is left, and ends.
#[derive(Debug, Clone)]
pub struct Watchdog(mpsc::UnboundedSender<Word>);

impl Watchdog {
    /// Starts it, and starts it anew whenever it is gone.
    pub fn start() -> Self {
        let (sender, words) = mpsc::unbounded_channel();
        tokio::spawn(keep(words));
        Self(sender)
    }

    /// A watchdog that does nothing, for tests.
    pub fn deaf() -> Self {
        Self(mpsc::unbounded_channel().0)
    }

    /// Tells it something.
    pub fn tell(&self, word: Word) {
        // It ends with us only.
        let _ = self.0.send(word);
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
}

impl Process {
    fn start() -> Result<Self, String> {
        let start = || -> std::io::Result<Child> {
            program::own("watchdog")?.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        };
        let mut child = start().map_err(|error| error.to_string())?;
        let input = child.stdin.take().ok_or("it has no standard input")?;
        Ok(Self { child, input })
    }

    async fn tell(&mut self, word: Word) -> Result<(), String> {
        let line = serde_json::to_string(&word).map_err(|error| error.to_string())?;
        match timeout(HEARS, self.input.write_all(format!("{line}\n").as_bytes())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it does not listen".into()),
        }
    }

    /// Ends one that does not do its work, before it sees the end of its input and takes us for dead.
    async fn dismiss(mut self) {
        let _ = self.child.kill().await;
    }
}

/// What the watchdog has to know.
#[derive(Default)]
struct Known {
    groups: BTreeSet<i32>,
    until: Option<Moment>,
}

impl Known {
    fn learn(&mut self, word: Word) {
        match word {
            Word::Began(group) => drop(self.groups.insert(group)),
            Word::Ended(group) => drop(self.groups.remove(&group)),
            Word::Run(until) => self.until = Some(until),
        }
    }

    /// All of it, for one that knows nothing.
    async fn teach(&self) -> Result<Process, String> {
        let mut process = Process::start()?;
        let words = self.until.map(Word::Run).into_iter().chain(self.groups.iter().copied().map(Word::Began));
        for word in words {
            if let Err(reason) = process.tell(word).await {
                process.dismiss().await;
                return Err(reason);
            }
        }
        Ok(process)
    }
}

/// Passes on what is told; one that is gone is replaced at once, and told all of it.
async fn keep(mut words: mpsc::UnboundedReceiver<Word>) {
    let mut known = Known::default();
    let mut process: Option<Process> = None;
    loop {
        let word = tokio::select! {
            word = words.recv() => match word {
                Some(word) => Some(word),
                None => break,
            },
            () = async {
                match &mut process {
                    Some(process) => drop(process.child.wait().await),
                    None => sleep(HEARS).await,
                }
            } => None,
        };
        if let Some(word) = word {
            known.learn(word);
        }
        let told = match (&mut process, word) {
            (Some(process), Some(word)) => process.tell(word).await,
            (Some(_), None) => Err("it has ended".to_owned()),
            (None, _) => Err("there was none yet".to_owned()),
        };
        if let Err(reason) = told {
            if let Some(gone) = process.take() {
                error!(reason, "the watchdog of our programs is gone; starting another");
                gone.dismiss().await;
            }
            match known.teach().await {
                Ok(taught) => process = Some(taught),
                Err(error) => error!(error, "the watchdog of our programs does not start"),
            }
        }
    }
    if let Some(Process { mut child, input }) = process {
        drop(input);
        let _ = child.wait().await;
    }
}

/// The hidden command: is the watchdog.
pub async fn run() -> Result<()> {
    let control = program::control()?;
    program::mind_no_signals()?;
    watch(control).await;
    Ok(())
}

/// Kills all programs when their time is over, and when nobody is there any more.
async fn watch(mut control: Lines<BufReader<pipe::Receiver>>) {
    let mut groups = BTreeSet::new();
    let mut until: Option<Instant> = None;
    let mut over = false;
    loop {
        tokio::select! {
            // What has been told counts before the time, also when this process has stood still for long.
            biased;
            line = control.next_line() => match line.ok().flatten().map(|line| serde_json::from_str(&line)) {
                Some(Ok(Word::Began(group))) => {
                    groups.insert(group);
                    if over {
                        kill(&groups);
                    }
                }
                Some(Ok(Word::Ended(group))) => drop(groups.remove(&group)),
                Some(Ok(Word::Run(moment))) => {
                    until = Some(moment.instant());
                    over = false;
                }
                Some(Err(_)) => {}
                None => break,
            },
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() && !over => {
                over = true;
                kill(&groups);
            }
        }
    }
    kill(&groups);
}

fn kill(groups: &BTreeSet<i32>) {
    for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncBufReadExt as _;
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_watchdog_that_stood_still_lets_nothing_run_longer_by_what_it_was_told_before() {
        let lasting = || Command::new("sleep").arg("60").process_group(0).kill_on_drop(true).spawn().unwrap();
        let (mut child, mut other) = (lasting(), lasting());
        let group = |child: &Child| program::group(child).unwrap().as_raw_pid();
        let (mut sender, receiver) = pipe::pipe().unwrap();
        let ends = async |child: &mut Child| timeout(Duration::from_secs(20), child.wait()).await.is_ok();
        let mut tell = async |words: &[Word]| {
            for word in words {
                let line = serde_json::to_string(word).unwrap();
                sender.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            }
        };
        let before = Moment::after(Duration::from_millis(50));
        tell(&[Word::Run(before), Word::Began(group(&child)), Word::Run(before)]).await;
        sleep(Duration::from_millis(100)).await;
        let watching = tokio::spawn(watch(BufReader::new(receiver).lines()));
        assert!(ends(&mut child).await);
        // What it is told meanwhile counts.
        tell(&[Word::Run(Moment::after(Duration::from_secs(600))), Word::Began(group(&other))]).await;
        assert!(timeout(Duration::from_millis(100), other.wait()).await.is_err());
        tell(&[Word::Run(before)]).await;
        assert!(ends(&mut other).await);
        watching.abort();
    }
}
