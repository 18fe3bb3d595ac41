//! The arguments of a command. The simulated server reads what programs send, and not every form that the module accepts.

use allot_core::shared::refusal::{Code, Refusal};

use super::resp::Word;

pub(super) struct Arguments<'a> {
    words: &'a [Word],
    /// Which words were taken.
    taken: Vec<bool>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(words: &'a [Word]) -> Self {
        Self { words, taken: vec![false; words.len()] }
    }

    /// The first word that was not taken yet.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        self.next_word().map(|word| &word[..])
    }

    fn next_word(&mut self) -> Option<&'a Word> {
        let at = self.taken.iter().position(|taken| !taken)?;
        self.take(at)
    }

    fn take(&mut self, at: usize) -> Option<&'a Word> {
        let word = self.words.get(at)?;
        self.taken[at] = true;
        Some(word)
    }

    /// The next word; empty if there is none.
    pub(super) fn text(&mut self) -> &'a [u8] {
        self.next().unwrap_or_default()
    }

    /// The next word, as long as needed.
    pub(super) fn word(&mut self) -> Word {
        self.next_word().cloned().unwrap_or_default()
    }

    pub(super) fn natural(&mut self) -> Result<u64, Refusal> {
        number(self.text())
    }

    /// Whether the keyword is among the words that were not taken.
    pub(super) fn flag(&mut self, keyword: &str) -> bool {
        self.find(keyword).is_some_and(|at| self.take(at).is_some())
    }

    /// The word behind a keyword.
    pub(super) fn text_after(&mut self, keyword: &str) -> Option<&'a [u8]> {
        let at = self.find(keyword)?;
        self.take(at);
        self.take(at + 1).map(|word| &word[..])
    }

    pub(super) fn integer_after(&mut self, keyword: &str) -> Result<Option<i64>, Refusal> {
        self.text_after(keyword).map(number).transpose()
    }

    pub(super) fn natural_after(&mut self, keyword: &str) -> Result<Option<u64>, Refusal> {
        self.text_after(keyword).map(number).transpose()
    }

    /// All words behind the taken ones.
    pub(super) fn rest(&self) -> &'a [Word] {
        let at = self.taken.iter().position(|taken| !taken).unwrap_or(self.words.len());
        &self.words[at..]
    }

    fn find(&self, keyword: &str) -> Option<usize> {
        let free = self.words.iter().zip(&self.taken);
        free.enumerate()
            .find(|(_, (word, taken))| !**taken && word[..] == *keyword.as_bytes())
            .map(|(at, _)| at)
    }
}

/// A number of any type.
pub(super) fn number<T: std::str::FromStr>(word: &[u8]) -> Result<T, Refusal> {
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| Refusal::new(Code::Err, format!("'{}' is no number", word.escape_ascii())))
}
