//! The arguments of a command. The simulated server reads what programs send, and not every form that the module accepts.

use allot_core::shared::refusal::{Code, Refusal};

use super::command::{Command, Word};

pub(super) struct Arguments<'a> {
    command: &'a Command,
    /// All words before this one were taken, and it was not.
    first: usize,
    /// The words behind it that were taken: nearly always none, since programs send arguments in one order.
    ahead: Vec<usize>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(command: &'a Command) -> Self {
        Self { command, first: 1, ahead: Vec::new() }
    }

    /// The first word that was not taken yet.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        self.take(self.first)
    }

    fn take(&mut self, at: usize) -> Option<&'a [u8]> {
        let word = self.command.get(at)?;
        if at > self.first {
            self.ahead.push(at);
        }
        while at == self.first || self.ahead.contains(&self.first) {
            self.first += 1;
        }
        Some(word)
    }

    /// The place of the first word that was not taken yet.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// The next word; empty if there is none.
    pub(super) fn text(&mut self) -> &'a [u8] {
        self.next().unwrap_or_default()
    }

    /// The next word, as long as needed.
    pub(super) fn word(&mut self) -> Word {
        let at = self.first;
        self.take(at);
        self.command.word(at).unwrap_or_default()
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
        self.take(at + 1)
    }

    pub(super) fn integer_after(&mut self, keyword: &str) -> Result<Option<i64>, Refusal> {
        self.text_after(keyword).map(number).transpose()
    }

    pub(super) fn natural_after(&mut self, keyword: &str) -> Result<Option<u64>, Refusal> {
        self.text_after(keyword).map(number).transpose()
    }

    /// All words behind the taken ones.
    pub(super) fn rest(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let command = self.command;
        (self.first..command.len()).map(|at| command.get(at).unwrap_or_default())
    }

    fn find(&self, keyword: &str) -> Option<usize> {
        let is_it = |at: &usize| self.command.get(*at) == Some(keyword.as_bytes());
        (self.first..self.command.len()).find(|at| is_it(at) && !self.ahead.contains(at))
    }
}

/// A number of any type.
pub(super) fn number<T: std::str::FromStr>(word: &[u8]) -> Result<T, Refusal> {
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| Refusal::new(Code::Err, format!("'{}' is no number", word.escape_ascii())))
}
