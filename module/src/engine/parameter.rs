//! The parameters of a command: which arguments a call may have, in which form and how often.

use super::word::{integer, is, is_identifier, natural_number};

/// A parameter of a command. What the parser reads in every call comes first, in one line of the processor's cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
#[allow(clippy::struct_excessive_bools, reason = "each tells something of its own")]
pub(crate) struct Parameter {
    /// Whether it begins with a keyword and may come in any order among its neighbours that do. Follows from the rest.
    pub(super) is_option: bool,
    /// Whether its value is one word. Follows from the rest.
    pub(super) is_plain: bool,
    pub(crate) optional: bool,
    /// Whether it may be repeated.
    pub(crate) many: bool,
    pub(crate) kind: Kind,
    /// The keyword that it begins with: its own, or that of a block's first part. Follows from the rest.
    pub(super) keyword: Option<&'static str>,
    /// The keyword before it.
    pub(crate) token: Option<&'static str>,
    pub(crate) name: &'static str,
    /// The error message if the parameter, or the second word of a pair, is missing; empty for a general message.
    pub(crate) missing: &'static str,
}

/// The kind of words that a parameter takes.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Key,
    /// Any bytes.
    Text,
    /// An identifier: 1 to 256 bytes.
    Name,
    /// Text whose form distinguishes it from a keyword, with a description of the form. The handler checks it in full.
    Like(fn(&[u8]) -> bool, &'static str),
    /// A whole number that fits 64 bits.
    Integer,
    /// A whole number from 0 to 2^53: an epoch, a sequence number, a term, a cursor.
    Natural,
    /// Only a keyword.
    Word,
    /// Several parameters in a row.
    Block(&'static [Parameter]),
    /// A number, then so many of the second parameter. If the second is optional, the number may be 0.
    Counted(&'static [Parameter; 2]),
    /// One of several alternatives.
    OneOf(&'static [Parameter]),
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        let (keyword, is_option) = match kind {
            Kind::Block([first, ..]) => (first.keyword, first.is_option),
            _ => (None, false),
        };
        let is_compound = matches!(kind, Kind::Word | Kind::Block(_) | Kind::Counted(_) | Kind::OneOf(_));
        Self {
            name,
            kind,
            token: None,
            optional: false,
            many: false,
            is_plain: !is_compound,
            keyword,
            is_option,
            missing: "",
        }
    }

    pub(crate) const fn key(name: &'static str) -> Self {
        Self::new(name, Kind::Key)
    }

    pub(crate) const fn text(name: &'static str) -> Self {
        Self::new(name, Kind::Text)
    }

    pub(crate) const fn name(name: &'static str) -> Self {
        Self::new(name, Kind::Name)
    }

    pub(crate) const fn integer(name: &'static str) -> Self {
        Self::new(name, Kind::Integer)
    }

    pub(crate) const fn natural(name: &'static str) -> Self {
        Self::new(name, Kind::Natural)
    }

    /// A parameter that is only a keyword.
    pub(crate) const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, Kind::Word).after(token)
    }

    pub(crate) const fn block(name: &'static str, parameters: &'static [Self]) -> Self {
        Self::new(name, Kind::Block(parameters))
    }

    pub(crate) const fn counted(name: &'static str, parameters: &'static [Self; 2]) -> Self {
        Self::new(name, Kind::Counted(parameters))
    }

    pub(crate) const fn one_of(name: &'static str, parameters: &'static [Self]) -> Self {
        Self::new(name, Kind::OneOf(parameters))
    }

    /// The parameter, after this keyword.
    pub(crate) const fn after(self, token: &'static str) -> Self {
        Self { token: Some(token), keyword: Some(token), is_option: true, ..self }
    }

    pub(crate) const fn optional(self) -> Self {
        // Several keywords, one of which may be given.
        let keywords = matches!(self.kind, Kind::OneOf([Self { kind: Kind::Word, .. }, ..]));
        Self { optional: true, is_option: self.is_option || keywords, ..self }
    }

    /// The parameter, any number of times; at least once, unless it is optional.
    pub(crate) const fn many(self) -> Self {
        Self { many: true, is_plain: false, ..self }
    }

    /// The parameter, with its keyword only at this place.
    pub(crate) const fn in_place(self) -> Self {
        Self { is_option: false, ..self }
    }

    /// The parameter, with this error message if it is missing.
    pub(crate) const fn or_error(self, missing: &'static str) -> Self {
        Self { missing, ..self }
    }

    /// Whether it is a counted list of keys.
    pub(super) const fn is_list_of_keys(&self) -> bool {
        matches!(self.kind, Kind::Counted([_, Self { kind: Kind::Key, .. }]))
    }

    /// The fewest words that it takes, and whether it never takes more.
    pub(super) fn fewest(&self) -> (usize, bool) {
        if self.optional {
            return (0, false);
        }
        let (words, exact) = match self.kind {
            Kind::Word => (0, true),
            Kind::Block(inner) => fewest(inner),
            Kind::Counted(inner) => (fewest(inner).0, false),
            Kind::OneOf(inner) => {
                let words = inner.iter().map(|one| one.fewest().0);
                let (few, most) = (words.clone().min().unwrap_or(0), words.max().unwrap_or(0));
                (few, few == most && inner.iter().all(|one| one.fewest().1))
            }
            _ => (1, true),
        };
        (words + usize::from(self.token.is_some()), exact && !self.many)
    }
}

