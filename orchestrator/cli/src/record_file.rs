//! The file of records. A record is on disk before its entry is acknowledged, and the last record in the file says what
//! has been written. So a writer that is killed at any moment neither loses a record nor writes one twice.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::call_record::{self, Form, Last};

/// The part of a file in which its last line must be. The longest record has 64 segments, each far below 4 KiB.
const TAIL: u64 = 1 << 20;

/// A file of records, which no other process writes.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: File,
    /// The last record in the file.
    pub(crate) last: Option<Last>,
}

impl RecordFile {
    /// Opens or creates the file, and removes a line that was written in part.
    ///
    /// # Errors
    /// Another process writes the file, or it is no file of records in this format.
    pub(crate) fn open(path: &Path, form: Form) -> Result<Self> {
        let name = path.display();
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("{name}"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!("{name}: another process writes this file"),
            Err(error) => return Err(error).with_context(|| format!("{name}")),
        }
        let last = resume(&mut file, form).with_context(|| format!("{name}"))?;
        let mut records = Self { file, last };
        if records.file.metadata()?.len() == 0 {
            records.write(&call_record::heading(form))?;
        }
        // The name of a new file must survive a crash of the machine as well.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all())?;
        Ok(records)
    }

    /// Writes lines. When this returns, they are on disk.
    pub(crate) fn write(&mut self, lines: &str) -> Result<()> {
        self.file.write_all(lines.as_bytes()).context("the file of records")?;
        self.file.sync_data().context("the file of records")
    }
}

/// Removes a last line without an end, and returns the record in the line before it.
fn resume(file: &mut File, form: Form) -> Result<Option<Last>> {
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is no regular file");
    let length = metadata.len();
    let begin = length.saturating_sub(TAIL);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.take(TAIL).read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    if whole == 0 && begin > 0 {
        bail!("its last line is too long for a record");
    }
    let (lines, cut_off) = tail.split_at_checked(whole).unwrap_or_default();
    let line = lines.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    let last = if line.is_empty() {
        let begins = match form {
            Form::Jsonl => cut_off.first().is_none_or(|&first| first == b'{'),
            Form::Csv => call_record::heading(form).as_bytes().starts_with(cut_off),
        };
        ensure!(begins, "it is no file of records in this format");
        None
    } else {
        call_record::last_of(std::str::from_utf8(line).context("its last line is no text")?, form)?
    };
    // Only now: nothing is removed from a file of another kind.
    if !cut_off.is_empty() {
        file.set_len(begin + whole as u64)?;
        file.sync_data()?;
    }
    Ok(last)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails where it finds something wrong")]
mod tests {
    use super::*;

    const LINE: &str = "{\"id\":\"5-1\",\"record\":3}\n";

    fn opened(text: &str, form: Form) -> (Result<RecordFile>, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records");
        std::fs::write(&path, text).unwrap();
        let file = RecordFile::open(&path, form);
        (file, std::fs::read_to_string(&path).unwrap())
    }

    #[test]
    fn line_that_was_cut_off_is_removed() {
        let last = Some(Last { id: (5, 1), number: 3 });
        for (text, rest, last) in [
            ("", "", None),
            ("{\"id\":\"5", "", None),
            (LINE, LINE, last),
            (&format!("{LINE}{{\"id\""), LINE, last),
            (&format!("{LINE}{LINE}{{"), &format!("{LINE}{LINE}"), last),
        ] {
            let (file, left) = opened(text, Form::Jsonl);
            assert_eq!((left.as_str(), file.unwrap().last), (rest, last), "{text}");
        }
        let (file, left) = opened("id,rec", Form::Csv);
        assert_eq!((file.unwrap().last, left), (None, call_record::heading(Form::Csv)));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(opened("hello\n", Form::Jsonl).0.is_err());
        assert!(opened("{}\n", Form::Jsonl).0.is_err());
        for (text, form) in [("one line", Form::Jsonl), ("one line", Form::Csv), ("a\nb", Form::Jsonl)] {
            let (file, left) = opened(text, form);
            assert!(file.is_err(), "{text}");
            assert_eq!(left, text, "nothing is removed from a file of another kind");
        }
        assert!(opened(LINE, Form::Csv).0.is_err());
    }

    #[test]
    fn two_writers_of_one_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records");
        let first = RecordFile::open(&path, Form::Jsonl).unwrap();
        assert!(RecordFile::open(&path, Form::Jsonl).unwrap_err().to_string().contains("another process"));
        drop(first);
        RecordFile::open(&path, Form::Jsonl).unwrap();
    }
}
