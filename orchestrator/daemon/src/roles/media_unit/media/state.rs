//! What the program of a conference is told: its planned end, its size, and whether the end is near. The program has it as
//! environment variables when it starts. Each change is one line of JSON on the program's standard input, and the file
//! that `ALLOT_STATE` names always has the last line. A program that does not read its input misses lines, and finds the
//! last one in the file.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::roles::media_unit::conferences::{ConferenceParams, ConferenceUpdate};

/// The state of a conference, as its program is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConferenceState {
    /// What has happened: `created`, `updated`, or `ending`, if the planned end is near.
    event: &'static str,
    /// Planned end, in milliseconds since 1970; empty where there is none.
    pub(super) end: String,
    /// Capacity of the unit that the conference takes.
    pub(super) size: String,
}

impl ConferenceState {
    /// The state of a conference that is created.
    pub(super) fn created(params: &ConferenceParams) -> Self {
        Self { event: "created", end: params.end.clone(), size: params.size.clone() }
    }

    /// The state of a conference after a change.
    pub(super) fn updated(update: &ConferenceUpdate) -> Self {
        let event = if update.end_is_near { "ending" } else { "updated" };
        Self { event, end: update.end.clone(), size: update.size.clone() }
    }

    /// Sets the environment variables of the program.
    pub(super) fn set_variables(&self, command: &mut Command) {
        command.env("ALLOT_END", &self.end).env("ALLOT_SIZE", &self.size);
    }

    fn line(&self) -> String {
        let number = |text: &str| text.parse::<u64>().ok();
        let line = serde_json::json!({
            "event": self.event, "end": number(&self.end), "size": number(&self.size),
        });
        format!("{line}\n")
    }
}

/// How long a line waits for a program whose input is full.
const INPUT_LIMIT: Duration = Duration::from_secs(1);

/// Tells a program each later change, until its input is closed.
pub(super) async fn tell(
    mut changes: watch::Receiver<ConferenceState>,
    mut input: pipe::Sender,
    file: StateFile,
) {
    while changes.changed().await.is_ok() {
        let state = changes.borrow_and_update().clone();
        file.write(&state);
        // A line is shorter than what the kernel writes at once, so it is written as a whole or not at all.
        match timeout(INPUT_LIMIT, input.write_all(state.line().as_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "the program of a conference has closed its standard input"),
            Err(_) => debug!("the program of a conference does not read its standard input"),
        }
    }
}

/// The folder of the state files of a unit, which is made with the first file and removed with the last value.
/// No other user may read it.
#[derive(Debug, Clone, Default)]
pub(super) struct StateDir(Arc<OnceLock<Option<TempDir>>>);

impl StateDir {
    /// The file of a start of a program.
    pub(super) fn file(&self, start: u64) -> StateFile {
        StateFile(Arc::new(File { dir: self.clone(), start }))
    }

    /// The folder, which is made if `make` says so and it was not made before.
    fn path(&self, make: bool) -> Option<&Path> {
        let made = if make { Some(self.0.get_or_init(Self::make)) } else { self.0.get() };
        made?.as_ref().map(TempDir::path)
    }

    fn make() -> Option<TempDir> {
        let private = Permissions::from_mode(0o700);
        let made =
            tempfile::Builder::new().prefix("allot-").permissions(private).tempdir().inspect_err(|error| {
                let dir = std::env::temp_dir();
                warn!(%error, dir = %dir.display(), "cannot make a folder for ALLOT_STATE; set TMPDIR");
            });
        made.ok()
    }
}

/// The state file of a program, which is removed with the last value.
#[derive(Debug, Clone)]
pub(super) struct StateFile(Arc<File>);

#[derive(Debug)]
struct File {
    dir: StateDir,
    start: u64,
}

impl File {
    fn path(&self, make: bool) -> Option<PathBuf> {
        Some(self.dir.path(make)?.join(format!("{}.json", self.start)))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // There is no file if the program was stopped before it was spawned.
        let _ = self.path(false).map(std::fs::remove_file);
    }
}

impl StateFile {
    /// Sets the environment variable `ALLOT_STATE` of the program.
    pub(super) fn name_in(&self, command: &mut Command) {
        if let Some(path) = self.0.path(true) {
            command.env("ALLOT_STATE", path);
        }
    }

    /// Replaces the file: a program reads the earlier line or the new one, and never a part.
    pub(super) fn write(&self, state: &ConferenceState) {
        let Some(path) = self.0.path(true) else { return };
        let new = path.with_extension("new");
        let written = std::fs::write(&new, state.line()).and_then(|()| std::fs::rename(&new, &path));
        if let Err(error) = written {
            warn!(%error, file = %path.display(), "cannot write the state of a conference; check the disk");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_one_line_of_json() {
        let params = ConferenceParams { end: String::new(), size: "3".into(), ..ConferenceParams::default() };
        let created = ConferenceState::created(&params);
        assert_eq!(created.line(), "{\"end\":null,\"event\":\"created\",\"size\":3}\n");
        let mut update = ConferenceUpdate { end: "90".into(), size: "4".into(), end_is_near: false };
        assert_eq!(
            ConferenceState::updated(&update).line(),
            "{\"end\":90,\"event\":\"updated\",\"size\":4}\n"
        );
        update.end_is_near = true;
        assert_eq!(
            ConferenceState::updated(&update).line(),
            "{\"end\":90,\"event\":\"ending\",\"size\":4}\n"
        );
    }

    #[test]
    fn file_has_the_last_state_and_goes_with_the_program() {
        let states = StateDir::default();
        let (file, state) = (states.file(7), ConferenceState::default());
        file.write(&state);
        let path = file.0.path(true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), state.line());
        let later = ConferenceState { event: "updated", end: "5".into(), size: "1".into() };
        file.write(&later);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), later.line());
        drop(file);
        assert!(!path.exists());
        let dir = path.parent().unwrap().to_owned();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop(states);
        assert!(!dir.exists());
    }

    #[tokio::test]
    async fn each_change_is_a_line_of_input() {
        use tokio::io::AsyncBufReadExt as _;
        let (sender, receiver) = pipe::pipe().unwrap();
        let (state, changes) = watch::channel(ConferenceState::default());
        let file = StateDir::default().file(1);
        let path = file.0.path(true).unwrap();
        let teller = tokio::spawn(tell(changes, sender, file));
        let mut lines = tokio::io::BufReader::new(receiver).lines();
        for end in ["5", "6"] {
            let next = ConferenceState { event: "updated", end: end.into(), size: "1".into() };
            state.send_replace(next.clone());
            assert_eq!(lines.next_line().await.unwrap().unwrap() + "\n", next.line());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), next.line());
        }
        drop(state);
        teller.await.unwrap();
        assert_eq!(lines.next_line().await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn file_has_the_last_state_of_a_program_that_reads_no_input() {
        let (sender, _receiver) = pipe::pipe().unwrap();
        let (state, changes) = watch::channel(ConferenceState::default());
        let file = StateDir::default().file(1);
        let path = file.0.path(true).unwrap();
        tokio::spawn(tell(changes, sender, file));
        for end in 1..3000 {
            let next = ConferenceState { event: "updated", end: end.to_string(), size: "1".into() };
            state.send_replace(next.clone());
            while std::fs::read_to_string(&path).is_ok_and(|line| line != next.line()) || !path.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}
