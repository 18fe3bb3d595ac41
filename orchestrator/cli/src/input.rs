//! Files that commands read: a name, or `-` for standard input. What cannot be read again from its beginning, such as a
//! pipe, is copied to a temporary file. What is larger than its limit is refused before it is read.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd as _;

use indicatif::HumanBytes;

use crate::failure::{Cause, Failure, Result};

/// The longest plan: a request of Redis has at most so many bytes.
pub(crate) const PLAN: u64 = 512 << 20;
/// The longest table.
pub(crate) const TABLE: u64 = 1 << 30;

/// An input that can be read more than once.
pub(crate) struct Input {
    pub(crate) name: String,
    file: File,
}

/// Opens a file, or standard input for `-`.
///
/// # Errors
/// There is no such file, or it is longer than `limit`.
pub(crate) fn open(path: &str, limit: u64) -> Result<Input> {
    let too_long = |name: &str, size: &str| {
        let hint = format!("the limit is {}; split the file", HumanBytes(limit));
        Failure::input(format!("{name} has {size}")).hint(hint)
    };
    let is_standard = path == "-";
    let name = if is_standard { "standard input" } else { path };
    let failed = |error: io::Error| Failure::file(Cause::Input, name, &error);
    let file =
        if is_standard { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
    let mut file = file.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(Failure::input(format!("{name} is a directory")));
    }
    if is_standard || !metadata.is_file() {
        let failed = |error: io::Error| Failure::file(Cause::Local, &format!("a copy of {name}"), &error);
        let mut copy = tempfile::tempfile().map_err(failed)?;
        if io::copy(&mut file.take(limit + 1), &mut copy).map_err(failed)? > limit {
            return Err(too_long(name, "more"));
        }
        file = copy;
    } else if metadata.len() > limit {
        return Err(too_long(name, &HumanBytes(metadata.len()).to_string()));
    }
    Ok(Input { name: name.to_owned(), file })
}

impl Input {
    /// The input from its beginning.
    pub(crate) fn reader(&mut self) -> Result<&File> {
        self.file.rewind().map_err(|error| Failure::file(Cause::Input, &self.name, &error))?;
        Ok(&self.file)
    }

    /// All of it, as text.
    pub(crate) fn text(&mut self) -> Result<String> {
        let name = self.name.clone();
        let mut text = Vec::new();
        let mut file = self.reader()?;
        file.read_to_end(&mut text).map_err(|error| Failure::file(Cause::Input, &name, &error))?;
        String::from_utf8(text).map_err(|error| {
            let line = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
            let line = 1 + line.filter(|&&byte| byte == b'\n').count();
            Failure::input(format!("{name}: line {line} is not UTF-8"))
        })
    }

    /// What is wrong with it, by an error that has a place in it.
    pub(crate) fn wrong(&self, error: impl Into<anyhow::Error>) -> Failure {
        error.into().context(self.name.clone()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn pipe_is_read_again_and_has_a_limit_as_a_file() {
        let at = |limit: u64| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(b"12345").unwrap();
            drop(writer);
            open(&format!("/proc/self/fd/{}", reader.as_raw_fd()), limit)
        };
        let mut input = at(5).unwrap();
        assert_eq!((input.text().unwrap(), input.text().unwrap()), ("12345".to_owned(), "12345".to_owned()));
        assert!(at(4).map(drop).unwrap_err().message.ends_with("has more"));
    }

    #[test]
    fn input_beyond_its_limit_is_refused_before_it_is_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let path = path.as_str();
        assert_eq!(open(path, 5).unwrap().text().unwrap(), "12345");
        let refused = open(path, 4).map(drop).unwrap_err();
        assert_eq!(refused.cause, Cause::Input);
        assert!(refused.hint.unwrap().contains("4 B"));
        file.write_all(b"\n\xff").unwrap();
        assert!(open(path, 9).unwrap().text().unwrap_err().message.ends_with("line 2 is not UTF-8"));
    }
}
