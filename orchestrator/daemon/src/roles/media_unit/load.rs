//! The load that a unit reports with its heartbeats, in percent: what a program of the operator prints, or without one
//! the CPU load of the host since the last heartbeat.

use std::process::Stdio;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::warn;

use allot_runtime::child::program;
use allot_runtime::child::supervised::SupervisedChild;
use allot_runtime::child::watchdog::Watchdog;
use allot_runtime::time::is_simulated;

/// Where Linux counts the time that its CPUs have spent.
const CPU_TIMES: &str = "/proc/stat";

/// Time that the CPUs of a host have spent since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTimes {
    /// All time, in ticks of the kernel.
    total: u64,
    /// The part in which the CPUs had nothing to do.
    idle: u64,
}

impl CpuTimes {
    /// The times in the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. The times of
    /// guests follow, and are part of user and nice.
    fn read(text: &str) -> Option<Self> {
        let times = text.lines().next()?.strip_prefix("cpu ")?;
        let times: Vec<u64> = times.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
        let waiting = times.get(4).copied().unwrap_or(0);
        Some(Self { total: times.iter().sum(), idle: times.get(3)?.saturating_add(waiting) })
    }

    /// The load since an earlier time, in percent; `None` if no time has passed.
    fn load_since(self, earlier: Self) -> Option<u8> {
        let total = self.total.checked_sub(earlier.total).filter(|&total| total > 0)?;
        // The kernel may correct the time of waiting downwards.
        let idle = self.idle.saturating_sub(earlier.idle).min(total);
        u8::try_from((total - idle) * 100 / total).ok()
    }
}

/// Measures the load of a unit.
pub(super) struct LoadMeter {
    /// The program that prints the load, and its arguments; empty for the CPU load of the host.
    program: Vec<String>,
    /// How long a load counts, and how long the program may run.
    lease: Duration,
    cpu: Option<CpuTimes>,
    /// The last load that the program printed, and when.
    printed: Option<(u8, Instant)>,
    /// The program, while it runs.
    running: JoinSet<Result<u8, String>>,
}

impl LoadMeter {
    /// A meter of a unit with this lease.
    pub(super) fn new(program: Vec<String>, lease: Duration) -> Self {
        Self { program, lease, cpu: None, printed: None, running: JoinSet::new() }
    }

    /// The load to report now, 0 to 100; `None` if there is none. Never waits: a program that is started now is heard
    /// at a later call.
    pub(super) fn measure(&mut self) -> Option<u8> {
        if self.program.is_empty() { self.of_host() } else { self.of_program() }
    }

    fn of_host(&mut self) -> Option<u8> {
        // A simulation must run again exactly, however busy its machine is.
        let text = if cfg!(test) || is_simulated() { None } else { std::fs::read_to_string(CPU_TIMES).ok() };
        let now = CpuTimes::read(&text?)?;
        let before = self.cpu.replace(now)?;
        now.load_since(before)
    }

    fn of_program(&mut self) -> Option<u8> {
        while let Some(ended) = self.running.try_join_next() {
            match ended {
                Ok(Ok(load)) => self.printed = Some((load, Instant::now())),
                Ok(Err(error)) => warn!(%error, "the unit reports no load"),
                Err(error) => warn!(%error, "the unit reports no load"),
            }
        }
        if self.running.is_empty() {
            self.running.spawn(run(self.program.clone(), self.lease));
        }
        self.printed.filter(|(_, at)| at.elapsed() < self.lease).map(|(load, _)| load)
    }
}

/// Runs the program, and reads the load that it prints.
async fn run(argv: Vec<String>, limit: Duration) -> Result<u8, String> {
    let name = argv.first().cloned().unwrap_or_default();
    let fault = |error: std::io::Error| format!("media-unit.load-program {name} does not start: {error}");
    let child = program::command_with_parent_death_signal(&argv)
        .map_err(fault)?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(fault)?;
    // Dropping the child kills all that the program started.
    let child = SupervisedChild::supervise(child, Watchdog::disconnected()).map_err(fault)?;
    let output = timeout(limit, child.output())
        .await
        .map_err(|_| format!("media-unit.load-program {name} did not end within {limit:?}"))?
        .map_err(|error| format!("media-unit.load-program {name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("media-unit.load-program {name} ended with {}", output.status));
    }
    percent(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
        format!("media-unit.load-program {name} printed no number; let it print the load in percent")
    })
}

/// The number in the first line, limited to 0 to 100.
fn percent(text: &str) -> Option<u8> {
    let load: f64 = text.lines().next()?.trim().parse().ok()?;
    (!load.is_nan()).then(|| load.clamp(0.0, 100.0).round() as u8)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test reports what is wrong by failing")]
mod tests {
    use super::*;

    #[test]
    fn load_of_the_host_is_the_part_of_time_that_was_not_idle() {
        let before = CpuTimes::read("cpu  100 0 50 800 50 0 0 0 70 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(before, CpuTimes { total: 1000, idle: 850 });
        let load = |text: &str| CpuTimes::read(text).unwrap().load_since(before);
        assert_eq!(load("cpu  130 0 60 840 70 0 0 0 0 0"), Some(40));
        assert_eq!(load("cpu  200 0 50 800 50 0 0 0"), Some(100));
        assert_eq!(load("cpu  100 0 50 900 50 0 0 0"), Some(0));
        assert_eq!(load("cpu  100 0 50 800 50 0 0 0"), None, "no time has passed");
        for damaged in ["", "cpu", "intr 1 2 3 4", "cpu  1 2 3"] {
            assert_eq!(CpuTimes::read(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn printed_load_is_a_number_in_percent() {
        let cases = [("42\n", 42), (" 7.6 \nmore", 8), ("250", 100), ("-3", 0), ("inf", 100)];
        for (text, load) in cases {
            assert_eq!(percent(text), Some(load), "{text:?}");
        }
        for damaged in ["", "\n5", "much", "NaN", "5%"] {
            assert_eq!(percent(damaged), None, "{damaged:?}");
        }
    }
}
