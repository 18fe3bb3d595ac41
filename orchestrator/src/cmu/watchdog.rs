//! Ends media that nobody looks after any more: a process beside the unit that knows the process groups of all its
//! programs. It kills them when the unit is gone, and where `self-stop` is set also when the unit gave no sign of life
//! in time: a unit that is itself stopped cannot end anything.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::error;

use crate::cli::Outcome;
use crate::program;

/// How long it may take to hear a word.
const HEARS: Duration = Duration::from_secs(1);

/// What the unit tells, a line of JSON each.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// A program began, as this process group.
    Began(i32),
    /// It has ended.
    Ended(i32),
    /// All programs may run for so many milliseconds from now, and longer if this is said again by then.
    Run(u64),
}

/// The way to the watchdog. When the last clone is dropped, it kills what is left, and ends.
#[derive(Debug, Clone)]
pub(super) struct Watchdog(mpsc::UnboundedSender<Word>);

impl Watchdog {
    /// Starts it, and starts it anew whenever it is gone.
    pub(super) fn start() -> Self {
        let (sender, words) = mpsc::unbounded_channel();
        tokio::spawn(keep(words));
        Self(sender)
    }

    /// Tells it something.
    pub(super) fn tell(&self, word: Word) {
        // It ends with us only.
        let _ = self.0.send(word);
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
}

impl Process {
    async fn begin(words: &[Word]) -> Result<Self, String> {
        let start = || -> std::io::Result<Child> {
            program::own("media-watchdog")?.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        };
        let mut child = start().map_err(|error| error.to_string())?;
        let input = child.stdin.take().ok_or("it has no standard input")?;
        let mut process = Self { child, input };
        for word in words {
            process.tell(*word).await?;
        }
        Ok(process)
    }

    async fn tell(&mut self, word: Word) -> Result<(), String> {
        let line = serde_json::to_string(&word).map_err(|error| error.to_string())?;
        match timeout(HEARS, self.input.write_all(format!("{line}\n").as_bytes())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it does not listen".into()),
        }
    }
}

/// Passes on what is told; the groups that run are told again to one that had to be started anew.
async fn keep(mut words: mpsc::UnboundedReceiver<Word>) {
    let mut groups = BTreeSet::new();
    let mut process: Option<Process> = None;
    while let Some(word) = words.recv().await {
        match word {
            Word::Began(group) => drop(groups.insert(group)),
            Word::Ended(group) => drop(groups.remove(&group)),
            Word::Run(_) => {}
        }
        let told = match &mut process {
            Some(process) => process.tell(word).await,
            None => Err("it was not started yet".into()),
        };
        if let Err(reason) = told {
            if let Some(mut gone) = process.take() {
                error!(reason, "the watchdog of the media is gone; starting another");
                // Before it sees the end of its input, and takes us for dead.
                let _ = gone.child.kill().await;
            }
            let mut again: Vec<Word> = groups.iter().copied().map(Word::Began).collect();
            again.extend(matches!(word, Word::Run(_)).then_some(word));
            match Process::begin(&again).await {
                Ok(begun) => process = Some(begun),
                Err(error) => error!(error, "the watchdog of the media does not start"),
            }
        }
    }
    if let Some(Process { mut child, input }) = process {
        drop(input);
        let _ = child.wait().await;
    }
}

/// The hidden command: is the watchdog.
pub(crate) async fn run() -> Result<Outcome> {
    let mut control = program::control()?;
    let mut groups = BTreeSet::new();
    let mut until: Option<Instant> = None;
    let mut over = false;
    loop {
        tokio::select! {
            line = control.next_line() => match line.ok().flatten().map(|line| serde_json::from_str(&line)) {
                Some(Ok(Word::Began(group))) => {
                    groups.insert(group);
                    if over {
                        kill(&groups);
                    }
                }
                Some(Ok(Word::Ended(group))) => drop(groups.remove(&group)),
                Some(Ok(Word::Run(ms))) => {
                    until = Some(Instant::now() + Duration::from_millis(ms));
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
    Ok(Outcome::Done)
}

fn kill(groups: &BTreeSet<i32>) {
    for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
