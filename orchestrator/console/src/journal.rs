//! Records that outlive the pages that show them: the newest ones in memory, and in a file if the console has a folder.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::warn;

/// Lines that wait for storage. Further ones are kept in memory only.
const WAITING: usize = 1024;

/// The folder of a console. No other console uses it meanwhile: each would shorten the files of the other.
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Takes a folder.
    ///
    /// # Errors
    /// It is not there, or another console has it.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let lock = File::open(path).with_context(|| format!("console.data-dir {}", path.display()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(|| {
            format!("console.data-dir {} is in use; give each console a folder of its own", path.display())
        })?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }
}

/// The newest records of a kind, from old to new.
pub(crate) struct Journal<T> {
    most: usize,
    contents: Mutex<Contents<T>>,
}

struct Contents<T> {
    records: VecDeque<T>,
    /// The thread that writes the file: storage may not answer, and no request waits for it. `None` without a file, and
    /// after the end.
    writer: Option<Writer>,
}

struct Writer {
    lines: SyncSender<String>,
    thread: JoinHandle<()>,
}

impl<T: Serialize + DeserializeOwned + Clone> Journal<T> {
    /// The journal with this name in the folder, with at most so many records. Without a folder it is in memory only.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(folder: Option<&Folder>, name: &'static str, most: usize) -> Result<Self> {
        let Some(folder) = folder else {
            let contents = Contents { records: VecDeque::new(), writer: None };
            return Ok(Self { most, contents: Mutex::new(contents) });
        };
        let path = folder.path.join(name);
        let wrong = || format!("console.data-dir: {} cannot be read and written", path.display());
        let lines = shortened(&path, most).with_context(wrong)?;
        let file = appended(&path).with_context(wrong)?;
        // The end of a file may be damaged if the machine has crashed.
        let records: VecDeque<T> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if records.len() < lines.len() {
            warn!(file = %path.display(), lines = lines.len() - records.len(), "damaged lines are left out");
        }
        let (sender, receiver) = sync_channel(WAITING);
        let count = lines.len();
        let write = move || write(&path, file, &receiver, count, most);
        let thread = std::thread::Builder::new().name(format!("console-{name}")).spawn(write)?;
        let contents = Contents { records, writer: Some(Writer { lines: sender, thread }) };
        Ok(Self { most, contents: Mutex::new(contents) })
    }

    fn contents(&self) -> MutexGuard<'_, Contents<T>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record. The oldest one goes if there are too many.
    pub(crate) fn add(&self, record: T) {
        let line = serde_json::to_string(&record).ok();
        let mut contents = self.contents();
        if contents.records.len() >= self.most {
            contents.records.pop_front();
        }
        contents.records.push_back(record);
        // Within the lock, so that the lines have the order of the records.
        if let (Some(writer), Some(line)) = (&contents.writer, line)
            && writer.lines.try_send(line).is_err()
        {
            warn!("storage does not answer: a record of the console is in memory only");
        }
    }

    /// All records, from old to new.
    pub(crate) fn records(&self) -> Vec<T> {
        self.contents().records.iter().cloned().collect()
    }

    /// The newest record.
    pub(crate) fn newest(&self) -> Option<T> {
        self.contents().records.back().cloned()
    }

    /// Ends the file. Gives the thread that still writes the lines that wait; `None` if there is none. Further records
    /// are in memory only.
    pub(crate) fn end(&self) -> Option<JoinHandle<()>> {
        Some(self.contents().writer.take()?.thread)
    }
}

/// Writes lines as they come, until the journal ends. The file has at most twice as many lines as the journal.
fn write(path: &Path, mut file: File, lines: &Receiver<String>, mut count: usize, most: usize) {
    let mut write = |line: String| {
        if count >= 2 * most {
            let left = shortened(path, most)?.len();
            (file, count) = (appended(path)?, left);
        }
        count += 1;
        file.write_all(format!("{line}\n").as_bytes())
    };
    let mut fails = false;
    while let Ok(line) = lines.recv() {
        let written = write(line);
        if let Err(error) = &written
            && !fails
        {
            warn!(file = %path.display(), %error, "records of the console are not written");
        }
        fails = written.is_err();
    }
}

/// Leaves only the last lines in a file, and gives them; none if there is no file.
fn shortened(path: &Path, most: usize) -> std::io::Result<Vec<String>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let last: Vec<String> =
        all.iter().skip(all.len().saturating_sub(most)).map(|&line| line.to_owned()).collect();
    if last.len() < all.len() || !text.ends_with('\n') {
        let new: PathBuf = path.with_extension("new");
        let mut file = private().create(true).write(true).truncate(true).open(&new)?;
        file.write_all(last.iter().fold(String::new(), |text, line| text + line + "\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(new, path)?;
    }
    Ok(last)
}

fn appended(path: &Path) -> std::io::Result<File> {
    private().create(true).append(true).open(path)
}

/// A file that other users of the machine cannot read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    fn lines_of(path: &Path, wanted: usize) -> usize {
        let began = Instant::now();
        loop {
            let count = fs::read_to_string(path).unwrap_or_default().lines().count();
            if count == wanted || began.elapsed() > Duration::from_secs(20) {
                return count;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn records_are_there_after_a_restart_and_the_file_stays_short() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, path) = (Folder::take(dir.path()).unwrap(), dir.path().join("numbers"));
        let open = || Journal::<u32>::open(Some(&folder), "numbers", 10).unwrap();
        let journal = open();
        for number in 0..25 {
            journal.add(number);
        }
        // Before the 21st line is written, ten go.
        assert_eq!(lines_of(&path, 15), 15);
        assert_eq!(journal.records(), (15..25).collect::<Vec<_>>());
        drop(journal);
        // A line of bytes that are no text, and one that a crash has cut.
        appended(&path).unwrap().write_all(b"\xff\xfe\n\"25").unwrap();
        let journal = open();
        assert_eq!(journal.records(), (17..25).collect::<Vec<_>>());
        journal.add(26);
        assert_eq!(lines_of(&path, 11), 11);
        assert_eq!(open().newest(), Some(26));
    }

    #[test]
    fn all_lines_are_in_the_file_when_the_journal_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::take(dir.path()).unwrap();
        let journal = Journal::<u32>::open(Some(&folder), "numbers", 1000).unwrap();
        for number in 0..WAITING as u32 {
            journal.add(number);
        }
        journal.end().unwrap().join().unwrap();
        let text = fs::read_to_string(dir.path().join("numbers")).unwrap();
        assert_eq!(text.lines().count(), WAITING);
        assert!(journal.end().is_none());
        journal.add(7);
        assert_eq!(journal.newest(), Some(7));
    }

    #[test]
    fn folder_of_another_console_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::take(dir.path()).unwrap();
        let refused = Folder::take(dir.path()).err().unwrap();
        assert!(format!("{refused:#}").contains("is in use"), "{refused:#}");
        drop(folder);
        Folder::take(dir.path()).unwrap();
        assert!(Folder::take(&dir.path().join("nothing")).is_err());
    }
}
