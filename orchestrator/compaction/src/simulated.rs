//! Units of a simulation: their runners are async tasks and not programs, and record what they do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allot_coordination::{Coordinator, Sessions, random};
use allot_runtime::{Health, Shutdown};
use anyhow::{Context as _, Result};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, sleep_until};

use super::node_context::NodeContext;
use super::runner::{self, Launch, RunSignals};
use super::settings::Settings;
use super::supervisor::{EndCause, Report, Spec};
use super::unit::{SESSIONS_GAUGE, run_unit};

/// Runs a unit whose runners are simulated until the process shuts down. The future does not end the runners of a unit
/// when it is dropped before: they go on for a while, as those of a killed process do.
///
/// # Errors
/// The settings name no unit.
pub async fn run(
    coordinator: Coordinator,
    health: Health,
    stop: Shutdown,
    settings: Settings,
    runners: Runners,
) -> Result<()> {
    let name = settings.node.clone().context("compaction.node is not set")?;
    let (watch_sessions, launch) = (Sessions::new(&coordinator, SESSIONS_GAUGE), Arc::new(runners));
    run_unit(NodeContext { coordinator, watch_sessions, health, stop, config: settings, name, launch }).await
}

/// How simulated runners behave.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The session timeout. A runner ends at most about this long after its supervisor had to end it.
    pub session: Duration,
    /// The longest time that a runner works, in milliseconds.
    pub longest_ms: u64,
    /// Whether the runner at this partition fails, which has failed there this many times.
    pub fails: fn(&str, usize) -> bool,
    /// The start of the names of partitions, and at how many of them runners may work at once.
    pub limit: (&'static str, usize),
}

/// The runners of a simulation, and what they have done. Clones share it.
#[derive(Clone)]
pub struct Runners {
    behaviour: Behaviour,
    record: Arc<Mutex<Record>>,
}

/// What the runners have done.
#[derive(Debug, Clone, Default)]
pub struct Record {
    running: BTreeSet<String>,
    /// Runners that have not been asked to end; the limit applies to them. A lost runner no longer counts, although it
    /// may still be ending.
    wanted: BTreeSet<String>,
    /// How often runners succeeded, by partition.
    pub ended: BTreeMap<String, usize>,
    failed: BTreeMap<String, usize>,
    /// Partitions at which two runners worked at once.
    pub doubled: Vec<String>,
    /// Partitions at which a runner began although the limit was reached.
    pub crowded: Vec<String>,
}

impl Runners {
    /// No runners yet.
    pub fn new(behaviour: Behaviour) -> Self {
        Self { behaviour, record: Arc::default() }
    }

    /// What the runners have done so far.
    pub fn record(&self) -> Record {
        self.with(|record| record.clone())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Record) -> T) -> T {
        act(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Launch for Runners {
    fn launch(&self, spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        let span = random::within(1..self.behaviour.longest_ms);
        let partition = spec.environment.iter().find(|(name, _)| name == "ALLOT_PARTITION");
        let partition = partition.map(|(_, value)| value.clone()).unwrap_or_default();
        let runners = self.clone();
        async move {
            let runner = Runner::begin(runners, partition);
            let RunSignals { coordinator, mut stop, mut lost, .. } = signals;
            let cut_off = async {
                let mut status = coordinator.subscribe();
                while let Some(until) = runner::trust(&coordinator) {
                    tokio::select! {
                        () = sleep_until(until) => {}
                        // A new session is not trusted before its first answer.
                        _ = status.changed() => {}
                    }
                }
            };
            let why = tokio::select! {
                () = sleep(Duration::from_millis(span)) => EndCause::Itself,
                _ = stop.wait_for(|stop| *stop) => EndCause::Stopped,
                _ = lost.wait_for(|lost| *lost) => EndCause::CutOff,
                () = cut_off => EndCause::CutOff,
            };
            let exit = if why == EndCause::Itself {
                Some(runner.done())
            } else {
                runner.end().await;
                None
            };
            Ok(Report { exit, ..Report::of(why) })
        }
        .boxed()
    }
}

/// A simulated runner. It may go on after it was asked to end, or after its unit died, but for at most about one
/// session timeout after its supervisor had to end it.
struct Runner {
    runners: Runners,
    partition: String,
    lag: Duration,
    /// The time at which the runner ends, once it was asked to end.
    gone: Option<Instant>,
}

impl Runner {
    fn begin(runners: Runners, partition: String) -> Self {
        let (prefix, limit) = runners.behaviour.limit;
        runners.with(|record| {
            if !record.running.insert(partition.clone()) {
                record.doubled.push(partition.clone());
            }
            record.wanted.insert(partition.clone());
            let limited = record.wanted.iter().filter(|partition| partition.starts_with(prefix)).count();
            if partition.starts_with(prefix) && limited > limit {
                record.crowded.push(partition.clone());
            }
        });
        let lag = runners.behaviour.session.mul_f64(random::within(0.0..1.2));
        Self { runners, partition, lag, gone: None }
    }

    /// Ends the runner because it was asked to end.
    async fn end(mut self) {
        self.runners.with(|record| record.wanted.remove(&self.partition));
        let gone = Instant::now() + self.lag;
        self.gone = Some(gone);
        sleep_until(gone).await;
    }

    /// Records that the runner finished. Returns its exit code.
    fn done(mut self) -> i32 {
        self.gone = Some(Instant::now());
        self.runners.with(|record| {
            let failed = record.failed.entry(self.partition.clone()).or_default();
            if (self.runners.behaviour.fails)(&self.partition, *failed) {
                *failed += 1;
                return 1;
            }
            *record.ended.entry(self.partition.clone()).or_default() += 1;
            0
        })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let (runners, partition) = (self.runners.clone(), std::mem::take(&mut self.partition));
        runners.with(|record| record.wanted.remove(&partition));
        let left = move || {
            let _ = runners.with(|record| record.running.remove(&partition));
        };
        // If the unit died, its lock lives on for one session timeout before other workers start their own wait.
        let gone = self.gone.unwrap_or_else(|| Instant::now() + self.lag.mul_f64(1.5));
        if gone <= Instant::now() {
            left();
        } else {
            tokio::spawn(async move {
                sleep_until(gone).await;
                left();
            });
        }
    }
}