/// The fewest words that several take together, and whether they never take more.
pub(super) fn fewest(parameters: &[Parameter]) -> (usize, bool) {
    let all = parameters.iter().map(Parameter::fewest);
    all.fold((0, true), |(sum, exact), (words, one_exact)| (sum + words, exact && one_exact))
}

impl Parameter {
    /// Whether this word is the parameter's keyword. Returns the index of the keyword if it has several, otherwise 0.
    #[inline]
    pub(super) fn begins_with(&self, word: &[u8]) -> Option<i64> {
        match self.keyword {
            Some(keyword) => is(word, keyword).then_some(0),
            None => self.begins_with_one_of(word),
        }
    }

    fn begins_with_one_of(&self, word: &[u8]) -> Option<i64> {
        match self.kind {
            Kind::OneOf(inner) => position(inner, |one| one.begins_with(word).is_some()),
            _ => None,
        }
    }

    /// The number that a word stands for; 0 if the parameter is no number; `None` if the word is not allowed.
    #[inline]
    pub(super) fn read(&self, word: &[u8]) -> Option<i64> {
        match self.kind {
            Kind::Name => is_identifier(word).then_some(0),
            Kind::Like(is_like, _) => is_like(word).then_some(0),
            Kind::Integer => integer(word),
            Kind::Natural => natural_number(word).map(|number| number as i64),
            _ => Some(0),
        }
    }

    /// Whether this word may be the first word of the parameter, if the parameter has no keyword.
    pub(super) fn takes(&self, word: &[u8]) -> bool {
        match self.kind {
            Kind::Like(is_like, _) => is_like(word),
            Kind::Integer => integer(word).is_some(),
            _ => true,
        }
    }
}

/// Whether a command may have keys other than its first argument: after a keyword, or as a list. Redis 7.0 asks the
/// command for the places of such keys, and so do other servers that do not read key specifications.
pub(crate) const fn has_later_keys(parameters: &[Parameter]) -> bool {
    let mut rest = parameters;
    while let [parameter, later @ ..] = rest {
        if matches!(parameter.kind, Kind::Key) && (parameter.token.is_some() || parameter.many)
            || parameter.is_list_of_keys()
        {
            return true;
        }
        rest = later;
    }
    false
}

/// The index of the first parameter for which `is_it` is true.
pub(super) fn position(parameters: &[Parameter], is_it: impl Fn(&Parameter) -> bool) -> Option<i64> {
    parameters.iter().position(is_it).map(|place| place as i64)
}

/// The keywords of several parameters.
pub(super) fn tokens(parameters: &'static [Parameter]) -> impl ExactSizeIterator<Item = &'static str> {
    parameters.iter().map(|one| one.token.unwrap_or(one.name))
}
