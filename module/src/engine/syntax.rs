//! The parameters of a command with what its parser looks up about them, computed when the module is built.

use super::parameter::{Kind, Parameter};
use std::ops::Range;

/// How many different hashes keywords have.
const HASHES: usize = 64;

/// The parameters of a command. Its options follow one another; other parameters may be before and after them.
pub(crate) struct Syntax {
    pub(crate) parameters: &'static [Parameter],
    /// The places of its options; empty behind the last parameter if it has none.
    pub(super) options: Range<usize>,
    /// Whether one of its options must be given.
    pub(super) needs_option: bool,
    /// By the hash of a keyword: the first option that may begin with it.
    first: [u8; HASHES],
}

/// Distinguishes most keywords of a command.
const fn hash(word: &[u8]) -> usize {
    let first = match word {
        [first, ..] => first.to_ascii_uppercase(),
        [] => 0,
    };
    (first as usize + word.len() * 7) % HASHES
}

impl Syntax {
    #[allow(clippy::indexing_slicing, reason = "computed when the module is built")]
    pub(crate) const fn of(parameters: &'static [Parameter]) -> Self {
        // From the last to the first, so that the first with a hash stays.
        let mut at = parameters.len();
        let mut syntax = Self { parameters, options: at..at, needs_option: false, first: [u8::MAX; HASHES] };
        while at > 0 {
            at -= 1;
            let parameter = &parameters[at];
            if !parameter.is_option {
                continue;
            }
            if syntax.options.start == syntax.options.end {
                syntax.options = at..at + 1;
            }
            assert!(at + 1 >= syntax.options.start, "the options of a command follow one another");
            syntax.options.start = at;
            syntax.needs_option |= !parameter.optional;
            let mut keywords = match (parameter.keyword, parameter.kind) {
                (None, Kind::OneOf(keywords)) => keywords,
                _ => std::slice::from_ref(parameter),
            };
            while let [Parameter { keyword: Some(keyword), .. }, rest @ ..] = keywords {
                syntax.first[hash(keyword.as_bytes())] = at as u8;
                keywords = rest;
            }
            assert!(keywords.is_empty(), "an option begins with a keyword");
        }
        syntax
    }

    /// The option that begins with a word, its place, and the index of the keyword if the option has several.
    #[inline]
    pub(super) fn option(&self, word: &[u8]) -> Option<(usize, &'static Parameter, i64)> {
        let first = self.first.get(hash(word)).copied().map_or(usize::MAX, usize::from);
        let options = self.parameters.get(first..self.options.end)?;
        options.iter().zip(first..).find_map(|(option, at)| Some((at, option, option.begins_with(word)?)))
    }
}
