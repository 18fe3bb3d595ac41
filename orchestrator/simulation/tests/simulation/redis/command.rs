//! A command: its name and its arguments.

use std::sync::Arc;

use bytes::Bytes;
use redis::Arg;

/// A word of a command. Clones share its bytes.
pub(super) type Word = Bytes;

/// A command.
#[derive(Debug)]
pub(super) struct Command(Words);

/// How many bytes the words of most commands have.
const USUAL_LENGTH: usize = 128;

/// Words, one behind the other. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Words {
    bytes: Bytes,
    /// Where each word ends.
    ends: Arc<[u32]>,
}

impl Words {
    pub(super) fn new<'a>(words: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut bytes = Vec::with_capacity(USUAL_LENGTH);
        let end_of = |word: &[u8]| {
            bytes.extend_from_slice(word);
            bytes.len() as u32
        };
        let ends = words.map(end_of).collect();
        Self { bytes: bytes.into(), ends }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn range(&self, at: usize) -> Option<std::ops::Range<usize>> {
        let end = *self.ends.get(at)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(begin as usize..end as usize)
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        self.range(at).map(|range| &self.bytes[range])
    }
}

/// Fields and values of an entry, by turns.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    /// All words of the `XADD`, or only the fields and values if the server itself added the entry.
    words: Words,
    /// Where the fields and values begin.
    first: usize,
}

impl Fields {
    pub(super) fn new<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        Self { words: Words::new(fields.flat_map(|(field, value)| [field, value])), first: 0 }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (self.first..self.words.len()).filter_map(|at| self.words.get(at))
    }
}

impl Command {
    /// A command with these words.
    pub(super) fn new(words: &[&str]) -> Self {
        Self::of(redis::cmd(words[0]).arg(&words[1..]))
    }

    /// A command that a program sends.
    pub(super) fn of(sent: &redis::Cmd) -> Self {
        let words = sent.args_iter().map(|word| match word {
            Arg::Simple(word) => word,
            _ => unreachable!("programs use no iterators"),
        });
        Self(Words::new(words))
    }

    pub(super) fn name(&self) -> &[u8] {
        self.get(0).unwrap_or_default()
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// How many words it has, with its name.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at)
    }

    /// A word that outlives the command.
    pub(super) fn word(&self, at: usize) -> Option<Word> {
        self.0.range(at).map(|range| self.0.bytes.slice(range))
    }

    /// The words from `at` on, as fields and values of an entry.
    pub(super) fn fields(&self, at: usize) -> Fields {
        Fields { words: self.0.clone(), first: at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_are_those_that_were_sent() {
        let words = ["SET", "key", "", "a\r\nb"];
        let command = Command::new(&words);
        assert_eq!(command.len(), words.len());
        for (at, word) in words.into_iter().enumerate() {
            assert_eq!(command.get(at), Some(word.as_bytes()));
            assert_eq!(command.word(at), Some(Word::from(word)));
        }
        assert_eq!((command.get(words.len()), command.word(words.len())), (None, None));
        assert_eq!(command.fields(1).iter().collect::<Vec<_>>(), [&b"key"[..], b"", b"a\r\nb"]);
    }
}
