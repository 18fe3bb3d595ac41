//! A child process of a test: every server, daemon and client of the rig is started, signalled, killed and waited for by
//! this.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::wait::{TIMEOUT, eventually};

/// A program that runs, or that can be started (again). It is killed when this is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl ChildProcess {
    /// A process that is not running yet. What it prints is appended to the file `log`.
    pub fn new(name: &str, log: PathBuf) -> Self {
        Self { name: name.to_owned(), log, child: Mutex::new(None) }
    }

    /// A process that the caller has started, with pipes of its own.
    pub fn running(name: &str, log: PathBuf, child: Child) -> Self {
        Self { name: name.to_owned(), log, child: Mutex::new(Some(child)) }
    }

    /// Starts it. A process that is still running is killed first.
    #[track_caller]
    pub fn spawn(&self, command: &mut Command) {
        self.kill9();
        command.stdin(Stdio::null()).stdout(self.open_log()).stderr(self.open_log());
        let child = command.spawn().unwrap_or_else(|error| panic!("{} does not run: {error}", self.name));
        *self.child() = Some(child);
    }

    #[track_caller]
    fn open_log(&self) -> File {
        OpenOptions::new().create(true).append(true).open(&self.log).expect("the log opens")
    }

    /// What the test calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child().as_ref().map_or_else(|| panic!("{} does not run", self.name), Child::id)
    }

    /// Whether it was started and not killed or waited for since.
    pub fn is_started(&self) -> bool {
        self.child().is_some()
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// How it has ended, if it has ended by itself.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child().as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Kills it as a power failure would: it is not told, and nothing is flushed.
    pub fn kill9(&self) {
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal by its name, such as `TERM`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "signal {name} could not be sent to {}",
            self.name
        );
    }

    /// Stops it where it is. Its connections stay open, and nothing is answered.
    #[track_caller]
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on after [`pause`](Self::pause).
    #[track_caller]
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// The processor time that it has used so far.
    #[track_caller]
    pub fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("the name is in parentheses");
        let ticks =
            fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number"));
        // A tick is 10 ms on every Linux.
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait_for_end(&self) -> ExitStatus {
        let mut status = None;
        eventually(&format!("{} to end", self.name), TIMEOUT, || {
            status = self.exit_status();
            status.is_some()
        });
        *self.child() = None;
        status.expect("it was waited for")
    }

    /// What it has logged since the test began.
    pub fn log(&self) -> String {
        fs::read(&self.log).map_or_else(
            |error| format!("(no log: {error})"),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill9();
    }
}
